#include "server/program/run_export.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "host/durable_file.h"
#include "host/file_cause.h"
#include "runtime/training/encoding.h"
#include "server/program/model_export.h"
#include "server/program/replay.h"
#include "server/run/run_core.h"
#include "server/run/trigger.h"
#include "server/watch/watch.h"
#include "server/watch/words.h"

namespace gradstream {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "gradstream-lineage-1";

std::string text_of(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

// 64-bit FNV-1a, as of models.
uint64_t digest_bytes(std::span<const uint8_t> bytes) {
  uint64_t digest = kDigestStart;
  for (const uint8_t byte : bytes) {
    digest = digest_byte(digest, byte);
  }
  return digest;
}

// What the first line calls the records before the beginning.
constexpr const char* kGoneKeys[] = {"dropped", "forgotten"};
const char* gone_key(const CheckpointHead& start) { return kGoneKeys[start.is_behind_forgotten ? 1 : 0]; }

class Writer {
 public:
  Writer(const LineageSource& source, const TextSink& out)
      : source_(source), out_(out), quality_(quality_metric(source.parameters.model->problem)) {}

  // start: where the journal begins; digest: of the model there.
  void begin(const LineageHead& head, const CheckpointHead& start, uint64_t digest) {
    Json first = {{"format", kFormat}, {"run", head.run}, {"version", head.version}, {"model_file", head.model_file}};
    if (start.sequence != 0) {
      first[gone_key(start)] = {{"before_version", start.version},
                                {"records", start.sequence},
                                {"updates", start.update_count},
                                {"digest", hex(digest)}};
    }
    std::string line = text_of(first);
    line.back() = ',';  // the object goes on
    put(line + "\n");
    const RunRow& run = source_.run;
    put("\"name\":" + text_of(run.name) + ",\"created_ms\":" + std::to_string(run.created_ms) +
        ",\"parameters_digest\":\"" + hex(run.digest) + "\",\n\"parameters\":" + text_of(run.source) +
        ",\n\"versions\":[");
  }

  void take(const JournalRecord& record) {
    quality_.take(record);
    switch (record.kind()) {
      case RecordKind::kTaskIssued:
        return;
      case RecordKind::kUpdate:
        return put_entry(entry_of_update(record));
      case RecordKind::kVerdict:
        return put_entry(entry_of_verdict(record));
      case RecordKind::kRunState:
        return put_entry(
            {{"sequence", record.sequence()}, {"event", name_of(record.run_event())}, {"time_ms", record.time_ms()}});
      case RecordKind::kVersion:
        return end_version(record);
    }
  }

  void end(const Replica& model, uint64_t digest) {
    const std::span<const Real> values(model.model(), model.shape().size());
    const Json last = {{"version", model.version()},
                       {"rows", model.shape().rows},
                       {"cols", model.shape().cols},
                       {"digest", hex(digest)},
                       {"values_digest", hex(digest_values(kDigestStart, values.size(), values.data()))}};
    put("\n],\n\"model\":" + text_of(last) + "}\n");
  }

  bool is_wanted() const { return is_wanted_; }

 private:
  Json entry_of_update(const JournalRecord& r) const {
    Json entry = device_of(r);
    entry["verdict"] = verdict_text(r.verdict());
    entry["base_version"] = r.base_version();
    entry["staleness"] = r.staleness();
    entry["weight"] = r.weight();
    if (r.inverse_participation() != 1) {
      entry["inverse_participation"] = static_cast<double>(r.inverse_participation());
    }
    entry["steps"] = r.steps_done();
    entry["step_time_us"] = r.step_time_us();
    if (r.tells_losses()) {
      entry["loss_before"] = static_cast<double>(r.loss_before());
      entry["loss_after"] = static_cast<double>(r.loss_after());
    }
    const UpdateNotes notes = r.notes();
    if (notes.line) {
      entry["line"] = {{"slope", static_cast<double>(notes.line->slope)},
                       {"curvature", static_cast<double>(notes.line->curvature)}};
    }
    if (notes.evaluation) {
      entry["evaluation"] = {{"samples", notes.evaluation->sample_count},
                             {"loss", static_cast<double>(notes.evaluation->loss)},
                             {"metric", static_cast<double>(notes.evaluation->metric)}};
    }
    entry["values_digest"] = hex(digest_bytes(r.payload()));
    entry["time_ms"] = r.time_ms();
    return entry;
  }

  Json entry_of_verdict(const JournalRecord& r) const {
    Json entry = device_of(r);
    entry["verdict"] = verdict_text(r.verdict());
    entry["base_version"] = r.version();
    entry["reason"] = reason_name(static_cast<gs_Reason>(r.reason()));
    entry["time_ms"] = r.time_ms();
    return entry;
  }

  Json device_of(const JournalRecord& r) const {
    return {{"sequence", r.sequence()},
            {"device", source_.devices.at(r.device()).name},  // in order of index; the ledger knows this one
            {"index", r.device()},
            {"task", r.task_sequence()}};
  }

  void put_entry(const Json& entry) {
    begin_version();
    put((is_first_entry_ ? "\n" : ",\n") + text_of(entry));
    is_first_entry_ = false;
  }

  void begin_version() {
    if (!is_in_version_) {
      put(std::string(is_first_version_ ? "\n" : ",\n") + "{\"from\":[");
      is_in_version_ = true;
      is_first_entry_ = true;
      is_first_version_ = false;
    }
  }

  void end_version(const JournalRecord& r) {
    begin_version();
    Json made = {{"version", r.version()},
                 {"sequence", r.sequence()},
                 {"trigger", trigger_name(r.trigger())},
                 {"step_scale", static_cast<double>(r.step_scale())},
                 {"digest", hex(r.digest())},
                 {"record_bytes", r.payload().size()},
                 {"record_digest", hex(digest_bytes(r.payload()))},
                 {"time_ms", r.time_ms()}};
    const Quality* const before = r.version() == 0 ? nullptr : quality_.find(r.version() - 1);
    if (before != nullptr) {
      made["quality_before"] = {{"version", before->version},      {"metric", quality_metric_name(quality_.metric())},
                                {"value", before->metric},         {"loss", before->loss},
                                {"devices", before->device_count}, {"samples", before->sample_count}};
    }
    put("]," + text_of(made).substr(1));
    is_in_version_ = false;
  }

  void put(std::string_view text) { is_wanted_ = is_wanted_ && out_(text); }

  const LineageSource& source_;
  const TextSink& out_;
  QualityBook quality_;
  bool is_wanted_ = true;
  bool is_in_version_ = false;
  bool is_first_entry_ = true;
  bool is_first_version_ = true;
};

std::string sentence_of(uint32_t run, uint64_t sequence) {
  return "the journal of run " + std::to_string(run) + " does not replay at sequence " + std::to_string(sequence) +
         "; restore the database from a copy, or use the release that wrote it";
}

}  // namespace

VersionSearch find_version(Store& journal, uint32_t version, uint32_t* out) {
  bool has_any = false;
  CheckpointHead start;
  if (journal.read_start(&start) != StoreStatus::kOk) {
    return VersionSearch::kUnreadable;
  }
  if (start.sequence != 0 && version <= start.version) {
    return VersionSearch::kDropped;
  }
  const StoreStatus read = journal.read([&](const JournalRecord& record) {
    if (record.kind() == RecordKind::kVersion) {
      has_any = true;
      *out = record.version();
    }
    return !has_any || *out < version;
  });
  if (read != StoreStatus::kOk) {
    return VersionSearch::kUnreadable;
  }
  if (!has_any) {
    return start.sequence != 0 ? VersionSearch::kDropped : VersionSearch::kNone;
  }
  return version == UINT32_MAX || version == *out ? VersionSearch::kFound : VersionSearch::kNotThere;
}

Objection write_lineage(const LineageSource& source, const LineageHead& head, const TextSink& out,
                        std::unique_ptr<Coordinator>* model) {
  model->reset();
  CheckpointHead start;
  std::string error;
  auto coordinator = begin_replay(source.run, source.parameters, source.devices, source.journal, &start, &error);
  if (coordinator == nullptr) {
    return error.empty() ? "the journal of run " + std::to_string(source.run.id) + " cannot be read" : error;
  }
  Writer writer(source, out);
  writer.begin(head, start, start.sequence != 0 ? coordinator->digest() : 0);
  Objection problem;
  const StoreStatus read = source.journal.read([&](const JournalRecord& record) {
    if (coordinator->replay(record) != Status::kOk) {
      problem = sentence_of(source.run.id, record.sequence());
      return false;
    }
    writer.take(record);
    const bool is_last = record.kind() == RecordKind::kVersion && record.version() == head.version;
    return !is_last && writer.is_wanted();
  });
  if (read != StoreStatus::kOk) {
    return "the journal of run " + std::to_string(source.run.id) + " cannot be read";
  }
  if (problem || !writer.is_wanted()) {
    return problem;
  }
  GS_ASSERT(coordinator->model().has_model() && coordinator->model().version() == head.version);
  writer.end(coordinator->model(), coordinator->digest());
  if (writer.is_wanted()) {
    *model = std::move(coordinator);
  }
  return {};
}

bool parse_lineage_head(const std::string& first_line, LineageHead* out) {
  if (!first_line.ends_with(',')) {
    return false;
  }
  const Json head = Json::parse(first_line.substr(0, first_line.size() - 1) + "}", nullptr, false);
  const auto field = [&head](const char* key) {
    const auto found = head.find(key);
    return found == head.end() ? Json() : *found;
  };
  if (!head.is_object() || field("format") != kFormat || !field("run").is_number_unsigned() ||
      !field("version").is_number_unsigned() || !field("model_file").is_string()) {
    return false;
  }
  *out = {field("run").get<uint32_t>(), field("version").get<uint32_t>(), field("model_file").get<std::string>()};
  for (const char* const key : kGoneKeys) {
    const Json gone = field(key);
    if (gone.is_object() && gone.contains("records") && gone["records"].is_number_unsigned()) {
      out->gone = gone["records"].get<uint64_t>();
    }
  }
  return out->model_file.find('/') == std::string::npos;
}

// ---- Files ---------------------------------------------------------------------------------------------------------

FileWriter::FileWriter(const std::string& path) : path_(path), problem_(check_target(path)) {
  if (problem_) {
    return;
  }
  file_ = std::fopen((path + ".part").c_str(), "wbe");
  if (file_ == nullptr) {
    fail(errno);
  }
}

FileWriter::~FileWriter() {
  if (file_ != nullptr) {
    std::fclose(file_);
    ::unlink((path_ + ".part").c_str());
  }
}

void FileWriter::fail(int cause) {
  is_failure_temporary_ = is_temporary(cause);
  problem_ = "cannot write " + path_ + ": " + cause_text(cause) + "; " +
             remedy_text(cause, "check the folder and its permissions");
}

bool FileWriter::write(std::string_view text) {
  if (problem_) {
    return false;
  }
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) {
    fail(errno);
  }
  return !problem_;
}

Objection FileWriter::finish() {
  const std::string part = path_ + ".part";
  if (!problem_) {
    const bool is_written = std::fflush(file_) == 0 && ::fsync(::fileno(file_)) == 0;
    int cause = is_written ? 0 : errno;
    std::fclose(file_);
    file_ = nullptr;
    if (cause == 0) {
      cause = rename_durably(part.c_str(), path_.c_str());
    }
    if (cause != 0) {
      fail(cause);
      ::unlink(part.c_str());
    }
  }
  return problem_;
}

FileComparer::FileComparer(const std::string& path) : file_(std::fopen(path.c_str(), "rbe")) {}

FileComparer::~FileComparer() {
  if (file_ != nullptr) {
    std::fclose(file_);
  }
}

bool FileComparer::take(std::string_view text) {
  std::array<char, 4096> there = {};
  while (!text.empty() && !is_different_) {
    const std::string_view piece = text.substr(0, there.size());
    const size_t size = std::fread(there.data(), 1, piece.size(), file_);
    for (size_t i = 0; i < piece.size() && !is_different_; ++i) {
      is_different_ = i >= size || there[i] != piece[i];
      line_ += !is_different_ && piece[i] == '\n' ? 1 : 0;
    }
    text.remove_prefix(piece.size());
  }
  return !is_different_;
}

bool FileComparer::is_same() { return !is_different_ && std::fgetc(file_) == EOF; }

}  // namespace gradstream
