// The claim of an identity: how a device that was given the credential of its batch gets one of its own (docs/wire.md).
//
//   device: draws a secret, stores it with its name --ClaimRequest--> server: enrols the device --ClaimAnswer--> device
//
// What stands in the two messages of a claim whose server proves itself comes of runtime/link/key_agreement.h.
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

// By which one end shows the other that it knows the secrets of a claim, bytes.
inline constexpr size_t kConfirmSize = sizeof(gs_ClaimRequest{}.confirm.bytes);

// What a device asks for.
struct ClaimRequest {
  Identity device;         // name, and is_proven: the device's public key; else the key that the device has drawn
  bool is_proven = false;  // the claim names its server, and no secret travels
  uint8_t confirm[kConfirmSize] = {};  // is_proven: of the device
};

// What a server has decided.
struct ClaimVerdict {
  gs_Reason reason = gs_Reason_REASON_NONE;
  bool is_confirmed = false;
  uint8_t confirm[kConfirmSize] = {};  // is_confirmed: of the server, to a granted or to a refused request
};

// A whole frame into out (kFrameSizeMax bytes); its size. kInvalidArgument: a name that cannot be claimed.
Result<size_t> encode_claim_request(const ClaimRequest& request, uint8_t* out);
Result<size_t> encode_claim_answer(const ClaimVerdict& verdict, const gs_RetryWindow& retry, uint8_t* out);

// A frame's payload. kDataCorrupt: does not decode, a name that cannot be claimed, a key or a confirm of another size,
// a key that nobody has drawn, both kinds of keys; an unknown reason, a window whose end is before its beginning. *out
// holds no key then. A window that an answer does not have is not looked at: the client has a back-off of its own.
Status decode_claim_request(std::span<const uint8_t> payload, ClaimRequest* out);
Status decode_claim_answer(std::span<const uint8_t> payload, ClaimVerdict* out);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_WIRE_CLAIM_H_
