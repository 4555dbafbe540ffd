// What one of four devices can do to a run with the defaults of today (docs/trust.md, "One device that lies"): k-PCA of
// Digits through the product's coordinator and clients, 40 rounds. What is held is the relative gap of the honest
// three's own problem, which begins at 0.89. Bounds are a quarter above the worst of seeds 1 to 3.
#include <cmath>
#include <cstdio>
#include <functional>

#include <gtest/gtest.h>

#include "experiments/harness/experiment.h"
#include "experiments/harness/harness.h"
#include "runtime/base/random.h"
#include "server/run/fold_keys.h"
#include "server/run/run_core.h"
#include "server/run/settle.h"
#include "sim/lies.h"
#include "sim/timed_fleet.h"

namespace gradstream {
namespace {

constexpr uint32_t kDeviceCount = 4;
constexpr uint32_t kLiar = kDeviceCount - 1;
constexpr uint32_t kRoundCount = 40;
constexpr uint32_t kSampleMost = 65535;
constexpr uint32_t kSeedCount = 3;

// Value q of the liar's update from this version.
using Lies = std::function<void(uint32_t seed, uint32_t version, std::vector<Real>* values)>;

void say_all(Real value, std::vector<Real>* values) { std::fill(values->begin(), values->end(), value); }

void say_noise(uint32_t seed, uint32_t version, Real size, std::vector<Real>* values) {
  RandomKey key;
  key.seed = seed;
  key.version = version;
  key.owner = 0xbad00;  // apart from the samples, which are drawn from the same domain
  fill_normal(key, 0, values->size(), values->data());
  for (Real& value : *values) {
    value *= size;
  }
}

struct Row {
  const char* name;
  void (*change)(RunParameters* p);  // keys that the operator sets
  uint32_t claims;                   // samples; 0: what it holds
  Lies lies;
  double gap_max;
};

std::vector<Row> rows() {
  const auto defaults = [](RunParameters*) {};
  const Lies honest = [](uint32_t, uint32_t, std::vector<Real>*) {};
  const Lies zeros = [](uint32_t, uint32_t, std::vector<Real>* values) { say_all(0, values); };
  const Lies noise = [](uint32_t seed, uint32_t version, std::vector<Real>* values) {
    say_noise(seed, version, 100, values);
  };
  return {
      {"honest", defaults, 0, honest, 0.037},
      {"zeros", defaults, 450, zeros, 0.027},
      {"zeros of 65,535 samples", defaults, kSampleMost, zeros, 0.027},
      {"20 everywhere of 65,535 samples", defaults, kSampleMost,
       [](uint32_t, uint32_t, std::vector<Real>* values) { say_all(20, values); }, 0.48},
      {"noise of size 100", defaults, 0, noise, 0.51},
      {"1.9 with random signs in a narrow range", [](RunParameters* p) { p->fold->fold_scale_log2 = 30; }, 0,
       [](uint32_t seed, uint32_t version, std::vector<Real>* values) {
         say_noise(seed, version, 1, values);
         for (Real& value : *values) {
           value = value < 0 ? -1.9F : 1.9F;
         }
       },
       0.45},
      {"noise of size 100 of 65,535 samples, shares capped", [](RunParameters* p) { p->fold->weight_share_max = 0.3F; },
       kSampleMost, noise, 0.6},
      {"tangents of size 100 of 65,535 samples",
       [](RunParameters* p) {
         p->local->solver = SolverId::kGradientStream;
         p->local->estimator = EstimatorId::kAnalyticGradient;
         p->local->correction_form = CorrectionForm::kNone;
       },
       kSampleMost, noise, 0.023},
  };
}

// The gap of the honest devices' problem, whoever trains.
class HonestWorkload : public KpcaWorkload {
 public:
  HonestWorkload(const std::vector<Matrix>& all, const std::vector<Matrix>& honest, uint32_t seed)
      : KpcaWorkload(all, ManifoldId::kStiefel, 4, seed), honest_(honest, ManifoldId::kStiefel, 4, seed) {}
  double optimum() const override { return honest_.optimum(); }
  Measures measure(const Matrix& model) const override { return honest_.measure(model); }

 private:
  KpcaWorkload honest_;
};

Case case_of(const Row& row, uint32_t seed) {
  std::vector<Matrix> parts = zofl_parts("digits", true, kDeviceCount, seed);
  Eigen::RowVectorXd mean = Eigen::RowVectorXd::Zero(parts.front().cols());
  for (const Matrix& part : parts) {
    mean += part.colwise().mean() / kDeviceCount;
  }
  for (Matrix& part : parts) {
    part.rowwise() -= mean;
  }
  std::vector<Matrix> honest = parts;
  honest.pop_back();
  const auto workload = std::make_shared<HonestWorkload>(parts, honest, seed);
  Case out;
  out.key = row.name;
  out.seed = seed;
  out.workload = workload;
  const auto& eigenvalues = workload->eigenvalues();
  out.parameters = gradient_stream_parameters(5, 0.2 / eigenvalues(eigenvalues.size() - 1), kRoundCount);
  RunParameters& p = out.parameters;
  p.local->solver = SolverId::kProjection;
  p.local->estimator = EstimatorId::kProjectionOneSided;
  p.local->direction_count = 16;
  p.local->smoothing = static_cast<Real>(1e-2);
  p.local->batch_mode = BatchMode::kCommon;
  p.local->batch_size = 32;
  p.local->correction_form = CorrectionForm::kLocal;
  p.steps->step_decay = static_cast<Real>(0.1);
  p.fold->fold_weight = FoldWeight::kSampleCount;  // as a key that nobody sets
  row.change(&p);
  // What the server settles of weights and clip, and nothing else.
  RunParameters settled = complete_parameters(out, {seed, ""});
  settle_defaults(&settled, {"centre", "scale", "step_size", "upload_stream", "correction_form"});
  p.fold = settled.fold;
  out.hook = [row, seed](TimedFleet* fleet) {
    fleet->on_device_message = [row, seed](uint32_t device, DeviceMessage* message) {
      if (device != kLiar) {
        return;
      }
      if (message->which_body == gs_DeviceMessage_hello_tag && row.claims != 0) {
        message->body.hello.sample_count = row.claims;
      }
      std::vector<Real> values = upload_values(*message);
      if (!values.empty()) {
        const bool is_scalar = message->which_body == gs_DeviceMessage_update_scalars_tag;
        row.lies(seed,
                 is_scalar ? message->body.update_scalars.base_version : message->body.update_tangent.base_version,
                 &values);
        set_upload_values(values, message);
      }
    };
  };
  return out;
}

TEST(PoisonRows, NoRowEndsTheModel) {
  for (const Row& row : rows()) {
    double worst = 0;
    for (uint32_t seed = 1; seed <= kSeedCount; ++seed) {
      const Case one = case_of(row, seed);
      const Curve curve = run_case(one, {});
      ASSERT_EQ(curve.fault, "") << row.name;
      ASSERT_EQ(curve.points.back().round, kRoundCount) << row.name;
      const double gap = curve.points.back().measures.excess / std::fabs(curve.optimum);
      EXPECT_LE(gap, row.gap_max) << row.name << " seed " << seed;
      worst = std::isnan(gap) || gap > worst ? gap : worst;
    }
    std::printf("%s: gap %.3e\n", row.name, worst);
  }
}

}  // namespace
}  // namespace gradstream
