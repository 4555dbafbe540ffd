// Values share a workspace, and never while one of them is still needed.
#include "runtime/problem/network_stage.h"

#include <gtest/gtest.h>

#include "tests/support/network_support.h"

namespace gradstream {
namespace {

using Kind = LayerKind;

Stage all_of(const TestNetwork& net) { return {&net.network, 0, net.network.layer_count, false, false}; }

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
  EXPECT_EQ(size.row, 2U * 9 * 4) << "what the windows of a row see";
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
  const StageSize size = plan_stage({&net.network, 0, 6, true, false}, places);
  EXPECT_EQ(size.values, 18U);
  EXPECT_EQ(size.weights, 7U);
  EXPECT_EQ(places[1], places[0]);
}

// The network of keyword spotting on microcontrollers: 49 x 10 values, 64 maps of 25 x 5. Depthwise and pointwise
// layers write over their input, so that it takes one volume and not two.
void build_keywords(TestNetwork& net) {
  Layer first;
  first.kind = Kind::kConv2d;
  first.activation = Activation::kRelu;
  first.kernel_height = 10;
  first.kernel_width = 4;
  first.stride_height = first.stride_width = 2;
  first.pad_top = 4;
  first.pad_left = 1;
  first.out = {25, 5, 64};
  net.fill(net.add(first));
  net.quantize(true);
  for (int block = 0; block < 4; ++block) {
    net.window(Kind::kDepthwiseConv2d, 3, 1, 1, 64, Activation::kRelu);
    net.quantize(true);
    net.window(Kind::kConv2d, 1, 1, 0, 64, Activation::kRelu);
    net.quantize(true);
  }
  net.window(Kind::kAveragePool, 25, 1, 0, 64).out = {1, 1, 64};
  net.layers.back().kernel_width = 5;
}

TEST(NetworkStage, ConvolutionsOfOneSampleWriteOverTheirInput) {
  TestNetwork net({49, 10, 1});
  build_keywords(net);
  net.network.loss = NetworkLoss::kSquaredError;
  ASSERT_EQ(check_network(net.network).code, NetworkFaultCode::kNone);
  Stage stage = all_of(net);
  uint32_t places[10];
  EXPECT_EQ(plan_stage(stage, places).values, 16000U);
  stage.is_single = true;
  const StageSize single = plan_stage(stage, places);
  EXPECT_EQ(single.values, 8064U);
  EXPECT_EQ(single.row, 320U) << "a row of all maps; the first layer gathers 200 values";
  EXPECT_EQ(network_scratch_size(net.network), 10 * sizeof(uint32_t) + (490 + 8064 + 320) * sizeof(Real)) << "35 KB";
}

// The values of a stage in calls of so many units.
std::vector<Real> run_in_units(const Stage& stage, const std::vector<Real>& inputs, uint32_t units, uint32_t* calls) {
  std::vector<uint32_t> places(stage.end);
  const StageSize size = plan_stage(stage, places.data());
  std::vector<Real> values(size.values), row(size.row);
  const SampleValues in = {inputs.data(), inputs.size()};
  StageMemory memory;
  memory.places = places.data();
  memory.values = values.data();
  memory.row = row.data();
  EvaluationProgress progress = {};
  Status status = Status::kUnfinished;
  for (*calls = 0; status == Status::kUnfinished; ++*calls) {
    progress.units_left = units;
    Pieces pieces(progress);
    status = run_stage(stage, memory, 1, in, nullptr, nullptr, pieces);
  }
  EXPECT_EQ(status, Status::kOk);
  const Real* const out = stage_values(stage, memory, 1, in, stage.end).values;
  return std::vector<Real>(out, out + network_score_count(*stage.network));
}

// A stage that is cut between any two pieces goes on where it was, and has the same bits wherever its values stand.
TEST(NetworkStage, PiecesGoOnWhereTheyEnded) {
  TestNetwork plain({8, 8, 4});
  plain.window(Kind::kConv2d, 3, 1, 1, 40);
  plain.window(Kind::kDepthwiseConv2d, 3, 1, 1, 40, Activation::kRelu);
  plain.window(Kind::kConv2d, 1, 1, 0, 30);
  plain.dense(30, Activation::kRelu);
  plain.dense(4);
  TestNetwork keywords({49, 10, 1});
  build_keywords(keywords);
  for (const TestNetwork* const net : {&plain, &keywords}) {
    const std::vector<Real> inputs = numbers(net->network.in.size(), 9, 1);
    Stage stage = all_of(*net);
    uint32_t calls = 0;
    const std::vector<Real> whole = run_in_units(stage, inputs, EvaluationProgress::kNoLimit, &calls);
    EXPECT_EQ(calls, 1U);
    for (const bool is_single : {false, true}) {
      stage.is_single = is_single;
      for (const uint32_t units : {1U, 2U, 3U, 7U, 100U}) {
        EXPECT_EQ(run_in_units(stage, inputs, units, &calls), whole) << units << " units, single " << is_single;
        EXPECT_GT(units == 1 ? calls : 20, 19U);
      }
    }
  }
}

}  // namespace
}  // namespace gradstream
