#include "experiments/papers/asynchronous_fleet.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "experiments/harness/harness.h"
#include "runtime/problem/proximal_loss.h"
#include "runtime/training/estimator.h"
#include "runtime/training/solver.h"
#include "server/rules/delay_correction.h"
#include "server/rules/model_average.h"
#include "server/run/run_core.h"
#include "server/run/weights.h"

namespace gradstream {
namespace {

constexpr uint32_t kBatchSize = 16;
// Tensors that a rule takes of the arena beside the replica and its operations, as Ledger has them.
constexpr size_t kRuleTensorCount = 2;

// An arena that is big enough.
struct Memory {
  explicit Memory(size_t size) : words(size / sizeof(uint64_t) + 1), arena(words.data(), words.size() * 8) {}
  std::vector<uint64_t> words;
  Arena arena;
};

size_t server_words(const RunParameters& parameters) {
  const ManifoldOps& manifold = *server_manifold(parameters);
  const Shape shape = parameters.model->shape;
  const size_t bytes =
      Replica::persistent_size(shape, false) +
      std::max(Replica::scratch_size(manifold, shape), DelayCorrection::scratch_size(manifold, shape)) +
      kRuleTensorCount * Arena::taken_size<Real>(shape.size()) + kArenaAlignment;
  return bytes / sizeof(uint64_t) + 1;
}

// Throws what the rule says of an update or a version.
void expect_ok(Status status, const std::string& what) {
  if (status != Status::kOk) {
    throw std::runtime_error(what + ": " + status_text(status));
  }
}

}  // namespace

AsyncDevices::AsyncDevices(const NetworkWorkload& workload, const AsyncSpeeds& speeds, const AsyncValues& model) {
  for (uint32_t i = 0; i < workload.device_count(); ++i) {
    const uint32_t batches = std::max(1U, workload.sample_count(i) / kBatchSize);
    durations_.push_back(batches / speeds.speeds[i]);
    ends_.push_back(durations_[i]);
    jobs_.push_back({i, 0, 0, model});
  }
}

void AsyncDevices::restart(const AsyncValues& model) {
  const size_t i = next_index();
  ends_[i] += durations_[i];
  ++jobs_[i].number;
  jobs_[i].base_version = ++version_;
  jobs_[i].base = model;
}

AsyncValues train_async_sgd(const NetworkWorkload& workload, uint32_t seed, const AsyncDevices::Job& job) {
  const Problem problem = workload.problem(job.device);
  const Shape shape = workload.shape();
  Memory memory(problem.ops->scratch_size(problem.context, shape));
  const uint32_t count = workload.sample_count(job.device);
  std::vector<uint16_t> order(count);
  choose({seed, RandomDomain::kMinibatch, job.number, job.device, 0}, count, count, order.data());
  AsyncValues x = job.base;
  AsyncValues gradient(x.size());
  for (uint32_t first = 0; first + kBatchSize <= std::max(count, kBatchSize); first += kBatchSize) {
    const Batch batch{order.data() + first, std::min(kBatchSize, count)};
    const Status status = problem.ops->gradient(problem.context, shape, x.data(), batch, gradient.data(), memory.arena);
    expect_ok(status, "the work of device " + std::to_string(job.device));
    add_scaled(x.size(), static_cast<Real>(-kAsyncLocalStep), gradient.data(), x.data());
  }
  add_scaled(x.size(), -1, job.base.data(), x.data());
  return x;
}

AsyncValues train_async_curve(const NetworkWorkload& workload, uint32_t seed, uint32_t epoch_count,
                              const AsyncDevices::Job& job, bool is_pulled) {
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
  if (is_pulled) {
    task.proximal_form = ProximalForm::kLorentz;
    task.proximal_weight = static_cast<Real>(kAsyncProximal);
    task.proximal_sigma = static_cast<Real>(kAsyncSigma);
  }
  task.encoding = kRealEncoding;
  std::copy_n(problem.ops->name, std::char_traits<char>::length(problem.ops->name), task.problem);
  // Eleven tensors, the samples' order and the problem's own.
  Memory memory((size_t{1} << 18) + 12 * sizeof(Real) * job.base.size() +
                problem.ops->scratch_size(problem.context, task.shape));
  SolverRun run;
  Registry registry = {all_manifolds(), kEstimators, kSolvers, {&problem, 1}};
  registry.proximal_loss = &kProximalLossOps;
  Status status = begin_solver(registry, task, job.base.data(), nullptr, &run, memory.arena);
  for (uint32_t epoch = 0; epoch < epoch_count && status == Status::kOk; ++epoch) {
    status = run.ops->step(run, memory.arena);
  }
  GradientStream stream;
  GS_ASSERT(status == Status::kOk && run.ops->finish(run, &stream) == Status::kOk);
  return {stream.values, stream.values + stream.value_count};
}

AsyncServer::AsyncServer(const RunParameters& parameters, uint32_t version, const AsyncValues& model)
    : parameters_(parameters),
      memory_(server_words(parameters)),
      arena_(memory_.data(), memory_.size() * sizeof(uint64_t)),
      models_(parameters.kept_model_count()) {
  GS_ASSERT(model.size() == parameters_.model->shape.size());
  expect_ok(replica_.prepare(*server_manifold(parameters_), parameters_.model->shape, arena_), "the server's replica");
  std::copy(model.begin(), model.end(), replica_.begin_snapshot());
  replica_.adopt_snapshot(version);
  models_.push(version, model);
  rule_ = make_aggregator({&parameters_, &replica_, &models_, &arena_, nullptr, &open_});
  rule_->begin();
  open_round();
}

void AsyncServer::open_round() {
  open_.round = version();
  open_.step_size = parameters_.step_size_at(version());
}

void AsyncServer::know_fleet(const NetworkWorkload& workload) {
  for (uint32_t device = 0; device < workload.device_count(); ++device) {
    open_.samples.give(0, memory_weight(parameters_, workload.sample_count(device)));
  }
}

void AsyncServer::fold(const AsyncDevices::Job& job, uint32_t sample_count, const AsyncValues& update) {
  const uint32_t staleness = version() - job.base_version;
  const std::string what = "the update of device " + std::to_string(job.device) + " at version " +
                           std::to_string(version()) + ", " + std::to_string(staleness) +
                           " versions behind of at most " + std::to_string(parameters_.trigger->staleness_max);
  expect_ok(staleness <= parameters_.trigger->staleness_max ? Status::kOk : Status::kSingular, what);
  FoldInput input;
  input.owner = parameters_.owner_of(job.device);
  input.device = job.device;
  input.base_version = job.base_version;
  input.steps_done = parameters_.local->local_step_count;
  input.weight = fold_weight(parameters_, sample_count, staleness);
  input.sample_count = memory_weight(parameters_, sample_count);
  input.values = std::span(update).first(parameters_.value_count());
  expect_ok(rule_->prepare(input), what);
  rule_->commit();
}

void AsyncServer::close() {
  const std::string what = "the step to version " + std::to_string(version() + 1);
  VersionRecord record;
  expect_ok(rule_->finish(&record), what);
  expect_ok(apply_record(parameters_, record, replica_, arena_), what);
  models_.push(version(), model());
  open_round();
  expect_ok(rule_->follow(record), what);
}

void run_async_fleet(const NetworkWorkload& workload, const AsyncSpeeds& speeds, const RunParameters& parameters,
                     const AsyncTrain& train, const OnAsyncStep& on_step) {
  AsyncServer server(parameters, 0, start_of(workload));
  server.know_fleet(workload);
  AsyncDevices devices(workload, speeds, server.model());
  for (uint32_t step = 0; step < parameters.trigger->round_count; ++step) {
    const AsyncDevices::Job& job = devices.next();
    const AsyncStep now{step, server.model(), job, train(job)};
    if (!on_step(now)) {
      return;
    }
    server.fold(job, workload.sample_count(job.device), now.update);
    server.close();
    devices.restart(server.model());
  }
  on_step({parameters.trigger->round_count, server.model(), {}, {}});
}

AsyncValues stepped_once(const NetworkWorkload& workload, const RunParameters& parameters, const AsyncStep& step) {
  AsyncServer server(parameters, step.step, step.model);
  server.know_fleet(workload);
  if (step.job.base_version != step.step) {
    server.recall(step.job.base_version, step.job.base);
  }
  server.fold(step.job, workload.sample_count(step.job.device), step.update);
  server.close();
  return server.model();
}

OnAsyncStep measure_every(uint32_t stride, const Case::Watcher& watch) {
  return [stride, watch](const AsyncStep& now) { return now.step % stride != 0 || watch(now.step, now.model.data()); };
}

OnAsyncStep average_every(const RunParameters& parameters, uint32_t stride, const Case::Watcher& watch) {
  struct Averaged {
    explicit Averaged(const RunParameters& p)
        : parameters(p),
          memory(DelayCorrection::scratch_size(*server_manifold(parameters), parameters.model->shape)),
          average(parameters, memory.arena) {}
    RunParameters parameters;
    Memory memory;
    ModelAverage average;
  };
  const auto averaged = std::make_shared<Averaged>(parameters);
  return [averaged, stride, watch](const AsyncStep& now) {
    ModelAverage& average = averaged->average;
    average.follow(now.step, now.model.data());
    return now.step % stride != 0 || watch(now.step, (average.count() > 0 ? average.model() : now.model).data());
  };
}

void run_async_rounds(const NetworkWorkload& workload, const RunParameters& parameters, const AsyncTrain& train,
                      const Case::Watcher& watch) {
  AsyncServer server(parameters, 0, start_of(workload));
  for (uint32_t round = 0;; ++round) {
    const uint32_t step = round * workload.device_count();
    const AsyncValues model = server.model();
    if (!watch(step, model.data()) || step >= parameters.trigger->round_count) {
      return;
    }
    for (uint32_t i = 0; i < workload.device_count(); ++i) {
      const AsyncDevices::Job job{i, round, round, model};
      server.fold(job, workload.sample_count(i), train(job));
    }
    server.close();
  }
}

Case async_case(const std::string& key, const std::shared_ptr<const NetworkWorkload>& workload,
                const RunParameters& parameters) {
  Case one;
  one.key = key;
  one.workload = workload;
  one.parameters = parameters;  // for check_parameters()
  return one;
}

const std::vector<AsyncStep>& SavedAsyncRun::steps(const RunParameters& parameters) {
  std::call_once(once_, [&] {
    step_count_ = parameters.trigger->round_count;
    try {
      run_(parameters, [&](const AsyncStep& now) {
        if (wanted_(now.step)) {
          steps_.push_back(now);
        }
        return all_finite(now.model.size(), now.model.data());
      });
    } catch (const std::runtime_error& fault) {
      steps_.clear();
      fault_ = fault.what();
    }
  });
  if (!fault_.empty()) {
    throw std::runtime_error(fault_);
  }
  GS_ASSERT(step_count_ == parameters.trigger->round_count);
  return steps_;
}

}  // namespace gradstream
