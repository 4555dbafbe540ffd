// The messages of a key that a device draws at its server's wish (docs/wire.md, A key that the device draws).
//
//   server: KeyChange {generation, S} --> device: draws, stores, KeyChange {generation, D, confirm}
//   --> server: the new key counts, KeyChange {generation, confirm}, or none of it, KeyChange {generation}
//
// What stands in them comes of runtime/link/key_agreement.h. They are bodies 7 and 9 of the two messages of a session,
// in messages of their own, so that boards, which do not say FEATURE_KEY_CHANGE, link nothing of them.
#ifndef GRADSTREAM_RUNTIME_WIRE_KEY_CHANGE_H_
#define GRADSTREAM_RUNTIME_WIRE_KEY_CHANGE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"
#include "runtime/wire/claim.h"
#include "runtime/wire/identity.h"

namespace gradstream {

struct KeyChange {
  uint32_t generation = 0;   // of the key to be, from 1
  bool has_public = false;   // of the device: always; of the server: it asks
  bool has_confirm = false;  // of the device: always; of the server: the key counts. Neither: it refuses
  uint8_t public_key[Identity::kKeySize] = {};
  uint8_t confirm[kConfirmSize] = {};
};

// A whole frame into out (kFrameSizeMax bytes); its size. kInvalidArgument: generation 0, or parts that no such message
// has.
Result<size_t> encode_key_change_of_device(const KeyChange& change, uint8_t* out);
Result<size_t> encode_key_change_of_server(const KeyChange& change, uint8_t* out);

// A frame's payload. kDataCorrupt: another message, or none; generation 0; a key or a confirm of another size; a key
// that nobody has drawn; parts that no such message has. *out is empty then.
Status decode_key_change_of_device(std::span<const uint8_t> payload, KeyChange* out);
Status decode_key_change_of_server(std::span<const uint8_t> payload, KeyChange* out);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_WIRE_KEY_CHANGE_H_
