// Values share a workspace, and never while one of them is still needed.
#include "runtime/problem/network_stage.h"

#include <gtest/gtest.h>

#include "tests/support/network_support.h"

namespace gradstream {
namespace {

using Kind = LayerKind;

Stage all_of(const TestNetwork& net) { return {&net.network, 0, net.network.layer_count, false}; }

TEST(NetworkStage, AChainTakesItsTwoLargestNeighbours) {
  TestNetwork net({1, 1, 10});
  for (const uint16_t width : {20, 50, 5, 40, 8}) net.dense(width);
  uint32_t places[5];
  const StageSize size = plan_stage(all_of(net), places);
  EXPECT_EQ(size.values, 70U);
  EXPECT_EQ(size.row, 0U);
  EXPECT_EQ(size.weights, 0U) << "nothing is trained";
}

TEST(NetworkStage, ValueByValueLayersTakeNoPlaceOfTheirOwn) {
  TestNetwork net({4, 4, 2});
  net.window(Kind::kConv2d, 3, 1, 1, 3);
  net.plain(Kind::kRelu);
  net.plain(Kind::kAdd, 1);
  net.flatten();
  uint32_t places[4];
  const StageSize size = plan_stage(all_of(net), places);
  EXPECT_EQ(size.values, 48U);
  EXPECT_EQ(size.row, 4U);
  for (const uint32_t place : places) EXPECT_EQ(place, 0U);
}

TEST(NetworkStage, AResidualKeepsItsPlaceUntilItIsAdded) {
  TestNetwork net({1, 1, 8});
  net.dense(8);
  net.plain(Kind::kRelu);  // the sum below wants what it reads: not in its place
  net.dense(8);
  net.plain(Kind::kAdd, 0);
  net.dense(8);
  uint32_t places[5];
  EXPECT_EQ(plan_stage(all_of(net), places).values, 24U);
  EXPECT_NE(places[1], places[0]);
  EXPECT_EQ(places[3], places[2]) << "the sum takes the place of its input";
}

// Over random networks: no layer's output overlaps what it reads, or what a later one reads.
TEST(NetworkStage, NoPlaceIsTakenWhileItIsNeeded) {
  uint32_t seed = 1;
  const auto draw = [&](uint32_t count) {
    seed = (seed * 1103515245U + 12345U) & 0x7fffffffU;
    return (seed >> 8) % count;
  };
  for (int round = 0; round < 200; ++round) {
    TestNetwork net({1, 1, 6});
    for (uint32_t k = 0; k < 12; ++k) {
      const uint32_t kind = draw(4);
      if (kind == 0) net.plain(Kind::kRelu);
      if (kind == 1) net.dense(draw(2) == 0 ? 6 : 9);
      if (kind < 2) continue;
      std::vector<uint8_t> equal;
      for (uint8_t j = 0; j < k; ++j) {
        if (net.layers[j].out == net.last()) equal.push_back(j);
      }
      const bool has = !equal.empty();
      has ? net.plain(Kind::kAdd, equal[draw(static_cast<uint32_t>(equal.size()))]) : net.dense(6);
    }
    ASSERT_EQ(check_network(net.network, false).code,
              net.last().channels == 1 ? NetworkFaultCode::kScoreCount : NetworkFaultCode::kNone);
    uint32_t places[12];
    const StageSize size = plan_stage(all_of(net), places);
    std::vector<int> owner(size.values, -1);
    for (uint32_t k = 0; k < 12; ++k) {
      const Layer& layer = net.layers[k];
      const auto expect_stands = [&](uint32_t node) {
        for (uint32_t i = 0; i < net.layers[node].out.size(); ++i) {
          ASSERT_EQ(owner[places[node] + i], static_cast<int>(node)) << "layer " << k << " reads layer " << node;
        }
      };
      if (k > 0) expect_stands(k - 1);
      if (layer.kind == Kind::kAdd) expect_stands(layer.add_from);
      const bool is_over = k > 0 && places[k] == places[k - 1] && layer.kind != Kind::kDense;
      for (uint32_t i = 0; i < layer.out.size(); ++i) {
        const uint32_t at = places[k] + i;
        ASSERT_LT(at, size.values);
        ASSERT_TRUE(is_over || k == 0 || at < places[k - 1] || at >= places[k - 1] + net.layers[k - 1].out.size());
        owner[at] = static_cast<int>(k);
      }
    }
  }
}

TEST(NetworkStage, AHeadKeepsAllThatGoingBackReads) {
  TestNetwork net({1, 1, 4});
  for (const uint16_t width : {5, 6, 7}) {
    net.dense(width, Activation::kNone, TrainedForm::kDense);
    net.plain(Kind::kRelu);
  }
  uint32_t places[6];
  const StageSize size = plan_stage({&net.network, 0, 6, true}, places);
  EXPECT_EQ(size.values, 18U);
  EXPECT_EQ(size.weights, 7U);
  EXPECT_EQ(places[1], places[0]);
}

// A stage that is cut between any two pieces goes on where it was.
TEST(NetworkStage, PiecesGoOnWhereTheyEnded) {
  TestNetwork net({8, 8, 4});
  net.window(Kind::kConv2d, 3, 1, 1, 40);
  net.dense(30, Activation::kRelu);
  net.dense(4);
  const Stage stage = all_of(net);
  uint32_t places[3];
  const StageSize size = plan_stage(stage, places);
  const std::vector<Real> inputs = numbers(256, 9, 1);
  const SampleValues in = {inputs.data(), inputs.size()};
  const auto run = [&](uint32_t units) {
    std::vector<Real> values(size.values), row(size.row);
    StageMemory memory;
    memory.places = places;
    memory.values = values.data();
    memory.row = row.data();
    EvaluationProgress progress = {};
    uint32_t calls = 0;
    Status status = Status::kUnfinished;
    for (; status == Status::kUnfinished; ++calls) {
      progress.units_left = units;
      Pieces pieces(progress);
      status = run_stage(stage, memory, 1, in, nullptr, nullptr, pieces);
    }
    EXPECT_EQ(status, Status::kOk);
    EXPECT_GT(units == 1 ? calls : 5, 4U);
    const Real* const out = stage_values(stage, memory, 1, in, 3).values;
    return std::vector<Real>(out, out + 4);
  };
  const std::vector<Real> whole = run(EvaluationProgress::kNoLimit);
  for (const uint32_t units : {1U, 2U, 3U, 7U}) EXPECT_EQ(run(units), whole) << units;
}

}  // namespace
}  // namespace gradstream
