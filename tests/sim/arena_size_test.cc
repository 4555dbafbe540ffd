// What each algorithm asks of a device's arena, measured with the real client and server: the table of
// docs/algorithms.md. A change is a change of what boards must set aside.
#include <cstdio>
#include <memory>

#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "sim/timed_fleet.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr uint32_t kDimension = 64;

struct Algorithm {
  const char* name;
  size_t arena_size;
  void (*choose)(RunParameters& p);
};

// St(64, 4), K = 5, m = 16, batches of 32, everything in f32.
RunParameters common_parameters() {
  RunParameters p;
  p.name = "arena";
  p.model->shape = {kDimension, 4};
  p.model->problem = kKpcaOps.name;
  p.steps->step_size = 0.01F;
  p.trigger->round_count = 3;
  p.trigger->device_count = 2;
  p.local->correction_form = CorrectionForm::kNone;
  p.fold->fold_weight = FoldWeight::kUniform;
  return p;
}

void use_tangents(RunParameters& p, SolverId solver) {
  p.local->solver = solver;
  p.local->estimator = EstimatorId::kAnalyticGradient;
}

size_t arena_size_of(const RunParameters& p) {
  EXPECT_EQ(check_parameters(p).sentence, "");
  TestSamples samples(40, kDimension, random_values(size_t{40} * kDimension, 1));
  const std::vector<Problem> problems(2, Problem{&kKpcaOps, &samples.source});
  TimedFleet fleet(p, problems, {});
  EXPECT_EQ(fleet.run(TimedFleet::kNoEndMs, [](uint64_t, uint32_t, const Real*) { return true; }), "");
  EXPECT_EQ(fleet.server().durable_version(), p.version_count());
  return fleet.arena_high_water_size();
}

constexpr Algorithm kAlgorithms[] = {
    {"projection, zeroth order, correction none", 7176, [](RunParameters&) {}},
    {"projection, zeroth order, correction local", 8520,
     [](RunParameters& p) { p.local->correction_form = CorrectionForm::kLocal; }},
    {"projection, zeroth order, correction memory", 9864,
     [](RunParameters& p) { p.local->correction_form = CorrectionForm::kMemory; }},
    {"projection, gradients, correction none", 8504, [](RunParameters& p) { use_tangents(p, SolverId::kProjection); }},
    {"projection, gradients, correction local", 11576,
     [](RunParameters& p) {
       use_tangents(p, SolverId::kProjection);
       p.local->correction_form = CorrectionForm::kLocal;
     }},
    {"projection, gradients, correction memory", 12600,
     [](RunParameters& p) {
       use_tangents(p, SolverId::kProjection);
       p.local->correction_form = CorrectionForm::kMemory;
     }},
    {"RFedAGS", 7560, [](RunParameters& p) { use_tangents(p, SolverId::kGradientStream); }},
    {"RFedAGS, smooth transport", 7800,
     [](RunParameters& p) {
       use_tangents(p, SolverId::kGradientStream);
       p.model->transport = TransportKind::kSmooth;
     }},
    {"RFedAGS, zeroth order", 8648,
     [](RunParameters& p) {
       use_tangents(p, SolverId::kGradientStream);
       p.local->estimator = EstimatorId::kProjectionTangent;
     }},
    {"RFedAGS, zeroth order, estimator (6)", 9608,
     [](RunParameters& p) {
       p.local->solver = SolverId::kGradientStream;
       p.local->estimator = EstimatorId::kTangentRetraction;
     }},
    {"RFedAGS, int8 with error feedback", 9880,
     [](RunParameters& p) {
       use_tangents(p, SolverId::kGradientStream);
       p.wire->upload_encoding = Encoding::kInt8;
       p.wire->error_feedback = true;
     }},
    {"RFedAvg", 7552, [](RunParameters& p) { use_tangents(p, SolverId::kTangentMean); }},
    {"RFedProx", 8496,
     [](RunParameters& p) {
       use_tangents(p, SolverId::kTangentMean);
       p.local->proximal = 0.1F;
     }},
    {"RFedSVRG", 9536,
     [](RunParameters& p) {
       use_tangents(p, SolverId::kSvrg);
       p.local->batch_mode = BatchMode::kAll;
     }},
    {"RFedSVRG-2BB", 10560,
     [](RunParameters& p) {
       use_tangents(p, SolverId::kSvrg);
       p.local->batch_mode = BatchMode::kAll;
       p.local->barzilai_borwein = BarzilaiBorwein::kFirst;
     }},
    {"RFedSVRG-2BBS", 10560,
     [](RunParameters& p) {
       use_tangents(p, SolverId::kSvrg);
       p.local->batch_mode = BatchMode::kAll;
       p.local->barzilai_borwein = BarzilaiBorwein::kFirst;
       p.steps->step_rule = StepRule::kBarzilaiBorwein;
       p.steps->step_min = 0.001F;
       p.steps->step_max = 0.1F;
     }},
};

TEST(ArenaSize, OfEachAlgorithmIsPinned) {
  if (sizeof(void*) != 8) {
    GTEST_SKIP() << "the figures are those of a 64-bit host";
  }
  for (const Algorithm& algorithm : kAlgorithms) {
    RunParameters p = common_parameters();
    algorithm.choose(p);
    const size_t size = arena_size_of(p);
    std::printf("%-45s %6zu bytes\n", algorithm.name, size);
    EXPECT_EQ(size, algorithm.arena_size) << algorithm.name;
  }
}

// A perceptron 64-32-10, 2,410 numbers: 128 scalars a round, batches of 16 of 200 samples.
size_t network_arena_size(CorrectionForm correction, uint32_t steps, bool is_lean) {
  RunParameters p = common_parameters();
  p.model->shape = {2410, 1};
  p.model->manifold = ManifoldId::kEuclidean;
  p.model->problem = kPerceptronOps.name;
  p.local->local_step_count = steps;
  p.local->direction_count = 128 / steps;
  p.local->batch_size = 16;
  p.local->correction_form = correction;
  EXPECT_EQ(check_parameters(p), "");
  constexpr uint16_t kWidths[] = {64, 32, 10};
  std::vector<Real> rows = random_values(size_t{200} * 65, 1);
  for (size_t i = 0; i < 200; ++i) {
    rows[i * 65 + 64] = static_cast<Real>(i % 10);
  }
  TestSamples samples(200, 65, std::move(rows));
  const NetworkData data = {samples.source, kWidths, 3};
  const std::vector<Problem> problems(2, Problem{&kPerceptronOps, &data});
  TimedFleet fleet(p, problems, {});
  if (is_lean) {
    fleet.use_lean_form();
  }
  EXPECT_EQ(fleet.run(TimedFleet::kNoEndMs, [](uint64_t, uint32_t, const Real*) { return true; }), "");
  EXPECT_EQ(fleet.server().durable_version(), p.version_count());
  return fleet.arena_high_water_size();
}

struct NetworkCase {
  CorrectionForm correction;
  uint32_t steps;
  size_t tensors_size;
  size_t lean_size;
};

// The model takes 9,640 bytes, the group of samples that is evaluated together 6,208.
constexpr NetworkCase kNetworkCases[] = {
    {CorrectionForm::kNone, 1, 59864, 18024},
    {CorrectionForm::kLocal, 1, 70016, 18024},
    {CorrectionForm::kNone, 4, 59864, 27664},
    {CorrectionForm::kLocal, 4, 70016, 37816},
};

TEST(ArenaSize, OfANetworkInTheLeanFormIsThatOfOneForwardPass) {
  if (sizeof(void*) != 8) {
    GTEST_SKIP() << "the figures are those of a 64-bit host";
  }
  for (const NetworkCase& c : kNetworkCases) {
    SCOPED_TRACE(std::to_string(static_cast<int>(c.correction)) + ", " + std::to_string(c.steps) + " steps");
    EXPECT_EQ(network_arena_size(c.correction, c.steps, false), c.tensors_size);
    EXPECT_EQ(network_arena_size(c.correction, c.steps, true), c.lean_size);
  }
  EXPECT_LE(kNetworkCases[0].lean_size, 20u * 1024) << "the smallest boards have no more to give";
}

}  // namespace
}  // namespace gradstream
