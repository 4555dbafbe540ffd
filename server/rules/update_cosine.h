// Where updates point: the cosine of each to the sum that a version makes its step of. For people, who see in it a
// device that pulls against the others. It decides nothing, so that sums of reals will do.
#ifndef GRADSTREAM_SERVER_RULES_UPDATE_COSINE_H_
#define GRADSTREAM_SERVER_RULES_UPDATE_COSINE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/base/config.h"

namespace gradstream {

// Updates whose values stand for the same directions. Their sum is the step up to a factor: each number of it is, with
// scalars, the step's part along one direction.
class CosineSum {
 public:
  // factor: what the update counts in the sum, for each unit of its values. Shorter updates have zeros behind.
  void add(std::span<const Real> values, Real factor);
  // All have been added: cosine() may be called.
  void close();
  // Of an update that was added and is `length` long, -1 to 1; 0 where it is the only one, or either is 0.
  double cosine(std::span<const Real> values, double length) const;

 private:
  std::vector<Real> sum_;
  Real length_ = 0;  // of the sum
  size_t count_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_UPDATE_COSINE_H_
