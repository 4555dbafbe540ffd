#include <cmath>

#include <gtest/gtest.h>

#include "server/rules/aggregator.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

RunParameters parameters() {
  RunParameters p = tangent_parameters();
  p.model->manifold = ManifoldId::kSphere;
  p.model->shape = {8, 1};
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->update_goal = 2;
  return p;
}

// Version 3 is open; the model of version 2 is still in the ring.
struct Fixture {
  Fixture() : server(parameters()), models(2) {
    rule = make_aggregator({&server.parameters, &server.replica, &models, &server.arena});
    base = {1, 0, 0, 0, 0, 0, 0, 0};
    current = {0.8F, 0.6F, 0, 0, 0, 0, 0, 0};
    std::copy(current.begin(), current.end(), server.replica.begin_snapshot());
    server.replica.adopt_snapshot(3);
    models.push(2, base);
    models.push(3, current);
    rule->begin();
  }
  std::vector<Real> tangent(uint32_t seed, const std::vector<Real>& x) {
    std::vector<Real> v = draw_values(8, seed, 0.3F);
    EXPECT_EQ(kSphereOps.project_tangent(server.parameters.model->shape, x.data(), v.data(), v.data(), server.arena),
              Status::kOk);
    return v;
  }
  TestReplica server;
  ModelRing models;
  std::unique_ptr<Aggregator> rule;
  std::vector<Real> base;
  std::vector<Real> current;
};

// X <- R_X(K_eff sum_i W_i T(zeta_i) / k_i / sum W), in double: R(v) = (x + v) / |x + v|, T as algorithms.md section 2.
TEST(AggregatorGradientStream, IsThePublishedStepWithALateTangentTransported) {
  Fixture f;
  const std::vector<Real> on_time = f.tangent(1, f.current);
  const std::vector<Real> late = f.tangent(2, f.base);
  ASSERT_EQ(f.rule->add({0, 3, 3, 20, on_time}), Status::kOk);
  ASSERT_EQ(f.rule->add({1, 2, 2, 10, late}), Status::kOk);
  VersionRecord record;
  ASSERT_EQ(f.rule->finish(&record), Status::kOk);
  EXPECT_EQ(record.version, 4U);
  EXPECT_TRUE(record.blocks.empty());
  EXPECT_FLOAT_EQ(record.step_scale, (20.0F * 3 + 10.0F * 2) / 30);
  double yu = 0;
  double xy = 0;
  for (size_t e = 0; e < 8; ++e) {
    yu += f.current[e] * late[e];
    xy += f.base[e] * f.current[e];
  }
  std::vector<double> z(8);
  double norm = 0;
  for (size_t e = 0; e < 8; ++e) {
    const double moved = late[e] - yu / (1 + xy) * (f.base[e] + f.current[e]);
    z[e] = f.current[e] + record.step_scale * (20 * on_time[e] / 3.0 + 10 * moved / 2.0) / 30;
    norm += z[e] * z[e];
  }
  ASSERT_EQ(apply_record(f.server.parameters, record, f.server.replica, f.server.arena), Status::kOk);
  for (size_t e = 0; e < 8; ++e) {
    EXPECT_NEAR(f.server.replica.model()[e], z[e] / std::sqrt(norm), 1e-6);
  }
}

TEST(AggregatorGradientStream, RefusesWhatDoesNotFit) {
  Fixture f;
  const std::vector<Real> good(8, 0.1F);
  EXPECT_EQ(f.rule->check({0, 3, 3, 1, good}), Status::kOk);
  EXPECT_EQ(f.rule->check({0, 1, 3, 1, good}), Status::kSingular);  // its model is forgotten
  EXPECT_EQ(f.rule->check({0, 3, 3, 1, std::vector<Real>(7, 0.1F)}), Status::kInvalidArgument);
  EXPECT_EQ(f.rule->check({0, 3, 0, 1, good}), Status::kInvalidArgument);
  EXPECT_EQ(f.rule->check({0, 3, 1, 1, std::vector<Real>(8, 1e6F)}), Status::kOutOfRange);
}

TEST(AggregatorGradientStream, BeginForgets) {
  Fixture f;
  const std::vector<Real> v = f.tangent(1, f.current);
  ASSERT_EQ(f.rule->add({0, 3, 3, 20, v}), Status::kOk);
  VersionRecord first;
  ASSERT_EQ(f.rule->finish(&first), Status::kOk);
  f.rule->begin();
  ASSERT_EQ(f.rule->add({0, 3, 3, 7, v}), Status::kOk);
  VersionRecord again;
  ASSERT_EQ(f.rule->finish(&again), Status::kOk);
  EXPECT_EQ(first, again);
  EXPECT_EQ(f.rule->stand_still().model, model_bytes(f.server.parameters.model->shape, f.current.data()));
}

}  // namespace
}  // namespace gradstream
