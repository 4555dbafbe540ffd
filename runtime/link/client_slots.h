// The uploads that a device keeps of a run, and the memory of their bytes.
//
//   pending    encoded, and not judged yet: it is sent again, byte for byte, until an Ack
//   accepted   folded into a version whose record is not applied yet; a correction needs it then
//   held       with a memory: the one that the run's mean counts for this device
//
// An upload goes from pending to accepted to held, and its bytes stay where they are.
#ifndef GRADSTREAM_RUNTIME_LINK_CLIENT_SLOTS_H_
#define GRADSTREAM_RUNTIME_LINK_CLIENT_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/arena.h"
#include "runtime/base/status.h"
#include "runtime/link/client_fields.h"
#include "runtime/training/encoding.h"
#include "runtime/training/stream.h"
#include "runtime/training/task.h"

namespace gradstream {

// One update as it is kept, without its bytes: everything that a resend or a correction needs besides.
struct StoredUpload {
  uint32_t task_sequence = 0;  // 0: there is none
  uint32_t base_version = 0;
  uint32_t steps_done = 0;
  uint32_t direction_count = 0;
  uint32_t value_count = 0;
  uint32_t size = 0;  // bytes
  uint32_t crc = 0;   // CRC-32C of the bytes
  uint32_t step_time_us = 0;
  float loss_before = 0;
  float loss_after = 0;
  Encoding encoding = Encoding::kNone;
  StreamKind kind = StreamKind::kNone;
  bool use_correction = false;          // of its task
  TaskStage stage = TaskStage::kTrain;  // of its task
  bool has_line = false;
  float slope = 0;  // of the line
  float curvature = 0;
  uint32_t held_out_count = 0;  // samples of its evaluation; 0: it has none
  float held_out_loss = 0;
  float metric = 0;
  uint32_t clip_scale = 0;  // as its Ack said
};

// All of its fields, and their words in the saved state.
inline constexpr WordField kUploadFields[] = {
    GS_WORD_FIELD(StoredUpload, task_sequence, 0),
    GS_WORD_FIELD(StoredUpload, base_version, 1),
    GS_WORD_FIELD(StoredUpload, steps_done, 2),
    GS_WORD_FIELD(StoredUpload, direction_count, 3),
    GS_WORD_FIELD(StoredUpload, value_count, 4),
    GS_WORD_FIELD(StoredUpload, size, 5),
    GS_WORD_FIELD(StoredUpload, crc, 6),
    GS_WORD_FIELD(StoredUpload, step_time_us, 7),
    GS_WORD_FIELD(StoredUpload, loss_before, 8),
    GS_WORD_FIELD(StoredUpload, loss_after, 9),
    GS_WORD_FIELD(StoredUpload, encoding, 10),
    GS_WORD_FIELD(StoredUpload, kind, 11),
    GS_WORD_FIELD(StoredUpload, use_correction, 12),
    GS_WORD_FIELD(StoredUpload, stage, 13),
    GS_WORD_FIELD(StoredUpload, has_line, 14),
    GS_WORD_FIELD(StoredUpload, slope, 15),
    GS_WORD_FIELD(StoredUpload, curvature, 16),
    GS_WORD_FIELD(StoredUpload, held_out_count, 17),
    GS_WORD_FIELD(StoredUpload, held_out_loss, 18),
    GS_WORD_FIELD(StoredUpload, metric, 19),
    GS_WORD_FIELD(StoredUpload, clip_scale, 20),
};
inline constexpr size_t kUploadWordCount = 21;

// Which of a run's uploads. The order is that of the saved state.
enum class SlotRole : uint8_t { kPending, kAccepted, kHeld };
inline constexpr uint32_t kSlotCountMax = 3;

// Invariants:
// - With room for n uploads the first n roles have memory of room_size() bytes each, and no two roles the same.
// - A role has an upload only where it has memory, and that upload's bytes fit it.
// - Where there is no room there is no upload.
class UploadSlots {
 public:
  bool has(SlotRole role) const { return upload(role).task_sequence != 0; }
  bool is_empty() const { return !has(SlotRole::kPending) && !has(SlotRole::kAccepted) && !has(SlotRole::kHeld); }
  // Without one: all zero.
  const StoredUpload& upload(SlotRole role) const { return uploads_[index_of(role)]; }
  // The encoded bytes of the upload; none without one.
  std::span<const uint8_t> bytes(SlotRole role) const { return {memory_[index_of(role)], upload(role).size}; }
  // Version that the record with the accepted upload leads to; means nothing without one.
  uint32_t accepted_record() const { return accepted_record_; }

  // Uploads that there is room for, and bytes of each.
  uint32_t count() const { return count_; }
  uint32_t room_size() const { return room_size_; }
  bool fits(size_t size, uint32_t count) const { return size <= room_size_ && count <= count_; }

  // Room for `count` (at most kSlotCountMax) uploads of `size` bytes each, in place of what was there: the arena gives
  // back all above `mark` first. All uploads are gone. On an error nothing has changed: kOutOfMemory, or
  // kInvalidArgument for a larger count.
  Status prepare(size_t size, uint32_t count, size_t mark, Arena& arena);
  // The arena has taken the memory back: no room, no upload.
  void give_up();

  // Where the next pending upload is encoded: room_size() bytes, and nobody's until put().
  uint8_t* next_bytes() { return memory_[index_of(SlotRole::kPending)]; }
  // The bytes at next_bytes() are this upload's, which is pending from now on.
  void put(const StoredUpload& encoded);
  // The pending upload becomes the accepted one, in place of another, whose record leads to `record_version`.
  // clip_scale: of its Ack.
  void accept(uint32_t record_version, uint32_t clip_scale = 0);
  // The accepted upload becomes the held one, in place of another.
  void hold();
  void drop(SlotRole role) { uploads_[index_of(role)] = StoredUpload{}; }
  // Takes over an upload that was saved. false: there is none, no room for it, or its bytes are not those of its
  // checksum; the role is then as before. record_version: of the accepted upload.
  bool restore(SlotRole role, const StoredUpload& saved, std::span<const uint8_t> bytes, uint32_t record_version);

 private:
  static size_t index_of(SlotRole role) { return static_cast<size_t>(role); }
  void move(SlotRole from, SlotRole to);

  uint8_t* memory_[kSlotCountMax] = {};
  StoredUpload uploads_[kSlotCountMax];
  uint32_t accepted_record_ = 0;
  uint32_t room_size_ = 0;
  uint32_t count_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CLIENT_SLOTS_H_
