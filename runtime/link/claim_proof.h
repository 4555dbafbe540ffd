// How the two ends of a claim prove themselves to each other, and the key that comes of it (docs/wire.md, Claims).
//
//   device: e, E = x25519(e, 9)                server: s, S = x25519(s, 9); S stands in the claim's file
//   z = x25519(e, S) = x25519(s, E)
//   T = SHA-256("gradstream claim 2" | len8 claim | len8 name | S | E)
//   key of the device = HKDF-SHA256(z | key of the claim, salt T, "device key"), c = HKDF-SHA256(same, "confirm")
//   confirms = HMAC-SHA256(c, "device"), HMAC-SHA256(c, "server"), HMAC-SHA256(c, "refused"): 16 bytes each
//
// A claim's file is in many hands, and its key makes both ends of TLS. Only the server has s, which stands in no file.
// So whoever holds the file cannot answer as the server does, and learns nothing of the key from what travels.
//
// No call keeps a secret in memory that is not the caller's. Time and addresses do not depend on a secret.
#ifndef GRADSTREAM_RUNTIME_LINK_CLAIM_PROOF_H_
#define GRADSTREAM_RUNTIME_LINK_CLAIM_PROOF_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/wire/claim.h"

namespace gradstream {

// Keys of x25519, of a claim and of a device, bytes.
inline constexpr size_t kClaimKeySize = Identity::kKeySize;
using ClaimKeyView = std::span<const uint8_t, kClaimKeySize>;

// What both ends know before.
struct ClaimTerms {
  std::string_view claim;  // its TLS identity, with its mark
  std::string_view name;   // that the device asks for
  ClaimKeyView key;        // of the claim
};

// What both ends know afterwards. Zeros are written over it when its life ends.
struct ClaimProof {
  uint8_t device_public[kClaimKeySize] = {};  // E
  uint8_t device_key[kClaimKeySize] = {};
  uint8_t confirm_device[kClaimConfirmSize] = {};
  uint8_t confirm_server[kClaimConfirmSize] = {};   // of an answer with REASON_NONE
  uint8_t confirm_refused[kClaimConfirmSize] = {};  // of any other answer that the server means
  ClaimProof() = default;
  ~ClaimProof();
  ClaimProof(const ClaimProof&) = delete;
  ClaimProof& operator=(const ClaimProof&) = delete;
};

// The public key of a secret of 32 random bytes. kClosed: Mbed TLS cannot start or has no memory.
Status find_claim_public(ClaimKeyView secret, std::span<uint8_t, kClaimKeySize> out);

// With the secret of this end and the public key of the other one. kUnauthenticated: the other end's key is of small
// order, so that the shared secret would be zero; kInvalidArgument: a claim or a name of more than
// Identity::kNameSizeMax bytes; kClosed as above. *out holds no key then.
Status prove_as_device(const ClaimTerms& terms, ClaimKeyView device_secret, ClaimKeyView server_public,
                       ClaimProof* out);
Status prove_as_server(const ClaimTerms& terms, ClaimKeyView server_secret, ClaimKeyView device_public,
                       ClaimProof* out);

// Whether they are the same. Looks at every byte, so that its time does not tell where they differ.
bool is_same_confirm(std::span<const uint8_t, kClaimConfirmSize> a, std::span<const uint8_t, kClaimConfirmSize> b);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CLAIM_PROOF_H_
