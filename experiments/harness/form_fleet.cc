#include "experiments/harness/form_fleet.h"

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <string>

#include "experiments/harness/tube.h"
#include "runtime/base/products.h"
#include "runtime/training/solver.h"
#include "server/run/run_core.h"
#include "server/run/weights.h"

namespace gradstream {
namespace {

constexpr size_t kArenaSize = size_t{1} << 21;
constexpr uint32_t kModelCount = 8;  // versions that a late update may be behind, as staleness_max

// Nothing can fail: parameters were checked, samples are in memory and finite.
void expect_ok(Status status) { GS_ASSERT(status == Status::kOk); }

// What a run that diverges comes to: numbers beyond all bounds.
void want_ok(Status status, const char* what) {
  if (status != Status::kOk) {
    throw std::runtime_error(std::string(what) + " has no result: " + status_text(status));
  }
}

}  // namespace

FormFleet::FormFleet(const RunParameters& parameters, const Workload& workload, FleetSet set)
    : p_(parameters),
      workload_(workload),
      set_(set),
      memory_(kArenaSize / sizeof(uint64_t)),
      arena_(memory_.data(), kArenaSize),
      models_(kModelCount) {
  if (set_.ops != nullptr) {
    p_.model->manifold = set_.ops->id;
    p_.model->shape.parts = set_.parts;
  }
  expect_ok(replica_.prepare(manifold(), p_.model->shape, arena_, p_.has_mean()));
  rule_ = make_aggregator({&p_, &replica_, &models_, &arena_, nullptr});
  const Matrix start = workload.start();
  std::vector<Real> point(start.data(), start.data() + start.size());
  follow(first_record(p_, p_.trigger->device_count, point.data()));
}

FormFleet::Work FormFleet::work(uint32_t device, uint32_t steps) {
  static constexpr const EstimatorOps* kEstimators[] = {&kAnalyticGradientOps, &kProjectionOneSidedOps};
  static constexpr const SolverOps* kSolvers[] = {&kSolverProjectionOps};
  const Problem problem = workload_.problem(device);
  Task task;
  task.version = replica_.version();
  task.solver = p_.local->solver;
  task.manifold = p_.model->manifold;
  task.shape = p_.model->shape;
  task.estimator.id = p_.local->estimator;
  task.estimator.batch_mode = p_.local->batch_mode;
  task.estimator.batch_size = p_.local->batch_size;
  task.estimator.smoothing = p_.local->smoothing;
  task.estimator.directions.kind = p_.local->directions;
  task.estimator.directions.direction_count = p_.local->direction_count;
  task.estimator.directions.shared = p_.shared_directions();
  task.estimator.directions.owner = p_.owner_of(device);
  task.seed = p_.seed;
  task.client_index = device;
  task.local_step_count = p_.local->local_step_count;
  task.steps_min = p_.least_steps();
  task.step_size = p_.step_size_at(replica_.version());
  task.use_correction = p_.local->correction_form != CorrectionForm::kNone;
  task.encoding = p_.wire->upload_encoding;
  std::copy_n(p_.model->problem.c_str(), p_.model->problem.size() + 1, task.problem);
  const std::vector<Real> c = correction(device);
  const size_t mark = arena_.mark();
  SolverRun run;
  const std::span<const ManifoldOps* const> manifolds =
      set_.ops != nullptr ? std::span<const ManifoldOps* const>(&set_.ops, 1) : counting_manifolds();
  expect_ok(begin_solver({manifolds, kEstimators, kSolvers, {&problem, 1}}, task, replica_.model(),
                         c.empty() ? nullptr : c.data(), &run, arena_));
  for (uint32_t k = 0; k < steps; ++k) {
    want_ok(run.ops->step(run, arena_), "a device's step");
  }
  GradientStream stream;
  expect_ok(run.ops->finish(run, &stream));
  Work out{device, replica_.version(), steps, {stream.values, stream.values + stream.value_count}};
  arena_.release(mark);
  return out;
}

// What a device sends: its estimates, with the correction that it made them by where that is the authors' way.
FormFleet::Work FormFleet::as_sent(const Work& made, const Schedule& schedule) {
  Work sent = made;
  const std::vector<Real> c = schedule.has_authors_correction ? correction(made.device) : std::vector<Real>();
  if (!c.empty()) {
    add_scaled(c.size(), 1, c.data(), sent.values.data());
  }
  return sent;
}

bool FormFleet::fold(const Work& work, const Work& made) {
  const uint32_t om = staleness_weight(*p_.trigger, replica_.version() - work.base);
  const Status status = rule_->prepare(
      {p_.owner_of(work.device), work.base, work.steps, static_cast<uint16_t>(om), work.values, work.device});
  if (status == Status::kOk) {
    rule_->commit();
    folded_.push_back(made);
  }
  return status == Status::kOk;
}

void FormFleet::close(bool keeps_corrections) {
  VersionRecord record;
  expect_ok(rule_->finish(&record));
  if (!keeps_corrections) {
    local_.clear();
  }
  follow(record);
  for (Work& work : folded_) {
    const uint32_t device = work.device;
    last_[device] = {std::move(work), replica_.version()};
  }
  folded_.clear();
}

void FormFleet::run(const Schedule& schedule, const Watcher& watch) {
  const uint32_t n = p_.trigger->device_count;
  RandomStream draw({p_.seed, RandomDomain::kClientSampling, 0, 0, 0});
  std::deque<std::pair<uint32_t, Work>> waiting;  // by the version that each is due in
  std::vector<bool> is_busy(n);
  bool goes_on = watch(0, replica_.model());
  while (goes_on && replica_.version() < p_.version_count()) {
    const uint32_t version = replica_.version();
    const std::vector<uint32_t> order = chosen({p_.seed, RandomDomain::kClientSampling, version, 1, 0}, n, n);
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t device = order[i];
      const bool answers = schedule.probabilities.empty() ? i < schedule.answer_count
                                                          : draw.next_uniform() < schedule.probabilities[device];
      if (answers && !is_busy[device]) {
        const uint32_t steps =
            schedule.has_partial_work ? 1 + draw.next() % p_.local->local_step_count : p_.local->local_step_count;
        const uint32_t late = schedule.late_max == 0 ? 0 : draw.next() % (schedule.late_max + 1);
        waiting.emplace_back(version + late, work(device, steps));
        is_busy[device] = true;
      }
    }
    const auto is_due = [&](const auto& entry) { return entry.first <= version; };
    if (std::none_of(waiting.begin(), waiting.end(), is_due)) {
      const auto idle = std::find(is_busy.begin(), is_busy.end(), false);
      if (idle == is_busy.end()) {
        waiting.front().first = version;  // all are away: the next answer is waited for
      } else {
        waiting.emplace_back(version, work(static_cast<uint32_t>(idle - is_busy.begin()), p_.local->local_step_count));
      }
    }
    for (const auto& [due, update] : waiting) {
      if (due <= version) {
        if (!fold(as_sent(update, schedule), update)) {  // newer than the device's last one, and not too late
          throw std::runtime_error("an update has no result: a value of it is beyond the fold's fixed point");
        }
        is_busy[update.device] = false;
      }
    }
    std::erase_if(waiting, is_due);
    close(!schedule.has_authors_correction);
    goes_on = watch(replica_.version(), replica_.model());
  }
}

// c_i as a device makes it: memory h - h_i, local d - Gbar_i of the version that its last update went into.
std::vector<Real> FormFleet::correction(uint32_t device) {
  const auto last = last_.find(device);
  if (last == last_.end() || p_.local->correction_form == CorrectionForm::kNone) {
    return {};
  }
  if (p_.local->correction_form == CorrectionForm::kLocal) {
    const auto local = local_.find(device);
    return local == local_.end() ? std::vector<Real>() : local->second;
  }
  GS_ASSERT(rule_->stamp(device) == last->second.work.base);  // the server remembers the same update
  std::vector<Real> c(p_.model->shape.size());
  replica_.fill_mean(p_.stream() == StreamKind::kScalarStream ? exact_unit(p_.model->shape, p_.fold->fold_scale_log2)
                                                              : fixed_unit(p_.fold->fold_scale_log2),
                     c.data());
  subtract(last->second.work, &c);
  return c;
}

void FormFleet::subtract(const Work& work, std::vector<Real>* c) {
  std::vector<uint8_t> bytes(encoded_size(p_.wire->upload_encoding, work.values.size()));
  expect_ok(encode_values(p_.wire->upload_encoding, work.values.size(), work.values.data(), bytes.data()));
  if (p_.stream() == StreamKind::kScalarStream) {
    expect_ok(fill_correction(direction_spec(p_, work.base, p_.owner_of(work.device)), p_.model->shape, c->data(),
                              work.steps, p_.wire->upload_encoding, bytes.data(), bytes.size(), c->data(), arena_));
  } else {
    expect_ok(subtract_values(p_.wire->upload_encoding, c->size(), bytes.data(), bytes.size(), c->data()));
  }
}

void FormFleet::follow(const VersionRecord& record) {
  want_ok(apply_record(p_, record, replica_, arena_), "the server's step");
  expect_ok(rule_->follow(record));
  for (const Work& work : folded_) {
    if (p_.local->correction_form == CorrectionForm::kLocal) {
      std::vector<Real>& c = local_[work.device];
      c.resize(p_.model->shape.size());
      if (replica_.has_mean()) {
        replica_.fill_mean(fixed_unit(p_.fold->fold_scale_log2), c.data());
      } else {
        c.assign(replica_.record_sum(), replica_.record_sum() + p_.model->shape.size());
      }
      subtract(work, &c);
    }
  }
}

}  // namespace gradstream
