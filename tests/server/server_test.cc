// The shell around the real coordinator, over real sockets and a real database, with devices that follow a script.
#include "server/program/server.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/program/commands.h"
#include "server/run/pace_keys.h"
#include "server/run/run_core.h"
#include "server/store/journal_table.h"
#include "tests/support/certificates.h"
#include "tests/support/fleet_database.h"
#include "tests/support/server_peer.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr uint32_t kSteps = 2;
constexpr uint32_t kDirections = 4;
constexpr uint64_t kRunNonce = 0x1122334455667788;
// Longer than ctest lets a test run: no bucket is refilled while a test works, however slow the machine is.
constexpr uint32_t kNoRefillS = 3600;

// The database's journal, with a disk that can fill up.
class FillingStore : public Store {
 public:
  explicit FillingStore(Store& store) : store_(store) {}
  StoreStatus append(std::span<const JournalRecord> batch) override {
    return full ? StoreStatus::kFull : store_.append(batch);
  }
  StoreStatus read_after(uint64_t sequence, const std::function<bool(const JournalRecord&)>& visit) override {
    return store_.read_after(sequence, visit);
  }
  std::atomic<bool> full = false;

 private:
  Store& store_;
};

Config test_config(const std::string& folder) {
  Config config;
  config.server.listen = "127.0.0.1:0";
  config.server.database = folder + "/test.db";
  config.server.export_dir = folder;
  config.server.store = {64, 0, 5};
  config.has_run = true;
  RunParameters& run = config.run;
  run.name = "test";
  run.model->shape = {8, 2};
  run.model->problem = "kpca";
  run.local->direction_count = kDirections;
  run.local->local_step_count = kSteps;
  run.trigger->device_count = 2;
  run.trigger->round_count = 5;
  run.fold->fold_weight = FoldWeight::kUniform;
  return config;
}

// A server process's life, from the database to the sockets.
class Life {
 public:
  explicit Life(const Config& config) : config_(config) {
    SqliteOptions options;
    options.path = config.server.database;
    EXPECT_EQ(fleet.open(options), StoreStatus::kOk) << fleet.error();
    EXPECT_EQ(journal_.open(options), StoreStatus::kOk) << journal_.error();
    std::vector<EnrolledDevice> devices = value_of(fleet.devices());
    for (uint8_t number = 1; devices.size() < config.run.trigger->device_count; ++number) {
      enrol(number);
      devices = value_of(fleet.devices());
    }
    const std::optional<RunRow> latest = value_of(fleet.current_run());
    RunRow run;
    if (latest) {
      run = *latest;
    } else {
      EXPECT_EQ(create_run(fleet, config, kRunNonce, &run), kExitOk);
    }
    sqlite_store_ = std::make_unique<SqliteStore>(journal_, run.id);
    store = std::make_unique<FillingStore>(*sqlite_store_);
    std::string error;
    auto coordinator = replay_journal(run, config.run, devices, *store, UINT32_MAX, &error);
    EXPECT_NE(coordinator, nullptr) << error;
    const auto mark = [this, id = run.id](StoredRunState state) {
      // As `serve` does: a wish that came meanwhile stays.
      EXPECT_EQ(state == StoredRunState::kActive
                    ? journal_.exchange_run_state(id, StoredRunState::kResumeRequested, state).status()
                    : journal_.set_run_state(id, state),
                StoreStatus::kOk);
    };
    server =
        std::make_unique<Server>(io, config_, run, Server::Parts{fleet, *store, mark}, std::move(coordinator), devices);
    EXPECT_EQ(server->start().sentence, "");
  }
  void enrol(uint8_t number) {
    std::array<uint8_t, 32> key;
    key.fill(number);
    EXPECT_TRUE(value_of(fleet.add_device("device-" + std::to_string(number), key, 1)));
  }
  bool until(const std::function<bool()>& condition) { return run_until(io, condition); }

  asio::io_context io;
  LogCapture log;
  SqliteDatabase fleet;
  std::unique_ptr<FillingStore> store;

 private:
  const Config config_;
  SqliteDatabase journal_;
  std::unique_ptr<SqliteStore> sqlite_store_;

 public:
  std::unique_ptr<Server> server;  // last: ends first
};

// A device that speaks the protocol and sends made-up scalars.
class Script {
 public:
  Script(Life& life, int number) : life_(life), peer_(life.server->port(), ListenerHarness::device(number)) {}

  Script(Life& life, const Credentials& credentials)
      : life_(life), peer_(life.server->port(), credentials, "127.0.0.1") {}

  bool send_hello() {
    DeviceMessage hello = hello_message();
    auto& capabilities = hello.body.hello.capabilities;
    hello.body.hello.has_capabilities = true;
    capabilities.manifolds = capabilities.solvers = capabilities.estimators = capabilities.encodings = ~0U;
    capabilities.problems_count = 1;
    std::strcpy(capabilities.problems[0], "kpca");
    capabilities.features = features;
    return peer_.send(hello);
  }
  bool say_hello() {
    return life_.until([&] { return peer_.established(); }) && send_hello() && wait_for(gs_ServerMessage_welcome_tag);
  }
  void take_task(const gs_Task& task) { task_ = task; }
  bool send_pull(const gs_Pull& held) {
    DeviceMessage pull = {};
    pull.which_body = gs_DeviceMessage_pull_tag;
    pull.body.pull = held;
    return peer_.send(pull);
  }
  bool get_task(const gs_Pull& held = {}) {
    if (!send_pull(held) || !wait_for(gs_ServerMessage_task_tag)) {
      return false;
    }
    task_ = last.body.task;
    return true;
  }
  bool send_update(float value) {
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_update_scalars_tag;
    auto& update = message.body.update_scalars;
    update.task_sequence = task_.task_sequence;
    update.base_version = task_.version;
    update.steps_done = kSteps;
    update.direction_count = directions;
    update.encoding = gs_Encoding_ENCODING_F32;
    update.value_count = kSteps * directions;
    for (uint32_t i = 0; i < update.value_count; ++i) {
      std::memcpy(update.values.bytes + 4 * i, &value, 4);
    }
    update.values.size = static_cast<pb_size_t>(4 * update.value_count);
    update.crc32c = crc32c(0, update.values.bytes, update.values.size);
    return peer_.send(message);
  }
  // Skips to the next message of this kind; `last` is then that message.
  bool wait_for(pb_size_t tag) {
    return life_.until([&] {
      for (std::optional<ServerMessage> message = peer_.next(); message; message = peer_.next()) {
        last = *message;
        log_chunk_count += last.which_body == gs_ServerMessage_log_chunk_tag ? 1 : 0;
        if (last.which_body == tag) {
          return true;
        }
      }
      return false;
    });
  }
  bool send_and_get_verdict(float value, gs_Verdict verdict) {
    return send_update(value) && wait_for(gs_ServerMessage_ack_tag) && last.body.ack.verdict == verdict;
  }
  TlsPeer& peer() { return peer_; }
  ServerMessage last = {};
  uint32_t log_chunk_count = 0;
  uint32_t directions = kDirections;
  uint32_t features = 0;

 private:
  Life& life_;
  TlsPeer peer_;
  gs_Task task_ = {};
};

// A device that keeps its session across short waits and comes again for ever, as a client does.
class Trainer {
 public:
  Trainer(Life& life, int number) : life_(life), number_(number) {}

  void turn() {
    const uint64_t now_ms = steady_ms();
    if (now_ms < wake_ms_) {
      read(now_ms);
    } else if (!script_) {
      script_ = std::make_unique<Script>(life_, number_);
      is_greeted_ = false;
    } else if (!is_greeted_ && script_->peer().established()) {
      is_greeted_ = script_->send_hello();
      wake_ms_ = kAnswered;
    } else if (is_greeted_) {
      DeviceMessage pull = {};
      pull.which_body = gs_DeviceMessage_pull_tag;
      script_->peer().send(pull);
      wake_ms_ = kAnswered;
    }
    if (script_ && script_->peer().gone()) {
      leave(now_ms + 1);
    }
  }
  uint32_t update_count() const { return update_count_; }

 private:
  static constexpr uint64_t kAnswered = UINT64_MAX;  // it waits for an answer

  void leave(uint64_t wake_ms) {
    script_.reset();
    wake_ms_ = wake_ms;
  }
  void read(uint64_t now_ms) {
    while (script_) {
      const std::optional<ServerMessage> message = script_->peer().next();
      if (!message) {
        return;
      }
      switch (message->which_body) {
        case gs_ServerMessage_welcome_tag:
          wake_ms_ = 0;
          break;
        case gs_ServerMessage_task_tag:
          script_->take_task(message->body.task);
          script_->send_update(0.125F);
          break;
        case gs_ServerMessage_ack_tag:
          update_count_ += message->body.ack.verdict == gs_Verdict_VERDICT_FOLDED ? 1 : 0;
          wake_ms_ = now_ms + message->body.ack.retry.min_ms;
          break;
        case gs_ServerMessage_wait_tag:
          wake_ms_ = now_ms + message->body.wait.retry.min_ms;
          break;
        case gs_ServerMessage_drain_tag:
          leave(now_ms + message->body.drain.retry.min_ms);
          break;
        default:
          break;
      }
    }
  }

  Life& life_;
  const int number_;
  std::unique_ptr<Script> script_;
  bool is_greeted_ = false;
  uint64_t wake_ms_ = 0;
  uint32_t update_count_ = 0;
};

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "server_XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  virtual Config config() const { return test_config(folder_); }
  std::string folder_;
};

// What crosses threads, without them and with two.
class ServerThreads : public ServerTest, public testing::WithParamInterface<uint32_t> {
 protected:
  Config config() const override {
    Config config = ServerTest::config();
    config.server.io_threads = GetParam();
    return config;
  }
};
INSTANTIATE_TEST_SUITE_P(, ServerThreads, testing::Values(1U, 2U),
                         [](const auto& parameter) { return "threads_" + std::to_string(parameter.param); });

TEST_P(ServerThreads, ARoundClosesIsExportedAndSurvivesARestart) {
  uint64_t digest = 0;
  {
    Life life(config());
    ASSERT_TRUE(life.until([&] { return std::filesystem::exists(folder_ + "/run1_v000000.npy"); }));
    Script one(life, 1);
    Script two(life, 2);
    ASSERT_TRUE(one.say_hello() && two.say_hello());
    ASSERT_TRUE(one.get_task() && two.get_task());
    ASSERT_TRUE(one.send_and_get_verdict(0.5F, gs_Verdict_VERDICT_FOLDED));
    ASSERT_TRUE(two.send_and_get_verdict(-0.25F, gs_Verdict_VERDICT_FOLDED));
    ASSERT_TRUE(life.until([&] { return life.server->coordinator().durable_version() == 1; }));
    ASSERT_TRUE(life.until([&] { return std::filesystem::exists(folder_ + "/run1_v000001.npy"); }));
    digest = life.server->coordinator().model().digest();
    life.server->drain();
    one.peer().raw().close();
    two.peer().raw().close();
    EXPECT_TRUE(life.until([&] { return life.io.stopped(); }));
    EXPECT_TRUE(life.server->finish());
    EXPECT_THAT(life.log.find("counters"), HasSubstr("updates_folded=2"));
  }
  Life again(config());
  EXPECT_EQ(again.server->coordinator().durable_version(), 1U);
  EXPECT_EQ(again.server->coordinator().model().digest(), digest);
  Script one(again, 1);
  ASSERT_TRUE(one.say_hello());
  EXPECT_EQ(one.last.body.welcome.version, 1U);
  EXPECT_TRUE(one.get_task());
}

// Twice as many devices as places. Each of them has its turn, whatever a round waits for.
TEST_P(ServerThreads, AFleetOfMoreDevicesThanPlacesSharesThem) {
  for (const uint32_t goal : {0U, 2U}) {
    Config crowded = config();
    crowded.server.database += std::to_string(goal);
    crowded.server.listener.connection_count_max = 4;
    crowded.run.trigger->device_count = 8;
    crowded.run.trigger->update_goal = goal;
    // Two of eight close a round, so that chance takes many rounds to give each its share. After 60 rounds one device
    // had 2.7 times as much as another, and after 180 at most 1.6 times.
    crowded.run.trigger->round_count = goal == 0 ? 10 : 180;
    crowded.run.pace->retry_min_ms = 1;
    crowded.run.pace->retry_max_ms = 2;
    Life life(crowded);
    std::vector<std::unique_ptr<Trainer>> fleet;
    std::mt19937 order(1);
    for (int number = 1; number <= 8; ++number) {
      fleet.push_back(std::make_unique<Trainer>(life, number));
    }
    EXPECT_TRUE(run_until(
        life.io,
        [&] {
          std::shuffle(fleet.begin(), fleet.end(), order);  // no device is always the faster one
          for (const auto& device : fleet) {
            device->turn();
          }
          return life.server->coordinator().durable_version() == crowded.run.trigger->round_count;
        },
        60000))
        << "version " << life.server->coordinator().durable_version();
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;
    for (const auto& device : fleet) {
      least = std::min(least, device->update_count());
      most = std::max(most, device->update_count());
    }
    EXPECT_LE(most, 3 * least) << "each has its turn; chance decides which of two is the faster one";
    EXPECT_GT(life.server->counters().arrivals.places_yielded, 0U);
    EXPECT_EQ(life.server->counters().arrivals.connections_over_cap, 0U);
  }
}

// As a paused machine or a stopped process: what both devices sent in time lies in the sockets when the server wakes.
// A device that waits on the server: it has its next task at once, and its place where another one wants it.
TEST_P(ServerThreads, AHeldDeviceHasItsTaskAndGivesItsPlace) {
  Config config = this->config();
  config.server.listener.connection_count_max = 2;
  Life life(config);
  Script one(life, 1);
  Script two(life, 2);
  one.features = 1U << static_cast<uint32_t>(gs_Feature_FEATURE_HELD_PULL);
  const gs_Pull pull = {false, 0, 0, 60'000};
  const auto is_held = [&] { return life.server->coordinator().round_progress().held == 1; };
  ASSERT_TRUE(one.say_hello() && two.say_hello());
  ASSERT_TRUE(one.get_task(pull) && two.get_task());
  ASSERT_TRUE(one.send_and_get_verdict(0.125F, gs_Verdict_VERDICT_FOLDED));
  EXPECT_TRUE(one.last.body.ack.hold);
  ASSERT_TRUE(one.send_pull(pull) && life.until(is_held));
  ASSERT_TRUE(two.send_and_get_verdict(0.125F, gs_Verdict_VERDICT_FOLDED));
  EXPECT_FALSE(two.last.body.ack.hold);
  ASSERT_TRUE(one.wait_for(gs_ServerMessage_task_tag)) << "without another Pull";
  EXPECT_EQ(one.last.body.task.version, 1U);
  one.take_task(one.last.body.task);

  // Another one waits for a place, where both have work; then the first one has none.
  ASSERT_TRUE(two.get_task());
  life.enrol(3);
  Script three(life, 3);
  ASSERT_TRUE(life.until(
      [&] { return !three.peer().established() && life.server->counters().arrivals.connections_accepted == 3; }));
  ASSERT_TRUE(one.send_and_get_verdict(0.125F, gs_Verdict_VERDICT_FOLDED));
  ASSERT_TRUE(one.send_pull(pull));
  ASSERT_TRUE(one.wait_for(gs_ServerMessage_wait_tag));
  EXPECT_EQ(one.last.body.wait.cause, gs_WaitCause_WAIT_CAUSE_ANSWERED);
  ASSERT_TRUE(one.wait_for(gs_ServerMessage_drain_tag));
  ASSERT_TRUE(life.until([&] { return one.peer().gone(); }));
  one.peer().raw().close();
  EXPECT_TRUE(three.say_hello());
  EXPECT_EQ(life.server->counters().arrivals.places_yielded, 1U);
}

TEST_P(ServerThreads, ADrainAnswersWhoIsHeld) {
  Life life(config());
  Script one(life, 1);
  one.features = 1U << static_cast<uint32_t>(gs_Feature_FEATURE_HELD_PULL);
  ASSERT_TRUE(one.say_hello() && one.get_task());
  ASSERT_TRUE(one.send_and_get_verdict(0.125F, gs_Verdict_VERDICT_FOLDED));
  ASSERT_TRUE(one.send_pull({false, 0, 0, 60'000}));
  ASSERT_TRUE(life.until([&] { return life.server->coordinator().round_progress().held == 1; }));
  life.server->drain();
  EXPECT_TRUE(one.wait_for(gs_ServerMessage_wait_tag) && one.wait_for(gs_ServerMessage_drain_tag));
}

TEST_P(ServerThreads, WhatCameDuringAStandstillCountsBeforeTheDeadline) {
  Config deadline = config();
  deadline.run.trigger->report_deadline_ms = 200;
  deadline.run.trigger->update_min = 1;
  deadline.run.trigger->late = LatePolicy::kDrop;
  Life life(deadline);
  Script one(life, 1);
  Script two(life, 2);
  ASSERT_TRUE(one.say_hello() && two.say_hello());
  ASSERT_TRUE(one.get_task() && two.get_task());
  ASSERT_TRUE(one.send_update(0.5F) && two.send_update(0.25F));
  const uint64_t wake_ms = steady_ms() + FleetFollower::kPeriodMs + 2 * kStandstillMs;
  while (steady_ms() < wake_ms) {
    std::this_thread::yield();
  }
  ASSERT_TRUE(one.wait_for(gs_ServerMessage_ack_tag) && two.wait_for(gs_ServerMessage_ack_tag));
  EXPECT_EQ(one.last.body.ack.verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(two.last.body.ack.verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_TRUE(life.until([&] { return life.log.count("round_closed") == 1; }));
  EXPECT_THAT(life.log.find("round_closed"), HasSubstr("trigger=goal folded=2"));
}

TEST_P(ServerThreads, OfTwoLiveSessionsOfOneIdentityTheNewerWins) {
  Life life(config());
  Script old(life, 1);
  ASSERT_TRUE(old.say_hello());
  Script young(life, 1);
  ASSERT_TRUE(young.say_hello());
  EXPECT_TRUE(life.until([&] { return old.peer().refusal() == gs_Reason_REASON_NEWER_SESSION; }));
  EXPECT_TRUE(life.until([&] { return old.peer().gone(); }));
  EXPECT_EQ(life.server->coordinator().counters().sessions_replaced, 1U);
  Script other(life, 2);
  ASSERT_TRUE(other.say_hello());
  EXPECT_TRUE(young.get_task());
}

TEST_P(ServerThreads, AFloodOverTlsIsTurnedAwayAndTheOthersGoOn) {
  Config limited = config();
  limited.server.device_messages = {1, 6, kNoRefillS};
  Life life(limited);
  Script flood(life, 1);
  ASSERT_TRUE(flood.say_hello() && flood.get_task());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(flood.send_and_get_verdict(0.5F, gs_Verdict_VERDICT_FOLDED)) << i;
  }
  ASSERT_TRUE(flood.send_and_get_verdict(0.5F, gs_Verdict_VERDICT_TRY_LATER));
  EXPECT_EQ(flood.last.body.ack.reason, gs_Reason_REASON_RATE_LIMIT);
  ASSERT_TRUE(flood.send_update(0.5F));
  EXPECT_TRUE(life.until([&] { return flood.peer().refusal() == gs_Reason_REASON_RATE_LIMIT; }));
  EXPECT_THAT(life.log.find("rate_limited"), HasSubstr("device=device-1 count=1"));
  Script again(life, 1);
  ASSERT_TRUE(life.until([&] { return again.peer().established(); }) && again.peer().send(hello_message()));
  EXPECT_TRUE(life.until([&] { return again.peer().refusal() == gs_Reason_REASON_RATE_LIMIT; }))
      << "a new session is no way around it";
  Script other(life, 2);
  ASSERT_TRUE(other.say_hello() && other.get_task());
  ASSERT_TRUE(other.send_and_get_verdict(0.5F, gs_Verdict_VERDICT_FOLDED));
  EXPECT_TRUE(life.until([&] { return life.server->coordinator().durable_version() == 1; }));
  EXPECT_EQ(life.server->coordinator().counters().messages_over_rate, 3U);
}

TEST_P(ServerThreads, AFullDiskDelaysButLosesNothing) {
  Life life(config());
  Script one(life, 1);
  Script two(life, 2);
  ASSERT_TRUE(one.say_hello() && two.say_hello());
  ASSERT_TRUE(one.get_task() && two.get_task());
  life.store->full = true;
  ASSERT_TRUE(one.send_update(0.5F));
  ASSERT_TRUE(life.until([&] { return life.log.count("store_failed") == 1; }));
  EXPECT_THAT(life.log.find("store_failed"), HasSubstr("the disk is full"));
  EXPECT_THAT(life.log.find("store_failed"), HasSubstr("remedy="));
  EXPECT_TRUE(two.send_and_get_verdict(0.25F, gs_Verdict_VERDICT_TRY_LATER));
  life.store->full = false;
  ASSERT_TRUE(life.until([&] { return life.log.count("store_recovered") == 1; }));
  EXPECT_TRUE(two.send_and_get_verdict(0.25F, gs_Verdict_VERDICT_FOLDED));
  ASSERT_TRUE(life.until([&] { return life.server->coordinator().durable_version() == 1; }));
  EXPECT_EQ(life.server->coordinator().counters().updates_folded, 2U) << "the one that met the full disk counts";
  EXPECT_EQ(life.server->counters().store_failures, 1U);
}

TEST_P(ServerThreads, ADeviceFarBehindGetsALogLongerThanTheQueueThatWasSet) {
  constexpr uint32_t kRounds = 150;
  Config far = config();
  far.server.listener.session.queue_size_max = 4096;
  far.run.local->direction_count = 64;
  far.run.trigger->round_count = 2 * kRounds;
  far.run.trigger->update_goal = 1;
  far.run.wire->log_size_max = 1 << 20;
  Life life(far);
  ASSERT_TRUE(life.until([&] { return life.log.count("version") == 1; }));
  const gs_Pull at_zero = {true, 0, life.server->coordinator().model().digest(), 0};
  Script one(life, 1);
  one.directions = far.run.local->direction_count;
  ASSERT_TRUE(one.say_hello());
  for (uint32_t round = 0; round < kRounds; ++round) {
    ASSERT_TRUE(one.get_task({true, round, life.server->coordinator().model().digest(), 0}));
    ASSERT_TRUE(one.send_and_get_verdict(0.01F, gs_Verdict_VERDICT_FOLDED));
    ASSERT_TRUE(life.until([&] { return life.server->coordinator().durable_version() == round + 1; }));
  }
  Script two(life, 2);
  ASSERT_TRUE(two.say_hello());
  EXPECT_TRUE(two.get_task(at_zero));
  EXPECT_EQ(two.log_chunk_count, kRounds);
  EXPECT_EQ(life.server->counters().traffic.sessions_overloaded, 0U);
}

// Devices that prove certificates of tests/support/certificates.h; nobody has enrolled "stranger".
class Registration : public ServerThreads {
 protected:
  Config config() const override {
    Config config = ServerThreads::config();
    config.server.credentials = {folder_ + "/ca.pem", folder_ + "/server.pem", folder_ + "/server.key"};
    std::ofstream(config.server.credentials.authority) << test_pem::kCa;
    std::ofstream(config.server.credentials.certificate) << test_pem::kServer;
    std::ofstream(config.server.credentials.key) << test_pem::kServerKey;
    std::filesystem::permissions(config.server.credentials.key,
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return config;
  }
  void SetUp() override {
    ServerThreads::SetUp();
    ASSERT_EQ(tls_start(nullptr, 0), Status::kOk);
    ASSERT_EQ(
        test_pem::parse(&stranger_, CertificateRole::kDevice, test_pem::kDeviceUnknown, test_pem::kDeviceKey).text,
        nullptr);
    ASSERT_EQ(test_pem::parse(&other_, CertificateRole::kDevice, test_pem::kDeviceLongest, test_pem::kDeviceKey).text,
              nullptr);
  }
  static DeviceState state_of(Life& life, const char* name) {
    std::optional<EnrolledDevice> row = value_of(life.fleet.find_device(name));
    EXPECT_TRUE(row.has_value());
    return row ? row->state : DeviceState::kRevoked;
  }

  Credentials stranger_;
  Credentials other_;
};
INSTANTIATE_TEST_SUITE_P(, Registration, testing::Values(1U, 2U),
                         [](const auto& parameter) { return "threads_" + std::to_string(parameter.param); });

TEST_P(Registration, AnUnknownDeviceIsPendingUntilSomebodyEnablesIt) {
  Life life(config());
  for (const uint64_t turned_away : {1U, 2U}) {
    Script early(life, stranger_);
    ASSERT_TRUE(life.until([&] { return early.peer().gone(); }));
    EXPECT_EQ(early.peer().session().last_alert(), 49) << "access_denied";
    ASSERT_TRUE(life.until([&] { return life.server->counters().handshakes.inactive_identities == turned_away; }));
  }
  EXPECT_EQ(state_of(life, "stranger"), DeviceState::kPending);
  EXPECT_EQ(life.server->counters().certificates.devices_registered, 1U);
  EXPECT_THAT(life.log.find("device_registered"), HasSubstr("device=stranger index=2 state=pending"));
  EXPECT_TRUE(value_of(life.fleet.set_device_state("stranger", DeviceState::kActive)));
  ASSERT_TRUE(life.until([&] { return life.log.count("device_restored") == 1; }));
  Script late(life, stranger_);
  EXPECT_TRUE(late.say_hello());
  EXPECT_EQ(late.last.body.welcome.client_index, 2U);
  EXPECT_TRUE(value_of(life.fleet.revoke_device("stranger")));
  EXPECT_TRUE(life.until([&] { return late.peer().refusal() == gs_Reason_REASON_REVOKED; })) << "its live session";
  Script again(life, stranger_);
  EXPECT_TRUE(life.until([&] { return again.peer().gone(); }));
  EXPECT_TRUE(life.until([&] { return life.server->counters().handshakes.revoked_identities == 1; }));
}

TEST_P(Registration, ActiveLetsItInAtOnce) {
  Config active = config();
  active.server.device_registration = "active";
  Life life(active);
  Script first(life, stranger_);
  Script second(life, stranger_);  // at the same moment
  ASSERT_TRUE(life.until([&] { return first.peer().established() && second.peer().established(); }));
  ASSERT_TRUE(life.until([&] { return life.server->counters().handshakes.sessions_established == 2; }));
  EXPECT_EQ(life.server->counters().certificates.devices_registered, 1U);
  EXPECT_EQ(state_of(life, "stranger"), DeviceState::kActive);
  Script third(life, stranger_);
  EXPECT_TRUE(third.say_hello());
  EXPECT_EQ(third.last.body.welcome.client_index, 2U);
  Script by_key(life, 1);
  EXPECT_TRUE(by_key.say_hello());
}

TEST_P(Registration, ItHasLimitsAndASwitch) {
  struct Case {
    const char* mode;
    RateLimit rate;
    uint32_t fleet_max;
    int alert;
    const char* event;
  };
  for (const Case& row : {Case{"off", {10, 100}, 100, 115, "tls_unknown_identity"},
                          Case{"active", {1, 1, kNoRefillS}, 100, 46, "tls_registration_limit"},
                          Case{"active", {10, 100}, 3, 46, "tls_registration_limit"}}) {
    TearDown();
    ServerThreads::SetUp();
    Config limited = config();
    limited.server.device_registration = row.mode;
    limited.server.registrations = row.rate;
    limited.server.registration_device_count_max = row.fleet_max;
    Life life(limited);
    if (row.alert == 46) {
      Script first(life, stranger_);
      EXPECT_TRUE(first.say_hello());
    }
    Script over(life, other_);
    ASSERT_TRUE(life.until([&] { return over.peer().gone(); })) << row.event;
    EXPECT_EQ(over.peer().session().last_alert(), row.alert);
    ASSERT_TRUE(life.until([&] { return life.log.count(row.event) > 0; })) << row.event;
    EXPECT_THAT(life.log.find(row.event), HasSubstr("identity=xxxx"));
    std::optional<EnrolledDevice> found = value_of(life.fleet.find_device(std::string(56, 'x')));
    EXPECT_FALSE(found.has_value());
  }
}

TEST_P(ServerThreads, DevicesComeAndGoWhileItRuns) {
  Life life(config());
  SqliteDatabase other;  // as another process would
  SqliteOptions options;
  options.path = folder_ + "/test.db";
  ASSERT_EQ(other.open(options), StoreStatus::kOk);
  std::array<uint8_t, 32> key;
  key.fill(3);
  EXPECT_TRUE(value_of(other.add_device("device-3", key, 1)));
  Script three(life, 3);
  EXPECT_TRUE(three.say_hello()) << "at once, not at the next poll";
  EXPECT_EQ(three.last.body.welcome.client_index, 2U);
  EXPECT_TRUE(value_of(other.revoke_device("device-3")));
  EXPECT_TRUE(life.until([&] { return three.peer().refusal() == gs_Reason_REASON_REVOKED; }));
  Script again(life, 3);
  EXPECT_TRUE(life.until([&] { return again.peer().gone(); }));
  EXPECT_TRUE(life.until([&] { return life.server->counters().handshakes.revoked_identities == 1; }));
}

// A device that knows how is asked behind its Welcome; its session began before the request, and begins anew for it.
TEST_P(ServerThreads, ADeviceDrawsANewKeyAndComesByIt) {
  Life life(config());
  Script unable(life, 2);
  ASSERT_TRUE(unable.say_hello());
  Script open(life, 1);
  open.features = 1U << gs_Feature_FEATURE_KEY_CHANGE;
  ASSERT_TRUE(open.say_hello());
  SqliteDatabase command;
  SqliteOptions options;
  options.path = folder_ + "/test.db";
  ASSERT_EQ(command.open(options), StoreStatus::kOk);
  for (const char* const name : {"device-1", "device-2"}) {
    KeyChangeRow request;
    request.since_ms = static_cast<uint64_t>(wall_clock_ms());
    request.window_s = 60;
    request.server_secret.fill(11);
    ASSERT_TRUE(value_of(command.request_key_change(name, request)));
  }
  ASSERT_TRUE(open.wait_for(gs_ServerMessage_drain_tag));
  EXPECT_TRUE(open.peer().key_changes().empty());
  Script one(life, 1);
  one.features = open.features;
  ASSERT_TRUE(one.say_hello());
  ASSERT_TRUE(life.until([&] { return one.peer().key_changes().size() == 1; }));
  const KeyChange ask = one.peer().key_changes()[0];
  EXPECT_TRUE(ask.has_public && ask.generation == 1);
  KeyProof proof;
  ASSERT_EQ(prove_as_device(KeyChangeTerms{"device-1", 1, FleetDatabase::key_of(1)}, FleetDatabase::key_of(5),
                            ask.public_key, &proof),
            Status::kOk);
  KeyChange offer = ask;
  offer.has_confirm = true;
  std::ranges::copy(proof.device_public, offer.public_key);
  std::ranges::copy(proof.confirm_device, offer.confirm);
  ASSERT_TRUE(one.peer().send(offer));
  ASSERT_TRUE(life.until([&] { return one.peer().key_changes().size() == 2; }));
  EXPECT_TRUE(is_same_confirm(one.peer().key_changes()[1].confirm, proof.confirm_server));
  EXPECT_EQ(life.server->counters().keys_changed, 1U);
  EXPECT_TRUE(one.send_pull({})) << "the session goes on by the key that it began with";
  Identity next;
  std::strcpy(next.name, "device-1~1");
  std::ranges::copy(proof.device_key, next.key);
  TlsPeer by_new_key(life.server->port(), next);
  EXPECT_TRUE(life.until([&] { return by_new_key.established(); }));
  Script other(life, 2);
  ASSERT_TRUE(other.say_hello());
  EXPECT_TRUE(life.until([&] { return life.log.count("key_change_waits") == 1; }));
  EXPECT_TRUE(other.peer().key_changes().empty()) << "it did not say that it can";
}

TEST_F(ServerTest, AClockThatWasSetBackIsNamedAndTheTimeGoesOn) {
  constexpr uint64_t kHourMs = 3600 * 1000;
  const uint64_t ahead_ms = wall_clock_ms() + kHourMs;
  {
    SqliteDatabase database;
    SqliteOptions options;
    options.path = folder_ + "/test.db";
    ASSERT_EQ(database.open(options), StoreStatus::kOk);
    uint64_t noted_ms = ahead_ms;
    ASSERT_EQ(database.note_time(&noted_ms), StoreStatus::kOk);
    ClaimRow claim;
    claim.name = "batch";
    claim.key = FleetDatabase::key_of(9);
    claim.count_max = 1;
    claim.expires_ms = ahead_ms;  // over by the latest time, open by the clock
    EXPECT_TRUE(value_of(database.add_claim(claim)));
  }
  Life life(config());
  EXPECT_THAT(life.log.find("clock_behind"), HasSubstr("latest_ms=" + std::to_string(ahead_ms)));
  EXPECT_TRUE(life.until([&] {
    const std::optional<ClaimRow> claim = value_of(life.fleet.find_claim("batch"));
    return claim && claim->is_ended;
  }));
}

TEST_F(ServerTest, TheOperatorStopsTheRun) {
  Life life(config());
  Script one(life, 1);
  ASSERT_TRUE(one.say_hello());
  SqliteDatabase other;
  SqliteOptions options;
  options.path = folder_ + "/test.db";
  ASSERT_EQ(other.open(options), StoreStatus::kOk);
  ASSERT_EQ(other.set_run_state(1, StoredRunState::kStopRequested), StoreStatus::kOk);
  EXPECT_TRUE(life.until([&] { return life.log.count("run_stopped") == 1; }));
  EXPECT_TRUE(life.until([&] {
    const std::optional<RunRow> run = value_of(other.current_run());
    return run && run->state == StoredRunState::kStopped;
  }));
}

TEST_P(ServerThreads, NothingOfItIsLeftInTheLoopThatOutlivesIt) {
  Life life(config());
  Script one(life, 1);
  ASSERT_TRUE(one.say_hello());
  life.server.reset();
  life.io.restart();
  EXPECT_EQ(life.io.poll(), 0U) << "a handler that holds a TLS stream";
}

TEST_P(ServerThreads, AnUpdateThatHasComeGetsItsAckBeforeTheDrain) {
  Life life(config());
  Script one(life, 1);
  Script two(life, 2);
  ASSERT_TRUE(one.say_hello() && two.say_hello());
  ASSERT_TRUE(one.get_task() && two.get_task());
  life.store->full = true;
  ASSERT_TRUE(one.send_update(0.5F));
  ASSERT_TRUE(life.until([&] { return life.log.count("store_failed") == 1; }));
  life.server->drain();
  EXPECT_TRUE(two.wait_for(gs_ServerMessage_drain_tag)) << "it owes nothing";
  EXPECT_FALSE(one.peer().gone());
  life.store->full = false;
  ASSERT_TRUE(one.wait_for(gs_ServerMessage_ack_tag));
  EXPECT_EQ(one.last.body.ack.verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_TRUE(one.wait_for(gs_ServerMessage_drain_tag));
  one.peer().raw().close();
  two.peer().raw().close();
  EXPECT_TRUE(life.until([&] { return life.io.stopped(); }));
  EXPECT_TRUE(life.server->finish());
}

TEST_F(ServerTest, TheSecondRunOfAPortIsRefusedWithItsRemedy) {
  Life life(config());
  Config occupied = config();
  occupied.server.listen = "127.0.0.1:" + std::to_string(life.server->port());
  occupied.server.database = folder_ + "/second.db";
  asio::io_context io;
  SqliteDatabase fleet;
  SqliteOptions options;
  options.path = occupied.server.database;
  ASSERT_EQ(fleet.open(options), StoreStatus::kOk);
  RunRow run;
  ASSERT_EQ(create_run(fleet, occupied, kRunNonce, &run), kExitOk);
  SqliteStore store(fleet, run.id);
  Server second(io, occupied, run, {fleet, store, [](StoredRunState) {}},
                std::make_unique<Coordinator>(run.id, occupied.run, std::vector<std::string>()), {});
  EXPECT_THAT(second.start().sentence, HasSubstr("server.listen"));
}

}  // namespace
}  // namespace gradstream
