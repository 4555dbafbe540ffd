// The fleet that X14 trains: devices at work in virtual time, a server that folds each update as it comes, and runs
// that several cases look at. Directions, steps, curves and local work are the product's.
#ifndef GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_FLEET_H_
#define GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_FLEET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "experiments/harness/experiment.h"
#include "experiments/papers/asynchronous_plan.h"
#include "experiments/workloads/data_network.h"
#include "server/rules/delay_correction.h"

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
  // Throws std::runtime_error if the run's bound refuses it.
  void check_staleness() const;
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

// One epoch of SGD, whole minibatches only, in the reference's order.
AsyncValues train_async_sgd(const NetworkWorkload& workload, uint32_t seed, const AsyncDevices::Job& job);
// The product's curve solver, epoch_count pairs of epochs.
AsyncValues train_async_curve(const NetworkWorkload& workload, uint32_t seed, uint32_t epoch_count,
                              const AsyncDevices::Job& job);

// What the rule is at a step: its second half has another, where the rule has two.
DelayCorrection async_correction(const AsyncRule& rule, uint32_t step, uint32_t step_count, Shape shape);

// One step of a server. The displacement may have the control point's after it.
struct AsyncServer {
  AsyncValues model;
  DelayMoments moments;

  // What the update makes of the model; with a control point, along the curve.
  AsyncValues stepped(const DelayCorrection& correction, const AsyncDevices::Job& job, const AsyncValues& update,
                      bool by_curve, DelayDirection* made) const;
};

// Steps of a fleet from the workload's start; on_step sees each before it is made, and says whether to go on after it.
using OnAsyncStep = std::function<bool(uint32_t step, const AsyncServer& server, const AsyncDevices::Job& job,
                                       const AsyncValues& update)>;
void run_async_fleet(const NetworkWorkload& workload, const AsyncSpeeds& speeds, const AsyncRule& rule,
                     uint32_t step_count, bool by_curve, const AsyncTrain& train, const OnAsyncStep& on_step);
// As run_async_fleet(), of OrthoGrad until the statistic's mean is down, then OrthoPos; without curves.
void run_async_switching(const NetworkWorkload& workload, const AsyncSpeeds& speeds, const AsyncSwitch& rule,
                         uint32_t step_count, const AsyncTrain& train, const OnAsyncStep& on_step);

// Measures the model every so many steps, the last included.
OnAsyncStep measure_every(uint32_t stride, const Case::Watcher& watch);

// FedAvg: all devices from the same model, by their samples. A round counts as as many steps as it has devices.
void run_async_rounds(const NetworkWorkload& workload, uint32_t step_count, const AsyncTrain& train,
                      const Case::Watcher& watch);

// What stood before a step of a saved run.
struct SavedAsyncStep {
  uint32_t step = 0;
  AsyncServer server;     // before the step
  AsyncDevices::Job job;  // whose update it was
  AsyncValues update;     // empty after the last step
};

// A run of a fleet that several cases look at, made by the first that asks. Cases may be on several threads.
class SavedAsyncRun {
 public:
  using Run = std::function<void(uint32_t step_count, const OnAsyncStep&)>;
  // wanted: whether a step is kept.
  SavedAsyncRun(std::function<bool(uint32_t step)> wanted, Run run)
      : wanted_(std::move(wanted)), run_(std::move(run)) {}

  // The same step_count from all.
  const std::vector<SavedAsyncStep>& steps(uint32_t step_count);

 private:
  std::function<bool(uint32_t step)> wanted_;
  Run run_;
  std::once_flag once_;
  uint32_t step_count_ = 0;
  std::vector<SavedAsyncStep> steps_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_FLEET_H_
