// The stages before training: sums over columns against arithmetic in 128 bits, and losses along a direction against
// direct evaluation.
#include "runtime/training/task_stages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/problem/holdout.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr uint32_t kColumns = 5;

// A device that is asked for stages.
struct Asked {
  Asked(const ProblemOps& ops, const TestSamples& samples, Shape shape)
      : problem{&ops, &samples.source}, manifold(ops.name == kKpcaOps.name ? kStiefelOps : kEuclideanOps) {
    EXPECT_EQ(replica.prepare(manifold, shape, memory.arena, false, part_bit(ModelPart::kDirection)), Status::kOk);
    const std::vector<Real> start = random_point(manifold, shape, 3);
    std::copy(start.begin(), start.end(), replica.begin_snapshot());
    replica.adopt_snapshot(7);
    input.replica = &replica;
    run.task = stiefel_task(shape);
    run.task.manifold = manifold.id;
    std::strcpy(run.task.problem, ops.name);
  }

  Status begin(TaskStage stage) {
    run.task.stage = stage;
    count = kStageForm.plan(problem, input, &run.task);
    const Status status = kStageForm.begin(problem, input, &run, memory.arena);
    return status;
  }
  // The answer of a stage of columns.
  Status ask(TaskStage stage, std::vector<int64_t>* out) {
    const size_t mark = memory.arena.mark();
    Status status = begin(stage);
    if (status == Status::kOk) {
      status = run_step(run, memory.arena);
    }
    GradientStream stream;
    if (status == Status::kOk) {
      EXPECT_EQ(run.ops->finish(run, &stream), Status::kOk);
      EXPECT_EQ(stream.value_count, count);
      EXPECT_EQ(stream.steps_done, 1U);
      out->assign(stream.words, stream.words + stream.value_count);
    }
    fault = run.state != nullptr ? kStageForm.sample_fault(run) : SampleFault{};
    memory.arena.release(mark);
    return status;
  }

  Problem problem;
  const ManifoldOps& manifold;
  TestArena memory;
  Replica replica;
  StageInput input;
  SolverRun run;
  uint32_t count = 0;
  SampleFault fault;
};

struct Words {
  std::vector<int64_t> exponents, sums, squares;
  std::vector<UnitsColumn> columns;
};

// The three stages one after the other, with the table that a server makes of this device alone.
Words ask_all(const TestSamples& samples, uint32_t holdout = 0, uint16_t slice = 0) {
  Asked asked(kKpcaOps, samples, {kColumns, 2});
  asked.input.holdout = holdout;
  asked.run.slice_size = slice;
  Words out;
  EXPECT_EQ(asked.ask(TaskStage::kExponents, &out.exponents), Status::kOk);
  out.columns.resize(kColumns);
  for (uint32_t i = 0; i < kColumns; ++i) {
    out.columns[i].exponent = static_cast<int32_t>(out.exponents[1 + i]);
  }
  asked.input.units = {out.columns.data(), kColumns};
  asked.input.wants_range = true;
  EXPECT_EQ(asked.ask(TaskStage::kSums, &out.sums), Status::kOk);
  for (uint32_t i = 0; i < kColumns; ++i) {
    const double mean = static_cast<double>(out.sums[1 + i]) / static_cast<double>(out.sums[0]);
    out.columns[i].mean = static_cast<float>(std::ldexp(mean, out.columns[i].exponent - kSumBits));
  }
  EXPECT_EQ(asked.ask(TaskStage::kSquares, &out.squares), Status::kOk);
  return out;
}

// value 2^-unit, half away from zero: the fraction of a double holds all of a float's bits at these sizes.
__int128 rounded(float value, int unit) {
  const double scaled = std::ldexp(static_cast<double>(value), -unit);
  return static_cast<__int128>(std::round(scaled));
}

void expect_words(const TestSamples& samples, const Words& words, uint32_t holdout) {
  __int128 count = 0;
  std::vector<__int128> sums(kColumns), squares(kColumns), least(kColumns), most(kColumns);
  std::vector<float> largest(kColumns);
  for (uint32_t b = 0; b < samples.source.count; ++b) {
    if (is_held_out(b, holdout)) {
      continue;
    }
    for (uint32_t i = 0; i < kColumns; ++i) {
      const auto value = static_cast<float>(samples.values[b * kColumns + i]);
      largest[i] = std::max(largest[i], std::fabs(value));
      const __int128 q = rounded(value, words.columns[i].exponent - 30);
      sums[i] += q;
      least[i] = count == 0 ? q : std::min(least[i], q);
      most[i] = count == 0 ? q : std::max(most[i], q);
      const float rest = value - words.columns[i].mean;
      const __int128 r = rounded(rest, words.columns[i].exponent - 22);
      squares[i] += r * r;
    }
    ++count;
  }
  for (uint32_t i = 0; i < kColumns; ++i) {
    const double bound = std::ldexp(1.0, words.columns[i].exponent);
    EXPECT_LT(static_cast<double>(largest[i]), bound);
    EXPECT_TRUE(words.columns[i].exponent == -126 || static_cast<double>(largest[i]) >= bound / 2);
    EXPECT_EQ(static_cast<__int128>(words.sums[1 + i]), sums[i]) << i;
    EXPECT_EQ(static_cast<__int128>(words.sums[1 + kColumns + i]), least[i]) << i;
    EXPECT_EQ(static_cast<__int128>(words.sums[1 + 2 * kColumns + i]), most[i]) << i;
    EXPECT_EQ(static_cast<__int128>(words.squares[1 + i]), squares[i]) << i;
  }
  for (const std::vector<int64_t>* answer : {&words.exponents, &words.sums, &words.squares}) {
    EXPECT_EQ(static_cast<__int128>(answer->front()), count);
  }
}

// Columns of ordinary, huge, tiny, constant and subnormal values.
std::vector<Real> some_rows(uint32_t count) {
  std::vector<Real> rows = random_values(size_t{count} * kColumns, 11);
  for (uint32_t b = 0; b < count; ++b) {
    Real* const row = rows.data() + size_t{b} * kColumns;
    row[1] *= static_cast<Real>(1e17);
    row[2] = static_cast<Real>(3 + 0.001 * static_cast<double>(row[2]));
    row[3] = 0;
    row[4] *= static_cast<Real>(1e-17);
  }
  return rows;
}

TEST(Stages, SumsAreThoseOfWideArithmetic) {
  for (const uint32_t count : {1U, 2U, 500U}) {
    const TestSamples samples(count, kColumns, some_rows(count));
    expect_words(samples, ask_all(samples), 0);
  }
}

TEST(Stages, ExtremeColumns) {
  constexpr float kMost = std::numeric_limits<float>::max() / 2;
  const float least = std::numeric_limits<float>::denorm_min();
  const TestSamples samples(3, kColumns,
                            {kMost, least, 0, -0.0F, 1,      //
                             -kMost, -least, 0, 1e-38F, -1,  //
                             kMost / 2, 3 * least, 0, -1e-38F, 0.99999994F});
  expect_words(samples, ask_all(samples), 0);
}

TEST(Stages, HeldOutSamplesAreInNoSum) {
  const TestSamples samples(300, kColumns, some_rows(300));
  const Words words = ask_all(samples, 16384);
  expect_words(samples, words, 16384);
  EXPECT_LT(words.sums[0], 240);
}

TEST(Stages, NeitherOrderNorSlicesChangeABit) {
  std::vector<Real> rows = some_rows(64);
  const TestSamples samples(64, kColumns, rows);
  std::vector<size_t> order(64);
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::shuffle(order.begin(), order.end(), std::mt19937(4));
  std::vector<Real> shuffled;
  for (const size_t b : order) {
    shuffled.insert(shuffled.end(), rows.begin() + static_cast<ptrdiff_t>(b * kColumns),
                    rows.begin() + static_cast<ptrdiff_t>((b + 1) * kColumns));
  }
  const TestSamples others(64, kColumns, shuffled);
  const Words words = ask_all(samples);
  for (const Words& same : {ask_all(others), ask_all(samples, 0, 1), ask_all(samples, 0, 7)}) {
    EXPECT_EQ(same.exponents, words.exponents);
    EXPECT_EQ(same.sums, words.sums);
    EXPECT_EQ(same.squares, words.squares);
  }
}

// A poll looks at no more samples than its slice.
TEST(Stages, ASliceIsBounded) {
  const TestSamples samples(2000, 64, random_values(size_t{2000} * 64, 2));
  Asked asked(kKpcaOps, samples, {64, 2});
  asked.run.slice_size = 10;
  ASSERT_EQ(asked.begin(TaskStage::kExponents), Status::kOk);
  uint32_t calls = 0;
  Status status = Status::kUnfinished;
  while (status == Status::kUnfinished) {
    const uint32_t before = samples.read_count;
    status = asked.run.ops->step(asked.run, asked.memory.arena);
    EXPECT_LE(samples.read_count - before, 10U);
    ++calls;
  }
  EXPECT_EQ(status, Status::kOk);
  EXPECT_EQ(calls, 200U);
}

TEST(Stages, WhatCannotBeAnsweredIsNamed) {
  const TestSamples samples(20, kColumns, some_rows(20));
  std::vector<int64_t> words;
  {
    const TestSamples none(0, kColumns, {});
    Asked asked(kKpcaOps, none, {kColumns, 2});
    EXPECT_EQ(asked.ask(TaskStage::kExponents, &words), Status::kInvalidArgument);
  }
  {
    Asked asked(kKpcaOps, samples, {kColumns, 2});
    asked.input.holdout = 65536;
    EXPECT_EQ(asked.ask(TaskStage::kExponents, &words), Status::kInvalidArgument) << "no sample is left";
  }
  {
    Asked asked(kKpcaOps, samples, {kColumns + 1, 2});
    EXPECT_EQ(asked.ask(TaskStage::kExponents, &words), Status::kInvalidArgument);
  }
  {
    Asked asked(kKpcaOps, samples, {kColumns, 2});
    EXPECT_EQ(asked.ask(TaskStage::kSums, &words), Status::kInvalidArgument) << "no table";
    std::vector<UnitsColumn> columns(kColumns, UnitsColumn{1, 0, 0});
    columns[1].exponent = 128;
    columns[0].exponent = 8;
    columns[4].exponent = -40;
    asked.input.units = {columns.data(), kColumns};
    EXPECT_EQ(asked.ask(TaskStage::kSums, &words), Status::kOutOfRange);
    EXPECT_STREQ(asked.fault.what, "value");
    EXPECT_EQ(asked.fault.sample, 0U);
    EXPECT_EQ(asked.fault.most, 2) << "column 2 holds values near 3";
    EXPECT_GE(std::fabs(asked.fault.value), asked.fault.most);
    EXPECT_EQ(asked.fault.least, -asked.fault.most);
  }
  std::vector<Real> rows = some_rows(20);
  rows[7 * kColumns + 2] = std::numeric_limits<Real>::infinity();
  const TestSamples infinite(20, kColumns, rows);
  Asked asked(kKpcaOps, infinite, {kColumns, 2});
  EXPECT_EQ(asked.ask(TaskStage::kExponents, &words), Status::kNotFinite);
  EXPECT_EQ(asked.fault.sample, 7U);
}

TEST(Stages, LabelsHaveNoUnits) {
  std::vector<Real> rows = some_rows(20);
  const TestSamples samples(20, kColumns, rows);
  Asked logistic(kLogisticOps, samples, {kColumns - 1, 1});
  std::vector<int64_t> words;
  EXPECT_EQ(logistic.ask(TaskStage::kExponents, &words), Status::kOk);
  EXPECT_EQ(words.size(), 1U + kColumns - 1);
  Asked squares(kLeastSquaresOps, samples, {kColumns - 1, 1});
  EXPECT_EQ(squares.ask(TaskStage::kExponents, &words), Status::kOk);
  EXPECT_EQ(words.size(), 1U + kColumns) << "a target has units";
  TestSamples matrices(3, 4, random_values(12, 1));
  Asked brockett(kBrockettOps, matrices, {2, 1});
  brockett.run.task.stage = TaskStage::kExponents;
  EXPECT_EQ(kStageForm.plan(brockett.problem, brockett.input, &brockett.run.task), 0U);
}

// ---- Trials ----

Real loss_at(const Asked& asked, const std::vector<Real>& x, uint32_t count, const Units* units) {
  TestArena memory;
  Batch batch{nullptr, count};
  batch.units = units;
  return asked.problem.ops->loss(asked.problem.context, asked.run.task.shape, x.data(), batch, memory.arena).value();
}

void expect_trials(const ProblemOps& ops, Shape shape, uint32_t dimension, SolverId solver, bool has_units,
                   uint16_t slice) {
  const TestSamples samples(100, dimension, random_values(size_t{100} * dimension, 21));
  Asked asked(ops, samples, shape);
  asked.run.task.solver = solver;
  asked.run.task.step_size = 3;
  asked.run.slice_size = slice;
  const std::vector<UnitsColumn> columns(dimension, UnitsColumn{8, 0.25F, 0.5F});
  const Units units{columns.data(), dimension};
  asked.input.units = has_units ? units : Units{};
  EXPECT_EQ(asked.begin(TaskStage::kTrials), Status::kInvalidArgument) << "no direction";
  const std::vector<Real> direction = random_values(shape.size(), 5);
  std::copy(direction.begin(), direction.end(), asked.replica.part_buffer(ModelPart::kDirection));
  asked.replica.adopt_parts(8, part_bit(ModelPart::kDirection));
  ASSERT_EQ(asked.begin(TaskStage::kTrials), Status::kOk);
  ASSERT_EQ(asked.count, kRungCount);
  EXPECT_EQ(asked.run.task.encoding, Encoding::kF32);
  ASSERT_EQ(run_step(asked.run, asked.memory.arena), Status::kOk);
  GradientStream stream;
  ASSERT_EQ(asked.run.ops->finish(asked.run, &stream), Status::kOk);
  const std::vector<Real> x(asked.replica.model(), asked.replica.model() + shape.size());
  const Units* const given = has_units ? &units : nullptr;
  const Real start = loss_at(asked, x, kEvaluationSampleMax, given);
  for (uint32_t q = 0; q < kRungCount; ++q) {
    const auto step = static_cast<Real>(std::ldexp(3.0, -static_cast<int>(q)));
    std::vector<Real> y(shape.size());
    TestArena memory;
    if (solver == SolverId::kProjection) {
      for (size_t e = 0; e < y.size(); ++e) {
        y[e] = x[e] - step * direction[e];
      }
      ASSERT_EQ(asked.manifold.project_point(shape, y.data(), y.data(), memory.arena), Status::kOk);
    } else {
      ASSERT_EQ(asked.replica.tangent_step(direction.data(), -step, y.data(), memory.arena), Status::kOk);
    }
    EXPECT_EQ(stream.values[q], loss_at(asked, y, kEvaluationSampleMax, given) - start) << q;
  }
}

TEST(Stages, TrialsAreLossesAlongTheDirection) {
  for (const uint16_t slice : {0, 1, 50}) {
    for (const bool has_units : {false, true}) {
      expect_trials(kKpcaOps, {8, 3}, 8, SolverId::kProjection, has_units, slice);
      expect_trials(kKpcaOps, {8, 3}, 8, SolverId::kGradientStream, has_units, slice);
      expect_trials(kLeastSquaresOps, {7, 1}, 8, SolverId::kProjection, has_units, slice);
    }
  }
}

// The least squares of a point far away are no float.
TEST(Stages, ALossThatIsNoNumberIsSentAsTheGreatest) {
  const TestSamples samples(10, 8, random_values(80, 21));
  Asked asked(kLeastSquaresOps, samples, {7, 1});
  asked.run.task.step_size = static_cast<Real>(1e20);
  std::fill_n(asked.replica.part_buffer(ModelPart::kDirection), 7, static_cast<Real>(1e10));
  asked.replica.adopt_parts(8, part_bit(ModelPart::kDirection));
  ASSERT_EQ(asked.begin(TaskStage::kTrials), Status::kOk);
  ASSERT_EQ(run_step(asked.run, asked.memory.arena), Status::kOk);
  GradientStream stream;
  ASSERT_EQ(asked.run.ops->finish(asked.run, &stream), Status::kOk);
  EXPECT_EQ(stream.values[0], static_cast<Real>(kRungMax));
  for (uint32_t q = 0; q < kRungCount; ++q) {
    EXPECT_LE(stream.values[q], static_cast<Real>(kRungMax));
  }
  asked.run.task.step_size = 0;
  EXPECT_EQ(asked.begin(TaskStage::kTrials), Status::kInvalidArgument);
}

// The greatest floats of both signs: their distance to the mean is no float.
TEST(Stages, AColumnAcrossAllFloatsIsRefused) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const TestSamples samples(4, 2, {kMost, 0, -kMost, 0, -kMost, 0, -kMost, 0});
  Asked asked(kKpcaOps, samples, {2, 1});
  const UnitsColumn columns[] = {{128, -kMost / 2, 0}, {-126, 0, 0}};
  asked.input.units = {columns, 2};
  std::vector<int64_t> words;
  EXPECT_EQ(asked.ask(TaskStage::kSums, &words), Status::kOk);
  EXPECT_EQ(asked.ask(TaskStage::kSquares, &words), Status::kOutOfRange);
  EXPECT_EQ(asked.fault.sample, 0U);
  EXPECT_TRUE(std::isfinite(asked.fault.most));
}

// A step of 0 is one of the stage START alone, and stays at the model: an upload is what the steps estimate there.
TEST(Stages, StartEstimatesAtTheModel) {
  const TestSamples samples(100, 8, random_values(800, 21));
  const Problem problems[] = {{&kKpcaOps, &samples.source}};
  TestArena memory;
  Task task = stiefel_task({8, 2});
  task.estimator.id = EstimatorId::kAnalyticGradient;
  task.estimator.batch_mode = BatchMode::kAll;
  task.stream = StreamKind::kTangentBlock;
  task.step_size = 0;
  SolverRun run;
  const std::vector<Real> x = random_point(kStiefelOps, task.shape, 3);
  EXPECT_EQ(begin_solver(registry_of(problems), task, x.data(), nullptr, &run, memory.arena), Status::kInvalidArgument);
  task.stage = TaskStage::kStart;
  std::vector<Real> gradient(16);
  ASSERT_EQ(kKpcaOps.gradient(&samples.source, task.shape, x.data(), {nullptr, 100}, gradient.data(), memory.arena),
            Status::kOk);
  std::vector<Real> riemannian(16);
  ASSERT_EQ(kStiefelOps.project_tangent(task.shape, x.data(), gradient.data(), riemannian.data(), memory.arena),
            Status::kOk);
  for (const SolverId solver : {SolverId::kProjection, SolverId::kGradientStream, SolverId::kTangentMean}) {
    task.solver = solver;
    ASSERT_EQ(begin_solver(registry_of(problems), task, x.data(), nullptr, &run, memory.arena), Status::kOk);
    for (uint32_t step = 0; step < task.local_step_count; ++step) {
      ASSERT_EQ(run_step(run, memory.arena), Status::kOk);
    }
    GradientStream stream;
    ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
    const Real factor = solver == SolverId::kProjection ? 1 : -static_cast<Real>(task.local_step_count);
    for (size_t e = 0; e < gradient.size(); ++e) {
      EXPECT_NEAR(stream.values[e], factor * riemannian[e], 2e-5) << static_cast<int>(solver) << " " << e;
    }
    memory.arena.reset();
  }
}

// What a problem sees is (z - mean) factor, in every evaluation of a step.
TEST(Stages, ATaskTrainsInUnits) {
  const std::vector<UnitsColumn> columns = {{8, 0.25F, 0.5F}, {8, -3, 2}, {8, 0, 1}, {8, 1e-3F, 7}};
  const Units units{columns.data(), 4};
  std::vector<Real> rows = random_values(400, 21);
  const TestSamples raw(100, 4, rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = (rows[i] - static_cast<Real>(columns[i % 4].mean)) * static_cast<Real>(columns[i % 4].factor);
  }
  const TestSamples taken(100, 4, rows);
  for (const EstimatorOps* estimator : {&kAnalyticGradientOps, &kProjectionOneSidedOps, &kTangentRetractionOps}) {
    std::vector<Real> answers[2];
    for (const bool is_raw : {false, true}) {
      const Problem problems[] = {{&kKpcaOps, is_raw ? &raw.source : &taken.source}};
      TestArena memory;
      Task task = stiefel_task({4, 2});
      task.estimator.id = estimator->id;
      SolverRun run;
      const std::vector<Real> x = random_point(kStiefelOps, task.shape, 3);
      ModelParts parts;
      parts.units = is_raw ? units : Units{};
      ASSERT_EQ(begin_solver(registry_of(problems), task, x.data(), nullptr, &run, memory.arena, parts), Status::kOk);
      ASSERT_EQ(run_step(run, memory.arena), Status::kOk);
      GradientStream stream;
      ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
      answers[is_raw ? 1 : 0].assign(stream.values, stream.values + stream.value_count);
    }
    EXPECT_EQ(answers[0], answers[1]) << estimator->name;
  }
  const Problem problems[] = {{&kKpcaOps, &raw.source}};
  TestArena memory;
  SolverRun run;
  ModelParts parts;
  parts.units = {columns.data(), 3};
  const Task task = stiefel_task({4, 2});
  const std::vector<Real> x = random_point(kStiefelOps, task.shape, 3);
  EXPECT_EQ(begin_solver(registry_of(problems), task, x.data(), nullptr, &run, memory.arena, parts),
            Status::kInvalidArgument)
      << "a table of other columns";
}

}  // namespace
}  // namespace gradstream
