// One outgoing TCP connection, made without blocking: the addresses of a name are tried one after the other.
#ifndef GRADSTREAM_BOARDS_POSIX_DIAL_H_
#define GRADSTREAM_BOARDS_POSIX_DIAL_H_

#include <cstddef>

#include "runtime/base/status.h"

namespace gradstream {

struct Dial {
  int socket = -1;
  bool connecting = false;
  size_t next_address = 0;  // where the next attempt starts; 0 also behind the last one
};

// kOk: connected. kWouldBlock: on its way; call again when the socket can be written. kInvalidArgument: the name has no
// address, or cannot be looked up now. kDeadlineExceeded, kClosed: the last address did not answer, or refused; the
// next call starts with the first one. The name is looked up before each address, so that a server that moved is found.
Status dial(Dial* link, const char* host, const char* port);

// An attempt under way is given up; the next call of dial() goes on with the address after it.
void hang_up(Dial* link);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_POSIX_DIAL_H_
