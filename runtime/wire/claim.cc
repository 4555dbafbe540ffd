#include "runtime/base/no_contraction.h"

#include "runtime/wire/claim.h"

#include <cstring>

#include <pb_decode.h>
#include <pb_encode.h>

#include "runtime/base/config.h"
#include "runtime/wire/frame.h"

namespace gradstream {
namespace {

static_assert(gs_ClaimRequest_size <= kMessageSizeMax && gs_ClaimAnswer_size <= kMessageSizeMax);
static_assert(sizeof(gs_ClaimRequest{}.key.bytes) == Identity::kKeySize && kClaimNameSizeMax < Identity::kNameSizeMax);
static_assert(sizeof(gs_ClaimRequest{}.device_public.bytes) == Identity::kKeySize &&
              sizeof(gs_ClaimAnswer{}.confirm.bytes) == kConfirmSize);

Result<size_t> encode(const pb_msgdesc_t* fields, const void* message, uint8_t* out) {
  pb_ostream_t stream = pb_ostream_from_buffer(out + kFramePrefixSize, kMessageSizeMax);
  if (!pb_encode(&stream, fields, message)) {
    return Status::kInvalidArgument;
  }
  write_frame_prefix(stream.bytes_written, out);
  return kFramePrefixSize + stream.bytes_written;
}

bool decode(const pb_msgdesc_t* fields, std::span<const uint8_t> payload, void* out) {
  pb_istream_t stream = pb_istream_from_buffer(payload.data(), payload.size());
  return payload.size() <= kMessageSizeMax && pb_decode(&stream, fields, out);
}

// Into a field of bytes that has room for them.
template <size_t kSize, typename Field>
void put(const uint8_t (&bytes)[kSize], Field* field) {
  static_assert(sizeof(field->bytes) == kSize);
  std::memcpy(field->bytes, bytes, kSize);
  field->size = kSize;
}

}  // namespace

bool is_claimable_name(std::string_view name) {
  if (name.empty() || name.size() > kClaimNameSizeMax || name[0] == '#' || name == "name") {
    return false;
  }
  for (const char c : name) {
    if (c <= ' ' || c >= kClaimMark || c == ',' || c == '/') {
      return false;
    }
  }
  return true;
}

Result<size_t> encode_claim_request(const ClaimRequest& request, uint8_t* out) {
  const std::string_view name(request.device.name);
  if (!is_claimable_name(name)) {
    return Status::kInvalidArgument;
  }
  gs_ClaimRequest message = {};
  std::memcpy(message.name, name.data(), name.size());
  if (request.is_proven) {
    put(request.device.key, &message.device_public);
    put(request.confirm, &message.confirm);
  } else {
    put(request.device.key, &message.key);
  }
  const Result<size_t> size = encode(gs_ClaimRequest_fields, &message, out);
  std::memset(&message, 0, sizeof(message));
  return size;
}

Result<size_t> encode_claim_answer(const ClaimVerdict& verdict, const gs_RetryWindow& retry, uint8_t* out) {
  gs_ClaimAnswer answer = {};
  answer.reason = verdict.reason;
  answer.has_retry = true;
  answer.retry = retry;
  if (verdict.is_confirmed) {
    put(verdict.confirm, &answer.confirm);
  }
  return encode(gs_ClaimAnswer_fields, &answer, out);
}

Status decode_claim_request(std::span<const uint8_t> payload, ClaimRequest* out) {
  gs_ClaimRequest message = {};
  const bool is_decoded = decode(gs_ClaimRequest_fields, payload, &message) && is_claimable_name(message.name);
  const bool is_proven = message.device_public.size != 0;
  const uint8_t* const key = is_proven ? message.device_public.bytes : message.key.bytes;
  const bool has_sizes = is_proven ? message.device_public.size == Identity::kKeySize && message.key.size == 0 &&
                                         message.confirm.size == kConfirmSize
                                   : message.key.size == Identity::kKeySize && message.confirm.size == 0;
  const bool is_good = is_decoded && has_sizes && !is_undrawn_key({key, Identity::kKeySize});
  *out = ClaimRequest();
  if (is_good) {
    out->is_proven = is_proven;
    std::memcpy(out->device.name, message.name, sizeof(message.name));
    std::memcpy(out->device.key, key, sizeof(out->device.key));
    std::memcpy(out->confirm, message.confirm.bytes, kConfirmSize);
  }
  std::memset(&message, 0, sizeof(message));
  return is_good ? Status::kOk : Status::kDataCorrupt;
}

Status decode_claim_answer(std::span<const uint8_t> payload, ClaimVerdict* out) {
  *out = {};
  gs_ClaimAnswer answer = {};
  if (!decode(gs_ClaimAnswer_fields, payload, &answer)) {
    return Status::kDataCorrupt;
  }
  uint32_t reason = 0;  // as the number that was sent, which may be no enumerator
  std::memcpy(&reason, &answer.reason, sizeof(reason));
  if (reason > static_cast<uint32_t>(_gs_Reason_MAX) || answer.retry.min_ms > answer.retry.max_ms ||
      (answer.confirm.size != 0 && answer.confirm.size != kConfirmSize)) {
    return Status::kDataCorrupt;
  }
  out->reason = answer.reason;
  out->is_confirmed = answer.confirm.size != 0;
  std::memcpy(out->confirm, answer.confirm.bytes, kConfirmSize);
  return Status::kOk;
}

}  // namespace gradstream
