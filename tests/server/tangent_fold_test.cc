#include "server/rules/tangent_fold.h"

#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "server/run/weights.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr size_t kSize = 4;

Status add(TangentFold* fold, const FoldInput& input) {
  GS_TRY(fold->prepare(input));
  fold->commit();
  return Status::kOk;
}

struct Fixture {
  explicit Fixture(const RunParameters& p)
      : holder(p), models(2), fold({&holder.parameters, &holder.replica, &models, &holder.arena}) {
    std::fill_n(holder.replica.begin_snapshot(), kSize, Real{1});
    holder.replica.adopt_snapshot(0);
  }
  TestReplica holder;
  ModelRing models;
  TangentFold fold;
};

RunParameters plane() {
  RunParameters p = tangent_parameters();
  p.model->manifold = ManifoldId::kEuclidean;
  p.model->shape = {kSize, 1};
  return p;
}

// (20 * 3/3 + 10 * 8/2) / 30; K_eff = (20 * 3 + 10 * 2) / 30.
TEST(TangentFold, IsTheWeightedMeanPerStep) {
  Fixture f(plane());
  f.fold.begin({});
  ASSERT_EQ(add(&f.fold, {0, 0, 3, 20, std::vector<Real>(kSize, 3)}), Status::kOk);
  ASSERT_EQ(add(&f.fold, {1, 0, 2, 10, std::vector<Real>(kSize, 8)}), Status::kOk);
  std::vector<Real> mean;
  ASSERT_EQ(f.fold.finish(&mean), Status::kOk);
  EXPECT_NEAR(mean[0], 2, 1e-6);
  EXPECT_FLOAT_EQ(static_cast<float>(f.fold.effective_steps()), 80.0F / 30);
  VersionRecord record = stand_still_record({&f.holder.parameters, &f.holder.replica, &f.models, &f.holder.arena});
  EXPECT_EQ(record.version, 1U);
  ASSERT_EQ(
      finish_tangent_step({&f.holder.parameters, &f.holder.replica, &f.models, &f.holder.arena}, f.fold, 0.5F, &record),
      Status::kOk);
  // d = -2 / 0.5 in every place, a = 0.5 * 80 / 30.
  EXPECT_NEAR(record.promise.value, 0.5 * 80 / 30 * 16 * kSize, 1e-3);
  Real model[kSize];
  ASSERT_EQ(read_model({kSize, 1}, record.model, model), Status::kOk);
  EXPECT_NEAR(model[0], 1 + 2 * 80.0 / 30, 1e-5);
}

// (zeta / q) / S, S = 5 devices that could have been asked; everyone's phase has no population and a mean.
TEST(TangentFold, DividesByThePopulationWhereParticipationIsUnbiased) {
  RunParameters p = plane();
  p.cohort->participation = Participation::kSchemeTwo;
  p.cohort->participation_probability = "0.5";
  p.fold->fold_weight = FoldWeight::kUniform;
  Fixture f(p);
  VersionRecord opened;
  opened.cohort = {5, {1, 3}};
  for (const bool has_cohort : {true, false}) {
    f.fold.begin(has_cohort ? opened : VersionRecord());
    FoldInput input{0, 0, 1, static_cast<uint16_t>(kStalenessOne), {}};
    const std::vector<Real> zeta(kSize, 3);
    input.values = zeta;
    input.inverse_participation = has_cohort ? 2 : 1;
    ASSERT_EQ(add(&f.fold, input), Status::kOk);
    std::vector<Real> mean;
    ASSERT_EQ(f.fold.finish(&mean), Status::kOk);
    EXPECT_NEAR(mean[0], has_cohort ? 3 * 2 / 5.0 : 3, 1e-6);
  }
}

// S times the unit of the weights, 2^15, is beyond 32 bits from 131,072 devices on.
TEST(TangentFold, DividesByALargePopulation) {
  RunParameters p = plane();
  p.cohort->participation = Participation::kSchemeTwo;
  p.cohort->participation_probability = "0.5";
  p.fold->fold_weight = FoldWeight::kUniform;
  Fixture f(p);
  VersionRecord opened;
  opened.cohort = {1U << 18, {1, 3}};
  f.fold.begin(opened);
  const std::vector<Real> zeta(kSize, 64);
  for (uint32_t device = 0; device < 64; ++device) {
    ASSERT_EQ(add(&f.fold, {0, 0, 1, static_cast<uint16_t>(kStalenessOne), zeta}), Status::kOk);
  }
  std::vector<Real> mean;
  ASSERT_EQ(f.fold.finish(&mean), Status::kOk);
  EXPECT_EQ(mean[0], 0x1p-6F);  // 64 * 64 / 2^18
}

}  // namespace
}  // namespace gradstream
