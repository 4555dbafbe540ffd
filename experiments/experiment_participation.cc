// RFedAGS when only a part of the devices takes part (the later paper of 000's authors): PCA on the sphere over MNIST
// under Scheme I and Scheme II (X15), and structured prediction in hyperbolic space under Scheme II (X16).
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "experiments/experiment.h"

namespace gradstream {
namespace {

// ---- X15 ----

constexpr uint32_t kDeviceCount = 60;
constexpr uint32_t kRoundCount = 500;
struct Share {
  const char* rho;
  uint32_t eager_count;  // devices that answer more often by 0.05
};
constexpr std::array<Share, 3> kShares = {{{"0.3", 15}, {"0.5", 27}, {"0.7", 39}}};

// The probabilities of Scheme II in the authors' runs, of mean rho: three devices hardly ever answer.
std::string probabilities(const Share& share) {
  const double rho = std::stod(share.rho);
  std::string text = "0.05 0.05 0.05";
  for (uint32_t i = 3; i < kDeviceCount; ++i) {
    text += " " + figure(i < 3 + share.eager_count ? rho + .05 : rho);
  }
  return text;
}

Case x15_case(const std::string& key, const std::shared_ptr<const Workload>& workload) {
  Case out;
  out.key = key;
  out.parameters = gradient_stream_parameters(5, 8e-5, kRoundCount);
  out.parameters.step_rule = StepRule::kFixed;
  out.parameters.batch_mode = BatchMode::kCommon;
  out.parameters.batch_size = 83;  // half of the samples of a device
  out.parameters.retraction = RetractionKind::kExponential;
  out.workload = workload;
  return out;
}

std::vector<Case> x15_cases(const Request& request) {
  std::vector<Case> cases;
  for (const bool is_skewed : {false, true}) {
    const std::shared_ptr<const Workload> workload =
        make_mnist_agents(request.data_folder, is_skewed ? 2 : 0, request.seed);
    if (workload == nullptr) {
      return {};
    }
    const std::string prefix = is_skewed ? "skewed" : "iid";
    cases.push_back(x15_case(prefix + "/full", workload));
    for (const Share& share : kShares) {
      const std::string rho = share.rho;
      const auto key = [&](const std::string& scheme) { return std::string(prefix).append(scheme).append(rho); };
      Case& one = cases.emplace_back(x15_case(key("/schemeI/"), workload));
      one.parameters.participation = Participation::kSchemeOne;
      one.parameters.cohort_size = static_cast<uint32_t>(std::lround(std::stod(rho) * kDeviceCount));
      for (const ParticipationWeights weights :
           {ParticipationWeights::kCounted, ParticipationWeights::kTrue, ParticipationWeights::kBiased}) {
        const std::string scheme_two = std::string("/schemeII/").append(name_of(weights)).append("/");
        Case& two = cases.emplace_back(x15_case(key(scheme_two), workload));
        two.parameters.participation = Participation::kSchemeTwo;
        two.parameters.participation_probability = probabilities(share);
        two.parameters.participation_weights = weights;
      }
    }
  }
  return cases;
}

void x15_judge(const Curves& curves, const Request&, Judgement* judgement) {
  const auto last = [&](const std::string& key) { return curves.at(key).excess_at(kRoundCount); };
  for (const char* data : {"iid", "skewed"}) {
    const std::string prefix = data;
    judgement->check(prefix + ", everybody: the excess falls a thousandfold: " +
                         figure(curves.at(prefix + "/full").excess_at(0)) + " to " + figure(last(prefix + "/full")),
                     last(prefix + "/full") < 1e-3 * curves.at(prefix + "/full").excess_at(0));
    judgement->claim(prefix + ": the plateau of Scheme I is lower for a larger share",
                     last(prefix + "/schemeI/0.7") < last(prefix + "/schemeI/0.5") &&
                         last(prefix + "/schemeI/0.5") < last(prefix + "/schemeI/0.3"),
                     "excess at round 500 for shares 0.3, 0.5, 0.7 and everybody: " +
                         figure(last(prefix + "/schemeI/0.3")) + ", " + figure(last(prefix + "/schemeI/0.5")) + ", " +
                         figure(last(prefix + "/schemeI/0.7")) + ", " + figure(last(prefix + "/full")));
    for (const char* weights : {"true", "counted", "biased"}) {
      const auto at = [&](const char* rho) { return last(prefix + "/schemeII/" + weights + "/" + rho); };
      judgement->claim(prefix + ": the plateau of Scheme II with " + weights + " weights is lower for a larger share",
                       at("0.7") < at("0.5") && at("0.5") < at("0.3"),
                       "excess at round 500 for shares 0.3, 0.5, 0.7: " + figure(at("0.3")) + ", " + figure(at("0.5")) +
                           ", " + figure(at("0.7")));
    }
    for (const Share& share : kShares) {
      const auto at = [&](const char* weights) { return last(prefix + "/schemeII/" + weights + "/" + share.rho); };
      judgement->claim(prefix + ", share " + share.rho + ": biased weights end far higher",
                       at("biased") > 3 * at("true"),
                       "Scheme II, excess at round 500: biased " + figure(at("biased")) + ", true " +
                           figure(at("true")) + ", counted " + figure(at("counted")));
    }
  }
}

// ---- X16 ----

// Of the authors' run: which of its 9 devices answers how often (wordnet/pi_9.csv), and its start value to 15 digits.
constexpr double kStartCost = 0.474720481891962;

std::vector<Case> x16_cases(const Request& request) {
  const std::shared_ptr<const Workload> workload = make_wordnet(request.data_folder);
  std::vector<Case> cases;
  if (workload == nullptr) {
    return cases;
  }
  Case full;
  full.parameters = gradient_stream_parameters(5, 0.06, 600);
  full.parameters.step_rule = StepRule::kFixed;
  full.parameters.batch_mode = BatchMode::kCommon;
  full.parameters.batch_size = 66;
  full.parameters.retraction = RetractionKind::kExponential;
  full.workload = workload;
  std::string text;
  for (const double probability : read_wordnet_participation(request.data_folder)) {
    std::array<char, 32> digits = {};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), probability).ptr;  // all of them
    text += (text.empty() ? "" : " ") + std::string(digits.data(), end);
  }
  for (const ParticipationWeights weights :
       {ParticipationWeights::kCounted, ParticipationWeights::kTrue, ParticipationWeights::kBiased}) {
    Case& one = cases.emplace_back(full);
    one.key = std::string("wordnet/schemeII/") + name_of(weights);
    one.parameters.participation = Participation::kSchemeTwo;
    one.parameters.participation_probability = text;
    one.parameters.participation_weights = weights;
  }
  full.key = "wordnet/full";
  cases.push_back(full);
  return cases;
}

void x16_judge(const Curves& curves, const Request& request, Judgement* judgement) {
  const std::shared_ptr<const Workload> workload = make_wordnet(request.data_folder);
  const double start = workload->measure(workload->start()).excess + workload->optimum();
  judgement->check("F(x0) = 0.474720481891962 to 15 digits: deviation " + figure(start - kStartCost),
                   std::abs(start - kStartCost) < 1e-15);
  const auto last = [&](const char* name) { return curves.at(std::string("wordnet/") + name).points.back().measures; };
  judgement->check("everybody: the excess falls a hundredfold: " + figure(curves.at("wordnet/full").excess_at(0)) +
                       " to " + figure(last("full").excess),
                   last("full").excess < 1e-2 * curves.at("wordnet/full").excess_at(0));
  judgement->claim("biased weights end higher than true ones",
                   last("schemeII/biased").excess > last("schemeII/true").excess,
                   "excess at round 600: biased " + figure(last("schemeII/biased").excess) + ", true " +
                       figure(last("schemeII/true").excess));
  judgement->claim("Scheme II with counted probabilities comes to the same value as with everybody",
                   last("schemeII/counted").excess < 10 * last("full").excess + 1e-6,
                   "excess at round 600: everybody " + figure(last("full").excess) + ", counted " +
                       figure(last("schemeII/counted").excess) + ", true " + figure(last("schemeII/true").excess) +
                       ", biased " + figure(last("schemeII/biased").excess));
}

}  // namespace

const Experiment kX15 = {
    "X15",   "RFedAGS with partial participation, PCA of MNIST on the sphere", x15_cases, x15_judge, "mnist", "excess",
    "skewed"};
const Experiment kX16 = {"X16",     "RFedAGS with partial participation, hyperbolic structured prediction",
                         x16_cases, x16_judge,
                         "wordnet", "excess",
                         ""};

}  // namespace gradstream
