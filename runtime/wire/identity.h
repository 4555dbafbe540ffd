// Who a device is: a name and a pre-shared key, in a small file or flash page apart from the image, so that one image
// serves every unit.
#ifndef GRADSTREAM_RUNTIME_WIRE_IDENTITY_H_
#define GRADSTREAM_RUNTIME_WIRE_IDENTITY_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"

namespace gradstream {

struct Identity {
  static constexpr size_t kNameSizeMax = 63;
  static constexpr size_t kKeySize = 32;  // bytes
  char name[kNameSizeMax + 1] = {};
  uint8_t key[kKeySize] = {};
};

// The public key (x25519) of the server of a claim, by which a device knows that server (docs/wire.md, Claims).
struct ServerKey {
  bool is_there = false;
  uint8_t bytes[Identity::kKeySize] = {};
};

// Longest text that parse_identity() takes, bytes. Reason: one small flash page, and a stack buffer on a host.
inline constexpr size_t kIdentityTextSizeMax = 1024;

// Parses the text that `gradstream device add` writes (docs/wire.md): lines `identity = NAME` and
// `key = 64 hexadecimal digits`, each once, in any order, as LineReader reads lines. NAME is 1 .. kNameSizeMax
// printable ASCII characters without spaces. A claim's text has a third line, `server = 64 hexadecimal digits`: it goes
// to *server, or is dropped where that is null. The text ends at the first byte 0 or 0xff, if any: what is left of an
// erased flash page. kDataCorrupt, with *line = the line at fault (from 1; 0: a field is missing, or the text is too
// long). *out is then unspecified, and holds no key.
Status parse_identity(std::span<const char> text, Identity* out, uint32_t* line, ServerKey* server = nullptr);

// What is wrong with a text that parse_identity() has refused, for people; boards do not link it. It holds nothing of a
// key but its length.
struct IdentityFault {
  uint32_t line = 0;       // from 1; 0: the whole text
  const char* text = "";   // a clause that follows the file's name and the line
  size_t count = 0;        // characters that stand there
  bool has_count = false;  // whether count says something
};
// line: as parse_identity() gave it.
IdentityFault find_identity_fault(std::span<const char> text, uint32_t line);
// The same as words that follow the file's name: " line 2: key: expected ..., and it has 63", or " is empty". They end
// with a 0, and are cut off where out is too short.
inline constexpr size_t kIdentityFaultSizeMax = 256;
void write_identity_fault(std::span<const char> text, uint32_t line, std::span<char> out);

// Whether nobody has drawn this key: its bytes are all 0, as of an empty field, or all 255, as of an erased flash.
bool is_undrawn_key(std::span<const uint8_t> key);

// A digest of name and key. It tells whether a device's saved state was saved under this identity. The server's address
// is no part of it: the server made the key, so another server's device of the same name has another key, while a
// server that moved keeps its devices' work. It tells 32 of the 256 bits of the key: the others cannot be searched.
uint32_t identity_digest(const Identity& identity);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_WIRE_IDENTITY_H_
