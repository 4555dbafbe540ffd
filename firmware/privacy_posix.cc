#include "firmware/privacy_posix.h"

#include "firmware/client_main.h"
#include "runtime/base/config.h"

namespace gradstream {
namespace {

void add_floor(CLI::App& app, const char* name, uint16_t* number, const char* text) {
  app.add_option(name, *number, text)->check(CLI::Range(1U, kSampleCountMax));
}

void take(uint16_t given, uint16_t* out) { *out = given != 0 ? given : *out; }

}  // namespace

void define_privacy(CLI::App& app, PrivacyOptions* options) {
  gs_privacy& given = options->given;
  add_floor(app, "--batch-size-min", &given.batch_size_min,
            "refuse tasks whose estimates are over fewer samples, 1 to 65535 (8)");
  add_floor(app, "--local-step-count-min", &given.local_step_count_min, "refuse tasks of fewer local steps (1)");
  add_floor(app, "--scalars-per-sample-max", &given.scalars_per_sample_max,
            "refuse tasks whose update has more scalars for each of its samples (8)");
  add_floor(app, "--sums-samples-min", &given.sums_samples_min,
            "let sums over the columns out from so many samples on (32)");
  app.add_flag("--no-sums", options->no_sums,
               "let no sums over the columns of the data out; the run then finds its units without this device");
  add_floor(app, "--trials-samples-min", &given.trials_samples_min,
            "let losses along a direction out, of trial steps and versions, from so many samples on (32)");
  app.add_flag("--no-tangents", given.refuses_tangents, "refuse tasks whose update is a tensor");
  app.add_flag("--send-losses", given.sends_losses, "tell the losses before and after the local steps");
  app.add_flag("--no-evaluation", given.skips_evaluation, "hold no samples out, and evaluate none");
  app.add_option("--sample-count", options->sample_count,
                 "tell the number of samples as a power of two below it (bucket), as it is (exact), or not (none)")
      ->check(CLI::IsMember({"bucket", "exact", "none"}));
  app.add_flag("--no-floors", options->no_floors,
               "refuse none of these and tell all, where other options do not say so: for demos and tests");
}

gs_privacy privacy_of(const PrivacyOptions& options) {
  const gs_privacy& given = options.given;
  gs_privacy out = options.no_floors ? no_privacy() : gs_privacy{};
  take(given.batch_size_min, &out.batch_size_min);
  take(given.local_step_count_min, &out.local_step_count_min);
  take(given.scalars_per_sample_max, &out.scalars_per_sample_max);
  take(given.sums_samples_min, &out.sums_samples_min);
  take(given.trials_samples_min, &out.trials_samples_min);
  out.refuses_tangents = given.refuses_tangents;
  out.sends_losses = out.sends_losses || given.sends_losses;
  out.skips_evaluation = given.skips_evaluation;
  const std::string& form = options.sample_count;
  if (!form.empty()) {
    out.sample_count = static_cast<uint8_t>(form == "exact"  ? GS_COUNT_EXACT
                                            : form == "none" ? GS_COUNT_NONE
                                                             : GS_COUNT_BUCKET);
  }
  return out;
}

}  // namespace gradstream
