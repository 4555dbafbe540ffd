// Two servers of one database would each answer devices that the other one knows nothing of: a lock keeps them apart.
#ifndef GRADSTREAM_SERVER_STORE_DATABASE_LOCK_H_
#define GRADSTREAM_SERVER_STORE_DATABASE_LOCK_H_

#include <cstdint>
#include <string>

#include "server/base/objection.h"

namespace gradstream {

// Who holds the lock of a database.
struct DatabaseOwner {
  bool is_held = false;
  uint32_t process = 0;
  uint32_t run = 0;  // that it serves; 0: it has not chosen one yet
  // Whether a request to this run reaches a server: that has chosen it, or is about to.
  bool may_serve(uint32_t id) const { return is_held && (run == id || run == 0); }
};

// Held by the one server of a database, for as long as it lives: two advisory locks, which the kernel drops when the
// process ends, however it ends. One is on `<path>.lock`, whose text names the owner's process and run to the commands.
// The other is on the database itself. Reason: a file has more than one name by links, by bind mounts and in other
// mount namespaces, and by each name SQLite would keep another write-ahead log, which destroys the file.
//
// The lock must outlive every connection of its process to the database. Reason: a process that closes any descriptor
// of a file loses the locks that SQLite has on it.
class DatabaseLock {
 public:
  DatabaseLock() = default;
  ~DatabaseLock();
  DatabaseLock(const DatabaseLock&) = delete;
  DatabaseLock& operator=(const DatabaseLock&) = delete;
  // An objection names the other server's process and the remedy. Tries for patience_ms: a command that
  // probes holds the lock for a moment.
  Objection take(const std::string& database_path, uint32_t patience_ms = 0);
  // After take() and after the database was opened, which may have made it. An objection: it is served under
  // another name, or another file has taken its place meanwhile.
  Objection hold_file(uint32_t patience_ms = 0);
  // After take(): the run that this server serves.
  Objection name_run(uint32_t run);
  // Whether what take(), hold_file() or name_run() told last may mend by itself (host/file_cause.h).
  bool is_failure_temporary() const { return is_failure_temporary_; }
  // Which server holds it. An objection when that cannot be known. Leaves nothing held.
  static Objection probe(const std::string& database_path, DatabaseOwner* out);
  // Before a connection to the database. Objects where a server serves the file and calls it by another
  // name, or where the file that a server serves by this name is gone or has been replaced.
  static Objection check_name(const std::string& database_path);

 private:
  Objection write_owner(uint32_t run);
  Objection fail(const std::string& what, int cause, const char* remedy);

  int owner_file_ = -1;  // <path>.lock
  int file_ = -1;        // the database; -1: it was not there
  std::string database_path_;
  std::string path_;  // of owner_file_
  bool is_failure_temporary_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_STORE_DATABASE_LOCK_H_
