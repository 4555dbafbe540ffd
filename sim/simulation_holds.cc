// What the simulator does to devices whose Pulls are held, and what it sees of them.
#include <algorithm>
#include <utility>

#include "sim/simulation.h"

namespace gradstream {
namespace {

// How much longer a slow commit takes. Reason: a device that the version waits for trains and answers meanwhile.
constexpr uint64_t kSlowCommitMinMs = 20;
constexpr uint64_t kSlowCommitMaxMs = 300;
// The hold that a repeated Pull asks for. Reason: another one than the client's, so that the server has to follow it.
constexpr uint32_t kRepeatedHoldMs = 10'000;

bool has_record(const std::vector<JournalRecord>& records, RecordKind kind) {
  return std::any_of(records.begin(), records.end(), [kind](const JournalRecord& each) { return each.kind() == kind; });
}

}  // namespace

bool Simulation::is_held(const SimDevice& device) const {
  return server_ != nullptr && device.is_alive() && device.session != 0 && server_->is_held(device.session);
}

// To the first device from `first` on that is held. Whether there was something to do it to.
bool Simulation::inject_into_held(Fault fault, uint32_t first) {
  if (fault == Fault::kDrain) {
    return drain_server();
  }
  const auto count = static_cast<uint32_t>(devices_.size());
  uint32_t index = first;
  for (uint32_t i = 0; i < count && !is_held(*devices_[index]); ++i) {
    index = (index + 1) % count;
  }
  SimDevice& device = *devices_[index];
  if (!is_held(device)) {
    return false;
  }
  if (fault == Fault::kHeldCut) {
    return drop_link(device.session);
  }
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_pull_tag;
  gs_Pull& pull = message.body.pull;
  pull.has_model = device.client().replica().has_model();
  pull.version = pull.has_model ? device.client().replica().version() : 0;
  pull.digest = pull.has_model ? device.client().digest() : 0;
  pull.hold_max_ms = kRepeatedHoldMs;
  std::vector<uint8_t> frame(kFrameSizeMax);
  frame.resize(encode_frame(message, frame.data()).value());
  device.last_up_ms = std::max(device.last_up_ms, now_ms_ + network_.latency_ms());
  push(device.last_up_ms, SimEventKind::kFrameUp, index, device.session, std::move(frame));
  return true;
}

// As by SIGTERM: everybody is answered, and the process ends.
bool Simulation::drain_server() {
  if (server_ == nullptr) {
    return false;
  }
  server_->drain(now_ms_);
  const bool is_over = server_->round_progress().held == 0;
  broken(is_over ? "" : "a server that goes away holds a Pull");
  take_server_actions();
  if (server_ != nullptr) {
    crash_server();
  }
  return true;
}

// The commit comes later, so that more records are in it. It is counted where an update and the version that it closed
// become durable at once, and the Ack leaves with what answers the next Pull.
bool Simulation::slow_commit() {
  if (!options_.holds_pulls || is_commit_slow_ || !faults_.may(Fault::kSlowCommit, kSlowCommitOdds)) {
    return false;
  }
  is_commit_slow_ = true;
  push(now_ms_ + dice_.between(kSlowCommitMinMs, kSlowCommitMaxMs), SimEventKind::kCommit, 0, 0);
  return true;
}

void Simulation::note_commit() {
  if (std::exchange(is_commit_slow_, false) && has_record(pending_, RecordKind::kUpdate) &&
      has_record(pending_, RecordKind::kVersion)) {
    faults_.count(Fault::kSlowCommit);
  }
}

}  // namespace gradstream
