// What signals ask of whoever serves: a server, or a node of a cluster.
#ifndef GRADSTREAM_SERVER_PROGRAM_SERVED_SHELL_H_
#define GRADSTREAM_SERVER_PROGRAM_SERVED_SHELL_H_

#include "server/base/objection.h"

namespace gradstream {

class ServedShell {
 public:
  virtual ~ServedShell() = default;
  // SIGTERM, SIGINT: Drain to every session; then its io_context stops.
  virtual void drain() = 0;
  // SIGHUP: looks at the devices now.
  virtual void reload() = 0;
  // SIGHUP too, before reload(): takes the certificates that the files hold now. After an objection nothing has
  // changed.
  virtual Objection reload_credentials() = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_SERVED_SHELL_H_
