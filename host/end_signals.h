// SIGTERM, SIGINT, SIGHUP and SIGPIPE of a process, also of process 1 of a container, to which the kernel gives no
// default action.
//
//   SIGTERM, SIGINT -> end_signal(), signal_file() -> the program ends itself, or grace_ms pass -> exit status 0
//
// The handlers stay to the very end of the process: a signal that comes late changes nothing.
#ifndef GRADSTREAM_HOST_END_SIGNALS_H_
#define GRADSTREAM_HOST_END_SIGNALS_H_

#include <cstdint>

namespace gradstream {

struct SignalPlan {
  bool wants_hangup = false;  // else SIGHUP is ignored
  // From the first SIGTERM or SIGINT on. Then the process ends where it stands, with exit status 0.
  uint32_t grace_ms = 500;
  const char* last_line = "";  // what it then writes to standard error; ends with a newline
};

// Once in a process, before its first thread. false, with errno: the system has no descriptor or timer left.
[[nodiscard]] bool catch_signals(const SignalPlan& plan);

// SIGTERM or SIGINT, whichever was first; 0: none has come.
int end_signal();
// "SIGTERM", "SIGINT" or "".
const char* end_signal_name();
// Whether SIGHUP has come since the last call.
bool take_hangup();

// For poll(): readable from a signal on until clear_signal_file(). -1 before catch_signals().
int signal_file();
// Call it before end_signal() and take_hangup(), so that no signal is overlooked.
void clear_signal_file();

// From here on the program ends itself, however long that takes.
void take_over_end();

}  // namespace gradstream

#endif  // GRADSTREAM_HOST_END_SIGNALS_H_
