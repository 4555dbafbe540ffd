// Models and lineages as files.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "server/program/commands.h"
#include "server/program/model_export.h"
#include "server/program/model_npz.h"
#include "server/program/run_export.h"
#include "server/run/run_core.h"
#include "server/store/journal_table.h"
#include "server/watch/words.h"

namespace gradstream {

// ---- The model -----------------------------------------------------------------------------------------------------

namespace {

// "latest" or a number; false for anything else.
bool parse_version(const std::string& text, uint32_t* out) {
  if (text == "latest") {
    *out = UINT32_MAX;
    return true;
  }
  char* end = nullptr;
  errno = 0;
  const unsigned long value = std::strtoul(text.c_str(), &end, 10);
  *out = static_cast<uint32_t>(value);
  return !text.empty() && *end == '\0' && errno == 0 && value < UINT32_MAX && text.front() != '-';
}

// Of the newest version that devices had evaluated.
void add_quality(const QualityBook& quality, OutputLine* line) {
  if (quality.latest() != nullptr) {
    line->add_quoted("quality", quality_text(quality.metric(), quality.latest()->metric))
        .add("evaluated", uint64_t{quality.latest()->version});
  }
}

// Whether the options of an export name a version and a file that can be: else the exit code, with the reason said.
int check_options(const ExportOptions& what, uint32_t* wanted) {
  if (!parse_version(what.version, wanted)) {
    return fail(kExitUsage, "--version " + what.version + ": expected a number or latest");
  }
  const Objection fault = find_out_fault("--out", what.out);
  return !fault ? int{kExitOk} : fail(kExitUsage, fault.sentence);
}

// The same: whether the records that made the version can be replayed.
int check_kept(const SqliteDatabase& database, Store& journal, uint32_t run, uint32_t wanted) {
  CheckpointHead start;
  if (journal.read_start(&start) != StoreStatus::kOk) {
    return fail_database(database);
  }
  return start.sequence == 0 || wanted >= start.version
             ? int{kExitOk}
             : fail(kExitNotFound, dropped_text(run, "version " + std::to_string(wanted), start));
}

// An exit code, with the reason said where it is not kExitOk.
int write_model(const std::string& out, const std::vector<uint8_t>& bytes) {
  bool is_temporary = false;
  const Objection problem = write_file_atomically(out, bytes, &is_temporary);
  return !problem ? int{kExitOk} : fail(is_temporary ? kExitTemporary : kExitFile, problem.sentence);
}

}  // namespace

int model_export(const CommonOptions& options, uint32_t run_id, const ExportOptions& what) {
  const std::string& out = what.out;
  uint32_t wanted = 0;
  if (const int code = check_options(what, &wanted); code != kExitOk) {
    return code;
  }
  Opened opened;
  RunRow run;
  if (const int code = open_journal(options, run_id, &opened, &run); code != kExitOk) {
    return code;
  }
  SqliteDatabase& database = opened.database;
  RunParameters parameters;
  if (const Objection objection = parse_run_source(run.source, &parameters)) {
    return fail(kExitDatabase, objection.sentence + "use the release that wrote it");
  }
  const Expected<std::vector<EnrolledDevice>> devices = database.devices();
  if (!devices.is_ok()) {
    return fail_database(database);
  }
  std::string error;
  SqliteStore journal(database, run.id);
  if (const int code = check_kept(database, journal, run.id, wanted); code != kExitOk) {
    return code;
  }
  const auto coordinator = replay_journal(run, parameters, *devices, journal, wanted, &error);
  if (!coordinator) {
    return error.empty() ? fail_database(database) : fail(kExitDatabase, error);
  }
  const Replica& model = coordinator->model();
  if (!model.has_model()) {
    const auto enrolled =
        std::count_if(devices->begin(), devices->end(), [](const EnrolledDevice& d) { return d.is_active(); });
    return fail(kExitNotFound, "run " + std::to_string(run.id) + " has no version yet: version 0 opens when it is " +
                                   "served and " + std::to_string(parameters.trigger->device_count) +
                                   " devices are enrolled; " + std::to_string(enrolled) + " are");
  }
  if (wanted != UINT32_MAX && model.version() != wanted) {
    return fail(kExitNotFound, "run " + std::to_string(run.id) + " has no version " + what.version +
                                   "; the latest is " + std::to_string(model.version()));
  }
  const ModelAverage& average = coordinator->average();
  if (what.wants_average && average.count() == 0) {
    return fail(kExitNotFound, "run " + std::to_string(run.id) + " has no average at version " +
                                   std::to_string(model.version()) +
                                   ": average_period and average_from of the run say when one begins");
  }
  const std::span<const Real> values(what.wants_average ? average.model().data() : model.model(), model.shape().size());
  const uint64_t digest =
      what.wants_average ? digest_values(kDigestStart, values.size(), values.data()) : coordinator->digest();
  NpzModel facts = {model.shape(), values, {}, {}, parameters.model->problem, digest, run.id, model.version()};
  std::vector<uint8_t> bytes;
  Objection fault = read_units(coordinator->units(), &facts);
  fault = fault ? fault : encode_model(model_form(what.format, out), facts, &bytes);
  if (fault) {
    return fail(kExitFile, fault.sentence);
  }
  if (const int code = write_model(out, bytes); code != kExitOk) {
    return code;
  }
  OutputLine line;
  line.add("run", uint64_t{run.id}).add("version", uint64_t{model.version()});
  line.add_hex("digest", digest).add("file", out);
  add_quality(coordinator->quality(), &line);
  if (what.wants_average) {
    line.add_quoted("average", average.text());
  }
  line.print(options);
  return kExitOk;
}

// ---- Lineage -------------------------------------------------------------------------------------------------------

namespace {

std::vector<uint8_t> model_file_bytes(const Replica& model, bool is_csv) {
  const std::span<const Real> values(model.model(), model.shape().size());
  if (!is_csv) {
    return npy_bytes(model.shape(), values);
  }
  const std::string text = csv_text(model.shape(), values);
  return {text.begin(), text.end()};
}

int read_lineage_head(const std::string& path, LineageHead* out) {
  std::error_code ignored;
  std::ifstream file;
  if (std::filesystem::is_regular_file(path, ignored)) {
    file.open(path);
  }
  std::string first_line;
  if (!std::getline(file, first_line)) {
    return fail(kExitFile, "cannot read " + path + ": name a file that `gradstream run export` has written");
  }
  return parse_lineage_head(first_line, out) ? int{kExitOk} : fail(kExitFile, path + " is no lineage of this release");
}

// Finds head->version, the highest where it is UINT32_MAX.
int find_exported_version(const SqliteDatabase& database, Store& journal, LineageHead* head) {
  const std::string run = "run " + std::to_string(head->run);
  const uint32_t wanted = head->version;
  switch (find_version(journal, wanted, &head->version)) {
    case VersionSearch::kFound:
      return kExitOk;
    case VersionSearch::kNone:
      return fail(kExitNotFound, run + " has no version yet");
    case VersionSearch::kDropped: {
      CheckpointHead start;
      if (journal.read_start(&start) != StoreStatus::kOk) {
        return fail_database(database);
      }
      const uint32_t version = std::min(wanted, start.version);  // of the latest: that of the beginning
      return fail(kExitNotFound, dropped_text(head->run, "the lineage of version " + std::to_string(version), start));
    }
    case VersionSearch::kNotThere:
      return fail(kExitNotFound, run + " has no version " + std::to_string(wanted) + "; the latest is " +
                                     std::to_string(head->version));
    default:
      return fail_database(database);
  }
}

std::string folder_and_slash(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

int compare_lineage(const LineageSource& source, const LineageHead& head, const std::string& path) {
  FileComparer lineage(path);
  const std::string model_path = folder_and_slash(path) + head.model_file;
  FileComparer model(model_path);
  if (!lineage.is_open() || !model.is_open()) {
    return fail(kExitFile, "cannot read " + (lineage.is_open() ? model_path : path));
  }
  std::unique_ptr<Coordinator> coordinator;
  const Objection problem = write_lineage(
      source, head, [&](std::string_view text) { return lineage.take(text); }, &coordinator);
  if (problem) {
    return fail(kExitDatabase, problem.sentence);
  }
  const char* const cause = " differs from what the journal says; it was changed, or is of another database";
  CheckpointHead start;
  if (source.journal.read_start(&start) != StoreStatus::kOk) {
    return fail(kExitDatabase, "the journal of run " + std::to_string(head.run) + " cannot be read");
  }
  if (head.gone != start.sequence) {
    return fail(kExitNotFound,
                "lineage " + path + " cannot be proven: " + (start.is_behind_forgotten ? "updates" : "the records") +
                    " before version " + std::to_string(start.version) + " of run " + std::to_string(head.run) +
                    " were " +
                    (start.is_behind_forgotten ? "forgotten since it was written (gradstream run forget)"
                                               : "dropped since it was written, as server.journal_keep says") +
                    "; prove it by a copy of the database that has them");
  }
  if (!coordinator || !lineage.is_same()) {
    return fail(kExitFile, path + ":" + std::to_string(lineage.line()) + cause);
  }
  const std::vector<uint8_t> bytes = model_file_bytes(coordinator->model(), head.model_file.ends_with(".csv"));
  const bool is_same = model.take({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) && model.is_same();
  return is_same ? int{kExitOk} : fail(kExitFile, model_path + cause);
}

int export_lineage(const LineageSource& source, const LineageHead& head, const std::string& path) {
  FileWriter file(path);
  std::unique_ptr<Coordinator> coordinator;
  Objection problem = write_lineage(
      source, head, [&](std::string_view text) { return file.write(text); }, &coordinator);
  if (problem) {
    return fail(kExitDatabase, problem.sentence);
  }
  bool is_temporary = false;
  if (coordinator) {  // the model first: a lineage names a file that is there
    const bool is_csv = head.model_file.ends_with(".csv");
    problem = write_file_atomically(folder_and_slash(path) + head.model_file,
                                    model_file_bytes(coordinator->model(), is_csv), &is_temporary);
  }
  if (!problem) {
    problem = file.finish();
    is_temporary = file.is_failure_temporary();
  }
  return problem ? fail(is_temporary ? kExitTemporary : kExitFile, problem.sentence) : int{kExitOk};
}

}  // namespace

int run_export(const CommonOptions& options, uint32_t run_id, const ExportOptions& what, bool check) {
  constexpr std::string_view kEnding = ".json";
  if (!what.out.ends_with(kEnding)) {
    return fail(kExitUsage, "--out '" + what.out + "': expected a name that ends with .json");
  }
  LineageHead head;
  int code = kExitOk;
  if (check) {
    code = read_lineage_head(what.out, &head);
  } else if (!parse_version(what.version, &head.version)) {
    code = fail(kExitUsage, "--version " + what.version + ": expected a number or latest");
  }
  Opened opened;
  RunRow run;
  if (code == kExitOk) {
    code = open_journal(options, check ? head.run : run_id, &opened, &run);
  }
  if (code != kExitOk) {
    return code;
  }
  SqliteStore journal(opened.database, run.id);
  if (!check) {
    const std::string stem = what.out.substr(0, what.out.size() - kEnding.size());
    head.run = run.id;
    head.model_file = stem.substr(stem.rfind('/') + 1) + (what.format == "csv" ? ".csv" : ".npy");
  }
  code = find_exported_version(opened.database, journal, &head);
  RunParameters parameters;
  if (code != kExitOk) {
    return code;
  }
  const Objection error = parse_run_source(run.source, &parameters);
  if (error) {
    return fail(kExitDatabase, error.sentence + "use the release that wrote it");
  }
  const Expected<std::vector<EnrolledDevice>> devices = opened.database.devices();
  if (!devices.is_ok()) {
    return fail_database(opened.database);
  }
  const LineageSource source = {run, parameters, *devices, journal};
  code = check ? compare_lineage(source, head, what.out) : export_lineage(source, head, what.out);
  if (code == kExitOk) {
    OutputLine()
        .add("run", uint64_t{head.run})
        .add("version", uint64_t{head.version})
        .add("file", what.out)
        .add("model_file", head.model_file)
        .add("state", check ? "proven" : "written")
        .print(options);
  }
  return code;
}

}  // namespace gradstream
