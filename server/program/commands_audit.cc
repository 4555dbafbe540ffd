// The verbs by which somebody proves a journal: `run head`, `run head-key` and `run verify`.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "host/standard_files.h"
#include "server/program/commands.h"
#include "server/program/head_key.h"
#include "server/program/run_head.h"
#include "server/run/run_core.h"

namespace gradstream {

namespace {

// Of a line of a file of heads. Reason: a signed head has at most 400 characters; what is longer is no head.
constexpr size_t kHeadLineMax = 1024;

// A head that somebody has kept, and where it stands.
struct KeptHead {
  JournalHead head;
  uint64_t line = 0;
};

std::string place_of(const std::string& file, uint64_t line) { return file + ":" + std::to_string(line); }

std::string name_of_head(const std::string& file, const KeptHead& kept) {
  return "the head " + place_of(file, kept.line) + " (sequence " + std::to_string(kept.head.record.sequence) +
         ", version " + std::to_string(kept.head.version) + ")";
}

// All heads of the file, in its order: kExitOk, or an error already printed.
int read_heads(const VerifyOptions& what, std::vector<KeptHead>* out) {
  HeadKey key;
  if (const Objection problem = key.read_public(what.public_key)) {
    return fail(kExitFile, problem.sentence);
  }
  std::ifstream file(what.heads);
  std::string line;
  for (uint64_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) {
      continue;
    }
    SignedHead read;
    if (line.size() > kHeadLineMax || !parse_head(line, &read)) {
      return fail(kExitFile,
                  place_of(what.heads, number) +
                      " is no head: it was changed; or remove the line, if a full disk or a power cut tore it");
    }
    if (!key.verify(read.text, read.signature)) {
      const std::string place = place_of(what.heads, number);
      return fail(kExitFile,
                  read.signature.empty()
                      ? place + " has no signature: make heads with --key, or let a server with head_key write them"
                      : place + " has another signature than that of " + what.public_key +
                            ": the head was changed, or another key has signed it; name the key of that server");
    }
    out->push_back({read.head, number});
  }
  return out->empty() ? fail(kExitFile, "no head can be read in " + what.heads +
                                            ": name a file of lines that `gradstream run head` or a server has written")
                      : int{kExitOk};
}

// The heads of one run, in order of their sequence.
std::vector<KeptHead> heads_of(uint32_t run, const std::vector<KeptHead>& all) {
  std::vector<KeptHead> heads;
  std::copy_if(all.begin(), all.end(), std::back_inserter(heads),
               [run](const KeptHead& kept) { return kept.head.run == run; });
  std::stable_sort(heads.begin(), heads.end(), [](const KeptHead& a, const KeptHead& b) {
    return a.head.record.sequence < b.head.record.sequence;
  });
  return heads;
}

int fail_head(const RunRow& run, const std::string& file, const KeptHead& kept, const HeadReport& report) {
  const std::string journal = "the journal of run " + std::to_string(run.id);
  if (report.finding == HeadFinding::kMissing) {
    return fail(kExitTruncated, journal + " ends at sequence " + std::to_string(report.end.sequence) + ", before " +
                                    name_of_head(file, kept) +
                                    ": records were lost, or this is an older copy; restore one that has them");
  }
  if (report.finding == HeadFinding::kOtherRun) {
    return fail(kExitNotFound, journal + " is of another run of that number than " + name_of_head(file, kept) +
                                   ", since its run_nonce differs; name the database that the head was made of, or "
                                   "take that line out of the file");
  }
  return fail(kExitForked, journal + " is not the one that " + name_of_head(file, kept) +
                               " was made of: it differs at a sequence from " +
                               std::to_string(std::max(report.same_sequence, report.start.sequence) + 1) + " to " +
                               std::to_string(kept.head.record.sequence) +
                               "; it was changed, or a copy that was restored went another way");
}

// What of the journal was forgotten, and of whom.
struct ForgottenTold {
  uint64_t count = 0;
  std::string devices;  // names with commas between them; "none"
};

Expected<ForgottenTold> read_forgotten(SqliteStore& journal, const std::vector<EnrolledDevice>& devices) {
  const Expected<std::map<uint32_t, uint64_t>> counts = journal.forgotten_counts();
  GS_TRY_STORE(counts);
  ForgottenTold told;
  for (const auto& [device, count] : *counts) {
    told.count += count;
    told.devices += told.devices.empty() ? "" : ",";
    told.devices += device < devices.size() ? devices[device].name : "device_" + std::to_string(device);
  }
  told.devices = told.devices.empty() ? "none" : told.devices;
  return told;
}

// Whether the checkpoints have the models that the journal names: kExitOk, or an error already printed.
int compare_checkpoints(Opened& opened, const RunRow& run, const std::vector<EnrolledDevice>& devices,
                        SqliteStore& journal, uint64_t* compared) {
  RunParameters parameters;
  if (const Objection error = parse_run_source(run.source, &parameters)) {
    return fail(kExitDatabase, error.sentence + "use the release that wrote it");
  }
  std::string error;
  if (!check_checkpoints(run, parameters, devices, journal, compared, &error)) {
    return error.empty() ? fail_database(opened.database) : fail(kExitDatabase, error);
  }
  return kExitOk;
}

// The journal holds its heads: what stands beside it is compared, and all is told. kExitOk, or an error already
// printed.
int tell_contained(Opened& opened, const RunRow& run, SqliteStore& journal, const HeadReport& report) {
  const Expected<std::vector<EnrolledDevice>> devices = opened.database.devices();
  if (!devices.is_ok()) {
    return fail_database(opened.database);
  }
  const Expected<ForgottenTold> forgotten = read_forgotten(journal, *devices);
  if (!forgotten.is_ok()) {
    return fail_database(opened.database);
  }
  uint64_t compared = 0;
  if (const int code = compare_checkpoints(opened, run, *devices, journal, &compared); code != kExitOk) {
    return code;
  }
  OutputLine()
      .add("run", uint64_t{run.id})
      .add("state", "contained")
      .add("heads", uint64_t{report.contained})
      .add("older_than_kept", uint64_t{report.not_kept})
      .add("sequence", report.same_sequence)
      .add("last_sequence", report.end.sequence)
      .add("checkpoints", compared)
      .add("forgotten", forgotten->count)
      .add("forgotten_devices", forgotten->devices)
      .print(opened.options);
  return kExitOk;
}

}  // namespace

int make_key_of_heads(const std::string& path) {
  const Objection problem = make_head_key(path);
  if (problem) {
    return fail(kExitFile, problem.sentence);
  }
  print_output("file=" + path + " public=" + path + ".pub\n");
  return kExitOk;
}

int run_head(const CommonOptions& options, uint32_t run_id, const std::string& key_file) {
  Opened opened;
  RunRow run;
  if (const int code = open_journal(options, run_id, &opened, &run); code != kExitOk) {
    return code;
  }
  const std::string& file = key_file.empty() ? opened.config.server.head_key : key_file;
  HeadKey key;
  if (const Objection problem = file.empty() ? "" : key.read_private(file)) {
    return fail(kExitFile, problem.sentence);
  }
  SqliteStore journal(opened.database, run.id);
  const Expected<std::optional<JournalHead>> head = read_head(journal, run, wall_clock_ms());
  if (!head.is_ok()) {
    return fail_database(opened.database);
  }
  if (!*head) {
    return fail(kExitNotFound, "run " + std::to_string(run.id) + " has no version yet, so that there is no head");
  }
  const std::vector<uint8_t> signature = key.is_set() ? key.sign(head_text(**head)) : std::vector<uint8_t>();
  if (key.is_set() && signature.empty()) {
    return fail(kExitInternal, "the head cannot be signed: no memory, or no random bytes from the operating system");
  }
  print_output((key.is_set() ? signed_head_text(**head, signature) : head_text(**head)) + "\n");
  return kExitOk;
}

int run_verify(const CommonOptions& options, uint32_t run_id, const VerifyOptions& what) {
  std::vector<KeptHead> all;
  if (const int code = read_heads(what, &all); code != kExitOk) {
    return code;
  }
  Opened opened;
  RunRow run;
  const uint32_t wanted = run_id != 0 ? run_id : all.back().head.run;
  if (const int code = open_journal(options, wanted, &opened, &run); code != kExitOk) {
    return code;
  }
  const std::vector<KeptHead> kept = heads_of(run.id, all);
  if (kept.empty()) {
    return fail(kExitFile, what.heads + " has no head of run " + std::to_string(run.id));
  }
  std::vector<JournalHead> heads;
  std::transform(kept.begin(), kept.end(), std::back_inserter(heads), [](const KeptHead& one) { return one.head; });
  SqliteStore journal(opened.database, run.id);
  HeadReport report;
  if (check_heads(journal, run, heads, &report) != StoreStatus::kOk) {
    return fail_database(opened.database);
  }
  if (report.finding != HeadFinding::kContained) {
    return fail_head(run, what.heads, kept[report.bad], report);
  }
  if (report.contained == 0) {
    return fail(kExitNotKept, name_of_head(what.heads, kept.back()) + " is older than the oldest record kept of run " +
                                  std::to_string(run.id) + ", which has sequence " +
                                  std::to_string(report.start.sequence + 1) +
                                  "; prove it by a copy of the database that has its record");
  }
  return tell_contained(opened, run, journal, report);
}

}  // namespace gradstream
