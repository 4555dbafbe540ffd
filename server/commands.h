// The verbs of the program `gradstream`. Each prints to standard output what it was asked for, to standard error what
// is wrong (one sentence with the remedy), and returns an exit code.
#ifndef GRADSTREAM_SERVER_COMMANDS_H_
#define GRADSTREAM_SERVER_COMMANDS_H_

#include <memory>
#include <string>
#include <vector>

#include "server/config.h"
#include "server/coordinator.h"
#include "server/store_sqlite.h"

namespace gradstream {

// Documented in --help; stable.
enum ExitCode : int {
  kExitOk = 0,
  kExitInternal = 1,   // a contract inside the program was broken
  kExitUsage = 2,      // the command line
  kExitConfig = 3,     // the configuration file
  kExitDatabase = 4,   // missing, damaged, foreign, full, or served by another server
  kExitNetwork = 5,    // the address cannot be listened on, or TLS cannot start
  kExitFrozen = 6,     // the configuration differs from the run's frozen parameters
  kExitNotFound = 7,   // no such device, run or version; or the name is taken
  kExitFile = 8,       // an output file or folder cannot be written
  kExitArithmetic = 9,  // the processor flushes subnormal numbers to zero: its replica would drift
};

struct CommonOptions {
  std::string config;
  std::vector<std::string> overrides;  // --set
};

int serve(const CommonOptions& options);
int check_config(const CommonOptions& options);

int device_add(const CommonOptions& options, const std::string& name, const std::string& out);
int device_list(const CommonOptions& options);
int device_revoke(const CommonOptions& options, const std::string& name);

int run_start(const CommonOptions& options);
int run_list(const CommonOptions& options);
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
// run: as above.
int model_export(const CommonOptions& options, uint32_t run, const ExportOptions& what);
int status(const CommonOptions& options, uint32_t run);

// ---- Shared by the verbs -------------------------------------------------------------------------------------------

// Prints `gradstream: error: ...` and returns the code.
int fail(ExitCode code, const std::string& sentence);
// kExitOk, or an error already printed.
int load(const CommonOptions& options, Config* out);
int open_database(const Config& config, bool may_create, SqliteDatabase* out);
// Milliseconds since the epoch.
uint64_t wall_clock_ms();
// Makes a run of config.run; the parameters are frozen from here.
int create_run(SqliteDatabase& database, const Config& config, RunRow* out);
// A coordinator that has replayed the journal, up to and including the record that makes version `version_last`.
// Null with *error when the journal does not lead to the digests it names.
std::unique_ptr<Coordinator> replay_journal(const RunRow& run, const RunParameters& parameters,
                                            const std::vector<DeviceRow>& devices, Store& journal,
                                            uint32_t version_last, std::string* error);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COMMANDS_H_
