// Low-dimensional multitask learning on the Grassmann manifold (000): synthetic tasks (X5).
#include "experiments/experiment.h"

namespace gradstream {
namespace {

constexpr bool kIsDouble = sizeof(Real) == sizeof(double);

std::vector<Case> x5_cases(const Request& request) {
  const std::shared_ptr<const Workload> workload = make_multitask(request.seed);
  std::vector<Case> cases;
  for (const uint32_t k : {1, 2, 4, 8}) {
    Case& one = cases.emplace_back();
    one.key = "K" + std::to_string(k);
    one.parameters = gradient_stream_parameters(k, 3e-3, 200);
    one.parameters.batch_mode = BatchMode::kCommon;
    one.parameters.batch_size = 25;
    one.parameters.retraction = RetractionKind::kPolar;
    one.parameters.transport = TransportKind::kProjection;
    one.workload = workload;
  }
  return cases;
}

void x5_judge(const Curves& curves, const Request&, Judgement* judgement) {
  const auto at = [&](const char* key, uint32_t round) { return curves.at(key).at(round).measures; };
  judgement->check_near("K1, cost at round 50", at("K1", 50).excess, 1.2e1, 4);
  judgement->check_near("K1, cost at round 100", at("K1", 100).excess, 4.4e-2, 10);
  judgement->check_near("K2, cost at round 50", at("K2", 50).excess, 5.1e-2, 10);
  if (kIsDouble) {
    judgement->check("K8 is at the floor of the noise by round 50: cost " + figure(at("K8", 50).excess),
                     at("K8", 50).excess < 1e-10);
    judgement->check_near("K8, distance to the truth at the floor", at("K8", 200).other, 1.5e-7, 3);
  }
  judgement->claim("linear rate, faster with more local steps, and the subspace is found",
                   at("K1", 150).excess < at("K1", 100).excess && at("K2", 50).excess < at("K1", 50).excess &&
                       at("K4", 50).excess < at("K2", 50).excess && at("K8", 200).other < 1e-3,
                   "cost at round 50 for K = 1, 2, 4, 8: " + figure(at("K1", 50).excess) + ", " +
                       figure(at("K2", 50).excess) + ", " + figure(at("K4", 50).excess) + ", " +
                       figure(at("K8", 50).excess) + "; distance to the truth at round 200: " +
                       figure(at("K1", 200).other) + ", " + figure(at("K8", 200).other));
}

}  // namespace

const Experiment kX5 = {"X5", "RFedAGS, synthetic multitask learning", x5_cases, x5_judge, nullptr, "excess"};

}  // namespace gradstream
