// Pace steering, by its formula and by a fleet of real clients around the real coordinator, in virtual time.
#include "server/run/pace.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <queue>

#include <gtest/gtest.h>

#include "runtime/link/client.h"
#include "server/run/pace_keys.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

TEST(Pace, WindowsAreThoseOfTheRunWithoutATarget) {
  RunParameters p = scalar_parameters();
  p.pace->retry_min_ms = 200;
  p.pace->retry_max_ms = 1000;
  EXPECT_EQ(retry_window(*p.pace, 10'000, 1).max_ms, 1000U);
  EXPECT_EQ(retry_window(*p.pace, 10'000, 4).min_ms, 800U);
  EXPECT_EQ(refused_window(*p.pace, 10'000).min_ms, 1000U);
  EXPECT_EQ(refused_window(*p.pace, 10'000).max_ms, 4000U);
  EXPECT_EQ(idle_window(*p.pace, 10'000).min_ms, 30'000U);
  EXPECT_EQ(idle_window(*p.pace, 10'000).max_ms, 60'000U);
}

TEST(Pace, WindowsWidenWithTheFleet) {
  RunParameters p = scalar_parameters();
  p.pace->retry_min_ms = 200;
  p.pace->retry_max_ms = 1000;
  p.pace->arrival_rate = 100;
  EXPECT_EQ(retry_window(*p.pace, 10, 1).max_ms, 1000U);  // a small fleet is never too fast
  EXPECT_EQ(retry_window(*p.pace, 10'000, 1).min_ms, 200U);
  EXPECT_EQ(retry_window(*p.pace, 10'000, 1).max_ms, 300'000U);
  EXPECT_EQ(refused_window(*p.pace, 10'000).max_ms, 1'200'000U);
  EXPECT_EQ(idle_window(*p.pace, 10'000).max_ms, 300'000U);
  EXPECT_EQ(retry_window(*p.pace, UINT32_MAX, 4).max_ms, kRetryMaxMs);
}

// While an operator is likely to go on, a small fleet waits seconds and a large one comes at a bounded rate.
TEST(Pace, AnIdleRunsWindowIsShortWhileItIsFresh) {
  RunParameters p = scalar_parameters();
  p.pace->retry_min_ms = 200;
  p.pace->retry_max_ms = 1000;
  for (const uint32_t count : {1U, 12U, 300U}) {
    EXPECT_EQ(idle_window(*p.pace, count, 0).min_ms, kIdleFreshMinMs) << count;
    EXPECT_EQ(idle_window(*p.pace, count, 0).max_ms, kIdleFreshMaxMs) << count;
  }
  for (const uint32_t count : {600U, 1000U, 5000U, 10'000U, 100'000U}) {
    const gs_RetryWindow window = idle_window(*p.pace, count, kIdleFreshMs - 1);
    const double mean_ms = (window.min_ms + window.max_ms) / 2.0;
    EXPECT_LE(count * 1000.0 / mean_ms, count > 9000 ? count / 45.0 + 1 : kIdleArrivalRate * 1.01) << count;
  }
  EXPECT_EQ(idle_window(*p.pace, 12, kIdleFreshMs).min_ms, 30'000U) << "nobody goes on by now";
  EXPECT_EQ(handover_window(*p.pace, 12).max_ms, 1000U);
  EXPECT_EQ(handover_window(*p.pace, 1000).max_ms, 6666U);
  p.pace->retry_max_ms = 600'000;
  EXPECT_EQ(idle_window(*p.pace, 12, 0).max_ms, 600'000U) << "the run's own window is wider";
}

// ---- A fleet -------------------------------------------------------------------------------------------------------

constexpr uint32_t kDeviceCount = 10'000;
constexpr size_t kArenaSize = 4096;
constexpr std::array<const EstimatorOps*, 1> kEstimators = {&kProjectionOneSidedOps};
constexpr std::array<const SolverOps*, 1> kSolvers = {&kSolverProjectionOps};

Status read_sample(const void*, uint32_t index, Real* out) {
  out[0] = static_cast<Real>(index + 1);
  out[1] = 1;
  return Status::kOk;
}

struct PacedDevice {
  PacedDevice(uint32_t index, const Problem& problem)
      : arena(memory.data(), kArenaSize), client(config(index, problem), arena) {}
  static ClientConfig config(uint32_t index, const Problem& problem) {
    ClientConfig out;
    out.registry = {all_manifolds(), kEstimators, kSolvers, {&problem, 1}};
    out.firmware_version = "paced";
    out.floors = no_floors();
    out.jitter_seed = index + 1;
    return out;
  }
  std::array<uint64_t, kArenaSize / 8> memory = {};
  Arena arena;
  Client client;
  SessionId session = 0;
  uint64_t connected_ms = 0;  // last
  std::vector<std::vector<uint8_t>> inbox;
};

RunParameters paced_parameters(uint32_t arrival_rate) {
  RunParameters p = scalar_parameters();
  p.model->manifold = ManifoldId::kSphere;
  p.model->shape = {2, 1};
  p.local->direction_count = 2;
  p.local->local_step_count = 1;
  p.local->correction_form = CorrectionForm::kNone;
  p.fold->fold_weight = FoldWeight::kUniform;
  p.trigger->device_count = kDeviceCount;
  p.trigger->update_goal = kDeviceCount / 2;
  p.trigger->update_min = 1;
  p.trigger->report_deadline_ms = 300'000;
  p.pace->retry_min_ms = 200;
  p.pace->retry_max_ms = 1000;
  p.pace->arrival_rate = arrival_rate;
  return p;
}

// Links without delay; the server can be away. Arrivals are connections that devices ask for.
class PacedFleet {
 public:
  // Devices are switched on one after the other, within on_ms.
  explicit PacedFleet(const RunParameters& p, uint32_t count = kDeviceCount, uint64_t on_ms = 300'000)
      : parameters_(p), arrivals_(7200) {
    source_ = {nullptr, 4, 2, read_sample};
    problem_ = {&kKpcaOps, &source_};
    for (uint32_t i = 0; i < count; ++i) {
      names_.push_back("d" + std::to_string(i));
      devices_.push_back(std::make_unique<PacedDevice>(i, problem_));
      wake_.emplace(uint64_t{i} * on_ms / count, i);
    }
  }

  void start_server() {
    server_ = std::make_unique<Coordinator>(run_, parameters_, names_);
    for (const JournalRecord& record : store_.records()) {
      GS_ASSERT(server_->replay(record) == Status::kOk);
    }
    server_->start(now_ms_);
    take_actions();
  }
  void kill_server() {
    server_.reset();
    for (uint32_t i = 0; i < names_.size(); ++i) {
      if (std::exchange(devices_[i]->session, 0) != 0) {
        devices_[i]->client.on_connection_lost(Status::kClosed, now_ms_);
        wake_.emplace(now_ms_, i);
      }
      devices_[i]->inbox.clear();
    }
    owners_.clear();
  }
  // The server goes over to another run.
  void start_next_run() {
    kill_server();
    ++run_;
    store_ = StoreMemory();
    start_server();
  }
  bool is_finished() const { return server_->run_state() == gs_RunState_RUN_STATE_FINISHED; }
  void run_to(uint64_t end_ms) {
    for (;;) {
      const uint64_t tick_ms = server_ == nullptr ? kNever : server_->next_tick_ms();
      const uint64_t next_ms = std::min(wake_.top().first, tick_ms);
      if (next_ms >= end_ms) {
        now_ms_ = end_ms;
        return;
      }
      now_ms_ = std::max(now_ms_, next_ms);
      if (tick_ms <= now_ms_) {
        server_->on_tick(now_ms_);
        take_actions();
        continue;
      }
      const uint32_t index = wake_.top().second;
      wake_.pop();
      poll(index);
    }
  }
  uint32_t worst_second(uint64_t from_ms, uint64_t to_ms) const {
    return *std::max_element(arrivals_.begin() + static_cast<std::ptrdiff_t>(from_ms / 1000),
                             arrivals_.begin() + static_cast<std::ptrdiff_t>(to_ms / 1000));
  }
  uint32_t version() const { return server_->durable_version(); }
  uint64_t now_ms() const { return now_ms_; }
  // Since then every device has connected at least once.
  uint64_t connected_from_ms() const {
    uint64_t first = kNever;
    for (const auto& device : devices_) {
      first = std::min(first, device->connected_ms);
    }
    return first;
  }

 private:
  void poll(uint32_t index) {
    PacedDevice& device = *devices_[index];
    for (;;) {
      for (const std::vector<uint8_t>& frame : std::exchange(device.inbox, {})) {
        device.client.on_frame({frame.data() + kFramePrefixSize, frame.size() - kFramePrefixSize}, now_ms_);
      }
      const ClientAction action = device.client.poll(now_ms_);
      switch (action.kind) {
        case ClientActionKind::kWait:
          if (action.wake_ms > now_ms_ && device.inbox.empty()) {
            wake_.emplace(action.wake_ms, index);
            return;
          }
          break;
        case ClientActionKind::kConnect:
          ++arrivals_[now_ms_ / 1000];
          if (server_ == nullptr) {
            device.client.on_connection_lost(Status::kClosed, now_ms_);
          } else {
            device.session = next_session_++;
            device.connected_ms = now_ms_;
            owners_[device.session] = index;
            device.client.on_connected(now_ms_);
          }
          break;
        case ClientActionKind::kSend:
          send_up(device, index, action.bytes);
          device.client.on_sent(now_ms_);
          break;
        case ClientActionKind::kDisconnect:
          if (device.session != 0) {
            owners_.erase(device.session);
            server_->on_session_closed(std::exchange(device.session, 0), now_ms_);
            take_actions();
          }
          break;
        case ClientActionKind::kSave:
        case ClientActionKind::kSaveStep:
          break;
      }
    }
  }
  void send_up(const PacedDevice& device, uint32_t index, std::span<const uint8_t> bytes) {
    DeviceMessage message;
    GS_ASSERT(decode_message(bytes.subspan(kFramePrefixSize), &message) == Status::kOk);
    server_->on_message(device.session, index, message, now_ms_);
    take_actions();
  }
  void take_actions() {
    for (std::vector<Action> actions = server_->take_actions(); !actions.empty(); actions = server_->take_actions()) {
      for (Action& action : actions) {
        const auto owner = owners_.find(action.session);
        if (action.kind == ActionKind::kSend && owner != owners_.end()) {
          std::vector<uint8_t> frame(kFrameSizeMax);
          const Result<size_t> size = encode_frame(action.message, frame.data());
          frame.resize(size.value());
          devices_[owner->second]->inbox.push_back(std::move(frame));
        } else if (action.kind == ActionKind::kPersist) {
          GS_ASSERT(store_.append({&action.record, 1}) == StoreStatus::kOk);
          server_->on_persisted(action.record.sequence(), now_ms_);
        }
        GS_ASSERT(action.kind != ActionKind::kClose);
      }
    }
  }

  using Wake = std::pair<uint64_t, uint32_t>;
  RunParameters parameters_;
  SampleSource source_;
  Problem problem_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<PacedDevice>> devices_;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wake_;
  std::map<SessionId, uint32_t> owners_;
  std::vector<uint32_t> arrivals_;  // by second
  StoreMemory store_;
  std::unique_ptr<Coordinator> server_;
  SessionId next_session_ = 1;
  uint32_t run_ = 1;
  uint64_t now_ms_ = 0;
};

// The server is away for two minutes, twice as long as the windows of an unpaced fleet: all who come meanwhile come
// again when it is back.
TEST(Pace, AFleetIsSpreadAfterARestart) {
  constexpr uint32_t kRate = 100;
  constexpr uint64_t kSecond = 1000;
  PacedFleet fleet(paced_parameters(kRate));
  fleet.start_server();
  fleet.run_to(900 * kSecond);
  const uint32_t calm = fleet.worst_second(300 * kSecond, 900 * kSecond);
  fleet.kill_server();
  fleet.run_to(1020 * kSecond);
  const uint32_t away = fleet.worst_second(900 * kSecond, 1020 * kSecond);
  fleet.start_server();
  const uint32_t version = fleet.version();
  fleet.run_to(1800 * kSecond);
  const uint32_t after = fleet.worst_second(1020 * kSecond, 1800 * kSecond);
  std::printf("target %u a second; worst second: calm %u, while away %u, after the restart %u\n", kRate, calm, away,
              after);
  EXPECT_LE(calm, kRate);
  EXPECT_LE(after, kRate);
  EXPECT_LE(away, kRate);
  EXPECT_GT(fleet.version(), version);  // it goes on
}

// A run is over, and an operator begins the next one after a while: its first version is there within 10 s, and the
// wait of ten thousand devices costs no more than it did.
TEST(Pace, ARunAfterAnotherHasItsFirstVersionSoon) {
  constexpr uint64_t kSecond = 1000;
  for (const uint32_t count : {12U, 600U}) {
    RunParameters p = paced_parameters(0);
    p.trigger->device_count = count;
    p.trigger->update_goal = 0;  // all of them
    p.trigger->update_min = 0;
    p.trigger->round_count = 1;
    PacedFleet fleet(p, count, 2000);
    fleet.start_server();
    fleet.run_to(60 * kSecond);
    ASSERT_TRUE(fleet.is_finished()) << count;
    for (const uint64_t at : {60 * kSecond, 200 * kSecond}) {
      fleet.run_to(at);
      fleet.start_next_run();
      fleet.run_to(at + 10 * kSecond);
      EXPECT_EQ(fleet.version(), 1U) << count << " devices, at " << at;
    }
  }
}

TEST(Pace, TenThousandDevicesOfAnEndedRunComeAtABoundedRate) {
  constexpr uint64_t kSecond = 1000;
  RunParameters p = paced_parameters(0);
  p.trigger->round_count = 1;
  PacedFleet fleet(p, kDeviceCount, 60 * kSecond);
  fleet.start_server();
  fleet.run_to(220 * kSecond);
  ASSERT_TRUE(fleet.is_finished());
  const uint32_t worst = fleet.worst_second(120 * kSecond, 220 * kSecond);
  std::printf("10,000 devices of an ended run: at most %u arrivals in a second\n", worst);
  EXPECT_LE(worst, 2 * kIdleArrivalRate);
}

// A server that is away for three seconds, at different times of the fleet's work.
TEST(Pace, AFleetIsBackThreeSecondsAfterAServerThatWasAwayForThree) {
  constexpr uint64_t kSecond = 1000;
  RunParameters p = paced_parameters(0);
  p.trigger->device_count = 50;
  p.trigger->update_goal = 0;  // all of them
  p.trigger->update_min = 0;
  p.trigger->round_count = 1'000'000;
  PacedFleet fleet(p, 50, 2000);
  fleet.start_server();
  uint64_t now_ms = 20 * kSecond;
  for (int outage = 0; outage < 10; ++outage) {
    fleet.run_to(now_ms);
    fleet.kill_server();
    fleet.run_to(now_ms + 3 * kSecond);
    fleet.start_server();
    fleet.run_to(now_ms + 6 * kSecond);
    EXPECT_GE(fleet.connected_from_ms(), now_ms + 3 * kSecond) << "outage " << outage;
    now_ms += 16'137;
  }
}

// What the target is for: the same without one, where windows hold a second, and back-offs eight.
TEST(Pace, WithoutATargetTheFleetStampedes) {
  constexpr uint64_t kSecond = 1000;
  PacedFleet fleet(paced_parameters(0));
  fleet.run_to(310 * kSecond);
  fleet.start_server();
  fleet.run_to(311 * kSecond);
  const uint32_t worst = fleet.worst_second(300 * kSecond, 311 * kSecond);
  std::printf("without a target the worst second has %u arrivals\n", worst);
  EXPECT_GT(worst, 1000U);
}

}  // namespace
}  // namespace gradstream
