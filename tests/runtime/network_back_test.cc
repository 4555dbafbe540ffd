// Back through each kind of layer, against numbers worked out by hand.
#include "runtime/problem/network_back.h"

#include <gtest/gtest.h>

#include "tests/support/network_support.h"

namespace gradstream {
namespace {

using Kind = LayerKind;
using Reals = std::vector<Real>;

// The last layer of a network, with what it read and the error at its output.
struct Back {
  Back(const TestNetwork& net, Reals read, Reals at_output)
      : layer(net.layers.back()), in(std::move(read)), error(std::move(at_output)), work(layer_back_size(layer)) {
    EXPECT_EQ(in.size(), layer.in.size());
    EXPECT_EQ(error.size(), layer.out.size());
    back.layer = &layer;
    back.in = in.data();
    back.error = error.data();
    back.work = work.data();
  }
  Back& train(const Reals& x) {
    numbers = x;
    gradient.assign(x.size(), 0);
    back.x = numbers.data();
    back.gradient = gradient.data();
    return *this;
  }
  // The error takes the place of what the layer read.
  Reals run() {
    back.back = in.data();
    for (uint32_t piece = 0; piece < layer_back_piece_count(layer); ++piece) run_back_piece(back, piece);
    return in;
  }
  Layer layer;
  Reals in, error, work, numbers, gradient;
  LayerBack back;
};

constexpr TrainedForm kTrained = TrainedForm::kDense;

TEST(NetworkBack, DenseByHand) {
  TestNetwork net({1, 1, 2});
  net.dense(3, Activation::kNone, kTrained);
  Back back(net, {2, -1}, {1, 10, 100});
  EXPECT_EQ(back.train({1, 2, 3, 4, 5, 6, 0, 0, 0}).run(), (Reals{321, 654}));
  EXPECT_EQ(back.gradient, (Reals{2, 20, 200, -1, -10, -100, 1, 10, 100}));
  Back behind(net, {2, 0}, {1, 10, 100});  // what max(0, .) made
  behind.back.passage.take(Activation::kRelu);
  EXPECT_EQ(behind.train({1, 2, 3, 4, 5, 6, 0, 0, 0}).run(), (Reals{321, 0}));
  const Reals from_above = {1000, 2000};
  Back joined(net, {6, 1}, {1, 10, 100});
  joined.back.passage.take(Activation::kRelu6);
  joined.back.brought = from_above.data();
  EXPECT_EQ(joined.train({1, 2, 3, 4, 5, 6, 0, 0, 0}).run(), (Reals{0, 2654}));
}

TEST(NetworkBack, FrozenInt8ByHand) {
  const int8_t weights[] = {1, 2, 3, 4, -5, 6};
  const float scales[] = {0.5F, 2, 1};
  TestNetwork net({1, 1, 2});
  Layer& layer = net.dense(3);
  layer.form = WeightForm::kInt8PerChannel;
  layer.weights = weights;
  layer.scales = scales;
  EXPECT_EQ(Back(net, {1, 1}, {2, 10, 100}).run(), (Reals{1 + 40 + 300, 4 - 100 + 600}));
  TestNetwork maps({1, 2, 1});
  Layer& windows = maps.window(Kind::kConv2d, 1, 1, 0, 3);
  windows.form = WeightForm::kInt8PerChannel;
  windows.weights = weights;
  windows.scales = scales;
  EXPECT_EQ(Back(maps, {1, 1}, {2, 4, 10, 20, 1, 1}).run(), (Reals{1 + 40 + 3, 2 + 80 + 3}));
}

TEST(NetworkBack, FactorsByHand) {
  TestNetwork net({1, 1, 2});
  net.dense(3, Activation::kNone, TrainedForm::kFactored, 1);
  // U = (1, 2), V = (1, 10, 100), S = 5; in U = 11, in U S = 55; the error behind V is 1 + 20 + 300.
  Back back(net, {3, 4}, {1, 2, 3});
  EXPECT_EQ(back.train({1, 2, 1, 10, 100, 5, 0, 0, 0}).run(), (Reals{1605, 3210}));
  EXPECT_EQ(back.gradient, (Reals{3 * 1605, 4 * 1605, 55, 110, 165, 11 * 321, 1, 2, 3}));
}

TEST(NetworkBack, ConvolutionsByHand) {
  TestNetwork net({3, 3, 1});
  net.window(Kind::kConv2d, 2, 1, 0, 1, Activation::kNone, kTrained);
  Back back(net, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 10, 100, 1000});
  EXPECT_EQ(back.train({1, 2, 3, 4, 0}).run(), (Reals{1, 12, 20, 103, 1234, 2040, 300, 3400, 4000}));
  EXPECT_EQ(back.gradient,
            (Reals{1 + 20 + 400 + 5000, 2 + 30 + 500 + 6000, 4 + 50 + 700 + 8000, 5 + 60 + 800 + 9000, 1111}));
  // A stride and a border: the window of the second output sees the last column alone.
  TestNetwork sparse({1, 3, 2});
  sparse.window(Kind::kDepthwiseConv2d, 1, 1, 0, 4, Activation::kNone, kTrained).stride_width = 2;
  sparse.layers[0].out.width = 2;
  Back apart(sparse, {1, 2, 3, 4, 5, 6}, {1, 10, 2, 20, 3, 30, 4, 40});
  EXPECT_EQ(apart.train({1, 2, 3, 4, 0, 0, 0, 0}).run(), (Reals{5, 0, 50, 25, 0, 250}));
  EXPECT_EQ(apart.gradient, (Reals{31, 62, 192, 256, 11, 22, 33, 44}));
}

TEST(NetworkBack, PoolsByHand) {
  TestNetwork most({3, 3, 1});
  most.window(Kind::kMaxPool, 2, 1, 0, 1);
  EXPECT_EQ(Back(most, {1, 2, 2, 4, 3, 4, 4, 4, 0}, {1, 10, 100, 1000}).run(), (Reals{0, 0, 0, 101, 0, 1010, 0, 0, 0}))
      << "the first of equal values";
  TestNetwork mean({3, 3, 1});
  mean.window(Kind::kAveragePool, 2, 2, 1, 1).out = {2, 2, 1};
  EXPECT_EQ(Back(mean, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 10, 100, 1000}).run(),
            (Reals{1, 5, 5, 50, 250, 250, 50, 250, 250}))
      << "the border has no part";
}

TEST(NetworkBack, AnAdditionByHand) {
  TestNetwork net({1, 1, 3});
  net.plain(Kind::kRelu);
  net.plain(Kind::kAdd, 0);
  Reals added = {0, 0, 7};
  Back back(net, {1, 2, 3}, {1, 10, 100});
  back.back.added = added.data();
  EXPECT_EQ(back.run(), (Reals{1, 10, 100}));
  EXPECT_EQ(added, (Reals{1, 10, 107}));
  Back twice(net, {1, 2, 3}, {1, 10, 100});  // x + x
  added = {0, 0, 0};
  twice.back.added = added.data();
  twice.back.brought = added.data();
  EXPECT_EQ(twice.run(), (Reals{2, 20, 200}));
}

TEST(NetworkBack, APieceIsBounded) {
  TestNetwork net({30, 30, 8});
  net.window(Kind::kConv2d, 3, 1, 1, 8);
  EXPECT_GE(layer_back_piece_count(net.layers.back()), 8U * 60 * 9 * 30 * 8 / kPieceWork);
  net.dense(100);
  EXPECT_GE(layer_back_piece_count(net.layers.back()), 7200U * 200 / kPieceWork);
}

}  // namespace
}  // namespace gradstream
