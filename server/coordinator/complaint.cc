#include "server/coordinator/complaint.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include "server/run/limits.h"
#include "server/run/names.h"
#include "server/run/quality_keys.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/units_keys.h"

namespace gradstream {
namespace {

// log2 of the room that the proposed scale leaves above the largest value seen. Reason: losses are steepest between
// the first model and the best one, by less than this on the tables that were tried.
constexpr int kRoomLog2 = 4;
// Values of a later step beyond this times those of the first one. Reason: with a step that is right they shrink; what
// the draw of directions does to the largest of some stays well below it.
constexpr double kGrowthMax = 8;
// Of 1 / L, docs/algorithms.md.
constexpr double kStepShare = 0.2;
// The proposal is that part of a step that is too long where no curvature is known. Reason: a few proposals then reach
// any step, and the last one is within a factor of ten.
constexpr double kStepCut = 10;

double largest(std::span<const Real> values) {
  double most = 0;
  for (const Real value : values) {
    most = std::max(most, std::fabs(static_cast<double>(value)));
  }
  return most;
}

double norm(std::span<const Real> values) {
  double sum = 0;
  for (const Real value : values) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return std::sqrt(sum);
}

double power_of_two(int exponent) { return std::ldexp(1.0, exponent); }

bool is_bounded(ManifoldId id) {
  return id == ManifoldId::kSphere || id == ManifoldId::kStiefel || id == ManifoldId::kOblique ||
         id == ManifoldId::kGrassmann;
}

// |g| at the model that the device began at; 0: the update does not tell.
double gradient_norm(const RunParameters& p, const RangeFault& fault) {
  if (p.stream() == StreamKind::kScalarStream) {
    // Directions have norm 1 and pr entries, so that m slopes have |g|^2 m / pr as the sum of their squares.
    const size_t count = std::min<size_t>(p.local->direction_count, fault.values.size());
    const double share = static_cast<double>(count) / static_cast<double>(p.model->shape.size());
    return count == 0 ? 0 : norm(fault.values.first(count)) / std::sqrt(share);
  }
  const double steps = std::max(1U, fault.steps_done);
  return fault.is_gradient ? norm(fault.values) / steps : 0;
}

double proposed_step(const RunParameters& p, const RangeFault& fault) {
  const double loss = std::fabs(fault.loss_before);
  const double gradient = gradient_norm(p, fault);
  double curvature = loss > 0 ? gradient * gradient / (2 * loss) : 0;
  if (is_bounded(p.model->manifold) && fault.model_norm > 0) {
    curvature = std::max(curvature, 2 * loss / (fault.model_norm * fault.model_norm));
  }
  return curvature > 0 && std::isfinite(curvature) ? kStepShare / curvature : 0;
}

std::string devices_of(const BlockedGroup& group) {
  return std::to_string(group.device_count) + " of " + std::to_string(group.asked_count) + " devices (" + group.names +
         ")";
}

constexpr const char* kNetworkRemedy =
    "give the devices the file of the run's network (gradstream-client --network FILE, ./run provision --network "
    "FILE), or stop the run and begin one with theirs";

// What a run says so that its devices need no such feature. Defaults ask for each of them (server/run/settle.h).
struct FeatureKeys {
  std::string_view lacks;
  const char* keys;
};
constexpr FeatureKeys kFeatureKeys[] = {{"feature:units", "centre = \"none\" and scale = \"none\""},
                                        {"feature:lines", "a number as step_size, such as 0.1"},
                                        {"feature:clip_scale", "clip_norm = \"none\""}};

// "" where no key helps.
std::string keys_without(const std::string& lacks) {
  std::string keys;
  for (const FeatureKeys& feature : kFeatureKeys) {
    if (lacks.find(feature.lacks) != std::string::npos) {
      keys += (keys.empty() ? "" : ", ") + std::string(feature.keys);
    }
  }
  return keys;
}

StallCause of_capability(const RunParameters& p, const BlockedGroup& group) {
  StallCause out;
  out.cause = "not_capable";
  out.text = devices_of(group) + " lack what the run's tasks need: " + group.lacks;
  const std::string nearest = builtin_problem_hint(p.model->problem);
  if (group.lacks.find("problem:") != std::string::npos && !nearest.empty()) {
    out.text += "; " + nearest;
  }
  out.remedy = capability_remedy(group.lacks);
  return out;
}

StallCause of_sample(const RunParameters& p, const BlockedGroup& group) {
  const Complaint& complaint = group.complaint;
  StallCause out;
  out.text = devices_of(group) + " hold data that the problem " + p.model->problem + " never takes: sample " +
             std::to_string(complaint.sample) + " (from 1) of " + group.first_name;
  if (complaint.has_value()) {
    const std::string range = number_text(complaint.least) + " to " + number_text(complaint.most);
    out.text += " has " + number_text(complaint.value) + ", allowed are " + range;
    out.remedy = "give the devices data with whole numbers from " + range + " there, and start their clients anew";
  } else {
    out.text += group.reason == gs_Reason_REASON_NOT_FINITE ? " is no number" : " is none that it takes";
    out.remedy = "take that sample out of the device's data, or mend it, and start the device anew";
  }
  return out;
}

// What the next run has, to make shorter steps than this one.
std::string shorter_steps(const RunParameters& p) {
  return chooses_step(p) ? "a number as step_size in place of auto" : "a smaller step_size";
}

// Answers of the stages of units.
StallCause of_column(const BlockedGroup& group) {
  const Complaint& complaint = group.complaint;
  StallCause out;
  out.text = devices_of(group) + " are refused: their answer says " + number_text(complaint.value) + " of column " +
             std::to_string(complaint.column) + " (from 1), allowed are " + number_text(complaint.least) + " to " +
             number_text(complaint.most);
  out.remedy = "look at their data in that column, and start their clients anew";
  return out;
}

StallCause of_range(const RunParameters& p, const BlockedGroup& group) {
  const Complaint& complaint = group.complaint;
  StallCause out;
  if (complaint.column > 0) {
    return of_column(group);
  }
  out.text = devices_of(group) + " are refused: ";
  if (!complaint.has_value()) {
    out.text += "a value is beyond what the upload's encoding or the sum, by fold_scale_log2 = " +
                std::to_string(p.fold->fold_scale_log2) + ", holds";
    out.remedy = "stop the run and begin one with a smaller fold_scale_log2 or " + shorter_steps(p);
    return out;
  }
  out.text += "an update holds values up to " + number_text(complaint.value) +
              ", and fold_scale_log2 = " + std::to_string(p.fold->fold_scale_log2) + " takes values below " +
              number_text(complaint.most);
  std::string keys;
  if (complaint.fold_scale_log2 > 0) {
    keys = "fold_scale_log2 = " + std::to_string(complaint.fold_scale_log2 - 1);
  }
  if (complaint.step_size > 0) {
    keys += (keys.empty() ? "" : " and ") + std::string("step_size = ") +
            number_text(static_cast<double>(complaint.step_size));
  }
  if (keys.empty() && chooses_step(p)) {
    keys = shorter_steps(p);
  }
  out.remedy = keys.empty() ? "divide the data by their largest value, as no fold_scale_log2 holds such values"
                            : "stop the run and begin one with " + keys + ", or standardise the data";
  if (units_bits(p) != 0) {
    out.remedy +=
        "; look at the data of these devices first: the run takes the fleet's units out, and theirs seem to be others";
  } else if (units_column_count(p) > 0) {
    out.remedy += std::string("; or let the run take the units out, by centre = \"federated\" and scale = ") +
                  (has_labels(p) ? "\"deviation\"" : "\"common\"");
  }
  return out;
}

// A device that names a number of samples with this reason has none left to train on.
StallCause of_holdout(const RunParameters& p, const BlockedGroup& group) {
  const std::string least = number_text(group.complaint.least);
  StallCause out;
  out.cause = "no_samples";
  out.text = devices_of(group) + " have no sample to train on: " + group.first_name + " holds " +
             number_text(group.complaint.value);
  out.remedy = "give these devices " + least + " samples or more";
  if (p.quality->holdout_share > 0) {
    out.cause = "all_held_out";
    out.text += ", and holdout_share = " + number_text(static_cast<double>(p.quality->holdout_share)) +
                " leaves one of " + least + " or more";
    out.remedy += ", or stop the run and begin one with a smaller holdout_share";
  }
  return out;
}

// A floor of a device's owner: what it is about, what the operator may change, and the option of the device.
struct FloorWords {
  const char* what = "";
  const char* keys = "";
  const char* option = "";
  gs_Floor floor = gs_Floor_FLOOR_NONE;
  bool counts_device = false;  // the device's samples, and no number of a task
};
constexpr FloorWords kFloorWords[] = {
    {"estimates over samples", "a larger batch_size and batch_mode = \"common\" or \"all\"", "--batch-size-min",
     gs_Floor_FLOOR_BATCH_SIZE},
    {"tasks of local steps", "a larger local_step_count", "--local-step-count-min", gs_Floor_FLOOR_LOCAL_STEPS},
    {"updates of scalars a sample", "a smaller direction_count or local_step_count, or a larger batch_size",
     "--scalars-per-sample-max", gs_Floor_FLOOR_SCALARS_PER_SAMPLE},
    {"updates that are tensors", "upload_stream = \"scalar\"", "--no-tangents", gs_Floor_FLOOR_TANGENTS},
    {"sums over the columns of samples", "centre = \"none\" and scale = \"none\"", "--sums-samples-min",
     gs_Floor_FLOOR_UNIT_SUMS, true},
    {"trial losses of samples", "a number as step_size in place of auto", "--trials-samples-min",
     gs_Floor_FLOOR_TRIAL_STEPS, true}};

StallCause of_floor(const BlockedGroup& group) {
  const Complaint& complaint = group.complaint;
  const auto* const words = std::find_if(std::begin(kFloorWords), std::end(kFloorWords),
                                         [&](const FloorWords& row) { return row.floor == complaint.floor; });
  StallCause out;
  if (words == std::end(kFloorWords)) {  // it was told to a server before this one
    out.text = devices_of(group) + " refuse the run's tasks by a floor of their owners";
    out.remedy = "look at task_refused in the log, which names the floor, and at docs/trust.md";
    return out;
  }
  out.text = devices_of(group) + " refuse " + words->what + ", by the floor " + floor_name(complaint.floor) +
             " of their owners";
  if (complaint.has_value()) {
    const bool is_below = complaint.value < complaint.least;
    out.text += ": " + (words->counts_device ? group.first_name : "a task of " + group.first_name) + " has " +
                number_text(complaint.value) + (words->counts_device ? " samples" : "") + " and the " +
                (is_below ? "least" : "most") + " is " + number_text(is_below ? complaint.least : complaint.most);
  }
  out.remedy = std::string("stop the run and begin one with ") + words->keys + "; or let the owners change " +
               words->option + " of these devices, if they agree (docs/trust.md)";
  return out;
}

// What else a device or the server refuses, by its reason.
std::pair<const char*, std::string> words_of(const RunParameters& p, gs_Reason reason) {
  switch (reason) {
    case gs_Reason_REASON_NONE:
      return {"are left out, since what their columns add up to is far from that of the others",
              "look at units_outlier in the log and at their data, or begin the run anew without them"};
    case gs_Reason_REASON_WRONG_SHAPE:
      return {"hold data of another dimension than the run's rows",
              "give the devices the data of this run, or begin a run with their number of rows"};
    case gs_Reason_REASON_OUT_OF_MEMORY:
      return {"have too little memory for a task", "enlarge their arena, or begin a smaller run"};
    case gs_Reason_REASON_WRONG_NETWORK:
      return {"hold another network than the run's, or none", kNetworkRemedy};
    case gs_Reason_REASON_TASK_UNIMPLEMENTED:
      return {"lack what a task names", "give the devices an image that has it"};
    case gs_Reason_REASON_NOT_FINITE:
      return {"compute values or losses that are no numbers",
              "look for NaN in their data; else divide the data by their largest value, or begin a run with " +
                  shorter_steps(p)};
    case gs_Reason_REASON_SINGULAR:
      return {"leave the region where a local step is defined", "begin a run with " + shorter_steps(p)};
    case gs_Reason_REASON_UNITS_REFUSED:
      return {"do not let the sums of their columns out",
              "start their clients without --no-sums, or begin a run with centre = \"none\" and scale = \"none\""};
    case gs_Reason_REASON_DEADLINE:
      return {"wait for a measurement that never comes",
              "look at their apparatus (event=measurement_lost on their consoles), or raise measure_timeout_ms"};
    case gs_Reason_REASON_NO_TIME:
      return {"claim more local steps than there was time for", "lower step_time_min_us, or look at the devices"};
    default:
      return {"are refused for this reason", "look at update_refused and task_refused in docs/reference/events.md"};
  }
}

}  // namespace

std::string capability_remedy(const std::string& lacks) {
  if (lacks_samples_alone(lacks)) {
    return "wait until the devices hold as many samples, or stop the run and begin one with a smaller samples_min";
  }
  if (lacks_network_alone(lacks)) {
    return kNetworkRemedy;
  }
  const bool has_problem = lacks.find("problem:") == std::string::npos;
  if (const std::string keys = keys_without(lacks); has_problem && !keys.empty()) {
    return "give the devices an image that has it, or stop the run and begin one with " + keys;
  }
  return has_problem
             ? "give the devices an image that has it, or stop the run and begin one that they can do"
             : "start the devices with it, gradstream-client by --problem and others by an image that has it, or stop "
               "the run and begin one with a run.problem that they have";
}

StallCause stall_cause(const RunParameters& parameters, const BlockedGroup& group) {
  if (group.lacks_something) {
    return of_capability(parameters, group);
  }
  StallCause out;
  if (group.complaint.sample > 0) {
    out = of_sample(parameters, group);
  } else if (group.reason == gs_Reason_REASON_OUT_OF_RANGE && group.complaint.column == 0 &&
             group.complaint.least >= 1 && group.complaint.value < group.complaint.least) {
    return of_holdout(parameters, group);  // values of an update go from below 0
  } else if (group.reason == gs_Reason_REASON_OUT_OF_RANGE) {
    out = of_range(parameters, group);
  } else if (group.reason == gs_Reason_REASON_PRIVACY) {
    out = of_floor(group);
  } else {
    const auto [text, remedy] = words_of(parameters, group.reason);
    out.text = devices_of(group) + " " + text;
    if (group.reason == gs_Reason_REASON_WRONG_SHAPE) {
      out.text += ", which are " + std::to_string(parameters.model->shape.rows) + ", or none that problem " +
                  parameters.model->problem + " takes";
    }
    out.remedy = remedy;
  }
  out.cause = group.reason == gs_Reason_REASON_NONE ? "units_outlier" : reason_name(group.reason);
  return out;
}

StallCause stall_causes(const RunParameters& parameters, std::span<const BlockedGroup> groups) {
  StallCause out = stall_cause(parameters, groups.front());
  const size_t count = std::min(groups.size(), kStallCausesMax);
  for (const BlockedGroup& group : groups.subspan(1, count - 1)) {
    const StallCause other = stall_cause(parameters, group);
    out.text += "; also " + other.cause + ": " + other.text;
    const std::string whom = group.lacks_something ? "those that lack " + group.lacks : other.cause;
    out.remedy += "; for " + whom + ": " + other.remedy;
  }
  if (groups.size() > count) {
    out.text += "; also " + std::to_string(groups.size() - count) + " more causes";
  }
  return out;
}

Complaint range_complaint(const RunParameters& p, const RangeFault& fault) {
  Complaint out;
  if (!(fault.factor > 0 && fault.factor < 1)) {
    return out;
  }
  const int scale = static_cast<int>(p.fold->fold_scale_log2);
  const double limit = power_of_two(static_cast<int>(kFoldValueBits) - scale);
  const double value = limit / fault.factor;
  out.value = static_cast<float>(std::min(value, static_cast<double>(std::numeric_limits<float>::max())));
  out.least = static_cast<float>(-limit);
  out.most = static_cast<float>(limit);
  const bool is_scalar = p.stream() == StreamKind::kScalarStream;
  const double all = largest(fault.values);
  const double first =
      is_scalar ? largest(fault.values.first(std::min<size_t>(p.local->direction_count, fault.values.size()))) : all;
  const double loss = std::fabs(fault.loss_before);
  // Of tensors only the loss tells what happened between the first step and the last one.
  const bool is_growing =
      is_scalar ? all > kGrowthMax * first : fault.loss_after - fault.loss_before > kGrowthMax * loss;
  const auto step_size = static_cast<double>(p.steps->step_size);
  const double fitting = is_growing && !is_scalar ? 0 : proposed_step(p, fault);
  const double wanted = fitting > 0 && is_growing ? std::min(fitting, step_size / kStepCut)
                        : fitting > 0             ? fitting
                                                  : step_size / kStepCut;
  out.step_size = wanted < step_size ? static_cast<float>(wanted) : 0;
  if (is_growing && !is_scalar) {
    return out;  // how large the values are with a step that is right is not known
  }
  const double begins_at = all > 0 ? value * first / all : value;
  const int more = std::max(0, static_cast<int>(std::ceil(std::log2(begins_at / limit))) + kRoomLog2);
  const bool needs_scale = begins_at * power_of_two(kRoomLog2) > limit;
  // Without the room a scale may still do.
  const int proposed = std::max(scale - more, scale - more + kRoomLog2 >= 0 ? 0 : -1);
  if (needs_scale && proposed < 0) {
    out.step_size = 0;  // no key does
  } else if (needs_scale) {
    out.fold_scale_log2 = static_cast<uint32_t>(proposed) + 1;
  }
  return out;
}

}  // namespace gradstream
