// A run as its versions have made it: the open version and what has been folded into it, the models that devices may be
// repaired with, the records that may still be sent, and what the tasks of the open version ask for.
//
// It knows no device but by what it is told of one. Who keeps the rows of the devices, in a journal's ledger
// (server/coordinator/ledger.h) or elsewhere, hands in what follows from them. Nothing is decided here, and nothing
// stored: the same calls in the same order come to the same state.
//
//   make_first() -> follow() -> begin() -> prepare_fold(), commit_fold() or add_fold() or add_answer() for each update
//     -> close(), or follow() a record that another server has made -> begin() -> ...
#ifndef GRADSTREAM_SERVER_COORDINATOR_RUN_LEDGER_H_
#define GRADSTREAM_SERVER_COORDINATOR_RUN_LEDGER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/base/state_archive.h"
#include "server/coordinator/device_row.h"
#include "server/journal/journal_record.h"
#include "server/rules/aggregator.h"
#include "server/rules/enrolment.h"
#include "server/rules/model_average.h"
#include "server/rules/record.h"
#include "server/rules/stage_fold.h"
#include "server/rules/step_keeper.h"
#include "server/run/run_parameters.h"

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

class RunLedger {
 public:
  // aggregator_count: as of Coordinator. Parameters and enrolment, who takes part, outlive the ledger.
  RunLedger(const RunParameters& parameters, const Enrolment& enrolment, uint32_t aggregator_count);
  RunLedger(const RunLedger&) = delete;
  RunLedger& operator=(const RunLedger&) = delete;

  // ---- Versions ----
  // The record of version 0, for follow(): `start`, or, where that is empty, the point of the run's seed.
  VersionRecord make_first(std::span<const Real> start);
  // The record that ends the open version with what was folded. The model follows it already; begin() is next.
  // asked_count: devices that the version asked. Where the answers made nothing the notes say so, and the model stays.
  VersionRecord close(uint32_t asked_count, ClosingNotes* notes);
  // The model follows a record that was made elsewhere; begin() is next. kDataCorrupt: it does not follow from those
  // before it, or does not reach the digest that it names.
  Status follow(const VersionRecord& record);
  // The version that the record leads to is open. clip: what the version before it found of its updates. kDataCorrupt:
  // the record does not fit the run.
  Status begin(const VersionRecord& record, ClipTally* clip);
  // Of the version that `next` leads to: its round.
  uint32_t round_after(const VersionRecord& next) const;
  // What the step of a record promises that close() has made and begin() has not taken yet; step_status: of the
  // ClosingNotes. None where the record ends no round of training.
  std::optional<float> promise_of(const VersionRecord& record, Status step_status) const;

  bool has_version() const { return replica_.has_model(); }
  uint32_t version() const { return replica_.version(); }
  // Of the open version, from 0. Stages before training are no rounds. A round of several phases counts once, also
  // where the first one made nothing: a run has an end.
  uint32_t round() const { return open_.round; }
  uint64_t digest() const { return digest_; }
  // Of the model at `version`; none where that is forgotten.
  std::optional<uint64_t> digest_of(uint32_t version) const;
  const Replica& replica() const { return replica_; }
  const ModelAverage& average() const { return average_; }
  // Of the open version: what its tasks ask for.
  TaskStage stage() const { return stage_.step.stage; }
  const OpenStage& open_stage() const { return stage_; }
  TaskTerms task_terms() const;
  // Local steps that an update of them has at least: task_terms().steps_min.
  uint32_t steps_min() const;
  // Whether the open version asks everybody for the gradient at it, before the round's step.
  bool is_anchor_phase() const { return parameters_.phase_count() > 1 && !has_anchor_ && stage() == TaskStage::kTrain; }
  // Whether it came from the record of an anchor phase.
  bool has_anchor() const { return has_anchor_; }
  // Whether the open version asks everybody, whatever its rounds ask.
  bool asks_everybody() const { return is_anchor_phase() || stage() != TaskStage::kTrain; }
  // The switch as of the open version, where the run switches its delay rule by a statistic.
  const DelaySwitch& delay_switch() const { return delay_switch_; }
  // The step of a run that chooses it by itself, as of the open version; null: its keys have it.
  const StepKeeper* steps() const { return steps_.has_value() ? &*steps_ : nullptr; }
  // Of the open version's mean gradient, by the metric at its model; infinite where the model has no metric.
  double gradient_norm() const;

  // ---- Updates ----
  // 1 / q of an answer of this device, were it accepted now (server/run/participation.h). rounds_joined: of its row.
  Real inverse_participation(uint32_t device, uint32_t rounds_joined) const;
  // Whether the open version's fold takes an update, and if so what it adds there, for commit_fold(). Codes of
  // Aggregator::prepare. The state stays as it is; the values need not outlive the call.
  Status prepare_fold(const FoldInput& input);
  // Whether prepare_fold() would take it, with its codes; nothing is prepared afterwards.
  Status check_fold(const FoldInput& input);
  // Adds what prepare_fold() took last. Asserts that the input, without its values, is what that was told.
  void commit_fold(const FoldInput& input);
  // prepare_fold() and commit_fold(), of an update that counts already. Codes of Aggregator::add.
  Status add_fold(const FoldInput& input);
  // Of a run whose rule merges (Aggregator::is_mergeable()): what was folded since the version was begun, which it
  // forgets.
  PartialSum take_partial();
  // Adds what another server has folded. Codes of Aggregator::merge().
  Status merge(const PartialSum& sum);
  // Of a run whose rule has a memory (server/rules/kept_update.h); else null.
  UpdateKeeper* keeper() { return aggregator_->keeper(); }
  // What is wrong with an answer of a stage that has answers of its own; REASON_NONE: it may be added.
  StageFault check_answer(const StageAnswer& answer) const { return stage_.fold->check(answer); }
  // Its bounds were held when it came. kDataCorrupt: the fold cannot even read it.
  Status add_answer(const StageAnswer& answer);
  // An accepted update's line, which in START is none along a record. False: no record of the last two made it.
  bool add_line(const JournalRecord& update, const UpdateNotes& notes);
  // A task was issued to a device that weighs by so many samples, and by `before` until now; 0: by none.
  void give_samples(uint16_t before, uint16_t samples) { open_.samples.give(before, samples); }
  // Base version of the device's last update that the memory of the open version holds; none without.
  std::optional<uint32_t> memory_stamp(uint32_t device) const { return aggregator_->stamp(device); }
  // Aggregator::remembered_clip().
  uint32_t remembered_clip(uint32_t device, uint32_t base_version) const {
    return aggregator_->remembered_clip(device, base_version);
  }

  // For a device that says it holds this model.
  SyncPlan plan_sync(bool has_model, uint32_t held_version, uint64_t held_digest) const;

  // ---- Of a checkpoint, right after a version was begun: in parts, which stand in it in the order of these calls ----
  void exchange_version(StateArchive& io);
  void exchange_models(StateArchive& io);
  void exchange_stage(StateArchive& io);
  // Where the bytes are no state of this run the archive is not sound afterwards.
  void exchange_rule(StateArchive& io);

  // ---- For tests that compare two ledgers: lines, or nothing ----
  std::string stage_text() const;
  std::string step_text() const;
  // Of the fold as it stands, which has updates.
  std::string fold_text() const;
  std::string log_text() const;
  // Folds a value once more, past the journal: a fault that the simulator must find.
  void fold_again_for_test(const FoldInput& input) { static_cast<void>(add_fold(input)); }

 private:
  struct LoggedRecord {
    VersionRecord record;
    uint64_t digest_before = 0;
    size_t size = 0;  // on the wire
  };
  // The records from `held` to version(), none if one of them is forgotten; digest_before: of the model at `held`.
  std::vector<const VersionRecord*> records_after(uint32_t held, uint64_t* digest_before) const;
  Status finish_training(VersionRecord* record);
  VersionRecord close_stage(StageDecision* decision) const;
  // What the close of a round decides of the steps after it. scale: of the model that its record begins at.
  void decide_step(double scale, uint32_t asked_count, VersionRecord* record) const;
  Status follow_step(const VersionRecord& record);
  Real open_step() const;
  // Bits of what the open version has beside model and mean.
  uint32_t parts() const;
  // The table of units that the version of `next` has.
  const std::vector<uint8_t>& units_after(const VersionRecord& next) const;
  void begin_stage(const VersionRecord& record);
  // The record of a version that goes on from the average.
  Status put_average(VersionRecord* record) const;
  void remember(VersionRecord record);
  void exchange_replica(StateArchive& io);
  void exchange_log(StateArchive& io);

  const RunParameters& parameters_;
  const Enrolment& enrolment_;
  std::vector<uint64_t> memory_;  // of the arena
  Arena arena_;
  Replica replica_;
  ModelRing models_;
  std::unique_ptr<Aggregator> aggregator_;
  std::optional<FoldInput> prepared_;  // without its values
  ModelAverage average_;
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
  // The last records, as many as may still be sent as a Log.
  std::deque<LoggedRecord> log_;
  size_t log_size_ = 0;
  size_t log_size_max_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_RUN_LEDGER_H_
