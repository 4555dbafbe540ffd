// The step of a run with step_size "auto" again, by its definition (docs/algorithms.md, "Steps by themselves") and not
// by the server's code: from the trials and the lines in the journal, which are held to the devices' samples too.
//
//   add() for each update -> check() of the record that closes the version -> follow()
#ifndef GRADSTREAM_SIM_ORACLE_STEPS_H_
#define GRADSTREAM_SIM_ORACLE_STEPS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/journal/journal_record.h"
#include "server/rules/record.h"
#include "server/run/run_parameters.h"

namespace gradstream {

// What a simulated device holds: count samples of columns numbers each, which outlive the oracle.
struct HeldSamples {
  const Real* values = nullptr;
  uint32_t count = 0;
  uint32_t columns = 0;
};

// The mean loss of problem kpca on the evaluation samples of a device, units taken out, in double.
double kpca_loss(const RunParameters& parameters, const HeldSamples& held, const std::vector<UnitsColumn>& units,
                 const std::vector<Real>& model);

class OracleSteps {
 public:
  // How a version closes.
  struct Close {
    TaskStage stage = TaskStage::kTrain;           // the open one
    const std::vector<Real>* direction = nullptr;  // d, of START and of rounds; null: it makes no step
    const std::vector<Real>* model = nullptr;      // that it begins at
    uint32_t asked_count = 0;
  };

  explicit OracleSteps(const RunParameters& parameters) : parameters_(&parameters) {}

  // eta of the open version's tasks.
  double step() const { return step_; }
  // d and a of the record that made the open version; a is 0 where the model stood still.
  const std::vector<double>& direction() const { return newest_.direction; }
  double length() const { return newest_.length; }
  double trial_length() const { return trial_length_; }

  // An update of the open version, in this stage.
  void add(const JournalRecord& record, TaskStage stage);
  // Each returns a sentence on what is wrong with the record, or nothing.
  std::string check(const VersionRecord& record, const Close& close);

 private:
  struct Move {
    double length = 0;  // a
    double square = 0;  // |d|^2
    double reach = 0;   // eta_g K_eff
    std::vector<double> direction;
  };
  struct Line {
    double slope = 0;
    double curvature = 0;
    double weight = 0;
    uint32_t staleness = 0;
  };
  struct Trial {
    std::array<double, 32> changes = {};
    double weight = 0;
  };
  std::string check_start(const VersionRecord& record, const Close& close);
  void close_trials();
  void close_round(const VersionRecord& record, const Close& close);

  const RunParameters* parameters_;
  double step_ = 0;
  double first_ = 0;
  double slope_ = 0;
  double curvature_ = 0;
  uint32_t count_ = 0;
  double trial_length_ = 0;
  std::vector<double> best_;  // of each draw; 0: none was good
  Move newest_;               // the record that made the open version
  Move before_;               // the record before that
  std::map<uint32_t, Line> lines_;
  std::map<uint32_t, Trial> trials_;
  double weight_total_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_ORACLE_STEPS_H_
