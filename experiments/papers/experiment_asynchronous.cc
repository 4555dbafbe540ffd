// X14: asynchronous rules for late updates (004) on a perceptron over Digits and LeNet's shape over MNIST, eight
// devices with data in proportion to their number, equally fast or up to ten times slower. Devices are events in
// virtual time: a local epoch lasts as many units as it has minibatches, by the speed. Directions, steps, curves and
// local work are the product's (server/rules/delay_correction.h, server/rules/curve_step.h, runtime/training,
// runtime/problem).
//
//   rules/S/R/sN        rule R of the server, local SGD, seed N; the test loss every tenth step
//   stepwise/S/R/sN     from saved versions of one run of asgd: what one step of R makes of the update that came
//   curve/S/METHOD      AsyncCurve, FedAsync and FedAvg with the same local Adam
//   connection/LINK     the test loss along the way from a device's base to its result, by the line or the curve
//   mnist/...           the last three on MNIST; femnist/curve/... on FEMNIST by its writers
//
// Cases that look at the same run share it (SavedRun).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <stdexcept>

#include "experiments/harness/experiment.h"
#include "experiments/harness/harness.h"
#include "experiments/workloads/data_network.h"
#include "runtime/training/curve.h"
#include "runtime/training/estimator.h"
#include "runtime/training/solver.h"
#include "server/rules/curve_step.h"
#include "server/rules/delay_correction.h"

namespace gradstream {
namespace {

constexpr uint32_t kStepCount = 400;  // server steps of the rules
constexpr uint32_t kStride = 10;      // steps from one measure to the next
constexpr uint32_t kBatchSize = 16;
constexpr uint32_t kEarly = 50;
constexpr uint32_t kSeedCount = 6;  // of every rule; the first kReferenceSeedCount of seed 1 are the reference's
constexpr uint32_t kReferenceSeedCount = 3;
// Versions that an update may be behind, as staleness_max; an update beyond it ends the run. Reason: more than the
// slowest of kSpeeds is, so that nothing of it is refused.
constexpr uint32_t kStalenessMax = 256;
constexpr double kServerStep = 0.6;
constexpr double kLocalStep = 0.1;

using Values = std::vector<Real>;

struct Speeds {
  const char* name;
  std::array<double, kNetworkDeviceCount> speeds;
};
constexpr Speeds kSpeeds[] = {{"equal", {1, 1, 1, 1, 1, 1, 1, 1}}, {"mixed", {1, 1, 1, 1, 0.5, 0.5, 0.25, 0.1}}};

// What stepwise, curve and connection do with a workload.
struct Plan {
  const char* prefix;         // of their keys
  uint32_t step_count;        // of the server
  uint32_t epoch_count;       // pairs of epochs in a device's curve task
  uint32_t stride;            // steps from one measure of a method to the next
  uint32_t stepwise_every;    // from one saved version to the next
  uint32_t connection_every;  // from one connection to the next
  uint32_t part_count;        // of a connection
  bool is_curve_cheap;        // that the curve costs nothing is a criterion of seed 1; else a claim
  bool has_run;               // on the real data: that every method learns is a criterion; else a claim
};
constexpr Plan kDigits = {"", 400, 5, 10, 10, 40, 10, true, true};
// Few steps: one takes a device through all its images, 250 to 2,000 of them, twice.
constexpr Plan kMnist = {"mnist/", 32, 1, 4, 3, 8, 4, false, true};
constexpr Plan kFemnist = {"femnist/", 32, 1, 4, 3, 8, 4, false, false};

struct Rule {
  const char* name;
  DelayRule early;
  DelayRule late;  // from the middle of the run on
  // Test loss at steps 50 and 400, mean of the reference's three seeds: equal and mixed speeds; 0: none there.
  double reference[2][2];
};
constexpr Rule kRules[] = {
    {"FedAsync", DelayRule::kFedAsync, DelayRule::kFedAsync, {{1.58, 0.268}, {1.52, 0.306}}},
    {"ASGD", DelayRule::kAsgd, DelayRule::kAsgd, {{0.505, 0.330}, {0.627, 0.160}}},
    {"OrthoGrad", DelayRule::kOrthoGrad, DelayRule::kOrthoGrad, {{0.507, 0.294}, {0.628, 0.159}}},
    {"OrthoPos", DelayRule::kOrthoPos, DelayRule::kOrthoPos, {{1.54, 0.244}, {1.55, 0.424}}},
    {"OrthoStrict", DelayRule::kOrthoStrict, DelayRule::kOrthoStrict, {{1.21, 0.170}, {1.17, 0.174}}},
    {"OrthoDyn", DelayRule::kOrthoGrad, DelayRule::kOrthoPos, {{0.507, 0.166}, {0.628, 0.322}}},
    // The product limits lambda delta o delta to 1, the reference does not: no figure to be held to.
    {"DC-ASGD", DelayRule::kDcAdaptive, DelayRule::kDcAdaptive, {{0, 0}, {0, 0}}}};
constexpr double kDcLambda = 2.5;  // the report's

// OrthoDyn that switches by a statistic of its updates, not at the middle of the run; of `rules` alone.
struct Switch {
  const char* name;
  DelaySwitchBy by;
  double at;
};
constexpr Switch kSwitches[] = {{"OrthoDyn-cosine.2", DelaySwitchBy::kCosine, 0.2},
                                {"OrthoDyn-cosine.4", DelaySwitchBy::kCosine, 0.4},
                                {"OrthoDyn-drift3", DelaySwitchBy::kDriftRatio, 3}};

// Devices at work, in virtual time.
class Devices {
 public:
  struct Job {
    uint32_t device = 0;
    uint32_t number = 0;        // of the device's jobs
    uint32_t base_version = 0;  // steps that the server had made
    Values base;
  };

  Devices(const NetworkWorkload& workload, const Speeds& speeds, const Values& model) {
    for (uint32_t i = 0; i < workload.device_count(); ++i) {
      const uint32_t batches = std::max(1U, workload.sample_count(i) / kBatchSize);
      durations_.push_back(batches / speeds.speeds[i]);
      ends_.push_back(durations_[i]);
      jobs_.push_back({i, 0, 0, model});
    }
  }
  // The job that ends next.
  const Job& next() const { return jobs_[next_index()]; }
  double next_end() const { return ends_[next_index()]; }
  // Versions that it is behind.
  uint32_t next_staleness() const { return version_ - next().base_version; }
  // Throws if the bound refuses it.
  void check_staleness() const {
    if (next_staleness() > kStalenessMax) {
      throw std::runtime_error("device " + std::to_string(next().device) + " is " + std::to_string(next_staleness()) +
                               " versions behind, at most " + std::to_string(kStalenessMax));
    }
  }
  double slowest() const { return *std::max_element(durations_.begin(), durations_.end()); }
  // Its device goes on from the version that its update made.
  void restart(const Values& model) {
    const size_t i = next_index();
    ends_[i] += durations_[i];
    ++jobs_[i].number;
    jobs_[i].base_version = ++version_;
    jobs_[i].base = model;
  }

 private:
  size_t next_index() const {
    return static_cast<size_t>(std::min_element(ends_.begin(), ends_.end()) - ends_.begin());
  }
  uint32_t version_ = 0;
  std::vector<double> durations_;
  std::vector<double> ends_;
  std::vector<Job> jobs_;
};

// An arena that is big enough.
struct Memory {
  explicit Memory(size_t size) : words(size / sizeof(uint64_t) + 1), arena(words.data(), words.size() * 8) {}
  std::vector<uint64_t> words;
  Arena arena;
};

// What one device's work makes of its base: the displacement, and with the curve solver the control point's after it.
using Train = std::function<Values(const Devices::Job& job)>;

// One epoch of SGD, whole minibatches only, in the reference's order.
Values train_sgd(const NetworkWorkload& workload, uint32_t seed, const Devices::Job& job) {
  const Problem problem = workload.problem(job.device);
  const Shape shape = workload.shape();
  Memory memory(problem.ops->scratch_size(problem.context, shape));
  const uint32_t count = workload.sample_count(job.device);
  std::vector<uint16_t> order(count);
  choose({seed, RandomDomain::kMinibatch, job.number, job.device, 0}, count, count, order.data());
  Values x = job.base;
  Values gradient(x.size());
  for (uint32_t first = 0; first + kBatchSize <= std::max(count, kBatchSize); first += kBatchSize) {
    const Batch batch{order.data() + first, std::min(kBatchSize, count)};
    const Status status = problem.ops->gradient(problem.context, shape, x.data(), batch, gradient.data(), memory.arena);
    GS_ASSERT(status == Status::kOk);  // the data are numbers
    add_scaled(x.size(), static_cast<Real>(-kLocalStep), gradient.data(), x.data());
  }
  add_scaled(x.size(), -1, job.base.data(), x.data());
  return x;
}

// The product's curve solver, epoch_count pairs of epochs.
Values train_curve(const NetworkWorkload& workload, uint32_t seed, uint32_t epoch_count, const Devices::Job& job) {
  static constexpr const EstimatorOps* kEstimators[] = {&kAnalyticGradientOps};
  static constexpr const SolverOps* kSolvers[] = {&kSolverCurveOps};
  const Problem problem = workload.problem(job.device);
  Task task;
  task.solver = SolverId::kCurve;
  task.manifold = ManifoldId::kEuclidean;
  task.shape = workload.shape();
  task.estimator.id = EstimatorId::kAnalyticGradient;
  task.estimator.batch_mode = BatchMode::kCommon;
  task.estimator.batch_size = kBatchSize;
  task.seed = seed;
  task.version = job.number;
  task.client_index = job.device;
  task.local_step_count = epoch_count;
  task.step_size = static_cast<Real>(1e-3);  // the report's, and a tenth of it for the control point
  task.curvature = 1;
  task.encoding = kRealEncoding;
  std::copy_n(problem.ops->name, std::char_traits<char>::length(problem.ops->name), task.problem);
  // Eleven tensors, the samples' order and the problem's own.
  Memory memory((size_t{1} << 18) + 12 * sizeof(Real) * job.base.size() +
                problem.ops->scratch_size(problem.context, task.shape));
  SolverRun run;
  Status status = begin_solver({all_manifolds(), kEstimators, kSolvers, {&problem, 1}}, task, job.base.data(), nullptr,
                               &run, memory.arena);
  for (uint32_t epoch = 0; epoch < epoch_count && status == Status::kOk; ++epoch) {
    status = run.ops->step(run, memory.arena);
  }
  GradientStream stream;
  GS_ASSERT(status == Status::kOk && run.ops->finish(run, &stream) == Status::kOk);
  return {stream.values, stream.values + stream.value_count};
}

const NetworkWorkload& network_of(const Workload& workload) { return static_cast<const NetworkWorkload&>(workload); }

DelayCorrection correction_of(const Rule& rule, uint32_t step, uint32_t step_count, Shape shape) {
  const DelayRule now = step < step_count / 2 ? rule.early : rule.late;
  return {now, static_cast<Real>(kDcLambda), kEuclideanOps, shape};
}

// One step of a server. The displacement may have the control point's after it.
struct Server {
  Values model;
  DelayMoments moments;

  // What the update makes of the model; with a control point, along the curve.
  Values stepped(const DelayCorrection& correction, const Devices::Job& job, const Values& update, bool by_curve,
                 DelayDirection* made) const {
    const size_t size = model.size();
    Memory memory(DelayCorrection::scratch_size(kEuclideanOps, {static_cast<uint32_t>(size), 1}));
    DelayDirection& direction = *made;
    Values next(size);
    Status status = correction.direct(job.base.data(), model.data(), update.data(), moments, &direction, memory.arena);
    GS_ASSERT(status == Status::kOk);
    const auto alpha = static_cast<Real>(kServerStep);
    status = correction.step(model.data(), by_curve ? 1 : alpha, &direction, next.data(), memory.arena);
    GS_ASSERT(status == Status::kOk);
    if (by_curve) {
      const auto middle = update.begin() + static_cast<std::ptrdiff_t>(size);
      Values control;
      static_cast<void>(place_control({update.begin(), middle}, {middle, update.end()}, model, next, &control));
      curve_point(size, alpha, model.data(), control.data(), next.data(), next.data());
    }
    return next;
  }
};

// Steps of a fleet from the workload's start; on_step sees each before it is made, and says whether to go on after it.
using OnStep = std::function<bool(uint32_t step, const Server& server, const Devices::Job& job, const Values& update)>;
void run_fleet(const NetworkWorkload& workload, const Speeds& speeds, const Rule& rule, uint32_t step_count,
               bool by_curve, const Train& train, const OnStep& on_step) {
  Server server{start_of(workload), {}};
  Devices devices(workload, speeds, server.model);
  for (uint32_t step = 0; step < step_count; ++step) {
    devices.check_staleness();
    const Devices::Job& job = devices.next();
    const Values update = train(job);
    if (!on_step(step, server, job, update)) {
      return;
    }
    DelayDirection made;
    server.model =
        server.stepped(correction_of(rule, step, step_count, workload.shape()), job, update, by_curve, &made);
    server.moments = made.moments;
    devices.restart(server.model);
  }
  const Devices::Job last;
  on_step(step_count, server, last, {});
}

// As run_fleet(), of OrthoGrad until the statistic's mean is down, then OrthoPos; without curves.
void run_switching(const NetworkWorkload& workload, const Speeds& speeds, const Switch& rule, uint32_t step_count,
                   const Train& train, const OnStep& on_step) {
  RunParameters parameters;
  parameters.delay_switch_by = rule.by;
  parameters.delay_switch_at = static_cast<Real>(rule.at);
  DelaySwitch state;
  Server server{start_of(workload), {}};
  Devices devices(workload, speeds, server.model);
  for (uint32_t step = 0; step < step_count; ++step) {
    devices.check_staleness();
    const Devices::Job& job = devices.next();
    const Values update = train(job);
    if (!on_step(step, server, job, update)) {
      return;
    }
    const DelayCorrection correction(state.is_switched ? DelayRule::kOrthoPos : DelayRule::kOrthoGrad, 0, kEuclideanOps,
                                     workload.shape(), rule.by);
    DelayDirection direction;
    server.model = server.stepped(correction, job, update, false, &direction);
    state = state.after(parameters, step + 1, direction.statistic);
    devices.restart(server.model);
  }
  on_step(step_count, server, {}, {});
}

// Measures the model every so many steps, the last included.
OnStep every(uint32_t stride, const Case::Watcher& watch) {
  return [stride, watch](uint32_t step, const Server& server, const Devices::Job&, const Values&) {
    return step % stride != 0 || watch(step, server.model.data());
  };
}

// FedAvg: all devices from the same model, by their samples. A round counts as as many steps as it has devices.
void run_rounds(const NetworkWorkload& workload, uint32_t step_count, const Train& train, const Case::Watcher& watch) {
  Values model = start_of(workload);
  for (uint32_t round = 0;; ++round) {
    const uint32_t step = round * workload.device_count();
    if (!watch(step, model.data()) || step >= step_count) {
      return;
    }
    Values sum(model.size());
    uint32_t total = 0;
    for (uint32_t i = 0; i < workload.device_count(); ++i) {
      const Values update = train({i, round, round, model});
      add_scaled(sum.size(), static_cast<Real>(workload.sample_count(i)), update.data(), sum.data());
      total += workload.sample_count(i);
    }
    add_scaled(model.size(), 1 / static_cast<Real>(total), sum.data(), model.data());
  }
}

struct Saved {
  uint32_t step = 0;
  Server server;     // before the step
  Devices::Job job;  // whose update it was
  Values update;     // empty after the last step
};

// A run of a fleet that several cases look at, made by the first that asks. Cases may be on several threads.
class SavedRun {
 public:
  using Run = std::function<void(uint32_t step_count, const OnStep&)>;
  // wanted: whether a step is kept.
  SavedRun(std::function<bool(uint32_t step)> wanted, Run run) : wanted_(std::move(wanted)), run_(std::move(run)) {}

  // The same step_count from all.
  const std::vector<Saved>& steps(uint32_t step_count) {
    std::call_once(once_, [&] {
      step_count_ = step_count;
      run_(step_count, [&](uint32_t step, const Server& server, const Devices::Job& job, const Values& update) {
        if (wanted_(step)) {
          steps_.push_back({step, server, job, update});
        }
        return all_finite(server.model.size(), server.model.data());
      });
    });
    GS_ASSERT(step_count_ == step_count);
    return steps_;
  }

 private:
  std::function<bool(uint32_t step)> wanted_;
  Run run_;
  std::once_flag once_;
  uint32_t step_count_ = 0;
  std::vector<Saved> steps_;
};

const Rule& rule_of(const std::string& name) {
  return *std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& rule) { return rule.name == name; });
}

Case case_of(const std::string& key, const std::shared_ptr<const NetworkWorkload>& workload, uint32_t step_count) {
  Case one;
  one.key = key;
  one.workload = workload;
  // What train() makes of them stands above; these say the same to check_parameters().
  one.parameters = gradient_stream_parameters(1, kLocalStep, step_count);
  one.parameters.server_step = static_cast<Real>(kServerStep);
  return one;
}

std::string rule_key(const Speeds& speeds, const std::string& rule, uint32_t seed) {
  return std::string("rules/") + speeds.name + "/" + rule + "/s" + std::to_string(seed);
}

uint32_t first_seed(const Request& request) { return (request.seed - 1) * kSeedCount + 1; }

void add_rules(const Request& request, std::vector<Case>* cases) {
  for (uint32_t seed = first_seed(request); seed < first_seed(request) + kSeedCount; ++seed) {
    const std::shared_ptr<const NetworkWorkload> digits = make_digits_network(seed);
    for (const Speeds& speeds : kSpeeds) {
      for (const Rule& rule : kRules) {
        Case& one = cases->emplace_back(case_of(rule_key(speeds, rule.name, seed), digits, kStepCount));
        one.train = [&speeds, &rule, seed](const RunParameters& p, const Workload& held, const Case::Watcher& watch) {
          const NetworkWorkload& network = network_of(held);
          run_fleet(
              network, speeds, rule, p.round_count, false,
              [&](const Devices::Job& job) { return train_sgd(network, seed, job); }, every(kStride, watch));
        };
      }
      for (const Switch& rule : kSwitches) {
        Case& one = cases->emplace_back(case_of(rule_key(speeds, rule.name, seed), digits, kStepCount));
        one.train = [&speeds, &rule, seed](const RunParameters& p, const Workload& held, const Case::Watcher& watch) {
          const NetworkWorkload& network = network_of(held);
          run_switching(
              network, speeds, rule, p.round_count,
              [&](const Devices::Job& job) { return train_sgd(network, seed, job); }, every(kStride, watch));
        };
      }
    }
  }
}

using Network = std::shared_ptr<const NetworkWorkload>;

// Named as a rule's, so that a rule looks the same in both pictures.
std::string stepwise_key(const Plan& plan, const Speeds& speeds, const char* rule, uint32_t seed) {
  return std::string(plan.prefix) + "stepwise/" + speeds.name + "/" + rule + "/s" + std::to_string(seed);
}
std::string method_key(const Plan& plan, const Speeds& speeds, const std::string& method) {
  return std::string(plan.prefix) + "curve/" + speeds.name + "/" + method;
}
std::string connection_key(const Plan& plan, bool by_curve) {
  return std::string(plan.prefix) + "connection/" + (by_curve ? "curve" : "line");
}

void add_stepwise(const Plan& plan, const Network& network, uint32_t seed, std::vector<Case>* cases) {
  for (const Speeds& speeds : kSpeeds) {
    const auto saved = std::make_shared<SavedRun>(
        [every = plan.stepwise_every](uint32_t step) { return step % every == 0; },
        [network, &speeds, seed](uint32_t step_count, const OnStep& on_step) {
          run_fleet(
              *network, speeds, rule_of("ASGD"), step_count, false,
              [&](const Devices::Job& job) { return train_sgd(*network, seed, job); }, on_step);
        });
    for (const Rule& rule : kRules) {
      Case& one = cases->emplace_back(case_of(stepwise_key(plan, speeds, rule.name, seed), network, plan.step_count));
      one.train = [saved, &rule](const RunParameters& p, const Workload& held, const Case::Watcher& watch) {
        for (const Saved& at : saved->steps(p.round_count)) {
          if (at.update.empty()) {
            return;
          }
          DelayDirection ignored;
          const DelayCorrection correction = correction_of(rule, at.step, p.round_count, held.shape());
          if (!watch(at.step, at.server.stepped(correction, at.job, at.update, false, &ignored).data())) {
            return;
          }
        }
      };
    }
  }
}

// AsyncCurve, also without its curve, FedAsync and FedAvg with one local solver. AsyncCurve's run, of each of kSpeeds,
// is kept at the measures and at the connections.
std::vector<std::shared_ptr<SavedRun>> add_methods(const Plan& plan, const Network& network, uint32_t seed,
                                                   std::vector<Case>* cases) {
  std::vector<std::shared_ptr<SavedRun>> curves;
  const Train train = [network, &plan, seed](const Devices::Job& job) {
    return train_curve(*network, seed, plan.epoch_count, job);
  };
  for (const Speeds& speeds : kSpeeds) {
    const auto run = [network, &speeds, train](const char* rule, bool by_curve) {
      return [network, &speeds, train, rule, by_curve](uint32_t step_count, const OnStep& on_step) {
        run_fleet(*network, speeds, rule_of(rule), step_count, by_curve, train, on_step);
      };
    };
    const auto saved = curves.emplace_back(std::make_shared<SavedRun>(
        [&plan](uint32_t step) { return step % plan.stride == 0 || step % plan.connection_every == 0; },
        run("OrthoDyn", true)));
    Case& curve = cases->emplace_back(case_of(method_key(plan, speeds, "AsyncCurve"), network, plan.step_count));
    curve.train = [saved, &plan](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
      for (const Saved& at : saved->steps(p.round_count)) {
        if (at.step % plan.stride == 0 && !watch(at.step, at.server.model.data())) {
          return;
        }
      }
    };
    for (const char* method : {"OrthoDyn", "FedAsync"}) {
      Case& one = cases->emplace_back(case_of(method_key(plan, speeds, method), network, plan.step_count));
      one.train = [run = run(method, false), &plan](const RunParameters& p, const Workload&,
                                                    const Case::Watcher& watch) {
        run(p.round_count, every(plan.stride, watch));
      };
    }
  }
  // Rounds of all: the same models whatever the speeds.
  Case& rounds = cases->emplace_back(case_of(std::string(plan.prefix) + "curve/FedAvg", network, plan.step_count));
  rounds.train = [network, train](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
    run_rounds(*network, p.round_count, train, watch);
  };
  return curves;
}

// Of AsyncCurve's run with equal speeds.
void add_connections(const Plan& plan, const Network& network, const std::shared_ptr<SavedRun>& saved,
                     std::vector<Case>* cases) {
  for (const bool by_curve : {false, true}) {
    Case& one = cases->emplace_back(case_of(connection_key(plan, by_curve), network, plan.step_count));
    one.train = [&plan, saved, by_curve](const RunParameters& p, const Workload&, const Case::Watcher& watch) {
      for (const Saved& at : saved->steps(p.round_count)) {
        const size_t size = at.job.base.size();
        const bool is_wanted = at.step % plan.connection_every == 0 && !at.update.empty();
        for (uint32_t part = 0; is_wanted && part <= plan.part_count; ++part) {
          Values end(size);
          Values control(size);
          Values point(size);
          for (size_t e = 0; e < size; ++e) {
            end[e] = at.job.base[e] + at.update[e];
            control[e] = at.job.base[e] + (by_curve ? at.update[size + e] : at.update[e] / 2);
          }
          const Real l = static_cast<Real>(part) / static_cast<Real>(plan.part_count);
          curve_point(size, l, at.job.base.data(), control.data(), end.data(), point.data());
          if (!watch(at.step + part, point.data())) {
            return;
          }
        }
      }
    };
  }
}

std::vector<Case> x14_cases(const Request& request) {
  std::vector<Case> cases;
  const uint32_t seed = first_seed(request);
  add_rules(request, &cases);
  const auto add_all = [&](const Plan& plan, const Network& network) {
    add_stepwise(plan, network, seed, &cases);
    const auto curves = add_methods(plan, network, seed, &cases);
    add_connections(plan, network, curves.front(), &cases);
  };
  add_all(kDigits, make_digits_network(seed));
  if (const Network mnist = make_mnist_network(request.data_folder, seed)) {
    add_all(kMnist, mnist);
  }
  std::string fault;
  if (const Network femnist = make_femnist_network(request.data_folder, seed, &fault)) {
    add_methods(kFemnist, femnist, seed, &cases);
  }
  return cases;
}

// ---- What is said of it -------------------------------------------------------------------------------------------

// Mean over seeds first .. first + count - 1.
double mean_loss(const Curves& curves, const Speeds& speeds, const std::string& rule, uint32_t first, uint32_t count,
                 uint32_t step) {
  double sum = 0;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    sum += curves.at(rule_key(speeds, rule, seed)).excess_at(step);
  }
  return sum / count;
}

void judge_rules(const Curves& curves, const Request& request, Judgement* judgement) {
  const uint32_t first = first_seed(request);
  judgement->note("test loss at step 50 / 400, mean of " + std::to_string(kSeedCount) + " seeds");
  std::vector<const char*> names;
  std::transform(std::begin(kRules), std::end(kRules), std::back_inserter(names), [](const Rule& r) { return r.name; });
  std::transform(std::begin(kSwitches), std::end(kSwitches), std::back_inserter(names),
                 [](const Switch& r) { return r.name; });
  for (const char* name : names) {
    std::string line = std::string("| ") + name + " |";
    for (const Speeds& speeds : kSpeeds) {
      line += std::string(" ") + speeds.name + " " +
              figure(mean_loss(curves, speeds, name, first, kSeedCount, kEarly)) + " / " +
              figure(mean_loss(curves, speeds, name, first, kSeedCount, kStepCount)) + " |";
    }
    judgement->note(line);
  }
  for (size_t s = 0; s < std::size(kSpeeds); ++s) {
    for (const Rule& rule : kRules) {
      for (const bool is_late : {false, true}) {
        const uint32_t step = is_late ? kStepCount : kEarly;
        if (rule.reference[s][is_late ? 1 : 0] != 0) {
          judgement->check_seeds(request.seed, 1,
                                 std::string(rule.name) + ", " + kSpeeds[s].name + " speeds, step " +
                                     std::to_string(step) + ", the reference's three seeds",
                                 mean_loss(curves, kSpeeds[s], rule.name, first, kReferenceSeedCount, step),
                                 rule.reference[s][is_late ? 1 : 0], 1.1);
        }
      }
    }
  }
}

// What a rule that was chosen without knowing the speeds loses at most: its loss by the best rule's.
void judge_regret(const Curves& curves, const Request& request, Judgement* judgement) {
  judgement->note("loss by that of the best rule, at worst of both speeds, at step 50 / 400");
  for (const Rule& rule : kRules) {
    std::string line = std::string("| ") + rule.name + " |";
    for (const uint32_t step : {kEarly, kStepCount}) {
      double worst = 0;
      for (const Speeds& speeds : kSpeeds) {
        double best = std::numeric_limits<double>::infinity();
        for (const Rule& other : kRules) {
          best = std::min(best, mean_loss(curves, speeds, other.name, first_seed(request), kSeedCount, step));
        }
        worst = std::max(worst, mean_loss(curves, speeds, rule.name, first_seed(request), kSeedCount, step) / best);
      }
      line += " " + figure(worst) + " |";
    }
    judgement->note(line);
  }
}

// Of the seeds that the reference has not seen.
void judge_phases(const Curves& curves, const Request& request, Judgement* judgement) {
  const uint32_t first = first_seed(request) + kReferenceSeedCount;
  const uint32_t count = kSeedCount - kReferenceSeedCount;
  const auto loss = [&](const Speeds& speeds, const char* rule, uint32_t step) {
    return mean_loss(curves, speeds, rule, first, count, step);
  };
  double worst_strict = 0;
  for (const Speeds& speeds : kSpeeds) {
    const std::string where = std::string(speeds.name) + " speeds";
    const bool wins_early = loss(speeds, "OrthoGrad", kEarly) < loss(speeds, "OrthoPos", kEarly);
    const bool wins_late = loss(speeds, "OrthoPos", kStepCount) < loss(speeds, "OrthoGrad", kStepCount);
    judgement->claim(
        "rules that trust gradients win early and rules that trust positions late, " + where, wins_early && wins_late,
        "OrthoGrad against OrthoPos " + figure(loss(speeds, "OrthoGrad", kEarly)) + " : " +
            figure(loss(speeds, "OrthoPos", kEarly)) + " at 50, " + figure(loss(speeds, "OrthoGrad", kStepCount)) +
            " : " + figure(loss(speeds, "OrthoPos", kStepCount)) + " at 400");
    // The same rule until the switch: what trusting positions from there on is worth. Of the pure rules at the end
    // either may be ahead with equal speeds, by the seeds.
    const double switched = loss(speeds, "OrthoDyn", kStepCount);
    const double kept = loss(speeds, "OrthoGrad", kStepCount);
    const bool is_equal = speeds.name == std::string("equal");
    judgement->check(std::string("trusting positions in the second half ") + (is_equal ? "helps" : "hurts") + ", " +
                         where + ": OrthoDyn against OrthoGrad " + figure(switched) + " : " + figure(kept),
                     (switched < kept) == is_equal);
    judgement->claim(
        "OrthoPos is better than FedAsync, " + where,
        loss(speeds, "OrthoPos", kStepCount) < loss(speeds, "FedAsync", kStepCount),
        figure(loss(speeds, "OrthoPos", kStepCount)) + " : " + figure(loss(speeds, "FedAsync", kStepCount)));
    double best = loss(speeds, kRules[0].name, kStepCount);
    for (const Rule& rule : kRules) {
      best = std::min(best, loss(speeds, rule.name, kStepCount));
    }
    worst_strict = std::max(worst_strict, loss(speeds, "OrthoStrict", kStepCount) / best);
  }
  judgement->check(
      "OrthoStrict is within 1.5 of the best rule at step 400 whatever the speeds: " + figure(worst_strict),
      worst_strict <= 1.5);
}

void judge_stepwise(const Plan& plan, const Curves& curves, uint32_t seed, Judgement* judgement) {
  judgement->note(std::string(plan.prefix) +
                  "stepwise: one step from saved versions of an asgd run: mean test loss after it, first and last "
                  "quarter");
  for (const Speeds& speeds : kSpeeds) {
    std::map<std::string, std::array<double, 2>> means;
    for (const Rule& rule : kRules) {
      const Curve& curve = curves.at(stepwise_key(plan, speeds, rule.name, seed));
      std::array<double, 2> sums = {};
      std::array<uint32_t, 2> counts = {};
      for (const CurvePoint& point : curve.points) {
        const size_t when = point.round < plan.step_count / 4 ? 0 : point.round >= plan.step_count * 3 / 4 ? 1 : 2;
        if (when < 2) {
          sums[when] += point.measures.excess;
          ++counts[when];
        }
      }
      means[rule.name] = {sums[0] / counts[0], sums[1] / counts[1]};
      judgement->note(std::string("| ") + speeds.name + " | " + rule.name + " | " + figure(means[rule.name][0]) +
                      " | " + figure(means[rule.name][1]) + " |");
    }
    const std::string where = std::string(", ") + plan.prefix + speeds.name;
    judgement->claim("a step that trusts the gradient is the better one early" + where,
                     means["OrthoGrad"][0] < means["OrthoPos"][0],
                     figure(means["OrthoGrad"][0]) + " : " + figure(means["OrthoPos"][0]));
    judgement->claim("a step that trusts the position is the better one late" + where,
                     means["OrthoPos"][1] < means["OrthoGrad"][1],
                     figure(means["OrthoPos"][1]) + " : " + figure(means["OrthoGrad"][1]));
  }
}

// Q: the loss along the line by that along the curve, mean over the inner points of each connection.
void judge_connections(const Plan& plan, const Curves& curves, Judgement* judgement) {
  const Curve& line = curves.at(connection_key(plan, false));
  const Curve& curve = curves.at(connection_key(plan, true));
  std::vector<double> ratios;
  for (uint32_t step = 0; step < plan.step_count; step += plan.connection_every) {
    double sums[2] = {};
    for (uint32_t part = 1; part < plan.part_count; ++part) {
      sums[0] += line.excess_at(step + part);
      sums[1] += curve.excess_at(step + part);
    }
    ratios.push_back(sums[0] / sums[1]);
  }
  double mean = 0;
  double square = 0;
  for (const double ratio : ratios) {
    mean += ratio / static_cast<double>(ratios.size());
  }
  for (const double ratio : ratios) {
    square += (ratio - mean) * (ratio - mean) / static_cast<double>(ratios.size());
  }
  char text[80];
  std::snprintf(text, sizeof(text), "Q = %.4f +- %.4f of %zu connections, report 1.0275 +- 0.0139", mean,
                std::sqrt(square), ratios.size());
  judgement->claim(std::string(plan.prefix) + "connection: the quadratic one has the lower loss, Q > 1", mean > 1,
                   text);
}

// Device updates that rounds of all get in the virtual time in which events get step_count of them.
uint32_t updates_of_rounds(const NetworkWorkload& workload, const Speeds& speeds, uint32_t step_count) {
  Devices devices(workload, speeds, {});
  double end = 0;
  for (uint32_t step = 0; step < step_count; ++step) {
    end = devices.next_end();
    devices.restart({});
  }
  return static_cast<uint32_t>(end / devices.slowest()) * workload.device_count();
}

// Versions that each device's updates were behind at most, in the order of the devices.
void judge_staleness(const Plan& plan, const NetworkWorkload& workload, Judgement* judgement) {
  for (const Speeds& speeds : kSpeeds) {
    Devices devices(workload, speeds, {});
    std::vector<int64_t> greatest(workload.device_count(), -1);
    for (uint32_t step = 0; step < plan.step_count; ++step) {
      int64_t& own = greatest[devices.next().device];
      own = std::max(own, int64_t{devices.next_staleness()});
      devices.restart({});
    }
    std::string line = std::string(plan.prefix) + speeds.name + ": the greatest staleness of each device";
    for (const int64_t staleness : greatest) {
      line += staleness < 0 ? " none" : " " + std::to_string(staleness);
    }
    judgement->note(line);
  }
}

void judge_methods(const Plan& plan, const Curves& curves, const NetworkWorkload& workload, const Speeds& speeds,
                   uint32_t seed, Judgement* judgement) {
  const uint32_t step_count = plan.step_count;
  const Curve& rounds = curves.at(std::string(plan.prefix) + "curve/FedAvg");
  const auto loss = [&](const char* method) {
    return curves.at(method_key(plan, speeds, method)).excess_at(step_count);
  };
  const std::string prefix = std::string(plan.prefix) + "curve/" + speeds.name + "/";
  const std::string evidence = "at " + std::to_string(step_count) + " device updates AsyncCurve " +
                               figure(loss("AsyncCurve")) + ", OrthoDyn without curve " + figure(loss("OrthoDyn")) +
                               ", FedAsync " + figure(loss("FedAsync")) + ", FedAvg " +
                               figure(rounds.excess_at(step_count));
  judgement->claim(prefix + " AsyncCurve beats FedAsync", loss("AsyncCurve") < loss("FedAsync"), evidence);
  judgement->claim(prefix + " AsyncCurve beats FedAvg, update for update",
                   loss("AsyncCurve") < rounds.excess_at(step_count), "as above");
  const uint32_t in_time = updates_of_rounds(workload, speeds, step_count);
  const double timed = rounds.excess_at(in_time);
  judgement->claim(
      prefix + " AsyncCurve beats FedAvg in the same time", loss("AsyncCurve") < timed,
      figure(loss("AsyncCurve")) + " : " + figure(timed) + ", which then has " + std::to_string(in_time) + " updates");
  judgement->claim(prefix + " FedAsync beats FedAvg in the same time", loss("FedAsync") < timed,
                   figure(loss("FedAsync")) + " : " + figure(timed));
  const bool is_cheap = loss("AsyncCurve") <= 1.1 * loss("OrthoDyn");
  const std::string costs = prefix + " the curve costs nothing: at most 1.1 of the loss without it";
  const std::string ratio = figure(loss("AsyncCurve")) + " : " + figure(loss("OrthoDyn"));
  if (plan.is_curve_cheap && seed == 1) {
    judgement->check(costs + ", " + ratio, is_cheap);
  } else {
    judgement->claim(costs, is_cheap, ratio);
  }
  const double worst = std::max({loss("AsyncCurve"), loss("FedAsync"), rounds.excess_at(step_count)});
  const bool has_learned = worst < 0.75 * rounds.excess_at(0);
  if (plan.has_run) {
    judgement->check(prefix + " every method learns", has_learned);
  } else {
    judgement->claim(prefix + " every method learns", has_learned, "no criterion: never run on the real data before");
  }
}

void x14_judge(const Curves& curves, const Request& request, Judgement* judgement) {
  judge_rules(curves, request, judgement);
  judge_regret(curves, request, judgement);
  judge_phases(curves, request, judgement);
  const uint32_t seed = first_seed(request);
  const auto judge_all_methods = [&](const Plan& plan, const NetworkWorkload& network) {
    for (const Speeds& speeds : kSpeeds) {
      judge_methods(plan, curves, network, speeds, request.seed, judgement);
    }
  };
  const auto judge_all = [&](const Plan& plan, const NetworkWorkload& network) {
    judge_staleness(plan, network, judgement);
    judge_stepwise(plan, curves, seed, judgement);
    judge_connections(plan, curves, judgement);
    judge_all_methods(plan, network);
  };
  judge_all(kDigits, *make_digits_network(seed));
  if (const std::unique_ptr<NetworkWorkload> mnist = make_mnist_network(request.data_folder, seed)) {
    judge_all(kMnist, *mnist);
  } else {
    judgement->note("mnist/ left out: no such folder with the data");
  }
  std::string fault;
  if (const std::unique_ptr<NetworkWorkload> femnist = make_femnist_network(request.data_folder, seed, &fault)) {
    judgement->note("femnist/: claims alone, no criteria: these cases had never run on the real data");
    judge_all_methods(kFemnist, *femnist);
  } else {
    judgement->note(fault.empty() ? "femnist/ left out: no *.json there; docs/experiments.md names the source"
                                  : "femnist/ left out: " + fault);
    judgement->check("femnist/ is whole, or not there", fault.empty());
  }
}

}  // namespace

const Experiment kX14 = {"X14",
                         "Asynchronous rules on Digits and MNIST, equal and mixed speeds",
                         x14_cases,
                         x14_judge,
                         nullptr,
                         "excess",
                         "rules/equal/*/s1 rules/mixed/*/s1 stepwise/equal/* stepwise/mixed/* connection/* "
                         "mnist/connection/*",
                         "step"};

}  // namespace gradstream
