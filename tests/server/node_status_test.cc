#include "server/cluster/node_status.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr uint64_t kNowMs = 50'000;

struct Example {
  Example() {
    view.run = node.run = 3;
    view.run_name = "cluster";
    view.run_state = gs_RunState_RUN_STATE_ACTIVE;
    view.has_version = true;
    view.version = node.version = 41;
    view.digest = 0x1234;
    view.round.wanted = 12;
    for (uint32_t version = 40; version <= 41; ++version) {
      WatchedRound round;
      round.summary.version = version;
      round.summary.has_losses = false;
      view.rounds.push_back(round);
    }
    node.node = "node-1";
    node.release = "0.9.0";
    node.is_connected = true;
    node.front.batches = 6;
    cluster.read_ms = kNowMs - 700;
    cluster.took_ms = 3;
    cluster.run.run = 3;
    cluster.run.open_version = 41;
    cluster.run.leader = "node-2";
    cluster.run.term = 4;
    cluster.run.lease_ms = 2400;
    cluster.run.on_time_count = 7;
    cluster.run.late_count = 1;
    cluster.run.nodes = {{"node-1", "0.9.0", 600, 2, 7, 41}, {"node-2", "", UINT64_MAX, 3, 11, 41}};
  }
  nlohmann::json status(const ClusterReading* reading, uint32_t after = 0) {
    node.run_view = std::make_shared<const WatchSnapshot>(view);
    return nlohmann::json::parse(node_status_json(node, reading, HttpCounters(), after, kNowMs));
  }
  std::vector<std::string> needs(const ClusterReading* reading) {
    node.run_view = std::make_shared<const WatchSnapshot>(view);
    std::vector<std::string> ids;
    for (const Attention& one : node_attention(node, reading, kNowMs)) {
      ids.push_back(one.id);
    }
    return ids;
  }
  WatchSnapshot view;
  NodeSnapshot node;
  ClusterReading cluster;
};

TEST(NodeStatus, TheKeysOfASingleServerMeanTheSame) {
  const nlohmann::json status = Example().status(nullptr);
  EXPECT_EQ(status["ready"], true);
  EXPECT_EQ(status["run"]["number"], 3);
  EXPECT_EQ(status["run"]["name"], "cluster");
  EXPECT_EQ(status["run"]["version"], 41);
  EXPECT_EQ(status["run"]["state"], "active");
  EXPECT_EQ(status["run"]["round"]["wanted"], 12);
  EXPECT_TRUE(status["run"]["quality"].is_null());
  EXPECT_EQ(status["counters"]["batches_committed"], 6);
  EXPECT_EQ(status["rounds"].size(), 2U);
  EXPECT_TRUE(status["rounds"][0]["loss_before"].is_null());
  EXPECT_EQ(Example().status(nullptr, 40)["rounds"].size(), 1U);
}

TEST(NodeStatus, TheClusterIsNullUntilItWasRead) {
  Example example;
  EXPECT_TRUE(example.status(nullptr)["cluster"].is_null());
  ClusterReading failed;
  failed.trouble = "It is away.";
  EXPECT_TRUE(example.status(&failed)["cluster"].is_null());
}

TEST(NodeStatus, AllNodesAreThereAndOneLeads) {
  Example example;
  const nlohmann::json status = example.status(&example.cluster);
  EXPECT_EQ(status["node"]["name"], "node-1");
  EXPECT_EQ(status["node"]["release"], "0.9.0");
  EXPECT_EQ(status["node"]["leads"], false);
  const nlohmann::json& cluster = status["cluster"];
  EXPECT_EQ(cluster["age_ms"], 700);
  EXPECT_EQ(cluster["lease_ms"], 1700) << "of now";
  EXPECT_EQ(cluster["leader"], "node-2");
  EXPECT_EQ(cluster["term"], 4);
  ASSERT_EQ(cluster["nodes"].size(), 2U);
  EXPECT_EQ(cluster["nodes"][0]["seen_ms"], 1300) << "of now";
  EXPECT_EQ(cluster["nodes"][0]["leads"], false);
  EXPECT_TRUE(cluster["nodes"][1]["seen_ms"].is_null());
  EXPECT_EQ(cluster["nodes"][1]["leads"], true);
  example.cluster.run.lease_ms = 0;
  EXPECT_EQ(example.status(&example.cluster)["cluster"]["nodes"][1]["leads"], false) << "its lease is over";
}

// While the engine is away, nothing else is read.
TEST(NodeStatus, ALeaseRunsOutAsTheReadingAges) {
  Example example;
  example.cluster.read_ms = kNowMs - example.cluster.run.lease_ms + 1;
  nlohmann::json cluster = example.status(&example.cluster)["cluster"];
  EXPECT_EQ(cluster["lease_ms"], 1);
  EXPECT_EQ(cluster["nodes"][1]["leads"], true);
  example.cluster.read_ms = 1;
  cluster = example.status(&example.cluster)["cluster"];
  EXPECT_EQ(cluster["lease_ms"], 0);
  EXPECT_EQ(cluster["nodes"][1]["leads"], false);
  EXPECT_EQ(cluster["nodes"][0]["seen_ms"], 600 + kNowMs - 1);
  EXPECT_TRUE(cluster["nodes"][1]["seen_ms"].is_null()) << "never is never";
  EXPECT_TRUE(example.needs(&example.cluster).empty()) << "a leader may have renewed it";
}

TEST(NodeStatus, AnOldReadingDoesNotSayThatNobodyLeads) {
  Example example;
  example.cluster.run.lease_ms = 0;
  example.cluster.read_ms = kNowMs - kLookStaleMs;
  EXPECT_EQ(example.needs(&example.cluster), std::vector<std::string>{"nobody_leads"});
  --example.cluster.read_ms;
  EXPECT_TRUE(example.needs(&example.cluster).empty());
}

TEST(NodeStatus, AnswersAreThoseOfTheVersionThatStandsHere) {
  Example example;
  EXPECT_EQ(example.status(&example.cluster)["run"]["round"]["answers"], 7);
  EXPECT_EQ(example.status(&example.cluster)["run"]["round"]["late"], 1);
  example.cluster.run.open_version = 42;
  EXPECT_TRUE(example.status(&example.cluster)["run"]["round"]["answers"].is_null());
  EXPECT_TRUE(example.status(&example.cluster)["run"]["round"]["late"].is_null());
  EXPECT_TRUE(example.status(nullptr)["run"]["round"]["answers"].is_null()) << "nobody has said it";
}

TEST(NodeStatus, WhatStopsIsSaidWithItsRemedy) {
  Example example;
  EXPECT_TRUE(example.needs(&example.cluster).empty());
  example.cluster.run.lease_ms = 0;
  EXPECT_EQ(example.needs(&example.cluster), std::vector<std::string>{"nobody_leads"});
  for (const gs_RunState state : {gs_RunState_RUN_STATE_FINISHED, gs_RunState_RUN_STATE_STOPPED}) {
    example.view.run_state = state;
    EXPECT_TRUE(example.needs(&example.cluster).empty()) << "a run that is over has nobody to lead it";
  }
  example.node.is_connected = false;
  example.node.engine_trouble = "It refuses.";
  example.node.is_in_trouble = true;
  example.node.not_ready = "Damaged.";
  EXPECT_EQ(example.needs(nullptr), (std::vector<std::string>{"node_trouble", "engine_away"}));
  const nlohmann::json needs = example.status(nullptr)["attention"];
  EXPECT_THAT(needs[0]["remedy"].get<std::string>(), HasSubstr("Damaged."));
  EXPECT_EQ(needs[1]["level"], "stops");
  EXPECT_THAT(needs[1]["text"].get<std::string>(), HasSubstr("It refuses."));
}

}  // namespace
}  // namespace gradstream
