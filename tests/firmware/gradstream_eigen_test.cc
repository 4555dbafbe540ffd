// Losses in Eigen: the values of the library's own kpca, the same bits wherever a step is cut, and the codes of what
// cannot be computed. What does not compile is in eigen_refused_test.py.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "include/gradstream/eigen.h"
#include "tests/support/problem_checker.h"

extern "C" const gs_linked_problem* kpca_by_eigen(const gs_sample_source* samples);

namespace gradstream {
namespace {

constexpr uint32_t kCount = 11;
constexpr uint32_t kDimension = 6;
constexpr Shape kShape = {6, 3};

// An application's samples, in memory; the first read of each may be answered by a code.
struct Samples {
  std::vector<Real> values = numbers(size_t{kCount} * kDimension, 3, 2);
  std::vector<int> codes = std::vector<int>(kCount, 0);
  gs_sample_source source = {this, kCount, kDimension, read};

  static int read(const void* context, uint32_t index, float* out) {
    auto* samples = static_cast<Samples*>(const_cast<void*>(context));
    std::copy_n(samples->values.begin() + std::ptrdiff_t{index} * kDimension, kDimension, out);
    return std::exchange(samples->codes[index], 0);
  }
};

// kpca again, four samples at a time: one product of matrices for the four.
struct GroupedKpca : EigenLoss<6, 3, 6, 4> {
  static constexpr const char* kName = "grouped";
  bool fits(Shape shape, uint32_t dimension) const { return shape.rows == dimension; }
  Real loss(const Point& x, const Samples& z) const {
    const EigenMatrix<4, 3> products = z * x;
    return -products.squaredNorm() / 2;
  }
  void add_gradient(const Point& x, const Samples& z, Gradient& sum) const {
    const EigenMatrix<4, 3> products = z * x;
    sum.noalias() -= z.transpose() * products;
  }
};

// A loss without a gradient that refuses a point by a code of its own.
struct PickyLoss : EigenLoss<6, 3, 6> {
  static constexpr const char* kName = "picky";
  bool fits(Shape, uint32_t) const { return true; }
  Result<Real> loss(const Point& x, const Samples& z) const {
    if (x(0, 0) < 0) {
      return Status::kOutOfRange;
    }
    return (z * x).sum();
  }
};

constexpr ProblemOps kGroupedOps = make_problem_ops<EigenProblem<GroupedKpca>>();
constexpr ProblemOps kPickyOps = make_problem_ops<EigenProblem<PickyLoss>>();

// The example makes its problem once, of samples that last.
const Problem& the_example() {
  static const Samples samples;
  return kpca_by_eigen(&samples.source)->problem;
}

class GradstreamEigen : public ::testing::Test {
 protected:
  Result<Real> loss_of(const ProblemOps& ops, const void* context, Batch batch) {
    return ops.loss(context, kShape, x_.data(), batch, memory_.arena);
  }
  std::vector<Real> gradient_of(const ProblemOps& ops, const void* context, Batch batch) {
    std::vector<Real> out(kShape.size(), 7);
    EXPECT_EQ(ops.gradient(context, kShape, x_.data(), batch, out.data(), memory_.arena), Status::kOk);
    return out;
  }
  void expect_kpca(const ProblemOps& ops, const void* context, Batch batch) {
    EXPECT_NEAR(loss_of(ops, context, batch).value(), loss_of(kKpcaOps, &built_in_, batch).value(), 1e-5);
    const std::vector<Real> found = gradient_of(ops, context, batch);
    const std::vector<Real> expected = gradient_of(kKpcaOps, &built_in_, batch);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
  }
  // In calls of at most unit_count units, until it is done.
  template <typename Evaluate>
  uint32_t count_calls(uint32_t unit_count, Batch batch, Evaluate evaluate) {
    EvaluationProgress progress = {};
    batch.progress = &progress;
    for (uint32_t calls = 1;; ++calls) {
      progress.units_left = unit_count;
      if (evaluate(batch) != Status::kUnfinished) return calls;
    }
  }

  Samples samples_;
  SampleSource built_in_ = {&samples_, kCount, kDimension, [](const void* context, uint32_t index, Real* out) {
                              return status_of_callback(Samples::read(context, index, out));
                            }};
  EigenProblem<GroupedKpca> grouped_{&samples_.source};
  EigenProblem<PickyLoss> picky_{&samples_.source};
  std::vector<Real> x_ = numbers(kShape.size(), 5, 1);
  TestArena memory_{256};
  const Batch all_ = {nullptr, kCount};
};

TEST_F(GradstreamEigen, HasTheValuesOfTheLibrarysKpca) {
  const Problem& example = the_example();
  constexpr uint16_t kSome[] = {10, 0, 3, 3, 7};
  for (const Batch batch : {all_, Batch{nullptr, 1}, Batch{nullptr, 4}, Batch{kSome, 5}}) {
    expect_kpca(*example.ops, example.context, batch);
    expect_kpca(kGroupedOps, &grouped_, batch);
  }
  EXPECT_STREQ(example.ops->name, "kpca");
  EXPECT_EQ(example.ops->sample_count(example.context), kCount);
}

TEST_F(GradstreamEigen, TakesUnitsOutWhereTheLossSaysOfWhat) {
  const Problem& example = the_example();
  ASSERT_NE(example.ops->units_source, nullptr);
  EXPECT_EQ(example.ops->units_source(example.context).count, kDimension);
  EXPECT_EQ(example.ops->units_source(example.context).samples->count, kCount);
  EXPECT_EQ(kPickyOps.units_source, nullptr);
  std::vector<UnitsColumn> columns(kDimension);
  for (uint32_t i = 0; i < kDimension; ++i) columns[i] = {1, 0.25F * static_cast<float>(i), 2};
  const Units units = {columns.data(), kDimension};
  Batch batch = all_;
  batch.units = &units;
  expect_kpca(*example.ops, example.context, batch);
  EXPECT_NE(loss_of(*example.ops, example.context, batch).value(),
            loss_of(*example.ops, example.context, all_).value());
}

TEST_F(GradstreamEigen, TheGradientIsTheDerivative) {
  expect_gradient_is_derivative({{&kGroupedOps, &grouped_}, kShape, x_}, all_);
}

TEST_F(GradstreamEigen, HasTheSameBitsWhereverItIsCut) {
  const Real whole = loss_of(kGroupedOps, &grouped_, all_).value();
  const std::vector<Real> whole_gradient = gradient_of(kGroupedOps, &grouped_, all_);
  for (const uint32_t unit_count : {1U, 3U, 4U, 5U, 100U}) {
    Result<Real> loss = Status::kUnfinished;
    const uint32_t calls = count_calls(unit_count, all_, [&](Batch batch) {
      loss = loss_of(kGroupedOps, &grouped_, batch);
      return loss.status();
    });
    EXPECT_EQ(loss.value(), whole) << unit_count;
    EXPECT_EQ(calls, unit_count < 5 ? 3U : unit_count < 11 ? 2U : 1U) << unit_count;
    std::vector<Real> gradient(kShape.size());
    count_calls(unit_count, all_, [&](Batch batch) {
      return kGroupedOps.gradient(&grouped_, kShape, x_.data(), batch, gradient.data(), memory_.arena);
    });
    EXPECT_EQ(gradient, whole_gradient) << unit_count;
  }
}

TEST_F(GradstreamEigen, ASampleThatIsNotThereYetIsReadAgain) {
  const Real whole = loss_of(kGroupedOps, &grouped_, all_).value();
  samples_.codes = {0, GS_UNFINISHED, 0, 0, 0, GS_UNFINISHED, 0, 0, 0, 0, GS_UNFINISHED};
  Result<Real> loss = Status::kUnfinished;
  const uint32_t calls = count_calls(EvaluationProgress::kNoLimit, all_, [&](Batch batch) {
    loss = loss_of(kGroupedOps, &grouped_, batch);
    return loss.status();
  });
  EXPECT_EQ(calls, 4U);
  EXPECT_EQ(loss.value(), whole);
}

TEST_F(GradstreamEigen, SaysWhatCannotBeComputed) {
  samples_.codes[4] = 5;  // the driver gave up
  EXPECT_EQ(loss_of(kGroupedOps, &grouped_, all_).status(), Status::kNotFinite);
  for (const Real bad : {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity()}) {
    samples_.values[8] = bad;
    EXPECT_EQ(loss_of(kGroupedOps, &grouped_, all_).status(), Status::kNotFinite);
    std::vector<Real> out(kShape.size());
    EXPECT_EQ(kGroupedOps.gradient(&grouped_, kShape, x_.data(), all_, out.data(), memory_.arena), Status::kNotFinite);
  }
  EXPECT_EQ(loss_of(kGroupedOps, &grouped_, Batch{nullptr, 0}).status(), Status::kNotFinite);
  x_[0] = -1;
  EXPECT_EQ(loss_of(kPickyOps, &picky_, all_).status(), Status::kOutOfRange);
  EXPECT_EQ(kPickyOps.gradient, nullptr);
}

TEST_F(GradstreamEigen, TakesShapesWithinItsBounds) {
  const auto status = [&](Shape shape) { return kGroupedOps.check_shape(&grouped_, shape); };
  EXPECT_EQ(status({6, 1}), Status::kOk);
  EXPECT_EQ(status({6, 3}), Status::kOk);
  EXPECT_EQ(status({6, 4}), Status::kInvalidArgument);
  EXPECT_EQ(status({7, 3}), Status::kInvalidArgument);
  EXPECT_EQ(status({5, 3}), Status::kInvalidArgument);  // within them, and the loss says no
  EXPECT_EQ(status({6, 0}), Status::kInvalidArgument);
  samples_.source.dimension = 7;
  const EigenProblem<GroupedKpca> wide(&samples_.source);
  EXPECT_EQ(kGroupedOps.check_shape(&wide, {6, 3}), Status::kInvalidArgument);
}

TEST_F(GradstreamEigen, EigensOwnChecksFailAsOurs) {
  const EigenMatrix<4, 3> a = EigenMatrix<4, 3>::Zero(4, 3);
  const EigenMatrix<4, 3> b = EigenMatrix<4, 3>::Zero(2, 3);
  EXPECT_DEATH(static_cast<void>((a + b).eval()), "assert");
}

// A score is the loss of one sample without its units, whatever the size of a group.
TEST_F(GradstreamEigen, ScoresASampleByItsLoss) {
  const Samples samples;
  const EigenProblem<GroupedKpca> problem(&samples.source);
  constexpr ScoreOps kScores = make_score_ops<EigenProblem<GroupedKpca>>();
  std::vector<UnitsColumn> columns(kDimension);
  for (uint32_t i = 0; i < kDimension; ++i) columns[i] = {3, 0.25F * static_cast<float>(i), 0.5F};
  const Units units = {columns.data(), kDimension};
  for (uint16_t i = 0; i < kCount; ++i) {
    for (const Units& taken : {Units{}, units}) {
      const ScoreInput input = {kShape, x_.data(), &samples.values[size_t{i} * kDimension], taken};
      Real score = 0;
      ASSERT_EQ(kScores.score(&problem, input, &score), Status::kOk);
      std::vector<Real> z(input.sample, input.sample + kDimension);
      taken.apply(z.data());
      Real wanted = 0;
      for (uint32_t c = 0; c < kShape.cols; ++c) {
        Real product = 0;
        for (uint32_t r = 0; r < kDimension; ++r) product += z[r] * x_[r * kShape.cols + c];
        wanted -= product * product / 2;
      }
      EXPECT_NEAR(score, wanted, 1e-5 * std::fabs(wanted));
    }
  }
  EXPECT_EQ(kScores.predict, nullptr);
}

}  // namespace
}  // namespace gradstream
