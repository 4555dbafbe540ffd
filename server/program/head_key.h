// The key that signs heads of journals (server/journal/journal_head.h): ECDSA over P-256 with SHA-256.
//
// The files are PEM, as openssl writes and reads them, and a signature is DER. So an auditor needs no gradstream to
// prove a head. The same key and text give the same signature (RFC 6979).
#ifndef GRADSTREAM_SERVER_PROGRAM_HEAD_KEY_H_
#define GRADSTREAM_SERVER_PROGRAM_HEAD_KEY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <mbedtls/pk.h>

#include "server/base/objection.h"

namespace gradstream {

class HeadKey {
 public:
  HeadKey();
  ~HeadKey();
  HeadKey(const HeadKey&) = delete;
  HeadKey& operator=(const HeadKey&) = delete;

  // Objections are sentences that name the file, the cause and the remedy. A private key that others may read is
  // refused. After an objection there is no key.
  Objection read_private(const std::string& path);
  Objection read_public(const std::string& path);
  bool is_set() const { return is_set_; }

  // Of a private key. Empty: no random bytes, or no memory.
  std::vector<uint8_t> sign(std::string_view text);
  // Of either.
  bool verify(std::string_view text, const std::vector<uint8_t>& signature);

 private:
  Objection judge(const std::string& path, bool is_parsed, const char* what);

  mbedtls_pk_context key_ = {};
  bool is_set_ = false;
};

// Draws a key, and writes it to `path` with mode 0600 and its public half to `path`.pub. Neither file may be there. An
// objection names the file, the cause and the remedy; then there is no new file.
Objection make_head_key(const std::string& path);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_HEAD_KEY_H_
