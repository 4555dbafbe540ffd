// How a device and a server that share a key find a new one, and prove that they have it. Two uses (docs/wire.md):
//
//   a claim       the key is that of a batch, and the new one is the device's first
//   a key change  the key is the device's own, and the new one is of the next generation
//
//   device: d, D = x25519(d, 9)                server: s, S = x25519(s, 9)
//   z = x25519(d, S) = x25519(s, D)
//   T = SHA-256("gradstream claim 2" | len8 claim | len8 name | S | D), or
//       SHA-256("gradstream key change 1" | len8 name | u32 generation | S | D)
//   new key = HKDF-SHA256(z | the key that both have, salt T, "device key"), c = HKDF-SHA256(same, "confirm")
//   confirms = HMAC-SHA256(c, "device"), HMAC-SHA256(c, "server"), HMAC-SHA256(c, "refused"): 16 bytes each
//
// A claim's file is in many hands, and its key makes both ends of TLS. S stands in it, and only the server has s. So
// whoever holds the file cannot answer as the server does, and learns nothing of the key from what travels. In a key
// change S travels: whoever has the old key and records the session learns nothing of the new one either, and whoever
// answers in the server's place with the old key can be the server there too.
//
// No call keeps a secret in memory that is not the caller's. Time and addresses do not depend on a secret.
#ifndef GRADSTREAM_RUNTIME_LINK_KEY_AGREEMENT_H_
#define GRADSTREAM_RUNTIME_LINK_KEY_AGREEMENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/wire/claim.h"

namespace gradstream {

// Keys of x25519, of a claim and of a device, bytes.
inline constexpr size_t kAgreedKeySize = Identity::kKeySize;
using KeyView = std::span<const uint8_t, kAgreedKeySize>;

// What both ends know before.
struct ClaimTerms {
  std::string_view claim;  // its TLS identity, with its mark
  std::string_view name;   // that the device asks for
  KeyView key;             // of the claim
};
struct KeyChangeTerms {
  std::string_view name;    // of the device, without a generation
  uint32_t generation = 0;  // of the key to be
  KeyView key;              // of the generation before
};

// What both ends know afterwards. Zeros are written over it when its life ends.
struct KeyProof {
  uint8_t device_public[kAgreedKeySize] = {};  // D
  uint8_t device_key[kAgreedKeySize] = {};
  uint8_t confirm_device[kConfirmSize] = {};
  uint8_t confirm_server[kConfirmSize] = {};   // the key counts
  uint8_t confirm_refused[kConfirmSize] = {};  // of any other answer to a claim that the server means
  KeyProof() = default;
  ~KeyProof();
  KeyProof(const KeyProof&) = delete;
  KeyProof& operator=(const KeyProof&) = delete;
};

// The public key of a secret of 32 random bytes. kClosed: Mbed TLS cannot start or has no memory.
Status find_public_key(KeyView secret, std::span<uint8_t, kAgreedKeySize> out);

// With the secret of this end and the public key of the other one. kUnauthenticated: the other end's key is of small
// order, so that the shared secret would be zero; kInvalidArgument: a claim or a name of more than
// Identity::kNameSizeMax bytes; kClosed as above. *out holds no key then.
Status prove_as_device(const ClaimTerms& terms, KeyView device_secret, KeyView server_public, KeyProof* out);
Status prove_as_server(const ClaimTerms& terms, KeyView server_secret, KeyView device_public, KeyProof* out);
Status prove_as_device(const KeyChangeTerms& terms, KeyView device_secret, KeyView server_public, KeyProof* out);
Status prove_as_server(const KeyChangeTerms& terms, KeyView server_secret, KeyView device_public, KeyProof* out);

// Whether they are the same. Looks at every byte, so that its time does not tell where they differ.
bool is_same_confirm(std::span<const uint8_t, kConfirmSize> a, std::span<const uint8_t, kConfirmSize> b);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_KEY_AGREEMENT_H_
