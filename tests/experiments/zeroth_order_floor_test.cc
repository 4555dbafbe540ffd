// What d_zofl says of floors: curves that are as the theory has them pass, and those of a planted fault do not.
#include "experiments/papers/zeroth_order_floor.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr uint32_t kSeed = 1;

double number_after(const std::string& key, const std::string& mark) {
  return std::stod(key.substr(key.find(mark) + mark.size()));
}

double work_of(const std::string& key) {
  return number_after(key, "/n") * number_after(key, "/m") * number_after(key, "/tau");
}

double theory(const std::string& key) {
  const double noise = number_after(key, "/s");
  const double mu = number_after(key, "/mu");
  return 0.1 * (2 * noise * noise / (mu * mu) + std::pow(3.2 * mu / 2, 2));
}

using FloorOf = std::function<double(const std::string& key)>;

// Every case ends at its floor at once.
Curves curves_of(const FloorOf& floor, const FloorOf& noise) {
  std::vector<Case> cases;
  add_floor_cases(kSeed, &cases);
  Curves curves;
  for (const Case& one : cases) {
    Curve& curve = curves[one.key];
    const uint32_t round_count = one.parameters.trigger->round_count;
    for (uint32_t round = 0; round <= round_count; ++round) {
      CurvePoint& point = curve.points.emplace_back();
      point.round = round;
      point.measures.excess = one.key.starts_with("floor") ? floor(one.key)
                              : one.key.starts_with("root")
                                  ? std::exp(-0.1 * round * static_cast<double>(one.parameters.steps->server_step))
                                  : noise(one.key);
      point.measures.optimality = 1.0 / (1 + round) / std::sqrt(number_after(one.key + "/n1", "/n"));
    }
  }
  return curves;
}

Judgement judgement_of(const Curves& curves) {
  Judgement judgement;
  judge_floors(curves, kSeed, &judgement);
  return judgement;
}

double floor_of_work(const std::string& key) { return 16 / work_of(key); }

TEST(ZerothOrderFloor, TheTheorysCurvesPassAndAreWritten) {
  const Curves curves = curves_of(floor_of_work, theory);
  const Judgement judgement = judgement_of(curves);
  EXPECT_TRUE(judgement.passed());
  for (const std::string& line : judgement.lines()) {
    EXPECT_EQ(line.find("not confirmed"), std::string::npos) << line;
    EXPECT_EQ(line.find("DOES NOT HOLD"), std::string::npos) << line;
  }
  const std::string folder = testing::TempDir() + "zeroth_order_floor";
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(write_floors(folder, curves));
  EXPECT_TRUE(std::filesystem::exists(folder + "/floor.gp"));
  EXPECT_TRUE(write_floors(folder, {})) << "of a part of the experiment";
}

TEST(ZerothOrderFloor, AFloorByTheRootOfTheDevicesFails) {
  EXPECT_FALSE(
      judgement_of(curves_of([](const std::string& key) { return 16 / std::sqrt(work_of(key)); }, theory)).passed());
}

TEST(ZerothOrderFloor, ASmoothingThatSuitsAnotherNoiseFails) {
  const auto misplaced = [](const std::string& key) {
    const double noise = number_after(key, "/s");
    const double mu = number_after(key, "/mu");
    return 2 * noise * noise / (mu * mu) + std::pow(5 * mu, 2);
  };
  EXPECT_FALSE(judgement_of(curves_of(floor_of_work, misplaced)).passed());
}

}  // namespace
}  // namespace gradstream
