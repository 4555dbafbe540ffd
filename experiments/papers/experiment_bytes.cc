// What a gap costs on the wire: local steps, and dense uploads against scalars, on the same data.
#include <array>
#include <cmath>
#include <cstdio>

#include "experiments/harness/experiment.h"
#include "server/run/names.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr uint32_t kDeviceCount = 9;
constexpr uint32_t kDirectionCount = 16;
constexpr uint32_t kGradientRounds = 1000;
constexpr std::array<double, 2> kGaps = {1e-1, 1e-2};  // relative to the optimum

// What rounding to int8 leaves out, and whether error feedback takes it back, shows only where nothing else is left:
// one exact gradient a round of six devices that differ, of which f32 comes to 0. Gradients of devices are as long at
// the solution as elsewhere, and so is what int8 leaves out of them.
constexpr uint32_t kFeedbackRounds = 1500;
constexpr uint32_t kFeedbackLast = 200;  // over which the gap is averaged: a coarse run is never still

Case feedback_case(const char* name, const std::shared_ptr<const KpcaWorkload>& workload) {
  const double largest = workload->eigenvalues()(workload->eigenvalues().size() - 1);
  Case out;
  out.key = std::string("feedback/") + name;
  out.parameters = gradient_stream_parameters(1, 0.1 / largest, kFeedbackRounds);
  if (sizeof(Real) == sizeof(float)) {
    out.parameters.fold->fold_scale_log2 = 28;  // steps are below 1, and the default's 2^-24 would be the floor
  }
  out.workload = workload;
  return out;
}

std::vector<Case> feedback_cases(uint32_t seed) {
  const std::shared_ptr<const KpcaWorkload> workload = make_own_directions(1, seed);
  std::vector<Case> cases = {feedback_case(name_of(kRealEncoding), workload), feedback_case("int8", workload),
                             feedback_case("int8_feedback", workload)};
  cases[1].parameters.wire->upload_encoding = Encoding::kInt8;
  cases[2].parameters.wire->upload_encoding = Encoding::kInt8;
  cases[2].parameters.wire->error_feedback = true;
  return cases;
}

// Digits sorted by class over nine devices, four components; and int8 with and without feedback.
std::vector<Case> bytes_cases(const Request& request) {
  const std::shared_ptr<const KpcaWorkload> workload = make_zofl("digits", true, 4, kDeviceCount, request.seed);
  const double largest = workload->eigenvalues()(workload->eigenvalues().size() - 1);
  std::vector<Case> cases = feedback_cases(request.seed);
  for (const uint32_t k : {1, 2, 4, 8, 16}) {  // the set of 000
    Case& one = cases.emplace_back();
    one.key = "dense/gradient/f32/K" + std::to_string(k);
    one.parameters = gradient_stream_parameters(k, 0.3 / largest, k > 4 ? 300 : kGradientRounds);
    one.workload = workload;
  }
  for (const uint32_t k : {1, 4}) {  // what coarse uploads leave out, and what comes of sending it later
    for (const bool has_feedback : {false, true}) {
      Case& one = cases.emplace_back();
      one.key = std::string("dense/gradient/") + (has_feedback ? "int8_feedback" : "int8") + "/K" + std::to_string(k);
      one.parameters = gradient_stream_parameters(k, 0.3 / largest, kGradientRounds);
      one.parameters.wire->upload_encoding = Encoding::kInt8;
      one.parameters.wire->error_feedback = has_feedback;
      one.workload = workload;
    }
  }
  for (const uint32_t k : {1, 5, 10}) {  // the set of 003
    for (const Encoding encoding : {kRealEncoding, Encoding::kBf16, Encoding::kInt8}) {
      for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
        const bool is_dense = stream == StreamKind::kTangentBlock;
        Case& one = cases.emplace_back();
        one.key =
            std::string(is_dense ? "dense" : "scalar") + "/zeroth/" + name_of(encoding) + "/K" + std::to_string(k);
        one.parameters = gradient_stream_parameters(k, 0.2 / largest, 1000);
        RunParameters& p = one.parameters;
        p.local->solver = SolverId::kProjection;
        p.local->estimator = EstimatorId::kProjectionOneSided;
        p.wire->upload_stream = stream;
        p.local->direction_count = kDirectionCount;
        p.local->batch_mode = BatchMode::kAll;
        p.local->correction_form = CorrectionForm::kLocal;
        p.wire->upload_encoding = encoding;
        p.wire->record_encoding = is_dense ? kRealEncoding : encoding;
        one.workload = workload;
      }
    }
  }
  return cases;
}

// The first point at a gap, or null.
const CurvePoint* first_below(const Curve& curve, double gap) {
  for (const CurvePoint& point : curve.points) {
    if (point.measures.excess <= gap * std::fabs(curve.optimum)) {
      return &point;
    }
  }
  return nullptr;
}

void judge_feedback(const Curves& curves, Judgement* judgement) {
  const auto gap = [&](const char* upload) {
    const Curve& curve = curves.at(std::string("feedback/") + upload);
    return curve.mean_excess(kFeedbackLast) / std::fabs(curve.optimum);
  };
  const double exact = gap(name_of(kRealEncoding));
  const std::string evidence = "relative gap, mean of rounds 1301 to 1500: " + std::string(name_of(kRealEncoding)) +
                               " " + figure(exact) + ", int8 " + figure(gap("int8")) + ", int8 with error feedback " +
                               figure(gap("int8_feedback"));
  judgement->check("int8 stalls where " + std::string(name_of(kRealEncoding)) + " goes on; " + evidence,
                   gap("int8") > 1e3 * std::fabs(exact));
  judgement->check("error feedback passes the floor of int8 by a factor of 20",
                   gap("int8_feedback") < gap("int8") / 20);
}

void bytes_judge(const Curves& curves, const Request&, Judgement* judgement) {
  judgement->note("bytes of one device to a relative gap, frames without TLS");
  judgement->note("| run | gap 1e-1: rounds | up | down | gap 1e-2: rounds | up | down | last round | gap |");
  judgement->note("|---|---|---|---|---|---|---|---|---|");
  for (const auto& [key, curve] : curves) {
    std::string line = "| " + key + " |";
    for (const double gap : kGaps) {
      const CurvePoint* point = first_below(curve, gap);
      line += point == nullptr
                  ? " - | - | - |"
                  : " " + std::to_string(point->round) + " | " + std::to_string(point->bytes_up / kDeviceCount) +
                        " | " + std::to_string(point->bytes_down / kDeviceCount) + " |";
    }
    const CurvePoint& last = curve.points.back();
    judgement->note(line + " " + std::to_string(last.round) + " | " +
                    figure(last.measures.excess / std::fabs(curve.optimum)) + " |");
  }
  const auto up = [&](const std::string& key) {
    const CurvePoint* point = first_below(curves.at(key), kGaps[1]);
    return point == nullptr ? std::numeric_limits<double>::infinity() : static_cast<double>(point->bytes_up);
  };
  const auto last_gap = [&](const char* upload, const char* k) {
    const Curve& curve = curves.at(std::string("dense/gradient/") + upload + k);
    return curve.points.back().measures.excess / std::fabs(curve.optimum);
  };
  for (const char* k : {"/K1", "/K4"}) {
    const double apart = std::fabs(last_gap("int8", k) / last_gap("f32", k) - 1);
    const double apart_with = std::fabs(last_gap("int8_feedback", k) / last_gap("f32", k) - 1);
    judgement->claim(
        std::string("Digits, ") + (k + 1) + ": error feedback takes back four fifths of what int8 leaves out",
        apart_with < apart / 5,
        "deviation from f32 " + figure(apart) + " without, " + figure(apart_with) +
            " with; relative gap at round 1000: f32 " + figure(last_gap("f32", k)) + ", int8 " +
            figure(last_gap("int8", k)) + ", int8 with error feedback " + figure(last_gap("int8_feedback", k)));
  }
  judge_feedback(curves, judgement);
  const std::string encoding = name_of(kRealEncoding);
  judgement->check("one local step: scalars cost less than half of a dense upload to the same gap",
                   up("scalar/zeroth/" + encoding + "/K1") < 0.5 * up("dense/zeroth/" + encoding + "/K1"));
  judgement->claim("more local steps cost fewer bytes", up("dense/gradient/f32/K16") < up("dense/gradient/f32/K1"),
                   "dense gradients to a gap of 1e-2, all devices: K = 1 " + figure(up("dense/gradient/f32/K1")) +
                       " B, K = 4 " + figure(up("dense/gradient/f32/K4")) + " B, K = 16 " +
                       figure(up("dense/gradient/f32/K16")) + " B");
}

}  // namespace

const Experiment kBytes = {
    "bytes",
    "Bytes to a gap, dense and scalar uploads, int8 with and without error feedback",
    bytes_cases,
    bytes_judge,
    nullptr,
    "excess",
    "dense/gradient/f32/* @(dense|scalar)/zeroth/f@(32|64)/* dense/gradient/@(f32/K[14]|int8*) feedback/*",
    "round",
    true};

}  // namespace gradstream
