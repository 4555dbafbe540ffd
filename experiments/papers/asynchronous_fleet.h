// The fleet that X14 trains: devices at work in virtual time, a server that folds each update as it comes, and runs
// that several cases look at. The server's rule, its replica and the devices' work are the product's.
#ifndef GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_FLEET_H_
#define GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_FLEET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "experiments/harness/experiment.h"
#include "experiments/papers/asynchronous_plan.h"
#include "experiments/workloads/data_network.h"
#include "runtime/base/arena.h"
#include "server/rules/aggregator.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"

namespace gradstream {

using AsyncValues = std::vector<Real>;

// Devices at work, in virtual time.
class AsyncDevices {
 public:
  struct Job {
    uint32_t device = 0;
    uint32_t number = 0;        // of the device's jobs
    uint32_t base_version = 0;  // steps that the server had made
    AsyncValues base;
  };

  AsyncDevices(const NetworkWorkload& workload, const AsyncSpeeds& speeds, const AsyncValues& model);
  // The job that ends next.
  const Job& next() const { return jobs_[next_index()]; }
  double next_end() const { return ends_[next_index()]; }
  // Versions that it is behind.
  uint32_t next_staleness() const { return version_ - next().base_version; }
  double slowest() const { return *std::max_element(durations_.begin(), durations_.end()); }
  // Its device goes on from the version that its update made.
  void restart(const AsyncValues& model);

 private:
  size_t next_index() const {
    return static_cast<size_t>(std::min_element(ends_.begin(), ends_.end()) - ends_.begin());
  }
  uint32_t version_ = 0;
  std::vector<double> durations_;
  std::vector<double> ends_;
  std::vector<Job> jobs_;
};

// What one device's work makes of its base: the displacement, and with the curve solver the control point's after it.
using AsyncTrain = std::function<AsyncValues(const AsyncDevices::Job& job)>;

// One epoch of SGD, whole minibatches only, in the reference's order. Throws std::runtime_error where a gradient is no
// number.
AsyncValues train_async_sgd(const NetworkWorkload& workload, uint32_t seed, const AsyncDevices::Job& job);
// The product's curve solver, epoch_count pairs of epochs; is_pulled: with the Lorentzian term of with_all_terms().
AsyncValues train_async_curve(const NetworkWorkload& workload, uint32_t seed, uint32_t epoch_count,
                              const AsyncDevices::Job& job, bool is_pulled = false);

// The server of a run without sessions: the rule that make_aggregator() gives the run, its replica, and the models that
// late updates may have been made at.
class AsyncServer {
 public:
  // parameters: complete, and check_parameters() passes them. The open version is `version`, with this model; the rule
  // knows of no version before it.
  AsyncServer(const RunParameters& parameters, uint32_t version, const AsyncValues& model);
  AsyncServer(const AsyncServer&) = delete;
  AsyncServer& operator=(const AsyncServer&) = delete;

  uint32_t version() const { return replica_.version(); }
  AsyncValues model() const { return {replica_.model(), replica_.model() + parameters_.model->shape.size()}; }
  // All devices of the workload have been given work, with the samples that they have.
  void know_fleet(const NetworkWorkload& workload);
  // Knows the model of an older version.
  void recall(uint32_t version, const AsyncValues& model) { models_.push(version, model); }
  // Folds the update of a job. Of a displacement with a control point after it, a run without curves takes the
  // displacement. Throws std::runtime_error, with the run's limit, where the rule refuses it.
  void fold(const AsyncDevices::Job& job, uint32_t sample_count, const AsyncValues& update);
  // Closes the version with what was folded. Throws std::runtime_error where that makes no step.
  void close();

 private:
  void open_round();

  RunParameters parameters_;
  std::vector<uint64_t> memory_;
  Arena arena_;
  Replica replica_;
  ModelRing models_;
  OpenRound open_;
  std::unique_ptr<Aggregator> rule_;
};

// A step before it is made: the open version's model, and the update that comes; none after the last step.
struct AsyncStep {
  uint32_t step = 0;
  AsyncValues model;
  AsyncDevices::Job job;
  AsyncValues update;
};

// Steps of a fleet from the workload's start, a version with every update; on_step sees each before it is made, and
// says whether to go on after it.
using OnAsyncStep = std::function<bool(const AsyncStep& step)>;
void run_async_fleet(const NetworkWorkload& workload, const AsyncSpeeds& speeds, const RunParameters& parameters,
                     const AsyncTrain& train, const OnAsyncStep& on_step);

// The model that the server makes of a step under these parameters, without the versions before it.
AsyncValues stepped_once(const NetworkWorkload& workload, const RunParameters& parameters, const AsyncStep& step);

// Measures the model every so many steps, the last included.
OnAsyncStep measure_every(uint32_t stride, const Case::Watcher& watch);

// Measures in place of the model the average of versions that the run's keys ask for, once there is one.
OnAsyncStep average_every(const RunParameters& parameters, uint32_t stride, const Case::Watcher& watch);

// Rounds of all devices from the same model. A round counts as as many steps as it has devices.
void run_async_rounds(const NetworkWorkload& workload, const RunParameters& parameters, const AsyncTrain& train,
                      const Case::Watcher& watch);

// A run of a fleet that several cases look at, made by the first that asks. Cases may be on several threads.
class SavedAsyncRun {
 public:
  // parameters: those of the case that asks, from which the run takes its own.
  using Run = std::function<void(const RunParameters& parameters, const OnAsyncStep&)>;
  // wanted: whether a step is kept.
  SavedAsyncRun(std::function<bool(uint32_t step)> wanted, Run run)
      : wanted_(std::move(wanted)), run_(std::move(run)) {}

  // The same seed and round_count from all. Throws std::runtime_error where the run did, to each that asks: of a run
  // that came to no end no step is kept, and it is not made again.
  const std::vector<AsyncStep>& steps(const RunParameters& parameters);

 private:
  std::function<bool(uint32_t step)> wanted_;
  Run run_;
  std::once_flag once_;
  uint32_t step_count_ = 0;
  std::vector<AsyncStep> steps_;
  std::string fault_;  // of a run that threw
};

// A method's run that cases look at.
struct AsyncBase {
  const char* method;
  const AsyncSpeeds* speeds;
  std::shared_ptr<SavedAsyncRun> run;
};

// A case of X14 of so many steps, which trains nothing yet. `parameters` are async_parameters() as the case has them.
Case async_case(const std::string& key, const std::shared_ptr<const NetworkWorkload>& workload,
                const RunParameters& parameters);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_FLEET_H_
