#include "server/program/keyring.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <psa/crypto.h>

#include "runtime/link/key_agreement.h"
#include "runtime/wire/claim.h"
#include "server/base/log.h"
#include "server/base/refusal_catalogue.h"
#include "server/link/session.h"
#include "server/program/device_psk.h"

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
  return row && find_key(*row, generation, now_ms_(), out);
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
    log_event("device_registered"_event,
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

// The reason is one of the catalogue's, which has the remedy.
void Keyring::log_refusal(uint32_t claim, const ClaimRequest& request, const char* reason) {
  if (claim_lines_.admit(kFaultLines, now_ms_())) {
    const RefusalRow* const row = find_refusal(RefusalKind::kKey, reason);
    GS_ASSERT(row != nullptr);
    log_event("claim_refused"_event, Fields()
                                         .add("device", request.device.name)
                                         .add("claim", uint64_t{claim})
                                         .add("reason", reason)
                                         .add("remedy", row->remedy));
  }
}

// Under this key.
gs_Reason Keyring::enrol(const ClaimRow& claim, const ClaimRequest& request, KeyView key) {
  const Expected<ClaimOutcome> outcome = fleet_.claim_device(claim.id, request.device.name, key, now_ms_());
  const gs_Reason reason = !outcome.is_ok()                       ? gs_Reason_REASON_STORAGE
                           : *outcome == ClaimOutcome::kNameTaken ? gs_Reason_REASON_CLAIM_USED
                           : *outcome == ClaimOutcome::kEnded     ? gs_Reason_REASON_CLAIM_ENDED
                                                                  : gs_Reason_REASON_NONE;
  if (reason != gs_Reason_REASON_NONE) {
    log_refusal(claim.id, request, reason_name(reason));
  } else if (*outcome == ClaimOutcome::kGranted) {
    log_event("claim_granted"_event, Fields().add("device", request.device.name).add("claim", uint64_t{claim.id}));
  }
  return reason;
}

ClaimVerdict Keyring::grant_claim(uint32_t claim, const ClaimRequest& request) {
  const Expected<std::optional<ClaimRow>> found = fleet_.find_claim(claim);
  if (!found.is_ok() || !*found) {
    const gs_Reason reason = found.is_ok() ? gs_Reason_REASON_CLAIM_ENDED : gs_Reason_REASON_STORAGE;
    log_refusal(claim, request, reason_name(reason));
    return {reason};
  }
  const ClaimRow& row = **found;
  if (row.is_proven != request.is_proven) {
    log_refusal(claim, request, row.is_proven ? "server_not_named" : "server_unproven");
    return {gs_Reason_REASON_UNEXPECTED_MESSAGE};
  }
  if (!row.is_proven) {
    return {enrol(row, request, request.device.key)};
  }
  if (row.is_ended || now_ms_() >= row.expires_ms) {
    // A proof costs two multiplications on the curve, and the holders of an ended claim get none. Without a proof a
    // device believes no refusal: it comes again, and learns it in the handshake.
    log_refusal(claim, request, reason_name(gs_Reason_REASON_CLAIM_ENDED));
    return {gs_Reason_REASON_OVERLOADED};
  }
  KeyProof proof;
  const std::string name = kClaimMark + row.name;
  const Status status =
      prove_as_server({name, request.device.name, row.key}, row.server_secret, request.device.key, &proof);
  if (status == Status::kClosed) {
    log_refusal(claim, request, reason_name(gs_Reason_REASON_STORAGE));
    return {gs_Reason_REASON_STORAGE};  // no memory: later
  }
  if (status != Status::kOk || !is_same_confirm(proof.confirm_device, request.confirm)) {
    log_refusal(claim, request, "device_not_proven");
    return {gs_Reason_REASON_UNEXPECTED_MESSAGE};
  }
  ClaimVerdict verdict = {enrol(row, request, proof.device_key), true};
  std::ranges::copy(verdict.reason == gs_Reason_REASON_NONE ? proof.confirm_server : proof.confirm_refused,
                    verdict.confirm);
  return verdict;
}

}  // namespace gradstream
