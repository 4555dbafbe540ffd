// An update into a fold, as a rule adds it, for tests and for the digest of the arithmetic. No heap: boards run it too.
#ifndef GRADSTREAM_TESTS_SUPPORT_FOLD_ADD_H_
#define GRADSTREAM_TESTS_SUPPORT_FOLD_ADD_H_

#include <algorithm>
#include <span>

#include "runtime/base/config.h"
#include "runtime/base/status.h"
#include "server/rules/fold.h"

namespace gradstream {

// Adds weight * values[i] to slot first + i. terms: room for first + values.size() of them. Codes of make_terms() and
// Fold::check_terms(); on an error nothing has been added.
inline Status add_update(Fold* fold, unsigned scale_log2, std::span<const Real> values, uint16_t weight, size_t first,
                         FoldTerm* terms) {
  std::fill_n(terms, first, FoldTerm{0});
  GS_TRY(make_terms(values, 1, weight, scale_log2, terms + first));
  const std::span<const FoldTerm> all(terms, first + values.size());
  GS_TRY(fold->check_terms(all));
  fold->add_terms(all);
  return Status::kOk;
}

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_FOLD_ADD_H_
