#include "server/program/keyring.h"

#include <optional>
#include <utility>

#include <psa/crypto.h>

#include "runtime/wire/claim.h"
#include "server/base/log.h"
#include "server/link/session.h"

namespace gradstream {

Keyring::Keyring(const ServerConfig& config, SqliteDatabase& fleet, FleetAlarm& alarm, std::function<uint64_t()> now_ms)
    : config_(config), fleet_(fleet), alarm_(alarm), now_ms_(std::move(now_ms)) {}

Objection Keyring::open_lookups(uint32_t count, std::vector<PskLookup>* out) {
  SqliteOptions options;
  options.path = config_.database;
  options.may_create = false;
  for (uint32_t i = 0; i < count; ++i) {
    SqliteDatabase& fleet = *thread_fleets_.emplace_back(std::make_unique<SqliteDatabase>());
    if (fleet.open(options) != StoreStatus::kOk) {
      return "server.limits.io_threads: a thread cannot look devices up: " + fleet.error();
    }
    out->push_back(lookup_in(fleet));
  }
  return {};
}

// ---- Lookups: in the middle of a handshake, on the thread of its session ----

PskLookup Keyring::lookup_in(SqliteDatabase& fleet) {
  return [this, &fleet](std::string_view identity, PskEntry* out) { return find_psk(fleet, identity, out); };
}

bool Keyring::find_claim_psk(SqliteDatabase& fleet, std::string_view identity, PskEntry* out) {
  const Expected<std::optional<ClaimRow>> found = fleet.find_claim(std::string(identity.substr(1)));
  if (!found.is_ok()) {
    alarm_.raise(fleet);
    return false;
  }
  const std::optional<ClaimRow>& row = *found;
  if (!row) {
    return false;
  }
  out->key = row->key;
  out->device = kNoDevice;
  out->claim = row->id;
  out->refusal = !row->is_ended && now_ms_() < row->expires_ms ? PskRefusal::kNone : PskRefusal::kClaimEnded;
  return true;
}

bool Keyring::find_psk(SqliteDatabase& fleet, std::string_view identity, PskEntry* out) {
  if (is_claim_identity(identity)) {
    return find_claim_psk(fleet, identity, out);
  }
  std::string name(identity);
  uint32_t generation = 0;
  Expected<std::optional<EnrolledDevice>> found = fleet.find_device(name);
  if (found.is_ok() && !*found && split_identity(identity, &name, &generation)) {
    found = fleet.find_device(name);
  }
  if (!found.is_ok()) {
    alarm_.raise(fleet);
    return false;
  }
  const std::optional<EnrolledDevice>& row = *found;
  if (!row || generation > row->generation) {
    return false;
  }
  const bool is_previous = generation + 1 == row->generation && now_ms_() < row->previous_until_ms;
  out->key = is_previous ? row->previous_key : row->key;
  out->device = row->index;
  out->refusal = row->state == DeviceState::kRevoked            ? PskRefusal::kRevoked
                 : !row->is_active()                            ? PskRefusal::kInactive
                 : generation == row->generation || is_previous ? PskRefusal::kNone
                                                                : PskRefusal::kExpired;
  return true;
}

// ---- Peers that become devices ----

Keyring::Registration Keyring::register_device(const std::string& name, size_t device_count) {
  const bool is_pending = config_.device_registration == "pending";
  if (config_.device_registration == "off") {
    return {TlsFault::kUnknownIdentity};
  }
  if (device_count >= config_.registration_device_count_max ||
      !registrations_.admit(config_.registrations, now_ms_())) {
    return {TlsFault::kRegistrationLimit};
  }
  PskKey key = {};  // which no file holds; `device rotate` makes one that counts
  if (psa_generate_random(key.data(), key.size()) != PSA_SUCCESS) {
    return {TlsFault::kRegistrationFailed};
  }
  const Expected<std::optional<uint32_t>> added =
      fleet_.add_device(name, key, now_ms_(), is_pending ? DeviceState::kPending : DeviceState::kActive);
  if (!added.is_ok()) {
    return {TlsFault::kRegistrationFailed};
  }
  if (const std::optional<uint32_t>& index = *added) {
    log_event(LogLevel::kInfo, "device_registered",
              Fields()
                  .add("device", name)
                  .add("index", uint64_t{*index})
                  .add("state", is_pending ? "pending" : "active")
                  .add("remedy", is_pending ? "gradstream device enable lets it in" : "none needed"));
    return {is_pending ? TlsFault::kInactive : TlsFault::kNone, *index, true};
  }
  PskEntry entry;  // another session or program has enrolled it meanwhile
  if (!find_psk(fleet_, name, &entry)) {
    return {TlsFault::kRegistrationFailed};
  }
  const TlsFault refusal = entry.refusal == PskRefusal::kRevoked    ? TlsFault::kRevoked
                           : entry.refusal == PskRefusal::kInactive ? TlsFault::kInactive
                                                                    : TlsFault::kNone;
  return {refusal, entry.device};
}

gs_Reason Keyring::grant_claim(uint32_t claim, const Identity& identity) {
  const Expected<ClaimOutcome> outcome = fleet_.claim_device(claim, identity.name, identity.key, now_ms_());
  const gs_Reason reason = !outcome.is_ok()                       ? gs_Reason_REASON_STORAGE
                           : *outcome == ClaimOutcome::kNameTaken ? gs_Reason_REASON_CLAIM_USED
                           : *outcome == ClaimOutcome::kEnded     ? gs_Reason_REASON_CLAIM_ENDED
                                                                  : gs_Reason_REASON_NONE;
  const bool is_granted = reason == gs_Reason_REASON_NONE;
  if (is_granted && *outcome == ClaimOutcome::kGranted) {
    log_event(LogLevel::kInfo, "claim_granted", Fields().add("device", identity.name).add("claim", uint64_t{claim}));
  } else if (!is_granted && claim_lines_.admit(kFaultLines, now_ms_())) {
    log_event(LogLevel::kWarn, "claim_refused",
              Fields()
                  .add("device", identity.name)
                  .add("claim", uint64_t{claim})
                  .add("reason", reason_name(reason))
                  .add("remedy", reason == gs_Reason_REASON_CLAIM_USED
                                     ? "give the device another name, or a file of its own: gradstream device rotate"
                                     : "see gradstream claim list; gradstream claim add makes another one"));
  }
  return reason;
}

}  // namespace gradstream
