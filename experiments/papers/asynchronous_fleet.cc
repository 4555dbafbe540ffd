#include "experiments/papers/asynchronous_fleet.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "experiments/harness/harness.h"
#include "runtime/training/curve.h"
#include "runtime/training/estimator.h"
#include "runtime/training/solver.h"
#include "server/rules/curve_step.h"
#include "server/run/delay_keys.h"

namespace gradstream {
namespace {

constexpr uint32_t kBatchSize = 16;
// Versions that an update may be behind, as staleness_max; an update beyond it ends the run. Reason: more than the
// slowest of kAsyncSpeeds is, so that nothing of it is refused.
constexpr uint32_t kAsyncStalenessMax = 256;
constexpr double kDcLambda = 2.5;  // the report's

// An arena that is big enough.
struct Memory {
  explicit Memory(size_t size) : words(size / sizeof(uint64_t) + 1), arena(words.data(), words.size() * 8) {}
  std::vector<uint64_t> words;
  Arena arena;
};

}  // namespace

AsyncDevices::AsyncDevices(const NetworkWorkload& workload, const AsyncSpeeds& speeds, const AsyncValues& model) {
  for (uint32_t i = 0; i < workload.device_count(); ++i) {
    const uint32_t batches = std::max(1U, workload.sample_count(i) / kBatchSize);
    durations_.push_back(batches / speeds.speeds[i]);
    ends_.push_back(durations_[i]);
    jobs_.push_back({i, 0, 0, model});
  }
}

void AsyncDevices::check_staleness() const {
  if (next_staleness() > kAsyncStalenessMax) {
    throw std::runtime_error("device " + std::to_string(next().device) + " is " + std::to_string(next_staleness()) +
                             " versions behind, at most " + std::to_string(kAsyncStalenessMax));
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
    GS_ASSERT(status == Status::kOk);  // the data are numbers
    add_scaled(x.size(), static_cast<Real>(-kAsyncLocalStep), gradient.data(), x.data());
  }
  add_scaled(x.size(), -1, job.base.data(), x.data());
  return x;
}

AsyncValues train_async_curve(const NetworkWorkload& workload, uint32_t seed, uint32_t epoch_count,
                              const AsyncDevices::Job& job) {
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

DelayCorrection async_correction(const AsyncRule& rule, uint32_t step, uint32_t step_count, Shape shape) {
  const DelayRule now = step < step_count / 2 ? rule.early : rule.late;
  return {now, static_cast<Real>(kDcLambda), kEuclideanOps, shape};
}

AsyncValues AsyncServer::stepped(const DelayCorrection& correction, const AsyncDevices::Job& job,
                                 const AsyncValues& update, bool by_curve, DelayDirection* made) const {
  const size_t size = model.size();
  Memory memory(DelayCorrection::scratch_size(kEuclideanOps, {static_cast<uint32_t>(size), 1}));
  DelayDirection& direction = *made;
  AsyncValues next(size);
  Status status = correction.direct(job.base.data(), model.data(), update.data(), moments, &direction, memory.arena);
  GS_ASSERT(status == Status::kOk);
  const auto alpha = static_cast<Real>(kAsyncServerStep);
  status = correction.step(model.data(), by_curve ? 1 : alpha, &direction, next.data(), memory.arena);
  GS_ASSERT(status == Status::kOk);
  if (by_curve) {
    const auto middle = update.begin() + static_cast<std::ptrdiff_t>(size);
    AsyncValues control;
    static_cast<void>(place_control({update.begin(), middle}, {middle, update.end()}, model, next, &control));
    curve_point(size, alpha, model.data(), control.data(), next.data(), next.data());
  }
  return next;
}

void run_async_fleet(const NetworkWorkload& workload, const AsyncSpeeds& speeds, const AsyncRule& rule,
                     uint32_t step_count, bool by_curve, const AsyncTrain& train, const OnAsyncStep& on_step) {
  AsyncServer server{start_of(workload), {}};
  AsyncDevices devices(workload, speeds, server.model);
  for (uint32_t step = 0; step < step_count; ++step) {
    devices.check_staleness();
    const AsyncDevices::Job& job = devices.next();
    const AsyncValues update = train(job);
    if (!on_step(step, server, job, update)) {
      return;
    }
    DelayDirection made;
    server.model =
        server.stepped(async_correction(rule, step, step_count, workload.shape()), job, update, by_curve, &made);
    server.moments = made.moments;
    devices.restart(server.model);
  }
  const AsyncDevices::Job last;
  on_step(step_count, server, last, {});
}

void run_async_switching(const NetworkWorkload& workload, const AsyncSpeeds& speeds, const AsyncSwitch& rule,
                         uint32_t step_count, const AsyncTrain& train, const OnAsyncStep& on_step) {
  RunParameters parameters;
  parameters.delay->delay_switch_by = rule.by;
  parameters.delay->delay_switch_at = static_cast<Real>(rule.at);
  DelaySwitch state;
  AsyncServer server{start_of(workload), {}};
  AsyncDevices devices(workload, speeds, server.model);
  for (uint32_t step = 0; step < step_count; ++step) {
    devices.check_staleness();
    const AsyncDevices::Job& job = devices.next();
    const AsyncValues update = train(job);
    if (!on_step(step, server, job, update)) {
      return;
    }
    const DelayCorrection correction(state.is_switched ? DelayRule::kOrthoPos : DelayRule::kOrthoGrad, 0, kEuclideanOps,
                                     workload.shape(), rule.by);
    DelayDirection direction;
    server.model = server.stepped(correction, job, update, false, &direction);
    state = state.after(*parameters.delay, step + 1, direction.statistic);
    devices.restart(server.model);
  }
  on_step(step_count, server, {}, {});
}

OnAsyncStep measure_every(uint32_t stride, const Case::Watcher& watch) {
  return [stride, watch](uint32_t step, const AsyncServer& server, const AsyncDevices::Job&, const AsyncValues&) {
    return step % stride != 0 || watch(step, server.model.data());
  };
}

void run_async_rounds(const NetworkWorkload& workload, uint32_t step_count, const AsyncTrain& train,
                      const Case::Watcher& watch) {
  AsyncValues model = start_of(workload);
  for (uint32_t round = 0;; ++round) {
    const uint32_t step = round * workload.device_count();
    if (!watch(step, model.data()) || step >= step_count) {
      return;
    }
    AsyncValues sum(model.size());
    uint32_t total = 0;
    for (uint32_t i = 0; i < workload.device_count(); ++i) {
      const AsyncValues update = train({i, round, round, model});
      add_scaled(sum.size(), static_cast<Real>(workload.sample_count(i)), update.data(), sum.data());
      total += workload.sample_count(i);
    }
    add_scaled(model.size(), 1 / static_cast<Real>(total), sum.data(), model.data());
  }
}

const std::vector<SavedAsyncStep>& SavedAsyncRun::steps(uint32_t step_count) {
  std::call_once(once_, [&] {
    step_count_ = step_count;
    run_(step_count,
         [&](uint32_t step, const AsyncServer& server, const AsyncDevices::Job& job, const AsyncValues& update) {
           if (wanted_(step)) {
             steps_.push_back({step, server, job, update});
           }
           return all_finite(server.model.size(), server.model.data());
         });
  });
  GS_ASSERT(step_count_ == step_count);
  return steps_;
}

}  // namespace gradstream
