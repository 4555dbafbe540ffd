// What a server keeps of the open version of a run with step_size "auto": its decision, and the lines of the devices.
//
//   follow() -> add_update(), add_line() for each update -> after_round(): the decision of the record that closes it
//
// A pure function of the journal: recovery makes the same calls.
#ifndef GRADSTREAM_SERVER_RULES_STEP_KEEPER_H_
#define GRADSTREAM_SERVER_RULES_STEP_KEEPER_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "server/base/state_archive.h"
#include "server/rules/step_decision.h"
#include "server/run/run_parameters.h"

namespace gradstream {

// What the rule has folded into the record that closes a version.
struct FoldedMove {
  std::span<const Real> direction;  // d, in units of a gradient; empty: the model stands still
  Real step_scale = 0;              // of the record
  double model_scale = 0;           // of the model that it begins at, as model_scale_of()
  uint32_t asked_count = 0;         // devices that the open version asks
};

class StepKeeper {
 public:
  // parameters outlive the keeper.
  explicit StepKeeper(const RunParameters& parameters) : parameters_(&parameters) {}

  // The record with these bytes of a decision has opened a version; without bytes nothing was decided. kDataCorrupt: as
  // decode_decision().
  Status follow(std::span<const uint8_t> bytes);
  const StepDecision& decision() const { return decision_; }
  // eta of the open version's tasks; 0 before the trials are over.
  Real step_size() const { return static_cast<Real>(decision_.state.step); }

  // An update that the open version folds.
  void add_update(double weight) { weight_total_ += weight; }
  // The line of an update that was made `staleness` versions ago. It is along the record that made the update's base
  // version. False: it is dropped. That record is older than the one before the last, or the model stood still in it,
  // or the device has spoken of a newer one.
  bool add_line(uint32_t device, uint32_t staleness, float slope, float curvature, double weight);

  StepDecision after_round(const FoldedMove& folded) const;

  // All of it right after follow(), of a checkpoint.
  void exchange(StateArchive& io);

  // For tests that compare two ledgers.
  std::string text() const;

 private:
  struct KeptLine {
    StepLine line;
    uint32_t staleness = 0;
  };

  const RunParameters* parameters_;
  StepDecision decision_;
  StepMove previous_move_;  // of the record before
  double weight_total_ = 0;
  std::map<uint32_t, KeptLine> lines_;  // by device
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_STEP_KEEPER_H_
