#include "server/run/settle.h"

#include <utility>

#include "server/run/check_parameters.h"
#include "server/run/names.h"
#include "server/run/run_core.h"

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

}  // namespace

std::vector<SettledKey> settle_defaults(RunParameters* run, const KeyNames& given) {
  Settling settling{given, *run};
  settle_correction(settling);
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
