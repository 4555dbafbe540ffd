#include "server/run/first_model.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// One orthonormal column pair of 4 rows, four free numbers, a unit vector of 3.
const std::vector<Real> kPoint = {1, 0, 0, 1, 0, 0, 0, 0, 5, -7, 100, 0.25F, 0, 0, 1};

RunParameters product() {
  RunParameters p = scalar_parameters();
  p.model->manifold = ManifoldId::kProduct;
  p.model->parts = "stiefel 4x2, euclidean 4x1, sphere 3x1";
  p.model->shape = {};
  set_parts(&p);
  EXPECT_EQ(check_parameters(p).sentence, "");
  return p;
}

TEST(FirstModel, KeepsTheBitsOfAPointOnItsManifold) {
  std::vector<Real> model = kPoint;
  model[0] = std::nextafter(model[0], Real{0});
  model[14] += static_cast<Real>(5e-7);
  const std::vector<Real> before = model;
  const FirstModelVerdict verdict = settle_first_model(product(), model);
  EXPECT_EQ(verdict.problem, "");
  EXPECT_EQ(verdict.projected, "");
  EXPECT_EQ(model, before);
}

TEST(FirstModel, MovesThePartThatIsNear) {
  std::vector<Real> model = kPoint;
  model[14] = static_cast<Real>(1.0005);
  const FirstModelVerdict verdict = settle_first_model(product(), model);
  EXPECT_EQ(verdict.problem, "");
  EXPECT_EQ(verdict.projected, "part 3 (sphere 3x1) by 0.0005");
  EXPECT_EQ(model, kPoint);
}

TEST(FirstModel, RefusesWhatIsFarWithThePartAndTheDistance) {
  std::vector<Real> model = kPoint;
  model[3] = 2;  // |x| = sqrt(5)
  EXPECT_EQ(settle_first_model(product(), model).problem,
            "part 1 (stiefel 4x2) is off its manifold by 0.447, at most 0.001 (|P(x) - x| / max(1, |x|), P(x) the "
            "nearest point); give a point of that manifold, such as `gradstream model export` writes");
  model = kPoint;
  model[14] = static_cast<Real>(0.5);  // below a norm of 1 the distance itself counts
  EXPECT_THAT(settle_first_model(product(), model).problem,
              HasSubstr("part 3 (sphere 3x1) is off its manifold by 0.5"));
}

TEST(FirstModel, RefusesWhatHasNoNearestPoint) {
  std::vector<Real> model = kPoint;
  model[14] = 0;
  EXPECT_THAT(settle_first_model(product(), model).problem, HasSubstr("part 3 (sphere 3x1) has no nearest point"));
}

TEST(FirstModel, NamesTheManifoldOfAPointWithoutParts) {
  const RunParameters p = scalar_parameters();
  std::vector<Real> model(p.model->shape.size(), Real{1});
  EXPECT_THAT(settle_first_model(p, model).problem,
              testing::StartsWith("stiefel " + std::to_string(p.model->shape.rows) + "x" +
                                  std::to_string(p.model->shape.cols) + " "));
}

// A drawn point of each manifold, as an export writes it in nine digits, is one that stays.
TEST(FirstModel, TakesADrawnPointOfEachManifold) {
  for (const ManifoldOps* const ops : all_manifolds()) {
    RunParameters p = scalar_parameters();
    p.model->manifold = ops->id;
    p.model->retraction = ops->retraction_kind;
    p.model->transport = ops->transport_kind;
    if (ops->id == ManifoldId::kProduct || ops->id == ManifoldId::kFixedRank ||
        ops->check_shape(p.model->shape) != Status::kOk) {
      continue;
    }
    std::vector<Real> model = random_point(*ops, p.model->shape, 3);
    const std::vector<Real> before = model;
    const FirstModelVerdict verdict = settle_first_model(p, model);
    EXPECT_EQ(verdict.problem + verdict.projected, "") << ops->name;
    EXPECT_EQ(model, before) << ops->name;
  }
}

TEST(FirstModel, TakesTheFactorsOfAMatrixOfFixedRank) {
  RunParameters p = scalar_parameters();
  p.model->manifold = ManifoldId::kFixedRank;
  p.model->retraction = RetractionKind::kDefault;
  p.model->transport = TransportKind::kDefault;
  p.model->matrix = "8x6";
  p.model->rank = 2;
  p.model->shape = {};
  set_parts(&p);
  const ManifoldOps& ops = *server_manifold(p);
  std::vector<Real> model = random_point(ops, p.model->shape, 3);
  const std::vector<Real> before = model;
  const FirstModelVerdict verdict = settle_first_model(p, model);
  EXPECT_EQ(verdict.problem + verdict.projected, "");
  EXPECT_EQ(model, before);
  for (Real& value : model) {
    value *= 2;
  }
  EXPECT_THAT(settle_first_model(p, model).problem, testing::StartsWith("fixed_rank "));
}

}  // namespace
}  // namespace gradstream
