#include "runtime/training/estimator.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/problem/holdout.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {6, 2};

struct BatchTest : testing::Test {
  BatchTest() : samples(50, 6, random_values(300, 1)) {
    parameters.batch_mode = BatchMode::kCommon;
    parameters.batch_size = 8;
    input.manifold = &kStiefelOps;
    input.shape = kShape;
    input.problem = {&kKpcaOps, &samples.source};
    input.parameters = &parameters;
    input.seed = 5;
    input.version = 6;
    input.client_index = 7;
    input.step = 2;
  }
  TestSamples samples;
  EstimatorParameters parameters;
  EstimateInput input;
  TestArena memory;
};

TEST_F(BatchTest, CommonIsTheReferencesChoice) {
  ScratchScope scope(memory.arena);
  const Result<Batch> batch = draw_batch(input, memory.arena);
  ASSERT_TRUE(batch.ok());
  ASSERT_EQ(batch.value().count, 8u);
  std::vector<uint16_t> work(50);
  choose({5, RandomDomain::kMinibatch, 6, 7, 2}, 50, 8, work.data());
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(batch.value().at(i), work[i]);
  }
  EXPECT_EQ(memory.arena.high_water_size(), batch_scratch_size(input));
}

TEST_F(BatchTest, EverythingNeedsNoDrawing) {
  for (const uint32_t size : {50u, 51u, kBatchSizeMax}) {
    parameters.batch_size = size;
    const Result<Batch> batch = draw_batch(input, memory.arena);
    ASSERT_TRUE(batch.ok());
    EXPECT_EQ(batch.value().indices, nullptr);
    EXPECT_EQ(batch.value().count, 50u);
    EXPECT_EQ(batch_scratch_size(input), 0u);
  }
  parameters.batch_mode = BatchMode::kAll;
  EXPECT_EQ(draw_batch(input, memory.arena).value().indices, nullptr);
  EXPECT_EQ(memory.arena.high_water_size(), 0u);
}

// The sizes of the first steps, the last one holding on; a step that takes everything draws nothing.
TEST_F(BatchTest, EachStepHasItsOwnSize) {
  parameters.batch_schedule[0] = 4;
  parameters.batch_schedule[1] = 50;
  parameters.batch_schedule[2] = 9;
  parameters.batch_schedule_count = 3;
  const uint32_t sizes[] = {4, 50, 9, 9, 9};
  for (input.step = 0; input.step < 5; ++input.step) {
    ScratchScope scope(memory.arena);
    const Result<Batch> batch = draw_batch(input, memory.arena);
    ASSERT_TRUE(batch.ok());
    EXPECT_EQ(batch.value().count, sizes[input.step]);
    EXPECT_EQ(batch.value().indices == nullptr, input.step == 1);
  }
  EXPECT_EQ(memory.arena.high_water_size(), batch_scratch_size(input));
  EXPECT_EQ(check_batch(input), Status::kOk);
  parameters.batch_schedule[1] = 0;
  EXPECT_EQ(check_batch(input), Status::kInvalidArgument);
  parameters.batch_schedule[1] = kBatchSizeMax + 1;
  EXPECT_EQ(check_batch(input), Status::kInvalidArgument);
  parameters.batch_schedule[1] = 1;
  parameters.batch_schedule_count = kBatchScheduleMax + 1;
  EXPECT_EQ(check_batch(input), Status::kInvalidArgument);
}

TEST_F(BatchTest, ChecksBounds) {
  EXPECT_EQ(check_batch(input), Status::kOk);
  parameters.batch_size = 0;
  EXPECT_EQ(check_batch(input), Status::kInvalidArgument);
  parameters.batch_size = kBatchSizeMax + 1;
  EXPECT_EQ(check_batch(input), Status::kInvalidArgument);
  parameters.batch_mode = BatchMode::kAll;
  EXPECT_EQ(check_batch(input), Status::kOk);
  parameters.batch_mode = BatchMode::kNone;
  EXPECT_EQ(check_batch(input), Status::kInvalidArgument);
  parameters.batch_mode = BatchMode::kPerDirection;
  EXPECT_EQ(check_batch(input), Status::kOk);
  samples.source.count = 0;
  EXPECT_EQ(check_batch(input), Status::kInvalidArgument);
  samples.source.count = kSampleCountMax + 1;
  EXPECT_EQ(check_batch(input), Status::kInvalidArgument);
}

TEST_F(BatchTest, RefusesALossThatIsNotFinite) {
  ProblemOps ops = kKpcaOps;
  ops.loss = [](const void*, Shape, const Real*, Batch, Arena&) -> Result<Real> {
    return std::numeric_limits<Real>::quiet_NaN();
  };
  input.problem.ops = &ops;
  const std::vector<Real> x(kShape.size());
  EXPECT_EQ(finite_loss(input, x.data(), {nullptr, 50}, memory.arena).status(), Status::kNotFinite);
}

TEST(Estimator, IsFoundByItsId) {
  EXPECT_EQ(find_estimator(kAllEstimators, EstimatorId::kAnalyticGradient), &kAnalyticGradientOps);
  EXPECT_EQ(find_estimator(kAllEstimators, EstimatorId::kProjectionTwoSided), &kProjectionTwoSidedOps);
  EXPECT_EQ(find_estimator(kAllEstimators, EstimatorId::kNone), nullptr);
  EXPECT_FALSE(kAnalyticGradientOps.uses_scalars);
  EXPECT_TRUE(kProjectionOneSidedOps.uses_scalars);
  EXPECT_TRUE(kProjectionTwoSidedOps.uses_scalars);
}

// ---- Samples that are held out ----

TEST_F(BatchTest, NoBatchHasASampleThatIsHeldOut) {
  for (const uint32_t holdout : {1U, 13107U, 32768U, 60000U}) {
    input.holdout = holdout;
    std::vector<uint16_t> trained;
    for (uint16_t i = 0; i < 50; ++i) {
      if (!is_held_out(i, holdout)) {
        trained.push_back(i);
      }
    }
    EXPECT_EQ(trained_count(input), trained.size());
    for (const BatchMode mode : {BatchMode::kCommon, BatchMode::kAll}) {
      for (const uint32_t size : {1U, 8U, 49U, 50U, 64U}) {
        for (input.step = 0; input.step < 20; ++input.step) {
          parameters.batch_mode = mode;
          parameters.batch_size = size;
          TestArena fresh;
          ScratchScope scope(fresh.arena);
          const Result<Batch> batch = draw_batch(input, fresh.arena);
          ASSERT_TRUE(batch.ok());
          const size_t wanted = mode == BatchMode::kAll ? trained.size() : std::min<size_t>(size, trained.size());
          ASSERT_EQ(batch.value().count, wanted);
          std::set<uint16_t> seen;
          for (uint32_t at = 0; at < batch.value().count; ++at) {
            const auto index = static_cast<uint16_t>(batch.value().at(at));
            EXPECT_FALSE(is_held_out(index, holdout));
            EXPECT_TRUE(seen.insert(index).second) << "once";
          }
          EXPECT_EQ(fresh.arena.high_water_size(), batch_scratch_size(input));
        }
      }
    }
    parameters.batch_mode = BatchMode::kPerDirection;
    std::set<uint16_t> drawn;
    for (input.step = 0; input.step < 50; ++input.step) {
      for (uint32_t j = 0; j < 16; ++j) {
        drawn.insert(sample_of_direction(input, j));
      }
    }
    EXPECT_EQ(drawn, std::set<uint16_t>(trained.begin(), trained.end())) << "each is drawn some time, and no other";
  }
}

TEST_F(BatchTest, AShareThatLeavesNoSampleIsRefused) {
  for (const BatchMode mode : {BatchMode::kCommon, BatchMode::kAll, BatchMode::kPerDirection}) {
    parameters.batch_mode = mode;
    input.holdout = 13107;
    EXPECT_EQ(check_batch(input), Status::kOk);
    const TestSamples one(1, 6, random_values(6, 1));  // the first sample is always held out
    EstimateInput alone = input;
    alone.problem = {&kKpcaOps, &one.source};
    EXPECT_EQ(check_batch(alone), Status::kInvalidArgument);
    alone.holdout = 0;
    EXPECT_EQ(check_batch(alone), Status::kOk);
  }
}

}  // namespace
}  // namespace gradstream
