// What the weights of a version add up to, in whole numbers: the same in any order, and whether one server adds them or
// several.
#ifndef GRADSTREAM_SERVER_RULES_WEIGHT_SUM_H_
#define GRADSTREAM_SERVER_RULES_WEIGHT_SUM_H_

#include <cstdint>

#include "runtime/base/config.h"
#include "runtime/base/status.h"
#include "server/base/state_archive.h"
#include "server/rules/wide_int.h"

namespace gradstream {

class WeightSum {
 public:
  void clear() { *this = WeightSum(); }
  // Whether it has kFoldUpdateCountMax updates.
  bool is_full() const;
  // An update; it is not full. weight and steps_done are above 0.
  void add(uint16_t weight, uint32_t steps_done);
  // All updates of another sum. kOutOfRange: together they are more than kFoldUpdateCountMax; nothing is added then.
  Status check(const WeightSum& other) const;
  void add(const WeightSum& other);

  uint64_t total() const { return total_; }
  uint32_t update_count() const { return update_count_; }
  // K_eff = sum W k / sum W. Not of an empty sum.
  Real effective_steps() const;

  // All of it. A reader fails on numbers that no updates make.
  void exchange(StateArchive& io);

  friend bool operator==(const WeightSum&, const WeightSum&) = default;

 private:
  bool is_possible() const;

  uint64_t total_ = 0;
  uint32_t update_count_ = 0;
  WideInt weighted_steps_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_WEIGHT_SUM_H_
