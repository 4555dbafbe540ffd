// The forms of the correction with the product's solver, rule and replica (experiments/harness/form_fleet.h): with
// everyone the memory is the published algorithm, and it does not drift. Where each form ends when devices are absent,
// partial or late is the experiment `memory`; here its shortest rows. The double build has the exact ones; the float
// build the long run.
#include <cmath>
#include <cstdio>

#include <gtest/gtest.h>

#include "experiments/harness/experiment.h"
#include "experiments/harness/form_fleet.h"
#include "experiments/harness/harness.h"
#include "runtime/base/products.h"
#include "server/run/fold_keys.h"
#include "server/run/run_core.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr bool kIsDouble = sizeof(Real) == sizeof(double);
constexpr uint32_t kSteps = 5;

RunParameters memory_parameters(const Workload& workload, EstimatorId estimator, double step_size,
                                uint32_t round_count) {
  Case one;
  one.workload = std::shared_ptr<const Workload>(&workload, [](const Workload*) {});
  one.parameters = gradient_stream_parameters(kSteps, step_size, round_count);
  one.parameters.local->solver = SolverId::kProjection;
  one.parameters.local->estimator = estimator;
  one.parameters.local->correction_form = CorrectionForm::kMemory;
  one.parameters.wire->record_encoding = Encoding::kF32;
  one.parameters.local->smoothing = static_cast<Real>(1e-3F);
  one.parameters.fold->fold_scale_log2 = 26;
  RunParameters p = complete_parameters(one, {1, ""});
  return p;
}

// First order: the gap at the end of a row, of every form.
TEST(MemoryForm, OnlyTheMemoryHasTheRightFixedPoint) {
  if (!kIsDouble) {
    GTEST_SKIP() << "gaps below 1e-12 need the double build";
  }
  uint32_t count = 0;
  for (const Case& one : kMemory.cases({1, ""})) {
    if (one.key.find("exact/") != 0) {
      continue;
    }
    ++count;
    const Curve curve = run_case(one, {});
    ASSERT_EQ(curve.fault, "") << one.key;
    const double gap = curve.points.back().measures.excess;
    const bool is_published = one.key == "exact/all/local" || one.key == "exact/all/authors";
    if (one.parameters.has_memory() || is_published) {
      EXPECT_LT(std::fabs(gap), 1e-12) << one.key;
    } else {
      EXPECT_GT(gap, 1e-6) << one.key;
    }
  }
  EXPECT_EQ(count, 29u);
}

// With decaying steps, 0.1 / (1 + k / 100) over 600 rounds, the memory has the right fixed point too, with 3 of 6 as
// with everyone, for no step is inside h, h_i and c_i.
TEST(MemoryForm, DecayingStepsChangeNoState) {
  if (!kIsDouble) {
    GTEST_SKIP() << "gaps below 1e-12 need the double build";
  }
  uint32_t count = 0;
  for (Case& one : kMemory.cases({1, ""})) {
    const bool is_all = one.key.find("exact/all/") == 0;
    const bool is_local = one.key.find("/local") != std::string::npos;
    const bool is_form = is_local || one.key.find("/none") != std::string::npos || one.parameters.has_memory();
    if ((!is_all && one.key.find("exact/3of6/") != 0) || !is_form) {
      continue;
    }
    ++count;
    one.parameters.steps->step_rule = StepRule::kInverse;
    one.parameters.steps->step_size = Real{1} / 10;
    one.parameters.steps->step_decay = Real{1} / 100;
    one.parameters.trigger->round_count = 600;
    const Curve curve = run_case(one, {});
    ASSERT_EQ(curve.fault, "") << one.key;
    const double gap = curve.points.back().measures.excess;
    std::printf("%s, decaying steps: gap %.1e\n", one.key.c_str(), gap);
    if (one.parameters.has_memory() || (is_all && is_local)) {
      EXPECT_LT(std::fabs(gap), 1e-12) << one.key;
    } else {
      EXPECT_GT(gap, 1e-6) << one.key;
    }
  }
  EXPECT_EQ(count, 8u);
}

// With everyone, on time and with equal K it is the published algorithm, here in plain double as printed.
TEST(MemoryForm, IsThePublishedAlgorithmWithFullParticipation) {
  if (!kIsDouble) {
    GTEST_SKIP() << "1e-9 needs the double build";
  }
  const auto data = make_own_directions(0.05, 1);
  const uint32_t kDeviceCount = data->device_count();
  const Shape kShape = data->shape();
  const double eta = 0.25;      // the record's step is a float: this one is exact in it
  constexpr uint32_t kFew = 2;  // a record stays shorter than the model, which would travel in f32
  RunParameters p = memory_parameters(*data, EstimatorId::kProjectionOneSided, eta, 60);
  p.local->direction_count = kFew;
  p.fold->fold_scale_log2 = 40;
  FormFleet run(p, *data);
  const Real step = static_cast<float>(eta);
  TestArena memory;
  std::vector<std::vector<Real>> c(kDeviceCount, std::vector<Real>(kShape.size()));
  std::vector<Real> x(run.replica().model(), run.replica().model() + kShape.size());
  EstimatorParameters parameters;
  parameters.batch_mode = BatchMode::kAll;
  parameters.smoothing = static_cast<Real>(1e-3F);
  parameters.directions = {DirectionKind::kSign, true, 1, 0, 0, kFew};
  for (uint32_t round = 0; round < 60; ++round) {
    for (uint32_t device = 0; device < kDeviceCount; ++device) {
      ASSERT_TRUE(run.fold(run.work(device, kSteps)));
    }
    ASSERT_NO_FATAL_FAILURE(run.close());
    // As printed: z and zhat, the mean of zhat, d by the difference.
    std::vector<Real> mean(kShape.size());
    std::vector<std::vector<Real>> gbar(kDeviceCount, std::vector<Real>(kShape.size()));
    for (uint32_t device = 0; device < kDeviceCount; ++device) {
      parameters.directions.base_version = round;
      std::vector<Real> zhat = x;
      std::vector<Real> z = x;
      std::vector<Real> g(kShape.size());
      std::vector<Real> scalars(kFew);
      for (uint32_t t = 0; t < kSteps; ++t) {
        EstimateInput input;
        input.manifold = &kStiefelOps;
        input.shape = kShape;
        input.problem = data->problem(device);
        input.parameters = &parameters;
        input.step = t;
        input.z = z.data();
        ASSERT_EQ(kProjectionOneSidedOps.estimate(input, scalars.data(), g.data(), nullptr, memory.arena), Status::kOk);
        for (size_t e = 0; e < g.size(); ++e) {
          gbar[device][e] += g[e] / kSteps;
          zhat[e] -= step * (g[e] + c[device][e]);
        }
        ASSERT_EQ(kStiefelOps.project_point(kShape, zhat.data(), z.data(), memory.arena), Status::kOk);
      }
      add_scaled(zhat.size(), Real{1} / kDeviceCount, zhat.data(), mean.data());
    }
    for (uint32_t device = 0; device < kDeviceCount; ++device) {
      for (size_t e = 0; e < mean.size(); ++e) {
        c[device][e] = (x[e] - mean[e]) / (step * kSteps) - gbar[device][e];
      }
    }
    ASSERT_EQ(kStiefelOps.project_point(kShape, mean.data(), x.data(), memory.arena), Status::kOk);
    for (size_t e = 0; e < x.size(); ++e) {
      ASSERT_NEAR(run.replica().model()[e], x[e], 1e-9) << "round " << round;
    }
  }
}

// The mean is never computed by a difference of models, whose rounding would be integrated.
TEST(MemoryForm, TwelveThousandRoundsInFloatHaveNoDrift) {
  if (kIsDouble) {
    GTEST_SKIP() << "float only";
  }
  const auto data = make_own_directions(2, 1);
  FormFleet fleet(memory_parameters(*data, EstimatorId::kAnalyticGradient, 5e-4, 12000), *data);
  double gap = std::nan("");
  fleet.run({}, [&](uint32_t version, const Real* model) {
    if (version == 12000) {
      gap = data->measure(Eigen::Map<const Eigen::Matrix<Real, 8, 2, Eigen::RowMajor>>(model).cast<double>()).excess;
    }
    return true;
  });
  std::printf("float, eta = 5e-4, 12,000 rounds: gap %.1e\n", gap);
  EXPECT_LT(std::fabs(gap), 1e-6);
}

// Of one device h is h_i, whatever the clip leaves of it. So the correction is nothing. The run is that without one.
TEST(MemoryForm, ADeviceCorrectsByWhatTheClipLeft) {
  if (kIsDouble) {
    GTEST_SKIP() << "the clip is of whole numbers";
  }
  const std::shared_ptr<const KpcaWorkload> workload = make_zofl("digits", true, 4, 1, 1);
  const double step = 0.1 / workload->eigenvalues()(workload->eigenvalues().size() - 1);
  const auto model_of = [&](CorrectionForm form, ClipNorm clip) {
    Case one;
    one.workload = workload;
    one.parameters = memory_parameters(*workload, EstimatorId::kProjectionOneSided, step, 20);
    one.parameters.local->direction_count = 16;
    one.parameters.local->correction_form = form;
    one.parameters.fold.keys().clip_norm = clip;
    one.parameters.fold.keys().clip_norm_value = clip == ClipNorm::kFixed ? 0.25F : 0;
    const Curve curve = run_case(one, {});
    EXPECT_EQ(curve.fault, "");
    return curve.last_model;
  };
  const Matrix plain = model_of(CorrectionForm::kNone, ClipNorm::kFixed);
  EXPECT_LT((model_of(CorrectionForm::kMemory, ClipNorm::kFixed) - plain).norm(), 5e-3);
  EXPECT_GT((model_of(CorrectionForm::kNone, ClipNorm::kNone) - plain).norm(), 0.1);
}

}  // namespace
}  // namespace gradstream
