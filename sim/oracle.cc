#include "sim/oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "runtime/base/products.h"
#include "runtime/training/secant.h"
#include "server/run/fold_keys.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/weights.h"

namespace gradstream {
namespace {

// Bytes besides the replica and its scratch. Reason: room for what the checks of small runs nest.
constexpr size_t kArenaBaseSize = size_t{1} << 18;
// Tensors of the model's shape besides. Reason: the secant and the delayed step hold a handful while they call the
// manifold.
constexpr size_t kTensorCount = 8;
// Tasks of a device that are kept where old ones are forgotten. Reason: the coordinator judges none but the last two.
constexpr uint32_t kTaskCountKept = 4;
// Device and task; of a record without them, zeros.
std::pair<uint32_t, uint32_t> task_of(const JournalRecord& record) {
  return record.has_device() ? std::pair(record.device(), record.task_sequence()) : std::pair(0U, 0U);
}

std::string at(const JournalRecord& record) {
  return " (record " + std::to_string(record.sequence()) + ", device " + std::to_string(task_of(record).first) +
         ", task " + std::to_string(task_of(record).second) + ", version " + std::to_string(record.version()) + ")";
}

size_t arena_words(const RunParameters& parameters) {
  const ManifoldOps& manifold = *server_manifold(parameters);
  const Shape shape = parameters.model->shape;
  const size_t bytes = kArenaBaseSize +
                       Replica::persistent_size(shape, parameters.has_mean(), version_parts(parameters)) +
                       Replica::scratch_size(manifold, shape) + kTensorCount * Arena::taken_size<Real>(shape.size());
  return bytes / sizeof(uint64_t) + 1;
}

int64_t rounded_quotient(int64_t sum, int64_t divisor) {
  GS_ASSERT(divisor > 0);
  const int64_t half = divisor / 2;
  // Half away from zero; an odd divisor has no exact half.
  const int64_t magnitude = (std::abs(sum) + half) / divisor;
  return sum < 0 ? -magnitude : magnitude;
}

}  // namespace

Oracle::Oracle(const RunParameters& parameters)
    : parameters_(parameters),
      memory_(arena_words(parameters)),
      arena_(memory_.data(), memory_.size() * sizeof(uint64_t)),
      attendance_(parameters) {
  GS_ASSERT(replica_.prepare(*server_manifold(parameters), parameters.model->shape, arena_, parameters.has_mean(),
                             version_parts(parameters)) == Status::kOk);
  if (chooses_step(parameters_)) {
    steps_.emplace(parameters_);
  }
}

std::string Oracle::on_record(const JournalRecord& record) {
  if (record.sequence() != last_sequence_ + 1) {
    return "the journal has a gap" + at(record);
  }
  last_sequence_ = record.sequence();
  const std::string fault = attendance_.on_record(record, stages_.open == TaskStage::kTrain);
  if (!fault.empty()) {
    return fault + at(record);
  }
  const std::pair task = task_of(record);
  switch (record.kind()) {
    case RecordKind::kTaskIssued:
      if (is_paused()) {
        return "a task was issued in a paused run" + at(record);
      }
      forget_tasks(record.device(), record.task_sequence());
      given_[record.device()] = record.task_sample_count();
      return issued_.emplace(task, Issued{record.version(), record.task_sample_count()}).second
                 ? ""
                 : "a task sequence was issued twice" + at(record);
    case RecordKind::kUpdate:
      return on_update(record);
    case RecordKind::kVerdict:
      return judged_.emplace(task, Judged{record.verdict(), 0}).second ? "" : "a task was judged twice" + at(record);
    case RecordKind::kVersion:
      return on_version(record);
    case RecordKind::kRunState:
      return on_run_event(record);
  }
  return "a record of unknown kind" + at(record);
}

std::string Oracle::on_run_event(const JournalRecord& record) {
  const RunEvent event = record.run_event();
  if (is_paused() != (event == RunEvent::kResumed) && event != RunEvent::kStopped) {
    return "a run event does not follow from the state" + at(record);
  }
  switch (event) {
    case RunEvent::kExtended:
      break;
    case RunEvent::kStalled:
      states_.push_back(gs_RunState_RUN_STATE_STALLED);
      break;
    case RunEvent::kFinished:
      states_.push_back(gs_RunState_RUN_STATE_FINISHED);
      break;
    case RunEvent::kPaused:
      states_.push_back(gs_RunState_RUN_STATE_PAUSED);
      break;
    case RunEvent::kResumed:
      states_.push_back(gs_RunState_RUN_STATE_ACTIVE);
      break;
    case RunEvent::kStopped:
    case RunEvent::kNone:
      states_.push_back(gs_RunState_RUN_STATE_STOPPED);
      break;
  }
  return "";
}

// weight_share_max by its definition (docs/algorithms.md), not by the server's code. Each weight above the cap
// c = s (m c + the sum of the other weights) is lowered to it, until none is above; m weights are capped. In the unit
// of the result the cap is the largest weight that there is. If the capped weights alone would be the whole, all weigh
// the same.
void bring_under_cap(Real share_max, std::vector<uint64_t>* weights) {
  constexpr uint64_t kWhole = 1U << 16;  // s is share / kWhole
  const auto share = static_cast<uint64_t>(static_cast<double>(share_max) * kWhole);
  std::vector<bool> is_capped(weights->size());
  uint64_t others = std::accumulate(weights->begin(), weights->end(), uint64_t{0});
  uint64_t capped_count = 0;
  for (bool is_settled = false; !is_settled;) {
    if (capped_count * share >= kWhole || capped_count == weights->size()) {
      std::fill(weights->begin(), weights->end(), uint64_t{1});
      return;
    }
    is_settled = true;
    const uint64_t top = share * others;  // c = top / bottom
    const uint64_t bottom = kWhole - capped_count * share;
    for (size_t i = 0; i < weights->size(); ++i) {
      if (!is_capped[i] && (*weights)[i] * bottom > top) {
        is_capped[i] = true;
        is_settled = false;
        others -= (*weights)[i];
        ++capped_count;
      }
    }
    if (is_settled && capped_count > 0) {
      const uint64_t unit = std::max<uint64_t>(UINT16_MAX * bottom / top, 1);
      for (size_t i = 0; i < weights->size(); ++i) {
        (*weights)[i] = is_capped[i] ? unit * top / bottom : unit * (*weights)[i];
      }
    }
  }
}

// To the weights of the journal: nobody has more than its share unless all have the same.
std::string Oracle::cap_shares() {
  if (parameters_.fold->weight_share_max == 1 || shares_.empty()) {
    return "";
  }
  std::vector<uint64_t> weights;
  for (const Share& share : shares_) {
    weights.push_back(share.weight);
  }
  bring_under_cap(parameters_.fold->weight_share_max, &weights);
  const auto [least, most] = std::minmax_element(weights.begin(), weights.end());
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (*least != *most && static_cast<double>(*most) > static_cast<double>(parameters_.fold->weight_share_max) * sum) {
    return "an update weighs more than its share";
  }
  for (size_t i = 0; i < shares_.size(); ++i) {
    shares_[i].weight = static_cast<uint32_t>(weights[i]);
  }
  return "";
}

void Oracle::forget_tasks(uint32_t device, uint32_t task_sequence) {
  if (!forgets_ || task_sequence < kTaskCountKept) {
    return;
  }
  const std::pair first(device, 0U);
  const std::pair kept(device, task_sequence - kTaskCountKept);
  issued_.erase(issued_.lower_bound(first), issued_.lower_bound(kept));
  judged_.erase(judged_.lower_bound(first), judged_.lower_bound(kept));
  const auto newest = answered_.lower_bound({device + 1, 0U});
  answered_.erase(answered_.lower_bound(first), newest);
}

std::string Oracle::on_update(const JournalRecord& record) {
  const std::pair task(record.device(), record.task_sequence());
  const auto issued = issued_.find(task);
  if (issued == issued_.end()) {
    return "an update of a task that was never issued is in the journal" + at(record);
  }
  if (!judged_.emplace(task, Judged{record.verdict(), record.version()}).second) {
    return "an update was folded twice" + at(record);
  }
  const std::vector<uint32_t>& members = cohorts_[record.base_version()].members;
  if (!members.empty() && !std::binary_search(members.begin(), members.end(), record.device())) {
    return "an update of a device that was not asked is in the journal" + at(record);
  }
  if (record.verdict() == gs_Verdict_VERDICT_FOLDED) {
    answered_.emplace(record.device(), record.base_version());
  }
  if (is_of_units(stages_.open)) {
    return on_answer(record);
  }
  if (steps_.has_value()) {
    steps_->add(record, stages_.open);
    const std::string fault = stages_.open == TaskStage::kTrials ? check_trials(record) : check_line(record);
    if (stages_.open == TaskStage::kTrials || !fault.empty()) {
      return fault.empty() ? fault : fault + at(record);
    }
  }
  Share& share = shares_.emplace_back();
  share.device = record.device();
  share.owner = parameters_.owner_of(record.device());
  share.base_version = record.base_version();
  share.steps_done = record.steps_done();
  share.weight = record.weight();
  share.samples = parameters_.memory_weighs_samples() ? issued->second.samples : 1;
  share.sample_share = sample_share(issued->second.samples);
  share.inverse_participation = record.inverse_participation();
  share.values.resize(record.payload().size() / sizeof(float));
  Status status = decode_values(Encoding::kF32, share.values.size(), record.payload().data(), record.payload().size(),
                                share.values.data());
  if (status == Status::kOk && parameters_.local->solver != SolverId::kProjection &&
      record.base_version() < version()) {
    status = replica_.manifold().transport(parameters_.model->shape, models_[record.base_version()].data(),
                                           replica_.model(), share.values.data(), share.values.data(), arena_);
  }
  return status == Status::kOk ? "" : "the values of an update do not decode" + at(record);
}

std::string Oracle::on_version(const JournalRecord& record) {
  VersionRecord next;
  next.version = record.version();
  next.step_scale = record.step_scale();
  if (record.version() != (has_version_ ? replica_.version() + 1 : 0) ||
      decode_payload(parameters_, record.payload(), &next) != Status::kOk) {
    return "a version does not follow" + at(record);
  }
  const bool is_answered = has_version_ && stages_.open != TaskStage::kTrain;
  if (has_version_ && shares_.empty() && stages_.answered.empty()) {
    return "a version closed without updates" + at(record);
  }
  if (is_paused()) {
    return "a version closed in a paused run" + at(record);
  }
  if (const std::string fault = cap_shares(); !fault.empty()) {
    return fault + at(record);
  }
  if (const std::string fault = clip_shares(record); !fault.empty()) {
    return fault + at(record);
  }
  if (std::bit_cast<uint32_t>(record.step_scale()) !=
      std::bit_cast<uint32_t>(has_version_ && !is_answered ? step_scale() : 0.0F)) {
    return "the step of a version is not that of its updates" + at(record);
  }
  const bool steps_with_memory = has_version_ && !is_answered && parameters_.has_memory();
  const MemoryStep step = steps_with_memory ? memory_step(record.step_scale()) : MemoryStep();
  std::string fault = check_cohort(next);
  if (fault.empty() && is_answered) {
    fault = check_stage(next);
  } else if (fault.empty() && has_version_ && !steps_with_memory && parameters_.fold.keys().own_rule == nullptr) {
    fault = !next.blocks.empty()                                ? check_blocks(next)
            : is_anchor_phase()                                 ? check_anchors(next)
            : parameters_.delay->delay_rule != DelayRule::kNone ? check_delayed(next)
                                                                : check_model(next);
  }
  if (fault.empty() && has_version_ && steps_.has_value()) {
    fault = check_steps(next, direction());
  }
  if (!fault.empty()) {
    return fault + at(record);
  }
  follow_stage(next);
  if (apply_record(parameters_, next, replica_, arena_) != Status::kOk || digest() != record.digest()) {
    return "the digest of a version is not that of its record" + at(record);
  }
  if (steps_with_memory) {
    fault = check_memory(next, step);
    if (!fault.empty()) {
      return fault + at(record);
    }
  }
  weight_total_ = next.mean.empty() ? weight_total_ : next.weight_total;
  for (const Share& share : shares_) {
    held_[share.device] = share;
  }
  open_version(next);
  shares_.clear();
  return "";
}

// After the replica has followed the record.
void Oracle::open_version(const VersionRecord& next) {
  has_version_ = true;
  has_anchor_ = next.has_anchor();
  if (has_anchor_) {
    last_model_.assign(replica_.model(), replica_.model() + parameters_.model->shape.size());
    last_gradient_.resize(parameters_.model->shape.size());
    static_cast<void>(read_model(parameters_.model->shape, next.mean_gradient, last_gradient_.data()));
  }
  if (states_.back() != gs_RunState_RUN_STATE_ACTIVE) {
    states_.push_back(gs_RunState_RUN_STATE_ACTIVE);
  }
  models_[version()].assign(replica_.model(), replica_.model() + parameters_.model->shape.size());
  if (steps_.has_value() && !next.stage.keeps_model && version() > 0) {
    keep_half(next);
  }
  if (forgets_ && version() > parameters_.trigger->staleness_max) {
    const uint32_t oldest = version() - parameters_.trigger->staleness_max;
    models_.erase(models_.begin(), models_.lower_bound(oldest));
    halves_.erase(halves_.begin(), halves_.lower_bound(oldest));
    cohorts_.erase(cohorts_.begin(), cohorts_.lower_bound(oldest));
  }
}

// Nobody is revoked or enrolled during a simulation, so that every device is a candidate.
std::string Oracle::check_cohort(const VersionRecord& record) {
  const bool draws = parameters_.cohort->participation != Participation::kAll;
  std::vector<uint32_t> candidates(draws ? parameters_.trigger->device_count : 0);
  std::iota(candidates.begin(), candidates.end(), 0U);
  const bool asks_everyone =
      (parameters_.phase_count() > 1 && !record.has_anchor()) || record.stage.opens.stage != TaskStage::kTrain;
  round_ += record.version == 0 || record.has_anchor() || record.stage.keeps_model ? 0 : 1;
  Cohort& cohort = cohorts_[record.version];
  cohort = asks_everyone || !draws ? Cohort() : choose_cohort(parameters_, round_, candidates);
  return cohort == record.cohort ? "" : "the cohort of a version is not that of its round";
}

// eta_g eta_k K_eff, K_eff = sum W k / sum W; the steps of a tangent run are inside its values.
float Oracle::step_scale() const {
  if (is_anchor_phase()) {
    return 0;
  }
  if (parameters_.delay->delay_rule != DelayRule::kNone) {
    const bool is_single = parameters_.trigger->buffer_size == 1;
    const Real staleness = static_cast<Real>(shares_.back().weight) / static_cast<Real>(kStalenessOne);
    const Real share = is_single ? staleness * shares_.back().sample_share : 1;
    return parameters_.steps->server_step * share;
  }
  uint64_t weight = 0;
  uint64_t weighted_steps = 0;
  for (const Share& share : shares_) {
    const uint64_t own_weight = parameters_.has_memory() ? share.samples : share.weight;
    weight += own_weight;
    weighted_steps += own_weight * share.steps_done;
  }
  const auto effective_steps = static_cast<float>(static_cast<double>(weighted_steps) / static_cast<double>(weight));
  if (parameters_.local->solver != SolverId::kProjection) {
    return parameters_.steps->server_step * effective_steps;
  }
  return parameters_.steps->server_step * open_step() * effective_steps;
}

// Every coefficient again, from the updates in the journal, in plain integers.
std::string Oracle::check_blocks(const VersionRecord& record) const {
  const std::map<std::pair<uint32_t, uint32_t>, Shares> shares = shares_by_block();
  const int64_t divisor = fold_divisor();
  if (shares.size() != record.blocks.size()) {
    return "a version has not one block for each base version and owner";
  }
  for (const RecordBlock& block : record.blocks) {
    const auto of_block = shares.find({block.base_version, block.owner});
    std::string fault =
        of_block == shares.end() ? "a version has a block of nobody's" : check_block(block, of_block->second, divisor);
    if (!fault.empty()) {
      return fault;
    }
  }
  return "";
}

// The mean of these shares. divisor: fold_divisor(), which a version computes once.
std::vector<Real> Oracle::fold(const Shares& shares, int64_t divisor, size_t count) const {
  const double scale = std::ldexp(1.0, static_cast<int>(parameters_.fold->fold_scale_log2));
  std::vector<int64_t> sums(count);
  for (const Share* const share : shares) {
    for (size_t q = 0; q < share->values.size() && q < count; ++q) {
      sums[q] += share->weight * clipped_part(*share, q, share->inverse_participation);
    }
  }
  std::vector<Real> means(count);
  for (size_t q = 0; q < count; ++q) {
    means[q] = static_cast<Real>(rounded_quotient(sums[q], divisor)) / static_cast<Real>(scale);
  }
  return means;
}

// Of all shares, in a tangent run.
std::vector<Real> Oracle::fold_all(size_t count) const {
  Shares shares;
  for (const Share& share : shares_) {
    shares.push_back(&share);
  }
  return fold(shares, fold_divisor(), count);
}

std::string Oracle::check_block(const RecordBlock& block, const Shares& shares, int64_t divisor) const {
  const std::vector<Real> means = fold(shares, divisor, block.value_count);
  std::vector<uint8_t> bytes(encoded_size(block.encoding, means.size()));
  const Status status = encode_values(block.encoding, means.size(), means.data(), bytes.data());
  return status == Status::kOk && bytes == block.bytes ? "" : "a version is not the fold of the journal's updates";
}

// A1 again: X <- R_X(step mean).
std::string Oracle::check_model(const VersionRecord& record) {
  std::vector<Real> v = fold_all(parameters_.model->shape.size());
  if (is_mean_run()) {
    for (size_t e = 0; e < v.size() && !record.mean.empty(); ++e) {
      FixedWord word = 0;
      load_words(1, record.mean.data() + e * sizeof(FixedWord), &word);
      if (static_cast<Real>(word) * fixed_unit(parameters_.fold->fold_scale_log2) != v[e]) {
        return "the mean of a version is not that of its updates";
      }
    }
    scale(v.size(), record.step_scale, v.data());
    return model_bytes(parameters_.model->shape, next_point(v).data()) == record.model
               ? ""
               : "a version is not the fold of the journal's updates";
  }
  const ManifoldOps& manifold = replica_.manifold();
  Status status = manifold.project_tangent(parameters_.model->shape, replica_.model(), v.data(), v.data(), arena_);
  scale(v.size(), record.step_scale, v.data());
  if (status == Status::kOk) {
    status = manifold.retract(parameters_.model->shape, replica_.model(), v.data(), v.data(), arena_);
  }
  return status == Status::kOk && model_bytes(parameters_.model->shape, v.data()) == record.model
             ? ""
             : "a version is not the fold of the journal's updates";
}

// A10: the values are means already, and ambient.
bool Oracle::is_mean_run() const {
  return parameters_.local->solver == SolverId::kProjection && parameters_.stream() == StreamKind::kTangentBlock;
}

// P_M(X - step); the point itself where that fails.
std::vector<Real> Oracle::next_point(const std::vector<Real>& step) {
  std::vector<Real> z(step.size());
  for (size_t e = 0; e < z.size(); ++e) {
    z[e] = replica_.model()[e] - step[e];
  }
  const Status status = replica_.manifold().project_point(parameters_.model->shape, z.data(), z.data(), arena_);
  return status == Status::kOk ? z : std::vector<Real>(replica_.model(), replica_.model() + z.size());
}

// sum <- sum + round(share numerator / denominator), every share times the sign of its direction, entry by entry.
void Oracle::add_to_sum(const Share& share, int64_t numerator, int64_t denominator, std::vector<int64_t>* sum) const {
  const DirectionSpec spec = direction_spec(parameters_, share.base_version, share.owner);
  std::vector<Real> u(sum->size());
  for (size_t q = 0; q < share.values.size(); ++q) {
    const int64_t coefficient = rounded_quotient(clipped_part(share, q, 1) * numerator, denominator);
    if (is_mean_run()) {
      (*sum)[q] += coefficient;
      continue;
    }
    const auto direction = static_cast<uint32_t>(q);
    fill_direction(spec, parameters_.model->shape, direction / spec.direction_count, direction % spec.direction_count,
                   u.data());
    for (size_t e = 0; e < u.size(); ++e) {
      (*sum)[e] += u[e] > 0 ? coefficient : -coefficient;
    }
  }
}

// a_i om_i as a fraction. `share` is the update itself or, to take its values out, the update that it replaces; w_i of
// either comes from its own samples. The staleness weight multiplies only what is new in d.
std::pair<int64_t, int64_t> Oracle::step_weight(const Share& share, const Share& update, int64_t total,
                                                int64_t count) const {
  const int64_t weight = int64_t{share.samples} * update.weight;
  const int64_t one = total * kStalenessOne;
  if (parameters_.local->correction_form != CorrectionForm::kUnbiased) {
    return {weight, one};
  }
  if (!is_unbiased(*parameters_.cohort)) {  // pi_i = |A| / n
    return {weight * count, one * static_cast<int64_t>(shares_.size())};
  }
  constexpr double kInverseMax = 32768;  // of 1 / q_i: docs/algorithms.md
  constexpr int kDigits = 31;            // that the server keeps of the factor; the rest is cut off
  const double inverse = std::min(static_cast<double>(update.inverse_participation), kInverseMax);
  int exponent = 0;
  const double mantissa = std::frexp(inverse * static_cast<double>(weight) / static_cast<double>(one), &exponent);
  return {static_cast<int64_t>(std::ldexp(mantissa, kDigits)), int64_t{1} << (kDigits - exponent)};
}

// With samples as weights, N and n are those with what the version brings, before its step.
Oracle::MemoryStep Oracle::memory_step(float step_scale) {
  std::map<uint32_t, Share> held = held_;
  for (const Share& share : shares_) {
    held[share.device] = share;
  }
  int64_t total = weight_total_, count = weight_total_;
  if (parameters_.memory_weighs_samples()) {
    total = 0;
    for (const auto& [device, share] : held) {
      total += share.samples;
    }
    count = static_cast<int64_t>(held.size());
  }
  MemoryStep step;
  step.h.resize(parameters_.model->shape.size());
  std::vector<int64_t> d = step.h;
  for (const auto& [device, share] : held) {
    add_to_sum(share, share.samples, total, &step.h);
  }
  held = held_;
  for (const auto& [device, share] : held) {
    add_to_sum(share, share.samples, total, &d);
  }
  for (const Share& share : shares_) {
    const auto [numerator, denominator] = step_weight(share, share, total, count);
    add_to_sum(share, numerator, denominator, &d);
    const auto before = held.find(share.device);
    if (before != held.end()) {
      const auto [numerator_before, denominator_before] = step_weight(before->second, share, total, count);
      add_to_sum(before->second, -numerator_before, denominator_before, &d);
    }
    held[share.device] = share;
  }
  const bool is_scalar = !is_mean_run();
  const Real unit = is_scalar ? exact_unit(parameters_.model->shape, parameters_.fold->fold_scale_log2)
                              : fixed_unit(parameters_.fold->fold_scale_log2);
  const Real length = is_scalar
                          ? step_scale * estimate_factor(parameters_.model->shape, parameters_.local->direction_count)
                          : step_scale;
  std::vector<Real> v(d.size());
  for (size_t e = 0; e < v.size(); ++e) {
    v[e] = length * (unit * static_cast<Real>(d[e]));
  }
  step.point = next_point(v);
  return step;
}

// After the record has been applied.
std::string Oracle::check_memory(const VersionRecord& record, const MemoryStep& step) const {
  const bool same_mean = std::equal(step.h.begin(), step.h.end(), replica_.mean());
  const bool same_point = std::equal(step.point.begin(), step.point.end(), replica_.model());
  if (!same_mean) {
    return "the mean of a version is not that of every device's last update";
  }
  if (record.mean.empty() && record.blocks.empty()) {
    return "a version has neither blocks nor a model";
  }
  return same_point ? "" : "a version is not the step of the journal's updates";
}

bool Oracle::is_anchor_phase() const { return parameters_.phase_count() > 1 && !has_anchor_; }

// 002: the model stays; g = -mean of the anchors' tangents; b and the step from the models and mean gradients of two
// rounds.
std::string Oracle::check_anchors(const VersionRecord& record) {
  const Shape shape = parameters_.model->shape;
  const ManifoldOps& manifold = replica_.manifold();
  std::vector<Real> g = fold_all(shape.size());
  scale(g.size(), -1, g.data());
  Secant secant;
  Status status = manifold.project_tangent(shape, replica_.model(), g.data(), g.data(), arena_);
  if (status == Status::kOk && !last_model_.empty()) {
    status = find_secant(manifold, shape, last_model_.data(), replica_.model(), last_gradient_.data(), g.data(),
                         &secant, arena_);
  }
  const bool has_secant = parameters_.local->barzilai_borwein != BarzilaiBorwein::kNone;
  const Real curvature = has_secant && secant.ss > 0 && secant.sy > 0 ? secant.sy / secant.ss : 0;
  Real step = last_model_.empty() ? parameters_.steps->step_size : parameters_.steps->step_max;
  if (curvature > 0) {
    step = std::clamp(1 / curvature, parameters_.steps->step_min, parameters_.steps->step_max);
  }
  step /= static_cast<Real>(parameters_.local->local_step_count);
  const bool has_previous = curvature > 0;
  const bool is_good =
      status == Status::kOk && record.model == model_bytes(shape, replica_.model()) &&
      record.mean_gradient == model_bytes(shape, g.data()) && record.curvature == curvature &&
      (steps_.has_value() || record.local_step == step) &&
      record.previous_model == (has_previous ? model_bytes(shape, last_model_.data()) : std::vector<uint8_t>());
  return is_good ? "" : "an anchor phase does not follow from the journal's updates";
}

std::string Oracle::on_message(uint32_t device, const ServerMessage& message, const Request& request) const {
  switch (message.which_body) {
    case gs_ServerMessage_task_tag: {
      const auto issued = issued_.find({device, message.body.task.task_sequence});
      const bool is_durable = issued != issued_.end() && issued->second.version == message.body.task.version;
      return is_durable ? "" : "a Task left before its record was durable";
    }
    case gs_ServerMessage_log_chunk_tag:
      return has_version_ && message.body.log_chunk.version <= version() ? ""
                                                                         : "a Log left before its version was durable";
    case gs_ServerMessage_snapshot_chunk_tag:
      return has_version_ && message.body.snapshot_chunk.version <= version()
                 ? ""
                 : "a snapshot left before its version was durable";
    case gs_ServerMessage_ack_tag:
      return on_ack(device, message.body.ack);
    case gs_ServerMessage_welcome_tag:
      return on_welcome(device, message.body.welcome, request);
    case gs_ServerMessage_wait_tag:
      return on_wait(device, message.body.wait, request);
    default:
      return "";
  }
}

std::string Oracle::on_ack(uint32_t device, const gs_Ack& ack) const {
  const std::pair task(device, ack.task_sequence);
  if (ack.verdict == gs_Verdict_VERDICT_TRY_LATER) {
    return "";
  }
  if (ack.verdict == gs_Verdict_VERDICT_SUPERSEDED) {
    const auto higher = issued_.upper_bound(task);
    const bool is_durable = higher != issued_.end() && higher->first.first == device;
    return is_durable ? "" : "an Ack left before the task that supersedes its own was durable";
  }
  if (ack.reason == gs_Reason_REASON_UNKNOWN_TASK) {
    return issued_.contains(task) ? "an Ack does not know a task of the journal" : "";
  }
  const auto judged = judged_.find(task);
  if (judged == judged_.end()) {
    return "an Ack left before its verdict was durable";
  }
  if (judged->second.verdict != static_cast<uint32_t>(ack.verdict) || judged->second.version != ack.version) {
    return "an Ack says something else than the journal";
  }
  const bool is_counted = ack.verdict == gs_Verdict_VERDICT_FOLDED || ack.verdict == gs_Verdict_VERDICT_LATE;
  return !is_counted ? "" : check_said_clip(device, issued_.at(task).version, ack.clip_scale);
}

std::string Oracle::on_welcome(uint32_t device, const gs_Welcome& welcome, const Request& request) const {
  if (welcome.version > (has_version_ ? version() : 0)) {
    return "a Welcome left before its version was durable";
  }
  if (!was_state(welcome.run_state, request)) {
    return "a Welcome names a run state that is not durable";
  }
  const auto judged = judged_.find({device, request.lost_task_sequence});
  const bool is_abandoned = judged != judged_.end() && judged->second.verdict == gs_Verdict_VERDICT_ABANDONED;
  return is_abandoned || !welcome.abandoned ? "" : "a Welcome left before the task that it gives up was judged durably";
}

std::string Oracle::on_wait(uint32_t device, const gs_Wait& wait, const Request& request) const {
  switch (wait.cause) {
    case gs_WaitCause_WAIT_CAUSE_ANSWERED: {
      const auto answered = answered_.lower_bound({device, request.version});
      const bool is_durable = answered != answered_.end() && answered->first == device;
      return is_durable ? "" : "a Wait left before the answer that it names was durable";
    }
    case gs_WaitCause_WAIT_CAUSE_STALLED:
      return was_state(gs_RunState_RUN_STATE_STALLED, request) ? "" : "a Wait names a stall that is not durable";
    case gs_WaitCause_WAIT_CAUSE_PAUSED:
      return was_state(gs_RunState_RUN_STATE_PAUSED, request) ? "" : "a Wait names a pause that is not durable";
    case gs_WaitCause_WAIT_CAUSE_FINISHED:
      return was_state(gs_RunState_RUN_STATE_FINISHED, request) ? "" : "a Wait names an end that is not durable";
    default:
      return "";
  }
}

bool Oracle::was_state(gs_RunState state, const Request& request) const {
  return std::find(states_.begin() + static_cast<std::ptrdiff_t>(request.state_index), states_.end(), state) !=
         states_.end();
}

std::string Oracle::on_state(const Coordinator& coordinator) const {
  const Replica& model = coordinator.model();
  if (has_version_ && model.has_model() && model.version() == version() && coordinator.digest() != digest()) {
    return "the server's model is not that of the journal, version " + std::to_string(version());
  }
  return "";
}

}  // namespace gradstream
