// The verb `run suggest`: a whole [run] for a table of samples, with the least loss that the run can reach.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/file_cause.h"
#include "host/shown.h"
#include "host/standard_files.h"
#include "host/table.h"
#include "server/program/commands.h"
#include "server/program/data_summary.h"
#include "server/program/suggestion.h"
#include "server/run/check_parameters.h"
#include "server/run/limits.h"
#include "server/run/names.h"
#include "server/run/pace_keys.h"
#include "server/run/run_core.h"
#include "server/run/settle.h"
#include "server/run/tube_constants.h"
#include "server/run/units_keys.h"

namespace gradstream {
namespace {

// Samples that say something about a spread. Reason: the variance of one sample is 0.
constexpr uint32_t kSampleCountMin = 2;
// Classes of one label, as `data pack` has it.
constexpr uint32_t kClassCountMax = 256;
// A step set by hand begins here, times 1 / L. Reason: the demo's, which its figures rest on.
constexpr double kStepTimesCurvature = 0.2;

// A unit in the last place of a float, as a part of it: what a mean of rounded losses is off by, about.
constexpr double kFloatRounding = 0x1p-23;

// A fleet up to this size asks again sooner than by the defaults. Reason: a round of a small problem takes
// milliseconds, and so many devices make a thousand requests a second at most.
constexpr uint32_t kQuickFleetMax = 50;
constexpr uint32_t kQuickRetryMinMs = 20;
constexpr uint32_t kQuickRetryMaxMs = 60;

struct SuggestedProblem {
  const char* name;
  ManifoldId manifold;
  const char* cols;  // what the columns of its model are
  BestLoss (*best)(const SampleTable& table, uint32_t cols);
};
constexpr SuggestedProblem kProblems[] = {
    {"kpca", ManifoldId::kStiefel, "principal components", best_kpca},
    {"least_squares", ManifoldId::kEuclidean, "targets, the last values of a sample", best_least_squares},
    {"logistic", ManifoldId::kEuclidean, "1 for two classes, else one for each class", best_logistic},
};

struct Suggested {
  const SuggestedProblem* problem = nullptr;
  SampleTable table;                 // of all files
  std::vector<std::string> classes;  // names by number, of labels that are words
  Config config;
  std::vector<SettledKey> settled;
  BestLoss best;
};

std::string real_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value == 0 ? 0 : value);  // never -0
  return text;
}

std::string count_text(size_t count, const char* one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

// ---- What is asked -------------------------------------------------------------------------------------------------

int check_request(const DataOptions& data, const SuggestOptions& what, const SuggestedProblem** out) {
  const auto* const found = std::find_if(std::begin(kProblems), std::end(kProblems),
                                         [&](const SuggestedProblem& known) { return what.problem == known.name; });
  if (found == std::end(kProblems)) {
    const std::string hint = builtin_problem_hint(what.problem);
    return fail(kExitUsage,
                "--problem " + what.problem + ": expected kpca, least_squares or logistic" +
                    (hint.empty() ? "; docs/reference/keys.md has the keys of a run of another problem" : "; " + hint));
  }
  *out = found;
  if (what.device_count == 0 || what.device_count > kFoldUpdateCountMax) {
    return fail(kExitUsage, "--devices " + std::to_string(what.device_count) + ": expected 1 to " +
                                std::to_string(kFoldUpdateCountMax) + ", the devices that the run waits for");
  }
  const bool is_logistic = found->best == best_logistic;
  if (what.cols == 0 && !is_logistic) {
    return fail(kExitUsage, std::string("--cols 0: expected 1 or more, ") + found->cols);
  }
  if (!data.label.empty() && found->best == best_kpca) {
    return fail(kExitUsage, "--label " + data.label + ": kpca has no labels; leave --label out, and take the label's " +
                                "column out of the table");
  }
  if (!data.label.empty() && found->best == best_least_squares && what.cols != 1) {
    return fail(kExitUsage, "--label " + data.label + " names one target, and --cols is " + std::to_string(what.cols) +
                                "; leave --label out, and put the targets last in the table");
  }
  return kExitOk;
}

// ---- The table -----------------------------------------------------------------------------------------------------

int read_all(const DataOptions& data, const TableOptions& options, SampleTable* all) {
  std::string named_file;  // the first one with a header line
  for (const std::string& path : data.files) {
    SampleTable table;
    int cause = 0;
    if (const std::string fault = read_table(path, options, &table, &cause); !fault.empty()) {
      return fail(cause != 0 && is_temporary(cause) ? kExitTemporary : kExitFile, path + fault);
    }
    if (named_file.empty() && !table.names.empty()) {
      named_file = path;
    }
    if (all->sample_count == 0) {
      *all = std::move(table);
      continue;
    }
    if (table.dimension != all->dimension) {
      return fail(kExitFile, path + " has " + count_text(table.dimension, "column") + ", and " + data.files.front() +
                                 " has " + std::to_string(all->dimension) +
                                 "; the tables of one run have the same columns");
    }
    if (const Objection other = find_other_name(named_file, *all, path, table)) {
      return fail(kExitFile, other.sentence + ", or leave the file out");
    }
    if (all->names.empty()) {
      all->names = table.names;
    }
    all->sample_count += table.sample_count;
    all->has_word_label |= table.has_word_label;
    all->values.insert(all->values.end(), table.values.begin(), table.values.end());
    all->labels.insert(all->labels.end(), table.labels.begin(), table.labels.end());
  }
  return kExitOk;
}

// Labels become numbers of classes: words by their order, as `data pack` numbers them. *class_count: of them.
int number_labels(Suggested* out, uint32_t* class_count) {
  SampleTable& table = out->table;
  std::map<std::string, uint32_t> numbers;
  if (table.has_word_label) {
    const std::set<std::string> words(table.labels.begin(), table.labels.end());
    for (const std::string& word : words) {
      numbers.emplace(word, static_cast<uint32_t>(numbers.size()));
      out->classes.push_back(word);
    }
  }
  float most = 0;
  for (uint32_t i = 0; i < table.sample_count; ++i) {
    float& label = table.values[size_t{i + 1} * table.dimension - 1];
    label = table.has_word_label ? static_cast<float>(numbers.at(table.labels[i])) : label;
    if (!(label >= 0 && label < static_cast<float>(kClassCountMax) && std::floor(label) == label)) {
      return fail(kExitFile, "sample " + std::to_string(i + 1) + " (from 1) has the label " +
                                 real_text(static_cast<double>(label)) + ", and labels are whole numbers from 0 to " +
                                 std::to_string(kClassCountMax - 1) +
                                 "; `gradstream data pack --map-labels` numbers the values that are there");
    }
    most = std::max(most, label);
  }
  *class_count = static_cast<uint32_t>(most) + 1;
  return kExitOk;
}

// The shape of the model. rows x cols are the table's, or an error is printed.
int find_shape(const DataOptions& data, const SuggestOptions& what, Suggested* out, Shape* shape) {
  const SampleTable& table = out->table;
  const std::string& file = data.files.front();
  if (table.sample_count < kSampleCountMin) {
    return fail(kExitFile, file + " has " + count_text(table.sample_count, "sample") + ", and a suggestion needs " +
                               std::to_string(kSampleCountMin) + " at least; give a table with more rows");
  }
  uint32_t cols = what.cols;
  const bool is_kpca = out->problem->best == best_kpca;
  if (out->problem->best == best_logistic) {
    uint32_t class_count = 0;
    if (const int code = number_labels(out, &class_count); code != kExitOk) {
      return code;
    }
    if (class_count < 2) {
      return fail(kExitFile, file +
                                 " has one class alone, and there is nothing to tell apart; name another column "
                                 "with --label, or give the tables of all devices");
    }
    cols = cols != 0 ? cols : class_count == 2 ? 1 : class_count;
    const uint32_t told_apart = cols == 1 ? 2 : cols;
    if (class_count > told_apart) {
      return fail(kExitUsage, "--cols " + std::to_string(cols) + " tells " + std::to_string(told_apart) +
                                  " classes apart, and " + file + " has labels up to " +
                                  std::to_string(class_count - 1) + "; give --cols " + std::to_string(class_count));
    }
  }
  const uint32_t taken = is_kpca ? 0 : out->problem->best == best_logistic ? 1 : cols;  // values that are no inputs
  if (is_kpca ? cols > table.dimension : taken >= table.dimension) {
    return fail(kExitUsage, "--cols " + std::to_string(cols) + ": " + file + " has " +
                                count_text(table.dimension, "value") + " a sample, so that " + what.problem +
                                " takes " +
                                (is_kpca ? std::to_string(table.dimension) + " components at most"
                                         : std::to_string(table.dimension - 1) + " targets or a label at most, and one "
                                                                                 "value beside them"));
  }
  *shape = {table.dimension - taken, cols};
  const std::vector<ColumnSummary> columns = summarise_columns(table);
  const bool varies = std::any_of(columns.begin(), columns.begin() + shape->rows,
                                  [](const ColumnSummary& column) { return !column.is_constant(); });
  return varies ? int{kExitOk}
                : fail(kExitFile, file + ": all " + count_text(shape->rows, "column") +
                                      " are constant, so that there is nothing to learn; give a table whose values "
                                      "differ from sample to sample");
}

// ---- The run -------------------------------------------------------------------------------------------------------

std::string run_name(const std::string& file) {
  std::string name = file.substr(file.rfind('/') + 1);
  const size_t dot = name.rfind('.');
  name = name.substr(0, dot == 0 ? std::string::npos : dot);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }, '_');
  return name.substr(0, kRunNameSizeMax);
}

int settle_run(const DataOptions& data, const SuggestOptions& what, Shape shape, Suggested* out) {
  RunParameters& run = out->config.run;
  out->config.has_run = true;
  run.name = run_name(data.files.front());
  run.model->problem = what.problem;
  run.model->manifold = out->problem->manifold;
  run.model->shape = shape;
  run.trigger->device_count = what.device_count;
  if (what.device_count <= kQuickFleetMax) {
    run.pace.keys().retry_min_ms = kQuickRetryMinMs;
    run.pace.keys().retry_max_ms = kQuickRetryMaxMs;
  }
  out->settled = settle_defaults(&run, {"name", "problem", "manifold", "rows", "cols", "device_count"});
  const Objection objection = check_new_run(run);
  return objection ? fail(kExitUsage, "no run of it can begin: " + objection.sentence) : int{kExitOk};
}

UnitPlan plan_units(const Suggested& suggested) {
  const UnitsKeys& keys = suggested.config.run.units.keys();
  UnitPlan plan;
  plan.is_centred = keys.centre == Centre::kFederated;
  plan.scale = keys.scale;
  plan.keeps_constants = suggested.problem->best != best_kpca;
  plan.column_count = suggested.table.dimension - (suggested.problem->best == best_logistic ? 1 : 0);
  return plan;
}

// ---- What is printed -----------------------------------------------------------------------------------------------

void print_line(const std::string& text) { print_output(text + "\n"); }

void print_best(const Suggested& suggested) {
  const BestLoss& best = suggested.best;
  if (!best.is_known) {
    print_line("# The least loss is not computed: a model of " +
               std::to_string(suggested.config.run.model->shape.size()) + " values is too large for it.");
    return;
  }
  std::string text = "# best_loss = " + real_text(best.loss) + ": no run on these samples reaches a lower loss";
  if (suggested.problem->best == best_kpca) {
    char share[32];
    std::snprintf(share, sizeof share, "%.4g", best.share * 100);
    text += ". The components then explain " + std::string(share) + " % of what varies";
  } else if (best.is_separated) {
    text = "# best_loss = 0: the classes can be told apart, so that the loss falls towards 0 for ever. Newton steps: " +
           std::to_string(best.newton_step_count);
  } else if (suggested.problem->best == best_logistic) {
    text += ". Newton steps: " + std::to_string(best.newton_step_count);
  }
  print_line(text + ".");
}

// What the theorems of advice() want an L for, as numbers to set.
void print_steps(const Suggested& suggested) {
  const RunParameters& run = suggested.config.run;
  const double curvature = suggested.best.smoothness;
  if (!suggested.best.is_known || !(curvature > 0)) {
    return;
  }
  print_line("# The curvature of this loss is L = " + real_text(curvature) +
             " at most. Who sets step_size by hand begins at 0.2 / L: step_size = " +
             real_text(kStepTimesCurvature / curvature) + ".");
  if (run.local->solver == SolverId::kProjection) {
    const double proven =
        whole_step_limit(run, curvature) / (run.local->local_step_count * static_cast<double>(run.steps->server_step));
    print_line("# Up to step_size = " + real_text(proven) +
               " the first of three conditions holds under which convergence is proven (003 Theorem 4.1).");
  }
}

// float32 rounds a loss as noise would: where that noise is large for the run's smoothing, which smoothing suits it.
void print_noise(const Suggested& suggested) {
  const RunParameters& run = suggested.config.run;
  const double loss = std::fabs(suggested.best.loss);
  const double curvature = suggested.best.smoothness;
  if (!suggested.best.is_known || !(curvature > 0) || !(loss > 0)) {
    return;
  }
  const double noise = kFloatRounding * loss;
  print_line("# Rounding in float32 moves a loss of " + real_text(loss) + " by " + real_text(noise) +
             ". By that noise alone an estimate errs least at smoothing = " +
             real_text(suited_smoothing(run, noise, curvature)) +
             ". For more noise set loss_noise, and --check-config says which suits.");
}

void print_key(const Suggested& suggested, const char* key, const std::string& comment) {
  const std::string line = std::string(key) + " = " + value_text(suggested.config, std::string("run.") + key);
  constexpr size_t kCommentColumn = 32;
  print_line(comment.empty()
                 ? line
                 : line + std::string(line.size() < kCommentColumn ? kCommentColumn - line.size() : 1, ' ') + "# " +
                       comment);
}

void print_suggestion(const DataOptions& data, const Suggested& suggested) {
  const RunParameters& run = suggested.config.run;
  print_line("# " + count_text(suggested.table.sample_count, "sample") + " of " +
             count_text(suggested.table.dimension, "value") + " from " + count_text(data.files.size(), "file") + ", " +
             shown(data.files.front()) + (data.files.size() > 1 ? " first" : "") +
             ". `gradstream serve --config FILE --create` takes this text as FILE.");
  for (size_t i = 0; i < suggested.classes.size(); ++i) {
    print_line("# label " + std::to_string(i) + " is " + shown(suggested.classes[i]) +
               (i == 0 ? ": pack the tables of all devices together with `gradstream data pack --label`" : ""));
  }
  print_best(suggested);
  print_steps(suggested);
  print_noise(suggested);
  if (const std::string sentence = find_long_upload(run); !sentence.empty()) {
    print_line("# " + sentence + ".");
  }
  print_line("[run]");
  print_key(suggested, "name", "in logs and lists");
  print_key(suggested, "problem", "");
  print_key(suggested, "manifold", "");
  print_key(suggested, "rows", "inputs of a sample");
  print_key(suggested, "cols", suggested.problem->cols);
  print_key(suggested, "device_count", "enrolled devices that version 0 waits for");
  print_key(suggested, "centre", "the mean of the fleet goes out of each column");
  print_key(suggested, "scale",
            suggested.problem->best == best_kpca ? "one factor for all columns keeps the subspace"
                                                 : "each column gets a deviation of 1");
  for (const char* const key : {"round_count", "solver", "estimator"}) {
    print_key(suggested, key, "");
  }
  print_key(suggested, "local_step_count", "K");
  print_key(suggested, "direction_count", "m: an estimate takes m + 1 losses of a batch");
  print_key(suggested, "batch_size", "samples");
  print_key(suggested, "smoothing", "for data of order 1, as they are without units");
  print_key(suggested, "correction_form", "");
  print_key(suggested, "upload_stream",
            run.stream() == StreamKind::kScalarStream
                ? "K m = " + std::to_string(run.value_count()) + " numbers up in a round"
                : std::to_string(run.value_count()) + " numbers up in a round, the model's own size");
  print_key(suggested, "step_size", "");
  print_key(suggested, "retry_min_ms", "");
  print_key(suggested, "retry_max_ms", "a small fleet need not wait longer between rounds");
}

int suggest(const DataOptions& data, const SuggestOptions& what) {
  Suggested out;
  TableOptions table_options;
  int code = check_request(data, what, &out.problem);
  if (code == kExitOk) {
    code = to_table_options(data, &table_options);
  }
  Shape shape;
  if (code == kExitOk) {
    code = read_all(data, table_options, &out.table);
  }
  if (code == kExitOk) {
    code = find_shape(data, what, &out, &shape);
  }
  if (code == kExitOk) {
    code = settle_run(data, what, shape, &out);
  }
  if (code == kExitOk) {
    take_units_out(plan_units(out), &out.table);
    out.best = out.problem->best(out.table, shape.cols);
    print_suggestion(data, out);
  }
  return code;
}

}  // namespace

int run_suggest(const DataOptions& data, const SuggestOptions& what) try {
  return suggest(data, what);
} catch (const std::bad_alloc&) {
  return fail(kExitFile, "the tables take more memory than this machine gives; give fewer samples");
}

}  // namespace gradstream
