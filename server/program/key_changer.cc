#include "server/program/key_changer.h"

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/base/refusal_catalogue.h"
#include "server/link/session.h"

namespace gradstream {

namespace {

KeyChange answer_of(uint32_t generation, std::span<const uint8_t, kConfirmSize> confirm) {
  KeyChange answer;
  answer.generation = generation;
  answer.has_confirm = true;
  std::ranges::copy(confirm, answer.confirm);
  return answer;
}

}  // namespace

KeyChanger::KeyChanger(SqliteDatabase& fleet, FleetAlarm& alarm, std::function<uint64_t()> now_ms)
    : fleet_(fleet), alarm_(alarm), now_ms_(std::move(now_ms)) {}

std::optional<KeyChange> KeyChanger::find(const EnrolledDevice& device, bool is_able) {
  if (device.key_change_since_ms == 0 || now_ms_() >= device.key_change_since_ms + kKeyChangeAgeMaxMs) {
    return std::nullopt;
  }
  if (!is_able) {
    if (waiting_.emplace(device.index, device.key_change_since_ms).second) {
      log_event("key_change_waits"_event,
                Fields().add("device", device.name).add("since_ms", device.key_change_since_ms));
    }
    return std::nullopt;
  }
  const Expected<std::optional<EnrolledDevice>> found = fleet_.find_device(device.name);
  const Expected<std::optional<KeyChangeRow>> row = fleet_.find_key_change(device.name);
  if (!found.is_ok() || !row.is_ok()) {
    return fail().answer;
  }
  KeyChange ask;
  if (!*found || !*row || (*row)->since_ms == 0 ||
      find_public_key((*row)->server_secret, ask.public_key) != Status::kOk) {
    return std::nullopt;
  }
  ask.generation = (*found)->generation + 1;
  ask.has_public = true;
  return ask;
}

KeyChanger::Ruling KeyChanger::fail() {
  alarm_.raise(fleet_);
  return {};
}

// The reason is one of the catalogue's, which has the remedy.
KeyChanger::Ruling KeyChanger::refuse(const std::string& name, const KeyChange& offer, const char* reason) {
  if (lines_.admit(kFaultLines, now_ms_())) {
    const RefusalRow* const row = find_refusal(RefusalKind::kKey, reason);
    GS_ASSERT(row != nullptr);
    log_event("key_change_refused"_event, Fields()
                                              .add("device", name)
                                              .add("generation", uint64_t{offer.generation})
                                              .add("reason", reason)
                                              .add("remedy", row->remedy));
  }
  KeyChange answer;
  answer.generation = offer.generation;
  return {answer, false};
}

KeyChanger::Ruling KeyChanger::judge(const std::string& name, const KeyChange& offer) {
  const Expected<std::optional<EnrolledDevice>> found = fleet_.find_device(name);
  const Expected<std::optional<KeyChangeRow>> change = fleet_.find_key_change(name);
  if (!found.is_ok() || !change.is_ok()) {
    return fail();
  }
  if (!*found || !*change) {
    return refuse(name, offer, "not_asked");
  }
  const EnrolledDevice& device = **found;
  const KeyChangeRow& row = **change;
  if (offer.generation == device.generation && row.has_receipt) {
    if (std::ranges::equal(row.receipt.device_public, offer.public_key)) {
      return {answer_of(offer.generation, row.receipt.confirm), true};  // the answer before was lost
    }
    return refuse(name, offer, "key_taken");
  }
  if (row.since_ms == 0 || now_ms_() >= row.since_ms + kKeyChangeAgeMaxMs) {
    return refuse(name, offer, "not_asked");
  }
  if (offer.generation != device.generation + 1) {
    return refuse(name, offer, "wrong_generation");
  }
  return accept(device, row, offer);
}

KeyChanger::Ruling KeyChanger::accept(const EnrolledDevice& device, const KeyChangeRow& row, const KeyChange& offer) {
  KeyProof proof;
  const Status status = prove_as_server(KeyChangeTerms{device.name, offer.generation, device.key}, row.server_secret,
                                        offer.public_key, &proof);
  if (status == Status::kClosed) {
    return {};  // no memory: later
  }
  if (status != Status::kOk || !is_same_confirm(proof.confirm_device, offer.confirm)) {
    return refuse(device.name, offer, "device_not_proven");
  }
  uint64_t now_ms = now_ms_();
  const uint64_t until_ms = now_ms + uint64_t{row.window_s} * 1000;
  KeyChangeRow::Receipt receipt;
  std::ranges::copy(offer.public_key, receipt.device_public.begin());
  std::ranges::copy(proof.confirm_server, receipt.confirm.begin());
  const Expected<bool> is_changed =
      fleet_.change_key(device.name, offer.generation, proof.device_key, until_ms, receipt);
  if (!is_changed.is_ok()) {
    return fail();
  }
  if (!*is_changed) {  // a command was faster
    return refuse(device.name, offer, "not_asked");
  }
  log_event("key_changed"_event, Fields()
                                     .add("device", device.name)
                                     .add("generation", uint64_t{offer.generation})
                                     .add("previous_until_ms", until_ms));
  return {answer_of(offer.generation, proof.confirm_server), true};
}

}  // namespace gradstream
