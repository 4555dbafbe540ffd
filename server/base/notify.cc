#include "server/base/notify.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace gradstream {

void notify_manager(const char* state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address = {};
  const size_t size = path == nullptr ? 0 : std::strlen(path);
  if (size == 0 || size >= sizeof address.sun_path) {
    return;
  }
  address.sun_family = AF_UNIX;
  std::copy(path, path + size, address.sun_path);
  if (path[0] == '@') {
    address.sun_path[0] = '\0';  // an abstract name
  }
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket >= 0) {
    (void)::sendto(socket, state, std::strlen(state), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size));
    ::close(socket);
  }
}

}  // namespace gradstream
