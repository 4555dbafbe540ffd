#include "firmware/score_posix.h"

#include <array>
#include <cstdio>
#include <vector>

#include "firmware/application.h"
#include "firmware/fail_posix.h"
#include "host/file_cause.h"
#include "host/shown.h"
#include "host/standard_files.h"

namespace gradstream {
namespace {

std::string shape_text() {
  gs_model_view model = {};
  static_cast<void>(gs_model(&model));
  return "the model of version " + std::to_string(model.version) + " has " + std::to_string(model.rows) + " rows and " +
         std::to_string(model.cols) + " columns; ";
}

// Of a result that all samples share.
int fail_run(const ScoreRun& run, gs_result result) {
  switch (result) {
    case GS_NO_MODEL:
      return fail(
          kExitNoTask,
          run.state_name + " has no model, or a damaged one; let the device take part in a run with --state first");
    case GS_OTHER_MODEL:
      return fail(kExitData, run.state_name + ": " + shape_text() + "it is no model of " + run.problem +
                                 " for samples of " + std::to_string(run.table.dimension) +
                                 " values; name the run's problem with --problem, and give a table with its columns");
    case GS_NO_SAMPLES:
      return fail(kExitData, "no sample of --data has a score, so there is no threshold; look at the data");
    case GS_OUT_OF_MEMORY:
      return fail(kExitMemory, "the arena is too small for a score; give more with --arena-kib");
    default:
      return fail(kExitUsage, std::string("a model of ") + run.problem +
                                  " gives a sample no score; kpca, least_squares, logistic, brockett, spd_mean, "
                                  "hyperbolic and completion do");
  }
}

// 0, or the exit status.
int find_threshold(const ScoreRun& run, float* out) {
  gs_result result = GS_BUSY;
  while ((result = gs_threshold(out)) == GS_BUSY) {
    static_cast<void>(after_poll(0));
  }
  if (result != GS_OK) {
    return fail_run(run, result);
  }
  std::array<char, 80> text = {};
  std::snprintf(text.data(), text.size(), "event=threshold quantile=%g value=%.9g", static_cast<double>(run.quantile),
                static_cast<double>(*out));
  port_log_line(text.data());
  return kExitOk;
}

// 0, or the exit status.
int compute_scores(const ScoreRun& run, std::vector<float>* out) {
  std::vector<float> sample(run.table.dimension);
  for (uint32_t i = 0; i < run.table.count; ++i) {
    float score = 0;
    const bool is_read = run.table.read(run.table.context, i, sample.data()) == 0;
    const gs_result result = is_read ? gs_score(sample.data(), &score) : GS_BAD_SAMPLE;
    if (result == GS_BAD_SAMPLE) {
      return fail(kExitData, run.table_name + ": sample " + std::to_string(i + 1) +
                                 " (from 1) has no score: a value is no number or too large, or its label is none of "
                                 "the run's; mend it, or leave it out");
    }
    if (result != GS_OK) {
      return fail_run(run, result);
    }
    out->push_back(score);
  }
  return kExitOk;
}

int print_scores(const std::vector<float>& scores, const float* threshold) {
  print_output(threshold == nullptr ? "row,score\n" : "row,score,alarm\n");
  for (size_t i = 0; i < scores.size(); ++i) {
    print_format("%zu,%.9g", i + 1, static_cast<double>(scores[i]));
    print_output(threshold == nullptr ? "\n" : scores[i] > *threshold ? ",1\n" : ",0\n");
  }
  const int cause = flush_output();
  return cause == 0 ? int{kExitOk}
                    : fail(is_temporary(cause) ? kExitTemporary : kExitUsage,
                           std::string("standard output cannot be written: ") + cause_text(cause) + "; " +
                               remedy_text(cause, "give it a file, or a program that reads to the end"));
}

// Columns in another order have scores too, which mean nothing. 0, or the exit status.
int compare_columns(const ScoreRun& run) {
  for (size_t i = 0; i < run.table_columns.size() && i < run.own_columns.size(); ++i) {
    if (run.table_columns[i] != run.own_columns[i]) {
      return fail(kExitData, run.table_name + " has the column " + shown(run.table_columns[i]) + " where " +
                                 run.own_name + " has " + shown(run.own_columns[i]) +
                                 "; bring the columns into one order");
    }
  }
  return kExitOk;
}

}  // namespace

int score_table(const ClientMainOptions& options, const ScoreRun& run) {
  if (run.has_threshold && run.own.dimension != run.table.dimension) {
    return fail(kExitData, run.table_name + " has samples of " + std::to_string(run.table.dimension) +
                               " values, and those of --data have " + std::to_string(run.own.dimension) +
                               "; give both the columns of the run");
  }
  if (const int code = compare_columns(run); code != kExitOk) {
    return code;
  }
  if (const int code = start_device(options, run.has_threshold ? run.own : run.table); code != kExitOk) {
    return code;
  }
  float threshold = 0;
  if (run.has_threshold) {
    if (const int code = find_threshold(run, &threshold); code != kExitOk) {
      return code;
    }
  }
  std::vector<float> scores;
  const int code = compute_scores(run, &scores);
  return code == kExitOk ? print_scores(scores, run.has_threshold ? &threshold : nullptr) : code;
}

}  // namespace gradstream
