// The problem: features of a sample, then the trained rest of the network, then the loss; and back through the rest.
//
// All is done in pieces (network_layers.h). A piece is a unit of work, so that a step is cut inside a sample too.
#include "runtime/base/no_contraction.h"

#include "runtime/problem/network.h"

#include "runtime/base/products.h"
#include "runtime/problem/network_stage_back.h"

namespace gradstream {
namespace {

const NetworkSamples& data_of(const void* context) { return *static_cast<const NetworkSamples*>(context); }

uint32_t sample_count(const void* context) { return data_of(context).source.count; }

// Sizes that all functions of the problem share.
//
// What is known of a sample before the rest of the network runs stands in a slot: its features, then its targets. A
// sample without targets is its own: they are the inputs, which are the features where no layer stands in front.
struct Outline {
  explicit Outline(const NetworkSamples& given)
      : data(given),
        network(*given.network),
        cut(feature_layer_count(network)),
        inputs(network_input_count(network)),
        feature_count(cut == 0 ? inputs : static_cast<uint32_t>(network.layers[cut - 1].out.size())),
        target_count(data.source.dimension - inputs),
        kept_target_count(target_count == 0 && cut > 0 ? inputs : target_count) {}

  Stage front() const { return {&network, 0, cut, false, true}; }
  Stage rest(bool keeps_all) const { return {&network, cut, network.layer_count, keeps_all, false}; }
  size_t slot_size() const { return size_t{feature_count} + kept_target_count; }
  const Real* targets_of(const Real* slot) const { return kept_target_count == 0 ? slot : slot + feature_count; }
  // Slots that stay from one evaluation of a batch to the next. Without layers in front a sample is read as quickly.
  uint32_t kept_count(uint32_t batch_size) const {
    const size_t fitting = kKeptBytesMax / (slot_size() * sizeof(Real));
    const uint32_t wanted = cut == 0 || data.has_given_up_features ? 0 : data.kept_sample_count_max;
    const uint32_t most = fitting < wanted ? static_cast<uint32_t>(fitting) : wanted;
    return batch_size < most ? batch_size : most;
  }

  const NetworkSamples& data;
  const Network& network;
  uint32_t cut;
  uint32_t inputs;
  uint32_t feature_count;
  uint32_t target_count;
  uint32_t kept_target_count;
};

// Batch::kept: slots of the first samples, behind their number.
struct Kept {
  static constexpr size_t kHeaderSize = kArenaAlignment;
  explicit Kept(void* memory)
      : done(static_cast<uint32_t*>(memory)),
        slots(memory == nullptr ? nullptr
                                : reinterpret_cast<Real*>(static_cast<unsigned char*>(memory) + kHeaderSize)) {}
  uint32_t* done;
  Real* slots;
};

bool allow_kept(const void* context, bool is_allowed) {
  const NetworkSamples& data = data_of(context);
  const bool gives_up = !is_allowed && feature_layer_count(*data.network) > 0;
  const bool changes = gives_up != data.has_given_up_features;
  data.has_given_up_features = gives_up;
  if (gives_up && !data.has_told && data.on_features_given_up != nullptr) {
    data.has_told = true;
    data.on_features_given_up();
  }
  return changes;
}

size_t kept_size(const void* context, Shape, uint32_t batch_size) {
  const Outline outline(data_of(context));
  const size_t count = outline.kept_count(batch_size) * outline.slot_size();
  return count == 0 ? 0 : Kept::kHeaderSize + Arena::taken_size<Real>(count);
}

// ---- Memory --------------------------------------------------------------------------------------------------------

struct Work {
  Real* sample = nullptr;  // inputs, targets; where layers stand in front
  Real* slots = nullptr;   // of samples that are not kept
  Real* scores = nullptr;  // for the gradient
  StageMemory front;
  StageMemory rest;
};

// How the memory is laid out: for `group` samples at once.
struct Layout {
  uint32_t group = 1;
  uint32_t slot_count = 1;
  bool has_gradient = false;
  bool is_displaced = false;
};

bool has_gradient(const Outline& outline) {
  return is_network_head(outline.network) ||
         (outline.data.has_layer_gradients && has_network_gradient(outline.network));
}

Layout whole_layout(const Outline& outline) { return {1, 1, has_gradient(outline), false}; }

template <typename T>
struct Want {
  T** memory;
  size_t count;
};

template <typename T>
Status take(const Want<T>& want, Arena* arena, size_t* size) {
  *size += Arena::taken_size<T>(want.count);
  if (arena == nullptr || want.count == 0) {
    return Status::kOk;
  }
  const Result<T*> memory = arena->scratch<T>(want.count);
  GS_TRY(memory.status());
  *want.memory = memory.value();
  return Status::kOk;
}

// Takes the work's memory from the arena; null: only *size grows by its bytes.
Status take_work(const Outline& outline, const Layout& layout, Arena* arena, Work* work, size_t* size) {
  const Stage stages[] = {outline.front(), outline.rest(layout.has_gradient)};
  uint32_t* places[2] = {};
  StageSize sizes[2];
  for (uint32_t s = 0; s < 2; ++s) {
    GS_TRY(take(Want<uint32_t>{&places[s], stages[s].end - stages[s].first}, arena, size));
    sizes[s] = plan_stage(stages[s], places[s]);
  }
  StageMemory& rest = work->rest;
  const size_t group = layout.group;
  const Want<Real> wanted[] = {
      {&work->sample, outline.cut == 0 ? 0 : outline.data.source.dimension},
      {&work->slots, layout.slot_count * outline.slot_size()},
      {&work->scores, layout.has_gradient ? network_score_count(outline.network) : 0},
      {&rest.values, max_size(sizes[0].values, group * sizes[1].values)},
      {&rest.factors, group * sizes[1].factors},
      {&rest.row, max_size(sizes[0].row, sizes[1].row)},
      {&rest.weights, layout.is_displaced ? sizes[1].weights : 0},
      {&rest.kernels, layout.is_displaced ? sizes[1].kernels : 0},
      {&rest.errors, sizes[1].errors},
      {&rest.back, sizes[1].back},
  };
  for (const Want<Real>& want : wanted) {
    GS_TRY(take(want, arena, size));
  }
  rest.places = places[1];
  rest.error_count = sizes[1].errors;
  work->front = rest;
  work->front.places = places[0];
  return Status::kOk;
}

size_t work_size(const Outline& outline, const Layout& layout) {
  Work work;
  size_t size = 0;
  static_cast<void>(take_work(outline, layout, nullptr, &work, &size));
  return size;
}

size_t scratch_size(const void* context, Shape) {
  const Outline outline(data_of(context));
  return work_size(outline, whole_layout(outline));
}

// At a displaced point: for as many samples together as weight_rows.h says. `is_kept`: their slots are Batch::kept.
Layout group_layout(const Outline& outline, Shape shape, uint32_t batch_size, bool is_kept, bool is_most) {
  const StageSize rest = plan_stage(outline.rest(false), nullptr);
  const size_t values = rest.values + rest.factors + (is_kept ? 0 : outline.slot_size());
  const size_t model_bytes = shape.size() * sizeof(Real);
  const uint32_t group = is_most ? group_size_max(batch_size, values * sizeof(Real), model_bytes)
                                 : group_size(batch_size, values * sizeof(Real), model_bytes);
  return {group, is_kept ? 1 : group, false, true};
}

bool keeps_batch(const Outline& outline, uint32_t batch_size) {
  return batch_size > 0 && outline.kept_count(batch_size) == batch_size;
}

// Of one sample alone: the least.
constexpr Layout kLeastLayout = {1, 1, false, true};

Layout displaced_layout(const Outline& outline, Shape shape, Batch batch) {
  if (outline.data.has_given_up_features) {
    return kLeastLayout;
  }
  if (!keeps_batch(outline, batch.count)) {
    return group_layout(outline, shape, batch.count, false, false);
  }
  return batch.kept != nullptr ? group_layout(outline, shape, batch.count, true, false) : kLeastLayout;
}

// A smaller batch may be kept where a larger one is not.
size_t displaced_scratch_size(const void* context, Shape shape, uint32_t batch_size) {
  const Outline outline(data_of(context));
  if (outline.data.has_given_up_features) {
    return work_size(outline, kLeastLayout);
  }
  const uint32_t kept = outline.kept_count(batch_size);
  const size_t kept_bytes = kept == 0 ? 0 : work_size(outline, group_layout(outline, shape, kept, true, true));
  const bool keeps = keeps_batch(outline, batch_size);
  return keeps ? kept_bytes
               : max_size(kept_bytes, work_size(outline, group_layout(outline, shape, batch_size, false, true)));
}

// ---- Forward -------------------------------------------------------------------------------------------------------

struct Evaluation {
  const Outline& outline;
  const Layout& layout;
  const Work& work;
  const Real* x;
  const Displacement* displacement;
  const Batch& batch;
  EvaluationProgress& progress;

  Stage rest() const { return outline.rest(layout.has_gradient); }
};

void scale_inputs(const Network& network, uint32_t count, Real* inputs) {
  const Real factor = static_cast<Real>(network.scale);
  const Real offset = static_cast<Real>(network.offset);
  for (uint32_t i = 0; i < count; ++i) {
    inputs[i] = inputs[i] * factor + offset;
  }
}

// What layers see of a sample, and its targets.
Status take_sample(const Outline& outline, const Batch& batch, uint32_t index, Real* out) {
  const SampleSource& source = outline.data.source;
  GS_TRY(read_sample(source, batch, index, out));
  if (!all_finite(source.dimension, out)) {
    return Status::kNotFinite;
  }
  scale_inputs(outline.network, outline.inputs, out);
  return Status::kOk;
}

// slot <- features and targets of the sample.
Status fill_slot(const Evaluation& e, uint32_t index, Real* slot, Pieces& pieces) {
  const Outline& outline = e.outline;
  Real* const sample = outline.cut == 0 ? slot : e.work.sample;
  if (!pieces.is_done(0)) {
    if (!pieces.take(0)) {
      return Status::kUnfinished;
    }
    GS_TRY(take_sample(outline, e.batch, index, sample));
  }
  pieces.end_group(1);
  if (outline.cut == 0) {
    return Status::kOk;
  }
  const Stage front = outline.front();
  const SampleValues in = {sample, outline.inputs};
  GS_TRY(run_stage(front, e.work.front, 1, in, nullptr, nullptr, pieces));
  if (pieces.is_past()) {
    return Status::kOk;  // the slot is filled, and the workspace is in use
  }
  copy(outline.feature_count, stage_values(front, e.work.front, 1, in, front.end).values, slot);
  const bool is_own_target = outline.target_count == 0;
  copy(outline.kept_target_count, is_own_target ? sample : sample + outline.inputs, slot + outline.feature_count);
  return Status::kOk;
}

// Pieces of fill_slot().
uint32_t slot_piece_count(const Outline& outline) {
  uint32_t count = 1;
  for (uint32_t k = 0; k < outline.cut; ++k) {
    count += piece_count(outline.network.layers[k], 1);
  }
  return count;
}

// Runs the samples progress.position .. + count - 1 through the network; *slots: where what is known of them stands.
Status run_group(const Evaluation& e, uint32_t count, Pieces& pieces, SampleValues* slots) {
  const Outline& outline = e.outline;
  const uint32_t first = e.progress.position;
  const Kept kept(e.batch.kept);
  const bool is_kept = kept.slots != nullptr && first + count <= outline.kept_count(e.batch.count);
  Real* const at = is_kept ? kept.slots + first * outline.slot_size() : e.work.slots;
  *slots = {at, outline.slot_size()};
  for (uint32_t b = 0; b < count; ++b) {
    if (is_kept && first + b < *kept.done) {
      pieces.end_group(slot_piece_count(outline));
      continue;
    }
    GS_TRY(fill_slot(e, e.batch.at(first + b), at + b * outline.slot_size(), pieces));
    if (is_kept && first + b == *kept.done) {
      ++*kept.done;
    }
  }
  return run_stage(e.rest(), e.work.rest, count, *slots, e.x, e.displacement, pieces);
}

// The loss of one sample; scores <- its derivative by them. kOutOfRange: a label that is none.
Result<Real> differentiate_loss(const Network& network, const Real* targets, Real* scores) {
  const uint32_t count = network_score_count(network);
  if (network.loss == NetworkLoss::kSoftmax) {
    const Result<Real> loss = softmax_loss(count, targets[0], scores);
    GS_TRY(loss.status());
    scores[static_cast<uint32_t>(targets[0])] -= 1;
    return loss;
  }
  Real sum = 0;
  for (uint32_t c = 0; c < count; ++c) {
    if (network.loss == NetworkLoss::kSquaredError) {
      scores[c] -= targets[c];
      sum += static_cast<Real>(0.5) * scores[c] * scores[c];
      continue;
    }
    Real pair[] = {0, scores[c]};  // of the classes 0 and 1, as in `logistic`
    const Result<Real> loss = softmax_loss(2, targets[c], pair);
    GS_TRY(loss.status());
    scores[c] = pair[1] - targets[c];
    sum += loss.value();
  }
  return sum;
}

// Before differentiate_loss() takes the scores. A share in each case: of samples with the right class; of the targets'
// squares that the scores explain; of outputs that stand on the side of their target.
void add_quality(const Network& network, const Real* targets, const Real* scores, QualitySum* quality) {
  const uint32_t count = network_score_count(network);
  if (network.loss == NetworkLoss::kSoftmax) {
    quality->add_class(count, targets[0], scores);
    return;
  }
  for (uint32_t c = 0; c < count; ++c) {
    if (network.loss == NetworkLoss::kSquaredError) {
      const Real error = scores[c] - targets[c];
      quality->add(targets[c] * targets[c] - error * error, targets[c] * targets[c]);
    } else {
      const bool is_right = (scores[c] > 0) == (targets[c] > static_cast<Real>(0.5));
      quality->add(is_right ? Real{1} : Real{0}, 1);
    }
  }
}

Real* scores_of(const Evaluation& e, uint32_t count, uint32_t sample) {
  const Stage rest = e.rest();
  const size_t at = size_t{e.work.rest.places[rest.end - 1 - rest.first]} * count;
  return e.work.rest.values + at + size_t{sample} * network_score_count(e.outline.network);
}

Result<Real> evaluate_loss(const Evaluation& e, Arena& arena) {
  EvaluationProgress& progress = e.progress;
  while (progress.position < e.batch.count) {
    const uint32_t left = e.batch.count - progress.position;
    const uint32_t count = left < e.layout.group ? left : e.layout.group;
    Pieces pieces(progress);
    SampleValues slots;
    const Status status = run_group(e, count, pieces, &slots);
    if (status == Status::kUnfinished) {
      arena.hold_scratch();
    }
    GS_TRY(status);
    for (uint32_t b = 0; b < count; ++b) {
      const Real* const targets = e.outline.targets_of(slots.of(b));
      if (kEvaluates && progress.quality != nullptr) {
        add_quality(e.outline.network, targets, scores_of(e, count, b), progress.quality);
      }
      const Result<Real> loss = differentiate_loss(e.outline.network, targets, scores_of(e, count, b));
      GS_TRY(loss.status());
      progress.add(loss.value());
      ++progress.position;
    }
    progress.part = 0;
  }
  return progress.mean();
}

// ---- Back ----------------------------------------------------------------------------------------------------------

// The error at the scores takes their place.
Status begin_error(const Evaluation& e, SampleValues slot) {
  copy(network_score_count(e.outline.network), scores_of(e, 1, 0), e.work.scores);
  GS_TRY(differentiate_loss(e.outline.network, e.outline.targets_of(slot.values), e.work.scores).status());
  begin_stage_back(e.rest(), e.work.rest, e.work.scores);
  return Status::kOk;
}

// Adds the gradient of one sample.
Status add_sample_gradient(const Evaluation& e, Pieces& pieces, Real* gradient) {
  SampleValues slot;
  GS_TRY(run_group(e, 1, pieces, &slot));
  if (!pieces.is_done(0)) {
    if (!pieces.take(0)) {
      return Status::kUnfinished;
    }
    GS_TRY(begin_error(e, slot));
  }
  pieces.end_group(1);
  return run_stage_back(e.rest(), e.work.rest, slot, e.x, gradient, pieces);
}

// ---- The table -----------------------------------------------------------------------------------------------------

Status check_shape(const void* context, Shape shape) {
  const NetworkSamples& data = data_of(context);
  if (data.network == nullptr || check_network(*data.network, false).code != NetworkFaultCode::kNone) {
    return Status::kInvalidArgument;
  }
  const Network& network = *data.network;
  const uint64_t inputs = network_input_count(network);
  const uint32_t dimension = data.source.dimension;
  const bool has_targets = dimension == inputs + network_target_count(network);
  const bool is_own_target =
      network.loss == NetworkLoss::kSquaredError && dimension == inputs && network_score_count(network) == inputs;
  const uint32_t size = network_size(network);
  const bool fits = size != 0 && shape.size() == size && (has_targets || is_own_target);
  return fits ? Status::kOk : Status::kInvalidArgument;
}

UnitsSource units_source(const void* context) {
  const NetworkSamples& data = *static_cast<const NetworkSamples*>(context);
  return {&data.source, network_input_count(*data.network)};
}

bool lacks_gradient(const void* context) { return !has_gradient(Outline(data_of(context))); }

Result<Real> loss_of(const Outline& outline, const Layout& layout, const Real* x, const Displacement* displacement,
                     Batch batch, Arena& arena) {
  ScratchScope scope(arena);
  Work work;
  size_t size = 0;
  GS_TRY(take_work(outline, layout, &arena, &work, &size));
  EvaluationProgress whole = kWholeEvaluation;
  return evaluate_loss({outline, layout, work, x, displacement, batch, progress_of(batch, &whole)}, arena);
}

Result<Real> loss(const void* context, Shape, const Real* x, Batch batch, Arena& arena) {
  const Outline outline(data_of(context));
  return loss_of(outline, whole_layout(outline), x, nullptr, batch, arena);
}

Result<Real> loss_displaced(const void* context, Shape shape, const Real* x, const Displacement& displacement,
                            Batch batch, Arena& arena) {
  const Outline outline(data_of(context));
  return loss_of(outline, displaced_layout(outline, shape, batch), x, &displacement, batch, arena);
}

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  const Outline outline(data_of(context));
  const Layout layout = whole_layout(outline);
  if (!layout.has_gradient) {
    return Status::kInvalidArgument;
  }
  ScratchScope scope(arena);
  Work work;
  size_t size = 0;
  GS_TRY(take_work(outline, layout, &arena, &work, &size));
  EvaluationProgress whole = kWholeEvaluation;
  EvaluationProgress& progress = progress_of(batch, &whole);
  if (progress.position == 0 && progress.part == 0) {
    fill_zero(shape.size(), out);
  }
  const Evaluation evaluation{outline, layout, work, x, nullptr, batch, progress};
  for (; progress.position < batch.count; ++progress.position) {
    Pieces pieces(progress);
    const Status status = add_sample_gradient(evaluation, pieces, out);
    if (status == Status::kUnfinished) {
      arena.hold_scratch();
    }
    GS_TRY(status);
    progress.part = 0;
  }
  scale(shape.size(), 1 / static_cast<Real>(batch.count), out);
  return all_finite(shape.size(), out) ? Status::kOk : Status::kNotFinite;
}

Status find_fault(const void* context, Shape, Arena& arena, SampleFault* out) {
  const NetworkSamples& data = data_of(context);
  const uint32_t inputs = network_input_count(*data.network);
  const uint32_t scores = network_score_count(*data.network);
  if (data.network->loss == NetworkLoss::kSquaredError) {
    return find_sample_fault(data.source, {}, arena, out);
  }
  const bool is_softmax = data.network->loss == NetworkLoss::kSoftmax;
  const IndexRule rules[] = {{"label", inputs, is_softmax ? scores : 2, is_softmax ? 1 : scores}};
  return find_sample_fault(data.source, rules, arena, out);
}

}  // namespace

// ---- By itself -----------------------------------------------------------------------------------------------------

namespace {

Stage all_layers(const Network& network) { return {&network, 0, network.layer_count, false, true}; }

Status take_alone(const Network& network, Arena* arena, StageMemory* memory, Real** inputs, size_t* size) {
  uint32_t* places = nullptr;
  GS_TRY(take(Want<uint32_t>{&places, network.layer_count}, arena, size));
  const StageSize sizes = plan_stage(all_layers(network), places);
  const Want<Real> wanted[] = {{inputs, network_input_count(network)},
                               {&memory->values, sizes.values},
                               {&memory->factors, sizes.factors},
                               {&memory->row, sizes.row}};
  for (const Want<Real>& want : wanted) {
    GS_TRY(take(want, arena, size));
  }
  memory->places = places;
  return Status::kOk;
}

}  // namespace

size_t network_scratch_size(const Network& network) {
  StageMemory memory;
  Real* inputs = nullptr;
  size_t size = 0;
  static_cast<void>(take_alone(network, nullptr, &memory, &inputs, &size));
  return size;
}

Status run_network(const Network& network, const Real* x, const Real* inputs, Real* scores, Arena& arena) {
  ScratchScope scope(arena);
  StageMemory memory;
  Real* own = nullptr;
  size_t size = 0;
  GS_TRY(take_alone(network, &arena, &memory, &own, &size));
  const uint32_t count = network_input_count(network);
  if (!all_finite(count, inputs)) {
    return Status::kNotFinite;
  }
  copy(count, inputs, own);
  scale_inputs(network, count, own);
  EvaluationProgress whole = kWholeEvaluation;
  Pieces pieces(whole);
  const SampleValues in = {own, count};
  const Stage stage = all_layers(network);
  GS_TRY(run_stage(stage, memory, 1, in, x, nullptr, pieces));
  copy(network_score_count(network), stage_values(stage, memory, 1, in, stage.end).values, scores);
  return Status::kOk;
}

const ProblemOps kNetworkOps = {
    .name = "network",
    .sample_count = sample_count,
    .check_shape = check_shape,
    .scratch_size = scratch_size,
    .loss = loss,
    .gradient = gradient,
    .find_fault = kIsBareMetal ? nullptr : find_fault,
    .has_labels = !kIsBareMetal,
    .loss_displaced = loss_displaced,
    .displaced_scratch_size = displaced_scratch_size,
    .kept_size = kept_size,
    .allow_kept = allow_kept,
    .lacks_gradient = lacks_gradient,
    .units_source = units_source,
    .metric = kEvaluates ? metric_of_shares : nullptr,
};

}  // namespace gradstream
