// Tells damage in a write-ahead log from a torn tail.
//
// SQLite takes the first frame that does not fit its checksum for the end of the log. That is right after a power cut,
// which tears the last transaction. It is wrong after a flipped bit, which takes back every later transaction.
// Each commit waits for the disk. So a transaction begins only when the ones before it are durable, and a bad frame is
// damage if a frame of a later transaction follows.
//
// What it cannot tell: damage in the very last transaction looks like a tear.
#ifndef GRADSTREAM_SERVER_STORE_WAL_CHECK_H_
#define GRADSTREAM_SERVER_STORE_WAL_CHECK_H_

#include <string>

#include "server/base/objection.h"

namespace gradstream {

// Of DATABASE-wal, before SQLite opens the database, and while no server has it open. No objection: there is no log, or
// SQLite will read all of it that was durable. Else a clause: what is damaged, and where. Damage counts when two
// readings find the same: another program may just be writing.
// Format: https://www.sqlite.org/fileformat2.html#walformat
Objection find_wal_damage(const std::string& database);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_STORE_WAL_CHECK_H_
