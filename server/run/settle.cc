#include "server/run/settle.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "server/run/check_parameters.h"
#include "server/run/fold_keys.h"
#include "server/run/limits.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"
#include "server/run/units_keys.h"

namespace gradstream {
namespace {

// Whether it changes the field.
template <typename Field>
bool replace(Field& field, Field value) {
  return std::exchange(field, value) != value;
}

// What is settled of one run.
struct Settling {
  bool is_given(const char* key) const { return given.contains(key); }
  // Sets a field that the run would be refused without.
  template <typename Field>
  void put(const char* key, std::string reason, Field& field, Field value) {
    if (!is_given(key) && replace(field, value)) {
      settled.push_back({key, std::move(reason)});
    }
  }
  // Sets a field by set(run), which says whether that changes it. Where the run's other keys do not allow it, the field
  // keeps its default. An objection that stands either way is the user's own fault, and is told as it is.
  template <typename Set>
  void try_put(const char* key, std::string reason, Set&& set) {
    if (is_given(key)) {
      return;
    }
    RunParameters candidate = run;
    if (!set(candidate)) {
      return;
    }
    const Objection objection = check_parameters(candidate);
    if (!objection || objection.sentence == check_parameters(run).sentence) {
      run = std::move(candidate);
      settled.push_back({key, std::move(reason)});
    }
  }

  const KeyNames& given;
  RunParameters& run;
  std::vector<SettledKey> settled = {};
};

// The units that a run takes out of its samples, by its problem (docs/how-to/raw_data.md). Others keep theirs: their
// samples are points, or nothing is known of them.
struct ProblemUnits {
  std::string_view problem;
  Centre centre;
  UnitScale scale;
};
constexpr ProblemUnits kProblemUnits[] = {
    // One factor for all columns, so that the subspace stays what it is.
    {"kpca", Centre::kFederated, UnitScale::kCommon},
    {"least_squares", Centre::kFederated, UnitScale::kDeviation},
    {"logistic", Centre::kFederated, UnitScale::kDeviation},
    {"perceptron", Centre::kFederated, UnitScale::kDeviation},
    {"lenet", Centre::kFederated, UnitScale::kDeviation},
    {kNetworkProblemName, Centre::kFederated, UnitScale::kDeviation},
};

void settle_units(Settling& settling) {
  const std::string& problem = settling.run.model->problem;
  for (const ProblemUnits& units : kProblemUnits) {
    if (units.problem == problem) {
      settling.try_put("centre", "problem " + problem,
                       [&](RunParameters& run) { return replace(run.units.keys().centre, units.centre); });
      settling.try_put("scale", "problem " + problem,
                       [&](RunParameters& run) { return replace(run.units.keys().scale, units.scale); });
      return;
    }
  }
}

// A step that the server finds, where no key says how steps are made and the solver leaves them to the server.
void settle_step(Settling& settling) {
  constexpr const char* kKeys[] = {"step_decay", "step_rule", "step_offset",     "step_period",
                                   "step_min",   "step_max",  "barzilai_borwein"};
  const SolverId solver = settling.run.local->solver;
  const bool is_said =
      std::any_of(std::begin(kKeys), std::end(kKeys), [&](const char* const key) { return settling.is_given(key); });
  if (is_said || solver == SolverId::kSvrg || solver == SolverId::kCurve) {
    return;
  }
  settling.try_put("step_size", std::string("solver ") + name_of(solver),
                   [](RunParameters& run) { return replace(run.steps->step_size, Real{0}); });  // "auto"
}

// Solver projection alone has a correction, and a path with a term of its own in the loss needs none.
void settle_correction(Settling& settling) {
  RunParameters& run = settling.run;
  const char* const key = "correction_form";
  if (run.local->solver != SolverId::kProjection) {
    settling.put(key, std::string("solver ") + name_of(run.local->solver), run.local->correction_form,
                 CorrectionForm::kNone);
  } else if (run.local->proximal > 0 && run.local->proximal_form != ProximalForm::kGeodesic) {
    settling.put(key, std::string("proximal_form ") + name_of(run.local->proximal_form), run.local->correction_form,
                 CorrectionForm::kNone);
  }
}

uint64_t scalar_count(const RunParameters& run) {
  return uint64_t{run.local->local_step_count} * run.local->direction_count;
}

bool is_long_upload(const RunParameters& run) {
  const uint64_t size = run.model->shape.size();
  return size > 0 && run.stream() == StreamKind::kScalarStream && scalar_count(run) >= size;
}

// A tangent says the same in fewer numbers. The versions then go down dense with what a correction needs, where a
// record of scalars that is longer than the model would leave devices without it. Values of a tangent are larger than
// scalars, so that it is for samples without units.
void settle_stream(Settling& settling) {
  const bool keeps_units = settling.run.units.keys().scale == UnitScale::kNone;
  if (!keeps_units && is_long_upload(settling.run)) {
    settling.try_put("upload_stream", "local_step_count x direction_count >= rows x cols",
                     [](RunParameters& run) { return replace(run.wire->upload_stream, StreamKind::kTangentBlock); });
  }
}

// What a device says of its samples nobody can check.
void settle_weights(Settling& settling) {
  settling.try_put("fold_weight", "new runs",
                   [](RunParameters& run) { return replace(run.fold->fold_weight, FoldWeight::kUniform); });
}

// By the version's own median where its updates can be kept, else by the versions before it. Where a rule has nothing
// that a clip could measure, none.
void settle_clip(Settling& settling) {
  const std::string obstacle = median_clip_obstacle(settling.run);
  const auto put = [&](ClipNorm norm, const std::string& reason) {
    settling.try_put("clip_norm", reason,
                     [norm](RunParameters& run) { return replace(run.fold.keys().clip_norm, norm); });
  };
  obstacle.empty() ? put(ClipNorm::kMedian, "new runs") : put(ClipNorm::kTrailing, obstacle);
}

// Nobody waits for a device that never comes, and no device makes most of the versions. Each has a check of its own,
// which another fault of the run must not hide.
void settle_trust_in_devices(Settling& settling) {
  settling.try_put("seen_versions", "new runs", [](RunParameters& run) {
    return replace(run.trigger.keys().seen_versions, kSeenVersionsOfNewRuns) && !check_attendance(run);
  });
  settling.try_put("device_share_max", "new runs", [](RunParameters& run) {
    return replace(run.trigger.keys().device_share_max, kDeviceShareOfNewRuns) && !check_device_share(run);
  });
}

}  // namespace

std::vector<SettledKey> settle_defaults(RunParameters* run, const KeyNames& given) {
  Settling settling{given, *run};
  settle_correction(settling);
  settle_units(settling);
  settle_stream(settling);
  settle_step(settling);
  settle_weights(settling);
  settle_clip(settling);
  settle_trust_in_devices(settling);
  return std::move(settling.settled);
}

std::string find_long_upload(const RunParameters& run) {
  if (!is_long_upload(run)) {
    return {};
  }
  const uint64_t count = scalar_count(run);
  const uint64_t size = run.model->shape.size();
  const uint64_t most = (size - 1) / run.local->local_step_count;
  return "local_step_count x direction_count = " + std::to_string(count) +
         " numbers go up and down in each round, and " + "the model has " + std::to_string(size) +
         ": set upload_stream = \"tangent\"" +
         (most == 0 ? "" : ", or direction_count = " + std::to_string(most) + " at most") + ", to send fewer";
}

}  // namespace gradstream
