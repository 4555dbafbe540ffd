#include "runtime/base/no_contraction.h"

#include "runtime/wire/key_change.h"

#include <cstring>

#include <pb_decode.h>
#include <pb_encode.h>

#include "proto/gradstream.pb.h"
#include "runtime/base/config.h"
#include "runtime/wire/frame.h"

namespace gradstream {
namespace {

static_assert(gs_DeviceKeyMessage_size <= kMessageSizeMax && gs_ServerKeyMessage_size <= kMessageSizeMax);
static_assert(sizeof(gs_KeyChange{}.public_key.bytes) == Identity::kKeySize &&
              sizeof(gs_KeyChange{}.confirm.bytes) == kConfirmSize);

// What the messages of each end may hold beside the generation.
bool is_of_device(const KeyChange& change) { return change.has_public && change.has_confirm; }
bool is_of_server(const KeyChange& change) { return !change.has_public || !change.has_confirm; }

template <typename Message>
Result<size_t> encode(const pb_msgdesc_t* fields, const KeyChange& change, bool is_whole, uint8_t* out) {
  if (!is_whole || change.generation == 0) {
    return Status::kInvalidArgument;
  }
  Message message = {};
  message.has_key_change = true;
  message.key_change.generation = change.generation;
  if (change.has_public) {
    message.key_change.public_key.size = Identity::kKeySize;
    std::memcpy(message.key_change.public_key.bytes, change.public_key, Identity::kKeySize);
  }
  if (change.has_confirm) {
    message.key_change.confirm.size = kConfirmSize;
    std::memcpy(message.key_change.confirm.bytes, change.confirm, kConfirmSize);
  }
  pb_ostream_t stream = pb_ostream_from_buffer(out + kFramePrefixSize, kMessageSizeMax);
  if (!pb_encode(&stream, fields, &message)) {
    return Status::kInvalidArgument;
  }
  write_frame_prefix(stream.bytes_written, out);
  return kFramePrefixSize + stream.bytes_written;
}

template <typename Message>
bool decode(const pb_msgdesc_t* fields, std::span<const uint8_t> payload, KeyChange* out) {
  Message message = {};
  pb_istream_t stream = pb_istream_from_buffer(payload.data(), payload.size());
  *out = KeyChange();
  if (payload.size() > kMessageSizeMax || !pb_decode(&stream, fields, &message) || !message.has_key_change) {
    return false;
  }
  const gs_KeyChange& change = message.key_change;
  const bool has_public = change.public_key.size != 0;
  const bool has_confirm = change.confirm.size != 0;
  const bool is_good = change.generation != 0 && (!has_confirm || change.confirm.size == kConfirmSize) &&
                       (!has_public || (change.public_key.size == Identity::kKeySize &&
                                        !is_undrawn_key({change.public_key.bytes, Identity::kKeySize})));
  if (is_good) {
    out->generation = change.generation;
    out->has_public = has_public;
    out->has_confirm = has_confirm;
    std::memcpy(out->public_key, change.public_key.bytes, Identity::kKeySize);
    std::memcpy(out->confirm, change.confirm.bytes, kConfirmSize);
  }
  return is_good;
}

Status judge(bool is_good, KeyChange* out) {
  if (!is_good) {
    *out = KeyChange();
  }
  return is_good ? Status::kOk : Status::kDataCorrupt;
}

}  // namespace

Result<size_t> encode_key_change_of_device(const KeyChange& change, uint8_t* out) {
  return encode<gs_DeviceKeyMessage>(gs_DeviceKeyMessage_fields, change, is_of_device(change), out);
}

Result<size_t> encode_key_change_of_server(const KeyChange& change, uint8_t* out) {
  return encode<gs_ServerKeyMessage>(gs_ServerKeyMessage_fields, change, is_of_server(change), out);
}

Status decode_key_change_of_device(std::span<const uint8_t> payload, KeyChange* out) {
  return judge(decode<gs_DeviceKeyMessage>(gs_DeviceKeyMessage_fields, payload, out) && is_of_device(*out), out);
}

Status decode_key_change_of_server(std::span<const uint8_t> payload, KeyChange* out) {
  return judge(decode<gs_ServerKeyMessage>(gs_ServerKeyMessage_fields, payload, out) && is_of_server(*out), out);
}

}  // namespace gradstream
