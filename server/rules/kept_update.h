// One update as a rule with a memory keeps it, as plain data: several servers take a version's updates in apart, and
// one of them adds all of them up. What such a rule remembers of a device is the last of its updates, in this form.
//
//   a front: prepare(), commit() -> take_updates() -> encode_kept() -> bytes in an engine
//   a leader: decode_kept() -> remember() of each device's last one, end_memory() -> add_update() of the open version's
//
// All numbers are whole, so that neither the division among servers nor the order changes a bit of the record. A device
// may have two updates in a version: they are added in the order of their base versions.
//
// Bytes, little-endian as StateArchive has them: form u8, device u32, base version u32, owner u32, steps u32, weight
// u16, samples u16, clip scale u32, count of shares u32, and each of them i32.
#ifndef GRADSTREAM_SERVER_RULES_KEPT_UPDATE_H_
#define GRADSTREAM_SERVER_RULES_KEPT_UPDATE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/training/clip.h"

namespace gradstream {

struct KeptUpdate {
  uint32_t device = 0;        // enrolment index
  uint32_t base_version = 0;  // of the model that it was made from
  uint32_t owner = 0;         // of its directions
  uint32_t steps_done = 0;    // k_i, at least 1
  uint16_t weight = 0;        // of its staleness, of kStalenessOne; at least 1
  uint16_t samples = 1;       // N_i; 1 where all devices weigh the same
  uint32_t clip_scale = kClipScaleOne;
  std::vector<int32_t> shares;  // what the clip left, in units of the fold's fixed point; at least one
  friend bool operator==(const KeptUpdate&, const KeptUpdate&) = default;
};

std::vector<uint8_t> encode_kept(const KeptUpdate& update);
// Bytes that encode_kept() makes of an update with so many shares.
constexpr uint64_t kept_bytes(uint64_t share_count) { return 29 + sizeof(int32_t) * share_count; }
// kDataCorrupt: bytes that encode_kept() does not make. *update is then unspecified. Whether it fits a run the rule
// says.
Status decode_kept(std::span<const uint8_t> bytes, KeptUpdate* update);

// What a rule with a memory does where the memory is stored outside, for several servers. share() comes first.
class UpdateKeeper {
 public:
  virtual ~UpdateKeeper() = default;
  // Forgets what is remembered of devices. Records are followed without it from now on, and updates are taken in that
  // fit at any weights: however many others add to the same version. finish() wants the memory back.
  virtual void share() = 0;
  // Whether what is remembered is here.
  virtual bool has_memory() const = 0;
  // What was added since the version began, by ascending (device, base version), and forgets it.
  virtual std::vector<KeptUpdate> take_updates() = 0;
  // The memory comes back, of one device after the other by ascending index; then end_memory() says whether it is that
  // of the replica's mean. kDataCorrupt: it is not, or the update is none of this run.
  virtual Status remember(const KeptUpdate& update) = 0;
  virtual Status end_memory() = 0;
  // The memory is this server's alone again: its state has it from now on. has_memory().
  virtual void own() = 0;
  // What is remembered, by ascending device, as remember() takes it. The steps of a tangent are not known any more, and
  // stand as 1; the weight stands as kStalenessOne.
  virtual std::vector<KeptUpdate> memory() const = 0;
  // Whether the update stays within the range of the mean at any weights of its device and of all others.
  virtual bool fits_at_any_weight(const KeptUpdate& update) const = 0;
  // Whether the mean behind the open version stays in its range. No record leads to one that does not. has_memory().
  virtual bool fits_mean() const = 0;
  // Adds an update that another server has taken in, in the order of take_updates() for each device. has_memory().
  // - kDataCorrupt: no server of this run takes it in. It is of another form, of a version that is not there yet or too
  //   old, has more steps than a task, or does not fit at any weight.
  // - kProtocolError: an update of the same device from the same or a newer version counts already.
  // - kOutOfRange: one update too many for a version.
  virtual Status add_update(const KeptUpdate& update) = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_KEPT_UPDATE_H_
