// The figures are NumPy's (tests/golden/quality_vectors.h), of data that both sides draw by the same generator.
#include "runtime/training/evaluation.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "runtime/manifold/fixed_rank.h"
#include "runtime/problem/holdout.h"
#include "tests/golden/quality_vectors.h"
#include "tests/support/network_problem.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

namespace golden = golden::quality;

constexpr uint32_t kHoldout = 19661;  // three in ten
constexpr uint32_t kCount = 230;

// The generator of both sides: numbers from -2 to 2.
class Draw {
 public:
  explicit Draw(uint32_t seed) : state_(seed) {}
  Real operator()() {
    state_ = state_ * 1664525U + 1013904223U;
    return static_cast<Real>(static_cast<float>(static_cast<double>(state_ >> 8) / 16777216.0 * 4 - 2));
  }
  std::vector<Real> operator()(size_t count) {
    std::vector<Real> values(count);
    for (Real& value : values) {
      value = (*this)();
    }
    return values;
  }

 private:
  uint32_t state_;
};

// rows of `width` values, each with what `label` gives behind it.
std::vector<Real> labelled(Draw& draw, uint32_t width, const std::function<Real(uint32_t)>& label) {
  const std::vector<Real> values = draw(size_t{kCount} * width);
  std::vector<Real> rows;
  for (uint32_t i = 0; i < kCount; ++i) {
    rows.insert(rows.end(), values.begin() + i * width, values.begin() + (i + 1) * width);
    rows.push_back(label(i));
  }
  return rows;
}

// In whole calls, by slices of some units, with a list of all samples at a time or chunk by chunk: the same numbers.
HeldOutQuality evaluate_all(const Problem& problem, Shape shape, const std::vector<Real>& x) {
  EstimateInput input;
  input.shape = shape;
  input.problem = problem;
  input.holdout = kHoldout;
  HeldOutQuality first;
  for (const uint16_t units : {0, 1, 7, 1000}) {
    TestArena memory;
    HeldOutEvaluation evaluation;
    Status status = Status::kUnfinished;
    while (status == Status::kUnfinished) {
      status = evaluation.step(input, x.data(), units, memory.arena);
      EXPECT_EQ(evaluation.is_open(), status == Status::kUnfinished);
    }
    EXPECT_EQ(status, Status::kOk);
    const HeldOutQuality quality = evaluation.quality();
    first = units == 0 ? quality : first;
    EXPECT_EQ(quality.loss, first.loss);
    EXPECT_EQ(quality.metric, first.metric);
    EXPECT_EQ(memory.arena.free_size(), memory.arena.size()) << "all scratch is back";
  }
  return first;
}

void expect_figures(const HeldOutQuality& quality, const golden::Figures& expected) {
  EXPECT_EQ(quality.sample_count, expected.sample_count);
  EXPECT_NEAR(quality.loss, expected.loss, 1e-4 * std::fabs(expected.loss));
  EXPECT_NEAR(quality.metric, expected.metric, 1e-4 * std::fabs(expected.metric));
}

TEST(Evaluation, KpcaExplainsAShareOfTheVariance) {
  Draw draw(1);
  const TestSamples samples(kCount, 6, draw(size_t{kCount} * 6));
  const Real a = static_cast<Real>(0.6F);
  const Real b = static_cast<Real>(0.8F);
  const std::vector<Real> x = {a, 0, b, 0, 0, a, 0, 0, 0, b, 0, 0};
  expect_figures(evaluate_all({&kKpcaOps, &samples.source}, {6, 2}, x), golden::kKpca);
}

TEST(Evaluation, LeastSquaresHasTheRootOfTheMeanSquaredError) {
  Draw draw(2);
  const TestSamples samples(kCount, 6, draw(size_t{kCount} * 6));
  expect_figures(evaluate_all({&kLeastSquaresOps, &samples.source}, {4, 2}, draw(8)), golden::kLeastSquares);
}

TEST(Evaluation, LogisticHasTheShareOfRightClasses) {
  Draw draw(3);
  const TestSamples two(kCount, 5, labelled(draw, 4, [](uint32_t i) { return static_cast<Real>(i * 7 % 3 == 0); }));
  expect_figures(evaluate_all({&kLogisticOps, &two.source}, {4, 1}, draw(4)), golden::kLogistic);
  Draw other(4);
  const TestSamples three(kCount, 5, labelled(other, 4, [](uint32_t i) { return static_cast<Real>(i * 7 % 3); }));
  const std::vector<Real> x = other(12);
  expect_figures(evaluate_all({&kLogisticOps, &three.source}, {4, 3}, x), golden::kSoftmax);
  // Of equal scores the first class counts: a model of zeros is right where the label is 0.
  const std::vector<Real> zeros(12, 0);
  expect_figures(evaluate_all({&kLogisticOps, &three.source}, {4, 3}, zeros), golden::kTies);
}

TEST(Evaluation, PerceptronHasTheShareOfRightClasses) {
  Draw draw(5);
  const TestSamples samples(kCount, 6, labelled(draw, 5, [](uint32_t i) { return static_cast<Real>(i * 5 % 3); }));
  const uint16_t widths[] = {5, 4, 3};
  const NetworkData data{samples.source, widths, 3};
  const std::vector<Real> x = draw(39);
  expect_figures(evaluate_all({&kPerceptronOps, &data}, {39, 1}, x), golden::kPerceptron);
}

// Rows of 3 x 3 matrices B B' + I.
std::vector<Real> spd_rows(Draw& draw, uint32_t count) {
  const std::vector<Real> values = draw(size_t{count} * 9);
  std::vector<Real> rows(values.size());
  for (uint32_t k = 0; k < count; ++k) {
    for (uint32_t i = 0; i < 9; ++i) {
      double sum = i % 4 == 0 ? 1 : 0;
      for (uint32_t c = 0; c < 3; ++c) {
        sum +=
            static_cast<double>(values[9 * k + 3 * (i / 3) + c]) * static_cast<double>(values[9 * k + 3 * (i % 3) + c]);
      }
      rows[9 * k + i] = static_cast<Real>(sum);
    }
  }
  return rows;
}

TEST(Evaluation, ManifoldMeansHaveTheMeanDistance) {
  Draw draw(6);
  const TestSamples matrices(40, 9, spd_rows(draw, 40));
  const std::vector<Real> x = spd_rows(draw, 1);
  expect_figures(evaluate_all({&kSpdMeanOps, &matrices.source}, {3, 3}, x), golden::kSpdMean);

  Draw other(7);
  const std::vector<Real> places = other(2 * kCount);
  const std::vector<Real> weights = other(kCount);
  const auto time = [](Real a, Real b) { return std::sqrt(1 + a * a + b * b); };
  std::vector<Real> rows;
  for (uint32_t i = 0; i < kCount; ++i) {
    const Real a = places[2 * i];
    const Real b = places[2 * i + 1];
    rows.insert(rows.end(), {time(a, b), a, b, std::fabs(weights[i]) + Real{0.25}});
  }
  const TestSamples points(kCount, 4, rows);
  const std::vector<Real> centre = other(2);
  const std::vector<Real> y = {time(centre[0], centre[1]), centre[0], centre[1]};
  expect_figures(evaluate_all({&kHyperbolicMeanOps, &points.source}, {3, 1}, y), golden::kHyperbolic);
}

// What has no metric says its loss.
TEST(Evaluation, OtherProblemsHaveTheirLoss) {
  Draw draw(8);
  std::vector<Real> matrices = draw(size_t{kCount} * 16);
  for (uint32_t k = 0; k < kCount; ++k) {
    Real* const a = &matrices[size_t{16} * k];
    for (uint32_t i = 0; i < 4; ++i) {
      for (uint32_t j = 0; j < i; ++j) {
        a[4 * i + j] = a[4 * j + i] = (a[4 * i + j] + a[4 * j + i]) / 2;
      }
    }
  }
  const TestSamples symmetric(kCount, 16, matrices);
  expect_figures(evaluate_all({&kBrockettOps, &symmetric.source}, {4, 2}, draw(8)), golden::kBrockett);

  Draw other(9);
  const std::vector<Real> values = other(kCount);
  std::vector<Real> rows;
  for (uint32_t i = 0; i < kCount; ++i) {
    rows.insert(rows.end(), {static_cast<Real>(i % 6), static_cast<Real>(3 * i % 5), values[i]});
  }
  const TestSamples entries(kCount, 3, rows);
  const Parts parts = fixed_rank_parts(6, 5, 2);
  expect_figures(evaluate_all({&kCompletionOps, &entries.source}, fixed_rank_shape(parts), other(26)),
                 golden::kCompletion);
}

// The class with the least loss is that of the greatest score: an accuracy from losses of changed labels alone.
double accuracy_by_losses(const Problem& problem, Shape shape, const std::vector<Real>& x, TestSamples& samples,
                          uint32_t class_count) {
  const uint32_t last = samples.source.dimension - 1;
  uint32_t right = 0;
  uint32_t count = 0;
  for (uint16_t i = 0; i < samples.source.count; ++i) {
    if (!is_held_out(i, kHoldout)) {
      continue;
    }
    Real& label = samples.values[size_t{i} * samples.source.dimension + last];
    const Real truth = label;
    Real best = 0;
    Real least = 0;
    for (uint32_t c = 0; c < class_count; ++c) {
      label = static_cast<Real>(c);
      TestArena memory(size_t{1} << 22);
      const Result<Real> loss = problem.ops->loss(problem.context, shape, x.data(), {&i, 1}, memory.arena);
      EXPECT_TRUE(loss.ok());
      if (c == 0 || loss.value() < least) {
        least = loss.value();
        best = label;
      }
    }
    label = truth;
    right += best == truth ? 1 : 0;
    ++count;
  }
  return static_cast<double>(right) / count;
}

TEST(Evaluation, NetworksHaveTheShareOfRightClasses) {
  NetworkCase net(
      Volume{1, 1, 5},
      [](NetworkCase& n) {
        n.dense(6, Activation::kRelu, TrainedForm::kDense);
        n.dense(4, Activation::kNone, TrainedForm::kDense);
      },
      60);
  const HeldOutQuality quality = evaluate_all(net.problem_case.problem, net.problem_case.shape, net.problem_case.x);
  EXPECT_NEAR(quality.metric,
              accuracy_by_losses(net.problem_case.problem, net.problem_case.shape, net.problem_case.x, *net.samples, 4),
              1e-6);
}

// A model that is wrong altogether explains nothing, and not less.
TEST(Evaluation, SquaredErrorsOfANetworkAreAShareToo) {
  NetworkCase net(
      Volume{1, 1, 5}, [](NetworkCase& n) { n.dense(3, Activation::kNone, TrainedForm::kDense); }, 60,
      NetworkLoss::kSquaredError);
  const HeldOutQuality quality = evaluate_all(net.problem_case.problem, net.problem_case.shape, net.problem_case.x);
  double targets = 0;
  for (uint32_t i = 0; i < 60; ++i) {
    for (uint32_t t = 0; t < 3; ++t) {
      targets += is_held_out(i, kHoldout) ? std::pow(static_cast<double>(net.row(i)[5 + t]), 2) : 0;
    }
  }
  const double share = 1 - 2 * static_cast<double>(quality.loss) * quality.sample_count / targets;
  EXPECT_NEAR(quality.metric, std::fmax(share, 0), 1e-4);
}

TEST(Evaluation, WithoutSamplesHeldOutThereIsNone) {
  const TestSamples samples(5, 3, random_values(15, 1));
  EstimateInput input;
  input.shape = {3, 1};
  input.problem = {&kKpcaOps, &samples.source};
  input.holdout = 0;
  const std::vector<Real> x = {1, 0, 0};
  TestArena memory;
  HeldOutEvaluation evaluation;
  EXPECT_EQ(evaluation.step(input, x.data(), 0, memory.arena), Status::kInvalidArgument);
  EXPECT_EQ(evaluation.quality().sample_count, 0U);
}

// Held-out samples are read by nobody but the evaluation, and it reads no other.
TEST(Evaluation, ReadsTheHeldOutSamplesAlone) {
  struct Reads {
    std::set<uint32_t> seen;
  } reads;
  SampleSource source;
  source.context = &reads;
  source.count = 300;
  source.dimension = 2;
  source.read = [](const void* context, uint32_t index, Real* out) {
    const_cast<Reads*>(static_cast<const Reads*>(context))->seen.insert(index);
    out[0] = 1;
    out[1] = static_cast<Real>(index);
    return Status::kOk;
  };
  EstimateInput input;
  input.shape = {2, 1};
  input.problem = {&kKpcaOps, &source};
  input.holdout = kHoldout;
  const std::vector<Real> x = {1, 0};
  TestArena memory;
  HeldOutEvaluation evaluation;
  Status status = Status::kUnfinished;
  while (status == Status::kUnfinished) {
    status = evaluation.step(input, x.data(), 0, memory.arena);
  }
  ASSERT_EQ(status, Status::kOk);
  for (uint32_t i = 0; i < source.count; ++i) {
    EXPECT_EQ(reads.seen.contains(i), is_held_out(i, kHoldout)) << i;
  }
  EXPECT_EQ(reads.seen.size(), evaluation.quality().sample_count);
}

// What training reads, by every estimator, batch mode and solver: no sample that is held out.
struct Reads {
  static Status read(const void* context, uint32_t index, Real* out) {
    Reads& reads = *const_cast<Reads*>(static_cast<const Reads*>(context));
    reads.seen.insert(index);
    for (uint32_t c = 0; c < 6; ++c) {
      out[c] = static_cast<Real>((index * 7 + c * 3) % 11) / 8 - static_cast<Real>(0.5);
    }
    return Status::kOk;
  }
  std::set<uint32_t> seen;
};

TEST(Evaluation, TrainingReadsNoSampleThatIsHeldOut) {
  const SolverOps* const solvers[] = {&kSolverProjectionOps, &kSolverGradientStreamOps, &kSolverTangentMeanOps,
                                      &kSolverSvrgOps, &kSolverCurveOps};
  uint32_t run_count = 0;
  for (const SolverOps* const solver : solvers) {
    for (const EstimatorOps* const estimator : kAllEstimators) {
      for (const BatchMode mode : {BatchMode::kAll, BatchMode::kCommon, BatchMode::kPerDirection}) {
        for (const uint32_t size : {3U, 64U}) {
          Reads reads;
          const SampleSource source = {&reads, 60, 6, Reads::read};
          const bool is_curve = solver->id == SolverId::kCurve;
          const Problem problems[] = {{is_curve ? &kLeastSquaresOps : &kKpcaOps, &source}};
          const Registry registry = {kAllManifolds, kAllEstimators, solvers, problems};
          const Shape shape = is_curve ? Shape{5, 1} : Shape{6, 2};
          Task task = stiefel_task(shape);
          task.manifold = is_curve ? ManifoldId::kEuclidean : ManifoldId::kStiefel;
          task.solver = solver->id;
          task.estimator.id = estimator->id;
          task.estimator.batch_mode = mode;
          task.estimator.batch_size = size;
          task.holdout = kHoldout;
          std::strcpy(task.problem, problems[0].ops->name);
          const std::vector<Real> model = random_point(is_curve ? kEuclideanOps : kStiefelOps, shape, 4);
          const std::vector<Real> tangent(shape.size(), 0);
          TestArena memory;
          SolverRun run;
          const ModelParts parts{tangent.data(), nullptr};
          if (begin_solver(registry, task, model.data(), nullptr, &run, memory.arena, parts) != Status::kOk) {
            continue;  // no such combination
          }
          ++run_count;
          for (uint32_t step = 0; step < task.local_step_count; ++step) {
            ASSERT_EQ(run_step(run, memory.arena), Status::kOk);
          }
          EXPECT_FALSE(reads.seen.empty());
          for (const uint32_t index : reads.seen) {
            EXPECT_FALSE(is_held_out(index, kHoldout))
                << solver->name << " " << estimator->name << " mode " << static_cast<int>(mode);
          }
        }
      }
    }
  }
  EXPECT_GT(run_count, 20U);
}

TEST(Evaluation, AFailedSampleEndsItAndNothingIsSaid) {
  TestSamples samples(300, 3, random_values(900, 1));
  samples.read_status = Status::kClosed;
  EstimateInput input;
  input.shape = {3, 1};
  input.problem = {&kKpcaOps, &samples.source};
  input.holdout = kHoldout;
  const std::vector<Real> x = {1, 0, 0};
  TestArena memory;
  HeldOutEvaluation evaluation;
  EXPECT_EQ(evaluation.step(input, x.data(), 0, memory.arena), Status::kClosed);
  EXPECT_FALSE(evaluation.is_open());
  EXPECT_EQ(evaluation.quality().sample_count, 0U);
  EXPECT_EQ(memory.arena.free_size(), memory.arena.size());
  // Given up in the middle: the arena is free, and another one can begin.
  samples.read_status = Status::kOk;
  EXPECT_EQ(evaluation.step(input, x.data(), 1, memory.arena), Status::kUnfinished);
  evaluation.drop(memory.arena);
  EXPECT_EQ(memory.arena.free_size(), memory.arena.size());
}

}  // namespace
}  // namespace gradstream
