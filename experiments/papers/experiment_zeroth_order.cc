// Federated learning by projection (003), with and without correction, first order and zeroth order, against each
// other.
#include <array>
#include <cmath>

#include "experiments/harness/experiment.h"
#include "experiments/papers/zeroth_order_floor.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr bool kIsDouble = sizeof(Real) == sizeof(double);

struct ZoflData {
  const char* name;
  uint32_t cols;
  uint32_t device_count;
  uint32_t direction_count;
  uint32_t round_count;
};

constexpr std::array<ZoflData, 3> kZoflData = {
    {{"synth", 2, 10, 20, 200}, {"digits", 4, 10, 50, 150}, {"iris", 2, 5, 20, 200}}};

struct ZoflVariant {
  bool is_first_order;
  bool has_correction;
  BatchMode batch_mode;
};

constexpr std::array<ZoflVariant, 5> kZoflVariants = {{{true, true, BatchMode::kAll},
                                                       {true, false, BatchMode::kAll},
                                                       {false, true, BatchMode::kAll},
                                                       {false, false, BatchMode::kAll},
                                                       {false, true, BatchMode::kPerDirection}}};

// mu of the zeroth-order runs: in double the reference's one; in float the product's first, then what the reference
// compares it with.
constexpr std::array<double, 4> kSmoothings = {1e-2, 1e-4, 1e-3, 3e-2};
constexpr double kDoubleSmoothing = 1e-4;

std::string zofl_key(const ZoflData& data, bool is_sorted, uint32_t tau, const ZoflVariant& variant, bool in_double,
                     double smoothing = kSmoothings[0]) {
  const double mu = in_double || variant.is_first_order ? kDoubleSmoothing : smoothing;
  return std::string(data.name) + (is_sorted ? "/het" : "/iid") + "/tau" + std::to_string(tau) +
         (variant.is_first_order ? "/FO" : "/ZO") + (variant.has_correction ? "/corr" : "/nocorr") +
         (variant.batch_mode == BatchMode::kAll ? "/full" : "/sample") + (in_double ? "/float64" : "/float32") + "/mu" +
         figure(mu);
}

Case zofl_case(const ZoflData& data, const std::shared_ptr<const KpcaWorkload>& workload, bool is_sorted, uint32_t tau,
               const ZoflVariant& variant, double smoothing) {
  const double entries = static_cast<double>(workload->shape().size());
  const double largest = workload->eigenvalues()(workload->eigenvalues().size() - 1);
  const double noise = data.direction_count * std::sqrt(data.device_count) / entries;
  const double step = (variant.is_first_order ? 0.5 : std::min(0.5, 0.5 * noise)) / largest;
  Case out;
  out.key = zofl_key(data, is_sorted, tau, variant, kIsDouble, smoothing);
  if (variant.is_first_order && !kIsDouble) {  // no noise: float follows the double run too
    out.reference_key = zofl_key(data, is_sorted, tau, variant, true);
  }
  out.parameters = gradient_stream_parameters(tau, step / tau, data.round_count);
  RunParameters& p = out.parameters;
  p.local->solver = SolverId::kProjection;
  p.local->estimator = variant.is_first_order ? EstimatorId::kAnalyticGradient : EstimatorId::kProjectionOneSided;
  p.wire->upload_stream =
      StreamKind::kTangentBlock;  // sphere directions are no wire form: nobody else could rebuild them
  p.local->directions = DirectionKind::kSphere;
  p.local->group_count = 0;
  p.local->direction_count = data.direction_count;
  p.local->smoothing = static_cast<Real>(kIsDouble || variant.is_first_order ? kDoubleSmoothing : smoothing);
  p.local->batch_mode = variant.batch_mode;
  p.local->correction_form = variant.has_correction ? CorrectionForm::kLocal : CorrectionForm::kNone;
  out.workload = workload;
  return out;
}

std::vector<Case> zofl_cases(const Request& request) {
  std::vector<Case> cases;
  for (const ZoflData& data : kZoflData) {
    for (const bool is_sorted : {false, true}) {
      const std::shared_ptr<const KpcaWorkload> workload =
          make_zofl(data.name, is_sorted, data.cols, data.device_count, request.seed);
      for (const uint32_t tau : {1, 5, 10}) {
        for (const ZoflVariant& variant : kZoflVariants) {
          if (tau == 10 && std::string(data.name) == "digits") {
            continue;
          }
          for (const double smoothing : kSmoothings) {
            const bool is_first = smoothing == kSmoothings[0];
            if (is_first || (!kIsDouble && !variant.is_first_order)) {
              cases.push_back(zofl_case(data, workload, is_sorted, tau, variant, smoothing));
            }
          }
        }
      }
    }
  }
  add_floor_cases(request.seed, &cases);
  return cases;
}

void zofl_judge(const Curves& curves, const Request& request, Judgement* judgement) {
  const auto at = [&](bool is_sorted, uint32_t tau, const ZoflVariant& variant, uint32_t round) {
    return curves.at(zofl_key(kZoflData[0], is_sorted, tau, variant, kIsDouble)).excess_at(round);
  };
  const auto& [fo, fo_without, zo, zo_without, sampled] = kZoflVariants;
  const double fo_gain = at(true, 5, fo_without, 200) / at(true, 5, fo, 200);
  const double zo_gain = at(true, 5, zo_without, 200) / at(true, 5, zo, 200);
  judgement->check("correction on sorted data, first order, gap 100 times lower at round 200: " + figure(fo_gain),
                   fo_gain > 100);
  judgement->check("correction on sorted data, zeroth order, gap 5 times lower at round 200: " + figure(zo_gain),
                   zo_gain > 5);
  judgement->claim("the correction terms remove client drift", fo_gain > 10 && zo_gain > 10,
                   "synthetic data sorted by label, 5 local steps, gap at round 200 without / with: first order " +
                       figure(at(true, 5, fo_without, 200)) + " / " + figure(at(true, 5, fo, 200)) + ", zeroth order " +
                       figure(at(true, 5, zo_without, 200)) + " / " + figure(at(true, 5, zo, 200)));
  // P_M is linear to first order, so that near the solution the measure is the norm of the gradient.
  const Curve& corrected = curves.at(zofl_key(kZoflData[0], true, 5, fo, kIsDouble));
  const Measures& first = corrected.points.front().measures;
  const Measures& last = corrected.points.back().measures;
  judgement->check_near("003's measure of optimality over the norm of the gradient at round 200",
                        last.optimality / last.grad_norm, 1, 1.01);
  judgement->claim(
      "003's measure of optimality, |X - P_M(X - t grad f(X))| / t with t = eta_g eta tau, goes to 0",
      last.optimality < 1e-2 * first.optimality,
      "synthetic data sorted by label, 5 local steps, first order with correction: " + figure(first.optimality) +
          " to " + figure(last.optimality) + ", zeroth order " +
          figure(curves.at(zofl_key(kZoflData[0], true, 5, zo, kIsDouble)).points.back().measures.optimality));
  judgement->claim("more local steps are better at the same eta tau",
                   at(false, 5, zo, 200) < at(false, 1, zo, 200) && at(false, 10, zo, 200) < at(false, 5, zo, 200),
                   "shuffled data, zeroth order, gap at round 200 for tau = 1, 5, 10: " +
                       figure(at(false, 1, zo, 200)) + ", " + figure(at(false, 5, zo, 200)) + ", " +
                       figure(at(false, 10, zo, 200)) + "; first order: " + figure(at(false, 1, fo, 200)) + ", " +
                       figure(at(false, 5, fo, 200)) + ", " + figure(at(false, 10, fo, 200)));
  judgement->claim("one sample a direction, as printed, is enough",
                   at(false, 5, sampled, 200) < 2 * at(false, 5, zo, 200),
                   "shuffled data, 5 local steps, gap at round 200: one sample " + figure(at(false, 5, sampled, 200)) +
                       ", all samples " + figure(at(false, 5, zo, 200)));
  judge_floors(curves, request.seed, judgement);
}

}  // namespace

const Experiment kZofl = {
    "d_zofl", "Federated learning by projection, with and without correction", zofl_cases, zofl_judge, nullptr,
    "excess", "synth/het/tau5/@(FO/*|ZO/*mu0.01) synth/het/tau5/ZO/*/full/*",  "round",    false,      write_floors};

}  // namespace gradstream
