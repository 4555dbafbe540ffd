#include "server/run/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(Parts, APartOfAProductIsAManifoldItsShapeAndItsVariant) {
  RunParameters p = scalar_parameters();
  p.model->manifold = ManifoldId::kProduct;
  p.model->parts = "stiefel 16x2,oblique 8x4  projection projection , euclidean 10x1";
  p.model->shape = {};
  set_parts(&p);
  EXPECT_EQ(check_parameters(p).sentence, "");
  EXPECT_EQ(p.model->shape.rows, 74U);
  EXPECT_EQ(p.model->shape.cols, 1U);
  ASSERT_EQ(p.model->shape.parts->count, 3U);
  EXPECT_EQ(p.model->shape.parts->part[0].ops, &kStiefelOps);
  EXPECT_EQ(p.model->shape.parts->part[1].ops, &kObliqueProjectionOps);
  EXPECT_EQ(p.model->shape.parts->part[2].ops, &kEuclideanOps);
  p.model->parts = "sphere 5x1";  // the shape follows
  set_parts(&p);
  EXPECT_EQ(check_parameters(p).sentence, "");
  EXPECT_EQ(p.model->shape.rows, 5U);
  p.model->parts = "spd 4x4";
  set_parts(&p);
  EXPECT_THAT(check_parameters(p).sentence, testing::HasSubstr("is not reproducible"));
}

TEST(Parts, WhatIsBeforeAFaultHasBeenRead) {
  PartList list;
  EXPECT_THAT(read_parts("stiefel 16x2, euclidean 10x1, sphere", &list).sentence,
              testing::StartsWith("parts: \"sphere\""));
  EXPECT_EQ(list.parts.count, 2U);
  EXPECT_EQ(size_of(list.parts), 42U);
}

// A part of fixed rank is a matrix, its shape and its rank; its numbers are those of the factors.
TEST(Parts, APartOfFixedRankHasItsRankAfterItsShape) {
  RunParameters p = scalar_parameters();
  p.model->manifold = ManifoldId::kProduct;
  p.model->parts = "fixed_rank 64x16 4, euclidean 16x1,fixed_rank 20x14  3 projection projection";
  p.model->shape = {};
  set_parts(&p);
  EXPECT_EQ(check_parameters(p).sentence, "");
  EXPECT_EQ(p.model->shape.rows, 84U * 4 + 16 + 37 * 3);
  EXPECT_EQ(p.model->shape.cols, 1U);
  RunParameters copy = p;  // the factors go with it
  p = RunParameters();
  ASSERT_EQ(copy.model->shape.parts->count, 3U);
  const Part& part = copy.model->shape.parts->part[0];
  EXPECT_EQ(part.ops, &kFixedRankOps);
  EXPECT_EQ(part.shape.rows, 84U);
  EXPECT_EQ(part.shape.cols, 4U);
  ASSERT_NE(part.shape.parts, nullptr);
  EXPECT_EQ(part.shape.parts->part[1].shape.rows, 16U);
  EXPECT_EQ(text_of(part), "fixed_rank 64x16 4");
  EXPECT_EQ(text_of(copy.model->shape.parts->part[1]), "euclidean 16x1");
  EXPECT_EQ(text_of(copy.model->shape.parts->part[2]), "fixed_rank 20x14 3");
}

// The rows and columns of a point of fixed rank are those of its factors; the user names the matrix.
TEST(Parts, AMatrixIsMadeOfThreeBlocks) {
  RunParameters p = scalar_parameters();
  p.model->manifold = ManifoldId::kFixedRank;
  p.model->matrix = "20x14";
  p.model->rank = 3;
  Parts parts;
  EXPECT_EQ(read_matrix(p, &parts).sentence, "");
  EXPECT_EQ(parts.count, 3U);
  EXPECT_EQ(size_of(parts), (20U + 14U + 3U) * 3U);
  p.model->rank = 0;
  EXPECT_THAT(read_matrix(p, &parts).sentence, testing::StartsWith("rank, matrix:"));
}

TEST(Parts, AShapeThatTheUserSetIsKept) {
  RunParameters p = scalar_parameters();
  const Shape set = p.model->shape;
  p.model->manifold = ManifoldId::kProduct;
  p.model->parts = "stiefel 16x2";
  set_parts(&p);
  EXPECT_EQ(p.model->shape.rows, set.rows);
  EXPECT_EQ(p.model->shape.cols, set.cols);
  ASSERT_NE(p.model->part_list, nullptr);
  EXPECT_EQ(p.model->shape.parts, p.model->part_list.get());
  p.model->parts = "stiefel";
  set_parts(&p);
  EXPECT_EQ(p.model->part_list, nullptr);
  EXPECT_EQ(p.model->shape.parts, nullptr);
}

}  // namespace
}  // namespace gradstream
