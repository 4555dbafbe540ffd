// What the journal of a run says: the state that every record moves, and nothing else does.
//
// A live coordinator and one that recovers call the same apply() for the same records, so that recovery cannot differ
// from the life before it. Deciding is the coordinator's; here nothing is decided.
#ifndef GRADSTREAM_SERVER_COORDINATOR_LEDGER_H_
#define GRADSTREAM_SERVER_COORDINATOR_LEDGER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/coordinator/fleet.h"
#include "server/coordinator/norm_book.h"
#include "server/coordinator/quality.h"
#include "server/coordinator/run_progress.h"
#include "server/coordinator/stall.h"
#include "server/journal/store.h"
#include "server/rules/aggregator.h"
#include "server/rules/model_average.h"
#include "server/rules/record.h"
#include "server/rules/stage_fold.h"
#include "server/rules/step_keeper.h"
#include "server/run/run_parameters.h"
#include "server/run/trigger.h"

namespace gradstream {

// Why a device needs what it is sent.
enum class SyncCause : uint8_t {
  kCurrent,   // it holds the current model: nothing
  kBehind,    // it missed versions: their records
  kJoined,    // it holds no model: a snapshot
  kShorter,   // the records would be longer than a snapshot, are forgotten, or do not exist: a snapshot
  kMismatch,  // its digest is not that of the version it claims: a snapshot
  kAhead,     // it holds a version that is not there yet, since the database is an older copy: a snapshot
  kPhase,     // it holds the model, and a phase or stage has brought tensors beside it: these
};
const char* sync_cause_name(SyncCause cause);

// How a device gets from the model it holds to the current one: first the snapshot, if there is one, then the records.
// A snapshot that repairs a wrong model is of the device's own version where that is still known. Reason: the device's
// correction rests on the records after that version. Pointers are valid until the next version.
struct SyncPlan {
  SyncCause cause = SyncCause::kCurrent;
  const Real* snapshot = nullptr;
  const FixedWord* snapshot_mean = nullptr;  // where replicas hold one
  uint32_t snapshot_version = 0;
  uint64_t snapshot_digest = 0;
  uint32_t snapshot_parts = part_bit(ModelPart::kModel);  // extra ones are those of the open version
  std::vector<const VersionRecord*> records;
};

// What the tasks of the open version ask for, beside what the run's parameters say.
struct TaskTerms {
  SolverId solver = SolverId::kNone;
  BatchMode batch_mode = BatchMode::kNone;
  uint32_t batch_size = 0;  // 0: the run's
  uint32_t local_step_count = 0;
  uint32_t steps_min = 0;
  Real step_size = 0;
  Real proximal = 0;
  Real curvature = 0;
  bool draws_iterate = false;
  TaskStage stage = TaskStage::kTrain;
  Encoding encoding = Encoding::kNone;  // of the upload; kNone: the run's
  bool evaluates = false;               // the samples held out at the open version, where the device can
};

// What is told of a run and decides nothing.
struct Books {
  QualityBook quality;
  NormBook norms = {};
};

// The losses of the updates of a version, as far as their devices tell them.
struct LossTally {
  uint32_t count = 0;  // of updates that tell
  double before = 0;
  double after = 0;

  // update: a record of kind kUpdate.
  void take(const JournalRecord& update) {
    if (update.tells_losses()) {
      ++count;
      before += static_cast<double>(update.loss_before());
      after += static_cast<double>(update.loss_after());
    }
  }
  // Whether the version that `version` makes has losses: answers of stages before training have none.
  bool has_losses(const JournalRecord& version) const {
    return count > 0 && (version.promise().has_value() || before != 0 || after != 0);
  }
  // Means; 0 where nobody tells.
  double mean_before() const { return count == 0 ? 0 : before / count; }
  double mean_after() const { return count == 0 ? 0 : after / count; }
};

// What has come in for the open version, for the operator's log.
struct RoundTally {
  uint32_t on_time_count = 0;
  uint32_t late_count = 0;
  uint32_t partial_count = 0;
  LossTally losses;
  uint32_t lines_dropped = 0;  // of updates, that no record of the last two made
};

// Where a run stands before it trains, as its records say. Of a run without stages the first version trains.
struct OpenStage {
  StageStep step;
  std::vector<uint8_t> units;           // the table; empty: there is none yet
  std::vector<uint8_t> decision;        // of the last version in which a rule decided something
  uint32_t train_version = kNoVersion;  // the first version that trains; kNoVersion: it is not there yet
  bool keeps_model = false;             // a stage made the open version ...
  uint64_t digest_before = 0;           // ... from one of this digest
  std::unique_ptr<StageFold> fold;      // null: the version trains
};

// What the close of a version has to tell, beyond its record.
struct ClosingNotes {
  Status status = Status::kOk;  // or why the answers made nothing: the model stands still, the stage is asked anew
  DelayNotes delay;
  StageDecision stage;  // of a version that did not train
  ClipTally clip;       // of a run that clips
};

class Ledger {
 public:
  // aggregator_count: as of Coordinator.
  Ledger(const RunParameters& parameters, const std::vector<std::string>& names, uint32_t aggregator_count = 1);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // kDataCorrupt: the record does not follow from those before it, or does not reach the digest it names. The ledger is
  // then of no more use.
  Status apply(const JournalRecord& record);
  // The same for the record of the update that prepare_fold() took last. Its values are neither decoded nor checked
  // again. Asserts that the record says of the update what prepare_fold() was told.
  Status apply_prepared(const JournalRecord& record);

  // The record, already applied, that opens version 0 with `start`, or, where that is empty, the point of the run's
  // seed.
  JournalRecord open_first_version(std::span<const Real> start);
  // The record, already applied, that closes the open version with what was folded.
  JournalRecord close_version(Trigger trigger, ClosingNotes* notes);
  TaskTerms task_terms() const;
  // Local steps that an update of them has at least: task_terms().steps_min.
  uint32_t steps_min() const;
  // 1 / q of an answer of this device, were it accepted now (server/run/participation.h).
  Real inverse_participation(uint32_t device) const;
  // Whether the open version's fold takes an update, and if so what it adds there, for apply_prepared(). Codes of
  // Aggregator::prepare. The ledger's state stays as it is; the values need not outlive the call.
  Status prepare_fold(const FoldInput& input);
  // Whether prepare_fold() would take it, with its codes; nothing is prepared afterwards.
  Status check_fold(const FoldInput& input);

  // What is wrong with an answer of a stage that has answers of its own; REASON_NONE: a record of it may be applied.
  StageFault check_answer(const StageAnswer& answer) const { return stage_.fold->check(answer); }

  // Base version of the device's last update that the memory of the open version holds; none without.
  std::optional<uint32_t> memory_stamp(uint32_t device) const { return aggregator_->stamp(device); }
  // Aggregator::remembered_clip().
  uint32_t remembered_clip(uint32_t device, uint32_t base_version) const {
    return aggregator_->remembered_clip(device, base_version);
  }

  bool has_version() const { return replica_.has_model(); }
  uint32_t version() const { return replica_.version(); }
  // Of the open version: what its tasks ask for.
  TaskStage stage() const { return stage_.step.stage; }
  const OpenStage& open_stage() const { return stage_; }
  // Of the open version, from 0. Stages before training are no rounds. A round of several phases counts once, also
  // where the first one made nothing: a run has an end.
  uint32_t round() const { return open_.round; }
  uint64_t digest() const { return digest_; }
  // Of the model at `version`; none where that is forgotten.
  std::optional<uint64_t> digest_of(uint32_t version) const;
  const Replica& replica() const { return replica_; }
  const ModelAverage& average() const { return average_; }
  const QualityBook& quality() const { return books_.quality; }
  // Of a run that clips, as of its last version.
  const NormBook& norms() const { return books_.norms; }
  // Coordinator::forget_figures().
  void forget_figures(uint32_t device) { books_.norms.forget(device); }
  gs_RunState run_state() const { return run_state_; }
  bool is_over() const;  // finished or stopped
  // Whether the open version ends the run: its rounds are done, or end_cause() has something to say. By the records
  // alone, so that a process that died between the version and the end comes to the same.
  bool is_done() const;
  // Why the run ends before its rounds are done; empty: it does not.
  StallCause end_cause() const;
  bool is_paused() const { return run_state_ == gs_RunState_RUN_STATE_PAUSED; }
  // Whether the open version asks everybody for the gradient at it, before the round's step.
  bool is_anchor_phase() const { return parameters_.phase_count() > 1 && !has_anchor_ && stage() == TaskStage::kTrain; }
  // Whether the open version asks everybody, whatever its rounds ask.
  bool asks_everybody() const { return is_anchor_phase() || stage() != TaskStage::kTrain; }
  uint64_t last_sequence() const { return last_sequence_; }
  uint32_t extension_count() const { return extension_count_; }
  // Of a run that is stalled, as its last record says; empty where no cause was known.
  const StallCause& stall() const;
  // Of a run that ended before its rounds were done, as its last record says; else empty.
  const StallCause& end() const;
  // The switch as of the open version, where the run switches its delay rule by a statistic.
  const DelaySwitch& delay_switch() const { return delay_switch_; }
  const RoundTally& tally() const { return tally_; }
  // The step of a run that chooses it by itself, as of the open version; null: its keys have it.
  const StepKeeper* steps() const { return steps_.has_value() ? &*steps_ : nullptr; }
  // Whether the run improves, by its records up to now.
  const RunProgress& progress() const { return progress_; }
  Fleet& fleet() { return fleet_; }
  const Fleet& fleet() const { return fleet_; }

  // All of it right after a version was begun, of a checkpoint. A ledger that reads has seen no record yet. Where the
  // bytes are no state of this run the archive is not sound, and the ledger of no more use.
  void exchange(StateArchive& io);
  // Accepted updates of all versions.
  uint64_t update_count() const;

  // For a device that says it holds this model.
  SyncPlan plan_sync(bool has_model, uint32_t held_version, uint64_t held_digest) const;

  // All of the state, one line for each part, for tests that compare two ledgers.
  std::string state_text() const;
  // Folds a value once more, past the journal: a fault that the simulator must find.
  void fold_again_for_test(const FoldInput& input);

 private:
  struct LoggedRecord {
    VersionRecord record;
    uint64_t digest_before = 0;
    size_t size = 0;  // on the wire
  };
  // The records from `held` to version(), none if one of them is forgotten; digest_before: of the model at `held`.
  std::vector<const VersionRecord*> records_after(uint32_t held, uint64_t* digest_before) const;

  Status apply_task(const JournalRecord& record);
  Status apply(const JournalRecord& record, FoldSource source);
  Status apply_update(const JournalRecord& record, FoldSource source);
  FoldInput input_of(const JournalRecord& record) const;
  Status apply_verdict(const JournalRecord& record);
  Status apply_version(const JournalRecord& record);
  Status apply_answer(const JournalRecord& record);
  void count_line(const JournalRecord& record, const UpdateNotes& notes);
  Status apply_run_event(const JournalRecord& record);
  uint32_t round_after(const VersionRecord& next) const;
  // Who is asked in the version that `next` leads to.
  Cohort next_cohort(const VersionRecord& next) const;
  Status finish_training(VersionRecord* record);
  VersionRecord close_stage(StageDecision* decision) const;
  // What the close of a round decides of the steps after it. scale: of the model that its record begins at.
  void decide_step(double scale, VersionRecord* record) const;
  Status follow_step(const VersionRecord& record);
  Real open_step() const;
  // Of the open version's mean gradient, by the metric at its model; infinite where the model has no metric.
  double gradient_norm() const;
  // Bits of what the open version has beside model and mean.
  uint32_t parts() const;
  // The table of units that the version of `next` has.
  const std::vector<uint8_t>& units_after(const VersionRecord& next) const;
  void begin_stage(const VersionRecord& record);
  std::string stage_text() const;
  // The record of a version that goes on from the average.
  Status put_average(VersionRecord* record) const;
  // After the replica has followed the record.
  Status begin_version(const VersionRecord& record);
  void remember(VersionRecord record);
  void exchange_replica(StateArchive& io);
  void exchange_stage(StateArchive& io);
  void exchange_log(StateArchive& io);
  JournalRecord journal_record(const VersionRecord& record, Trigger trigger, std::optional<float> promise = {}) const;
  // Of the open version, whose record the replica has followed; step_status as close_version() says it.
  std::optional<float> promise_of(const VersionRecord& record, Status step_status) const;

  RunParameters parameters_;
  Fleet fleet_;
  std::vector<uint64_t> memory_;  // of the arena
  Arena arena_;
  Replica replica_;
  ModelRing models_;
  std::unique_ptr<Aggregator> aggregator_;
  std::optional<FoldInput> prepared_;  // without its values
  ModelAverage average_;
  Books books_;
  const std::vector<Real> probabilities_;  // of participation
  OpenRound open_;
  OpenStage stage_;
  std::optional<StepKeeper> steps_;  // of a run that chooses its step by itself
  uint64_t digest_ = 0;
  uint64_t model_digest_ = 0;  // of the open version's model alone
  // Whether the open version came from the record of an anchor phase, and that record's step and curvature.
  bool has_anchor_ = false;
  Real local_step_ = 0;
  Real curvature_ = 0;
  DelaySwitch delay_switch_;
  gs_RunState run_state_ = gs_RunState_RUN_STATE_ACTIVE;
  uint32_t extension_count_ = 0;
  StallCause stall_;  // of the last run event, a stall or the end
  RoundTally tally_;
  RunProgress progress_;
  uint64_t last_sequence_ = 0;
  // The last records, as many as may still be sent as a Log.
  std::deque<LoggedRecord> log_;
  size_t log_size_ = 0;
  size_t log_size_max_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_LEDGER_H_
