// The run of a client: what its Welcome must say, what its replica holds, and which form applies a record.
#include "runtime/link/client_run.h"

#include <gtest/gtest.h>

#include "tests/support/training_support.h"

namespace gradstream {
namespace {

gs_Welcome scalar_welcome() {
  gs_Welcome welcome = {};
  welcome.manifold = gs_MANIFOLD_SPHERE;
  welcome.rows = 6;
  welcome.cols = 1;
  welcome.stream = gs_STREAM_KIND_SCALAR;
  welcome.directions = gs_Directions_DIRECTIONS_SIGN;
  welcome.shared_directions = true;
  welcome.group = 3;
  welcome.client_index = 5;
  welcome.direction_count = 4;
  return welcome;
}

gs_Welcome tangent_welcome() {
  gs_Welcome welcome = scalar_welcome();
  welcome.stream = gs_STREAM_KIND_TANGENT;
  welcome.directions = gs_DIRECTIONS_NONE;
  welcome.direction_count = 0;
  return welcome;
}

struct Bench {
  Status begin(const gs_Welcome& welcome) {
    memory.arena.reset();
    return run.begin(welcome, registry, memory.arena);
  }
  TestArena memory;
  Registry registry = registry_of({});
  RunModel run;
};

TEST(ClientRun, AWelcomeThatContradictsItselfIsNoRun) {
  Bench bench;
  gs_Welcome welcome = scalar_welcome();
  welcome.stream = gs_STREAM_KIND_NONE;
  EXPECT_EQ(bench.begin(welcome), Status::kInvalidArgument);
  welcome = scalar_welcome();
  welcome.direction_count = 0;
  EXPECT_EQ(bench.begin(welcome), Status::kInvalidArgument);
  welcome = scalar_welcome();
  welcome.directions = gs_DIRECTIONS_NONE;
  EXPECT_EQ(bench.begin(welcome), Status::kInvalidArgument);
  welcome = scalar_welcome();
  welcome.correction = gs_Correction_CORRECTION_MEMORY;
  welcome.directions = gs_Directions_DIRECTIONS_SPHERE;
  EXPECT_EQ(bench.begin(welcome), Status::kInvalidArgument) << "exact sums are of signs";
  welcome = scalar_welcome();
  welcome.manifold_parts_count = 1;
  EXPECT_EQ(bench.begin(welcome), Status::kInvalidArgument) << "a sphere has no parts";
  welcome = scalar_welcome();
  welcome.manifold = gs_MANIFOLD_STIEFEL;
  welcome.cols = 7;
  EXPECT_EQ(bench.begin(welcome), Status::kInvalidArgument) << "more columns than rows";
  EXPECT_EQ(bench.begin(scalar_welcome()), Status::kOk);
}

TEST(ClientRun, WhatTheImageLacksIsSaid) {
  Bench bench;
  gs_Welcome welcome = scalar_welcome();
  welcome.manifold = gs_MANIFOLD_GRASSMANN;
  EXPECT_EQ(bench.begin(welcome), Status::kUnimplemented);
  bench.memory.arena.reset();
  TestArena small(Arena::taken_size<Real>(6));
  EXPECT_EQ(bench.run.begin(scalar_welcome(), bench.registry, small.arena), Status::kOutOfMemory);
}

TEST(ClientRun, ItsKindDecidesWhatIsHeld) {
  Bench bench;
  ASSERT_EQ(bench.begin(scalar_welcome()), Status::kOk);
  EXPECT_TRUE(bench.run.has_scalar_stream() && bench.run.may_correct());
  EXPECT_FALSE(bench.run.has_memory() || bench.run.has_error_feedback());
  EXPECT_TRUE(bench.run.replica().has_sum());
  EXPECT_EQ(bench.run.tensor_size(), 6 * sizeof(Real));
  gs_Welcome welcome = tangent_welcome();
  welcome.error_feedback = true;
  ASSERT_EQ(bench.begin(welcome), Status::kOk);
  EXPECT_TRUE(bench.run.has_error_feedback());
  EXPECT_FALSE(bench.run.has_scalar_stream() || bench.run.may_correct() || bench.run.replica().has_mean());
  welcome.correction = gs_Correction_CORRECTION_LOCAL;
  ASSERT_EQ(bench.begin(welcome), Status::kOk);
  EXPECT_TRUE(bench.run.may_correct() && bench.run.replica().has_mean());
  welcome = scalar_welcome();
  welcome.correction = gs_Correction_CORRECTION_MEMORY;
  ASSERT_EQ(bench.begin(welcome), Status::kOk);
  EXPECT_TRUE(bench.run.has_memory() && bench.run.replica().has_mean());
  EXPECT_FALSE(bench.run.may_correct());
}

TEST(ClientRun, TheLeanFormServesSumsOfSignsAlone) {
  Bench bench;
  ASSERT_EQ(bench.begin(scalar_welcome()), Status::kOk);
  EXPECT_EQ(bench.run.lean(), nullptr) << "not linked";
  bench.registry.lean = &kLeanForm;
  ASSERT_EQ(bench.begin(scalar_welcome()), Status::kOk);
  EXPECT_EQ(bench.run.lean(), &kLeanForm);
  EXPECT_FALSE(bench.run.replica().has_sum());
  gs_Welcome memory = scalar_welcome();
  memory.correction = gs_Correction_CORRECTION_MEMORY;
  gs_Welcome sphere = scalar_welcome();
  sphere.directions = gs_Directions_DIRECTIONS_SPHERE;
  for (const gs_Welcome& welcome : {tangent_welcome(), memory, sphere}) {
    ASSERT_EQ(bench.begin(welcome), Status::kOk);
    EXPECT_EQ(bench.run.lean(), nullptr);
  }
}

TEST(ClientRun, AProductHasItsPartsInTheArena) {
  Bench bench;
  bench.registry.manifolds = all_manifolds();
  gs_Welcome welcome = scalar_welcome();
  welcome.manifold = gs_MANIFOLD_PRODUCT;
  welcome.rows = 10;
  welcome.manifold_parts_count = 2;
  welcome.manifold_parts[0].manifold = gs_MANIFOLD_STIEFEL;
  welcome.manifold_parts[0].rows = 3;
  welcome.manifold_parts[0].cols = 2;
  welcome.manifold_parts[1].manifold = gs_MANIFOLD_SPHERE;
  welcome.manifold_parts[1].rows = 4;
  welcome.manifold_parts[1].cols = 1;
  ASSERT_EQ(bench.begin(welcome), Status::kOk);
  ASSERT_NE(bench.run.shape().parts, nullptr);
  EXPECT_EQ(bench.run.shape().parts->list().size(), 2U);
  welcome.manifold_parts[1].rank = 1;
  EXPECT_EQ(bench.begin(welcome), Status::kInvalidArgument) << "a sphere has no rank";
}

TEST(ClientRun, ANewSessionOfTheRunMayChangeWhoTheDeviceIs) {
  Bench bench;
  gs_Welcome welcome = scalar_welcome();
  ASSERT_EQ(bench.begin(welcome), Status::kOk);
  EXPECT_EQ(bench.run.directions(7).owner, 3U);
  EXPECT_EQ(bench.run.directions(7).base_version, 7U);
  welcome.group = 4;
  ASSERT_TRUE(is_same_run(welcome, bench.run.welcome()));
  bench.run.renew(welcome);
  EXPECT_EQ(bench.run.directions(7).owner, 4U);
  EXPECT_EQ(bench.run.shape().rows, 6U);
}

}  // namespace
}  // namespace gradstream
