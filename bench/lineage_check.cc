#include "bench/lineage_check.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "runtime/base/crc32c.h"
#include "server/program/config.h"
#include "server/run/run_core.h"
#include "server/run/weights.h"

namespace gradstream {
namespace {

// Of every device of gradstream-load, as its Hello says. Clients that train have more, which counts nowhere: updates
// have the same weight (take_run_source() asks for it).
constexpr uint32_t kLoadSampleCount = 1;
constexpr std::string_view kAckBegin = "event=ack";

bool is_in(const LineageAck& ack) {
  return ack.verdict == gs_Verdict_VERDICT_FOLDED || ack.verdict == gs_Verdict_VERDICT_LATE;
}

// A client that was started anew asks once more for the answer to the update in its state.
bool is_told_again(const LineageAck& before, const LineageAck& ack) {
  return ack.is_duplicate && ack.version == before.version && ack.verdict == before.verdict &&
         ack.base_version == before.base_version && ack.steps == before.steps && ack.crc32c == before.crc32c;
}

std::string name_of(const LineageAck& ack) {
  return "device=" + std::to_string(ack.device) + " task_sequence=" + std::to_string(ack.task_sequence) +
         " version=" + std::to_string(ack.version);
}

// Why records tell too little of a run that several nodes may train.
Objection check_records(const RunParameters& parameters) {
  if (parameters.has_memory()) {
    return "with correction_form memory or unbiased no sum stands for the updates of a version, and the checker "
           "compares sums; check a run with correction_form local or none";
  }
  if (parameters.fold->fold_weight == FoldWeight::kSampleCount) {
    return "with fold_weight sample_count an update weighs by its device's samples, which no record has; check a run "
           "with fold_weight uniform";
  }
  return {};
}

// Of the update, as the device has sent it.
std::vector<float> values_of(const RunParameters& parameters, const LineageAck& ack) {
  if (!ack.values.empty()) {
    return ack.values;
  }
  std::vector<float> values(parameters.value_count());
  for (uint32_t entry = 0; entry < values.size(); ++entry) {
    values[entry] = load_value(ack.device, ack.base_version, entry);
  }
  return values;
}

}  // namespace

Objection take_run_source(const std::string& text, RunParameters* out) {
  if (const Objection objection = parse_run_source(text, out)) {
    return objection.sentence + "use the release that wrote it";
  }
  const Objection objection = check_cluster_run(*out);
  return objection ? objection : check_records(*out);
}

// ---- The records ----

Objection LineageCheck::read(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  uint64_t number = 0;
  while (std::getline(file, line)) {
    ++number;
    LineageAck ack;
    if (parse_ack(line, &ack)) {
      take(ack);
    } else if (line.starts_with(kAckBegin)) {
      return path + ":" + std::to_string(number) + ": the line is torn; record once more on a disk with space";
    }
  }
  return number > 0 ? "" : path + " has no line: name a file of gradstream-load --record";
}

void LineageCheck::take(const LineageAck& ack) {
  const auto [before, is_new] = judged_.insert({{ack.device, ack.task_sequence}, ack});
  if (!is_new && is_told_again(before->second, ack)) {
    return;
  }
  if (!is_new) {
    ++figures_.doubled;
    findings_.push_back("event=doubled " + name_of(ack) + " version_before=" + std::to_string(before->second.version) +
                        " base_version=" + std::to_string(ack.base_version) +
                        " base_version_before=" + std::to_string(before->second.base_version));
  }
  if (!is_in(ack)) {
    ++figures_.refused;
    return;
  }
  ++figures_.acked;
  ++counts_[ack.device];
  accepted_[ack.version].push_back(ack);
}

void LineageCheck::find_foreign(const RunParameters& parameters, const LineageAck& ack) {
  const std::vector<float> values = values_of(parameters, ack);
  if (crc32c(0, reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)) != ack.crc32c) {
    ++figures_.foreign;
    findings_.push_back("event=foreign " + name_of(ack));
  }
}

// ---- The versions ----

// A ledger that stands behind the versions that were followed. Where the records had come to another model, it goes on
// from the published one.
void LineageCheck::begin_ledger(const LineageSource& source) {
  enrolment_ = std::make_unique<FollowedEnrolment>(static_cast<uint32_t>(source.rows.size()));
  ledger_ = std::make_unique<RunLedger>(source.parameters, *enrolment_, 1);
  ClipTally clip;
  const VersionRecord first = ledger_->make_first({});
  GS_ASSERT(ledger_->follow(first) == Status::kOk);
  GS_ASSERT(ledger_->begin(first, &clip) == Status::kOk);
  for (const VersionRecord& record : followed_) {
    GS_ASSERT(ledger_->follow(record) == Status::kOk);
    GS_ASSERT(ledger_->begin(record, &clip) == Status::kOk);
  }
}

// Into the ledger's open version, which makes `version`.
Status LineageCheck::fold(const LineageSource& source, uint32_t version) {
  for (const LineageAck& ack : accepted_[version]) {
    const std::vector<float> sent = values_of(source.parameters, ack);
    if (ack.base_version >= version || ack.device >= source.rows.size() ||
        sent.size() != source.parameters.value_count()) {
      return Status::kInvalidArgument;
    }
    const std::vector<Real> values(sent.begin(), sent.end());
    FoldInput input;
    input.owner = source.parameters.owner_of(ack.device);
    input.base_version = ack.base_version;
    input.steps_done = ack.steps;
    input.weight = fold_weight(source.parameters, kLoadSampleCount, version - 1 - ack.base_version);
    input.values = values;
    input.device = ack.device;
    GS_TRY(ledger_->add_fold(input));
  }
  return Status::kOk;
}

Objection LineageCheck::check_version(const LineageSource& source, const LineageSource::Version& version) {
  const uint32_t number = version.published.version;
  const std::string name = "version " + std::to_string(number);
  VersionRecord published;
  if (number != followed_.size() + 1 ||
      decode_published(source.parameters, version.published, &published) != Status::kOk) {
    return name + " does not read; take the release that published it";
  }
  ++figures_.versions;
  const size_t acked = accepted_[number].size();
  ClosingNotes notes;
  VersionRecord folded;
  const bool is_folded = acked > 0 && fold(source, number) == Status::kOk;
  if (is_folded) {
    folded = ledger_->close(enrolment_->active_count(), &notes);
  }
  followed_.push_back(published);
  ClipTally clip;
  if (is_folded && folded.digest == published.digest) {
    return ledger_->begin(folded, &clip) == Status::kOk ? "" : name + " does not follow from the one before";
  }
  ++figures_.digests_wrong;
  findings_.push_back("event=digest_wrong version=" + std::to_string(number) + " acked=" + std::to_string(acked) +
                      " counted=" + (version.update_count ? std::to_string(*version.update_count) : "unknown"));
  begin_ledger(source);
  return {};
}

// The sums of the open version, which makes `version`, against its records.
void LineageCheck::check_open(const LineageSource& source, uint32_t version) {
  const size_t acked = accepted_[version].size();
  bool is_same = fold(source, version) == Status::kOk;
  const PartialSum said = ledger_->take_partial();
  for (const PartialSum& sum : source.sums) {
    is_same = ledger_->merge(sum) == Status::kOk && is_same;
  }
  const PartialSum kept = ledger_->take_partial();
  if (!is_same || said != kept) {
    ++figures_.digests_wrong;
    findings_.push_back("event=open_sum_wrong version=" + std::to_string(version) + " acked=" + std::to_string(acked) +
                        " counted=" + std::to_string(kept.weights.update_count()));
  }
}

// ---- The rows ----

// A device's row counts its updates in transactions with their sums.
void LineageCheck::check_rows(const LineageSource& source) {
  for (uint32_t device = 0; device < source.rows.size(); ++device) {
    const DeviceWork& tally = source.rows[device].tally;
    const uint64_t counted = tally.updates_folded + tally.updates_late;
    const uint64_t acked = counts_[device];
    if (counted == acked) {
      continue;
    }
    figures_.lost += acked > counted ? acked - counted : 0;
    figures_.unrecorded += counted > acked ? counted - acked : 0;
    findings_.push_back("event=row_wrong device=" + std::to_string(device) + " acked=" + std::to_string(acked) +
                        " counted=" + std::to_string(counted));
  }
}

Objection LineageCheck::check(const LineageSource& source) {
  for (const auto& [key, ack] : judged_) {
    find_foreign(source.parameters, ack);
  }
  begin_ledger(source);
  for (const LineageSource::Version& version : source.versions) {
    if (Objection objection = check_version(source, version)) {
      return objection;
    }
  }
  const auto open = static_cast<uint32_t>(source.versions.size() + 1);
  check_open(source, open);
  for (auto later = accepted_.upper_bound(open); later != accepted_.end(); ++later) {
    for (const LineageAck& ack : later->second) {
      findings_.push_back("event=lost " + name_of(ack) + " open_version=" + std::to_string(open - 1));
    }
  }
  check_rows(source);
  return {};
}

}  // namespace gradstream
