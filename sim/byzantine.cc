#include "sim/byzantine.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <pb_common.h>

#include "runtime/base/crc32c.h"

namespace gradstream {
namespace {

// Messages that it may say again. Reason: an update of a small run with the Hello and the Pulls around it.
constexpr size_t kPastMax = 16;
// One message in so many is an earlier one, one is changed, the others are true. Reason: with more lies the device
// never has a task, and there is little to lie about.
constexpr uint32_t kRepeatOdds = 12, kChangeOdds = 3;
// Of a message that is changed one field in so many.
constexpr uint32_t kFieldOdds = 8;

// Another value of a number of so many bytes.
uint64_t other_value(uint64_t value, size_t size, Dice* dice) {
  const uint64_t most = size >= sizeof(uint64_t) ? UINT64_MAX : (uint64_t{1} << (8 * size)) - 1;
  switch (dice->between(0, 5)) {
    case 0:
      return value + 1;
    case 1:
      return value - 1;
    case 2:
      return 0;
    case 3:
      return most;
    case 4:
      return dice->between(0, 16);  // an enum, a small count
    default:
      return (dice->between(0, UINT32_MAX) << 32 | dice->between(0, UINT32_MAX)) & most;
  }
}

class Changer {
 public:
  Changer(uint32_t odds, Dice* dice) : odds_(odds), dice_(dice) {}

  void change(const pb_msgdesc_t* description, void* message) {
    pb_field_iter_t field = {};
    if (!pb_field_iter_begin(&field, description, message)) {
      return;
    }
    do {
      change(field);
    } while (pb_field_iter_next(&field));
  }
  size_t count() const { return count_; }

 private:
  void change(const pb_field_iter_t& field) {
    if (PB_HTYPE(field.type) == PB_HTYPE_ONEOF && *static_cast<pb_size_t*>(field.pSize) != field.tag) {
      return;
    }
    if (PB_HTYPE(field.type) == PB_HTYPE_OPTIONAL && field.pSize != nullptr) {
      auto* const is_there = static_cast<bool*>(field.pSize);
      if (dice_->one_in(odds_)) {
        *is_there = !*is_there;
        ++count_;
      }
    }
    if (PB_LTYPE_IS_SUBMSG(field.type)) {
      change(field.submsg_desc, field.pData);
    } else if (PB_LTYPE(field.type) == PB_LTYPE_BYTES) {
      change_bytes(static_cast<pb_bytes_array_t*>(field.pData), field.data_size);
    } else if (PB_LTYPE(field.type) <= PB_LTYPE_LAST_PACKABLE && dice_->one_in(odds_)) {
      change_number(field);
    }
  }
  void change_number(const pb_field_iter_t& field) {
    uint64_t value = 0;
    std::memcpy(&value, field.pData, field.data_size);
    value = PB_LTYPE(field.type) == PB_LTYPE_BOOL ? value ^ 1 : other_value(value, field.data_size, dice_);
    std::memcpy(field.pData, &value, field.data_size);
    ++count_;
  }
  void change_bytes(pb_bytes_array_t* bytes, size_t data_size) {
    const size_t capacity = data_size - offsetof(pb_bytes_array_t, bytes);
    if (dice_->one_in(odds_) && bytes->size > 0) {
      bytes->bytes[dice_->between(0, bytes->size - 1U)] ^= static_cast<pb_byte_t>(dice_->between(1, 255));
      ++count_;
    }
    if (dice_->one_in(8 * odds_)) {
      bytes->size = static_cast<pb_size_t>(dice_->between(0, capacity));
      ++count_;
    }
  }

  uint32_t odds_;
  Dice* dice_;
  size_t count_ = 0;
};

// Lies that are signed reach further than those that a checksum shows.
template <typename Update>
void sign(Update* update) {
  update->crc32c = crc32c(0, update->values.bytes, update->values.size);
}

bool passes_codec(const DeviceMessage& message, DeviceMessage* out) {
  std::array<uint8_t, kFrameSizeMax> frame = {};
  const Result<size_t> size = encode_frame(message, frame.data());
  return size.ok() &&
         decode_message(std::span<const uint8_t>(frame).subspan(kFramePrefixSize, size.value() - kFramePrefixSize),
                        out) == Status::kOk;
}

}  // namespace

size_t change_fields(uint32_t odds, Dice* dice, DeviceMessage* message) {
  Changer changer(odds, dice);
  changer.change(gs_DeviceMessage_fields, message);
  return changer.count();
}

void Byzantine::remember(const DeviceMessage& message) {
  if (past_.size() < kPastMax) {
    past_.push_back(message);
  } else {
    past_[dice_.between(0, kPastMax - 1)] = message;
  }
}

void Byzantine::tell(DeviceMessage* message) {
  remember(*message);
  if (dice_.one_in(kRepeatOdds)) {
    *message = past_[dice_.between(0, past_.size() - 1)];
    ++repeat_count_;
    return;
  }
  if (!dice_.one_in(kChangeOdds)) {
    return;
  }
  DeviceMessage lie = *message;
  const size_t count = change_fields(kFieldOdds, &dice_, &lie);
  if (dice_.one_in(2) && lie.which_body == gs_DeviceMessage_update_scalars_tag) {
    sign(&lie.body.update_scalars);
  } else if (dice_.one_in(2) && lie.which_body == gs_DeviceMessage_update_tangent_tag) {
    sign(&lie.body.update_tangent);
  }
  DeviceMessage heard = {};
  if (passes_codec(lie, &heard)) {
    *message = heard;
    field_count_ += count;
  }
}

}  // namespace gradstream
