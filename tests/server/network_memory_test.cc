#include "server/program/network_memory.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/support/gsn_bytes.h"

namespace gradstream {
namespace {

TEST(NetworkMemory, CountsModelFeaturesAndTheRest) {
  const SmallNetwork small;
  const NetworkMemory one = network_memory(small.network, 1, 1);
  EXPECT_EQ(one.model, network_size(small.network) * sizeof(Real));
  EXPECT_GT(one.scratch, 36 * sizeof(Real)) << "an image at least";
  EXPECT_GT(one.arena, one.scratch + 2 * one.model);
  EXPECT_GT(one.board_arena, one.model);
  EXPECT_LT(one.board_arena, one.arena);
  // The features of each sample, four numbers and the label, are kept for the batch.
  const NetworkMemory many = network_memory(small.network, 32, 32);
  EXPECT_EQ(many.model, one.model);
  EXPECT_GE(many.features, one.features + 30 * 5 * sizeof(Real));
  EXPECT_LT(many.features, one.features + 31 * 8 * sizeof(Real));
  EXPECT_GE(many.arena, one.arena + 30 * 5 * sizeof(Real));
}

// A board keeps the features of 32 samples, has records of its layers, and a list of the samples of a batch.
TEST(NetworkMemory, CountsWhatABoardTakes) {
  const SmallNetwork small;
  const NetworkMemory whole = network_memory(small.network, 32, 32);
  EXPECT_EQ(network_memory(small.network, 100, 100).features, whole.features);
  const NetworkMemory drawn = network_memory(small.network, 32, 1000);
  EXPECT_EQ(drawn.board_arena, whole.board_arena + 1000 * sizeof(uint16_t));
  EXPECT_EQ(drawn.board_arena_local, drawn.board_arena + drawn.model + 16 * 5 * sizeof(float));
  EXPECT_GT(whole.board_arena, whole.model + whole.features + 11 * 36);
  EXPECT_EQ(whole.board_arena_least, whole.board_arena - whole.features) << "each evaluation makes features anew";
  // Without layers in front there is nothing to give up.
  Network bare = small.network;
  bare.layers += 8;
  bare.layer_count = 3;
  bare.in = bare.layers[0].in;
  const NetworkMemory none = network_memory(bare, 32, 32);
  EXPECT_EQ(none.board_arena_least, none.board_arena);
}

TEST(NetworkMemory, TakesNoMemoryForWhatNoRunTrains) {
  std::vector<Layer> layers(kLayerCountMax);
  for (Layer& layer : layers) {
    layer.kind = LayerKind::kDense;
    layer.trained = TrainedForm::kDense;
    layer.in = layer.out = {1, 1, 4096};
  }
  Network network;
  network.in = layers[0].in;
  network.layers = layers.data();
  network.layer_count = kLayerCountMax;
  ASSERT_EQ(check_network(network).code, NetworkFaultCode::kNone);
  const NetworkMemory memory = network_memory(network, 32, 1000);
  EXPECT_GT(memory.model, uint64_t{1} << 32);
  EXPECT_EQ(memory.arena, 0U);
  EXPECT_EQ(memory.board_arena, 0U);
  EXPECT_EQ(memory.search_size, 0U) << "there is nothing to search";
}

TEST(NetworkMemory, KnowsLargeProductsAndWhereNoRunTakesThePoint) {
  Layer layer;
  layer.kind = LayerKind::kDense;
  layer.trained = TrainedForm::kDense;
  layer.in = {1, 1, 40000};
  layer.out = {1, 1, 40000};
  Network network;
  network.in = layer.in;
  network.layers = &layer;
  network.layer_count = 1;
  layer.out = {1, 1, 2};
  const NetworkMemory memory = network_memory(network, 1, 1);
  EXPECT_EQ(memory.model, 80002 * sizeof(Real));
  EXPECT_GT(memory.arena, 3 * memory.model) << "only a product takes so many numbers";
  layer.out = {1, 1, 420};  // above 2^24 numbers, the most that a product has
  EXPECT_EQ(network_memory(network, 1, 1).arena, 0U);
}

}  // namespace
}  // namespace gradstream
