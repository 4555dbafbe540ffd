// A word to a service manager that watches the process (sd_notify(3): systemd's Type=notify, WatchdogSec).
#ifndef GRADSTREAM_BOARDS_POSIX_NOTIFY_H_
#define GRADSTREAM_BOARDS_POSIX_NOTIFY_H_

namespace gradstream {

// "Ready, and alive", to the socket that NOTIFY_SOCKET names; nothing without one. At most once in 10 s is sent, so
// that it may be called in every turn of a loop. What cannot be sent is not reported: the manager then restarts the
// process.
void posix_notify_alive();

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_POSIX_NOTIFY_H_
