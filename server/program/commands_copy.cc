// The verbs `gradstream backup` and `gradstream restore`: copies of the database.
#include <cerrno>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include "host/durable_file.h"
#include "host/file_cause.h"
#include "server/program/commands.h"
#include "server/store/database_copy.h"
#include "server/store/database_lock.h"

namespace gradstream {

namespace {

int copy(const std::string& from, const std::string& to) {
  std::string error;
  bool is_temporary = false;
  const StoreStatus status = copy_database(from, to, &error, &is_temporary);
  if (status == StoreStatus::kOk) {
    return kExitOk;
  }
  return fail(status == StoreStatus::kCorrupt ? kExitDatabase : is_temporary ? kExitTemporary : kExitFile, error);
}

}  // namespace

int backup(const CommonOptions& options, const std::string& out) {
  if (const Objection fault = find_out_fault("backup", out)) {
    return fail(kExitUsage, fault.sentence);
  }
  Opened opened;
  if (const int code = open_both(options, false, &opened); code != kExitOk) {
    return code;  // what is no database of ours is not copied
  }
  const std::string& database = opened.config.server.database;
  const std::string partial = out + ".partial";
  if (::access(out.c_str(), F_OK) == 0) {
    return fail(kExitFile, out + " exists already; remove it or give another name");
  }
  if (const int code = copy(database, partial); code != kExitOk) {
    return code;
  }
  if (const int cause = rename_durably(partial.c_str(), out.c_str()); cause != 0) {
    return fail(is_temporary(cause) ? kExitTemporary : kExitFile,
                "cannot rename " + partial + ": " + cause_text(cause) + "; " + remedy_text(cause, "check that disk"));
  }
  struct stat info = {};
  stat(out.c_str(), &info);
  OutputLine()
      .add("database", absolute_path(database))
      .add("file", out)
      .add("bytes", static_cast<uint64_t>(info.st_size))
      .print(options);
  return kExitOk;
}

namespace {

int fail_to_move(int cause, const std::string& from, const std::string& to) {
  return fail(is_temporary(cause) ? kExitTemporary : kExitFile,
              "cannot move " + from + " to " + to + ": " + cause_text(cause) + "; " +
                  remedy_text(cause, "check the permissions of the folder"));
}

// The database, with the files that belong to it, under another name. kExitOk, or an error already printed.
int move_aside(const std::string& path, const std::string& to) {
  for (const char* const end : {"-wal", "-shm", ""}) {
    const std::string old_name = path + end;
    const std::string new_name = to + end;
    const int cause = rename_durably(old_name.c_str(), new_name.c_str());
    if (cause != 0 && cause != ENOENT) {
      return fail_to_move(cause, old_name, new_name);
    }
  }
  return kExitOk;
}

// A whole database of ours, at `path`, copied from `from`. An objection says why not.
Objection check_copy(const std::string& path, const std::string& from) {
  SqliteDatabase database;
  SqliteOptions options;
  options.path = path;
  options.copy_of = from;
  options.may_create = false;
  options.check_integrity = true;
  return database.open(options) == StoreStatus::kOk ? Objection() : database.error();
}

}  // namespace

int restore(const CommonOptions& options, const std::string& from, bool replace) {
  if (from.empty()) {
    return fail(kExitUsage, "restore '': expected the path of a copy that `gradstream backup` has made");
  }
  Config config;
  if (const int code = load_beside_no_engine(options, &config); code != kExitOk) {
    return code;
  }
  const std::string& path = config.server.database;
  DatabaseLock lock;  // until the end: no server may start meanwhile
  const Objection served = lock.take(path);
  if (served) {
    return fail(kExitDatabase, served.sentence);
  }
  const bool is_there = ::access(path.c_str(), F_OK) == 0;
  if (is_there && !replace) {
    return fail(kExitDatabase, "database " + path + " exists; --replace moves it aside, and restores " + from);
  }
  const std::string fresh = path + ".restored";
  ::unlink(fresh.c_str());  // of a restoration that did not end
  if (const int code = copy(from, fresh); code != kExitOk) {
    return code;
  }
  const Objection damaged = check_copy(fresh, from);
  if (damaged) {
    ::unlink(fresh.c_str());
    return fail(kExitDatabase, damaged.sentence);
  }
  const std::string aside = path + ".before-" + std::to_string(wall_clock_ms());
  int code = is_there ? move_aside(path, aside) : int{kExitOk};
  if (code == kExitOk) {
    code = move_aside(fresh, path);
  }
  if (code != kExitOk) {
    return code;
  }
  OutputLine line;
  line.add("database", absolute_path(path)).add("from", from);
  if (is_there) {
    line.add("before", aside);
  }
  line.print(options);
  return kExitOk;
}

}  // namespace gradstream
