// A set of enrolment indices that tells its n-th member: who of a large fleet is active, or blocked. To add, to remove
// and to tell a member takes the logarithm of the fleet, so that no version walks all devices for the few it names.
//
//   append() -> 0, 1, 2, ...   set(1, false)   ->   count() = 2, at(1) = 2
#ifndef GRADSTREAM_SERVER_COORDINATOR_DEVICE_RANKS_H_
#define GRADSTREAM_SERVER_COORDINATOR_DEVICE_RANKS_H_

#include <cstdint>
#include <vector>

namespace gradstream {

class DeviceRanks {
 public:
  // The next index.
  void append(bool is_in);
  // index: of one that was appended.
  void set(uint32_t index, bool is_in);
  bool contains(uint32_t index) const;
  // Members.
  uint32_t count() const { return count_; }
  // The member that has `rank` members below it; rank < count().
  uint32_t at(uint32_t rank) const;

 private:
  uint32_t size() const { return static_cast<uint32_t>(is_in_.size()); }

  std::vector<bool> is_in_;
  std::vector<uint32_t> sums_;  // of a binary indexed tree (Fenwick, 1994): entry i - 1 has the lowbit(i) last of i
  uint32_t count_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_DEVICE_RANKS_H_
