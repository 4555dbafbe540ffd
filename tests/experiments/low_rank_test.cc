// The network of low rank (X13): its sets, starts and first rounds against an independent reference, on images that are
// made here, and on MNIST where GS_DATA_DIR has it.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "experiments/harness/campaign.h"
#include "experiments/harness/experiment.h"
#include "experiments/harness/form_fleet.h"
#include "experiments/harness/harness.h"
#include "experiments/workloads/data_low_rank.h"
#include "server/run/run_core.h"
#include "tests/golden/low_rank_trajectories.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr uint32_t kTrainCount = 8000;
constexpr uint32_t kTestCount = 50;
constexpr uint32_t kDevices = 2;
constexpr Eigen::Index kInputs = kLowRankWidths[0];
constexpr uint32_t kRounds = 3;

// As tests/golden/low_rank_trajectories.h says.
const LowRankImages& made_images() {
  static const LowRankImages images = [] {
    RandomStream values({7, RandomDomain::kData, 1, 0, 0});
    RandomStream labels({7, RandomDomain::kData, 2, 0, 0});
    Matrix all(kTrainCount + kTestCount, kInputs + 1);
    for (Eigen::Index i = 0; i < all.rows(); ++i) {
      for (Eigen::Index p = 0; p < kInputs; ++p) {
        all(i, p) = 0.3 * values.next_uniform();
      }
      all(i, kInputs) = labels.next() % 10;
    }
    return LowRankImages{all.topRows(kTrainCount), all.bottomRows(kTestCount)};
  }();
  return images;
}

std::shared_ptr<const LowRankSamples> made_samples(uint32_t seed) {
  return std::make_shared<const LowRankSamples>(made_images(), kDevices, seed);
}

struct Form {
  LowRankForm form = LowRankForm::kDense;
  uint32_t rank = 8;
  double step = 0.1;
  double server_step = 1;
  uint32_t group_count = 0;
};

Form form_of(const std::string& name) {
  if (name == "dense2" || name == "dense16") {
    return {LowRankForm::kDense, name == "dense2" ? 2U : 16U};
  }
  return name == "full"          ? Form{LowRankForm::kFull, 32}
         : name == "factored"    ? Form{LowRankForm::kFactored, 8, 0.02}
         : name == "shared"      ? Form{LowRankForm::kDense, 8, 0.1, 1, 1}
         : name == "server_step" ? Form{LowRankForm::kDense, 8, 0.1, std::sqrt(2.0)}
                                 : Form{};
}

RunParameters parameters_of(const Form& form, const LowRankWorkload& workload, uint32_t seed) {
  Case one;
  one.workload = std::shared_ptr<const Workload>(&workload, [](const Workload*) {});
  one.parameters = gradient_stream_parameters(2, form.step / (2 * form.server_step), kRounds);
  RunParameters& p = one.parameters;
  p.local->solver = SolverId::kProjection;
  p.local->estimator = EstimatorId::kProjectionOneSided;
  p.local->batch_mode = BatchMode::kCommon;
  p.local->direction_count = 3;
  p.local->group_count = form.group_count;
  p.local->smoothing = static_cast<Real>(kIsDouble ? 1e-3 : 1e-2);
  p.local->correction_form = CorrectionForm::kLocal;
  p.steps->server_step = static_cast<Real>(form.server_step);
  return complete_parameters(one, {seed, ""});
}

TEST(LowRank, FollowsTheReferenceOnMadeImages) {
  for (const golden::LowRankTrajectory& wanted : golden::kLowRankTrajectories) {
    const Form form = form_of(wanted.name);
    const LowRankWorkload workload(form.form, form.rank, kDevices, made_samples(wanted.seed), wanted.seed);
    const RunParameters p = parameters_of(form, workload, wanted.seed);
    uint32_t count = 0;
    FormFleet(p, workload, {&workload.set(), workload.set_parts()}).run({}, [&](uint32_t version, const Real* model) {
      const Matrix at =
          Eigen::Map<const Eigen::Matrix<Real, Eigen::Dynamic, 1>>(model, p.model->shape.rows).cast<double>();
      const Measures measures = workload.measure(at);
      const double loss = wanted.losses[version];
      EXPECT_NEAR(measures.excess, loss, (kIsDouble ? 1e-9 : 2e-3) * loss)
          << wanted.name << ", seed " << wanted.seed << ", round " << version;
      if (version == 0) {
        EXPECT_DOUBLE_EQ(measures.other, wanted.right) << wanted.name;
      }
      ++count;
      return true;
    });
    EXPECT_EQ(count, kRounds + 1) << wanted.name;
  }
}

TEST(LowRank, SizesAreThoseOfTheNetwork) {
  EXPECT_EQ(low_rank_size(LowRankForm::kDense, 8), 7690u);
  EXPECT_EQ(low_rank_size(LowRankForm::kFull, 32), 7690u);
  EXPECT_EQ(low_rank_size(LowRankForm::kFactored, 8), 2858u);
  EXPECT_EQ(low_rank_size(LowRankForm::kFactored, 16), 5578u);
  EXPECT_EQ(low_rank_size(LowRankForm::kDense, 8), perceptron_size(kLowRankWidths.data(), 4));
}

// One after the other: weights of 196 x 32, biases, weights of 32 x 32.
Matrix block_of(const std::vector<Real>& x, uint32_t layer) {
  using Map = Eigen::Map<const Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
  return layer == 0 ? Map(x.data(), 196, 32).cast<double>() : Map(x.data() + 196 * 32 + 32, 32, 32).cast<double>();
}

// The distance of a point from the set is that of Eckart and Young: the singular values beyond the rank.
TEST(LowRank, ProjectsToTheNearestMatricesOfTheRank) {
  for (const uint32_t rank : {2U, 8U, 16U}) {
    const LowRankWorkload workload(LowRankForm::kDense, rank, 1, made_samples(1), 1);
    const Shape shape = workload.shape();
    std::vector<Real> z(shape.size());
    fill_normal({3, RandomDomain::kInitialPoint, 0, 0, 0}, 0, z.size(), z.data());
    std::vector<Real> y = z;
    TestArena memory;
    ASSERT_EQ(workload.set().project_point(shape, y.data(), y.data(), memory.arena), Status::kOk);
    const double rounding = kIsDouble ? 1e-12 : 1e-4;
    for (const uint32_t layer : {0U, 1U}) {
      const Eigen::VectorXd values = singular_values(block_of(z, layer));
      const Eigen::VectorXd kept = singular_values(block_of(y, layer));
      const Eigen::Index left = values.size() - rank;
      EXPECT_NEAR((block_of(z, layer) - block_of(y, layer)).norm(), values.tail(left).norm(), rounding) << rank;
      EXPECT_LT((kept.head(rank) - values.head(rank)).norm(), rounding) << rank;
      EXPECT_LT(kept.tail(left).norm(), rounding) << rank;
    }
    std::vector<Real> again = y;
    ASSERT_EQ(workload.set().project_point(shape, again.data(), again.data(), memory.arena), Status::kOk);
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(again[i], y[i], rounding);
      const bool is_free = (i >= 196 * 32 && i < 197 * 32) || i >= 197 * 32 + 32 * 32;
      ASSERT_TRUE(!is_free || y[i] == z[i]) << i;
    }
    z[5] = std::numeric_limits<Real>::quiet_NaN();
    EXPECT_EQ(workload.set().project_point(shape, z.data(), y.data(), memory.arena), Status::kNotFinite);
    std::vector<Real> nothing(shape.size());
    EXPECT_EQ(workload.set().project_point(shape, nothing.data(), y.data(), memory.arena), Status::kSingular);
  }
}

// The start in factors is the dense one, and has its length although it lost the smaller singular values.
TEST(LowRank, StartsAlikeInBothForms) {
  for (const uint32_t seed : {1U, 9U}) {
    const auto samples = made_samples(seed);
    const LowRankWorkload dense(LowRankForm::kDense, 8, 1, samples, seed);
    const LowRankWorkload factored(LowRankForm::kFactored, 8, 1, samples, seed);
    const LowRankWorkload full(LowRankForm::kFull, 32, 1, samples, seed);
    const double loss = dense.measure(dense.start()).excess;
    EXPECT_NEAR(factored.measure(factored.start()).excess, loss, kIsDouble ? 1e-13 : 1e-5);
    EXPECT_GT(std::fabs(full.measure(full.start()).excess - loss), 1e-3);
    EXPECT_NEAR(dense.start().topRows(196 * 32).norm(), full.start().topRows(196 * 32).norm(), 1e-12);
    std::vector<Real> point = start_of(factored);
    std::vector<Real> projected = point;
    TestArena memory;
    const Shape shape{static_cast<uint32_t>(point.size()), 1, factored.set_parts()};
    ASSERT_EQ(factored.set().project_point(shape, projected.data(), projected.data(), memory.arena), Status::kOk);
    for (size_t i = 0; i < point.size(); ++i) {
      ASSERT_NEAR(projected[i], point[i], kIsDouble ? 1e-13 : 1e-5);
    }
  }
}

// A step that is far too long ends the run by an exception that says so, as an experiment's curve takes it.
TEST(LowRank, ARunThatDivergesSaysSo) {
  Form form;
  form.step = kIsDouble ? 1e308 : 1e38;
  const LowRankWorkload workload(form.form, form.rank, kDevices, made_samples(1), 1);
  const RunParameters p = parameters_of(form, workload, 1);
  try {
    FormFleet(p, workload, {&workload.set(), workload.set_parts()}).run({}, [](uint32_t, const Real*) { return true; });
    FAIL() << "the run came to its end";
  } catch (const std::runtime_error& fault) {
    EXPECT_NE(std::string(fault.what()).find("has no result"), std::string::npos) << fault.what();
  }
}

TEST(LowRank, IsSkippedWithoutItsDataAndWithCutFiles) {
  EXPECT_TRUE(kX13.cases({1, ""}).empty());
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "low_rank_cut";
  std::filesystem::create_directories(folder / "mnist");
  std::ofstream(folder / "mnist/t10k-images-idx3-ubyte.gz") << "cut";
  std::ofstream(folder / "mnist/t10k-labels-idx1-ubyte.gz") << "cut";
  EXPECT_EQ(read_low_rank_images(folder.string()), nullptr);
  CampaignOptions options;
  options.harness.request.data_folder = folder.string();
  options.harness.results_folder = folder.string();
  const Experiment* const experiments[] = {&kX13};
  EXPECT_EQ(run_experiments(experiments, options), std::vector<Outcome>{Outcome::kSkipped});
}

TEST(LowRank, FollowsTheReferenceOnDigits) {
  const char* const folder = std::getenv("GS_DATA_DIR");
  if (folder == nullptr || !kIsDouble) GTEST_SKIP() << "GS_DATA_DIR names no folder with mnist/, or floats";
  HarnessOptions options;
  options.request = {2, folder};
  options.round_count_max = 1;
  for (const Case& one : kX13.cases(options.request)) {
    if (one.key != "base" && one.key != "factored" && one.key != "m5n30") {
      continue;
    }
    const Curve curve = run_case(one, options);
    ASSERT_EQ(curve.fault, "") << one.key;
    Judgement judgement;
    for (const ReferenceCurve& reference : read_references("X13")) {
      if (reference.key == one.key && reference.seed == options.request.seed) {
        compare(reference, curve, tolerance_of(reference, one.parameters, curve.optimum), 1, &judgement);
      }
    }
    EXPECT_TRUE(judgement.passed()) << one.key;
  }
}

}  // namespace
}  // namespace gradstream
