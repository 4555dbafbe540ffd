#include "runtime/base/no_contraction.h"

#include "runtime/link/privacy.h"

#include "runtime/base/crc32c.h"
#include "runtime/problem/holdout.h"
#include "runtime/training/task_stages.h"

namespace gradstream {
namespace {

uint32_t least_of(uint32_t a, uint32_t b) { return a < b ? a : b; }

// Samples that the estimates of one task are over.
struct TaskSamples {
  uint32_t least = 0;  // of one estimate
  uint32_t all = 0;    // of all its steps at most, each counted once
};

TaskSamples samples_of(const Task& task, uint32_t trained_count) {
  const EstimatorParameters& estimator = task.estimator;
  if (estimator.batch_mode == BatchMode::kAll) {
    return {trained_count, trained_count};
  }
  if (estimator.batch_mode != BatchMode::kCommon) {  // a direction has one sample
    return {1, trained_count};
  }
  const uint32_t scheduled = least_of(estimator.batch_schedule_count, kBatchScheduleMax);
  TaskSamples samples = {trained_count, 0};
  for (uint32_t step = 0; step < task.local_step_count; ++step) {
    const uint32_t size = scheduled == 0     ? estimator.batch_size
                          : step < scheduled ? estimator.batch_schedule[step]
                                             : estimator.batch_schedule[scheduled - 1];
    const uint32_t drawn = least_of(size, trained_count);
    samples.least = least_of(samples.least, drawn);
    samples.all = least_of(samples.all + drawn, trained_count);
  }
  return samples;
}

// What no number of samples reaches.
constexpr uint32_t kNever = kSampleCountMax + 1;

// Where it is the first one. A function of its own, so that each of its uses is a call alone on a board.
[[gnu::noinline]] void want(FloorId floor, uint32_t value, uint32_t least, FloorFault* out) {
  if (out->floor == FloorId::kNone && value < least) {
    *out = {floor, static_cast<float>(value), static_cast<float>(least), static_cast<float>(kSampleCountMax)};
  }
}

}  // namespace

uint32_t digest_floors(const PrivacyFloors& floors) {
  const uint32_t words[] = {floor_or(floors.batch_size_min, kBatchSizeFloor),
                            floor_or(floors.local_step_count_min, kLocalStepFloor),
                            floor_or(floors.scalars_per_sample_max, kScalarCeiling),
                            floor_or(floors.sums_samples_min, kSumSamplesFloor),
                            floor_or(floors.trials_samples_min, kTrialSamplesFloor),
                            (floors.refuses_tangents ? 1U : 0U) | (floors.sends_losses ? 2U : 0U) |
                                (floors.skips_evaluation ? 4U : 0U) | (floors.refuses_sums ? 8U : 0U) |
                                static_cast<uint32_t>(floors.sample_count) << 4};
  return crc32c(0, reinterpret_cast<const uint8_t*>(words), sizeof(words));
}

uint32_t count_trained(uint32_t held, uint32_t holdout) {
  uint32_t count = 0;
  for (uint32_t index = 0; index < held; ++index) {
    count += is_held_out(index, holdout) ? 0U : 1U;
  }
  return count;
}

void find_floor_fault(const PrivacyFloors& floors, const Task& task, uint32_t trained_count, FloorFault* out) {
  *out = FloorFault();
  if (trained_count == 0 || task.local_step_count > kLocalStepCountMax) {
    return;
  }
  if (kTakesUnits && is_units_stage(task.stage)) {
    want(FloorId::kUnitSums, trained_count,
         floors.refuses_sums ? kNever : floor_or(floors.sums_samples_min, kSumSamplesFloor), out);
    return;
  }
  if (kTakesUnits && task.stage == TaskStage::kTrials) {
    want(FloorId::kTrialSteps, trained_count, floor_or(floors.trials_samples_min, kTrialSamplesFloor), out);
    return;
  }
  if (task.local_step_count == 0) {
    return;
  }
  const TaskSamples samples = samples_of(task, trained_count);
  want(FloorId::kBatchSize, samples.least, floor_or(floors.batch_size_min, kBatchSizeFloor), out);
  want(FloorId::kLocalSteps, task.local_step_count, floor_or(floors.local_step_count_min, kLocalStepFloor), out);
  if (task.stream != StreamKind::kScalarStream) {
    want(FloorId::kTangents, 0, floors.refuses_tangents ? kNever : 0, out);
    return;
  }
  const uint32_t scalars = task.local_step_count * task.estimator.directions.direction_count;
  const uint32_t most = floor_or(floors.scalars_per_sample_max, kScalarCeiling);
  if (out->floor == FloorId::kNone && scalars > most * samples.all) {
    *out = {FloorId::kScalarsPerSample, static_cast<float>(scalars) / static_cast<float>(samples.all), 0,
            static_cast<float>(most)};
  }
}

uint32_t told_count(SampleCountForm form, uint32_t count) {
  if (form == SampleCountForm::kExact || count == 0) {
    return count;
  }
  uint32_t told = 1;
  while (form == SampleCountForm::kBucket && told <= count / 2) {
    told *= 2;
  }
  return told;
}

}  // namespace gradstream
