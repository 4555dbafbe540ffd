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

Result<size_t> encode(const pb_msgdesc_t* fields, const void* message, uint8_t* out) {
  pb_ostream_t stream = pb_ostream_from_buffer(out + kFramePrefixSize, kMessageSizeMax);
  if (!pb_encode(&stream, fields, message)) {
    return Status::kInvalidArgument;
  }
  if (stream.bytes_written == 0) {              // an answer whose fields are all zero: a frame holds one byte at least
    const uint8_t unknown_field[] = {0x78, 0};  // 15, which every reader skips
    if (!pb_write(&stream, unknown_field, sizeof(unknown_field))) {
      return Status::kInvalidArgument;
    }
  }
  write_frame_prefix(stream.bytes_written, out);
  return kFramePrefixSize + stream.bytes_written;
}

bool decode(const pb_msgdesc_t* fields, std::span<const uint8_t> payload, void* out) {
  pb_istream_t stream = pb_istream_from_buffer(payload.data(), payload.size());
  return payload.size() <= kMessageSizeMax && pb_decode(&stream, fields, out);
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

Result<size_t> encode_claim_request(const Identity& identity, uint8_t* out) {
  const std::string_view name(identity.name);
  if (!is_claimable_name(name)) {
    return Status::kInvalidArgument;
  }
  gs_ClaimRequest request = {};
  std::memcpy(request.name, name.data(), name.size());
  std::memcpy(request.key.bytes, identity.key, sizeof(identity.key));
  request.key.size = sizeof(identity.key);
  const Result<size_t> size = encode(gs_ClaimRequest_fields, &request, out);
  std::memset(&request, 0, sizeof(request));
  return size;
}

Result<size_t> encode_claim_answer(const gs_ClaimAnswer& answer, uint8_t* out) {
  return encode(gs_ClaimAnswer_fields, &answer, out);
}

Status decode_claim_request(std::span<const uint8_t> payload, Identity* out) {
  gs_ClaimRequest request = {};
  const bool is_good = decode(gs_ClaimRequest_fields, payload, &request) && is_claimable_name(request.name) &&
                       request.key.size == Identity::kKeySize && !is_undrawn_key(request.key.bytes);
  *out = Identity();
  if (is_good) {
    std::memcpy(out->name, request.name, sizeof(request.name));
    std::memcpy(out->key, request.key.bytes, sizeof(out->key));
  }
  std::memset(&request, 0, sizeof(request));
  return is_good ? Status::kOk : Status::kDataCorrupt;
}

Status decode_claim_answer(std::span<const uint8_t> payload, gs_ClaimAnswer* out) {
  *out = {};
  if (!decode(gs_ClaimAnswer_fields, payload, out)) {
    return Status::kDataCorrupt;
  }
  uint32_t reason = 0;  // as the number that was sent, which may be no enumerator
  std::memcpy(&reason, &out->reason, sizeof(reason));
  return reason <= static_cast<uint32_t>(_gs_Reason_MAX) && out->retry.min_ms <= out->retry.max_ms
             ? Status::kOk
             : Status::kDataCorrupt;
}

}  // namespace gradstream
