// How a verb ends: its exit code, and the sentence of what is wrong.
#include <string>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

#include "host/log_file.h"
#include "host/output_end.h"
#include "server/program/commands.h"
#include "server/program/toml_document.h"

namespace gradstream {

namespace {

static_assert(kExitFile == kExitOutputLost && kExitTemporary == kExitOutputTemporary);

void print_sentence(const char* kind, const std::string& sentence) {
  std::string text = std::string("gradstream: ") + kind + ": ";
  size_t begin = 0;
  for (size_t end = sentence.find('\n'); end != std::string::npos; end = sentence.find('\n', begin)) {
    text += printable(std::string_view(sentence).substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  (void)LogFile(STDERR_FILENO).write(text + printable(std::string_view(sentence).substr(begin)));
}

}  // namespace

int fail(CommandExit code, const std::string& sentence) {
  print_sentence("error", sentence);
  return code;
}

void warn(const std::string& sentence) { print_sentence("warning", sentence); }

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
      return "the process flushes subnormal numbers to zero, or this build fuses products: its model would drift";
    case kExitTemporary:
      return "a file cannot be used now, but may be later: its disk is read-only, full or failing";
    case kExitForked:
      return "run verify: the journal is not the one that a head was made of";
    case kExitTruncated:
      return "run verify: the journal ends before a head";
    case kExitNotKept:
      return "run verify: the journal begins behind all heads: they are neither proven nor refuted";
    default:
      return "";
  }
}

Objection find_out_fault(const std::string& what, const std::string& path) {
  struct stat info = {};
  if (path.empty()) {
    return what + " '': expected the path of the file to write";
  }
  const bool is_folder = path.back() == '/' || (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode));
  return is_folder ? what + " " + path + ": expected the path of a file, and this is a folder; name a file in it" : "";
}

int fail_database(const SqliteDatabase& database) {
  return fail(database.is_failure_temporary() ? kExitTemporary : kExitDatabase, database.error());
}

}  // namespace gradstream
