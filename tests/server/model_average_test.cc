#include "server/rules/model_average.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "server/rules/delay_correction.h"
#include "server/run/average_keys.h"
#include "server/run/check_parameters.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr size_t kSize = 8;

RunParameters averaged(ManifoldId manifold, Shape shape) {
  RunParameters p = tangent_parameters();
  p.model->manifold = manifold;
  p.model->shape = shape;
  p.fold->fold_weight = FoldWeight::kUniform;
  p.average->average_period = 2;
  p.average->average_from = 3;
  return p;
}

struct Averager {
  explicit Averager(const RunParameters& p)
      : parameters(p), memory(1 << 12), arena(memory.data(), memory.size() * 8), average(parameters, arena) {}
  std::vector<Real> point(uint32_t number) {
    std::vector<Real> x(parameters.model->shape.size());
    RandomKey key;
    key.seed = number;
    EXPECT_EQ(server_manifold(parameters)->random_point(parameters.model->shape, key, x.data(), arena), Status::kOk);
    return x;
  }
  RunParameters parameters;
  std::vector<uint64_t> memory;
  Arena arena;
  ModelAverage average;
};

TEST(ModelAverage, IsTheMeanOfEveryCthVersionFromAnOneOn) {
  Averager a(averaged(ManifoldId::kEuclidean, {kSize, 1}));
  EXPECT_EQ(a.average.text(), "none");
  std::vector<double> sum(kSize);
  uint32_t count = 0;
  for (uint32_t version = 0; version <= 10; ++version) {
    const std::vector<Real> x = draw_values(kSize, version, 1);
    a.average.follow(version, x.data());
    if (version >= 3 && version % 2 == 0) {
      ++count;
      for (size_t e = 0; e < kSize; ++e) {
        sum[e] += static_cast<double>(x[e]);
      }
    }
    EXPECT_EQ(a.average.count(), count);
  }
  for (size_t e = 0; e < kSize; ++e) {
    EXPECT_NEAR(a.average.model()[e], sum[e] / 4, 1e-6);
  }
  EXPECT_EQ(a.average.text(), "the mean of 4 versions, one of every 2 from 3 to 10");
}

TEST(ModelAverage, StaysOnTheManifoldBetweenItsPoints) {
  const std::pair<ManifoldId, Shape> manifolds[] = {{ManifoldId::kSphere, {kSize, 1}},
                                                    {ManifoldId::kStiefel, {6, 2}},
                                                    {ManifoldId::kHyperbolic, {kSize, 1}},
                                                    {ManifoldId::kGrassmann, {6, 2}},
                                                    {ManifoldId::kSpd, {3, 3}}};
  for (const auto& [manifold, shape] : manifolds) {
    Averager a(averaged(manifold, shape));
    const ManifoldOps& table = *server_manifold(a.parameters);
    std::vector<Real> x = a.point(1);
    std::vector<Real> v(shape.size());
    RandomKey key;
    key.seed = 2;
    ASSERT_EQ(random_tangent(table, shape, x.data(), key, v.data(), a.arena), Status::kOk);
    scale(v.size(), static_cast<Real>(0.1), v.data());
    std::vector<Real> y(shape.size());
    ASSERT_EQ(table.retract(shape, x.data(), v.data(), y.data(), a.arena), Status::kOk);
    a.average.follow(4, x.data());
    a.average.follow(6, y.data());
    ASSERT_EQ(a.average.count(), 2U) << name_of(manifold);
    const std::vector<Real>& middle = a.average.model();
    // A point: projecting it changes nothing. Where no such projection exists, the lifts below would fail.
    std::vector<Real> again = middle;
    if (manifold == ManifoldId::kSphere || manifold == ManifoldId::kStiefel) {
      ASSERT_EQ(table.project_point(shape, middle.data(), again.data(), a.arena), Status::kOk);
      for (size_t e = 0; e < again.size(); ++e) {
        EXPECT_NEAR(again[e], middle[e], 1e-6) << name_of(manifold);
      }
    }
    // In the middle: the displacements to both ends, tangents there, are opposite.
    std::vector<Real> to_x(shape.size());
    std::vector<Real> to_y(shape.size());
    ASSERT_EQ(table.inverse_retract(shape, middle.data(), x.data(), to_x.data(), a.arena), Status::kOk);
    ASSERT_EQ(table.inverse_retract(shape, middle.data(), y.data(), to_y.data(), a.arena), Status::kOk);
    for (size_t e = 0; e < to_x.size(); ++e) {
      EXPECT_NEAR(to_x[e], -to_y[e], 2e-3) << name_of(manifold) << ' ' << e;
    }
    EXPECT_GT(norm2(to_x.size(), to_x.data()), 0.02F) << name_of(manifold);
  }
}

// Points without a mean do not go in, and the average stands.
TEST(ModelAverage, LeavesOutWhatHasNoMean) {
  Averager a(averaged(ManifoldId::kSphere, {2, 1}));
  const std::vector<Real> north = {0, 1};
  const std::vector<Real> south = {0, -1};
  a.average.follow(4, north.data());
  a.average.follow(6, south.data());
  EXPECT_EQ(a.average.count(), 1U);
  EXPECT_EQ(a.average.model(), north);
}

TEST(ModelAverage, ARestartGoesOnFromTheAverage) {
  RunParameters p = averaged(ManifoldId::kEuclidean, {kSize, 1});
  p.average->average_restart = 6;
  Averager a(p);
  const std::vector<Real> four = draw_values(kSize, 4, 1);
  std::vector<Real> six = draw_values(kSize, 6, 1);
  const std::vector<Real> made = six;
  EXPECT_FALSE(a.average.replace(0, six.data())) << "no average yet";
  a.average.follow(4, four.data());
  EXPECT_FALSE(a.average.replace(5, six.data()));
  ASSERT_TRUE(a.average.replace(6, six.data()));
  for (size_t e = 0; e < kSize; ++e) {
    EXPECT_NEAR(six[e], (four[e] + made[e]) / 2, 1e-6);
  }
  a.average.follow(6, six.data());
  EXPECT_EQ(a.average.model(), six);
  EXPECT_EQ(a.average.count(), 2U);
  EXPECT_THAT(a.average.text(), testing::HasSubstr("the run set to it every 6"));
}

// Through the coordinator: the versions of an averaged run are those of the plain one until the first restart, which is
// the mean of what was taken; and after every record a server that comes back is the one that went on.
TEST(ModelAverage, ARecoveredServerHasTheSameAverage) {
  for (const uint32_t restart : {0U, 4U}) {
    RunParameters p = averaged(ManifoldId::kEuclidean, {kSize, 1});
    p.average->average_from = 1;
    p.average->average_restart = restart;
    ASSERT_EQ(check_parameters(p).sentence, "");
    RunParameters without = p;
    without.average->average_period = without.average->average_from = without.average->average_restart = 0;
    TestServer plain(without);
    TestServer calm(p);
    TestServer stormy(p);
    for (TestServer* server : {&plain, &calm, &stormy}) {
      server->start();
      server->join(p.trigger->device_count);
    }
    std::vector<Real> second;
    for (uint32_t round = 0; round < 6; ++round) {
      plain.round(p.trigger->device_count);
      calm.round(p.trigger->device_count);
      const Real* const expected = plain.coordinator->model().model();
      const Real* const found = calm.coordinator->model().model();
      if (round + 1 == 2) {
        second.assign(expected, expected + kSize);
      }
      for (size_t e = 0; e < kSize && round + 1 <= 4; ++e) {
        const bool is_mean = restart != 0 && round + 1 == 4;
        EXPECT_NEAR(found[e], is_mean ? (second[e] + expected[e]) / 2 : expected[e], 1e-6) << round + 1;
      }
      stormy.round(p.trigger->device_count);
      const std::string state = stormy.coordinator->state_text();
      stormy.restart();
      for (uint32_t device = 0; device < p.trigger->device_count; ++device) {
        stormy.hello(device);
      }
      EXPECT_EQ(stormy.coordinator->state_text(), state);
      EXPECT_EQ(stormy.coordinator->average().model(), calm.coordinator->average().model());
      EXPECT_EQ(stormy.coordinator->model().digest(), calm.coordinator->model().digest());
    }
    EXPECT_EQ(calm.coordinator->average().count(), 3U);
  }
}

}  // namespace
}  // namespace gradstream
