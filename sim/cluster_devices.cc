// The devices of a simulated cluster, and the way between them and the nodes.
#include <algorithm>

#include "sim/cluster.h"
#include "sim/sim_network.h"

namespace gradstream {
namespace {

constexpr uint64_t kNoEnd = UINT64_MAX;
// Odds of a fault of each frame of an update that its device's other node may judge.
constexpr uint32_t kUploadFaultOdds = 12;
// A node has the session of a device that is gone for so long at most, ms. Reason: beyond an answer deadline and a
// back-off, so that the device is served elsewhere meanwhile.
constexpr uint64_t kLeftSessionMostMs = 20'000;
// What a device sent before it dialled again comes so much later, ms, at most.
constexpr uint64_t kLeftFrameMostMs = 3000;

}  // namespace

uint64_t Cluster::latency_ms() {
  const uint64_t usual_ms = dice_.between(1, 10);
  if (!may(ClusterFault::kDelay, kFrameOdds)) {
    return usual_ms;
  }
  count(ClusterFault::kDelay);
  return usual_ms * 100;
}

void Cluster::schedule_poll(SimDevice& device, uint64_t at_ms) {
  if (device.wants_poll(at_ms)) {
    push(at_ms, Kind::kPoll, device.index(), 0);
  }
}

void Cluster::poll(uint32_t index) {
  SimDevice& device = *devices_[index];
  const bool was_training = device.client().state() == ClientState::kTrain;
  const ClientAction action = device.client().poll(now_ms_);
  do_client_action(index, action, was_training ? device.step_ms : 0);
}

void Cluster::do_client_action(uint32_t index, const ClientAction& action, uint64_t cost_ms) {
  SimDevice& device = *devices_[index];
  uint64_t next_ms = now_ms_ + cost_ms;
  switch (action.kind) {
    case ClientActionKind::kWait:
      if (action.wake_ms == kNoEnd) {
        broken("a device waits without a deadline");
      }
      next_ms = std::max(next_ms, action.wake_ms);
      break;
    case ClientActionKind::kConnect: {
      device.session = next_session_++;
      device.reader().reset();
      const size_t node = dice_.between(0, nodes_.size() - 1);
      if (nodes_[node].front == nullptr) {
        push(now_ms_ + latency_ms(), Kind::kConnectFailed, index, device.session);
        break;
      }
      Link& link = links_[device.session];
      link.device = index;
      link.node = node;
      link.last_up_ms = link.last_down_ms = now_ms_ + latency_ms();
      push(link.last_down_ms, Kind::kConnected, index, device.session);
      break;
    }
    case ClientActionKind::kSend:
      send_up(index, action.bytes);
      break;
    case ClientActionKind::kDisconnect:
      if (const auto link = links_.find(device.session); link != links_.end()) {
        push(std::max(link->second.last_up_ms, now_ms_ + 1), Kind::kCloseUp, index, device.session);
      }
      device.session = 0;
      break;
    case ClientActionKind::kSave:
      device.save(action);
      device.client().on_saved(Status::kOk, now_ms_);
      break;
    case ClientActionKind::kSaveStep:
      device.save_step(action);
      break;
  }
  schedule_poll(device, next_ms);
}

void Cluster::send_up(uint32_t index, std::span<const uint8_t> bytes) {
  SimDevice& device = *devices_[index];
  const uint64_t session = device.session;
  const bool is_upload = device.client().state() == ClientState::kUpload;
  const std::vector<uint8_t> frame(bytes.begin(), bytes.end());
  device.client().on_sent(now_ms_);
  const auto link = links_.find(session);
  if (link == links_.end()) {
    return;  // the node has ended it, and the device does not know yet
  }
  uint64_t& last_ms = link->second.last_up_ms;
  last_ms = std::max(last_ms, now_ms_ + latency_ms());
  const bool is_left = is_upload && may(ClusterFault::kTwoNodes, kUploadFaultOdds);
  if (is_left) {
    last_ms += dice_.between(1, kLeftFrameMostMs);
  }
  push(last_ms, Kind::kFrameUp, index, session, frame);
  if (is_upload && may(ClusterFault::kDuplicate, kUploadFaultOdds)) {
    count(ClusterFault::kDuplicate);
    push(last_ms, Kind::kFrameUp, index, session, frame);
  }
  if (is_left) {
    count(ClusterFault::kTwoNodes);
    close_device_end(index, last_ms + dice_.between(1, kLeftSessionMostMs));
  }
}

// The device's end closes; the node learns it at that time.
void Cluster::close_device_end(uint32_t index, uint64_t node_learns_ms) {
  const uint64_t session = devices_[index]->session;
  push(now_ms_, Kind::kCloseDown, index, session);
  if (links_.contains(session)) {
    push(node_learns_ms, Kind::kCloseUp, index, session);
  }
}

void Cluster::crash_device(uint32_t index) {
  SimDevice& device = *devices_[index];
  device.crash();
  if (links_.contains(device.session)) {
    push(now_ms_ + latency_ms(), Kind::kCloseUp, index, device.session);
  }
  device.session = 0;
  push(now_ms_ + dice_.between(1, 2000), Kind::kDeviceBoot, index, 0);
}

}  // namespace gradstream
