#include <gtest/gtest.h>

#include "server/rules/aggregator.h"
#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

RunParameters dense_parameters() {
  RunParameters p = scalar_parameters();
  p.local->estimator = EstimatorId::kAnalyticGradient;
  p.local->correction_form = CorrectionForm::kNone;
  return p;
}

struct Fixture {
  explicit Fixture(const RunParameters& p)
      : server(p), models(8), rule(make_aggregator({&server.parameters, &server.replica, &models, &server.arena})) {
    Real* model = server.replica.begin_snapshot();
    EXPECT_EQ(server.replica.manifold().random_point(p.model->shape, {5, RandomDomain::kInitialPoint, 0, 0, 0}, model,
                                                     server.arena),
              Status::kOk);
    server.replica.adopt_snapshot(2);
    rule->begin();
  }
  TestReplica server;
  ModelRing models;
  std::unique_ptr<Aggregator> rule;
};

// X <- P_M(X - eta_g eta K_eff sum W Gbar / sum W), a late update folded as it is.
TEST(AggregatorMeanGradient, StepsAlongTheWeightedMean) {
  RunParameters p = dense_parameters();
  p.steps->server_step = 2;
  ASSERT_EQ(check_parameters(p).sentence, "");
  Fixture f(p);
  const std::vector<Real> a = draw_values(static_cast<uint32_t>(p.model->shape.size()), 5, 1);
  const std::vector<Real> b = draw_values(static_cast<uint32_t>(p.model->shape.size()), 6, 1);
  ASSERT_EQ(f.rule->add({0, 2, 3, 30, a}), Status::kOk);
  ASSERT_EQ(f.rule->add({0, 1, 2, 10, b}), Status::kOk);
  VersionRecord record;
  ASSERT_EQ(f.rule->finish(&record), Status::kOk);
  EXPECT_EQ(record.version, 3U);
  EXPECT_FLOAT_EQ(record.step_scale, 2 * p.step_size_at(2) * (30 * 3 + 10 * 2) / 40);
  std::vector<Real> z(f.server.replica.model(), f.server.replica.model() + p.model->shape.size());
  for (size_t e = 0; e < z.size(); ++e) {
    z[e] -= record.step_scale * (30 * a[e] + 10 * b[e]) / 40;
  }
  ASSERT_EQ(f.server.replica.manifold().project_point(p.model->shape, z.data(), z.data(), f.server.arena), Status::kOk);
  ASSERT_EQ(apply_record(p, record, f.server.replica, f.server.arena), Status::kOk);
  EXPECT_EQ(f.server.replica.version(), 3U);
  for (size_t e = 0; e < z.size(); ++e) {
    EXPECT_NEAR(f.server.replica.model()[e], z[e], 1e-6);
  }
}

TEST(AggregatorMeanGradient, RefusesWhatDoesNotFitAndCanStandStill) {
  const RunParameters p = dense_parameters();
  Fixture f(p);
  std::vector<Real> values(p.model->shape.size(), 1);
  EXPECT_EQ(f.rule->check({0, 2, 3, 1, values}), Status::kOk);
  EXPECT_EQ(f.rule->check({0, 2, 0, 1, values}), Status::kInvalidArgument);
  EXPECT_EQ(f.rule->check({0, 2, 3, 0, values}), Status::kInvalidArgument);
  values[3] = 500;
  EXPECT_EQ(f.rule->add({0, 2, 3, 1, values}), Status::kOutOfRange);
  values.pop_back();
  EXPECT_EQ(f.rule->check({0, 2, 3, 1, values}), Status::kInvalidArgument);
  const uint64_t digest = f.server.replica.digest();
  ASSERT_EQ(apply_record(p, f.rule->stand_still(), f.server.replica, f.server.arena), Status::kOk);
  EXPECT_EQ(f.server.replica.digest(), digest);
  EXPECT_EQ(f.server.replica.version(), 3U);
}

}  // namespace
}  // namespace gradstream
