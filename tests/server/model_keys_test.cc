// The model: every bad point, shape or name is refused with a sentence that begins with its keys.
#include "server/run/model_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(ModelKeys, EveryBadModelIsRefusedByItsKey) {
  const RefusedCase cases[] = {
      {"name:", [](RunParameters* p) { p->name = ""; }},
      {"name:", [](RunParameters* p) { p->name = "a\nb"; }},
      {"problem: no line breaks", [](RunParameters* p) { p->model->problem = "kpca\nseed = 3"; }},
      {"problem: no line breaks", [](RunParameters* p) { p->model->problem = "kpca\r"; }},
      {"problem: no line breaks", [](RunParameters* p) { p->model->problem = "\x1b[2Jkpca"; }},
      {"problem: no line breaks", [](RunParameters* p) { p->model->problem = "kpca\x7f"; }},
      {"manifold:", [](RunParameters* p) { p->model->manifold = ManifoldId::kNone; }},
      {"rows, cols: both", [](RunParameters* p) { p->model->shape.rows = 0; }},
      {"rows, cols: manifold stiefel",
       [](RunParameters* p) {
         p->model->shape = {2, 3};
       }},
      {"retraction, transport: manifold stiefel has no retraction projection with transport default; it has polar with "
       "projection, polar with smooth, ",
       [](RunParameters* p) { p->model->retraction = RetractionKind::kProjection; }},
      {"retraction, transport: manifold stiefel has no retraction qr with transport householder",
       [](RunParameters* p) {
         p->model->retraction = RetractionKind::kQr;
         p->model->transport = TransportKind::kHouseholder;
       }},
      {"manifold: stiefel with retraction exponential is not reproducible",
       [](RunParameters* p) { p->model->retraction = RetractionKind::kExponential; }},
      {"problem:", [](RunParameters* p) { p->model->problem = "a name that is too long"; }},
  };
  expect_refused(scalar_parameters(), cases);
}

TEST(ModelKeys, EveryBadProductIsRefusedWithItsRemedy) {
  struct BadProduct {
    const char* parts;
    const char* sentence;
  };
  const BadProduct cases[] = {
      {"", "parts, manifold: manifold product needs"},
      {"stiefel", "parts: \"stiefel\" should be"},
      {"stiefel 16x2,", "parts: \"\" should be"},
      {"stiefel 16x2 qr projection more", "parts: \"stiefel 16x2 qr"},
      {"stiefl 16x2", "parts: \"stiefl\" is no manifold"},
      {"product 16x1", "parts: \"product\" is no manifold"},
      {"stiefel 2x16", "parts: manifold stiefel has no points of shape \"2x16\""},
      {"stiefel 16", "parts: manifold stiefel has no points"},
      {"stiefel 16x2x", "parts: manifold stiefel has no points"},
      {"stiefel 16x2 exact", "parts: \"stiefel 16x2 exact\": manifold stiefel has polar with projection"},
      {"euclidean 16385x1024", "parts: together they have 16778240 numbers, at most 16777216; leave"},
      {"euclidean 40000x1", "parts: manifold euclidean has no points of shape \"40000x1\""},
      {"fixed_rank 64x16", "parts: \"fixed_rank 64x16\" needs the rank after its shape"},
      {"fixed_rank 64x16 projection", "parts: \"fixed_rank 64x16 projection\" needs the rank"},
      {"fixed_rank 64x16 0", "parts: \"fixed_rank 64x16 0\": matrices of shape 64x16 have ranks from 1 to 16"},
      {"fixed_rank 64x16 17", "parts: \"fixed_rank 64x16 17\": matrices of shape 64x16 have ranks from 1 to 16"},
      {"fixed_rank 64x40 33", "parts: \"fixed_rank 64x40 33\": matrices of shape 64x40 have ranks from 1 to 32"},
      {"fixed_rank 64x16 99999999999", "parts: \"fixed_rank 64x16 99999999999\": matrices of shape"},
      {"fixed_rank 64 4", "parts: \"fixed_rank 64 4\": manifold fixed_rank has no points of shape \"64\""},
      {"fixed_rank 40000x4 2", "parts: \"fixed_rank 40000x4 2\": manifold fixed_rank has no points"},
      {"fixed_rank 20000x20000 4",
       "parts: \"fixed_rank 20000x20000 4\": its rows, columns and rank together are 40004"},
      {"fixed_rank 64x16 4 polar", "parts: \"fixed_rank 64x16 4 polar\": manifold fixed_rank has"},
      {"fixed_rank 64x16 4 projection projection more",
       "parts: \"fixed_rank 64x16 4 projection projection more\" should"},
      {"stiefel 16x2 4", "parts: \"stiefel 16x2 4\": only fixed_rank has a rank; leave 4 out"},
      {"sphere 2x1,sphere 2x1,sphere 2x1,sphere 2x1,sphere 2x1,sphere 2x1,sphere 2x1,sphere 2x1,sphere 2x1",
       "parts: at most 8"},
  };
  for (const BadProduct& one : cases) {
    RunParameters p = scalar_parameters();
    p.model->manifold = ManifoldId::kProduct;
    p.model->parts = one.parts;
    p.model->shape = {};
    set_parts(&p);
    EXPECT_THAT(check_parameters(p).sentence, testing::StartsWith(one.sentence)) << one.parts;
  }
  RunParameters large = scalar_parameters();
  large.model->manifold = ManifoldId::kProduct;
  large.model->parts = "euclidean 784x48, euclidean 48x1, euclidean 48x10";
  large.model->shape = {};
  set_parts(&large);
  EXPECT_EQ(check_parameters(large).sentence, "");
  large.model->parts = "fixed_rank 20x14 3, euclidean 14x1";
  set_parts(&large);
  large.local->estimator = EstimatorId::kProjectionTangent;
  EXPECT_THAT(check_parameters(large).sentence, testing::StartsWith("estimator, parts: projection_tangent"));
  RunParameters p = scalar_parameters();
  p.model->parts = "stiefel 16x2";
  set_parts(&p);
  EXPECT_THAT(check_parameters(p).sentence, testing::StartsWith("parts, manifold: only manifold product"));
  p.model->manifold = ManifoldId::kProduct;
  p.model->shape = {32, 2};
  set_parts(&p);
  EXPECT_THAT(check_parameters(p).sentence, testing::StartsWith("rows, cols, parts:"));
}

TEST(ModelKeys, AMatrixOfFixedRankIsItsShapeAndItsRank) {
  RunParameters p = scalar_parameters();
  p.model->manifold = ManifoldId::kFixedRank;
  p.model->matrix = "20x14";
  p.model->rank = 3;
  p.model->shape = {};
  set_parts(&p);
  EXPECT_EQ(check_parameters(p).sentence, "");
  EXPECT_EQ(p.model->shape.rows, 37U);
  EXPECT_EQ(p.model->shape.cols, 3U);
  ASSERT_EQ(p.model->shape.parts->count, 3U);
  p.model->rank = 4;  // the shape follows
  set_parts(&p);
  EXPECT_EQ(check_parameters(p).sentence, "");
  EXPECT_EQ(p.model->shape.rows, 38U);
  p.local->estimator = EstimatorId::kProjectionTangent;
  EXPECT_THAT(check_parameters(p).sentence, testing::StartsWith("estimator, manifold: projection_tangent"));
  p.local->estimator = EstimatorId::kProjectionOneSided;
  p.model->retraction = RetractionKind::kPolar;
  EXPECT_THAT(check_parameters(p).sentence, testing::HasSubstr("manifold fixed_rank has no retraction polar"));
  p.model->retraction = RetractionKind::kDefault;
  p.model->rank = 15;
  EXPECT_THAT(check_parameters(p).sentence,
              testing::StartsWith("rank, matrix: matrices of shape 20x14 have ranks from 1 to 14"));
  p.model->matrix = "20";
  EXPECT_THAT(check_parameters(p).sentence, testing::StartsWith("matrix, manifold: manifold fixed_rank needs"));
  p.model->matrix = "20x14";
  p.model->rank = 3;
  p.model->shape = {20, 14};
  set_parts(&p);
  EXPECT_THAT(check_parameters(p).sentence, testing::StartsWith("rows, cols, matrix:"));
  RunParameters other = scalar_parameters();
  other.model->rank = 3;
  EXPECT_THAT(check_parameters(other).sentence,
              testing::StartsWith("matrix, rank, manifold: only manifold fixed_rank"));
}

}  // namespace
}  // namespace gradstream
