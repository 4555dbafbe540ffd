// The rows of the benchmark: which operation on which shapes, by ours and by the peers.
#ifndef GRADSTREAM_BENCH_MANIFOLD_CASES_H_
#define GRADSTREAM_BENCH_MANIFOLD_CASES_H_

#include <functional>
#include <span>
#include <vector>

#include "bench/manifold_operands.h"
#include "runtime/manifold/manifold.h"

namespace gradstream {

inline constexpr Shape kBoardShape = {64, 4};

// What of the two sides' results must agree.
enum class Agreement { kEntries, kEntriesButColumnSigns, kFactoredMatrix };

struct Operation {
  const char* name;
  const ManifoldOps* ops;
  std::span<const Shape> shapes;
  std::function<Status(const ManifoldOps&, Operands&, Arena&)> ours;
  std::function<void(Operands&)> with_eigen;
  std::function<void(Operands&)> with_lapack;  // none: LAPACK has nothing of the kind
  Agreement agreement = Agreement::kEntries;
};

std::vector<Operation> make_operations();
// The bars are for the manifolds of tall matrices; the other rows are there to be seen.
bool has_bar(const Operation& operation);

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_MANIFOLD_CASES_H_
