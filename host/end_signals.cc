#include "host/end_signals.h"

#include <atomic>
#include <cerrno>
#include <csignal>

#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "host/log_file.h"

namespace gradstream {
namespace {

// What the handlers read and write.
std::atomic<int> first_end_signal = 0;
std::atomic<bool> has_hung_up = false;
std::atomic<bool> is_end_taken_over = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
int wake_file = -1;
timer_t grace_timer = {};
SignalPlan signal_plan;

void begin_grace() {
  itimerspec grace = {};
  grace.it_value.tv_sec = static_cast<time_t>(signal_plan.grace_ms / 1000);
  grace.it_value.tv_nsec = static_cast<long>(signal_plan.grace_ms % 1000) * 1000000;
  (void)::timer_settime(grace_timer, 0, &grace, nullptr);
}

void on_signal(int signal) {
  const int kept = errno;
  if (signal == SIGHUP) {
    has_hung_up = true;
  } else {
    int none = 0;
    if (first_end_signal.compare_exchange_strong(none, signal) && !is_end_taken_over) {
      begin_grace();
    }
  }
  const uint64_t one = 1;
  const ssize_t ignored = ::write(wake_file, &one, sizeof one);
  static_cast<void>(ignored);
  errno = kept;
}

void on_grace_over(int) {
  if (first_end_signal != 0 && !is_end_taken_over) {
    write_last_line(signal_plan.last_line);
    ::_exit(0);
  }
}

void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // a write to a disk is not cut short
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

bool catch_signals(const SignalPlan& plan) {
  signal_plan = plan;
  sigevent alarm = {};
  alarm.sigev_notify = SIGEV_SIGNAL;
  alarm.sigev_signo = SIGALRM;
  wake_file = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_file >= 0 && ::timer_create(CLOCK_MONOTONIC, &alarm, &grace_timer) != 0) {
    const int cause = errno;
    ::close(wake_file);
    wake_file = -1;
    errno = cause;
  }
  if (wake_file < 0) {
    return false;
  }
  set_handler(SIGPIPE, SIG_IGN);
  set_handler(SIGALRM, on_grace_over);
  set_handler(SIGTERM, on_signal);
  set_handler(SIGINT, on_signal);
  set_handler(SIGHUP, plan.wants_hangup ? on_signal : SIG_IGN);
  // Whoever started the process may have blocked them.
  sigset_t caught;
  ::sigemptyset(&caught);
  for (const int signal : {SIGALRM, SIGTERM, SIGINT, SIGHUP}) {
    ::sigaddset(&caught, signal);
  }
  ::sigprocmask(SIG_UNBLOCK, &caught, nullptr);
  return true;
}

int end_signal() { return first_end_signal; }

const char* end_signal_name() {
  const int signal = end_signal();
  return signal == SIGTERM ? "SIGTERM" : signal == SIGINT ? "SIGINT" : "";
}

bool take_hangup() { return has_hung_up.exchange(false); }

int signal_file() { return wake_file; }

void clear_signal_file() {
  uint64_t count = 0;
  const ssize_t ignored = ::read(wake_file, &count, sizeof count);
  static_cast<void>(ignored);
}

void take_over_end() { is_end_taken_over = true; }

}  // namespace gradstream
