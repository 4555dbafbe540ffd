// The figures are NumPy's, in double, of the same numbers (numbers() of problem_checker.h).
#include <cstring>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/problem/problem.h"
#include "runtime/problem/weight_rows.h"
#include "tests/support/problem_checker.h"

namespace gradstream {
namespace {

struct Net {
  Net(std::vector<uint16_t> layer_widths, uint32_t sample_count, uint32_t seed)
      : widths(std::move(layer_widths)),
        samples(sample_count, widths[0] + 1U, rows(sample_count)),
        data{samples.source, widths.data(), static_cast<uint32_t>(widths.size())} {
    const uint32_t size = perceptron_size(widths.data(), data.width_count);
    problem_case = {{&kPerceptronOps, &data}, {size, 1}, numbers(size, seed, 2)};
  }
  std::vector<Real> rows(uint32_t count) const {
    const std::vector<Real> inputs = numbers(size_t{count} * widths[0], 1, 1);
    std::vector<Real> out;
    for (uint32_t i = 0; i < count; ++i) {
      out.insert(out.end(), inputs.begin() + i * widths[0], inputs.begin() + (i + 1) * widths[0]);
      out.push_back(static_cast<Real>(i % widths.back()));
    }
    return out;
  }
  std::vector<uint16_t> widths;
  TestSamples samples;
  NetworkData data;
  ProblemCase problem_case;
};

TEST(Perceptron, HasTheReferencesFigures) {
  const double one_layer[] = {0.018859821815262849,
                              -0.0016092384053544065,
                              0,
                              0,
                              0.011168996140896535,
                              -0.00095300887332033172,
                              0,
                              0,
                              -0.040927254292861398,
                              0.0034921702908390201,
                              0,
                              0,
                              -0.084658888356320933,
                              0.0072236278705109236,
                              0,
                              0,
                              0.00067503584020794807,
                              -0.0020989190025172614,
                              0.0014238831623093135,
                              0.009042442196854187,
                              -0.028116068252456796,
                              0.019073626055602606,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0,
                              -0.14814343756622306,
                              -0.18355917188614779,
                              0.33170260945237079};
  const double two_layers[] = {-0.0022449108153975396,
                               0.022163259843112255,
                               0,
                               0,
                               -0.0013294611412256636,
                               0.013125328864829361,
                               0,
                               0,
                               0.0048716279881401104,
                               -0.048095967207056917,
                               0,
                               0,
                               0.010077065199886086,
                               -0.099487522154197053,
                               0,
                               0,
                               0.0015491980732814904,
                               0,
                               0.020752281871152738,
                               0,
                               0,
                               0,
                               0,
                               0,
                               0.050547464741520456,
                               0.011132595210266355,
                               0.013572867215773211,
                               -0.0008986646867626541,
                               -0.012674202529010532,
                               -0.00027194526298925147,
                               0.00083792957449572352,
                               -0.0005659843115064714,
                               0.063297587218639997,
                               -0.046482619832694874,
                               -0.016814967385945075};
  expect_golden(Net({3, 4, 3}, 5, 2).problem_case, 1.2902356580756928, one_layer);
  expect_golden(Net({3, 4, 2, 3}, 5, 2).problem_case, 1.0472760930232474, two_layers);
}

TEST(Perceptron, TheNetworkOfDigitsHasTheReferencesFigures) {
  const Net net({64, 32, 10}, 6, 3);
  const ProblemCase& c = net.problem_case;
  EXPECT_EQ(c.shape.rows, 2410U);
  EXPECT_NEAR(loss_at(c, c.x, c.all()), 7.967181791783221, 1e-5);
  const std::vector<Real> gradient = gradient_at(c, c.all());
  EXPECT_NEAR(norm2(gradient.size(), gradient.data()), 5.9312584302600015, 1e-5);
  EXPECT_NEAR(gradient[0], -0.10725340317318492, 1e-6);
  EXPECT_NEAR(gradient[1000], -0.02007849323354696, 1e-6);
  EXPECT_NEAR(gradient[2200], 0.00395795740782733, 1e-6);
  EXPECT_NEAR(gradient[2409], 0.8457577675463825, 1e-6);
}

// In float the step of the difference is so wide that it meets the corners of max(0, .): double alone.
#if defined(GS_REAL_DOUBLE)
TEST(Perceptron, GradientIsTheDerivativeOverAnyBatch) {
  const uint16_t indices[] = {4, 0, 2};
  for (const std::vector<uint16_t>& widths :
       {std::vector<uint16_t>{4, 3}, {4, 5, 3}, {4, 5, 6, 2}, {2, 3, 3, 3, 4}, {64, 32, 10}}) {
    const Net net(widths, 6, 5);
    for (const Batch batch : {net.problem_case.all(), Batch{indices, 3}, Batch{indices, 1}}) {
      expect_gradient_is_derivative(net.problem_case, batch);
    }
  }
}
#endif

// A network without hidden layers is softmax regression on (inputs, 1).
TEST(Perceptron, WithoutHiddenLayersIsLogisticRegression) {
  const Net net({4, 3}, 6, 7);
  std::vector<Real> rows;
  for (uint32_t i = 0; i < 6; ++i) {
    const Real* const row = net.samples.values.data() + i * 5;
    rows.insert(rows.end(), {row[0], row[1], row[2], row[3], 1, row[4]});
  }
  const TestSamples samples(6, 6, rows);
  const ProblemCase flat = {{&kLogisticOps, &samples.source}, {5, 3}, net.problem_case.x};
  EXPECT_NEAR(loss_at(net.problem_case, net.problem_case.x, net.problem_case.all()), loss_at(flat, flat.x, flat.all()),
              1e-6);
  const std::vector<Real> expected = gradient_at(flat, flat.all());
  const std::vector<Real> found = gradient_at(net.problem_case, net.problem_case.all());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-6);
  }
}

TEST(Perceptron, KeepsToItsMemoryAndItsStatuses) {
  Net net({64, 32, 10}, 6, 3);
  expect_declared_memory(net.problem_case);
  expect_refuses_bad_samples(net.problem_case, net.samples);
  expect_names_bad_value(net.problem_case, net.samples, 3, 64, 10, 9, "label");
  net.samples.values[64] = static_cast<Real>(2.5);
  EXPECT_EQ(kPerceptronOps.check_shape(&net.data, {2410, 1}), Status::kOk);
  TestArena memory;
  const ProblemCase& c = net.problem_case;
  EXPECT_EQ(kPerceptronOps.loss(&net.data, c.shape, c.x.data(), c.all(), memory.arena).status(), Status::kOutOfRange);
}

TEST(Perceptron, NoHiddenLayerHidesANumberThatIsNone) {
  const Net net({4, 5, 3}, 6, 3);
  TestArena memory;
  for (const size_t at : {size_t{0}, size_t{20}, size_t{42}}) {  // a weight and a bias in front, a bias of the last
    std::vector<Real> x = net.problem_case.x;
    x[at] = std::numeric_limits<Real>::quiet_NaN();
    const ProblemCase& c = net.problem_case;
    EXPECT_EQ(kPerceptronOps.loss(&net.data, c.shape, x.data(), c.all(), memory.arena).status(), Status::kNotFinite);
  }
}

TEST(Perceptron, HasOnlyPointsOfItsOwnSize) {
  Net net({4, 5, 3}, 6, 3);
  EXPECT_EQ(kPerceptronOps.check_shape(&net.data, {43, 1}), Status::kOk);
  EXPECT_EQ(kPerceptronOps.check_shape(&net.data, {42, 1}), Status::kInvalidArgument);
  net.data.source.dimension = 6;
  EXPECT_EQ(kPerceptronOps.check_shape(&net.data, {43, 1}), Status::kInvalidArgument);
  const uint16_t widths[] = {4, 0, 3, 1, 65535, 65535, 65535, 2, 2};
  EXPECT_EQ(perceptron_size(widths, 3), 0U) << "an empty layer";
  EXPECT_EQ(perceptron_size(widths, 1), 0U);
  EXPECT_EQ(perceptron_size(widths + 2, 2), 0U) << "one class";
  EXPECT_EQ(perceptron_size(widths + 4, 4), 0U) << "beyond a shape";
  const std::vector<uint16_t> many(kWidthCountMax + 1, 2);
  EXPECT_EQ(perceptron_size(many.data(), kWidthCountMax), 6U * (kWidthCountMax - 1));
  EXPECT_EQ(perceptron_size(many.data(), kWidthCountMax + 1), 0U);
}

// Weights of a layer on Stiefel, the rest free: the point of the product is the perceptron's, byte for byte.
TEST(Perceptron, TrainsWithAConstrainedLayerOnAProduct) {
  const Net net({6, 3, 3}, 30, 3);
  const ManifoldOps* const euclidean = &kEuclideanOps;
  Parts parts;
  parts.count = 2;
  parts.part[0] = {&kStiefelOps, {6, 3}};
  parts.part[1] = {euclidean, {3 + 12, 1}};
  const Shape shape = {33, 1, &parts};
  ASSERT_EQ(kProductOps.check_shape(shape), Status::kOk);
  ASSERT_EQ(kPerceptronOps.check_shape(&net.data, shape), Status::kOk);
  TestArena memory;
  std::vector<Real> x = net.problem_case.x;
  ASSERT_EQ(kProductOps.project_point(shape, x.data(), x.data(), memory.arena), Status::kOk);
  const double before = loss_at(net.problem_case, x, net.problem_case.all());
  for (int step = 0; step < 50; ++step) {
    ProblemCase here = net.problem_case;
    here.x = x;
    std::vector<Real> g = gradient_at(here, here.all());
    ASSERT_EQ(kProductOps.riemannian_gradient(shape, x.data(), g.data(), g.data(), memory.arena), Status::kOk);
    scale(g.size(), static_cast<Real>(-0.2), g.data());
    ASSERT_EQ(kProductOps.retract(shape, x.data(), g.data(), x.data(), memory.arena), Status::kOk);
  }
  EXPECT_LT(loss_at(net.problem_case, x, net.problem_case.all()), 0.95 * before);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      Real sum = 0;
      for (size_t r = 0; r < 6; ++r) {
        sum += x[r * 3 + i] * x[r * 3 + j];
      }
      EXPECT_NEAR(sum, i == j ? 1 : 0, 1e-5);
    }
  }
}

// Adds a wave, the same to a value whatever the run that it is read in.
struct Wave {
  uint32_t calls = 0;
  static Real at(size_t e) { return static_cast<Real>(static_cast<int>(e * 7 % 11) - 5) / 256; }
  static void add(const void* context, size_t offset, size_t count, Real* values) {
    ++static_cast<Wave*>(const_cast<void*>(context))->calls;
    for (size_t i = 0; i < count; ++i) {
      values[i] += at(offset + i);
    }
  }
};

// Another user of the arena, between two calls.
void fill_with_rubbish(Arena& arena) {
  ScratchScope scope(arena);
  const size_t size = arena.free_size();
  const Result<uint8_t*> bytes = arena.scratch<uint8_t>(size);
  ASSERT_TRUE(bytes.ok());
  std::memset(bytes.value(), 0xa5, size);
}

// A batch in several groups, with inputs of zero, as a whole and in slices of every size.
TEST(Perceptron, HasTheSameBitsWhereThePointStandsNowhere) {
  const std::vector<std::vector<uint16_t>> nets = {{5, 3}, {9, 4, 3}, {6, 20, 5, 7, 2}, {64, 32, 10}};
  for (const std::vector<uint16_t>& widths : nets) {
    Net net(widths, 45, 3);
    for (size_t i = 0; i < net.samples.values.size(); i += 5) {
      net.samples.values[i] = i % net.samples.source.dimension == widths[0] ? net.samples.values[i] : 0;
    }
    const ProblemCase& c = net.problem_case;
    std::vector<Real> y = c.x;
    Wave wave;
    Wave::add(&wave, 0, y.size(), y.data());
    const Displacement displacement = {&wave, Wave::add};
    std::vector<uint16_t> indices(45);
    std::iota(indices.begin(), indices.end(), uint16_t{0});
    std::swap(indices[3], indices[40]);
    for (const uint32_t count : {1U, 2U, 16U, 17U, 18U, 45U}) {
      const Batch batch = {indices.data(), count};
      TestArena memory;
      const Real expected = kPerceptronOps.loss(&net.data, c.shape, y.data(), batch, memory.arena).value();
      const auto displaced = [&](Batch asked, Arena& arena) {
        return kPerceptronOps.loss_displaced(&net.data, c.shape, c.x.data(), displacement, asked, arena);
      };
      EXPECT_EQ(displaced(batch, memory.arena).value(), expected) << widths.size() << " layers, " << count;
      TestArena exact(kPerceptronOps.displaced_scratch_size(&net.data, c.shape, count) + kArenaAlignment);
      EXPECT_EQ(displaced(batch, exact.arena).value(), expected) << "its memory is what it says";
      for (const uint32_t units : {1U, 2U, 3U, 7U}) {
        EvaluationProgress progress = {};
        Batch sliced = batch;
        sliced.progress = &progress;
        uint32_t calls = 0;
        Result<Real> result = Status::kUnfinished;
        while (result.status() == Status::kUnfinished) {
          memory.arena.resume_scratch();
          progress.units_left = units;
          result = displaced(sliced, memory.arena);
          if (result.status() == Status::kUnfinished) {
            EXPECT_EQ(progress.units_left, 0u);
            memory.arena.suspend_scratch();
            fill_with_rubbish(memory.arena);
          }
          ++calls;
        }
        EXPECT_EQ(result.value(), expected) << units << " units a call";
        EXPECT_GE(calls * units + units, std::min(count, 7U)) << "a unit is a sample, or a row of a small network";
      }
    }
  }
}

TEST(Perceptron, ReadsADisplacedRowOnceForAGroup) {
  Net net({64, 32, 10}, 16, 3);
  Wave wave;
  TestArena memory;
  const ProblemCase& c = net.problem_case;
  ASSERT_TRUE(
      kPerceptronOps.loss_displaced(&net.data, c.shape, c.x.data(), {&wave, Wave::add}, c.all(), memory.arena).ok());
  const uint32_t size = group_size(16, 97 * sizeof(Real), 2410 * sizeof(Real));
  const uint32_t groups = (16 + size - 1) / size;
  EXPECT_LE(wave.calls, groups * (65u + 33u));
  EXPECT_GE(wave.calls, groups * (65u + 20u)) << "but for hidden values that are 0 in all samples";
}

TEST(Perceptron, AFaultOfASampleEndsItAtADisplacedPointToo) {
  Net net({4, 3, 2}, 5, 3);
  const ProblemCase& c = net.problem_case;
  Wave wave;
  TestArena memory;
  const auto displaced = [&] {
    return kPerceptronOps.loss_displaced(&net.data, c.shape, c.x.data(), {&wave, Wave::add}, c.all(), memory.arena)
        .status();
  };
  EXPECT_EQ(displaced(), Status::kOk);
  net.samples.values[14] = 2;  // the label of the third
  EXPECT_EQ(displaced(), Status::kOutOfRange);
  net.samples.values[13] = std::numeric_limits<Real>::infinity();
  EXPECT_EQ(displaced(), Status::kNotFinite);
  net.samples.read_status = Status::kClosed;
  EXPECT_EQ(displaced(), Status::kClosed);
}

}  // namespace
}  // namespace gradstream
