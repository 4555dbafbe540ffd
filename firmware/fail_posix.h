// How a Linux process says why it ends: a line of the log, and an exit status of ExitCode.
#ifndef GRADSTREAM_FIRMWARE_FAIL_POSIX_H_
#define GRADSTREAM_FIRMWARE_FAIL_POSIX_H_

#include <string>

namespace gradstream {

// Logs event=failed. Returns code.
int fail(int code, const std::string& reason);
// Of a path that cannot be used for this cause (errno). code: the exit status if the cause does not mend by itself,
// else it is kExitTemporary. The sentence is "cannot WHAT PATH: CAUSE; REMEDY".
int fail_path(int code, int cause, const std::string& path, const std::string& what, const std::string& remedy);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_FAIL_POSIX_H_
