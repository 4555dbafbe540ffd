// What a Linux process tells its port before it starts: where the server is and where state is kept.
#ifndef GRADSTREAM_BOARDS_POSIX_POSIX_H_
#define GRADSTREAM_BOARDS_POSIX_POSIX_H_

#include "runtime/base/status.h"

namespace gradstream {

// Both strings must outlive the process's use of the port; they are looked up at each connection.
void posix_set_server(const char* host, const char* port);

// Whether each log line begins with the time in UTC, such as 2026-11-25T15:07:20.123Z. At first: no.
void posix_set_log_time(bool is_on);
// Whether standard error goes to journald, which notes the time of each line itself: JOURNAL_STREAM is set, and no
// terminal or file has taken its place since.
bool posix_is_journald();

// The file that holds the state; null: none is kept. The folder must exist. kInvalidArgument: the path is too long.
Status posix_set_state_file(const char* path);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_POSIX_POSIX_H_
