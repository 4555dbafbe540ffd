// The rows of the fleet, of claims and of runs, and the words for their states.
#ifndef GRADSTREAM_SERVER_STORE_FLEET_ROWS_H_
#define GRADSTREAM_SERVER_STORE_FLEET_ROWS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/base/enum_names.h"
#include "server/base/secret.h"

namespace gradstream {

//   pending --enable--> active <--enable/disable--> disabled        each --revoke--> revoked, for good
enum class DeviceState : uint8_t { kPending = 1, kActive = 2, kDisabled = 3, kRevoked = 4 };
template <>
inline constexpr auto kEnumNames<DeviceState> =
    std::to_array<EnumName<DeviceState>>({{"pending", DeviceState::kPending},
                                          {"active", DeviceState::kActive},
                                          {"disabled", DeviceState::kDisabled},
                                          {"revoked", DeviceState::kRevoked}});
constexpr const char* device_state_text(DeviceState state) { return name_of(state, "unknown"); }

using DeviceKey = Secret<32>;

// The credential of a batch, by which devices enrol themselves under keys that they have drawn (docs/wire.md, Claims).
struct ClaimRow {
  uint32_t id = 0;   // from 1
  std::string name;  // without the mark that its TLS identity begins with
  DeviceKey key = {};
  // By which the server proves itself to who claims (runtime/link/key_agreement.h). It stands in this database alone.
  DeviceKey server_secret = {};
  bool is_proven = false;  // false: there is none, as in a claim of an older release, and keys come in the open
  uint32_t count_max = 0;  // devices that it lets in
  uint32_t count_used = 0;
  uint64_t expires_ms = 0;                          // since the epoch
  DeviceState device_state = DeviceState::kActive;  // of those that it lets in
  uint64_t created_ms = 0;
  bool is_ended = false;  // by the operator, or seen to be expired: whatever a clock says later
};
enum class ClaimOutcome : uint8_t {
  kGranted,
  kRepeated,   // the same name and key by the same claim: granted before
  kNameTaken,  // under another key, or not by this claim
  kEnded,      // expired, or as many devices as it may let in
};

// A device and its keys. A rotation begins a new generation of the key and keeps the one before for a window. TLS
// identities say which one they prove: identity_of_generation().
struct EnrolledDevice {
  uint32_t index = 0;  // enrolment index, from 0 without gaps
  std::string name;
  DeviceState state = DeviceState::kActive;
  DeviceKey key = {};
  uint32_t generation = 0;
  DeviceKey previous_key = {};     // of the generation before
  uint64_t previous_until_ms = 0;  // when it ends; 0: there is none
  uint64_t created_ms = 0;
  uint64_t key_change_since_ms = 0;  // since when it is to draw a key, since the epoch; 0: it is not
  bool is_active() const { return state == DeviceState::kActive; }
};

// How long a device is waited for that is to draw a key. Reason: one on a battery that comes once a week has four times
// to do it, and a request that nobody remembers ends.
inline constexpr uint64_t kKeyChangeAgeMaxMs = 30ULL * 24 * 3600 * 1000;

// A key that a device draws (docs/wire.md, A key that the device draws): what is asked of it, and what became of the
// change before.
struct KeyChangeRow {
  uint64_t since_ms = 0;         // as above
  uint32_t window_s = 0;         // that the key before is to count for
  DeviceKey server_secret = {};  // of x25519, for this change alone; since_ms is not 0
  // What was answered to the public key that made the key of now. No secrets.
  struct Receipt {
    std::array<uint8_t, 32> device_public = {};
    std::array<uint8_t, 16> confirm = {};
  };
  bool has_receipt = false;  // false: the key of now was made otherwise
  Receipt receipt;
};

// The identity of a device's key in TLS: NAME, and after rotations NAME~GENERATION.
std::string identity_of_generation(const std::string& name, uint32_t generation);
// Whether it is one of a rotation; *name and *generation are then its parts.
bool split_identity(std::string_view identity, std::string* name, uint32_t* generation);

// What the operator wants of a run, or what it has come to. A command writes the wish, the run's server makes it so in
// the journal, and then writes that it is: a crash between them leaves a wish that the next server finds.
enum class StoredRunState : uint8_t {
  kActive = 1,
  kStopRequested = 2,
  kFinished = 3,
  kStopped = 4,
  kPauseRequested = 5,
  kPaused = 6,
  kResumeRequested = 7
};
template <>
inline constexpr auto kEnumNames<StoredRunState> =
    std::to_array<EnumName<StoredRunState>>({{"active", StoredRunState::kActive},
                                             {"stop requested", StoredRunState::kStopRequested},
                                             {"finished", StoredRunState::kFinished},
                                             {"stopped", StoredRunState::kStopped},
                                             {"pause requested", StoredRunState::kPauseRequested},
                                             {"paused", StoredRunState::kPaused},
                                             {"resume requested", StoredRunState::kResumeRequested}});
constexpr const char* stored_run_state_text(StoredRunState state) { return name_of(state, "unknown"); }
// Whether devices belong to the run: neither paused nor over, nor so without a server.
bool is_active(StoredRunState state);

struct RunRow {
  uint32_t id = 0;  // from 1
  std::string name;
  std::string parameters;  // canonical text: what the digest is of
  std::string source;      // the [run] table in TOML: what reads back
  uint64_t digest = 0;     // parameters_digest() of the parameters and the nonce
  StoredRunState state = StoredRunState::kActive;
  uint64_t created_ms = 0;
  uint64_t run_nonce = 0;  // 0: a run of a release that drew none
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_STORE_FLEET_ROWS_H_
