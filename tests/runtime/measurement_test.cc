// A loss that is measured: its questions, and a local step that waits for their answers.
#include "runtime/problem/measurement.h"

#include <cstring>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/training/solver.h"
#include "tests/support/apparatus.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

TEST(Measurement, NumbersItsQuestions) {
  Measurement measurement;
  EXPECT_EQ(measurement.question(), 0u);
  EvaluationProgress progress = kWholeEvaluation;
  const Batch batch = {nullptr, 1, &progress};
  EXPECT_TRUE(measurement.ask(batch));
  EXPECT_FALSE(measurement.ask(batch)) << "the same question";
  EXPECT_EQ(measurement.question(), 1u);
  progress.restart();  // it has its answer
  EXPECT_TRUE(measurement.ask(batch));
  EXPECT_EQ(measurement.question(), 2u);
  EXPECT_TRUE(measurement.ask({nullptr, 1})) << "nobody keeps its progress";
  Measurement other;
  EXPECT_TRUE(other.ask(batch)) << "of another problem";
}

TEST(Measurement, WaitsAsLongAsItsTimeout) {
  std::vector<uint32_t> cancelled;
  const MeasurementOptions options = {
      "plant", 12,
      [](const void* list, uint32_t question) {
        static_cast<std::vector<uint32_t>*>(const_cast<void*>(list))->push_back(question);
      },
      &cancelled};
  Measurement measurement(options);
  EvaluationProgress progress = kWholeEvaluation;
  const Batch batch = {nullptr, 1, &progress};
  for (uint32_t question = 1; question <= 2; ++question) {
    measurement.ask(batch);
    EXPECT_EQ(measurement.await(1000), 0u) << "it computes: asked again at once";
    EXPECT_EQ(measurement.wait(batch), Status::kUnfinished);
    EXPECT_EQ(measurement.await(2000), 2000u + kMeasurePollMs) << "its time begins with the first wait";
    EXPECT_EQ(measurement.await(2008), 2012u) << "no later than the timeout";
    EXPECT_EQ(measurement.await(2011), 2012u);
    EXPECT_EQ(measurement.await(2012), Measurement::kLost);
    EXPECT_EQ(measurement.waited_ms(), 12u);
    measurement.drop();
    progress.restart();
  }
  EXPECT_EQ(cancelled, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(Measurement().timeout_ms(), kMeasureTimeoutMs);
}

TEST(Measurement, AQuestionThatHasNotWaitedIsNotCancelled) {
  uint32_t cancelled = 0;
  const MeasurementOptions options = {
      "plant", 12, [](const void* count, uint32_t) { ++*static_cast<uint32_t*>(const_cast<void*>(count)); },
      &cancelled};
  Measurement measurement(options);
  EvaluationProgress progress = kWholeEvaluation;
  const Batch batch = {nullptr, 1, &progress};
  measurement.drop();
  measurement.ask(batch);
  EXPECT_EQ(measurement.await(1000), 0u) << "it computes";
  measurement.drop();
  EXPECT_EQ(cancelled, 0u);
  progress.restart();
  measurement.ask(batch);
  EXPECT_EQ(measurement.wait(batch), Status::kUnfinished);
  EXPECT_NE(measurement.await(2000), 0u);
  measurement.ask(batch);  // the apparatus has its answer, and the loss computes with it
  EXPECT_EQ(measurement.await(2005), 0u);
  measurement.drop();
  measurement.drop();
  EXPECT_EQ(cancelled, 1u);
}

// A task on St(8,2), by a loss that answers at once or by an apparatus that stands for it.
struct Work {
  Work(const Task& task, uint32_t asks_needed) {
    apparatus.asks_needed = asks_needed;
    problems[0] = asks_needed > 0 ? apparatus.problem() : apparatus.inner;
    begun = begin_solver(registry_of(problems), task, model.data(), nullptr, &run, memory.arena);
  }

  std::vector<Real> values() {
    GradientStream stream;
    EXPECT_EQ(run.ops->finish(run, &stream), Status::kOk);
    std::vector<Real> out(stream.values, stream.values + stream.value_count);
    out.insert(out.end(), {stream.loss_before, stream.loss_after});
    return out;
  }

  TestSamples samples{10, 8, random_values(80, 9)};
  Apparatus apparatus{{&kKpcaOps, &samples.source}};
  Problem problems[1];
  std::vector<Real> model = random_point(kStiefelOps, {8, 2}, 5);
  TestArena memory;
  SolverRun run;
  Status begun = Status::kOk;
};

uint32_t for_each_task(const std::function<void(const Task&)>& check) {
  uint32_t count = 0;
  for (const SolverOps* const solver : {&kSolverProjectionOps, &kSolverGradientStreamOps, &kSolverTangentMeanOps}) {
    for (const EstimatorOps* const estimator : kAllEstimators) {
      for (const BatchMode mode : {BatchMode::kAll, BatchMode::kCommon, BatchMode::kPerDirection}) {
        Task task = stiefel_task({8, 2});
        task.solver = solver->id;
        task.estimator.id = estimator->id;
        task.estimator.batch_mode = mode;
        task.estimator.batch_size = 4;
        task.estimator.directions.direction_count = 3;
        task.local_step_count = 2;
        if (Work(task, 0).begun == Status::kOk) {
          SCOPED_TRACE(std::string(solver->name) + ", " + estimator->name + ", mode " +
                       std::to_string(static_cast<int>(mode)));
          check(task);
          ++count;
        }
      }
    }
  }
  return count;
}

// Whatever the solver asks, and in slices of any size: the same question until its answer, and the same numbers.
TEST(Measurement, AStepThatWaitsIsTheStepOfALossThatAnswersAtOnce) {
  const uint32_t count = for_each_task([](const Task& task) {
    Work plain(task, 0);
    ASSERT_EQ(run_step(plain.run, plain.memory.arena), Status::kOk);
    ASSERT_EQ(run_step(plain.run, plain.memory.arena), Status::kOk);
    for (const uint16_t slice_size : {0, 1, 3}) {
      for (const uint32_t asks_needed : {1U, 4U}) {
        Work measured(task, asks_needed);
        measured.run.slice_size = slice_size;
        uint32_t waits = 0;
        while (measured.run.steps_done < 2) {
          const Status status = measured.run.ops->step(measured.run, measured.memory.arena);
          ASSERT_TRUE(status == Status::kOk || status == Status::kUnfinished);
          Measurement* const asked = measured.run.estimate.evaluation.measurement;
          waits += asked != nullptr && asked->await(0) != 0 ? 1 : 0;
        }
        EXPECT_EQ(waits, measured.apparatus.questions.size() * (asks_needed - 1));
        EXPECT_EQ(measured.apparatus.measurement.question(), measured.apparatus.questions.size());
        const std::vector<Real> expected = plain.values(), got = measured.values();
        ASSERT_EQ(got.size(), expected.size());
        EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(Real)), 0);
      }
    }
  });
  EXPECT_GE(count, 20u);
}

TEST(Measurement, AStepThatIsGivenUpCancelsItsQuestion) {
  for_each_task([](const Task& task) {
    Work work(task, 4);
    ASSERT_EQ(work.run.ops->step(work.run, work.memory.arena), Status::kUnfinished);
    drop_step(work.run, work.memory.arena);
    EXPECT_EQ(work.apparatus.cancelled, (std::vector<uint32_t>{1}));
    drop_step(work.run, work.memory.arena);
    EXPECT_EQ(work.apparatus.cancelled.size(), 1u) << "once";
    ASSERT_EQ(run_step(work.run, work.memory.arena), Status::kOk);
    EXPECT_EQ(work.apparatus.questions[1], work.apparatus.questions[0]) << "the step begins anew";
    EXPECT_EQ(work.apparatus.cancelled.size(), 1u) << "answered questions are not cancelled";
  });
}

// The list of samples and what the problem keeps for it stay as they are while the first question waits.
TEST(Measurement, TheBatchIsDrawnOnce) {
  Task task = stiefel_task({8, 2});
  task.estimator.batch_size = 4;
  Work work(task, 3);
  static uint16_t* list = nullptr;
  work.apparatus.ops.loss = [](const void* self, Shape, const Real*, Batch batch, Arena&) -> Result<Real> {
    Measurement& measurement = static_cast<Apparatus*>(const_cast<void*>(self))->measurement;
    if (measurement.ask(batch)) {
      list = const_cast<uint16_t*>(batch.indices);
      list[0] = 9;  // a mark
      return measurement.wait(batch);
    }
    EXPECT_EQ(batch.indices, list);
    EXPECT_EQ(batch.indices[0], 9);
    return Status::kNotFinite;
  };
  ASSERT_EQ(work.run.ops->step(work.run, work.memory.arena), Status::kUnfinished);
  EXPECT_EQ(work.run.ops->step(work.run, work.memory.arena), Status::kNotFinite);
}

}  // namespace
}  // namespace gradstream
