// The lineage of a model as JSON: which updates made which version, for audit.
//
// Written as the journal is read, one record at a time: memory does not grow with the run. The text depends on the
// journal, the version and the names of files alone, so that writing it again proves it. The journal is replayed
// meanwhile, so that every digest in the text has been recomputed. docs/how-to/trace.md names each field.
#ifndef GRADSTREAM_SERVER_PROGRAM_RUN_EXPORT_H_
#define GRADSTREAM_SERVER_PROGRAM_RUN_EXPORT_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/objection.h"
#include "server/coordinator/coordinator.h"
#include "server/journal/store.h"
#include "server/run/run_parameters.h"
#include "server/store/fleet_rows.h"

namespace gradstream {

// What of a lineage is known before the journal is read; it is its first line.
struct LineageHead {
  uint32_t run = 0;
  uint32_t version = 0;
  std::string model_file;  // beside the lineage, without a folder
  uint64_t gone = 0;       // records before its beginning, dropped or forgotten; write_lineage() finds it itself
};

struct LineageSource {
  const RunRow& run;
  const RunParameters& parameters;  // of the run
  const std::vector<EnrolledDevice>& devices;
  Store& journal;
};

// Takes the next piece of the text; false ends the writing.
using TextSink = std::function<bool(std::string_view)>;

// Whether the records that are kept make this version; UINT32_MAX: the highest that it makes. *out: the one found, or
// the highest.
enum class VersionSearch : uint8_t { kFound, kNone, kNotThere, kDropped, kUnreadable };
VersionSearch find_version(Store& journal, uint32_t version, uint32_t* out);

// Up to and including the record that makes head.version, which the journal must have. Of a journal that was cut,
// or has forgotten updates, it begins behind them, and says so. *model: the coordinator that has replayed it. An
// objection: the journal does not read, or not replay. None also where the sink wants no more; *model is then null.
Objection write_lineage(const LineageSource& source, const LineageHead& head, const TextSink& out,
                        std::unique_ptr<Coordinator>* model);

// The head that the first line of a lineage says. False: it is none.
bool parse_lineage_head(const std::string& first_line, LineageHead* out);

// A file that appears under its name only when it is complete, as write_file_atomically() has it, piece by piece.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  ~FileWriter();  // what was not finished is removed
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  bool write(std::string_view text);
  // An objection names the file, the cause and the remedy.
  Objection finish();
  // Whether what finish() has told may mend by itself (host/file_cause.h).
  bool is_failure_temporary() const { return is_failure_temporary_; }

 private:
  void fail(int cause);

  std::string path_;
  Objection problem_;
  bool is_failure_temporary_ = false;
  std::FILE* file_ = nullptr;
};

// Compares a text, piece by piece, with a file.
class FileComparer {
 public:
  explicit FileComparer(const std::string& path);
  ~FileComparer();
  FileComparer(const FileComparer&) = delete;
  FileComparer& operator=(const FileComparer&) = delete;
  bool is_open() const { return file_ != nullptr; }
  // False once it differs.
  bool take(std::string_view text);
  // Whether all of the file was compared, and was the same.
  bool is_same();
  // Of the first difference, from 1.
  uint64_t line() const { return line_; }

 private:
  std::FILE* file_ = nullptr;
  uint64_t line_ = 1;
  bool is_different_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_RUN_EXPORT_H_
