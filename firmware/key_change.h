// A key that the device draws at its server's wish (docs/wire.md, A key that the device draws): what the shell asks of
// whoever keeps the device's identity. Of hosts; a board keeps the identity that it was given.
#ifndef GRADSTREAM_FIRMWARE_KEY_CHANGE_H_
#define GRADSTREAM_FIRMWARE_KEY_CHANGE_H_

#include <cstdint>
#include <span>

#include "runtime/wire/identity.h"

namespace gradstream {

// Between two sessions there may be two keys: the one that counts, and one that was offered and not confirmed yet.
//
//   connect: identity() -> handshake -> on_refused(): once more, by the other key
//                                    -> on_connected() -> take() of each message, frame_due() -> connect ...
class KeyHolder {
 public:
  virtual ~KeyHolder() = default;
  // A connection begins: the first handshake of it is by the key that was offered, where there is one.
  virtual void on_connecting() = 0;
  // The identity of the next handshake; valid until on_connecting() or on_connected().
  virtual const Identity& identity() const = 0;
  // The server has refused that identity. Whether to shake hands again at once, which is so once in a connection.
  virtual bool on_refused() = 0;
  virtual void on_connected() = 0;
  // A message of the server. True: it was a KeyChange, and nobody else is to see it.
  virtual bool take(std::span<const uint8_t> payload) = 0;
  // A frame that is to go to the server, once; valid until the next call of this function. Empty: none.
  virtual std::span<const uint8_t> frame_due() = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_KEY_CHANGE_H_
