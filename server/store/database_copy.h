// Copies of a database that may be at work.
#ifndef GRADSTREAM_SERVER_STORE_DATABASE_COPY_H_
#define GRADSTREAM_SERVER_STORE_DATABASE_COPY_H_

#include <string>

#include "server/journal/store.h"

namespace gradstream {

// The remedy where a copy is no database, or damaged.
inline constexpr const char* kUseAnotherCopy = "use another copy, one that `gradstream backup` wrote";

// Copies a database, also one that a server writes to, as it is at one moment. `to` is a new file of mode 0600, durable
// on return. kCorrupt: `from` is no database, or damaged; anything else but kOk: a file cannot be read or written.
// *error is then a sentence, and there is no new file.
// *is_temporary: the failure may mend by itself (host/file_cause.h), as a full disk does; may be null.
StoreStatus copy_database(const std::string& from, const std::string& to, std::string* error,
                          bool* is_temporary = nullptr);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_STORE_DATABASE_COPY_H_
