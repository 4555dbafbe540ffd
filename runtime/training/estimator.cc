#include "runtime/base/no_contraction.h"

#include "runtime/training/estimator.h"

#include <cmath>

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
  for (uint32_t step = 0; step <= input.parameters->batch_schedule_count; ++step) {
    any = any || draws(input, step);
  }
  return any ? Arena::taken_size<uint16_t>(sample_count(input)) : 0;
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
  const uint32_t held = sample_count(input);
  if (!draws(input, input.step)) {
    return Batch{nullptr, held};
  }
  const Result<uint16_t*> work = arena.scratch<uint16_t>(held);
  GS_TRY(work.status());
  const uint32_t size = batch_size(*input.parameters, input.step);
  const EstimateProgress* const progress = input.progress;
  const bool is_drawn = progress != nullptr && (progress->stage != 0 || progress->evaluation.position != 0);
  if (!is_drawn) {
    choose(minibatch_key(input), held, size, work.value());
  }
  return Batch{work.value(), size};
}

Status evaluate(const EstimateInput& input, const Real* x, Batch batch, Real* gradient, Real* loss, Arena& arena) {
  const Problem& problem = input.problem;
  EvaluationProgress& progress = input.progress->evaluation;
  batch.progress = &progress;
  return charge_evaluation(progress, arena, [&] {
    if (gradient != nullptr) {
      return problem.ops->gradient(problem.context, input.shape, x, batch, gradient, arena);
    }
    const Result<Real> result = problem.ops->loss(problem.context, input.shape, x, batch, arena);
    GS_TRY(result.status());
    *loss = result.value();
    return std::isfinite(*loss) ? Status::kOk : Status::kNotFinite;
  });
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
