// The files of a Linux client that hold secrets: its identity, and what it has drawn for one that is to be.
#ifndef GRADSTREAM_FIRMWARE_IDENTITY_POSIX_H_
#define GRADSTREAM_FIRMWARE_IDENTITY_POSIX_H_

#include <string>

#include "firmware/client_main.h"
#include "runtime/wire/identity.h"

namespace gradstream {

// Why a file cannot be used, and the exit status of that.
struct FileFault {
  std::string text;  // empty: none
  int code = kExitIdentity;
};

// Whose key nobody is to read afterwards.
struct SecretIdentity : Identity {
  SecretIdentity() = default;
  ~SecretIdentity();
  SecretIdentity(const SecretIdentity&) = delete;
  SecretIdentity& operator=(const SecretIdentity&) = delete;
};

// What such a file begins with.
inline constexpr char kIdentityNote[] = "# gradstream device: keep this file secret, it is the device's key";
inline constexpr char kPendingNote[] = "# gradstream device: an enrolment under way; keep this file secret";
inline constexpr char kNextKeyNote[] = "# gradstream device: a new key under way; keep this file secret";

// *server: as parse_identity() has it.
FileFault read_identity(const std::string& path, Identity* out, ServerKey* server);
// Under its name it is whole and durable, with mode 0600; after a fault the file is as it was. server: none of an
// identity that counts.
FileFault store_identity(const std::string& path, const Identity& identity, const char* note = kIdentityNote,
                         const ServerKey& server = {});
// Its name, and what the disk has of it. The name goes first: a process that ends in between leaves no file that is
// wrong. A line says so where that fails: nothing waits for it. Nothing happens where there is no such file.
void erase_file(const std::string& path);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_IDENTITY_POSIX_H_
