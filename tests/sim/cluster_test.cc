// Several nodes that train one run. docs/how-to/simulate.md plays more of their schedules.
#include "sim/cluster.h"

#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "sim/simulation.h"
#include "tests/support/campaign.h"

namespace gradstream {
namespace {

// Schedules within which a planted fault is found.
constexpr uint32_t kPlantedScheduleMax = 40;

ClusterOptions cluster(uint32_t front_count, bool has_faults) {
  ClusterOptions options;
  options.front_count = front_count;
  options.sim.fault_bits = has_faults ? (1U << kClusterFaultCount) - 1 : 0;
  return options;
}

// Whatever goes wrong, the model of each schedule is that of one server.
void expect_the_digest_of_one_server(ClusterOptions options, uint32_t schedule_count, ClusterFaultCounts* faults) {
  SimOptions single = options.sim;
  single.fault_bits = 0;
  const SimResult calm = Simulation(single, 0).run();
  ASSERT_EQ(calm.fault, "");
  for (uint32_t schedule = 0; schedule < campaign_draws(schedule_count) && !testing::Test::HasFailure(); ++schedule) {
    const ClusterResult result = Cluster(options, schedule).run();
    EXPECT_EQ(result.fault, "") << "schedule " << schedule;
    EXPECT_EQ(result.digest, calm.digest) << "schedule " << schedule;
    EXPECT_EQ(result.version, calm.version);
    for (size_t i = 0; i < kClusterFaultCount; ++i) {
      (*faults)[i] += result.faults[i];
    }
  }
}

TEST(Cluster, TrainsWhatOneServerTrains) {
  for (const uint32_t front_count : {1U, 2U, 3U}) {
    ClusterFaultCounts faults = {};
    expect_the_digest_of_one_server(cluster(front_count, false), 1, &faults);
    EXPECT_EQ(faults, ClusterFaultCounts());
  }
}

TEST(Cluster, LosesNothingToAnyFault) {
  ClusterFaultCounts faults = {};
  expect_the_digest_of_one_server(cluster(3, true), 20, &faults);
  for (size_t i = 0; i < kClusterFaultCount; ++i) {
    EXPECT_GT(faults[i], 0U) << kClusterFaultNames[i];
  }
}

// Else a schedule of one fault would say nothing of that fault.
TEST(Cluster, AFaultComesAlone) {
  for (const ClusterFault fault : {ClusterFault::kLostBefore, ClusterFault::kLostAfter, ClusterFault::kLate,
                                   ClusterFault::kMuchLate, ClusterFault::kFailover, ClusterFault::kNodeCrash}) {
    const auto alone = static_cast<size_t>(fault);
    SCOPED_TRACE(kClusterFaultNames[alone]);
    ClusterOptions options = cluster(3, false);
    options.sim.fault_bits = 1U << alone;
    ClusterFaultCounts faults = {};
    expect_the_digest_of_one_server(options, 40, &faults);
    EXPECT_GT(faults[alone], 0U);
    faults[alone] = 0;
    EXPECT_EQ(faults, ClusterFaultCounts());
  }
}

// Nodes come and go in order, and a lease that is given back is soon taken: else the schedule is broken.
TEST(Cluster, ADrainedLeaderDelaysNobody) {
  ClusterOptions options = cluster(3, false);
  options.sim.fault_bits = 1U << static_cast<size_t>(ClusterFault::kDrained);
  ClusterFaultCounts faults = {};
  constexpr uint32_t kScheduleCount = 40;
  expect_the_digest_of_one_server(options, kScheduleCount, &faults);
  EXPECT_GT(faults[static_cast<size_t>(ClusterFault::kDrained)], campaign_draws(kScheduleCount) / 2);
}

// Sums of one block, too, and replicas that hold a mean beside their model.
TEST(Cluster, TrainsTangentsAndMeansToo) {
  for (const bool uploads_means : {false, true}) {
    ClusterOptions options = cluster(3, true);
    options.sim.stream = StreamKind::kTangentBlock;
    options.sim.uploads_means = uploads_means;
    ClusterFaultCounts faults = {};
    expect_the_digest_of_one_server(options, 5, &faults);
  }
}

// Rounds close early and count what comes late: the digest depends on the schedule, and each version is still what one
// server makes of its updates.
TEST(Cluster, MakesEachVersionOfItsUpdatesWhereRoundsCloseEarly) {
  ClusterOptions options = cluster(3, true);
  options.sim.has_stragglers = true;
  for (uint32_t schedule = 0; schedule < campaign_draws(5); ++schedule) {
    EXPECT_EQ(Cluster(options, schedule).run().fault, "") << "schedule " << schedule;
  }
}

SimOptions memory(CorrectionForm form, StreamKind stream, bool weighs_samples) {
  SimOptions options;
  options.correction_form = form;
  options.stream = stream;
  options.uploads_means = stream == StreamKind::kTangentBlock;
  options.memory_weighs_samples = weighs_samples;
  return options;
}

// No sum stands for the updates of a rule that remembers each device's last one.
TEST(Cluster, TrainsAMemoryToo) {
  for (const CorrectionForm form : {CorrectionForm::kMemory, CorrectionForm::kUnbiased}) {
    for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
      for (const bool weighs_samples : {false, true}) {
        SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(form) << " stream " << static_cast<int>(stream)
                                        << " samples " << weighs_samples);
        ClusterOptions options = cluster(3, true);
        const uint32_t fault_bits = options.sim.fault_bits;
        options.sim = memory(form, stream, weighs_samples);
        options.sim.fault_bits = fault_bits;
        ClusterFaultCounts faults = {};
        expect_the_digest_of_one_server(options, 5, &faults);
        options.sim.has_stragglers = true;
        for (uint32_t schedule = 0; schedule < campaign_draws(5); ++schedule) {
          EXPECT_EQ(Cluster(options, schedule).run().fault, "") << "stragglers, schedule " << schedule;
        }
      }
    }
  }
}

TEST(Cluster, PlaysAScheduleAgain) {
  const ClusterResult first = Cluster(cluster(3, true), 7).run();
  const ClusterResult again = Cluster(cluster(3, true), 7).run();
  EXPECT_EQ(first.event_count, again.event_count);
  EXPECT_EQ(first.virtual_ms, again.virtual_ms);
  EXPECT_EQ(first.faults, again.faults);
}

void expect_each_plant_is_found(CorrectionForm form) {
  for (size_t i = 1; i < kClusterPlantCount; ++i) {
    SCOPED_TRACE(kClusterPlantNames[i]);
    ClusterOptions options = cluster(3, true);
    options.sim.correction_form = form;
    options.plant = static_cast<ClusterPlant>(i);
    options.sim.has_stragglers = options.plant == ClusterPlant::kNoCutCheck;  // else few versions close under an update
    ClusterOptions unplanted = options;
    unplanted.plant = ClusterPlant::kNone;
    std::string fault;
    for (uint32_t schedule = 0; schedule < kPlantedScheduleMax && fault.empty(); ++schedule) {
      fault = Cluster(options, schedule).run().fault;
      EXPECT_EQ(Cluster(unplanted, schedule).run().fault, "") << "schedule " << schedule;
    }
    EXPECT_TRUE(is_finding(options.plant, fault)) << fault;
  }
}

// A simulator that finds nothing must be able to find something, and by the sentence that is meant to.
TEST(Cluster, FindsEachPlantedFaultByItsSentence) { expect_each_plant_is_found(SimOptions().correction_form); }

TEST(Cluster, FindsEachPlantedFaultOfAMemory) { expect_each_plant_is_found(CorrectionForm::kMemory); }

TEST(Cluster, ASentenceFindsItsOwnPlantsAlone) {
  const std::string sum = "version 3 is not what one server makes of its updates";
  EXPECT_TRUE(is_finding(ClusterPlant::kOtherSum, sum));
  EXPECT_FALSE(is_finding(ClusterPlant::kAckBeforeCommit, sum));
  EXPECT_FALSE(is_finding(ClusterPlant::kNone, sum));
  for (size_t i = 0; i < kClusterPlantCount; ++i) {
    EXPECT_FALSE(is_finding(static_cast<ClusterPlant>(i), ""));
    EXPECT_FALSE(is_finding(static_cast<ClusterPlant>(i), "the run does not come to its end: version 2 after 9 ms"));
  }
}

TEST(Cluster, RefusesWhatNodesCannotTrainTogether) {
  EXPECT_EQ(cluster_obstacle(SimOptions()), "");
  SimOptions options;
  options.correction_form = CorrectionForm::kMemory;
  EXPECT_EQ(cluster_obstacle(options), "");
  options.device_count = kClusterMemoryDevicesMax + 1;
  EXPECT_NE(cluster_obstacle(options).find("device_count"), std::string::npos);
  options = SimOptions();
  options.participation = Participation::kSchemeOne;
  EXPECT_NE(cluster_obstacle(options).find("participation"), std::string::npos);
  options = SimOptions();
  options.correction_form = CorrectionForm::kMemory;
  options.trust.clip_norm = ClipNorm::kTrailing;
  EXPECT_NE(cluster_obstacle(options).find("clip_norm"), std::string::npos);
  options = SimOptions();
  options.holds_pulls = true;
  EXPECT_NE(cluster_obstacle(options).find("--hold"), std::string::npos);
}

}  // namespace
}  // namespace gradstream
