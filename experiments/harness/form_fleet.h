// A fleet that a schedule rules: who answers a version, with how many of its steps, and how many versions late. With
// the product's solver, rule and replica, in one thread and without a wire; for what the calm fleet cannot do.
#ifndef GRADSTREAM_EXPERIMENTS_HARNESS_FORM_FLEET_H_
#define GRADSTREAM_EXPERIMENTS_HARNESS_FORM_FLEET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "experiments/workloads/workload.h"
#include "runtime/base/arena.h"
#include "server/rules/aggregator.h"
#include "server/run/run_parameters.h"

namespace gradstream {

struct Schedule {
  uint32_t answer_count = UINT32_MAX;  // devices of a version, drawn without replacement
  std::vector<double> probabilities;   // instead: of each device that it answers a version
  bool has_partial_work = false;       // steps drawn from 1 to K
  uint32_t late_max = 0;               // versions, drawn; weighed as the run's staleness table says
  // The correction as the authors of 003 run it, for comparison: it enters the server's step, d = mean of Gbar_i + c_i,
  // and is 0 for a device that was not in the version before. With form local and tangents only.
  bool has_authors_correction = false;
};

// A set that a run's parameters cannot name: its table, and the parts of its points where it has any. The parameters
// then name Euclidean space of as many numbers. Both outlive the fleet.
struct FleetSet {
  const ManifoldOps* ops = nullptr;
  const Parts* parts = nullptr;
};

class FormFleet {
 public:
  using Watcher = std::function<bool(uint32_t version, const Real* model)>;

  // Of solver projection, on one of the manifolds of all_manifolds(); parameters pass check_parameters(). The workload
  // outlives the fleet. The first model is the workload's start. set: in place of the parameters' manifold.
  FormFleet(const RunParameters& parameters, const Workload& workload, FleetSet set = {});
  FormFleet(const FormFleet&) = delete;
  FormFleet& operator=(const FormFleet&) = delete;

  // Trains to the last version, or until watch says so; watch sees version 0 too. std::runtime_error: a step has no
  // result, or an update or its fold has none. So a run ends that diverges.
  void run(const Schedule& schedule, const Watcher& watch);

  // ---- What run() is made of ----

  // Work on the open version; may be folded versions later.
  struct Work {
    uint32_t device;
    uint32_t base;
    uint32_t steps;
    std::vector<Real> values;
  };
  Work work(uint32_t device, uint32_t steps);
  // Refused: false. What it folds is kept as `made` was, before a correction was added to it.
  bool fold(const Work& work) { return fold(work, work); }
  bool fold(const Work& work, const Work& made);
  // Devices that were not in the version lose their correction where they keep none.
  void close(bool keeps_corrections = true);
  const Replica& replica() const { return replica_; }

 private:
  struct Last {
    Work work;
    uint32_t version = 0;  // that it went into
  };

  std::vector<Real> correction(uint32_t device);
  Work as_sent(const Work& made, const Schedule& schedule);
  void subtract(const Work& work, std::vector<Real>* c);
  void follow(const VersionRecord& record);

  const ManifoldOps& manifold() const { return set_.ops != nullptr ? *set_.ops : *server_manifold(p_); }

  RunParameters p_;
  const Workload& workload_;
  FleetSet set_;
  std::vector<uint64_t> memory_;
  Arena arena_;
  Replica replica_;
  ModelRing models_;
  std::unique_ptr<Aggregator> rule_;
  std::vector<Work> folded_;  // into the open version
  std::map<uint32_t, Last> last_;
  std::map<uint32_t, std::vector<Real>> local_;  // corrections of form local
};

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_HARNESS_FORM_FLEET_H_
