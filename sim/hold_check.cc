#include "sim/hold_check.h"

#include <algorithm>

#include "runtime/base/config.h"
#include "server/coordinator/fleet.h"

namespace gradstream {
namespace {

// Sessions that every check looks at, and how many one costs where there are more. Reason: there is a check for each
// event, and a look at all sessions of a large fleet would be quadratic.
constexpr size_t kAlwaysMax = 64;
constexpr size_t kSessionsACall = 4;

std::string of(uint32_t device) { return " (device " + std::to_string(device) + ")"; }

bool has_base(const DeviceMessage& message) {
  return message.which_body == gs_DeviceMessage_update_scalars_tag ? message.body.update_scalars.base_digest != 0
                                                                   : message.body.update_tangent.base_digest != 0;
}

}  // namespace

HoldCheck::HoldCheck(uint32_t limit_ms, uint32_t arrival_rate, uint32_t device_count)
    : limit_ms_(limit_ms), pace_ms_(arrival_rate == 0 ? 0 : uint64_t{device_count} * 1000 / arrival_rate + 1) {}

void HoldCheck::ask(Session& session, uint64_t now_ms) {
  ++session.owed;
  session.due_ms = now_ms + std::min(session.hold_max_ms, limit_ms_);
}

void HoldCheck::on_message(uint64_t session, uint32_t device, const DeviceMessage& message, const Coordinator& server,
                           uint64_t now_ms) {
  Session& known = sessions_[session];
  known.device = device;
  if (message.which_body != gs_DeviceMessage_status_report_tag && server.is_held(session)) {
    --known.owed;  // it gives its Pull up
  }
  switch (message.which_body) {
    case gs_DeviceMessage_pull_tag:
      known.hold_max_ms = message.body.pull.hold_max_ms;
      ask(known, now_ms);
      break;
    case gs_DeviceMessage_task_refused_tag:
      ask(known, now_ms);
      break;
    case gs_DeviceMessage_update_scalars_tag:
    case gs_DeviceMessage_update_tangent_tag:
      known.has_base = has_base(message);
      break;
    default:
      break;
  }
}

std::string HoldCheck::on_sent(uint64_t session, const ServerMessage& message, uint64_t now_ms) {
  Session& known = sessions_[session];
  switch (message.which_body) {
    case gs_ServerMessage_ack_tag:
      if (message.body.ack.hold && known.has_base) {
        ask(known, now_ms);
      }
      return "";
    case gs_ServerMessage_task_tag:
    case gs_ServerMessage_wait_tag:
      return known.owed-- > 0 ? "" : "a Pull was answered twice" + of(known.device);
    default:
      return "";
  }
}

// With many sessions so seldom that a call costs kSessionsACall of them.
bool HoldCheck::is_look_due() {
  const size_t period = sessions_.size() <= kAlwaysMax ? 1 : sessions_.size() / kSessionsACall;
  const bool is_due = ++checks_since_look_ >= period;
  checks_since_look_ = is_due ? 0 : checks_since_look_;
  return is_due;
}

std::string HoldCheck::check(const Coordinator& server, uint64_t now_ms) {
  if (!is_look_due()) {
    return "";
  }
  for (auto& [session, known] : sessions_) {
    const bool is_held = server.is_held(session);
    hold_count_ += is_held && !known.was_held ? 1 : 0;
    known.was_held = is_held;
    if (is_held && now_ms > known.due_ms) {
      return "a Pull is held beyond its deadline" + of(known.device);
    }
    if (!is_held && known.owed > 0 && now_ms > known.due_ms + kAnswerDeadlineMs) {
      return "a Pull is never answered" + of(known.device);
    }
  }
  return "";
}

// Stages before training bar devices, whom nobody wakes.
std::string HoldCheck::check_woken(const Coordinator& server, const std::function<bool(uint32_t)>& must_wait,
                                   uint64_t now_ms) {
  if (server.round_progress().held == 0 || server.durable_version() != server.model().version() ||
      server.stage() != TaskStage::kTrain) {
    return "";
  }
  const Fleet& fleet = server.fleet();
  for (auto& [session, known] : sessions_) {
    const FleetDevice& device = fleet.at(known.device);
    const bool is_free = server.is_held(session) && fleet.is_asked(known.device) && device.session.is_capable &&
                         device.row.answered_version != server.model().version() && !must_wait(known.device);
    known.free_ms = !is_free ? 0 : known.free_ms == 0 ? now_ms : known.free_ms;
    if (is_free && now_ms >= known.free_ms + pace_ms_) {
      return "a device is held although there is a task for it" + of(known.device);
    }
  }
  return "";
}

}  // namespace gradstream
