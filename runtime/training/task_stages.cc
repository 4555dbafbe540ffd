#include "runtime/base/no_contraction.h"

#include "runtime/training/task_stages.h"

#include <cmath>

#include "runtime/base/products.h"
#include "runtime/problem/holdout.h"
#include "runtime/training/solver_path.h"

namespace gradstream {
namespace {

StreamKind stream(const EstimatorOps&) { return StreamKind::kTangentBlock; }

// ---- Sums over columns ----

struct Sums {
  UnitsSource source;
  StageInput input;
  int64_t* words = nullptr;  // number of samples, then of each column its exponent or sum, then least and greatest
  uint32_t word_count = 0;
  Real* sample = nullptr;
  uint32_t position = 0;  // the sample that comes next
  SampleFault fault;
};

// What a sample contributes to a column; kOutOfRange: the value is beyond the exponent of the table.
Status add_value(TaskStage stage, const Sums& sums, uint32_t column, float value) {
  int64_t* const words = sums.words + 1;
  const uint32_t count = sums.source.count;
  if (stage == TaskStage::kExponents) {
    const int64_t exponent = exponent_of(value);
    words[column] = exponent > words[column] ? exponent : words[column];
    return Status::kOk;
  }
  const UnitsColumn& units = sums.input.units.columns[column];
  if (exponent_of(value) > units.exponent) {
    return Status::kOutOfRange;
  }
  if (stage == TaskStage::kSums) {
    const int64_t q = whole_of(value, units.exponent - kSumBits);
    words[column] += q;
    if (sums.input.wants_range) {
      int64_t& least = words[count + column];
      int64_t& most = words[2 * count + column];
      least = words[-1] == 0 || q < least ? q : least;
      most = words[-1] == 0 || q > most ? q : most;
    }
    return Status::kOk;
  }
  const float rest = value - units.mean;
  if (exponent_of(rest) > (units.exponent < kUnitsExponentMax ? units.exponent + 1 : kUnitsExponentMax)) {
    return Status::kOutOfRange;  // only a mean outside of the data's range does that
  }
  const int64_t r = whole_of(rest, units.exponent - kSquareBits);
  words[column] += r * r;
  return Status::kOk;
}

Status find_fault(Sums& sums, uint32_t column, float value) {
  const auto most = static_cast<Real>(power_of_two(sums.input.units.columns[column].exponent));
  sums.fault = {sums.position, static_cast<Real>(value), -most, most, "value"};
  return Status::kOutOfRange;
}

Status add_sample(TaskStage stage, Sums& sums) {
  const SampleSource& source = *sums.source.samples;
  GS_TRY(source.read(source.context, sums.position, sums.sample));
  for (uint32_t i = 0; i < sums.source.count; ++i) {
    const auto value = static_cast<float>(sums.sample[i]);
    if (exponent_of(value) > kUnitsExponentMax) {
      sums.fault = {sums.position, 0, 0, 0, "number"};
      return Status::kNotFinite;
    }
  }
  for (uint32_t i = 0; i < sums.source.count; ++i) {
    const auto value = static_cast<float>(sums.sample[i]);
    const Status status = add_value(stage, sums, i, value);
    GS_TRY(status == Status::kOutOfRange ? find_fault(sums, i, value) : status);
  }
  ++sums.words[0];
  return Status::kOk;
}

Status add_slice(SolverRun& run, Arena&) {
  Sums& sums = solver_state<Sums>(run);
  for (; sums.position < sums.source.samples->count; ++sums.position) {
    if (is_held_out(sums.position, sums.input.holdout)) {
      continue;
    }
    if (!run.estimate.evaluation.take_unit()) {
      return Status::kUnfinished;
    }
    GS_TRY(add_sample(run.task.stage, sums));
  }
  ++run.steps_done;
  return Status::kOk;
}

Status step_sums(SolverRun& run, Arena& arena) { return do_slice(run, arena, add_slice); }

Status finish_sums(SolverRun& run, GradientStream* out) {
  const Sums& sums = solver_state<Sums>(run);
  *out = {};
  out->kind = StreamKind::kTangentBlock;
  out->steps_done = run.steps_done;
  out->words = sums.words;
  out->value_count = sums.word_count;
  return Status::kOk;
}

constexpr SolverOps kSums = {SolverId::kNone, "sums of columns", stream,      nullptr, nullptr,
                             nullptr,         step_sums,         finish_sums, nullptr};

Status begin_sums(const Problem& problem, const StageInput& input, SolverRun* run, Arena& arena) {
  const UnitsSource source = problem.ops->units_source(problem.context);
  if (run->task.stage != TaskStage::kExponents && input.units.count != source.count) {
    return Status::kInvalidArgument;
  }
  const Result<Sums*> state = arena.persistent<Sums>(1);
  GS_TRY(state.status());
  const uint32_t column_words = run->task.stage == TaskStage::kSums && input.wants_range ? 3 : 1;
  const uint32_t word_count = 1 + column_words * source.count;
  const Result<int64_t*> words = arena.persistent<int64_t>(word_count);
  GS_TRY(words.status());
  const Result<Real*> sample = arena.persistent<Real>(source.samples->dimension);
  GS_TRY(sample.status());
  *state.value() = {source, input, words.value(), word_count, sample.value(), 0, {}};
  for (uint32_t i = 0; run->task.stage == TaskStage::kExponents && i < source.count; ++i) {
    words.value()[1 + i] = kUnitsExponentMin;
  }
  run->ops = &kSums;
  run->state = state.value();
  return Status::kOk;
}

// ---- Losses along a direction ----

struct Trials {
  StageInput input;
  Real rungs[kRungCount] = {};
  Real start = 0;  // f(X)
  Real* point = nullptr;
  uint16_t* indices = nullptr;
  uint32_t sample_count = 0;
  uint32_t next = 0;  // evaluation that comes next: of X, then rung next - 1
  bool is_placed = false;
};

// point <- P(X - a 2^-rung d), by the map of the server's step.
Status place(const SolverRun& run, const Trials& trials, uint32_t rung, Arena& arena) {
  const Real step = run.task.step_size * static_cast<Real>(power_of_two(-static_cast<int32_t>(rung)));
  const Replica& replica = *trials.input.replica;
  const Real* const direction = replica.part(ModelPart::kDirection);
  if (run.task.solver != SolverId::kProjection) {
    return replica.tangent_step(direction, -step, trials.point, arena);
  }
  copy(run.task.shape.size(), direction, trials.point);
  return replica.gradient_step(trials.point, step, trials.point, arena);
}

bool is_no_loss(Status status) { return status == Status::kNotFinite || status == Status::kSingular; }

Status try_next(SolverRun& run, Trials& trials, Arena& arena) {
  Status status = Status::kOk;
  if (trials.next > 0 && !trials.is_placed) {
    status = place(run, trials, trials.next - 1, arena);
  }
  Real loss = 0;
  if (status == Status::kOk) {
    trials.is_placed = true;
    const EstimateInput input = estimate_input(run, run.model, &run.estimate);
    const Real* const x = trials.next == 0 ? run.model : trials.point;
    status = evaluate(input, x, {trials.indices, trials.sample_count}, nullptr, &loss, arena);
  }
  if (trials.next == 0) {
    GS_TRY(status);
    trials.start = loss;
  } else {
    if (!is_no_loss(status)) {
      GS_TRY(status);
    }
    const Real change = loss - trials.start;
    const bool is_good = status == Status::kOk && change < static_cast<Real>(kRungMax);
    trials.rungs[trials.next - 1] = is_good ? change : static_cast<Real>(kRungMax);
  }
  trials.is_placed = false;
  ++trials.next;
  return Status::kOk;
}

Status try_slice(SolverRun& run, Arena& arena) {
  Trials& trials = solver_state<Trials>(run);
  ScratchScope scope(arena);
  while (trials.next <= kRungCount) {
    GS_TRY(try_next(run, trials, arena));
  }
  ++run.steps_done;
  return Status::kOk;
}

Status step_trials(SolverRun& run, Arena& arena) { return do_slice(run, arena, try_slice); }

Status finish_trials(SolverRun& run, GradientStream* out) {
  *out = {};
  out->kind = StreamKind::kTangentBlock;
  out->steps_done = run.steps_done;
  out->values = solver_state<Trials>(run).rungs;
  out->value_count = kRungCount;
  return Status::kOk;
}

constexpr SolverOps kTrials = {SolverId::kNone, "trials",    stream,        nullptr, nullptr,
                               nullptr,         step_trials, finish_trials, nullptr};

Status begin_trials(const StageInput& input, uint32_t held, SolverRun* run, Arena& arena) {
  const Task& task = run->task;
  const bool is_length = std::isfinite(task.step_size) && task.step_size > 0;
  if (!is_length || input.replica->part(ModelPart::kDirection) == nullptr) {
    return Status::kInvalidArgument;
  }
  const Result<Trials*> state = arena.persistent<Trials>(1);
  GS_TRY(state.status());
  const Result<Real*> point = arena.persistent<Real>(task.shape.size());
  GS_TRY(point.status());
  const Result<uint16_t*> indices = arena.persistent<uint16_t>(kEvaluationSampleMax);
  GS_TRY(indices.status());
  const Problem& problem = run->problem;
  const size_t scratch = max_size(problem.ops->scratch_size(problem.context, task.shape),
                                  input.replica->manifold().scratch_size(task.shape));
  if (scratch > arena.free_size()) {
    return Status::kOutOfMemory;
  }
  *state.value() = Trials{};
  state.value()->input = input;
  state.value()->point = point.value();
  state.value()->indices = indices.value();
  state.value()->sample_count = fill_evaluation_samples(held, input.holdout, indices.value());
  run->ops = &kTrials;
  run->state = state.value();
  return Status::kOk;
}

// ---- The form ----

uint32_t plan(const Problem& problem, const StageInput& input, Task* task) {
  task->local_step_count = 1;
  task->steps_min = 1;
  task->use_correction = false;
  if (task->stage == TaskStage::kTrials) {
    task->encoding = Encoding::kF32;
    return kRungCount;
  }
  task->encoding = Encoding::kWords;
  if (problem.ops->units_source == nullptr) {
    return 0;
  }
  const uint32_t count = problem.ops->units_source(problem.context).count;
  return 1 + (task->stage == TaskStage::kSums && input.wants_range ? 3 : 1) * count;
}

Status begin_own(const Problem& problem, const StageInput& input, SolverRun* run, Arena& arena) {
  const uint32_t held = problem.ops->sample_count(problem.context);
  uint16_t any[kEvaluationSampleMax];
  if (held > kSampleCountMax || fill_evaluation_samples(held, input.holdout, any) == 0) {
    return Status::kInvalidArgument;
  }
  return is_units_stage(run->task.stage) ? begin_sums(problem, input, run, arena)
                                         : begin_trials(input, held, run, arena);
}

Status begin(const Problem& problem, const StageInput& input, SolverRun* run, Arena& arena) {
  SolverRun fresh;
  fresh.task = run->task;
  fresh.slice_size = run->slice_size;
  fresh.problem = problem;
  fresh.model = input.replica->model();
  fresh.manifold = &input.replica->manifold();
  fresh.local_manifold = fresh.manifold;
  fresh.units = input.units.are_decided() ? input.units : Units{};
  *run = fresh;
  GS_TRY(problem.ops->check_shape(problem.context, run->task.shape));
  GS_TRY(check_units(problem, run->units));
  const size_t mark = arena.mark();
  const Status status = begin_own(problem, input, run, arena);
  if (status != Status::kOk) {
    arena.release(mark);
  }
  return status;
}

SampleFault sample_fault(const SolverRun& run) {
  return is_units_stage(run.task.stage) && run.state != nullptr ? solver_state<Sums>(run).fault : SampleFault{};
}

}  // namespace

const StageForm kStageForm = {plan, begin, sample_fault};

}  // namespace gradstream
