#include "runtime/problem/network.h"

#include <cstring>

#include <gtest/gtest.h>

#include "runtime/problem/proximal_loss.h"
#include "runtime/training/estimator.h"
#include "tests/support/network_problem.h"

namespace gradstream {
namespace {

using Kind = LayerKind;
using Reals = std::vector<Real>;
using Net = NetworkCase;
constexpr TrainedForm kTrained = TrainedForm::kDense;
constexpr double kTolerance = sizeof(Real) == sizeof(double) ? 1e-12 : 2e-5;

// Frozen convolutions in front of a trained head.
void build_head(Net& net) {
  net.window(Kind::kConv2d, 3, 2, 1, 6, Activation::kRelu);
  net.quantize(true);
  net.window(Kind::kDepthwiseConv2d, 3, 1, 1, 6, Activation::kRelu6);
  net.window(Kind::kAveragePool, 2, 2, 0, 6);
  net.flatten();
  net.dense(3, Activation::kNone, kTrained);
}
void build_deep_head(Net& net) {
  net.dense(9, Activation::kRelu);
  net.dense(7, Activation::kRelu, kTrained);
  net.dense(6, Activation::kNone, kTrained);
  net.plain(Kind::kRelu6);
  net.flatten();
  net.dense(5, Activation::kNone, kTrained);
  net.dense(4, Activation::kNone, kTrained);
}
// Trained layers of all forms, frozen ones between them, a residual.
void build_mixed(Net& net) {
  net.window(Kind::kConv2d, 3, 1, 1, 4, Activation::kRelu);
  net.window(Kind::kConv2d, 3, 2, 1, 4, Activation::kRelu, kTrained);
  net.window(Kind::kDepthwiseConv2d, 3, 1, 1, 4, Activation::kNone, kTrained);
  net.plain(Kind::kAdd, 1);
  net.flatten();
  net.dense(6, Activation::kRelu, TrainedForm::kFactored, 2);
  net.dense(5, Activation::kRelu);
  net.dense(3, Activation::kNone, kTrained);
}
constexpr Volume kImage = {8, 8, 1};

TEST(Network, LossesAreThePlainFormulas) {
  for (const NetworkLoss loss : {NetworkLoss::kSoftmax, NetworkLoss::kSquaredError, NetworkLoss::kLogistic}) {
    for (const auto& build : {build_head, build_deep_head, build_mixed}) {
      const Net net(kImage, build, 6, loss);
      const double expected = net.plain_mean();
      EXPECT_NEAR(loss_at(net.problem_case, net.problem_case.x, net.problem_case.all()), expected,
                  kTolerance * (1 + expected));
    }
  }
}

TEST(Network, AnAutoencoderIsItsOwnTarget) {
  Net net(
      {1, 1, 5},
      [](Net& n) {
        n.dense(5, Activation::kRelu);
        n.dense(5, Activation::kNone, kTrained);
        n.network.scale = 0.5F;
        n.network.offset = 0.25F;
      },
      4, NetworkLoss::kSquaredError);
  for (uint32_t i = 0; i < 4; ++i) {
    Real* const row = net.samples->values.data() + i * 10;
    for (uint32_t c = 0; c < 5; ++c) row[5 + c] = row[c] * Real(0.5) + Real(0.25);
  }
  Reals inputs;
  for (uint32_t i = 0; i < 4; ++i) inputs.insert(inputs.end(), net.row(i), net.row(i) + 5);
  const TestSamples bare(4, 5, inputs);
  const NetworkSamples data = {&net.network, bare.source, 2};
  const ProblemCase own = {{&kNetworkOps, &data}, net.problem_case.shape, net.problem_case.x};
  EXPECT_EQ(kNetworkOps.check_shape(&data, own.shape), Status::kOk);
  EXPECT_EQ(loss_at(own, own.x, own.all()), loss_at(net.problem_case, own.x, own.all()));
  EXPECT_EQ(gradient_at(own, own.all()), gradient_at(net.problem_case, own.all()));
  expect_declared_memory(own);
  net.layers[0].trained = kTrained;  // no layer in front: the features are the inputs
  const uint32_t size = network_size(net.network);
  const ProblemCase whole = {{&kNetworkOps, &data}, {size, 1}, net.start()};
  const ProblemCase with_targets = {{&kNetworkOps, &net.data}, {size, 1}, net.start()};
  EXPECT_EQ(loss_at(whole, whole.x, whole.all()), loss_at(with_targets, whole.x, whole.all()));
}

// In float the step of the difference is so wide that it meets the corners of max(0, .): double alone.
#if defined(GS_REAL_DOUBLE)
TEST(Network, GradientIsTheDerivativeOverAnyBatch) {
  const uint16_t indices[] = {4, 0, 2};
  const auto fused = [](Net& net) {
    net.dense(6, Activation::kRelu6, kTrained);
    net.dense(4, Activation::kRelu, kTrained);
  };
  for (const NetworkLoss loss : {NetworkLoss::kSoftmax, NetworkLoss::kSquaredError, NetworkLoss::kLogistic}) {
    for (const Net::Build& build : {Net::Build(build_head), Net::Build(build_deep_head), Net::Build(fused)}) {
      const Net net(kImage, build, 6, loss);
      ASSERT_TRUE(is_network_head(net.network));
      for (const Batch batch : {net.problem_case.all(), Batch{indices, 3}, Batch{indices, 1}}) {
        expect_gradient_is_derivative(net.problem_case, batch);
      }
    }
  }
}
#endif

// Where nobody wants the gradients of layers, a head has its own, and another network takes less memory.
TEST(Network, WithoutGradientsOfLayersAHeadHasOne) {
  for (const auto& build : {build_head, build_mixed}) {
    Net net(kImage, build);
    const Shape shape = net.problem_case.shape;
    const size_t whole = kNetworkOps.scratch_size(&net.data, shape);
    const double loss = loss_at(net.problem_case, net.problem_case.x, net.problem_case.all());
    net.data.has_layer_gradients = false;
    const bool is_head = is_network_head(net.network);
    EXPECT_EQ(kNetworkOps.scratch_size(&net.data, shape) < whole, !is_head);
    EXPECT_EQ(loss_at(net.problem_case, net.problem_case.x, net.problem_case.all()), loss);
    TestArena memory;
    Reals g(shape.size());
    EXPECT_EQ(kNetworkOps.gradient(&net.data, shape, net.problem_case.x.data(), net.problem_case.all(), g.data(),
                                   memory.arena),
              is_head ? Status::kOk : Status::kInvalidArgument);
  }
}

// Refused before the first step, and behind a proximal term too.
TEST(Network, AFirstOrderEstimateWithoutAGradientIsRefused) {
  for (const auto& build : {build_head, build_mixed}) {
    for (const bool has_layer_gradients : {false, true}) {
      Net net(kImage, build);
      net.data.has_layer_gradients = has_layer_gradients;
      EstimatorParameters parameters;
      parameters.batch_mode = BatchMode::kAll;
      EstimateInput input;
      input.manifold = &kEuclideanOps;
      input.shape = net.problem_case.shape;
      input.problem = net.problem_case.problem;
      input.parameters = &parameters;
      const bool has_any = is_network_head(net.network) || has_layer_gradients;
      const Status expected = has_any ? Status::kOk : Status::kUnimplemented;
      EXPECT_EQ(kAnalyticGradientOps.check(input), expected);
      const ProximalLoss term = {input.problem, net.problem_case.x.data(), ProximalForm::kChordal, 1, 1};
      input.problem = {&kProximalLossOps, &term};
      EXPECT_EQ(kAnalyticGradientOps.check(input), expected);
      EXPECT_EQ(kProximalLossOps.kept_size(&term, input.shape, 5), kNetworkOps.kept_size(&net.data, input.shape, 5));
    }
  }
}

// ---- Statuses ------------------------------------------------------------------------------------------------------

TEST(Network, KeepsToItsMemoryAndItsStatuses) {
  for (const auto& build : {build_head, build_deep_head, build_mixed}) {
    Net net(kImage, build);
    expect_declared_memory(net.problem_case);
    expect_refuses_bad_samples(net.problem_case, *net.samples);
    const uint32_t most = network_score_count(net.network) - 1;
    for (const double bad : {static_cast<double>(most) + 1, -1.0, 0.5}) {
      expect_names_bad_value(net.problem_case, *net.samples, 3, 64, bad, most, "label");
    }
  }
  Net logistic(kImage, build_head, 6, NetworkLoss::kLogistic);
  expect_refuses_bad_samples(logistic.problem_case, *logistic.samples);
  expect_names_bad_value(logistic.problem_case, *logistic.samples, 2, 66, 2, 1, "label");
  Net squared(kImage, build_head, 6, NetworkLoss::kSquaredError);
  expect_refuses_bad_samples(squared.problem_case, *squared.samples);
}

TEST(Network, HasOnlyPointsAndSamplesOfItsOwn) {
  Net net(kImage, build_head);
  const uint32_t size = network_size(net.network);
  EXPECT_EQ(size, 24U * 3 + 3);
  EXPECT_EQ(kNetworkOps.check_shape(&net.data, {size / 3, 3}), Status::kOk);
  EXPECT_EQ(kNetworkOps.check_shape(&net.data, {size - 1, 1}), Status::kInvalidArgument);
  for (const uint32_t dimension : {64U, 66U, 0U}) {
    net.data.source.dimension = dimension;
    EXPECT_EQ(kNetworkOps.check_shape(&net.data, {size, 1}), Status::kInvalidArgument) << dimension;
  }
  net.data.source.dimension = 65;
  net.layers.back().trained = TrainedForm::kFrozen;
  EXPECT_EQ(kNetworkOps.check_shape(&net.data, {0, 0}), Status::kInvalidArgument) << "nothing is trained";
  net.layers.back().trained = kTrained;
  net.layers[1].out.height = 1;
  EXPECT_EQ(kNetworkOps.check_shape(&net.data, {size, 1}), Status::kInvalidArgument) << "a network with a fault";
  net.data.network = nullptr;
  EXPECT_EQ(kNetworkOps.check_shape(&net.data, {size, 1}), Status::kInvalidArgument);
}

TEST(Network, ALayerWithoutNumbersIsNotFinite) {
  for (const auto& build : {build_head, build_mixed}) {
    Net net(kImage, build);
    for (const Real bad : {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity()}) {
      for (const size_t count : {size_t{1}, net.problem_case.x.size()}) {
        Reals x = net.problem_case.x;
        std::fill(x.end() - static_cast<ptrdiff_t>(count), x.end(), bad);
        TestArena memory;
        EXPECT_EQ(kNetworkOps.loss(&net.data, net.problem_case.shape, x.data(), net.problem_case.all(), memory.arena)
                      .status(),
                  Status::kNotFinite);
      }
    }
  }
}

// ---- Features that are kept ----------------------------------------------------------------------------------------

struct KeptMemory {
  KeptMemory(const Net& net, uint32_t batch_size)
      : words(kNetworkOps.kept_size(&net.data, net.problem_case.shape, batch_size) / sizeof(uint64_t)) {}
  std::vector<uint64_t> words;
};

TEST(Network, KeptFeaturesChangeNoBitAndAreComputedOnce) {
  const uint16_t indices[] = {5, 1, 1, 4, 0};
  for (const uint32_t most : {0U, 1U, 3U, 5U, 100U}) {
    for (const auto& build : {build_head, build_deep_head, build_mixed}) {
      Net net(kImage, build);
      net.data.kept_sample_count_max = most;
      const Batch plain = {indices, 5};
      const double expected = loss_at(net.problem_case, net.problem_case.x, plain);
      KeptMemory memory(net, 5);
      Batch batch = plain;
      batch.kept = memory.words.empty() ? nullptr : memory.words.data();
      net.samples->read_count = 0;
      for (int i = 0; i < 4; ++i) EXPECT_EQ(loss_at(net.problem_case, net.problem_case.x, batch), expected);
      const uint32_t kept = std::min(most, 5U);
      EXPECT_EQ(net.samples->read_count, kept + 4 * (5 - kept));
      EXPECT_EQ(gradient_at(net.problem_case, batch), gradient_at(net.problem_case, plain));
      Reals other = net.problem_case.x;
      other[0] += 1;
      EXPECT_EQ(loss_at(net.problem_case, other, batch), loss_at(net.problem_case, other, plain));
    }
  }
}

TEST(Network, KeepsNothingWithoutLayersInFront) {
  const Net net({1, 1, 4}, [](Net& n) { n.dense(3, Activation::kNone, kTrained); });
  EXPECT_EQ(kNetworkOps.kept_size(&net.data, net.problem_case.shape, 32), 0U);
}

TEST(Network, MoreSamplesNeverKeepFewerBytes) {
  const Net net(kImage, build_head);
  size_t before = 0;
  for (uint32_t count = 0; count < 70; ++count) {
    const size_t size = kNetworkOps.kept_size(&net.data, net.problem_case.shape, count);
    EXPECT_GE(size, before);
    EXPECT_EQ(size % kArenaAlignment, 0U);
    before = size;
  }
  EXPECT_EQ(before, kNetworkOps.kept_size(&net.data, net.problem_case.shape, kKeptSampleCountMax));
}

// ---- At a displaced point ------------------------------------------------------------------------------------------

// x + distance u, u the numbers of a seed.
struct Shift {
  Shift(size_t size, uint32_t seed) : u(numbers(size, seed, 1)) {}
  static void add(const void* context, size_t offset, size_t count, Real* values) {
    const Shift& shift = *static_cast<const Shift*>(context);
    ASSERT_LE(offset + count, shift.u.size());
    for (size_t i = 0; i < count; ++i) values[i] += Real(0.01) * shift.u[offset + i];
  }
  Displacement displacement() const { return {this, add}; }
  Reals u;
};

// The loss where the point stands nowhere; the scratch of a batch size of `declared` is enough.
Real displaced_loss(const Net& net, const Shift& shift, Batch batch, uint32_t declared) {
  const Shape shape = net.problem_case.shape;
  TestArena memory(kNetworkOps.displaced_scratch_size(&net.data, shape, declared));
  const Result<Real> loss = kNetworkOps.loss_displaced(&net.data, shape, net.problem_case.x.data(),
                                                       shift.displacement(), batch, memory.arena);
  EXPECT_EQ(loss.status(), Status::kOk) << status_text(loss.status());
  return loss.ok() ? loss.value() : 0;
}

void build_dense(Net& net) {
  net.dense(40, Activation::kRelu, kTrained);
  net.dense(3, Activation::kNone, kTrained);
}

TEST(Network, ADisplacedPointHasTheBitsOfOneThatStands) {
  std::vector<uint16_t> indices;
  for (uint16_t i = 0; i < 60; ++i) indices.push_back(static_cast<uint16_t>(i * 7 % 60));
  for (const auto& build : {build_head, build_deep_head, build_mixed, build_dense}) {
    for (const uint32_t most : {0U, 9U, 100U}) {
      Net net(kImage, build, 60);
      net.data.kept_sample_count_max = most;
      const Shift shift(net.problem_case.x.size(), 5);
      Reals y = net.problem_case.x;
      Shift::add(&shift, 0, y.size(), y.data());
      for (const uint32_t count : {1U, 8U, 9U, 10U, 60U}) {
        Batch batch = {count == 60 ? nullptr : indices.data(), count};
        const Real expected = static_cast<Real>(loss_at(net.problem_case, y, batch));
        EXPECT_EQ(displaced_loss(net, shift, batch, count), expected);
        EXPECT_EQ(displaced_loss(net, shift, batch, 60), expected) << "memory for more";
        KeptMemory memory(net, count);
        batch.kept = memory.words.empty() ? nullptr : memory.words.data();
        for (int i = 0; i < 3; ++i) ASSERT_EQ(displaced_loss(net, shift, batch, count), expected) << count;
      }
    }
  }
}

TEST(Network, OfDenseLayersIsThePerceptronBitForBit) {
  for (const std::vector<uint16_t>& widths :
       {std::vector<uint16_t>{4, 3}, {4, 5, 3}, {64, 16, 10}, {64, 32, 10}, {6, 3, 3, 3, 4}}) {
    const Net net(
        {1, 1, widths[0]},
        [&](Net& n) {
          for (size_t i = 1; i < widths.size(); ++i) {
            n.dense(widths[i], i + 1 < widths.size() ? Activation::kRelu : Activation::kNone, kTrained);
          }
        },
        9);
    const NetworkData data = {net.samples->source, widths.data(), static_cast<uint32_t>(widths.size())};
    const ProblemCase perceptron = {{&kPerceptronOps, &data}, net.problem_case.shape, net.problem_case.x};
    ASSERT_EQ(kPerceptronOps.check_shape(&data, perceptron.shape), Status::kOk);
    EXPECT_EQ(loss_at(net.problem_case, perceptron.x, perceptron.all()),
              loss_at(perceptron, perceptron.x, perceptron.all()));
    EXPECT_EQ(gradient_at(net.problem_case, perceptron.all()), gradient_at(perceptron, perceptron.all()));
    const Shift shift(perceptron.x.size(), 5);
    TestArena memory;
    EXPECT_EQ(displaced_loss(net, shift, perceptron.all(), 9),
              kPerceptronOps
                  .loss_displaced(&data, perceptron.shape, perceptron.x.data(), shift.displacement(), perceptron.all(),
                                  memory.arena)
                  .value());
  }
}

// A row is read once for a group, and not once a sample.
TEST(Network, ADisplacedRowServesManySamples) {
  const Net net(kImage, build_dense, 32);
  struct Counter {
    uint64_t values = 0;
  } counter;
  const Displacement displacement = {&counter, [](const void* context, size_t, size_t count, Real*) {
                                       static_cast<Counter*>(const_cast<void*>(context))->values += count;
                                     }};
  TestArena memory;
  EXPECT_TRUE(kNetworkOps
                  .loss_displaced(&net.data, net.problem_case.shape, net.problem_case.x.data(), displacement,
                                  net.problem_case.all(), memory.arena)
                  .ok());
  EXPECT_LE(counter.values, 6 * net.problem_case.x.size()) << "of 32 samples";
}

// ---- Slices --------------------------------------------------------------------------------------------------------

// An evaluation in calls of `units` each, the first of which has `first`; between them others use the arena.
struct Sliced {
  Sliced(const Net& given, uint32_t first_units, uint32_t units_each, void* kept_memory)
      : net(given), first(first_units), units(units_each), batch(given.problem_case.all()) {
    batch.kept = kept_memory;
    batch.progress = &progress;
  }
  template <typename Call>
  Status run(Call call) {
    TestArena memory;
    progress = {};
    Status status = Status::kUnfinished;
    for (calls = 0; status == Status::kUnfinished; ++calls) {
      progress.units_left = calls == 0 ? first : units;
      if (calls > 0) memory.arena.resume_scratch();
      {
        ScratchScope scope(memory.arena);
        status = call(memory.arena);
      }
      if (status != Status::kUnfinished) break;
      memory.arena.suspend_scratch();
      ScratchScope scope(memory.arena);
      const Result<uint8_t*> rest = memory.arena.scratch<uint8_t>(memory.arena.free_size() / 8 * 8);
      EXPECT_TRUE(rest.ok());
      std::memset(rest.value(), 0xa5, memory.arena.size() / 16);
    }
    return status;
  }
  Real loss() {
    Real value = 0;
    EXPECT_EQ(run([&](Arena& arena) {
                const Result<Real> result =
                    kNetworkOps.loss(&net.data, net.problem_case.shape, net.problem_case.x.data(), batch, arena);
                value = result.ok() ? result.value() : 0;
                return result.status();
              }),
              Status::kOk);
    return value;
  }
  Real displaced(const Shift& shift) {
    Real value = 0;
    EXPECT_EQ(run([&](Arena& arena) {
                const Result<Real> result = kNetworkOps.loss_displaced(
                    &net.data, net.problem_case.shape, net.problem_case.x.data(), shift.displacement(), batch, arena);
                value = result.ok() ? result.value() : 0;
                return result.status();
              }),
              Status::kOk);
    return value;
  }
  Reals gradient() {
    Reals out(net.problem_case.shape.size(), Real(99));
    EXPECT_EQ(run([&](Arena& arena) {
                return kNetworkOps.gradient(&net.data, net.problem_case.shape, net.problem_case.x.data(), batch,
                                            out.data(), arena);
              }),
              Status::kOk);
    return out;
  }
  const Net& net;
  uint32_t first;
  uint32_t units;
  Batch batch;
  EvaluationProgress progress = {};
  uint32_t calls = 0;
};

TEST(Network, SlicesAtEveryPositionAreTheWhole) {
  for (const auto& build : {build_head, build_deep_head, build_mixed}) {
    Net net(kImage, build, 4);
    net.data.kept_sample_count_max = 3;
    const double loss = loss_at(net.problem_case, net.problem_case.x, net.problem_case.all());
    const Reals gradient = gradient_at(net.problem_case, net.problem_case.all());
    const Shift shift(net.problem_case.x.size(), 5);
    const Real displaced = displaced_loss(net, shift, net.problem_case.all(), 4);
    Sliced by_one(net, 1, 1, nullptr);
    EXPECT_EQ(by_one.loss(), static_cast<Real>(loss));
    EXPECT_GE(by_one.calls, 4U * net.network.layer_count) << "cut inside a sample";
    for (uint32_t first = 0; first < 60; ++first) {
      for (const bool keeps : {false, true}) {
        KeptMemory memory(net, 4);
        Sliced sliced(net, first, first % 2 == 0 ? EvaluationProgress::kNoLimit : 3,
                      keeps ? memory.words.data() : nullptr);
        ASSERT_EQ(sliced.loss(), static_cast<Real>(loss)) << first;
        ASSERT_EQ(sliced.displaced(shift), displaced) << first;
        ASSERT_EQ(sliced.gradient(), gradient) << first;
      }
    }
  }
}

// ---- Behind an estimator -------------------------------------------------------------------------------------------

EstimateInput input_of(const Net& net, const EstimatorParameters& parameters) {
  EstimateInput input;
  input.manifold = &kEuclideanOps;
  input.shape = net.problem_case.shape;
  input.problem = net.problem_case.problem;
  input.parameters = &parameters;
  input.z = net.problem_case.x.data();
  return input;
}

TEST(Network, AnEstimateReadsEachSampleOfItsBatchOnce) {
  Net net(kImage, build_head, 20);
  for (const BatchMode mode : {BatchMode::kAll, BatchMode::kCommon}) {
    for (const EstimatorOps* const ops : kAllEstimators) {
      EstimatorParameters parameters;
      parameters.batch_mode = mode;
      parameters.batch_size = 7;
      parameters.smoothing = Real(0.01);
      parameters.directions.direction_count = 9;
      EstimateInput input = input_of(net, parameters);
      ASSERT_EQ(ops->check(input), Status::kOk) << ops->name;
      Reals g(input.shape.size()), scalars(9);
      Real loss = 0;
      TestArena memory(ops->scratch_size(input));
      net.samples->read_count = 0;
      ASSERT_EQ(ops->estimate(input, scalars.data(), g.data(), &loss, memory.arena), Status::kOk) << ops->name;
      EXPECT_EQ(net.samples->read_count, mode == BatchMode::kAll ? 20U : 7U) << ops->name;

      net.data.kept_sample_count_max = 0;
      Reals unkept(input.shape.size());
      ASSERT_EQ(ops->estimate(input, scalars.data(), unkept.data(), &loss, memory.arena), Status::kOk);
      EXPECT_EQ(unkept, g) << ops->name;
      net.data.kept_sample_count_max = kKeptSampleCountMax;
    }
  }
}

// New samples between two estimates, in the same memory: no feature of the old ones is left.
TEST(Network, ASampleThatChangedHasNewFeatures) {
  Net net(kImage, build_head, 8);
  EstimatorParameters parameters;
  parameters.batch_mode = BatchMode::kAll;
  parameters.smoothing = Real(0.01);
  parameters.directions.direction_count = 3;
  const EstimateInput input = input_of(net, parameters);
  TestArena shared;
  Reals g(input.shape.size()), scalars(3);
  Real loss = 0;
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(kProjectionOneSidedOps.estimate(input, scalars.data(), g.data(), &loss, shared.arena), Status::kOk);
    EXPECT_EQ(loss, static_cast<Real>(loss_at(net.problem_case, net.problem_case.x, net.problem_case.all())));
    for (uint32_t i = 0; i < 64; ++i) net.samples->values[3 * 65 + i] += Real(0.5);
  }
}

}  // namespace
}  // namespace gradstream
