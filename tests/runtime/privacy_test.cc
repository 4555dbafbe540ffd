#include "runtime/link/privacy.h"

#include <gtest/gtest.h>

#include "runtime/problem/holdout.h"

namespace gradstream {
namespace {

// The attack that floors are against: one sample, one step, so many directions that the scalars tell all its values.
Task one_sample_task() {
  Task task;
  task.stream = StreamKind::kScalarStream;
  task.local_step_count = 1;
  task.estimator.batch_mode = BatchMode::kCommon;
  task.estimator.batch_size = 1;
  task.estimator.directions.direction_count = 512;
  return task;
}

// What a run asks for whose keys are defaults.
Task default_task() {
  Task task = one_sample_task();
  task.local_step_count = 5;
  task.estimator.batch_size = 32;
  task.estimator.directions.direction_count = 16;
  return task;
}

constexpr uint32_t kHeld = 200;

FloorFault fault_of(const PrivacyFloors& floors, const Task& task, uint32_t trained_count = kHeld) {
  FloorFault fault = {FloorId::kTangents, 1, 2, 3};  // of a task before
  find_floor_fault(floors, task, trained_count, &fault);
  return fault;
}

FloorId floor_of(const PrivacyFloors& floors, const Task& task, uint32_t trained_count = kHeld) {
  return fault_of(floors, task, trained_count).floor;
}

TEST(Privacy, ARunOfDefaultsIsDone) {
  EXPECT_EQ(floor_of({}, default_task()), FloorId::kNone);
  EXPECT_EQ(floor_of({}, default_task(), 32), FloorId::kNone);
}

TEST(Privacy, OneSampleAtATimeIsRefusedByName) {
  const FloorFault fault = fault_of({}, one_sample_task());
  EXPECT_EQ(fault.floor, FloorId::kBatchSize);
  EXPECT_EQ(fault.value, 1);
  EXPECT_EQ(fault.least, 8);
  EXPECT_EQ(fault.most, 65535);
}

TEST(Privacy, ABatchAtTheFloorIsTakenAndBelowItIsNot) {
  Task task = default_task();
  for (const uint32_t size : {7U, 8U, 9U}) {
    task.estimator.batch_size = size;
    EXPECT_EQ(floor_of({}, task), size < 8 ? FloorId::kBatchSize : FloorId::kNone) << size;
  }
}

// A minibatch of a device with fewer samples is all of them.
TEST(Privacy, FewSamplesMakeASmallBatch) {
  PrivacyFloors floors;
  floors.scalars_per_sample_max = 4096;
  for (const BatchMode mode : {BatchMode::kCommon, BatchMode::kAll}) {
    Task task = default_task();
    task.estimator.batch_mode = mode;
    for (const uint32_t count : {7U, 8U, 9U}) {
      EXPECT_EQ(floor_of(floors, task, count), count < 8 ? FloorId::kBatchSize : FloorId::kNone) << count;
    }
    EXPECT_EQ(fault_of(floors, task, 7).value, 7);
  }
  EXPECT_EQ(floor_of(floors, default_task(), 0), FloorId::kNone) << "the solver says that there is no sample";
}

TEST(Privacy, EveryStepOfAScheduleCounts) {
  Task task = default_task();
  task.estimator.batch_schedule[0] = 32;
  task.estimator.batch_schedule[1] = 7;
  task.estimator.batch_schedule[2] = 32;
  task.estimator.batch_schedule_count = 3;
  EXPECT_EQ(floor_of({}, task), FloorId::kBatchSize);
  task.local_step_count = 1;  // the second step is not done
  EXPECT_EQ(floor_of({}, task), FloorId::kNone);
  task.local_step_count = 5;
  task.estimator.batch_schedule[1] = 32;
  task.estimator.batch_schedule[2] = 7;  // and holds on
  EXPECT_EQ(floor_of({}, task), FloorId::kBatchSize);
  task.estimator.batch_schedule[2] = 8;
  EXPECT_EQ(floor_of({}, task), FloorId::kNone);
  task.estimator.batch_schedule_count = 0xffffffff;  // no number that a solver takes, and no memory to read
  EXPECT_EQ(floor_of({}, task), FloorId::kBatchSize);
}

TEST(Privacy, ADirectionOfItsOwnSampleIsAnEstimateOfOne) {
  Task task = default_task();
  task.estimator.batch_mode = BatchMode::kPerDirection;
  EXPECT_EQ(floor_of({}, task), FloorId::kBatchSize);
  task.estimator.batch_mode = BatchMode::kNone;
  EXPECT_EQ(floor_of({}, task), FloorId::kBatchSize);
}

TEST(Privacy, LocalSteps) {
  PrivacyFloors floors;
  floors.local_step_count_min = 5;
  Task task = default_task();
  for (const uint32_t count : {4U, 5U, 6U}) {
    task.local_step_count = count;
    EXPECT_EQ(floor_of(floors, task), count < 5 ? FloorId::kLocalSteps : FloorId::kNone) << count;
  }
  task.local_step_count = 4;
  EXPECT_EQ(fault_of(floors, task).value, 4);
  EXPECT_EQ(fault_of(floors, task).least, 5);
}

TEST(Privacy, ScalarsASample) {
  Task task = one_sample_task();
  task.estimator.batch_size = 8;
  for (const uint32_t count : {63U, 64U, 65U}) {
    task.estimator.directions.direction_count = count;
    EXPECT_EQ(floor_of({}, task), count > 64 ? FloorId::kScalarsPerSample : FloorId::kNone) << count;
  }
  const FloorFault fault = fault_of({}, task);
  EXPECT_EQ(fault.value, 65.0F / 8);
  EXPECT_EQ(fault.least, 0);
  EXPECT_EQ(fault.most, 8);
  task.stream = StreamKind::kTangentBlock;
  EXPECT_EQ(floor_of({}, task), FloorId::kNone) << "a tensor has no scalars";
}

// Steps that meet the same samples again say more of each of them: a step size near 0 makes them one step.
TEST(Privacy, StepsOverTheSameSamplesAddUp) {
  Task task = one_sample_task();
  task.estimator.batch_size = 8;
  task.estimator.directions.direction_count = 64;
  task.local_step_count = 4;
  EXPECT_EQ(floor_of({}, task, 32), FloorId::kNone) << "4 x 64 scalars of 32 samples";
  EXPECT_EQ(floor_of({}, task, 31), FloorId::kScalarsPerSample) << "of 31";
  task.estimator.batch_mode = BatchMode::kAll;
  EXPECT_EQ(floor_of({}, task, 32), FloorId::kNone);
  EXPECT_EQ(floor_of({}, task, 31), FloorId::kScalarsPerSample);
}

TEST(Privacy, TangentsMayBeRefused) {
  PrivacyFloors floors;
  Task task = default_task();
  task.stream = StreamKind::kTangentBlock;
  EXPECT_EQ(floor_of(floors, task), FloorId::kNone);
  floors.refuses_tangents = true;
  EXPECT_EQ(floor_of(floors, task), FloorId::kTangents);
  task.stream = StreamKind::kScalarStream;
  EXPECT_EQ(floor_of(floors, task), FloorId::kNone);
}

TEST(Privacy, SumsAndTrialsWantSamples) {
  const struct {
    TaskStage stage;
    FloorId floor;
  } rows[] = {{TaskStage::kExponents, FloorId::kUnitSums},
              {TaskStage::kSums, FloorId::kUnitSums},
              {TaskStage::kSquares, FloorId::kUnitSums},
              {TaskStage::kTrials, FloorId::kTrialSteps}};
  for (const auto& row : rows) {
    Task task;  // of such a stage a Task says nothing of batches
    task.stage = row.stage;
    for (const uint32_t count : {31U, 32U, 33U}) {
      EXPECT_EQ(floor_of({}, task, count), count < 32 ? row.floor : FloorId::kNone) << count;
    }
    const FloorFault fault = fault_of({}, task, 31);
    EXPECT_EQ(fault.value, 31);
    EXPECT_EQ(fault.least, 32);
    PrivacyFloors floors;
    floors.refuses_sums = true;
    EXPECT_EQ(floor_of(floors, task), row.floor == FloorId::kUnitSums ? row.floor : FloorId::kNone);
    if (row.floor == FloorId::kUnitSums) {
      EXPECT_GT(fault_of(floors, task).least, fault_of(floors, task).most) << "no number of samples would do";
    }
  }
}

TEST(Privacy, TheStageStartIsAnEstimateAsOthers) {
  Task task = one_sample_task();
  task.stage = TaskStage::kStart;
  EXPECT_EQ(floor_of({}, task), FloorId::kBatchSize);
  task = default_task();
  task.stage = TaskStage::kStart;
  EXPECT_EQ(floor_of({}, task, 8), FloorId::kScalarsPerSample);
}

TEST(Privacy, WithoutFloorsNothingIsRefused) {
  EXPECT_EQ(floor_of(no_floors(), one_sample_task(), 1), FloorId::kNone);
  Task task;
  for (const TaskStage stage : {TaskStage::kExponents, TaskStage::kSums, TaskStage::kSquares, TaskStage::kTrials}) {
    task.stage = stage;
    EXPECT_EQ(floor_of(no_floors(), task, 1), FloorId::kNone);
  }
}

TEST(Privacy, SamplesThatTrainAreThoseNotHeldOut) {
  EXPECT_EQ(count_trained(100, 0), 100U);
  EXPECT_EQ(count_trained(0, 0), 0U);
  uint32_t held_out = 0;
  for (uint32_t index = 0; index < 100; ++index) {
    held_out += is_held_out(index, 60000) ? 1 : 0;
  }
  EXPECT_EQ(count_trained(100, 60000), 100 - held_out);
  EXPECT_LT(count_trained(100, 60000), 20U);
}

TEST(Privacy, CountsAreToldInBuckets) {
  const uint32_t counts[][2] = {{0, 0}, {1, 1}, {2, 2}, {3, 2}, {63, 32}, {64, 64}, {65, 64}, {65535, 32768}};
  for (const auto& [count, told] : counts) {
    EXPECT_EQ(told_count(SampleCountForm::kBucket, count), told);
    EXPECT_EQ(told_count(SampleCountForm::kExact, count), count);
    EXPECT_EQ(told_count(SampleCountForm::kNone, count), count == 0 ? 0U : 1U);
  }
}

}  // namespace
}  // namespace gradstream
