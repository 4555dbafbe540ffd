// Fully asynchronous aggregation of tangents (004, A11; docs/algorithms.md, "Asynchronous rules"): a version closes
// with every update, or with every B of them.
//
//   one update       C <- R_C(-alpha D), D of server/rules/delay_correction.h, alpha = eta_g s(staleness) [w_i]
//                    [/ (N p_i), at most 1]
//   B > 1 (FedBuff)  D = 1/B sum_i s_i [w_i] (K_eff / k_i) delta_i at C, alpha = eta_g; divided by B, not by the
//   weights by samples       w_i = N_i by the mean of the devices that have been given work ((32) of 004: eta_i = w_i
//   eta) momentum beta    v <- beta T_{C_before -> C}(v) + D in place of D curve (A13)      C^ = C - D, the whole step;
//   phi^ of server/rules/curve_step.h, by curve_control. C <- the point
//                    alpha of the curve from C by phi^ to C^, alpha as of one update, at most 1
//
// The state that goes from version to version is moments, velocity and how often each device took part. It follows from
// the updates in the journal's order, so that recovery has it again. The switch to late_delay_rule by a statistic
// stands in the versions' records.
#include "runtime/base/no_contraction.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/base/products.h"
#include "runtime/training/curve.h"
#include "server/rules/aggregator.h"
#include "server/rules/curve_step.h"
#include "server/rules/delay_correction.h"
#include "server/rules/tangent_fold.h"
#include "server/run/delay_keys.h"
#include "server/run/limits.h"
#include "server/run/run_core.h"
#include "server/run/weights.h"

namespace gradstream {
namespace {

class AggregatorDelayed : public Aggregator {
 public:
  explicit AggregatorDelayed(const AggregatorContext& context) : context_(context), open_(opened()) {}

  Status finish(VersionRecord* record) const override {
    *record = stand_still();
    DelayDirection step = open_.step;
    std::vector<Real> next(size());
    if (is_curve()) {
      curve_point(size(), open_.alpha, context_.replica->model(), open_.control.data(), open_.end.data(), next.data());
    } else {
      GS_TRY(correction().step(context_.replica->model(), open_.alpha, &step, next.data(), *context_.arena));
    }
    if (!all_finite(next.size(), next.data())) {
      return Status::kNotFinite;
    }
    record->notes.clamped_count += step.is_clamped ? 1 : 0;
    record->step_scale = open_.alpha;
    record->promise.value = promise_of(open_.step);
    record->model = model_bytes(parameters().model->shape, next.data());
    return Status::kOk;
  }

  VersionRecord stand_still() const override {
    VersionRecord record = stand_still_record(context_);
    record.notes = open_.notes;
    if (parameters().delay->delay_switch_by != DelaySwitchBy::kVersion) {
      record.delay_switch = delay_switch_.after(*parameters().delay, record.version, open_.statistic);
    }
    return record;
  }

  void exchange(StateArchive& io) override {
    io.values(delay_switch_.is_switched, delay_switch_.sample_count, delay_switch_.mean, update_count_);
    io.map(update_counts_, [&io](uint32_t& count) { io.values(count); });
    for (std::vector<Real>* const state : {&moments_, &velocity_, &velocity_model_}) {
      io.numbers(*state);
    }
    if ((!velocity_.empty() && velocity_.size() != size()) || velocity_model_.size() != velocity_.size()) {
      io.fail();
    }
    if (io.is_reading()) {
      open_version();
    }
  }

 private:
  // The open version, with the updates that it has so far.
  struct Open {
    std::vector<uint32_t> devices;
    WeightSum weights;
    std::vector<Real> sum;    // sum s_i delta_i / k_i
    DelayMoments moments;     // after the last update
    DelayDirection step;      // that these updates make
    std::vector<Real> model;  // where that step begins
    Real alpha = 0;
    std::optional<Real> statistic;  // of its update
    std::vector<Real> control;      // curve: phi^ and C^
    std::vector<Real> end;
    DelayNotes notes;
  };

  void open_version() override { open_ = opened(); }

  Status follow_record(const VersionRecord& record) override {
    delay_switch_ = record.delay_switch.value_or(DelaySwitch());
    moments_ = open_.moments;
    for (const uint32_t device : open_.devices) {
      ++update_counts_[device];
      ++update_count_;
    }
    if (!open_.devices.empty() && parameters().delay->server_momentum > 0) {
      velocity_ = open_.step.direction;
      velocity_model_ = open_.model;
    }
    open_version();
    return Status::kOk;
  }

  Status work_out(const FoldInput& input, FoldSource source) override {
    if (source == FoldSource::kLive) {
      GS_TRY(check_live(input));
    }
    prepared_ = open_;
    return take(input, &prepared_);
  }

  void take_in() override { std::swap(open_, prepared_); }

  // Two checks that older journals do not stand: values must fit the fold's range, and a run with buffer_size = 1 takes
  // one update a version.
  Status check_live(const FoldInput& input) const {
    if (parameters().trigger->buffer_size == 1 && !open_.devices.empty()) {
      return Status::kOutOfRange;
    }
    return input.steps_done == 0 ? Status::kOk
                                 : check_quotients(parameters(), input.values, static_cast<Real>(input.steps_done));
  }

  const RunParameters& parameters() const { return *context_.parameters; }
  size_t size() const { return context_.parameters->model->shape.size(); }
  bool is_curve() const { return parameters().local->solver == SolverId::kCurve; }

  // Of C <- R_C(-alpha D), D a displacement of K_eff steps of eta: d = D / (eta K_eff), a = alpha eta K_eff. A velocity
  // makes a longer step along the same d, by 1 / (1 - beta). A curve's way has no one direction: it promises nothing.
  double promise_of(const DelayDirection& step) const {
    const RunParameters& p = parameters();
    const double eta = static_cast<double>(open_step_size(context_));
    if (is_curve() || eta == 0) {
      return 0;
    }
    const double steps = static_cast<double>(open_.weights.effective_steps());
    const double rest = 1 - static_cast<double>(p.delay->server_momentum);
    return static_cast<double>(open_.alpha) * square_sum(step.direction) * std::max(rest, 0.0) / (eta * steps);
  }

  DelayCorrection correction() const {
    const RunParameters& p = parameters();
    const bool is_switched = p.delay->delay_switch_by == DelaySwitchBy::kVersion
                                 ? context_.replica->version() >= p.delay->delay_switch
                                 : delay_switch_.is_switched;
    const bool is_late = p.delay->late_delay_rule != DelayRule::kNone && is_switched;
    return {is_late ? p.delay->late_delay_rule : p.delay->delay_rule,
            p.delay->delay_lambda,
            context_.replica->manifold(),
            p.model->shape,
            p.delay->delay_switch_by,
            {p.delay.keys().ortho_alpha, p.delay.keys().ortho_theta}};
  }

  Open opened() const {
    Open open;
    open.sum.resize(size());
    open.moments = moments_;
    return open;
  }

  // N p_i, this update counted.
  Real dominance(uint32_t device) const {
    const auto known = update_counts_.find(device);
    const uint32_t own = (known == update_counts_.end() ? 0 : known->second) + 1;
    const uint32_t devices =
        context_.enrolment == nullptr ? parameters().trigger->device_count : context_.enrolment->active_count();
    return static_cast<Real>(devices) * static_cast<Real>(own) / static_cast<Real>(update_count_ + 1);
  }

  Status take(const FoldInput& input, Open* open) const {
    if (input.weight == 0 || input.steps_done == 0 || input.values.size() != parameters().value_count()) {
      return Status::kInvalidArgument;
    }
    if (open->devices.size() >= kKeptUpdateCountMax) {
      return Status::kOutOfRange;
    }
    const Replica& replica = *context_.replica;
    const bool is_current = input.base_version == replica.version();
    const Real* const base = is_current ? replica.model() : context_.models->find(input.base_version);
    if (base == nullptr) {
      return Status::kSingular;
    }
    GS_TRY(correction().direct(base, replica.model(), input.values.data(), moments_, &open->step, *context_.arena));
    Real share = static_cast<Real>(input.weight) / static_cast<Real>(kStalenessOne);
    if (weighs_updates(parameters()) && context_.open != nullptr) {
      share *= context_.open->samples.share_of(input.sample_count);
    }
    add_scaled(size(), share / static_cast<Real>(input.steps_done), open->step.direction.data(), open->sum.data());
    open->weights.add(kStalenessOne, input.steps_done);
    open->devices.push_back(input.device);
    open->moments = open->step.moments;
    open->statistic = open->step.statistic;
    open->notes.still_count += open->step.is_still ? 1 : 0;
    open->model.assign(replica.model(), replica.model() + size());
    open->alpha = open_server_step(context_);
    if (parameters().trigger->buffer_size == 1) {
      open->alpha *= share;
      if (parameters().delay->dominance_penalty) {
        open->alpha = std::min(open->alpha / dominance(input.device), Real{1});
      }
      // A step to a point ends there, whatever its device weighs.
      if ((is_curve() || !open->step.target.empty()) && open->alpha > 1) {
        open->alpha = 1;
        ++open->notes.clamped_count;
      }
      if (is_curve()) {
        return take_curve(input, base, open);
      }
    } else {
      open->step = DelayDirection();
      open->step.direction = open->sum;
      const auto count = static_cast<Real>(open->devices.size());
      scale(size(), open->weights.effective_steps() / count, open->step.direction.data());
    }
    return parameters().delay->server_momentum > 0 ? accelerate(&open->step) : Status::kOk;
  }

  Status take_curve(const FoldInput& input, const Real* base, Open* open) const {
    const Real* const current = context_.replica->model();
    const auto middle = input.values.begin() + static_cast<std::ptrdiff_t>(size());
    open->end.resize(size());
    GS_TRY(correction().step(current, 1, &open->step, open->end.data(), *context_.arena));
    const std::vector<Real> from(base, base + size());
    const std::vector<Real> displacement(input.values.begin(), middle);
    const std::vector<Real> control(middle, input.values.end());
    const bool is_rotated = place_control(parameters().delay.keys().curve_control,
                                          {from, displacement, control, open->model, open->end}, &open->control);
    open->notes.antiparallel_count += is_rotated ? 0 : 1;
    return all_finite(size(), open->control.data()) ? Status::kOk : Status::kNotFinite;
  }

  // Puts the velocity in the direction's place.
  Status accelerate(DelayDirection* step) const {
    step->target.clear();
    if (velocity_.empty()) {
      return Status::kOk;
    }
    std::vector<Real> v = velocity_;
    GS_TRY(correction().carry(velocity_model_.data(), context_.replica->model(), v.data(), *context_.arena));
    add_scaled(size(), parameters().delay->server_momentum, v.data(), step->direction.data());
    return Status::kOk;
  }

  AggregatorContext context_;
  // From version to version.
  DelaySwitch delay_switch_;
  DelayMoments moments_;
  std::map<uint32_t, uint32_t> update_counts_;
  uint64_t update_count_ = 0;
  std::vector<Real> velocity_;  // at velocity_model_; empty: none yet
  std::vector<Real> velocity_model_;
  Open open_;
  Open prepared_;  // open_ with the update that was prepared; its buffers serve the next one
};

}  // namespace

std::unique_ptr<Aggregator> make_aggregator_delayed(const AggregatorContext& context) {
  return std::make_unique<AggregatorDelayed>(context);
}

}  // namespace gradstream
