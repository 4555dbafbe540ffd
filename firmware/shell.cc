#include "firmware/shell.h"

namespace gradstream {
namespace {

constexpr uint8_t kBackspace = 0x08, kDelete = 0x7F;

// libc's strcmp is made for speed: 700 bytes on a Cortex-M.
bool is_equal(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) {
    ++a;
    ++b;
  }
  return *a == *b;
}

constexpr struct {
  const char* name;
  ShellCommand command;
} kCommands[] = {{"status", ShellCommand::kStatus},
                 {"test", ShellCommand::kTest},
                 {"help", ShellCommand::kHelp},
                 {"reset identity", ShellCommand::kAskReset}};

ShellCommand find(const char* line) {
  for (const auto& known : kCommands) {
    if (is_equal(line, known.name)) {
      return known.command;
    }
  }
  return ShellCommand::kUnknown;
}

}  // namespace

ShellCommand Shell::feed(uint8_t byte) {
  if (byte == '\r' || byte == '\n') {
    return end_line();
  }
  if (byte == kBackspace || byte == kDelete) {
    if (size_ > 0) {
      --size_;
    }
  } else if (byte < ' ' || (byte == ' ' && size_ == 0)) {
    return ShellCommand::kNone;
  } else if (size_ == kLineSizeMax) {
    is_too_long_ = true;
  } else {
    line_[size_++] = static_cast<char>(byte);
  }
  return ShellCommand::kNone;
}

ShellCommand Shell::end_line() {
  while (size_ > 0 && line_[size_ - 1] == ' ') {
    --size_;
  }
  const bool is_empty = size_ == 0, is_too_long = is_too_long_;
  line_[size_] = '\0';
  size_ = 0;
  is_too_long_ = false;
  if (is_empty && !is_too_long) {
    return ShellCommand::kNone;
  }
  if (is_asked_) {
    is_asked_ = false;
    return !is_too_long && is_equal(line_, "yes") ? ShellCommand::kResetIdentity : ShellCommand::kKeep;
  }
  if (is_too_long) {
    return ShellCommand::kTooLong;
  }
  const ShellCommand command = find(line_);
  is_asked_ = command == ShellCommand::kAskReset;
  return command;
}

}  // namespace gradstream
