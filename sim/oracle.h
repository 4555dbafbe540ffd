// The oracle: reads the journal as it grows and holds the run to the invariants of the design (section 5). It computes
// every fold and every model again by itself, from the kUpdate records alone.
#ifndef GRADSTREAM_SIM_ORACLE_H_
#define GRADSTREAM_SIM_ORACLE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/coordinator.h"
#include "server/rules/record.h"
#include "sim/oracle_attendance.h"
#include "sim/oracle_steps.h"

namespace gradstream {

class Oracle {
 public:
  // A Hello or Pull as it reached the server. The claims of its answer must have held in the durable journal at some
  // time from then on.
  struct Request {
    uint32_t version = 0;    // durable then
    size_t state_index = 0;  // of the durable run state then
    uint32_t lost_task_sequence = 0;
  };

  explicit Oracle(const RunParameters& parameters);
  // From now on the oracle keeps only the last tasks of each device, and the versions that an update may be made at.
  // For long runs whose messages are not looked at.
  void forget_old() { forgets_ = true; }

  // What a device holds: count samples of columns numbers each, which outlive the oracle. In a run that takes units out
  // each answer, and the table of each version, is computed again from them.
  void hold_samples(uint32_t device, const Real* samples, uint32_t count, uint32_t columns);

  // Each returns a sentence on the first invariant that is broken, or nothing.
  // A record that has become durable, in order.
  std::string on_record(const JournalRecord& record);
  // A message that leaves the server for a device: everything it says must be durable (output commit rule), and an Ack
  // must repeat the journal's verdict. request: what it answers, as far as it is a Welcome or a Wait.
  std::string on_message(uint32_t device, const ServerMessage& message, const Request& request) const;
  // The coordinator's model must be that of the journal.
  std::string on_state(const Coordinator& coordinator) const;

  Request request(uint32_t lost_task_sequence) const {
    return {has_version_ ? version() : 0, states_.size() - 1, lost_task_sequence};
  }
  uint32_t version() const { return replica_.version(); }
  uint64_t digest() const;

 private:
  struct Issued {
    uint32_t version = 0;
    uint32_t samples = 1;
  };
  struct Judged {
    uint32_t verdict = 0;
    uint32_t version = 0;
  };
  static constexpr uint32_t kClipScaleWhole = 1U << 31;
  struct Share {
    uint32_t device = 0;
    uint32_t owner = 0;
    uint32_t base_version = 0;
    uint32_t steps_done = 0;
    uint32_t weight = 0;
    uint32_t samples = 1;   // that the device weighs by in a memory: 1 where all weigh the same
    Real sample_share = 1;  // w_i of a run without rounds
    Real inverse_participation = 1;
    std::vector<Real> values;
    uint32_t clip_scale = kClipScaleWhole;
  };

  // The open stage again, from the samples of the devices that have answered it.
  struct Stages {
    TaskStage open = TaskStage::kTrain;
    std::vector<UnitsColumn> units;
    std::vector<uint8_t> table;               // as the journal has it
    std::map<uint32_t, HeldSamples> samples;  // by device
    std::vector<uint32_t> answered;           // the open stage
  };
  std::string on_answer(const JournalRecord& record);
  std::string check_stage(const VersionRecord& record) const;
  void follow_stage(const VersionRecord& record);
  std::vector<int64_t> answer_of(const HeldSamples& samples) const;
  std::vector<UnitsColumn> next_units() const;
  // With step_size "auto".
  bool has_kpca() const;
  std::string check_trials(const JournalRecord& record);
  std::string check_line(const JournalRecord& record) const;
  Real open_step() const;
  std::vector<Real> direction() const;
  std::string check_steps(const VersionRecord& record, const std::vector<Real>& direction);
  void keep_half(const VersionRecord& record);

  std::string on_ack(uint32_t device, const gs_Ack& ack) const;
  std::string on_welcome(uint32_t device, const gs_Welcome& welcome, const Request& request) const;
  std::string on_wait(uint32_t device, const gs_Wait& wait, const Request& request) const;
  std::string on_run_event(const JournalRecord& record);
  std::string cap_shares();
  // The clip again (docs/algorithms.md, "The clip"): clip_scale of the open version's shares, against the record's
  // radius and count.
  std::string clip_shares(const JournalRecord& record);
  // Of the open version and its shares, whose norms are `own`.
  uint64_t open_radius(const std::vector<uint64_t>& own) const;
  std::string check_said_clip(uint32_t device, uint32_t base_version, uint32_t said) const;
  int64_t fixed_part(const Share& share, size_t q, Real inverse_participation) const;
  int64_t clipped_part(const Share& share, size_t q, Real inverse_participation) const;
  uint64_t norm_of(const Share& share) const;
  uint64_t clip_radius(std::vector<uint64_t> norms) const;
  bool is_paused() const { return states_.back() == gs_RunState_RUN_STATE_PAUSED; }
  void forget_tasks(uint32_t device, uint32_t task_sequence);
  bool was_state(gs_RunState state, const Request& request) const;
  std::string on_update(const JournalRecord& record);
  std::string on_version(const JournalRecord& record);
  void open_version(const VersionRecord& next);
  float step_scale() const;
  std::string check_blocks(const VersionRecord& record) const;
  std::string check_model(const VersionRecord& record);
  std::string check_delayed(const VersionRecord& record);
  Status shorten(const ManifoldOps& manifold, Shape shape, const Real* x, Real* v);
  Real sample_share(uint32_t samples) const;
  bool is_mean_run() const;
  std::vector<Real> next_point(const std::vector<Real>& step);
  // The memory form again: of its updates h, d and the point, and what must stand in a record or replica of them.
  struct MemoryStep {
    std::vector<int64_t> h;
    std::vector<Real> point;
  };
  void add_to_sum(const Share& share, int64_t numerator, int64_t denominator, std::vector<int64_t>* sum) const;
  MemoryStep memory_step(float step_scale);
  std::pair<int64_t, int64_t> step_weight(const Share& share, const Share& update, int64_t total, int64_t count) const;
  std::string check_memory(const VersionRecord& record, const MemoryStep& step) const;
  // Of one block: the same base version and owner.
  using Shares = std::vector<const Share*>;
  std::map<std::pair<uint32_t, uint32_t>, Shares> shares_by_block() const;
  int64_t fold_divisor() const;
  std::vector<Real> fold(const Shares& shares, int64_t divisor, size_t count) const;
  std::vector<Real> fold_all(size_t count) const;
  std::string check_block(const RecordBlock& block, const Shares& shares, int64_t divisor) const;
  std::string check_cohort(const VersionRecord& record);
  bool is_anchor_phase() const;
  std::string check_anchors(const VersionRecord& record);

  RunParameters parameters_;
  std::vector<uint64_t> memory_;
  Arena arena_;
  Replica replica_;
  bool has_version_ = false;
  uint64_t last_sequence_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, Issued> issued_;  // by device and task
  std::map<uint32_t, uint32_t> given_;                      // by device: the samples that its last task names
  std::map<std::pair<uint32_t, uint32_t>, Judged> judged_;
  std::set<std::pair<uint32_t, uint32_t>> answered_;                  // (device, version), in time
  std::vector<gs_RunState> states_ = {gs_RunState_RUN_STATE_ACTIVE};  // one after the other
  std::map<uint32_t, Cohort> cohorts_;                                // of every version that is not forgotten
  uint32_t round_ = 0;                                                // of the open version
  bool has_anchor_ = false;                                           // the open version's steps can be made
  std::vector<Real> last_model_;  // of the last round with anchors, and its mean gradient
  std::vector<Real> last_gradient_;
  std::vector<Share> shares_;                     // of the open version
  std::deque<std::vector<uint64_t>> norms_;       // of a run that clips: of the last closed versions
  std::map<uint32_t, Share> held_;                // with a memory: the last one of each device, before the open version
  uint32_t weight_total_ = 0;                     // with a memory: n, or N where samples weigh
  std::map<uint32_t, std::vector<Real>> models_;  // of every version that is not forgotten
  bool forgets_ = false;
  Stages stages_;
  OracleAttendance attendance_;
  std::optional<OracleSteps> steps_;              // of a run with step_size "auto"
  std::map<uint32_t, std::vector<Real>> halves_;  // half way along the record that made the version
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_ORACLE_H_
