// A Task of the wire, joined with the Welcome, in the solver's own terms.
#include "runtime/link/task_terms.h"

#include <cstring>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

gs_Welcome make_welcome() {
  gs_Welcome welcome = {};
  welcome.version = 9;
  welcome.manifold = gs_MANIFOLD_STIEFEL;
  welcome.rows = 64;
  welcome.cols = 4;
  welcome.stream = gs_STREAM_KIND_SCALAR;
  welcome.directions = gs_DIRECTIONS_SIGN;
  welcome.shared_directions = true;
  welcome.seed = 42;
  welcome.direction_count = 16;
  welcome.client_index = 5;
  welcome.group = 2;
  return welcome;
}

gs_Task make_task() {
  gs_Task task = {};
  task.task_sequence = 15;
  task.version = 9;
  task.solver = gs_SOLVER_PROJECTION;
  task.estimator = gs_ESTIMATOR_PROJECTION_ONE_SIDED;
  task.encoding = gs_ENCODING_F32;
  task.local_step_count = 5;
  task.steps_min = 2;
  task.step_size = 0.125F;
  task.smoothing = 0.0078125F;
  task.batch_mode = gs_BATCH_MODE_COMMON;
  task.batch_size = 32;
  task.use_correction = true;
  task.deadline_ms = 60000;
  std::strcpy(task.problem, "kpca");
  return task;
}

TEST(TaskTerms, JoinWhatTheWelcomeSaid) {
  gs_Welcome welcome = make_welcome();
  const Task task = to_task(make_task(), welcome);
  EXPECT_EQ(task.sequence, 15U);
  EXPECT_EQ(task.version, 9U);
  EXPECT_EQ(task.solver, SolverId::kProjection);
  EXPECT_EQ(task.manifold, ManifoldId::kStiefel);
  EXPECT_EQ(task.shape, (Shape{64, 4}));
  EXPECT_EQ(task.estimator.id, EstimatorId::kProjectionOneSided);
  EXPECT_EQ(task.estimator.batch_mode, BatchMode::kCommon);
  EXPECT_EQ(task.estimator.batch_size, 32U);
  EXPECT_EQ(task.estimator.batch_schedule_count, 0U);
  gs_Task with_batches = make_task();
  with_batches.batch_sizes_count = 3;
  with_batches.batch_sizes[2] = 300;
  const Task other = to_task(with_batches, welcome);
  gs_Task of_svrg = make_task();
  of_svrg.proximal = 0.5F;
  of_svrg.curvature_form = gs_BARZILAI_BORWEIN_FIRST;
  of_svrg.curvature = 2;
  of_svrg.draws_iterate = true;
  const Task svrg = to_task(of_svrg, welcome);
  EXPECT_EQ(svrg.proximal, 0.5F);
  EXPECT_EQ(svrg.curvature_form, BarzilaiBorwein::kFirst);
  EXPECT_EQ(svrg.curvature, 2);
  EXPECT_TRUE(svrg.draws_iterate);
  EXPECT_EQ(svrg.local_retraction, RetractionKind::kDefault);
  gs_Task with_local_retraction = make_task();
  with_local_retraction.local_retraction = gs_RETRACTION_EXPONENTIAL;
  const Task mixed = to_task(with_local_retraction, welcome);
  EXPECT_EQ(mixed.local_retraction, RetractionKind::kExponential);
  ASSERT_EQ(other.estimator.batch_schedule_count, 3U);
  EXPECT_EQ(other.estimator.batch_schedule[2], 300U);
  EXPECT_EQ(task.estimator.smoothing, 0.0078125F);
  EXPECT_EQ(task.seed, 42U);
  EXPECT_EQ(task.client_index, 5U);
  EXPECT_EQ(task.local_step_count, 5U);
  EXPECT_EQ(task.steps_min, 2U);
  EXPECT_EQ(task.step_size, 0.125F);
  EXPECT_TRUE(task.use_correction);
  EXPECT_EQ(task.encoding, Encoding::kF32);
  EXPECT_EQ(task.deadline_ms, 60000U);
  EXPECT_STREQ(task.problem, "kpca");
  const DirectionSpec& shared = task.estimator.directions;
  EXPECT_TRUE(shared.shared);
  EXPECT_EQ(shared.owner, 2U);  // the group
  EXPECT_EQ(shared.base_version, 9U);
  EXPECT_EQ(shared.seed, 42U);
  EXPECT_EQ(shared.direction_count, 16U);
  welcome.shared_directions = false;
  EXPECT_EQ(to_directions(welcome, 4).owner, 5U);  // the enrolment index
  EXPECT_EQ(to_directions(welcome, 4).base_version, 4U);
}

}  // namespace
}  // namespace gradstream
