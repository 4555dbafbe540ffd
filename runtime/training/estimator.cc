#include "runtime/base/no_contraction.h"

#include "runtime/training/estimator.h"

#include <cmath>
#include <cstring>

#include "runtime/problem/holdout.h"
#include "runtime/problem/measurement.h"

namespace gradstream {
namespace {

uint32_t sample_count(const EstimateInput& input) { return input.problem.ops->sample_count(input.problem.context); }

uint32_t batch_size(const EstimatorParameters& parameters, uint32_t step) {
  const uint32_t count = parameters.batch_schedule_count;
  return count == 0 ? parameters.batch_size : parameters.batch_schedule[step < count ? step : count - 1];
}

// Samples of the batch of a step. A batch of everything the device holds needs no list.
uint32_t drawn_count(const EstimateInput& input, uint32_t step) {
  const uint32_t held = trained_count(input);
  if (input.parameters->batch_mode != BatchMode::kCommon) {
    return held;
  }
  const uint32_t size = batch_size(*input.parameters, step);
  return size < held ? size : held;
}

// Bytes of scratch of a batch of `count` samples: the index list, then what the problem keeps for it.
size_t index_size(uint32_t held, uint32_t count) { return count < held ? Arena::taken_size<uint16_t>(held) : 0; }
size_t kept_size(const EstimateInput& input, uint32_t count) {
  const auto size_of = input.problem.ops->kept_size;
  const bool is_drawn = input.parameters->batch_mode != BatchMode::kPerDirection;
  return !kKeepsBatches || size_of == nullptr || !is_drawn ? 0 : size_of(input.problem.context, input.shape, count);
}

bool is_batch_size(uint32_t size) { return size >= 1 && size <= kBatchSizeMax; }

}  // namespace

uint32_t trained_count(const EstimateInput& input) {
  const uint32_t held = sample_count(input);
  if (!kEvaluates || input.holdout == 0) {
    return held;
  }
  uint32_t count = 0;
  for (uint32_t index = 0; index < held; ++index) {
    count += is_held_out(index, input.holdout) ? 0U : 1U;
  }
  return count;
}

void choose_trained(const EstimateInput& input, const RandomKey& key, uint32_t count, uint16_t* work) {
  const uint32_t held = sample_count(input);
  if (!kEvaluates || input.holdout == 0) {
    choose(key, held, count, work);
    return;
  }
  uint32_t trained = 0;
  for (uint32_t index = 0; index < held; ++index) {
    if (!is_held_out(index, input.holdout)) {
      work[trained++] = static_cast<uint16_t>(index);
    }
  }
  if (count < trained) {
    choose_of(key, trained, count, work);
  }
}

bool is_begun(const EstimateInput& input) {
  const EstimateProgress* const progress = input.progress;
  return progress != nullptr && ((progress->stage | progress->evaluation.position | progress->evaluation.part) != 0 ||
                                 (kAwaitsMeasurements && progress->evaluation.measurement != nullptr));
}

uint32_t batch_count_max(const EstimateInput& input) {
  uint32_t most = 0;
  for (uint32_t step = 0; step <= input.parameters->batch_schedule_count; ++step) {
    const uint32_t count = drawn_count(input, step);
    most = count > most ? count : most;
  }
  return most;
}

Status check_batch(const EstimateInput& input) {
  const uint32_t held = sample_count(input);
  if (held == 0 || held > kSampleCountMax || trained_count(input) == 0) {
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
  const uint32_t held = sample_count(input);
  size_t size = 0;
  for (uint32_t step = 0; step <= input.parameters->batch_schedule_count; ++step) {
    const uint32_t count = drawn_count(input, step);
    size = max_size(size, index_size(held, count) + kept_size(input, count));
  }
  return size;
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
  const uint32_t count = drawn_count(input, input.step);
  const size_t list_size = index_size(held, count);
  const size_t size = list_size + kept_size(input, count);
  const Result<uint8_t*> memory = arena.scratch<uint8_t>(size);
  GS_TRY(memory.status());
  auto* const indices = list_size == 0 ? nullptr : reinterpret_cast<uint16_t*>(memory.value());
  if (!is_begun(input)) {
    if (kKeepsBatches) {
      std::memset(memory.value(), 0, size);  // whatever the arena holds there
    }
    if (indices != nullptr) {
      choose_trained(input, minibatch_key(input), count, indices);
    }
  }
  return Batch{indices, count, nullptr, size > list_size ? memory.value() + list_size : nullptr};
}

Status evaluate(const EstimateInput& input, const Real* x, Batch batch, Real* gradient, Real* loss, Arena& arena) {
  const Problem& problem = input.problem;
  EvaluationProgress& progress = input.progress->evaluation;
  batch.progress = &progress;
  batch.units = input.units;
  return charge_evaluation(progress, arena, [&] {
    if (loss == nullptr) {
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
  const auto rank = static_cast<uint16_t>((word * trained_count(input)) >> 32);
  if (!kEvaluates || input.holdout == 0) {
    return rank;
  }
  uint16_t index = 0;
  for (uint16_t left = rank;; ++index) {
    if (is_held_out(index, input.holdout)) {
      continue;
    }
    if (left == 0) {
      return index;
    }
    --left;
  }
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
