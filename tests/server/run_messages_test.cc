// What the server says of a run is what a device understands.
#include "server/coordinator/run_messages.h"

#include <cstring>

#include <gtest/gtest.h>

#include "runtime/link/task_terms.h"
#include "server/coordinator/ledger.h"
#include "server/run/parts.h"
#include "server/run/quality_keys.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TaskTerms make_terms() {
  return {.solver = SolverId::kTangentMean,
          .batch_mode = BatchMode::kCommon,
          .local_step_count = 3,
          .steps_min = 2,
          .step_size = 0.125F,
          .proximal = 0.5F,
          .curvature = 2,
          .draws_iterate = true,
          .evaluates = true};
}

TEST(RunMessages, ADeviceReadsTheTaskThatWasWritten) {
  RunParameters p = scalar_parameters();
  p.seed = 42;
  p.local->batch_sizes = "32 64 300";
  p.local->local_retraction = RetractionKind::kExponential;
  p.local->barzilai_borwein = BarzilaiBorwein::kFirst;
  p.trigger->task_deadline_ms = 60000;
  p.quality->holdout_share = 0.25F;
  Task task = make_task(p, make_terms());
  task.sequence = 15;
  task.version = 9;
  task.memory_stamp = 4;
  gs_Task wire = {};
  write_task(task, &wire);
  gs_Welcome welcome = {};
  describe_run(p, 5, &welcome);
  const Task read = to_task(wire, welcome);
  gs_Task wire_again = {};
  write_task(read, &wire_again);
  EXPECT_EQ(std::memcmp(&wire, &wire_again, sizeof(wire)), 0);
  EXPECT_EQ(read.manifold, ManifoldId::kStiefel);
  EXPECT_EQ(read.shape, (Shape{16, 2}));
  EXPECT_EQ(read.stream, StreamKind::kScalarStream);
  EXPECT_EQ(read.seed, 42U);
  EXPECT_EQ(read.client_index, 5U);
  EXPECT_EQ(read.estimator.directions.kind, DirectionKind::kSign);
  EXPECT_EQ(read.estimator.directions.direction_count, 4U);
  EXPECT_EQ(read.estimator.directions.owner, 0U);  // the one group
  EXPECT_EQ(read.estimator.batch_size, 32U);
  EXPECT_EQ(read.estimator.batch_schedule_count, 3U);
  EXPECT_EQ(read.estimator.batch_schedule[2], 300U);
  EXPECT_EQ(read.solver, SolverId::kTangentMean);
  EXPECT_EQ(read.deadline_ms, 60000U);
  EXPECT_EQ(read.holdout, 16384U);
  EXPECT_TRUE(read.evaluates);
  EXPECT_TRUE(read.use_correction);
  EXPECT_STREQ(read.problem, "kpca");
}

TEST(RunMessages, ATermOfTheLossHasItsOwnWeight) {
  RunParameters p = tangent_parameters();
  p.local->proximal_sigma = 3;
  const Task along = make_task(p, make_terms());
  EXPECT_EQ(along.proximal, 0.5F);
  EXPECT_EQ(along.proximal_weight, 0);
  EXPECT_EQ(along.proximal_sigma, 0);
  EXPECT_FALSE(along.use_correction);
  p.local->proximal_form = ProximalForm::kLorentz;
  const Task in_loss = make_task(p, make_terms());
  EXPECT_EQ(in_loss.proximal, 0);
  EXPECT_EQ(in_loss.proximal_weight, 0.5F);
  EXPECT_EQ(in_loss.proximal_sigma, 3);
}

TEST(RunMessages, AWelcomeNamesThePartsOfAProduct) {
  RunParameters p = tangent_parameters();
  p.model->manifold = ManifoldId::kProduct;
  p.model->parts = "stiefel 16x2, fixed_rank 20x14 2";
  p.model->shape = {};
  set_parts(&p);
  gs_Welcome welcome = {};
  welcome.manifold_parts_count = 7;  // of another run
  describe_run(p, 0, &welcome);
  ASSERT_EQ(welcome.manifold_parts_count, 2);
  EXPECT_EQ(welcome.manifold_parts[0].manifold, gs_MANIFOLD_STIEFEL);
  EXPECT_EQ(welcome.manifold_parts[0].rows, 16);
  EXPECT_EQ(welcome.manifold_parts[0].rank, 0);
  EXPECT_EQ(welcome.manifold_parts[1].rows, 20);
  EXPECT_EQ(welcome.manifold_parts[1].cols, 14);
  EXPECT_EQ(welcome.manifold_parts[1].rank, 2);
  EXPECT_EQ(welcome.correction, gs_Correction_CORRECTION_NONE);
  EXPECT_EQ(welcome.fold_scale_log2, 0U);  // replicas hold no mean
}

}  // namespace
}  // namespace gradstream
