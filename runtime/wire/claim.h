// The claim of an identity: how a device that was given the credential of its batch gets one of its own (docs/wire.md).
//
//   device: draws a key, stores name and key durably --ClaimRequest--> server: enrols them --ClaimAnswer--> device
//
// Repeating a request changes nothing, so that a lost answer costs a repetition and no crash loses an identity. Boards
// that do not call this link nothing of it: the two messages are in no union.
#ifndef GRADSTREAM_RUNTIME_WIRE_CLAIM_H_
#define GRADSTREAM_RUNTIME_WIRE_CLAIM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "proto/gradstream.pb.h"
#include "runtime/base/status.h"
#include "runtime/wire/identity.h"

namespace gradstream {

// What the TLS identity of a claim begins with; no device's name does.
inline constexpr char kClaimMark = '~';
inline bool is_claim_identity(std::string_view identity) { return !identity.empty() && identity[0] == kClaimMark; }

// Longest name that can be claimed, bytes: room is left for the number of a rotation.
inline constexpr size_t kClaimNameSizeMax = sizeof(gs_ClaimRequest{}.name) - 1;

// Whether a device may be called so: 1 .. kClaimNameSizeMax printable ASCII characters without spaces, commas, slashes
// and ~, not beginning with #, and not the word "name".
bool is_claimable_name(std::string_view name);

// A whole frame into out (kFrameSizeMax bytes); its size. kInvalidArgument: a name that cannot be claimed.
Result<size_t> encode_claim_request(const Identity& identity, uint8_t* out);
Result<size_t> encode_claim_answer(const gs_ClaimAnswer& answer, uint8_t* out);

// A frame's payload. kDataCorrupt: does not decode, a name that cannot be claimed, a key of another size or one that
// nobody has drawn; an unknown reason, a window whose end is before its beginning. *out holds no key then.
Status decode_claim_request(std::span<const uint8_t> payload, Identity* out);
Status decode_claim_answer(std::span<const uint8_t> payload, gs_ClaimAnswer* out);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_WIRE_CLAIM_H_
