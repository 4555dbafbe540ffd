// The verbs of the program `gradstream`. Each prints to standard output what it was asked for, to standard error what
// is wrong (one sentence with the remedy), and returns an exit code.
#ifndef GRADSTREAM_SERVER_PROGRAM_COMMANDS_H_
#define GRADSTREAM_SERVER_PROGRAM_COMMANDS_H_

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "host/table.h"
#include "server/base/objection.h"
#include "server/coordinator/coordinator.h"
#include "server/program/config.h"
#include "server/program/replay.h"
#include "server/store/database_lock.h"
#include "server/store/sqlite_database.h"

namespace gradstream {

class FleetHome;

// Stable. exit_code_text() says what each means, in --help and in docs/reference/exit_codes.md.
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
  kExitForked = 11,
  kExitTruncated = 12,
  kExitNotKept = 13,
};
inline constexpr int kExitCodeMax = kExitNotKept;
const char* exit_code_text(int code);

// Where the package puts the configuration, which is read where none is named.
inline constexpr const char* kInstalledConfig = "/etc/gradstream/gradstream.toml";

struct CommonOptions {
  std::string config;
  std::vector<std::string> overrides;  // --set
  std::string format = "text";         // or "json": one object a line
};

// What makes a command of this program act on the same database: "--config FILE --set KEY=VALUE", as a shell takes it.
// No --config with the packaged configuration, which every command reads by itself. in_folder: a relative FILE is of
// this folder; "": it stays as it is.
std::string configuration_words(const CommonOptions& options, const std::string& in_folder = "");

// may_create: a database that is missing or empty is made. Else it is kExitDatabase: a disk that is not mounted, or a
// misspelt path, must not turn a whole fleet away as unknown.
// become_node: called in its place where the configuration has an engine.address; it serves as a node of that engine.
int serve(const CommonOptions& options, bool may_create, const std::function<int()>& become_node);
// From here on a signal is one to a server (host/end_signals.h). serve() calls it too. kExitOk, or an error already
// printed.
int catch_signals_to_serve();

// server/program/commands_check.cc
// kCheck: nothing is written, and what only a new run needs is judged too.
enum class ServeUse : uint8_t { kServe, kCheck };
// Whether `serve` can begin with a configuration that load() has taken: its [run], its files and folders, its database
// and its addresses. kExitOk, or an error already printed, with the code that `serve` ends with. What only the moment
// decides is not asked: another server of the database, a port that is taken.
int check_to_serve(const CommonOptions& options, const Config& config, bool may_create, ServeUse use);
// Whether the frozen parameters of the run are those of the configuration, read from `file`. kExitOk, or kExitFrozen.
int check_frozen(const RunRow& run, const Config& config, const std::string& file);
// Whether a new run can begin with config.run at the first model that config names. kExitOk, or an error already
// printed. *projected: a sentence about the parts of the model that are moved onto their manifolds; "": none is.
int check_run(const Config& config, std::string* projected);
struct FirstModel {
  std::string key;           // where it comes from: "server.first_model" or "run.network"
  std::string path;          // the file that this key names
  std::vector<Real> values;  // empty: drawn from the seed
  std::string projected;     // the parts that were moved onto their manifolds
};
enum class FirstModelUse : uint8_t {
  kNone,   // the run has left it: the file is only read
  kBegin,  // a run begins there: it is moved onto the run's manifold, or refused (server/run/first_model.h)
};
// Puts the digest of the network's file in the place of its path, and keeps in config->network_start where a run of it
// begins (server/program/network_file.h). kExitOk, or an error already printed.
int settle_network(Config* config);
// What server.first_model names; without that key, and of a run that begins, the numbers that the file of run.network
// holds, where the run is of that network.
Objection load_first_model(const Config& config, FirstModelUse use, FirstModel* out);
// The code of a sentence about the files that the configuration names: kExitFile, or kExitTemporary.
CommandExit exit_of_files(const ServerConfig& server);
// Prints the effective configuration where check_to_serve() takes it, and then judges the run that is in the database;
// or, unjudged, with the origin of each value.
int check_config(const CommonOptions& options, bool may_create, bool with_origins);

// server/program/commands_device.cc. fleet: where the devices and claims are (server/program/fleet_home.h).
int device_add(FleetHome& fleet, const std::string& name, const std::string& out, bool is_pending);
struct ImportOptions {
  std::string file;
  std::string out_folder;   // of identity files; may be empty where each device has its key
  bool is_pending = false;  // the devices are
};
// Lines `NAME` or `NAME,KEY` (64 hexadecimal digits), perhaps below a line `name` or `name,key`. A name without a key
// gets one, and its identity file in out_folder. All of them are enrolled or none.
int device_import(FleetHome& fleet, const ImportOptions& import);
int device_rotate(FleetHome& fleet, const std::string& name, const std::string& out, uint32_t window_s);
// The same by a key that the device draws in its next session.
int device_ask_for_key(FleetHome& fleet, const std::string& name, uint32_t window_s);
int device_list(FleetHome& fleet);
// One device in full: what the database says of it, and a line of what the running server knows of its work.
int device_show(FleetHome& fleet, const std::string& name);
int device_set_state(FleetHome& fleet, const std::string& name, DeviceState state);

struct ClaimOptions {
  std::string name;
  std::string out;  // the identity file of the claim
  uint32_t count_max = 1;
  uint32_t window_s = 604800;
  bool is_pending = false;  // devices that it lets in are
};
int claim_add(FleetHome& fleet, const ClaimOptions& claim);
int claim_list(FleetHome& fleet);
int claim_end(FleetHome& fleet, const std::string& name);

// server/program/commands_copy.cc
// A copy of the database of the configuration, also while a server writes to it; and back, while none does. replace:
// an existing database is moved aside.
int backup(const CommonOptions& options, const std::string& out);
int restore(const CommonOptions& options, const std::string& from, bool replace);

// server/program/commands_explain.cc
// The row of an event or refusal, or all of both where name is empty, or the tables of docs/reference/events.md. It
// reads no configuration. kExitNotFound: there is no such name.
int explain(const CommonOptions& options, const std::string& name, bool as_markdown);

// server/program/commands_run.cc
// force: also where the server has heard of devices, and none of them can do the run's problem.
int run_start(const CommonOptions& options, bool force);
int run_list(const CommonOptions& options);
// Every key of [run], a line each, or the Markdown of docs/reference/keys.md. It reads no configuration.
int run_keys(const CommonOptions& options, bool as_markdown);
// run: its number; 0: the active one, else the latest.
int run_stop(const CommonOptions& options, uint32_t run);
int run_pause(const CommonOptions& options, uint32_t run);
int run_resume(const CommonOptions& options, uint32_t run);

struct ExportOptions {
  std::string version = "latest";  // or a number
  std::string format;              // "npy", "csv", "npz" or "": by the ending of the file, else npy
  std::string out;
  bool wants_average = false;  // the average of the run's versions up to this one in place of the model
};
// Writes what.out (*.json), the lineage of a version (server/program/run_export.h), and its model beside it. check:
// compares both with what would be written of the run and version that they name, and writes nothing. run: as above.
int run_export(const CommonOptions& options, uint32_t run, const ExportOptions& what, bool check);
// run: as above.
int model_export(const CommonOptions& options, uint32_t run, const ExportOptions& what);
int status(const CommonOptions& options, uint32_t run);
// Whether the configuration's server lives: its HTTP port answers /healthz. kExitOk; kExitNetwork: it does not;
// kExitConfig: server.http_listen names no port to ask. It opens no database.
int status_alive(const CommonOptions& options);

// server/program/commands_audit.cc
// Prints the head of a run (server/journal/journal_head.h), signed by the key of the file; without one by that of
// server.head_key, and unsigned where there is none either. run: as above.
int run_head(const CommonOptions& options, uint32_t run, const std::string& key_file);
// Makes a key for heads, and its public half beside it. It reads no configuration.
int make_key_of_heads(const std::string& path);
struct VerifyOptions {
  std::string heads;       // a file of lines, each a signed head; those of other runs are passed over
  std::string public_key;  // that has signed them
};
// Whether the journal holds all that the heads say. run: 0: that of the file's last head. kExitOk: it does, and its
// chain is whole; kExitForked, kExitTruncated, kExitNotKept, kExitNotFound where a head is of another run of that
// number, or kExitDatabase where the chain breaks.
int run_verify(const CommonOptions& options, uint32_t run, const VerifyOptions& what);

// server/program/commands_forget.cc
// Takes what the device has sent out of the journals, while no server runs: values, notes and losses of its updates in
// closed versions. run: its number; 0: all runs.
int run_forget(const CommonOptions& options, uint32_t run, const std::string& name);

// server/program/commands_history.cc. One line a version, as CSV with a head. run: as above.
int history(const CommonOptions& options, uint32_t run);

// server/program/commands_network.cc. What a network's file holds, and the memory that it takes on a device with
// sample_count samples and batches of batch_size.
int network_show(const CommonOptions& options, const std::string& path, uint32_t batch_size, uint32_t sample_count);

// server/program/commands_data.cc
struct DataOptions {
  std::vector<std::string> files;
  std::string out_folder;
  std::string delimiter = "auto";                            // parse_delimiter()
  std::string header = "auto";                               // or yes, no
  std::string decimal = "auto";                              // parse_decimal()
  uint32_t skipped_row_count = 0;                            // lines before the table
  std::string label;                                         // the name or number of its column; empty: there is none
  bool map_labels = false;                                   // also numbers are names of classes
  uint32_t class_count = 0;                                  // 0: as the labels say
  bool is_bytes = false;                                     // one byte a value
  double scale = std::numeric_limits<double>::quiet_NaN();   // of bytes with labels; NaN: by the data
  double offset = std::numeric_limits<double>::quiet_NaN();  // the same
  double error_max = std::numeric_limits<double>::quiet_NaN();  // how far a byte may be from its value
  bool force = false;
};
// Writes each file, a table (host/table.h), as a shard NAME.gsd in out_folder. All of them are written or none, but a
// failure while shards are replaced by force may leave some of them new, and is told. Nothing is replaced without
// force. Words as labels become numbers by their order over all files, which is printed.
int data_pack(const CommonOptions& options, const DataOptions& data);
// How the tables are read. kExitOk, or an error already printed.
int to_table_options(const DataOptions& data, TableOptions* out);
// What tables or shards hold: samples, columns, ranges, classes, the largest eigenvalues of their second moments.
int data_show(const CommonOptions& options, const DataOptions& data);

// server/program/commands_suggest.cc
struct SuggestOptions {
  std::string problem;
  uint32_t cols = 0;  // of the model; 0 of logistic: as many as its classes need
  uint32_t device_count = 0;
};
// Prints a configuration with a whole [run] for the tables, and the least loss that it can reach. It reads no other
// configuration.
int run_suggest(const DataOptions& data, const SuggestOptions& what);

// ---- Shared by the verbs -------------------------------------------------------------------------------------------

// One line of a verb's output: `key=value ...`, or an object in JSON.
class OutputLine {
 public:
  OutputLine& add(const std::string& key, const std::string& value);
  OutputLine& add(const std::string& key, const char* value) { return add(key, std::string(value)); }
  OutputLine& add(const std::string& key, uint64_t value);
  OutputLine& add_hex(const std::string& key, uint64_t value);
  // Finite, with 7 digits; a number in JSON.
  OutputLine& add_real(const std::string& key, double value);
  OutputLine& add_reals(const std::string& key, const std::vector<double>& values);
  // In quotes, also where the text needs none.
  OutputLine& add_quoted(const std::string& key, const std::string& value);
  // yes or no; a boolean in JSON.
  OutputLine& add_flag(const std::string& key, bool value);
  // A list, all of it in JSON; `text` is what is shown of it.
  OutputLine& add_list(const std::string& key, const std::string& text, std::vector<std::string> all);
  void print(const CommonOptions& options) const;

 private:
  enum class Kind : uint8_t { kText, kQuoted, kNumber, kReal, kReals, kFlag, kList };
  struct Pair {
    std::string key;
    std::string value;
    Kind kind = Kind::kText;
    std::vector<std::string> all = {};  // kList
  };
  std::vector<Pair> pairs_;
};

// Prints `gradstream: error: ...` and returns the code. What is not printable, as in a name that somebody gave, is
// shown as \xNN: it reaches no terminal.
int fail(CommandExit code, const std::string& sentence);
// Prints `gradstream: warning: ...`, in the same way.
void warn(const std::string& sentence);
// After a call of the database that failed: prints its error(). kExitDatabase, or kExitTemporary.
int fail_database(const SqliteDatabase& database);
// Objects with what is wrong with the file that a verb is to write: there is no name, or it is that of a folder. what:
// the option or the argument that names it.
Objection find_out_fault(const std::string& what, const std::string& path);
// kExitOk, or an error already printed.
int load(const CommonOptions& options, Config* out, ConfigOrigins* origins = nullptr);
// The same for a verb that works with server.database alone: kExitConfig where the configuration names an engine, whose
// nodes neither read nor write that database.
int load_beside_no_engine(const CommonOptions& options, Config* out);
int open_database(const Config& config, bool may_create, SqliteDatabase* out);
// What most verbs work with.
struct Opened {
  CommonOptions options;
  Config config;
  SqliteDatabase database;
};
// load_beside_no_engine() and open_database().
int open_both(const CommonOptions& options, bool may_create, Opened* out);
// The same, with the run of this number; 0: the active one, else the latest.
int open_run(const CommonOptions& options, uint32_t id, Opened* out, RunRow* run);
// The same to read its journal: nothing that the server drops meanwhile is missing.
int open_journal(const CommonOptions& options, uint32_t id, Opened* out, RunRow* run);
// Which server holds the database. kExitOk, or an error already printed.
int probe_server(const Config& config, DatabaseOwner* out);
// Milliseconds since the epoch.
uint64_t wall_clock_ms();
// Adds key_change and since_ms where the device is asked for a new key.
void add_key_change(const EnrolledDevice& device, uint64_t now_ms, OutputLine* line);
// What the database says of a device, with its times in milliseconds and for people.
void add_identity(const EnrolledDevice& device, uint64_t now_ms, OutputLine* line);
// A number that no other run has, from the system's source of random numbers; 0: that gave none.
uint64_t draw_run_nonce();
// Makes a run of config.run, which check_run() has taken; the parameters are frozen from here. run_nonce: not 0; 0 is
// an error, which is printed.
int create_run(SqliteDatabase& database, const Config& config, uint64_t run_nonce, RunRow* out);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_COMMANDS_H_
