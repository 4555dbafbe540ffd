#include "runtime/base/no_contraction.h"

#include "runtime/training/estimator.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gradstream {
namespace {

uint32_t sample_count(const EstimateInput& input) { return input.problem.ops->sample_count(input.problem.context); }

uint32_t batch_size(const EstimatorParameters& parameters, uint32_t step) {
  const uint32_t count = parameters.batch_schedule_count;
  return count == 0 ? parameters.batch_size : parameters.batch_schedule[step < count ? step : count - 1];
}

// A batch of everything the device holds needs no drawing.
bool draws(const EstimateInput& input, uint32_t step) {
  return input.parameters->batch_mode == BatchMode::kCommon &&
         batch_size(*input.parameters, step) < sample_count(input);
}

// Samples of the batch of a step.
uint32_t drawn_count(const EstimateInput& input, uint32_t step) {
  return draws(input, step) ? batch_size(*input.parameters, step) : sample_count(input);
}

// Bytes that the problem keeps for a batch of so many samples.
size_t kept_size(const EstimateInput& input, uint32_t count) {
  const Problem& problem = input.problem;
  return problem.ops->kept_size == nullptr ? 0 : problem.ops->kept_size(problem.context, input.shape, count);
}

// Adds to the batch what the problem keeps for it, for as long as the estimate's scratch. Zeros before the first
// evaluation begins, whatever stood there.
Status take_kept(const EstimateInput& input, bool is_begun, Batch* batch, Arena& arena) {
  const size_t size = kept_size(input, batch->count);
  if (size == 0) {
    return Status::kOk;
  }
  const Result<uint8_t*> kept = arena.scratch<uint8_t>(size);
  GS_TRY(kept.status());
  if (!is_begun) {
    std::memset(kept.value(), 0, size);
  }
  batch->kept = kept.value();
  return Status::kOk;
}

bool is_batch_size(uint32_t size) { return size >= 1 && size <= kBatchSizeMax; }

}  // namespace

Status check_batch(const EstimateInput& input) {
  const uint32_t held = sample_count(input);
  if (held == 0 || held > kSampleCountMax) {
    return Status::kInvalidArgument;
  }
  switch (input.parameters->batch_mode) {
    case BatchMode::kAll:
    case BatchMode::kPerDirection:
      return Status::kOk;
    case BatchMode::kCommon: {
      bool is_good = input.parameters->batch_schedule_count <= kBatchScheduleMax;
      for (uint32_t step = 0; is_good && step <= input.parameters->batch_schedule_count; ++step) {
        is_good = is_batch_size(batch_size(*input.parameters, step));
      }
      return is_good ? Status::kOk : Status::kInvalidArgument;
    }
    default:
      return Status::kInvalidArgument;
  }
}

size_t batch_scratch_size(const EstimateInput& input) {
  bool any = false;
  uint32_t most = 0;
  for (uint32_t step = 0; step <= input.parameters->batch_schedule_count; ++step) {
    any = any || draws(input, step);
    most = std::max(most, drawn_count(input, step));
  }
  const size_t kept = input.parameters->batch_mode == BatchMode::kPerDirection ? 0 : kept_size(input, most);
  return (any ? Arena::taken_size<uint16_t>(sample_count(input)) : 0) + Arena::taken_size<uint8_t>(kept);
}

RandomKey minibatch_key(const EstimateInput& input) {
  RandomKey key;
  key.seed = input.seed;
  key.domain = RandomDomain::kMinibatch;
  key.version = input.version;
  key.owner = input.client_index;
  key.step = input.step;
  return key;
}

Result<Batch> draw_batch(const EstimateInput& input, Arena& arena) {
  const EstimateProgress* const progress = input.progress;
  const bool is_begun = progress != nullptr &&
                        (progress->stage != 0 || progress->evaluation.position != 0 || progress->evaluation.part != 0);
  Batch batch = {nullptr, drawn_count(input, input.step)};
  if (draws(input, input.step)) {
    const uint32_t held = sample_count(input);
    const Result<uint16_t*> work = arena.scratch<uint16_t>(held);
    GS_TRY(work.status());
    if (!is_begun) {
      choose(minibatch_key(input), held, batch.count, work.value());
    }
    batch.indices = work.value();
  }
  GS_TRY(take_kept(input, is_begun, &batch, arena));
  return batch;
}

// A problem that does an evaluation in one call takes no unit itself: it is charged one.
Status evaluate(const EstimateInput& input, const Real* x, Batch batch, Real* gradient, Real* loss, Arena& arena) {
  const Problem& problem = input.problem;
  EvaluationProgress& progress = input.progress->evaluation;
  batch.progress = &progress;
  const uint32_t units = progress.units_left;
  Status status = Status::kUnfinished;
  if (units > 0 && gradient != nullptr) {
    status = problem.ops->gradient(problem.context, input.shape, x, batch, gradient, arena);
  } else if (units > 0 && loss != nullptr) {
    const Result<Real> result = problem.ops->loss(problem.context, input.shape, x, batch, arena);
    status = result.status();
    if (status == Status::kOk) {
      *loss = result.value();
      status = std::isfinite(*loss) ? status : Status::kNotFinite;
    }
  }
  if (status == Status::kUnfinished) {
    arena.hold_scratch();
    return status;
  }
  progress.restart();
  if (progress.units_left == units) {
    --progress.units_left;
  }
  return status;
}

uint16_t sample_of_direction(const EstimateInput& input, uint32_t j) {
  const uint64_t word = RandomStream(minibatch_key(input), j).next();
  return static_cast<uint16_t>((word * sample_count(input)) >> 32);
}

const EstimatorOps* find_estimator(std::span<const EstimatorOps* const> linked, EstimatorId id) {
  for (const EstimatorOps* ops : linked) {
    if (ops->id == id) {
      return ops;
    }
  }
  return nullptr;
}

}  // namespace gradstream
