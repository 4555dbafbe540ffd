#include "sim/cluster_oracle.h"

#include <optional>
#include <utility>

#include "server/coordinator/upload_rules.h"
#include "server/engine/engine_clock.h"
#include "server/engine/followed_run.h"
#include "server/run/run_stages.h"
#include "server/run/weights.h"

namespace gradstream {
namespace {

// From when a task is judged to when it is committed, ms, at most. Reason: a leader that stands still for four leases
// has a front that does, and a batch of unknown outcome is asked about some times.
constexpr uint64_t kIssueMostMs = 60'000;

}  // namespace

ClusterOracle::ClusterOracle(const RunParameters& parameters, const std::vector<std::string>& names)
    : parameters_(parameters), single_(parameters, names), oracle_(parameters) {
  broken(oracle_.on_record(single_.open_first_version({})));
}

void ClusterOracle::broken(const std::string& sentence) {
  if (fault_.empty()) {
    fault_ = sentence;
  }
}

// As a Task has it: 1 + the base version; 0: none.
uint32_t ClusterOracle::stamp_of(uint32_t device) const {
  const std::optional<uint32_t> stamp = single_.run().memory_stamp(device);
  return stamp.has_value() ? *stamp + 1 : 0;
}

// ---- What is said ----

void ClusterOracle::on_said(uint64_t session, uint32_t device, const DeviceMessage& message) {
  Intake& intake = intakes_.try_emplace(session, value_count_max(parameters_)).first->second;
  IntakeResult taken = IntakeResult::kMore;
  if (message.which_body == gs_DeviceMessage_hello_tag) {
    samples_[device] = message.body.hello.sample_count;
  } else if (message.which_body == gs_DeviceMessage_update_scalars_tag) {
    taken = intake.take(message.body.update_scalars);
  } else if (message.which_body == gs_DeviceMessage_update_tangent_tag) {
    taken = intake.take(message.body.update_tangent);
  }
  if (taken == IntakeResult::kComplete) {
    uploads_.insert_or_assign({device, intake.upload().task_sequence}, intake.upload());
  }
}

void ClusterOracle::on_told(uint32_t device, const ServerMessage& message) {
  if (message.which_body == gs_ServerMessage_welcome_tag) {
    broken(message.body.welcome.version <= version() ? "" : "a Welcome left before its version was published");
  } else if (message.which_body == gs_ServerMessage_task_tag && message.body.task.version == version() &&
             message.body.task.memory_stamp != stamp_of(device)) {
    broken("a Task says another update of device " + std::to_string(device) + " than the memory holds");
  } else if (message.which_body != gs_ServerMessage_wait_tag) {
    broken(oracle_.on_message(device, message, {}));
  }
}

// ---- What is committed ----

// The record, next in the journal of the single server.
void ClusterOracle::record(JournalRecord record) {
  record.set_sequence(single_.last_sequence() + 1);
  if (single_.apply(record) != Status::kOk) {
    broken("a batch does not follow from those before it");
    return;
  }
  broken(oracle_.on_record(record));
}

void ClusterOracle::on_batch(const std::string& node, const EngineBatch& batch, uint64_t engine_ms) {
  const uint64_t before_count = update_count_;
  if (batch.open_version < version()) {
    broken("the engine has lost version " + std::to_string(version()) + ", and takes a batch before it");
  } else if (batch.open_version > version()) {
    broken("a batch of node " + node + " is committed for a version that nobody has published");
  }
  for (const RowChange& change : batch.changes) {
    DeviceRow& before = rows_[change.device];
    const bool is_judged = change.row.judged != before.judged;
    if (change.task_sequence != before.task.sequence || change.is_open != before.task.is_open) {
      broken("the engine has lost what it had committed of device " + std::to_string(change.device));
    } else if (is_judged && (!before.task.is_open || change.row.judged.task_sequence != before.task.sequence)) {
      broken("node " + node + " judges a task that is not open");
    }
    if (!fault_.empty()) {
      return;
    }
    if (is_judged) {
      on_verdict(change.device, before, change.row.judged);
    }
    if (change.row.task.sequence != before.task.sequence) {
      on_task(change.device, change.row.task, engine_ms);
    }
    before = change.row;
  }
  if (update_count_ - before_count != batch.on_time_count + batch.late_count) {
    broken("a batch of node " + node + " counts other updates than its rows accept");
  }
}

void ClusterOracle::on_verdict(uint32_t device, const DeviceRow& before, const JudgedTask& judged) {
  if (judged.verdict == gs_Verdict_VERDICT_FOLDED || judged.verdict == gs_Verdict_VERDICT_LATE) {
    on_update(device, before, judged);
    return;
  }
  if (judged.reason == gs_Reason_REASON_NO_TIME) {
    broken("an honest update was refused for its time");
    return;
  }
  record(JournalRecord::verdict({.device = device,
                                 .task_sequence = judged.task_sequence,
                                 .version = before.task.version,
                                 .verdict = judged.verdict,
                                 .reason = judged.reason}));
}

void ClusterOracle::on_update(uint32_t device, const DeviceRow& before, const JudgedTask& judged) {
  const auto said = uploads_.find({device, judged.task_sequence});
  if (said == uploads_.end()) {
    broken("an update was accepted that its device never sent");
    return;
  }
  if (judged.version != version() + 1) {
    broken("an update was committed into another version than it was judged for");
    return;
  }
  const Upload& upload = said->second;
  std::vector<Real> values;
  if (decode_upload(upload, &values) != gs_Reason_REASON_NONE) {
    broken("an update was accepted whose values do not read");
    return;
  }
  std::vector<uint8_t> bytes(encoded_size(kRealEncoding, values.size()));
  GS_ASSERT(encode_values(kRealEncoding, values.size(), values.data(), bytes.data()) == Status::kOk);
  ++update_count_;
  record(JournalRecord::update({.device = device,
                                .task_sequence = judged.task_sequence,
                                .base_version = before.task.version,
                                .version = judged.version,
                                .steps_done = upload.steps_done,
                                .weight = fold_weight(parameters_, samples_[device], version() - before.task.version),
                                .verdict = judged.verdict,
                                .loss_before = upload.loss_before,
                                .loss_after = upload.loss_after,
                                .values = std::move(bytes)}));
}

void ClusterOracle::on_task(uint32_t device, const IssuedTask& task, uint64_t engine_ms) {
  // A front may have judged it before a fail-over, by a clock that the engine has no more.
  if (task.issued_ms > engine_ms + kClockErrorMaxMs + kStandbyBackMs || task.issued_ms + kIssueMostMs < engine_ms) {
    broken("a task was issued at another time than the engine's");
    return;
  }
  if (task.version != version()) {
    broken("a task was committed into another version than it was issued for");
    return;
  }
  const bool is_whole = task.steps == single_.run().task_terms().local_step_count;
  record(JournalRecord::task({.device = device,
                              .task_sequence = task.sequence,
                              .version = task.version,
                              .step_count = is_whole ? 0 : task.steps,
                              .sample_count = parameters_.memory_weighs_samples() ? uint32_t{task.samples} : 0}));
}

// ---- What is published ----

void ClusterOracle::on_published(const std::string& node, const LeaseRow& lease, const PublishedVersion& next) {
  VersionRecord published;
  if (next.version <= version()) {
    broken("the engine has lost version " + std::to_string(version()) + ", and takes another one in its place");
  } else if (lease.node != node) {
    broken("node " + node + " publishes a version, and the lease is held by " + lease.node);
  } else if (single_.tally().on_time_count + single_.tally().late_count == 0) {
    broken("a version was published without an update");
  } else if (decode_published(parameters_, next, &published) != Status::kOk) {
    broken("a version was published that does not read");
  }
  if (!fault_.empty()) {
    return;
  }
  ClosingNotes notes;
  const JournalRecord closed = single_.close_version(Trigger::kGoal, &notes);
  if (closed.version() != published.version || closed.digest() != published.digest ||
      closed.payload() != encode_payload(published)) {
    broken("version " + std::to_string(published.version) + " is not what one server makes of its updates");
    return;
  }
  broken(oracle_.on_record(closed));
}

}  // namespace gradstream
