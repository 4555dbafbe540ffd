#include "host/end_signals.h"

#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

namespace gradstream {
namespace {

bool is_readable(int file) {
  pollfd wait = {file, POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

void exit_by(bool is_well) { std::_Exit(is_well ? 7 : 8); }

TEST(EndSignals, TellWhichSignalCame) {
  EXPECT_EXIT(
      {
        SignalPlan plan;
        plan.wants_hangup = true;
        plan.grace_ms = 60000;
        bool is_well = catch_signals(plan) && end_signal() == 0 && !take_hangup() && !is_readable(signal_file());
        ::raise(SIGPIPE);
        is_well = is_well && !is_readable(signal_file());
        ::raise(SIGHUP);
        is_well = is_well && is_readable(signal_file()) && end_signal() == 0;
        clear_signal_file();
        is_well = is_well && !is_readable(signal_file()) && take_hangup() && !take_hangup();
        ::raise(SIGINT);
        ::raise(SIGTERM);
        exit_by(is_well && end_signal() == SIGINT && is_readable(signal_file()));
      },
      testing::ExitedWithCode(7), "");
}

TEST(EndSignals, IgnoreTheHangupThatNobodyWants) {
  EXPECT_EXIT(
      {
        const bool is_well = catch_signals({});
        ::raise(SIGHUP);
        exit_by(is_well && !take_hangup() && !is_readable(signal_file()));
      },
      testing::ExitedWithCode(7), "");
}

// Whoever starts the process may have blocked them.
TEST(EndSignals, AreCaughtThoughBlockedBefore) {
  EXPECT_EXIT(
      {
        sigset_t all;
        ::sigfillset(&all);
        ::sigprocmask(SIG_BLOCK, &all, nullptr);
        const bool is_well = catch_signals({});
        ::raise(SIGTERM);
        exit_by(is_well && end_signal() == SIGTERM);
      },
      testing::ExitedWithCode(7), "");
}

[[noreturn]] void stand_still() {
  for (;;) {
    ::pause();
  }
}

TEST(EndSignals, EndAProcessThatStandsStill) {
  SignalPlan plan;
  plan.grace_ms = 1;
  plan.last_line = "the last words\n";
  EXPECT_EXIT(
      {
        static_cast<void>(catch_signals(plan));
        ::raise(SIGTERM);
        stand_still();
      },
      testing::ExitedWithCode(0), "^the last words\n$");
}

TEST(EndSignals, LeaveTheEndToTheProgramThatTakesItOver) {
  SignalPlan plan;
  plan.grace_ms = 1;
  EXPECT_EXIT(
      {
        static_cast<void>(catch_signals(plan));
        ::raise(SIGALRM);  // somebody else's
        take_over_end();
        ::raise(SIGTERM);
        ::raise(SIGALRM);  // as if the timer had been on its way
        exit_by(end_signal() == SIGTERM);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace gradstream
