// The verbs of the program `gradstream`. Each prints to standard output what it was asked for, to standard error what
// is wrong (one sentence with the remedy), and returns an exit code.
#ifndef GRADSTREAM_SERVER_PROGRAM_COMMANDS_H_
#define GRADSTREAM_SERVER_PROGRAM_COMMANDS_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/coordinator/coordinator.h"
#include "server/program/config.h"
#include "server/store/database_lock.h"
#include "server/store/sqlite_database.h"

namespace gradstream {

// Stable. exit_code_text() says what each means, in --help and in docs/operating.md.
enum CommandExit : int {
  kExitOk = 0,
  kExitInternal = 1,
  kExitUsage = 2,
  kExitConfig = 3,
  kExitDatabase = 4,
  kExitNetwork = 5,
  kExitFrozen = 6,
  kExitNotFound = 7,
  kExitFile = 8,
  kExitArithmetic = 9,
  kExitTemporary = 10,
};
inline constexpr int kExitCodeMax = kExitTemporary;
const char* exit_code_text(int code);

struct CommonOptions {
  std::string config;
  std::vector<std::string> overrides;  // --set
  std::string format = "text";         // or "json": one object a line
};

// may_create: a database that is missing or empty is made. Else it is kExitDatabase: a disk that is not mounted, or a
// misspelt path, must not turn a whole fleet away as unknown.
int serve(const CommonOptions& options, bool may_create);
// From here on a signal is one to a server (host/end_signals.h). serve() calls it too. kExitOk, or an error already
// printed.
int catch_signals_to_serve();
// kExitFile and a sentence: a file or folder that it names cannot be used. may_write: also tries to write where files
// are to be written.
int check_files(const Config& config, bool may_write);
// Of a new run, *out empty: drawn from the seed. Empty, or a sentence.
std::string read_first_model(const Config& config, std::vector<Real>* out);
// Of what was read: moves it onto the run's manifold (server/run/first_model.h). *projected: the parts that were moved.
// Empty, or a sentence: it is refused.
std::string settle_first_model(const Config& config, std::span<Real> model, std::string* projected);
// Puts the digest of the network's file in the place of its path (server/program/network_file.h). kExitOk, or an error
// already printed.
int settle_network(Config* config);
// Prints the effective configuration, after a look at the files that it names; or, without that look, with the origin
// of each value where asked.
int check_config(const CommonOptions& options, bool with_origins);

// server/program/commands_device.cc
int device_add(const CommonOptions& options, const std::string& name, const std::string& out, bool is_pending);
// Lines `NAME` or `NAME,KEY` (64 hexadecimal digits), perhaps below a line `name` or `name,key`. A name without a key
// gets one, and its identity file in out_folder. All of them are enrolled or none.
int device_import(const CommonOptions& options, const std::string& file, const std::string& out_folder,
                  bool is_pending);
int device_rotate(const CommonOptions& options, const std::string& name, const std::string& out, uint32_t window_s);
int device_list(const CommonOptions& options);
int device_set_state(const CommonOptions& options, const std::string& name, DeviceState state);

struct ClaimOptions {
  std::string name;
  std::string out;  // the identity file of the claim
  uint32_t count_max = 1;
  uint32_t window_s = 604800;
  bool is_pending = false;  // devices that it lets in are
};
int claim_add(const CommonOptions& options, const ClaimOptions& claim);
int claim_list(const CommonOptions& options);
int claim_end(const CommonOptions& options, const std::string& name);

// A copy of the database of the configuration, also while a server writes to it; and back, while none does. replace:
// an existing database is moved aside.
int backup(const CommonOptions& options, const std::string& out);
int restore(const CommonOptions& options, const std::string& from, bool replace);

// server/program/commands_run.cc
int run_start(const CommonOptions& options);
int run_list(const CommonOptions& options);
// Every key of [run], a line each, or the Markdown of docs/operating.md. It reads no configuration.
int run_keys(const CommonOptions& options, bool as_markdown);
// run: its number; 0: the active one, else the latest.
int run_stop(const CommonOptions& options, uint32_t run);
int run_pause(const CommonOptions& options, uint32_t run);
int run_resume(const CommonOptions& options, uint32_t run);

struct ExportOptions {
  std::string version = "latest";  // or a number
  std::string format;              // "npy", "csv" or "", which means csv for a file *.csv and else npy
  std::string out;
  bool wants_average = false;  // the average of the run's versions up to this one in place of the model
};
// Writes what.out (*.json), the lineage of a version (server/program/run_export.h), and its model beside it. check:
// compares both with what would be written of the run and version that they name, and writes nothing. run: as above.
int run_export(const CommonOptions& options, uint32_t run, const ExportOptions& what, bool check);
// run: as above.
int model_export(const CommonOptions& options, uint32_t run, const ExportOptions& what);
int status(const CommonOptions& options, uint32_t run);

// server/program/commands_network.cc. What a network's file holds, and the memory that a batch of batch_size takes.
int network_show(const CommonOptions& options, const std::string& path, uint32_t batch_size);

// ---- Shared by the verbs -------------------------------------------------------------------------------------------

// One line of a verb's output: `key=value ...`, or an object in JSON.
class OutputLine {
 public:
  OutputLine& add(const std::string& key, const std::string& value);
  OutputLine& add(const std::string& key, const char* value) { return add(key, std::string(value)); }
  OutputLine& add(const std::string& key, uint64_t value);
  OutputLine& add_hex(const std::string& key, uint64_t value);
  // In quotes, also where the text needs none.
  OutputLine& add_quoted(const std::string& key, const std::string& value);
  // yes or no; a boolean in JSON.
  OutputLine& add_flag(const std::string& key, bool value);
  // A list, all of it in JSON; `text` is what is shown of it.
  OutputLine& add_list(const std::string& key, const std::string& text, std::vector<std::string> all);
  void print(const CommonOptions& options) const;

 private:
  enum class Kind : uint8_t { kText, kQuoted, kNumber, kFlag, kList };
  struct Pair {
    std::string key;
    std::string value;
    Kind kind = Kind::kText;
    std::vector<std::string> all = {};  // kList
  };
  std::vector<Pair> pairs_;
};

// Prints `gradstream: error: ...` and returns the code.
int fail(CommandExit code, const std::string& sentence);
// After a call of the database that failed: prints its error(). kExitDatabase, or kExitTemporary.
int fail_database(const SqliteDatabase& database);
// kExitOk, or an error already printed.
int load(const CommonOptions& options, Config* out, ConfigOrigins* origins = nullptr);
int open_database(const Config& config, bool may_create, SqliteDatabase* out);
// What most verbs work with.
struct Opened {
  CommonOptions options;
  Config config;
  SqliteDatabase database;
};
// load() and open_database().
int open_both(const CommonOptions& options, bool may_create, Opened* out);
// The same, with the run of this number; 0: the active one, else the latest.
int open_run(const CommonOptions& options, uint32_t id, Opened* out, RunRow* run);
// Which server holds the database. kExitOk, or an error already printed.
int probe_server(const Config& config, DatabaseOwner* out);
// Milliseconds since the epoch.
uint64_t wall_clock_ms();
// Makes a run of config.run; the parameters are frozen from here.
int create_run(SqliteDatabase& database, const Config& config, RunRow* out);
// A coordinator that has replayed the journal, up to and including the record that makes version `version_last`.
// Null with *error when the journal does not lead to the digests it names.
std::unique_ptr<Coordinator> replay_journal(const RunRow& run, const RunParameters& parameters,
                                            const std::vector<EnrolledDevice>& devices, Store& journal,
                                            uint32_t version_last, std::string* error);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_COMMANDS_H_
