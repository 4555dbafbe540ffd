#include "server/program/network_memory.h"

#include <gtest/gtest.h>

#include "tests/support/gsn_bytes.h"

namespace gradstream {
namespace {

TEST(NetworkMemory, CountsModelFeaturesAndTheRest) {
  const SmallNetwork small;
  const NetworkMemory one = network_memory(small.network, 1);
  EXPECT_EQ(one.model, network_size(small.network) * sizeof(Real));
  EXPECT_GT(one.scratch, 36 * sizeof(Real)) << "an image at least";
  EXPECT_GT(one.arena, one.scratch + 2 * one.model);
  EXPECT_GT(one.board_arena, one.model);
  EXPECT_LT(one.board_arena, one.arena);
  // The features of each sample, four numbers and the label, are kept for the batch.
  const NetworkMemory many = network_memory(small.network, 33);
  EXPECT_EQ(many.model, one.model);
  EXPECT_GE(many.features, one.features + 32 * 5 * sizeof(Real));
  EXPECT_LT(many.features, one.features + 32 * 8 * sizeof(Real));
  EXPECT_GE(many.arena, one.arena + 32 * 5 * sizeof(Real));
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
  const NetworkMemory memory = network_memory(network, 1);
  EXPECT_EQ(memory.model, 80002 * sizeof(Real));
  EXPECT_GT(memory.arena, 3 * memory.model) << "only a product takes so many numbers";
  layer.out = {1, 1, 420};  // above 2^24 numbers, the most that a product has
  EXPECT_EQ(network_memory(network, 1).arena, 0U);
}

}  // namespace
}  // namespace gradstream
