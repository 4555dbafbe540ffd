// The identity file of a Linux client whose key may change (docs/wire.md, A key that the device draws).
//
//   the server asks               -> a drawn secret and the server's public key go to IDENTITY.next, durably; then they
//                                    are offered
//   the server confirms, or a
//   session by the new key begins -> the new key goes to IDENTITY, durably; then IDENTITY.next goes
//   the server refuses            -> IDENTITY.next goes
//
// A process that ends anywhere in between finds IDENTITY.next at its next start, and with the key of IDENTITY the same
// new key. It then connects by the new key, and where the server does not know that yet, by the old one, and offers the
// new one again. IDENTITY.next of another generation than the next one is what a process has left behind: it goes.
#ifndef GRADSTREAM_FIRMWARE_KEY_CHANGE_POSIX_H_
#define GRADSTREAM_FIRMWARE_KEY_CHANGE_POSIX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "firmware/identity_posix.h"
#include "firmware/key_change.h"
#include "runtime/base/config.h"
#include "runtime/link/key_agreement.h"
#include "runtime/wire/key_change.h"

namespace gradstream {

// The name and the generation of an identity: NAME, or NAME~GENERATION after a change.
struct IdentityName {
  std::string name;
  uint32_t generation = 0;
};
IdentityName split_identity_name(const std::string& identity);

// Whether a change of the identity at `path` can be kept: it is a file, and its folder can be written.
bool can_keep_identity(const std::string& path);

class IdentityKeeper final : public KeyHolder {
 public:
  // Before all else, after tls_start(). path: of a file that load_identity() takes.
  FileFault open(const std::string& path);

  void on_connecting() override;
  const Identity& identity() const override { return is_by_next_ ? next_ : own_; }
  bool on_refused() override;
  void on_connected() override;
  bool take(std::span<const uint8_t> payload) override;
  std::span<const uint8_t> frame_due() override;

  // Of the identity that counts; until a key that was offered is confirmed, the old one's.
  const char* name() const { return own_.name; }
  // Whether a key was offered that is not confirmed yet.
  bool has_next() const { return has_next_; }

 private:
  std::string next_path() const { return path_ + ".next"; }
  Status adopt(const Identity& drawn, const ServerKey& server);
  void draw(const KeyChange& ask);
  void answer_ask(const KeyChange& ask);
  void settle();
  void drop_next();

  std::string path_;  // without links: a file takes the place of the one there
  SecretIdentity own_;
  IdentityName name_;
  // Of what IDENTITY.next says.
  bool has_next_ = false;
  SecretIdentity next_;
  ServerKey server_;
  KeyProof proof_;
  // Of the connection.
  bool is_by_next_ = false;
  bool is_greeted_ = false;  // the server has said something, so that a Hello came before
  bool is_offer_due_ = false;
  uint8_t frame_[kFrameSizeMax];
};

// Lets the device draw a new key where its identity can be kept; path: empty where a certificate stands for it. 0, or
// the exit status: the reason is logged.
int keep_identity(const std::string& path, IdentityKeeper* keeper, ClientMainOptions* options);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_KEY_CHANGE_POSIX_H_
