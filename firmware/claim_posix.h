// How the Linux client comes to an identity of its own by the credential of its batch (docs/wire.md, Claims).
//
//   IDENTITY is there            -> nothing to do; IDENTITY.claimed goes
//   IDENTITY.claimed is not      -> name and a drawn secret go there, durably
//   by the claim, ClaimRequest   -> granted: name and key go to IDENTITY, durably; then IDENTITY.claimed goes
//                                -> an answer that the claim's server has not given: IDENTITY.claimed goes
//
// A process that ends anywhere in between goes on with the same secret, of which comes the same key: the server grants
// it again. Where the claim has ended meanwhile, an identity that was granted before shows so by connecting.
//
// A claim whose file names no server is of an older release. Its key travels to whoever answers with the claim's key,
// which all devices of the batch have: such a file is taken only where the caller asks for it.
#ifndef GRADSTREAM_FIRMWARE_CLAIM_POSIX_H_
#define GRADSTREAM_FIRMWARE_CLAIM_POSIX_H_

#include <cstdint>
#include <span>
#include <string>

#include "runtime/link/tls.h"

namespace gradstream {

struct ClaimRun {
  std::string claim_path;     // the claim's identity file
  std::string name;           // that the device is to have
  std::string identity_path;  // where its own identity is to be
  TlsKeyExchange key_exchange = TlsKeyExchange::kPskEphemeral;
  uint32_t retry_ms = 1000;     // after a server that cannot be reached; doubles, up to eight times
  bool once = false;            // one attempt
  bool takes_unproven = false;  // a claim whose file names no server, too
  // When an attempt gives up, by port_now_ms(), whatever it waits for; it has no more time than limits give it anyhow.
  // The look-up of a name is the system's, and has the time that its resolver takes.
  uint64_t end_ms = UINT64_MAX;
  // Called in every turn of a wait, 10 s apart at most, for a watchdog; null: there is none.
  void (*feed_watchdog)() = nullptr;
};

// kExitOk, also if a signal asked for the end (host/end_signals.h); or the exit status (firmware/client_main.h) of what
// was logged with its remedy. kExitIdentity: the claim cannot be used, or is refused; kExitServerNotProven;
// kExitTemporary: a file cannot be read or written now; kExitSession: after `once`. The server is that of
// posix_set_server().
int claim_identity(const ClaimRun& run);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_CLAIM_POSIX_H_
