// What an operator types on a board's console, byte by byte, into commands. Pure: no board, no clock; the console
// (firmware/console.h) answers.
//
//   status | test | help        the command
//   reset identity              kAskReset; then `yes` is kResetIdentity, any other line kKeep
//
// A line ends with CR, LF or both; an empty one is nothing. Backspace works, other control characters are ignored.
// Nothing is echoed, so that what is typed does not stand amid the log's lines: the terminal shows it.
#ifndef GRADSTREAM_FIRMWARE_SHELL_H_
#define GRADSTREAM_FIRMWARE_SHELL_H_

#include <cstddef>
#include <cstdint>

namespace gradstream {

enum class ShellCommand : uint8_t {
  kNone,  // no line is complete
  kStatus,
  kTest,
  kHelp,
  kAskReset,
  kResetIdentity,
  kKeep,
  kUnknown,
  kTooLong,
};

class Shell {
 public:
  // Characters of a line, blanks at its begin not counted. Reason: twice the longest command.
  static constexpr size_t kLineSizeMax = 31;

  // Takes one byte. Anything but kNone: it ended a line.
  ShellCommand feed(uint8_t byte);
  // After kUnknown: the line, without blanks around it. Until the next feed().
  const char* line() const { return line_; }

 private:
  ShellCommand end_line();

  char line_[kLineSizeMax + 1] = {};
  uint8_t size_ = 0;
  bool is_too_long_ = false;
  bool is_asked_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_SHELL_H_
