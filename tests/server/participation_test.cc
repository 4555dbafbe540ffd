#include "server/run/participation.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/random.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

using testing::ElementsAre;

std::vector<uint32_t> candidates(uint32_t count) {
  std::vector<uint32_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0U);
  return indices;
}

RunParameters scheme_one(uint32_t cohort_size) {
  RunParameters p = tangent_parameters();
  p.cohort->participation = Participation::kSchemeOne;
  p.cohort->cohort_size = cohort_size;
  return p;
}

RunParameters scheme_two(const char* probabilities) {
  RunParameters p = tangent_parameters();
  p.cohort->participation = Participation::kSchemeTwo;
  p.cohort->participation_probability = probabilities;
  p.fold->fold_weight = FoldWeight::kUniform;
  return p;
}

TEST(Participation, EveryoneIsNoCohort) { EXPECT_EQ(choose_cohort(tangent_parameters(), 3, candidates(5)), Cohort()); }

// Choices of 3 and of 5 of 10, seed 1, drawn by an independent implementation of the stream.
TEST(Participation, SchemeOneIsTheReferencesChoice) {
  RunParameters p = scheme_one(3);
  p.seed = 1;
  const std::vector<std::vector<uint32_t>> three = {{1, 2, 4}, {3, 7, 8}, {1, 2, 6}, {2, 6, 9}};
  const std::vector<std::vector<uint32_t>> five = {{1, 2, 4, 6, 7}, {0, 3, 7, 8, 9}, {1, 2, 5, 6, 7}, {2, 3, 6, 8, 9}};
  for (uint32_t round = 0; round < 4; ++round) {
    p.cohort->cohort_size = 3;
    EXPECT_EQ(choose_cohort(p, round, candidates(10)), (Cohort{10, three[round]}));
    p.cohort->cohort_size = 5;
    EXPECT_EQ(choose_cohort(p, round, candidates(10)), (Cohort{10, five[round]}));
  }
}

// More are asked than are wanted: the choice of 3 times 5/3 is that of 5.
TEST(Participation, OverSelectionDrawsSoManyMore) {
  RunParameters p = scheme_one(3);
  p.cohort->over_selection = static_cast<Real>(1.5);
  EXPECT_EQ(p.drawn_count(), 5U);  // 4.5, rounded up
  EXPECT_EQ(choose_cohort(p, 0, candidates(10)), (Cohort{10, {1, 2, 4, 6, 7}}));
  EXPECT_EQ(choose_cohort(p, 0, candidates(4)).members.size(), 4U);
  p.cohort->cohort_size = 10;
  p.cohort->over_selection = static_cast<Real>(1.1);
  EXPECT_EQ(p.drawn_count(), 11U);
  p.cohort->over_selection = 1;
  for (const uint32_t size : {10U, 32768U, 1000000U, 20000001U, 1U << 31}) {
    p.cohort->cohort_size = size;
    EXPECT_EQ(p.drawn_count(), size);
  }
}

TEST(Participation, ChoosesAmongCandidatesOnly) {
  const std::vector<uint32_t> left = {1, 4, 7, 8};
  std::set<uint32_t> seen;
  for (uint32_t round = 0; round < 50; ++round) {
    const Cohort cohort = choose_cohort(scheme_one(2), round, left);
    EXPECT_EQ(cohort.population, 4U);
    ASSERT_EQ(cohort.members.size(), 2U);
    EXPECT_LT(cohort.members[0], cohort.members[1]);
    seen.insert(cohort.members.begin(), cohort.members.end());
  }
  EXPECT_THAT(seen, ElementsAre(1, 4, 7, 8));
  EXPECT_EQ(choose_cohort(scheme_one(9), 0, left).members, left) << "more wanted than there are";
}

// As many as no 16 bits can number.
TEST(Participation, SchemeOneChoosesInAFleetOfAnySize) {
  const Cohort cohort = choose_cohort(scheme_one(1000), 0, candidates(100'000));
  ASSERT_EQ(cohort.members.size(), 1000U);
  EXPECT_TRUE(std::ranges::is_sorted(cohort.members));
  EXPECT_EQ(std::ranges::adjacent_find(cohort.members), cohort.members.end());
  EXPECT_NEAR(std::accumulate(cohort.members.begin(), cohort.members.end(), 0.0) / 1000, 50'000, 5'000);
}

// It asks for those that it draws alone, and they are those of the shuffle of the whole fleet.
TEST(Participation, SchemeOneCostsItsCohortAndNotItsFleet) {
  for (const uint32_t cohort_size : {1U, 10U, 500U, 1000U}) {
    const RunParameters p = scheme_one(cohort_size);
    constexpr uint32_t kPopulation = 1000;
    uint32_t asked = 0;
    const Cohort cohort = choose_cohort(p, 3, kPopulation, [&asked](uint32_t j) {
      ++asked;
      return 2 * j;
    });
    EXPECT_EQ(asked, cohort_size);
    RandomKey key;
    key.seed = p.seed;
    key.domain = RandomDomain::kClientSampling;
    key.version = 3;
    std::vector<uint32_t> shuffled(kPopulation);
    choose(key, kPopulation, cohort_size, shuffled.data());
    std::set<uint32_t> wanted;
    for (uint32_t i = 0; i < cohort_size; ++i) {
      wanted.insert(2 * shuffled[i]);
    }
    EXPECT_EQ(std::set<uint32_t>(cohort.members.begin(), cohort.members.end()), wanted);
  }
}

TEST(Participation, SchemeTwoDrawsEachDeviceWithItsProbability) {
  const RunParameters p = scheme_two("0.9 0.5 0.2");  // the last one holds for devices 2 and 3
  std::vector<uint32_t> counts(4);
  constexpr uint32_t kRounds = 4000;
  for (uint32_t round = 0; round < kRounds; ++round) {
    for (const uint32_t member : choose_cohort(p, round, candidates(4)).members) {
      ++counts[member];
    }
  }
  // Nobody is drawn in 3.2 % of rounds, and then each of the four in a quarter of them.
  const double probabilities[] = {0.9, 0.5, 0.2, 0.2};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(counts[i] / static_cast<double>(kRounds), probabilities[i] + 0.032 / 4, 0.025);
  }
}

TEST(Participation, AnEmptyDrawAsksOneDeviceUniformly) {
  const RunParameters p = scheme_two("1e-9");
  std::vector<uint32_t> counts(4);
  for (uint32_t round = 0; round < 2000; ++round) {
    const Cohort cohort = choose_cohort(p, round, candidates(4));
    ASSERT_EQ(cohort.members.size(), 1U);
    ++counts[cohort.members[0]];
  }
  for (const uint32_t count : counts) {
    EXPECT_NEAR(count, 500, 80);
  }
}

TEST(Participation, WeightsAreOneOverTheParticipationProbability) {
  RunParameters p = scheme_two("0.5 0.25");
  p.cohort->participation_weights = ParticipationWeights::kTrue;
  const std::vector<Real> probabilities = participation_probabilities(*p.cohort);
  EXPECT_EQ(inverse_participation(*p.cohort, probabilities, 0, 7, 9), 2);
  EXPECT_EQ(inverse_participation(*p.cohort, probabilities, 5, 7, 9), 4);
  p.cohort->participation_weights = ParticipationWeights::kCounted;
  EXPECT_EQ(inverse_participation(*p.cohort, probabilities, 0, 0, 0), 1);  // the first round, in which it takes part
  EXPECT_EQ(inverse_participation(*p.cohort, probabilities, 0, 3, 7), 2);  // the fourth time in eight rounds
  p.cohort->participation_weights = ParticipationWeights::kBiased;
  EXPECT_EQ(inverse_participation(*p.cohort, probabilities, 0, 3, 7), 1);
  EXPECT_FALSE(is_unbiased(*p.cohort));
  EXPECT_EQ(inverse_participation(*scheme_one(2).cohort, {}, 0, 3, 7), 1);
}

// ---- Through the coordinator ----

// Devices that are asked in the open version.
uint32_t asked_count(const TestServer& server) {
  uint32_t count = 0;
  for (const DeviceStatus& device : server.coordinator->device_statuses()) {
    count += device.is_asked ? 1 : 0;
  }
  return count;
}

TEST(Participation, ADeviceThatIsNotChosenWaitsAndTheTriggerCountsTheChosenOnly) {
  TestServer server(scheme_one(2));
  server.start();
  const Cohort cohort = choose_cohort(server.parameters, 0, candidates(4));
  for (uint32_t device = 0; device < 4; ++device) {
    server.hello(device);
    server.pull(device, false, 0, 0);
    const bool is_chosen = std::ranges::count(cohort.members, device) == 1;
    EXPECT_EQ(server.task(device) != nullptr, is_chosen);
    if (!is_chosen) {
      ASSERT_NE(server.wait(device), nullptr);
      EXPECT_EQ(server.wait(device)->cause, gs_WaitCause_WAIT_CAUSE_NOT_CHOSEN);
    }
  }
  EXPECT_EQ(asked_count(server), 2U);
  for (const uint32_t member : cohort.members) {
    EXPECT_EQ(server.coordinator->durable_version(), 0U);
    server.upload(member, server.good_upload(member));
  }
  EXPECT_EQ(server.coordinator->durable_version(), 1U);
  const std::string state = server.coordinator->state_text();
  server.restart();
  EXPECT_EQ(server.coordinator->state_text(), state);
}

TEST(Participation, ACohortSurvivesRecoveryThoughDevicesCameAndWentSince) {
  TestServer server(scheme_one(2));
  server.start();
  const Cohort cohort = choose_cohort(server.parameters, 0, candidates(4));
  server.names.push_back("late");
  server.coordinator->on_device_added("late", server.now_ms);
  server.collect();
  EXPECT_EQ(asked_count(server), 2U);
  server.restart();
  for (const DeviceStatus& device : server.coordinator->device_statuses()) {
    EXPECT_EQ(device.is_asked, std::ranges::count(cohort.members, device.index) == 1) << device.index;
  }
  // One of the two is revoked: the other one suffices. Both: everybody left is asked, so that the round can end.
  server.coordinator->on_device_revoked(cohort.members[0], server.now_ms);
  EXPECT_EQ(asked_count(server), 1U);
  server.coordinator->on_device_revoked(cohort.members[1], server.now_ms);
  EXPECT_EQ(asked_count(server), 3U);
}

// X <- R_X(K_eff / S sum_j zeta_j / (k q_j)), in double, with q_j counted from the journal's answers.
TEST(Participation, TheStepOfSchemeTwoDividesByTheDevicesAndTheirParticipation) {
  RunParameters p = scheme_two("0.6");
  p.model->manifold = ManifoldId::kEuclidean;
  p.model->shape = {8, 1};
  TestServer server(p);
  server.start();
  for (uint32_t device = 0; device < 4; ++device) {
    server.hello(device);
  }
  std::vector<uint32_t> taken_part(4);
  std::vector<double> x(server.coordinator->model().model(), server.coordinator->model().model() + 8);
  for (uint32_t round = 0; round < 12; ++round) {
    const Cohort cohort = choose_cohort(p, round, candidates(4));
    for (const uint32_t member : cohort.members) {
      server.pull(member, round > 0, round, server.coordinator->model().digest());
      const TestUpload upload = server.good_upload(member);
      ASSERT_EQ(upload.base_version, round);
      ++taken_part[member];
      const double q = static_cast<double>(taken_part[member]) / (round + 1);
      for (size_t e = 0; e < 8; ++e) {
        x[e] += upload.values[e] / (4 * q);
      }
    }
    for (const uint32_t member : cohort.members) {
      server.upload(member, server.good_upload(member));
    }
    ASSERT_EQ(server.coordinator->durable_version(), round + 1);
    for (size_t e = 0; e < 8; ++e) {
      EXPECT_NEAR(server.coordinator->model().model()[e], x[e], 2e-6) << "round " << round;
    }
    const std::string state = server.coordinator->state_text();
    server.restart();
    ASSERT_EQ(server.coordinator->state_text(), state);
    for (uint32_t device = 0; device < 4; ++device) {
      server.hello(device);
    }
  }
}

}  // namespace
}  // namespace gradstream
