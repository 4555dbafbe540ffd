#include "server/engine/followed_run.h"

#include <string>
#include <string_view>
#include <utility>

#include "server/base/state_archive.h"
#include "server/rules/aggregator.h"
#include "server/rules/record.h"
#include "server/run/fold_keys.h"
#include "server/run/quality_keys.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/trigger_keys.h"

namespace gradstream {
namespace {

// Of the bytes of encode_published(). Another one is of a release that this one does not read.
constexpr uint8_t kPublishedForm = 1;

// kDataCorrupt: another update than its place says, or bytes that are none.
Status decode_stored(const StoredUpdate& update, KeptUpdate* kept) {
  GS_TRY(decode_kept(update.bytes, kept));
  return kept->device == update.device && kept->base_version == update.base_version ? Status::kOk
                                                                                    : Status::kDataCorrupt;
}

// What stands against two sums in one server stands against two nodes. The remedy is another one.
std::string in_words_of_nodes(std::string sentence) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {{"2 aggregators: ", ""},
                                                                      {"take 1 aggregator", "take one server"}};
  for (const auto& [from, to] : kWords) {
    if (const size_t at = sentence.find(from); at != std::string::npos) {
      sentence.replace(at, from.size(), to);
    }
  }
  return sentence;
}

// What an engine keeps of a memory: the last update of each device, and those of the open version.
Objection check_cluster_memory(const RunParameters& parameters) {
  const uint32_t device_count = parameters.trigger->device_count;
  return device_count <= kClusterMemoryDevicesMax
             ? ""
             : "with correction_form memory or unbiased an engine keeps the updates of " +
                   std::to_string(kClusterMemoryDevicesMax) + " devices at most, and device_count is " +
                   std::to_string(device_count) + "; lower it, set correction_form to local, or take one server";
}

}  // namespace

Objection check_cluster_run(const RunParameters& parameters) {
  const std::string what = "several nodes: ";
  RunParameters of_sums = parameters;
  if (parameters.has_memory()) {
    if (const Objection objection = check_cluster_memory(parameters)) {
      return what + objection.sentence;
    }
    of_sums.local->correction_form = CorrectionForm::kLocal;  // beside its memory, the form is as any other
  }
  if (const Objection objection = check_aggregator_count(of_sums, 2)) {
    return what + in_words_of_nodes(objection.sentence);
  }
  if (parameters.phase_count() > 1) {
    return what +
           "with solver svrg a round has two phases, which no engine keeps yet; take another solver, or one server";
  }
  if (has_stages(parameters) || chooses_step(parameters)) {
    return what +
           "centre, scale and step_size auto ask for stages before training, which no engine keeps yet; "
           "leave them out, or take one server";
  }
  if (parameters.cohort->participation != Participation::kAll) {
    return what + "nodes ask every device; set participation to all, or take one server";
  }
  if (parameters.trigger->buffer_size > 0) {
    return what +
           "with buffer_size a version closes at a count that nodes reach apart; set it to 0, or take one server";
  }
  if (awaits_seen(parameters) || share_versions(parameters) > 0) {
    return what +
           "seen_versions and device_share_max need the attendance of all devices, which no engine keeps yet; "
           "leave them out, or take one server";
  }
  if (parameters.fold.keys().clip_norm != ClipNorm::kNone) {
    return what +
           "no engine keeps the radius of clip_norm yet, and correction_form local, memory and unbiased go without it; "
           "set it to none, or take one server";
  }
  if (parameters.quality->evaluation_period > 0) {
    return what + "no engine keeps evaluations yet; set evaluation_period to 0, or take one server";
  }
  return {};
}

std::vector<uint8_t> encode_published(const VersionRecord& record, Trigger trigger) {
  StateArchive io;
  uint8_t form = kPublishedForm;
  Real step_scale = record.step_scale;
  uint64_t digest = record.digest;
  std::vector<uint8_t> payload = encode_payload(record);
  io.values(form, trigger, step_scale, digest);
  io.numbers(payload);
  return io.take_bytes();
}

Status decode_published(const RunParameters& parameters, const PublishedVersion& published, VersionRecord* record) {
  StateArchive io(published.record);
  uint8_t form = 0;
  Trigger trigger = Trigger::kNone;
  std::vector<uint8_t> payload;
  *record = VersionRecord();
  record->version = published.version;
  io.values(form, trigger, record->step_scale, record->digest);
  io.numbers(payload);
  if (!io.is_sound() || !io.is_at_end() || form != kPublishedForm) {
    return Status::kDataCorrupt;
  }
  return decode_payload(parameters, payload, record);
}

FollowedRun::FollowedRun(const RunParameters& parameters, uint32_t device_count)
    : parameters_(parameters), enrolment_(parameters.has_memory() ? parameters.trigger->device_count : device_count) {
  GS_ASSERT(!check_cluster_run(parameters));
  ledger_ = make_ledger();
  const VersionRecord first = ledger_->make_first({});
  GS_ASSERT(ledger_->follow(first) == Status::kOk);
  GS_ASSERT(begin(first) == Status::kOk);
}

std::unique_ptr<RunLedger> FollowedRun::make_ledger() const {
  auto ledger = std::make_unique<RunLedger>(parameters_, enrolment_, 1);
  if (UpdateKeeper* const keeper = ledger->keeper()) {
    keeper->share();
  }
  return ledger;
}

bool FollowedRun::is_done() const { return ledger_->round() >= parameters_.trigger->round_count; }

Status FollowedRun::follow(const PublishedVersion& published) {
  VersionRecord record;
  if (published.version != version() + 1) {
    return Status::kDataCorrupt;
  }
  GS_TRY(decode_published(parameters_, published, &record));
  if (keeps_updates()) {
    ledger_->keeper()->share();  // the updates in that version are not here
  }
  if (ledger_->follow(record) != Status::kOk) {
    return Status::kDataCorrupt;
  }
  return begin(record);
}

Status FollowedRun::merge(const PartialSum& sum) {
  keep();
  return ledger_->merge(sum);
}

std::optional<VersionRecord> FollowedRun::close() {
  keep();
  if (has_memory() && !ledger_->keeper()->fits_mean()) {
    return std::nullopt;
  }
  ClosingNotes notes;
  return ledger_->close(enrolment_.active_count(), &notes);
}

Status FollowedRun::begin(const VersionRecord& record) {
  ClipTally clip;
  saved_.clear();
  for (const uint32_t device : record.forgotten) {
    forgotten_[device] = record.version;
  }
  return ledger_->begin(record, &clip);
}

// ---- Updates that no sum stands for ----

void FollowedRun::set_fleet(uint32_t active_count, std::vector<bool> has_left) {
  if (keeps_updates()) {
    enrolment_.set(active_count, std::move(has_left));
  }
}

void FollowedRun::begin_memory() {
  if (keeps_updates() && !has_memory()) {
    ledger_->keeper()->share();
  }
}

Status FollowedRun::remember(const StoredUpdate& update) {
  KeptUpdate kept;
  GS_TRY(decode_stored(update, &kept));
  return ledger_->keeper()->remember(kept);
}

Status FollowedRun::end_memory() { return ledger_->keeper()->end_memory(); }

Status FollowedRun::add_update(const StoredUpdate& update) {
  keep();
  KeptUpdate kept;
  GS_TRY(decode_stored(update, &kept));
  return ledger_->keeper()->add_update(kept);
}

uint32_t FollowedRun::memory_stamp(uint32_t device, const RowMemory& memory) const {
  const RowUpdate& held = memory.last.version <= version() ? memory.last : memory.before;
  const auto forgotten = forgotten_.find(device);
  const bool is_forgotten = forgotten != forgotten_.end() && forgotten->second >= held.version;
  return held.base_version == kNoVersion || is_forgotten ? 0 : held.base_version + 1;
}

void FollowedRun::take_part(EngineBatch* batch) {
  if (!keeps_updates()) {
    batch->sum = encode_partial(ledger_->take_partial());
    return;
  }
  for (const KeptUpdate& kept : ledger_->keeper()->take_updates()) {
    batch->updates.push_back({kept.device, kept.base_version, encode_kept(kept)});
  }
}

void FollowedRun::forget_part() {
  if (keeps_updates()) {
    static_cast<void>(ledger_->keeper()->take_updates());
  } else {
    static_cast<void>(ledger_->take_partial());
  }
}

// ---- The open version, to go back to ----

void FollowedRun::exchange(StateArchive& io) {
  ledger_->exchange_version(io);
  ledger_->exchange_models(io);
  ledger_->exchange_stage(io);
  ledger_->exchange_rule(io);
}

void FollowedRun::keep() {
  if (saved_.empty()) {
    StateArchive io;
    exchange(io);
    saved_ = io.take_bytes();
  }
}

void FollowedRun::reopen() {
  if (saved_.empty()) {
    return;
  }
  ledger_ = make_ledger();
  const std::vector<uint8_t> saved = std::exchange(saved_, {});
  StateArchive io(saved);
  exchange(io);
  GS_ASSERT(io.is_sound());  // this process wrote it
}

}  // namespace gradstream
