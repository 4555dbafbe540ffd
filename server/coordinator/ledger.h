// What the journal of a run says: the state that every record moves, and nothing else does. What versions have made is
// RunLedger's; here are the rows of the devices beside it, and what records alone tell.
//
// A live coordinator and one that recovers call the same apply() for the same records, so that recovery cannot differ
// from the life before it. Deciding is the coordinator's; here nothing is decided.
#ifndef GRADSTREAM_SERVER_COORDINATOR_LEDGER_H_
#define GRADSTREAM_SERVER_COORDINATOR_LEDGER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/coordinator/fleet.h"
#include "server/coordinator/norm_book.h"
#include "server/coordinator/quality.h"
#include "server/coordinator/run_ledger.h"
#include "server/coordinator/run_progress.h"
#include "server/coordinator/stall.h"
#include "server/journal/store.h"
#include "server/run/run_parameters.h"
#include "server/run/trigger.h"

namespace gradstream {

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
  // What was folded since the version was begun, which forgets it, of a rule that merges.
  PartialSum take_partial() { return run_.take_partial(); }
  UpdateKeeper* keeper() { return run_.keeper(); }
  // What is open, and what devices are sent of it.
  const RunLedger& run() const { return run_; }
  // 1 / q of an answer of this device, were it accepted now (server/run/participation.h).
  Real inverse_participation(uint32_t device) const;
  // As RunLedger::prepare_fold() and check_fold(); apply_prepared() commits what was prepared.
  Status prepare_fold(const FoldInput& input) { return run_.prepare_fold(input); }
  Status check_fold(const FoldInput& input) { return run_.check_fold(input); }

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
  uint64_t last_sequence() const { return last_sequence_; }
  uint32_t extension_count() const { return extension_count_; }
  // Of a run that is stalled, as its last record says; empty where no cause was known.
  const StallCause& stall() const;
  // Of a run that ended before its rounds were done, as its last record says; else empty.
  const StallCause& end() const;
  const RoundTally& tally() const { return tally_; }
  // Whether the run improves, by its records up to now.
  const RunProgress& progress() const { return progress_; }
  Fleet& fleet() { return fleet_; }
  const Fleet& fleet() const { return fleet_; }

  // All of it right after a version was begun, of a checkpoint. A ledger that reads has seen no record yet. Where the
  // bytes are no state of this run the archive is not sound, and the ledger of no more use.
  void exchange(StateArchive& io);
  // Accepted updates of all versions.
  uint64_t update_count() const;

  // All of the state, one line for each part, for tests that compare two ledgers.
  std::string state_text() const;
  // Folds a value once more, past the journal: a fault that the simulator must find.
  void fold_again_for_test(const FoldInput& input) { run_.fold_again_for_test(input); }

 private:
  Status apply_task(const JournalRecord& record);
  Status apply(const JournalRecord& record, FoldSource source);
  Status apply_update(const JournalRecord& record, FoldSource source);
  Status fold(const JournalRecord& record, FoldSource source);
  FoldInput input_of(const JournalRecord& record) const;
  Status apply_verdict(const JournalRecord& record);
  Status apply_version(const JournalRecord& record);
  Status apply_run_event(const JournalRecord& record);
  // Who is asked in the version that `next` leads to.
  Cohort next_cohort(const VersionRecord& next) const;
  // After the model has followed the record.
  Status begin_version(const VersionRecord& record);
  JournalRecord journal_record(const VersionRecord& record, Trigger trigger, std::optional<float> promise = {}) const;

  RunParameters parameters_;
  Fleet fleet_;
  RunLedger run_;
  Books books_;
  gs_RunState run_state_ = gs_RunState_RUN_STATE_ACTIVE;
  uint32_t extension_count_ = 0;
  StallCause stall_;  // of the last run event, a stall or the end
  RoundTally tally_;
  RunProgress progress_;
  uint64_t last_sequence_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_LEDGER_H_
