// The keys of TLS handshakes, as the database holds them, and the two ways in which a peer becomes a device during one:
// by a certificate that nobody has enrolled, and by a claim.
//
//   handshake --identity--> lookup --SELECT--> fleet          key of a device (NAME, NAME~GENERATION) or of a claim
//   certificate of a stranger --> register_device() --INSERT--> fleet
//   claim of a batch ----------> grant_claim() ----INSERT--> fleet
//
// Threads: a lookup runs on the thread of its sessions, which must be the only one that uses its connection. All other
// functions belong to the server's thread.
#ifndef GRADSTREAM_SERVER_PROGRAM_KEYRING_H_
#define GRADSTREAM_SERVER_PROGRAM_KEYRING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/link/key_agreement.h"
#include "runtime/wire/claim.h"
#include "server/base/objection.h"
#include "server/base/rate_limit.h"
#include "server/link/tls_stream.h"
#include "server/program/config.h"
#include "server/program/fleet_alarm.h"
#include "server/store/sqlite_database.h"

namespace gradstream {

class Keyring {
 public:
  // fleet: of the server's thread. now_ms: milliseconds since the epoch, never going back, called from any thread.
  // Everything must outlive the keyring; the keyring must outlive its lookups.
  Keyring(const ServerConfig& config, SqliteDatabase& fleet, FleetAlarm& alarm, std::function<uint64_t()> now_ms);

  // For the sessions of the server's thread. A lookup is true and fills *out where the identity is one of a device or
  // of a claim, whether it may be used now or not (PskEntry::refusal). It is false where there is none, or where the
  // database failed, which raises the alarm. It waits for no more than PskLookup allows.
  PskLookup lookup() { return lookup_in(fleet_); }
  // For `count` further threads with sessions: a lookup for each, with a connection of its own to config.database.
  // Once, before any of them runs.
  Objection open_lookups(uint32_t count, std::vector<PskLookup>* out);

  struct Registration {
    TlsFault refusal = TlsFault::kNone;  // kNone: the device is enrolled and active
    uint32_t device = kNoDevice;         // its enrolment index, once it is enrolled, active or not
    bool is_new = false;                 // it was enrolled by this call, and event=device_registered says so
  };
  // A peer has proven a certificate of this name, and the fleet of device_count devices does not hold it. Whether it is
  // enrolled, and in which state, is the matter of config.device_registration and of its two limits.
  // Waits for the disk: it happens once in a device's life, and config.registrations bounds how often.
  // kUnknownIdentity: none is registered; kRegistrationLimit: no more now; kRegistrationFailed: the database or the
  // random numbers failed; kInactive: it is pending, or disabled; kRevoked.
  Registration register_device(const std::string& name, size_t device_count);

  // A session of this claim wants to become a device. Waits for the disk: it happens once in a device's life. NONE: it
  // is enrolled, now or by an earlier grant, under the key that it sent or, where the claim proves its server, under
  // the one that both ends have found. CLAIM_USED: the name is taken; CLAIM_ENDED; OVERLOADED: the claim has ended
  // since the handshake, and nothing was computed; UNEXPECTED_MESSAGE: the request is not of the claim's kind, or its
  // confirm does not hold; STORAGE: the database failed. A verdict is confirmed where
  // the request's confirm held. Logs event=claim_granted or, within kFaultLines, event=claim_refused.
  ClaimVerdict grant_claim(uint32_t claim, const ClaimRequest& request);

 private:
  PskLookup lookup_in(SqliteDatabase& fleet);
  bool find_psk(SqliteDatabase& fleet, std::string_view identity, PskEntry* out);
  bool find_claim_psk(SqliteDatabase& fleet, std::string_view identity, PskEntry* out);
  gs_Reason enrol(const ClaimRow& claim, const ClaimRequest& request, KeyView key);
  void log_refusal(uint32_t claim, const ClaimRequest& request, const char* reason);

  const ServerConfig& config_;
  SqliteDatabase& fleet_;
  FleetAlarm& alarm_;
  const std::function<uint64_t()> now_ms_;
  std::vector<std::unique_ptr<SqliteDatabase>> thread_fleets_;  // one for each lookup of open_lookups()
  RateMeter registrations_;
  RateMeter claim_lines_;  // of kFaultLines
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_KEYRING_H_
