// The gradient of every trained layer behind any layer, for lists of layers that a seed draws.
#include "runtime/problem/network_stage_back.h"

#include <set>

#include <gtest/gtest.h>

#include "runtime/training/estimator.h"
#include "tests/support/network_problem.h"

namespace gradstream {
namespace {

using Kind = LayerKind;
using Reals = std::vector<Real>;

// Draws layers of all kinds, forms and activations. Additions take any earlier values of their volume, also twice.
struct Draw {
  explicit Draw(uint32_t given) : seed(given * 2654435761U) {}
  uint32_t below(uint32_t count) {
    seed = (seed * 1103515245U + 12345U) & 0x7fffffffU;
    return (seed >> 8) % count;
  }
  Activation activation() { return static_cast<Activation>(below(3)); }
  TrainedForm trained() { return below(5) < 3 ? TrainedForm::kDense : TrainedForm::kFrozen; }
  void make_frozen(NetworkCase& net) {
    if (net.layers.back().trained == TrainedForm::kFrozen && below(2) == 0) net.quantize(below(2) == 0);
  }
  void window(NetworkCase& net) {
    const Kind kind = static_cast<Kind>(2 + below(4));
    const Volume in = net.last();
    const auto kernel = static_cast<uint8_t>(1 + below(std::min({3U, uint32_t{in.height}, uint32_t{in.width}})));
    const auto pad = static_cast<uint8_t>(below(kernel));
    const auto stride = static_cast<uint8_t>(1 + below(3));
    const bool is_pool = kind == Kind::kMaxPool || kind == Kind::kAveragePool;
    const uint32_t more = kind == Kind::kDepthwiseConv2d ? in.channels * below(2) : 0;
    const uint32_t channels = kind == Kind::kConv2d ? 1 + below(3) : in.channels + more;
    net.window(kind, kernel, stride, pad, static_cast<uint16_t>(channels), activation(),
               is_pool ? TrainedForm::kFrozen : trained());
    if (!is_pool) make_frozen(net);
  }
  void dense(NetworkCase& net, uint16_t outputs) {
    const bool is_factored = below(3) == 0;
    const auto most = static_cast<uint32_t>(std::min<uint64_t>({3, net.last().size(), outputs}));
    const auto rank = static_cast<uint8_t>(is_factored ? 1 + below(most) : 0);
    net.dense(outputs, activation(), is_factored ? TrainedForm::kFactored : trained(), rank);
    make_frozen(net);
  }
  void add(NetworkCase& net) {
    std::vector<uint8_t> equal;
    if (net.network.in == net.last()) equal.push_back(kAddFromInput);
    for (uint8_t j = 0; j < net.layers.size(); ++j) {
      if (net.layers[j].out == net.last()) equal.push_back(j);
    }
    net.plain(Kind::kAdd, equal[below(static_cast<uint32_t>(equal.size()))]).activation = activation();
  }
  void layer(NetworkCase& net) {
    const uint32_t kind = below(10);
    if (kind < 4) return window(net);
    if (kind < 7 && !net.layers.empty()) return add(net);
    if (kind > 7) return dense(net, static_cast<uint16_t>(4 + below(3)));
    net.plain(below(2) == 0 ? Kind::kRelu : Kind::kRelu6);
  }
  void build(NetworkCase& net) {
    const uint32_t count = 3 + below(6);
    for (uint32_t k = 0; k < count; ++k) layer(net);
    if (below(2) == 0) net.flatten();
    dense(net, 3);
    net.layers[below(2) * (net.network.layer_count - 1)].activation = Activation::kNone;
    if (network_size(net.network) > 0) return;
    net.layers.back().trained = TrainedForm::kDense;
    net.layers.back().form = WeightForm::kFloat;
    net.fill(net.layers.back());
  }
  uint32_t seed;
};

constexpr NetworkLoss kLosses[] = {NetworkLoss::kSoftmax, NetworkLoss::kSquaredError, NetworkLoss::kLogistic};

NetworkCase drawn(uint32_t seed, uint32_t count) {
  return NetworkCase(
      {5, 4, 2}, [&](NetworkCase& net) { Draw(seed).build(net); }, count, kLosses[seed % 3]);
}
constexpr uint32_t kListCount = 60;

#if defined(GS_REAL_DOUBLE)
// Of a corner that a step crosses the difference is wrong at one step, and not at a smaller one as well.
double difference_at(const ProblemCase& c, size_t at, double expected) {
  double best = 1e300;
  for (const double step : {1e-5, 1e-6, 1e-7}) {
    double losses[2];
    for (const int side : {0, 1}) {
      Reals x = c.x;
      x[at] += side == 0 ? -step : step;
      losses[side] = loss_at(c, x, c.all());
    }
    const double found = (losses[1] - losses[0]) / (2 * step);
    best = std::fabs(found - expected) < std::fabs(best - expected) ? found : best;
    if (std::fabs(best - expected) < 1e-8 * (1 + std::fabs(expected))) break;
  }
  return best;
}

TEST(NetworkStageBack, GivesTheDerivativeForListsOfAllKinds) {
  std::set<std::pair<Kind, TrainedForm>> met;
  std::set<std::pair<Kind, WeightForm>> passed;  // behind a trained layer
  for (uint32_t seed = 1; seed <= kListCount; ++seed) {
    const NetworkCase net = drawn(seed, 3);
    const ProblemCase& c = net.problem_case;
    const Reals gradient = gradient_at(c, c.all());
    const double scale = 1 + std::fabs(loss_at(c, c.x, c.all()));
    for (size_t i = 0; i < gradient.size(); ++i) {
      ASSERT_NEAR(gradient[i], difference_at(c, i, gradient[i]), 1e-6 * scale) << "list " << seed << ", number " << i;
    }
    bool is_behind = false;
    for (const Layer& layer : net.layers) {
      met.emplace(layer.kind, layer.trained);
      if (is_behind) passed.emplace(layer.kind, layer.form);
      is_behind = is_behind || layer.trained != TrainedForm::kFrozen;
    }
  }
  EXPECT_EQ(met.size(), 9U + 4U) << "every kind frozen, the three that can be trained, and factors";
  EXPECT_EQ(passed.size(), 9U + 6U) << "an error goes back through every kind and form";
}
#endif

// What the loss and the gradient take is what they say, and the gradient in pieces is the whole.
TEST(NetworkStageBack, KeepsToItsMemoryAndMayBeCutAnywhere) {
  for (uint32_t seed = 1; seed <= kListCount; ++seed) {
    SCOPED_TRACE(seed);
    const NetworkCase net = drawn(seed, 2);
    const ProblemCase& c = net.problem_case;
    expect_declared_memory(c);
    const Reals expected = gradient_at(c, c.all());
    TestArena memory;
    Reals found(expected.size(), 1);
    EvaluationProgress progress = {};
    Batch batch = c.all();
    batch.progress = &progress;
    Status status = Status::kUnfinished;
    while (status == Status::kUnfinished) {
      memory.arena.resume_scratch();
      progress.units_left = 1;
      status = kNetworkOps.gradient(&net.data, c.shape, c.x.data(), batch, found.data(), memory.arena);
      if (status == Status::kUnfinished) memory.arena.suspend_scratch();
    }
    EXPECT_EQ(status, Status::kOk);
    EXPECT_EQ(found, expected);
  }
}

// A chain whose values are all kept; with a residual the error that it brings stands beside them.
TEST(NetworkStageBack, ThePlanCountsItsMemory) {
  TestNetwork net({4, 4, 2});
  net.window(Kind::kConv2d, 3, 1, 1, 2, Activation::kNone, TrainedForm::kDense);  // 32 values
  net.plain(Kind::kRelu);                                                         // in the same place
  net.window(Kind::kMaxPool, 3, 1, 1, 2);                                         // 32
  net.plain(Kind::kAdd, 1);                                                       // 32, and 32 that it brings
  net.dense(3);                                                                   // 3
  uint32_t places[5];
  const StageSize size = plan_stage({&net.network, 0, 5, true, false}, places);
  EXPECT_EQ(size.values, 99U);
  EXPECT_EQ(places[1], places[0]);
  EXPECT_EQ(size.errors, 32U);
  EXPECT_EQ(size.back, 16U) << "a map of the pool's input";
  net.layers[3].add_from = 0;
  const StageSize in_front = plan_stage({&net.network, 0, 5, true, false}, places);
  EXPECT_NE(places[1], places[0]) << "the addition wants what stands in front of max(0, .)";
  EXPECT_EQ(in_front.values, 131U);
  EXPECT_EQ(in_front.errors, 32U);
}

// Batches of gradients train what no head is: a convolution in front, a residual, a frozen int8 layer behind.
TEST(NetworkStageBack, AStepAgainstItLowersTheLoss) {
  NetworkCase net(
      {6, 6, 1},
      [](NetworkCase& n) {
        n.window(Kind::kConv2d, 3, 1, 1, 3, Activation::kRelu, TrainedForm::kDense);
        n.window(Kind::kDepthwiseConv2d, 3, 1, 1, 3, Activation::kNone, TrainedForm::kDense);
        n.plain(Kind::kAdd, 0).activation = Activation::kRelu;
        n.window(Kind::kAveragePool, 2, 2, 0, 3);
        n.dense(4);
        n.quantize(true);
        n.dense(3, Activation::kNone, TrainedForm::kDense);
      },
      9);
  ProblemCase& c = net.problem_case;
  double before = loss_at(c, c.x, c.all());
  const double first = before;
  for (int step = 0; step < 30; ++step) {
    const Reals g = gradient_at(c, c.all());
    for (size_t i = 0; i < g.size(); ++i) c.x[i] -= Real(0.02) * g[i];
    const double after = loss_at(c, c.x, c.all());
    EXPECT_LT(after, before);
    before = after;
  }
  EXPECT_LT(before, 0.8 * first);
}

}  // namespace
}  // namespace gradstream
