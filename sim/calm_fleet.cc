#include "sim/calm_fleet.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

namespace gradstream {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kRun = 1;
// Arena of a device: so many tensors of the model's shape, and room for batches and small solver state. Reason: the
// hungriest solver with its uploads stays below a dozen tensors; pages that nobody writes cost nothing.
constexpr size_t kTensorCount = 48;
constexpr size_t kArenaBaseSize = size_t{1} << 20;
// Polls of one device at one moment. Reason: the longest exchange is the pieces of one snapshot and one upload.
constexpr uint32_t kPollCountMax = 1'000'000;

constexpr std::array<const EstimatorOps*, 5> kEstimators = {&kAnalyticGradientOps, &kProjectionOneSidedOps,
                                                            &kProjectionTwoSidedOps, &kTangentRetractionOps,
                                                            &kProjectionTangentOps};
constexpr std::array<const SolverOps*, 4> kSolvers = {&kSolverProjectionOps, &kSolverGradientStreamOps,
                                                      &kSolverTangentMeanOps, &kSolverSvrgOps};

// What a log line of the coordinator says that a calm fleet must never hear.
const std::set<std::string>& fault_events() {
  static const std::set<std::string> events = {"update_refused", "task_refused",    "step_failed", "device_not_capable",
                                               "round_extended", "digest_mismatch", "run_stalled", "task_abandoned"};
  return events;
}

// Those of them that speak of one device only.
const std::set<std::string>& refusal_events() {
  static const std::set<std::string> events = {"update_refused", "task_refused", "device_not_capable"};
  return events;
}

}  // namespace

struct CalmFleet::Device {
  Device(uint32_t device_index, const Problem& device_problem, size_t arena_size)
      : index(device_index),
        problem(device_problem),
        memory(std::make_unique_for_overwrite<uint64_t[]>(arena_size / sizeof(uint64_t))),
        arena(memory.get(), arena_size),
        client(config(), arena) {}

  ClientConfig config() const {
    ClientConfig out;
    out.registry = {all_manifolds(), kEstimators, kSolvers, {&problem, 1}};
    out.firmware_version = "calm";
    out.jitter_seed = index;
    return out;
  }

  uint32_t index;
  Problem problem;
  std::unique_ptr<uint64_t[]> memory;
  Arena arena;
  Client client;
  FrameReader reader;         // of what comes down
  FrameReader server_reader;  // of what goes up
  uint64_t session = 0;       // 0: none
  uint64_t wake_ms = 0;
  std::vector<std::vector<uint8_t>> inbox;
};

CalmFleet::CalmFleet(const RunParameters& parameters, std::span<const Problem> problems, std::span<const Real> start)
    : parameters_(parameters) {
  parameters_.device_count = static_cast<uint32_t>(problems.size());
  parameters_.retry_min_ms = 1;
  parameters_.retry_max_ms = 1;
  const size_t arena_size =
      kArenaBaseSize + kTensorCount * (parameters_.shape.size() + parameters_.value_count()) * sizeof(Real);
  std::vector<std::string> names;
  for (uint32_t i = 0; i < problems.size(); ++i) {
    names.push_back("d" + std::to_string(i));
    devices_.push_back(std::make_unique<Device>(i, problems[i], arena_size));
  }
  server_ = std::make_unique<Coordinator>(kRun, parameters_, names);
  if (!start.empty()) {
    const Status status = server_->set_first_model(start);
    GS_ASSERT(status == Status::kOk);  // a finite point of the run's shape is the caller's
  }
}

CalmFleet::~CalmFleet() = default;

size_t CalmFleet::arena_high_water_size() const {
  size_t most = 0;
  for (const auto& device : devices_) {
    most = std::max(most, device->arena.high_water_size());
  }
  return most;
}

void CalmFleet::fail(const std::string& sentence) {
  fault_ = fault_.empty() ? sentence : fault_;
  is_over_ = true;
}

std::string CalmFleet::run(const Watcher& watch) {
  watch_ = watch;
  server_->start(now_ms_);
  take_server_actions();
  while (!is_over_) {
    bool has_acted = false;
    for (const auto& device : devices_) {
      while (!is_over_ && (device->wake_ms <= now_ms_ || !device->inbox.empty())) {
        poll(*device);
        has_acted = true;
      }
    }
    if (!has_acted && !is_over_) {
      now_ms_ = next_ms();
      if (server_->next_tick_ms() <= now_ms_) {
        server_->on_tick(now_ms_);
        take_server_actions();
      }
    }
  }
  look_for_faults();
  return fault_;
}

uint64_t CalmFleet::next_ms() const {
  uint64_t next = server_->next_tick_ms();
  for (const auto& device : devices_) {
    next = std::min(next, device->wake_ms);
  }
  GS_ASSERT(next != kNever);  // every state has a deadline
  return std::max(next, now_ms_ + 1);
}

// A deadline that fired would have cost a device its session, and the order of the fleet.
void CalmFleet::look_for_faults() {
  for (const auto& device : devices_) {
    const ClientCounters& counters = device->client.counters();
    if (counters.deadlines_missed + counters.malformed_frames + counters.connection_failures > 0) {
      fail("device " + std::to_string(device->index) + " lost a session");
    }
  }
}

// Until the device waits: for its next moment, or for a frame that is not there.
void CalmFleet::poll(Device& device) {
  for (uint32_t i = 0; i < kPollCountMax && !is_over_; ++i) {
    deliver(device);
    const ClientAction action = device.client.poll(now_ms_);
    switch (action.kind) {
      case ClientActionKind::kWait:
        device.wake_ms = action.wake_ms;
        if (action.wake_ms > now_ms_ && device.inbox.empty()) {
          return;
        }
        break;
      case ClientActionKind::kConnect:
        device.session = next_session_++;
        device.reader.reset();
        device.server_reader.reset();
        device.client.on_connected(now_ms_);
        break;
      case ClientActionKind::kSend:
        bytes_.up += action.bytes.size();
        on_frame_up(device, action.bytes);
        device.client.on_sent(now_ms_);
        break;
      case ClientActionKind::kDisconnect:
        server_->on_session_closed(std::exchange(device.session, 0), now_ms_);
        take_server_actions();
        break;
      case ClientActionKind::kSave:
        device.client.on_saved(Status::kOk, now_ms_);
        break;
      case ClientActionKind::kSaveStep:
        break;  // nothing is ever lost here
    }
  }
}

void CalmFleet::deliver(Device& device) {
  const std::vector<std::vector<uint8_t>> frames = std::exchange(device.inbox, {});
  for (const std::vector<uint8_t>& frame : frames) {
    device.reader.feed(frame);
    device.client.on_frame(device.reader.payload(), now_ms_);
    device.reader.pop();
  }
}

void CalmFleet::on_frame_up(Device& device, std::span<const uint8_t> frame) {
  device.server_reader.feed(frame);
  DeviceMessage message;
  if (!device.server_reader.has_frame() || decode_message(device.server_reader.payload(), &message) != Status::kOk) {
    fail("a frame of device " + std::to_string(device.index) + " does not decode");
    return;
  }
  device.server_reader.pop();
  server_->on_message(device.session, device.index, message, now_ms_);
  take_server_actions();
}

void CalmFleet::send_down(const Action& action) {
  const auto same = [&](const auto& device) { return device->session == action.session; };
  const auto found = std::find_if(devices_.begin(), devices_.end(), same);
  if (found == devices_.end()) {
    return;
  }
  std::array<uint8_t, kFrameSizeMax> frame = {};
  const Result<size_t> size = encode_frame(action.message, frame.data());
  GS_ASSERT(size.ok());  // what a coordinator says fits the wire
  bytes_.down += size.value();
  (*found)->inbox.emplace_back(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size.value()));
}

void CalmFleet::on_log(const Action& action) {
  if (tolerates_refusals_ && refusal_events().contains(action.event)) {
    refusal_ = refusal_.empty() ? action.event + " " + action.text : refusal_;
  } else if (fault_events().contains(action.event)) {
    fail(action.event + " " + action.text);
  }
}

void CalmFleet::take_server_actions() {
  for (std::vector<Action> actions = server_->take_actions(); !actions.empty(); actions = server_->take_actions()) {
    uint64_t persisted = 0;
    for (const Action& action : actions) {
      switch (action.kind) {
        case ActionKind::kSend:
          send_down(action);
          break;
        case ActionKind::kClose:
          fail("the server closed session " + std::to_string(action.session));
          break;
        case ActionKind::kPersist:
          persisted = action.record.sequence;
          break;
        case ActionKind::kPublish:
          is_over_ = is_over_ || !watch_(action.version, server_->model().model()) ||
                     action.version == parameters_.version_count();
          break;
        case ActionKind::kLog:
          on_log(action);
          break;
      }
    }
    if (persisted != 0) {
      server_->on_persisted(persisted, now_ms_);
    }
  }
}

}  // namespace gradstream
