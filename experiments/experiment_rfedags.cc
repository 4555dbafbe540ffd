// RFedAGS against its own claims (000): X1 principal eigenvector on the sphere.
#include "experiments/experiment.h"

#include <cmath>

namespace gradstream {
namespace {

constexpr uint32_t kLocalSteps[] = {1, 2, 4, 8, 16};

// ---- X1 ----

constexpr uint32_t kX1Rounds = 600;

std::vector<Case> x1_cases(const Request& request) {
  const std::shared_ptr<const Workload> workload = make_cpesph(request.seed);
  std::vector<Case> cases;
  for (const uint32_t k : kLocalSteps) {
    Case& one = cases.emplace_back();
    one.key = "CPESph/fixed/K" + std::to_string(k) + "/AGS";
    one.parameters = gradient_stream_parameters(k, 1.0, kX1Rounds);
    one.parameters.batch_mode = BatchMode::kCommon;
    one.parameters.batch_size = 64;
    one.workload = workload;
  }
  return cases;
}

void x1_judge(const Curves& curves, const Request&, Judgement* judgement) {
  const auto at = [&](int k, uint32_t round) {
    return curves.at("CPESph/fixed/K" + std::to_string(k) + "/AGS").excess_at(round);
  };
  judgement->check_near("K1, excess at round 200", at(1, 200), 1.3e-3, 3);
  judgement->check_near("K8, excess at round 200", at(8, 200), 1.4e-5, 30);
  judgement->check_near("K8, floor at round 600", at(8, 600), 1.4e-6, 4);
  judgement->check_near("K16, floor at round 600", at(16, 600), 4.6e-6, 4);
  judgement->claim("more local steps are faster", at(1, 100) > at(2, 100) && at(2, 100) > at(4, 100) &&
                                                      at(4, 100) > at(8, 100) && at(8, 100) > at(16, 100),
                   "excess at round 100 for K = 1, 2, 4, 8, 16: " + figure(at(1, 100)) + ", " + figure(at(2, 100)) +
                       ", " + figure(at(4, 100)) + ", " + figure(at(8, 100)) + ", " + figure(at(16, 100)));
  judgement->claim("linear convergence to a floor that grows with K and the step",
                   at(16, 600) > at(8, 600),
                   "excess at round 600: K8 " + figure(at(8, 600)) + ", K16 " + figure(at(16, 600)));
}

}  // namespace

const Experiment kX1 = {"X1", "RFedAGS, principal eigenvector on the sphere, fixed step", x1_cases, x1_judge, nullptr,
                        "excess"};

}  // namespace gradstream
