#include "runtime/base/no_contraction.h"

#include "runtime/link/client_slots.h"

#include <cstring>
#include <utility>

namespace gradstream {

Status UploadSlots::prepare(size_t size, uint32_t count, size_t mark, Arena& arena) {
  if (count > kSlotCountMax) {
    return Status::kInvalidArgument;
  }
  if (count * Arena::taken_size<uint8_t>(size) > arena.size() - mark) {
    return Status::kOutOfMemory;
  }
  give_up();
  arena.release(mark);
  for (uint32_t i = 0; i < count; ++i) {
    const Result<uint8_t*> memory = arena.persistent<uint8_t>(size);
    GS_TRY(memory.status());
    memory_[i] = memory.value();
  }
  room_size_ = static_cast<uint32_t>(size);
  count_ = count;
  return Status::kOk;
}

void UploadSlots::give_up() {
  for (uint32_t i = 0; i < kSlotCountMax; ++i) {
    memory_[i] = nullptr;
    uploads_[i] = StoredUpload{};
  }
  room_size_ = 0;
  count_ = 0;
}

void UploadSlots::put(const StoredUpload& encoded) {
  GS_ASSERT(encoded.size <= room_size_);
  uploads_[index_of(SlotRole::kPending)] = encoded;
}

void UploadSlots::accept(uint32_t record_version, uint32_t clip_scale) {
  move(SlotRole::kPending, SlotRole::kAccepted);
  uploads_[index_of(SlotRole::kAccepted)].clip_scale = clip_scale;
  accepted_record_ = record_version;
}

void UploadSlots::hold() { move(SlotRole::kAccepted, SlotRole::kHeld); }

// The bytes stay: the two roles exchange their memory.
void UploadSlots::move(SlotRole from, SlotRole to) {
  GS_ASSERT(static_cast<uint32_t>(to) < count_);
  uploads_[index_of(to)] = upload(from);
  drop(from);
  std::swap(memory_[index_of(from)], memory_[index_of(to)]);
}

bool UploadSlots::restore(SlotRole role, const StoredUpload& saved, std::span<const uint8_t> bytes,
                          uint32_t record_version) {
  if (saved.task_sequence == 0 || static_cast<uint32_t>(role) >= count_ || saved.size > room_size_ ||
      bytes.size() != saved.size || crc32c(0, bytes.data(), bytes.size()) != saved.crc) {
    return false;
  }
  uploads_[index_of(role)] = saved;
  std::memcpy(memory_[index_of(role)], bytes.data(), bytes.size());
  if (role == SlotRole::kAccepted) {
    accepted_record_ = record_version;
  }
  return true;
}

}  // namespace gradstream
