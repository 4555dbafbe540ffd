// A word to a service manager that watches the process (sd_notify(3): systemd's Type=notify, WatchdogSec).
#ifndef GRADSTREAM_SERVER_BASE_NOTIFY_H_
#define GRADSTREAM_SERVER_BASE_NOTIFY_H_

namespace gradstream {

// Sends "READY=1", "WATCHDOG=1", "STOPPING=1", ... to the socket that NOTIFY_SOCKET names; nothing without one. What
// cannot be sent is not reported: the manager then restarts the process.
void notify_manager(const char* state);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_NOTIFY_H_
