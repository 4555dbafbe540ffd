// How every part of the server names a device's session.
#ifndef GRADSTREAM_SERVER_BASE_SESSION_ID_H_
#define GRADSTREAM_SERVER_BASE_SESSION_ID_H_

#include <cstdint>

namespace gradstream {

using SessionId = uint64_t;  // given by the shell, never reused; 0: none

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_SESSION_ID_H_
