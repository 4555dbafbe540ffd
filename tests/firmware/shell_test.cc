#include "firmware/shell.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

using enum ShellCommand;

// What the bytes come to, without kNone.
std::vector<ShellCommand> type(Shell& shell, const std::string& bytes) {
  std::vector<ShellCommand> commands;
  for (const char byte : bytes) {
    if (const ShellCommand command = shell.feed(static_cast<uint8_t>(byte)); command != kNone) {
      commands.push_back(command);
    }
  }
  return commands;
}

std::vector<ShellCommand> type(const std::string& bytes) {
  Shell shell;
  return type(shell, bytes);
}

using Commands = std::vector<ShellCommand>;

TEST(Shell, KnowsItsCommands) {
  EXPECT_EQ(type("status\r"), Commands{kStatus});
  EXPECT_EQ(type("test\n"), Commands{kTest});
  EXPECT_EQ(type("help\r\n"), Commands{kHelp});
  EXPECT_EQ(type("status\r\ntest\r\n\r\n"), (Commands{kStatus, kTest}));
  EXPECT_EQ(type("  status  \n"), Commands{kStatus});
}

TEST(Shell, NamesWhatItDoesNotKnow) {
  EXPECT_EQ(type("Status\n"), Commands{kUnknown});
  EXPECT_EQ(type("statu\nstatuss\nreset\n"), (Commands{kUnknown, kUnknown, kUnknown}));
  EXPECT_EQ(type("yes\n"), Commands{kUnknown});
  EXPECT_EQ(type("reset  identity\n"), Commands{kUnknown});
}

TEST(Shell, DoesNothingBeforeTheLineEnds) {
  EXPECT_EQ(type("status"), Commands{});
  EXPECT_EQ(type("\n\r\n   \r"), Commands{});
}

TEST(Shell, EditsTheLine) {
  EXPECT_EQ(type("stax\btus\n"), Commands{kStatus});
  EXPECT_EQ(type("\b\b\x7ftest\n"), Commands{kTest});
  EXPECT_EQ(type(std::string("he\0l\x1bp\n", 7)), Commands{kHelp});
  EXPECT_EQ(type("\xff\xfe\n"), Commands{kUnknown});
}

TEST(Shell, RefusesALongLineWhole) {
  const std::string longest(Shell::kLineSizeMax, 'x');
  EXPECT_EQ(type(longest + "\n"), Commands{kUnknown});
  EXPECT_EQ(type(longest + "y\n"), Commands{kTooLong});
  EXPECT_EQ(type(std::string(100000, 'x') + "\nstatus\n"), (Commands{kTooLong, kStatus}));
  // A command behind so many bytes, or one that a backspace would make of them, is none.
  EXPECT_EQ(type(std::string(Shell::kLineSizeMax + 1, 's') + std::string(Shell::kLineSizeMax, '\b') + "tatus\n"),
            Commands{kTooLong});
}

TEST(Shell, ResetsTheIdentityAfterAYesOnly) {
  EXPECT_EQ(type("reset identity\nyes\n"), (Commands{kAskReset, kResetIdentity}));
  EXPECT_EQ(type("reset identity\r\n\r\nyes\r\n"), (Commands{kAskReset, kResetIdentity}));
  EXPECT_EQ(type("reset identity\nno\nyes\n"), (Commands{kAskReset, kKeep, kUnknown}));
  EXPECT_EQ(type("reset identity\nstatus\nstatus\n"), (Commands{kAskReset, kKeep, kStatus}));
  EXPECT_EQ(type("reset identity\nreset identity\nyes\n"), (Commands{kAskReset, kKeep, kUnknown}));
  EXPECT_EQ(type("reset identity\nyes" + std::string(100, ' ') + "\n"), (Commands{kAskReset, kKeep}));
}

}  // namespace
}  // namespace gradstream
