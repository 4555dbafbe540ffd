// How a verb ends: its exit code, and the sentence of what is wrong.
#include <string>

#include <unistd.h>

#include "host/log_file.h"
#include "server/program/commands.h"

namespace gradstream {

int fail(CommandExit code, const std::string& sentence) {
  (void)LogFile(STDERR_FILENO).write("gradstream: error: " + sentence);
  return code;
}

const char* exit_code_text(int code) {
  switch (code) {
    case kExitOk:
      return "done";
    case kExitInternal:
      return "a contract inside the program was broken: report it with the log";
    case kExitUsage:
      return "the command line";
    case kExitConfig:
      return "the configuration: a file, a variable or --set";
    case kExitDatabase:
      return "the database is missing, there already, damaged, foreign, or served by another server";
    case kExitNetwork:
      return "the address cannot be listened on or reached, or TLS cannot start";
    case kExitFrozen:
      return "the configuration differs from the run's frozen parameters";
    case kExitNotFound:
      return "no such device, run or version; or the name is taken";
    case kExitFile:
      return "a file or folder cannot be read or written";
    case kExitArithmetic:
      return "the process flushes subnormal numbers to zero: its model would drift";
    case kExitTemporary:
      return "a file cannot be used now, but may be later: its disk is read-only, full or failing";
    default:
      return "";
  }
}

int fail_database(const SqliteDatabase& database) {
  return fail(database.is_failure_temporary() ? kExitTemporary : kExitDatabase, database.error());
}

}  // namespace gradstream
