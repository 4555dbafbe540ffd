// Which devices a version waits for, where a run waits only for those that it has seen: the server has judged an update
// or a refusal of theirs in one of the last N versions.
//
//   judged in v --> awaited in v + 1 ... v + N --> no more, until it is judged again
//
// All of it follows from records, so that a replay decides nothing. What is awaited changes with a version and never
// within one. A version costs those that come and go, and not the fleet.
#ifndef GRADSTREAM_SERVER_COORDINATOR_ATTENDANCE_H_
#define GRADSTREAM_SERVER_COORDINATOR_ATTENDANCE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "server/base/state_archive.h"

namespace gradstream {

class Attendance {
 public:
  // version_count: N; 0: nobody is noted, and nobody is awaited by this.
  explicit Attendance(uint32_t version_count) : version_count_(version_count) {}

  bool is_kept() const { return version_count_ > 0; }
  // One more device, which was not seen.
  void add();
  // The device was seen in the open version. Without one it has no effect.
  void note(uint32_t index);
  // The version is open from now on; versions follow one another without gaps.
  void begin_version(uint32_t version);
  bool is_awaited(uint32_t index) const { return is_kept() && is_awaited_[index]; }
  // The last version that the device was seen in; none: it was not.
  std::optional<uint32_t> last_seen(uint32_t index) const {
    return is_kept() && seen_[index] != kNever ? std::optional(seen_[index]) : std::nullopt;
  }
  // Who is awaited since the open version began, and was not before; and who was.
  std::span<const uint32_t> come() const { return come_; }
  std::span<const uint32_t> gone() const { return gone_; }

  // Of a checkpoint, right after `version` was begun: a reader opens it. count: devices of the checkpoint.
  void exchange(StateArchive& io, uint32_t version, uint32_t count);

 private:
  static constexpr uint32_t kNever = 0xffffffffU;
  void set_awaited(uint32_t index, bool is_awaited);

  uint32_t version_count_;
  uint32_t open_ = kNever;
  std::vector<uint32_t> seen_;                    // by device: the last version that it was seen in
  std::vector<bool> is_awaited_;                  // by device
  std::deque<std::vector<uint32_t>> by_version_;  // seen in it, of the open version and the N before it
  std::vector<uint32_t> come_;
  std::vector<uint32_t> gone_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_ATTENDANCE_H_
