// The operator of a simulated fleet, who pauses the run and lets it go on.
#include "sim/simulation.h"

namespace gradstream {
namespace {

// How long the pause of an operator lasts. Reason: shorter and longer than report_deadline_ms with stragglers; devices
// ask all the time, and longer pauses would be most of a schedule.
constexpr uint64_t kPauseMinMs = 50;
constexpr uint64_t kPauseMaxMs = 800;

}  // namespace

// False: there is nothing to pause.
bool Simulation::pause() {
  if (server_ == nullptr || is_disk_full_ || is_pause_wanted_ ||
      server_->run_state() == gs_RunState_RUN_STATE_FINISHED) {
    return false;
  }
  is_pause_wanted_ = true;
  follow_operator();
  push(now_ms_ + dice_.between(kPauseMinMs, kPauseMaxMs), SimEventKind::kResume, 0, 0);
  return true;
}

void Simulation::resume() {
  if (is_disk_full_) {
    push(now_ms_ + kPauseMinMs, SimEventKind::kResume, 0, 0);
    return;
  }
  is_pause_wanted_ = false;
  follow_operator();
}

// The wish stands in the database, the deed in the journal: a server that comes back after a crash follows the wish.
void Simulation::follow_operator() {
  if (server_ == nullptr) {
    return;
  }
  if (is_pause_wanted_) {
    server_->pause(now_ms_);
  } else {
    server_->resume(now_ms_);
  }
  take_server_actions();
}

}  // namespace gradstream
