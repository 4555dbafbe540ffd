// Pulls that the server keeps until there is a task, in virtual time: when the client holds, how long, and what ends
// it.
#include "runtime/link/client_hold.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/link/client.h"
#include "tests/support/client_support.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_server.h"

namespace gradstream {
namespace {

// Makes a FakeServer one that keeps the Pull of a device that has answered the open version, and takes the Ack of an
// update with base_digest for that Pull.
class Keeper {
 public:
  explicit Keeper(FakeServer& server) : server_(server) {
    server_.holds_version_open = true;
    server_.intercept = [this](const DeviceMessage& message) { return take(message); };
    server_.edit = [this](ServerMessage& message) { note(message); };
  }

  bool has_pull() const { return pull_.has_value(); }
  // The version closes: a Pull that is kept gets its records and its Task.
  void close_version() {
    server_.advance(1);
    answer();
  }
  // The kept Pull is answered as a server that holds none would.
  void end_hold() {
    pull_.reset();
    server_.send(server_.make_wait(gs_WAIT_CAUSE_NOT_CHOSEN));
  }

  uint32_t holds_max_ms = 0;  // of the last Pull
  uint32_t pulls = 0;
  std::vector<uint64_t> base_digests;  // of all updates

 private:
  bool take(const DeviceMessage& message) {
    if (message.which_body == gs_DeviceMessage_hello_tag) {
      pull_.reset();
    }
    if (message.which_body == gs_DeviceMessage_update_scalars_tag) {
      base_ = message.body.update_scalars;
      base_digests.push_back(base_.base_digest);
    }
    if (message.which_body != gs_DeviceMessage_pull_tag || is_passing_) {
      return false;
    }
    ++pulls;
    holds_max_ms = message.body.pull.hold_max_ms;
    if (holds_max_ms == 0 || answered_version_ != server_.model().version()) {
      return false;
    }
    pull_ = message;
    return true;
  }

  void note(ServerMessage& message) {
    if (message.which_body != gs_ServerMessage_ack_tag) {
      return;
    }
    gs_Ack& ack = message.body.ack;
    if (ack.verdict == gs_VERDICT_FOLDED && !ack.duplicate) {
      answered_version_ = server_.model().version();
    }
    ack.hold = holds_max_ms > 0;
    if (ack.verdict == gs_VERDICT_FOLDED && ack.hold && base_.base_digest != 0) {
      pull_.emplace();
      pull_->which_body = gs_DeviceMessage_pull_tag;
      pull_->body.pull.has_model = true;
      pull_->body.pull.version = base_.base_version;
      pull_->body.pull.digest = base_.base_digest;
    }
  }

  void answer() {
    if (!pull_.has_value()) {
      return;
    }
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_frame(*pull_, frame);
    pull_.reset();
    is_passing_ = true;
    server_.on_bytes({frame, size.value()});
    is_passing_ = false;
  }

  FakeServer& server_;
  uint32_t answered_version_ = UINT32_MAX;  // the device has no task of it left
  bool is_passing_ = false;
  std::optional<DeviceMessage> pull_;
  gs_UpdateScalars base_ = {};
};

struct HeldDevice {
  explicit HeldDevice(bool is_on_mains = true, bool can_dial = true)
      : device(with_power(is_on_mains, can_dial)), server(FakeRun{}), keeper(server), link(*device, server) {}

  static std::unique_ptr<FakeDevice> with_power(bool is_on_mains, bool can_dial) {
    auto device = std::make_unique<FakeDevice>();
    device->config.holds_pulls = is_on_mains;
    device->config.can_dial = can_dial;
    return device;
  }
  Client& client() { return link.client(); }
  bool run_to_hold() {
    return link.run_until([this] { return client().is_held() && keeper.has_pull(); });
  }

  std::unique_ptr<FakeDevice> device;
  FakeServer server;
  Keeper keeper;
  FakeLink link;
};

// ---- What it says ----

TEST(ClientHold, ABatterySaysNothingOfIt) {
  HeldDevice battery(false);
  ASSERT_TRUE(battery.link.run_until([&] { return battery.keeper.base_digests.size() == 1; }));
  EXPECT_EQ(battery.server.last_hello.capabilities.features & 0b1100000000000U, 0U);
  EXPECT_EQ(battery.keeper.holds_max_ms, 0U);
  EXPECT_EQ(battery.keeper.base_digests[0], 0U);
  battery.server.edit = [](ServerMessage& message) {  // a server that errs
    message.body.ack.hold = message.which_body == gs_ServerMessage_ack_tag;
  };
  ASSERT_TRUE(battery.link.run_to(ClientState::kIdle));
  EXPECT_FALSE(battery.client().is_held());
}

TEST(ClientHold, MainsSaysItAndTheUpdateNamesTheModel) {
  HeldDevice mains;
  ASSERT_TRUE(mains.run_to_hold());
  EXPECT_EQ(mains.server.last_hello.capabilities.features & 0b1100000000000U, 0b1100000000000U);
  EXPECT_EQ(mains.keeper.holds_max_ms, kDeviceHoldMs);
  EXPECT_EQ(mains.keeper.base_digests, std::vector<uint64_t>{mains.client().digest()});
}

// Its digest would be computed for each piece.
TEST(ClientHold, AnUpdateOfSeveralPiecesNamesNoModel) {
  HeldDevice held;
  held.server.run.direction_count = 200;
  held.server.run.local_step_count = 3;  // 2,400 bytes
  ASSERT_TRUE(held.run_to_hold());
  EXPECT_EQ(held.keeper.base_digests, std::vector<uint64_t>(3, 0));
  EXPECT_EQ(held.keeper.pulls, 2U) << "after the Ack, at once";
  EXPECT_EQ(held.link.now_ms, 1000U);
}

// ---- Rounds ----

TEST(ClientHold, RoundsFollowEachOtherWithoutAWait) {
  FakeDevice reference;
  FakeServer undisturbed{FakeRun{}};
  FakeLink polling(reference, undisturbed);
  ASSERT_TRUE(polling.run_to_end());
  for (const bool can_dial : {false, true}) {
    HeldDevice held(true, can_dial);
    held.server.run.retry = {5000, 6000};  // without a hold a device that dials closes for such a wait
    for (uint32_t round = 0; round < 4; ++round) {
      ASSERT_TRUE(held.run_to_hold());
      held.keeper.close_version();
    }
    ASSERT_TRUE(held.link.run_to_end());
    EXPECT_EQ(held.link.now_ms, 1000U) << "no time passes";
    EXPECT_EQ(held.client().counters().sessions, 1U);
    EXPECT_EQ(held.keeper.pulls, 1U) << "each Ack stands for the next one";
    EXPECT_EQ(held.client().counters().malformed_frames, 0U);
    expect_same_end(held.server, held.client(), undisturbed);
  }
}

// ---- Time ----

TEST(ClientHold, AHoldHasADeadlineOfItsOwn) {
  HeldDevice held;
  for (uint32_t round = 1; round <= 2; ++round) {  // first after an Ack, then after a Pull
    ASSERT_TRUE(held.run_to_hold());
    const uint64_t begin_ms = held.link.now_ms;
    const ClientAction action = held.client().poll(begin_ms);
    EXPECT_EQ(action.kind, ClientActionKind::kWait);
    EXPECT_EQ(action.wake_ms, begin_ms + kDeviceHoldMs + kAnswerDeadlineMs) << "one sleep, no look before";
    ASSERT_TRUE(held.link.run_to(ClientState::kIdle));
    EXPECT_EQ(held.link.now_ms, begin_ms + kHeldAnswerDeadlineMs);
    EXPECT_EQ(held.client().counters().deadlines_missed, round);
    EXPECT_EQ(held.client().last_reason(), gs_REASON_DEADLINE);
    EXPECT_FALSE(held.client().is_held());
  }
  ASSERT_TRUE(held.run_to_hold());
  EXPECT_EQ(held.keeper.pulls, 3U);
  held.keeper.close_version();
  ASSERT_TRUE(held.link.run_to(ClientState::kTrain));
}

// The first frame of the answer ends the hold: what comes behind it has the time of any answer.
TEST(ClientHold, AnAnswerThatStallsHasTheUsualDeadline) {
  HeldDevice held;
  ASSERT_TRUE(held.run_to_hold());
  ServerMessage drain = FakeServer::make(gs_ServerMessage_drain_tag);
  drain.body.drain = {true, {3000, 3500}};
  held.server.send(drain);
  held.link.step();
  EXPECT_FALSE(held.client().is_held());
  EXPECT_EQ(held.client().poll(held.link.now_ms).wake_ms, held.link.now_ms + kAnswerDeadlineMs);
}

TEST(ClientHold, TheEndOfAHoldIsAWaitLikeAnyOther) {
  HeldDevice held;
  ASSERT_TRUE(held.run_to_hold());
  held.link.now_ms += kDeviceHoldMs;
  const uint64_t begin_ms = held.link.now_ms;
  const uint32_t pulls = held.keeper.pulls;
  held.keeper.end_hold();
  ASSERT_TRUE(held.link.run_to(ClientState::kIdle));
  EXPECT_EQ(held.client().last_wait(), gs_WAIT_CAUSE_NOT_CHOSEN);
  ASSERT_TRUE(held.run_to_hold());
  EXPECT_EQ(held.keeper.pulls, pulls + 1);
  EXPECT_GE(held.link.now_ms, begin_ms + held.server.run.retry.min_ms);
  EXPECT_LE(held.link.now_ms, begin_ms + held.server.run.retry.max_ms);
  EXPECT_EQ(held.client().counters().deadlines_missed, 0U);
}

// ---- Servers ----

TEST(ClientHold, AServerThatKnowsNoHoldIsPolledAsBefore) {
  std::vector<uint64_t> ends;
  for (const bool is_on_mains : {false, true}) {
    FakeDevice device;
    device.config.holds_pulls = is_on_mains;
    FakeServer server{FakeRun{}};
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(link.client().counters().updates_folded, server.run.round_count);
    ends.push_back(link.now_ms);
  }
  EXPECT_EQ(ends[0], ends[1]) << "the same draws from the same windows";
}

TEST(ClientHold, AServerThatDrainsIsLeft) {
  HeldDevice held;
  ASSERT_TRUE(held.run_to_hold());
  ServerMessage drain = FakeServer::make(gs_ServerMessage_drain_tag);
  drain.body.drain = {true, {3000, 3500}};
  held.server.send(drain);
  held.keeper.end_hold();
  const uint64_t begin_ms = held.link.now_ms;
  ASSERT_TRUE(held.link.run_until([&] { return held.server.hello_count() == 2; }));
  EXPECT_GE(held.link.now_ms - begin_ms, 3000U);
  EXPECT_EQ(held.client().counters().connection_failures, 0U);
}

TEST(ClientHold, TryLaterIsNoPullWhateverItSays) {
  HeldDevice held;
  held.server.verdicts = {gs_VERDICT_TRY_LATER};
  ASSERT_TRUE(held.link.run_until([&] { return held.keeper.base_digests.size() == 1; }));
  ASSERT_TRUE(held.link.run_to(ClientState::kIdle));
  EXPECT_FALSE(held.client().is_held());
  ASSERT_TRUE(held.run_to_hold()) << "the upload goes again, and its Ack counts";
  EXPECT_EQ(held.client().counters().updates_resent, 1U);
}

// ---- What is lost ----

// A cut at each byte of two rounds, in both directions: the upload counts once, and the end is that of an undisturbed
// pair.
TEST(ClientHold, ACutAtAnyByteLosesNothing) {
  FakeDevice reference;
  FakeServer undisturbed{FakeRun{}};
  FakeLink polling(reference, undisturbed);
  ASSERT_TRUE(polling.run_to_end());
  for (const bool is_up : {false, true}) {
    uint32_t drops = 1;
    for (uint64_t at = 1; drops > 0; at += 7) {
      SCOPED_TRACE(testing::Message() << (is_up ? "up " : "down ") << at);
      HeldDevice held;
      (is_up ? held.link.drop_after_up : held.link.drop_after_down) = at;
      for (uint32_t round = 0; round < 4; ++round) {
        ASSERT_TRUE(held.link.run_until([&] { return held.server.uploads.size() > round && held.keeper.has_pull(); }));
        held.keeper.close_version();
      }
      ASSERT_TRUE(held.link.run_to_end());
      expect_same_end(held.server, held.client(), undisturbed);
      drops = held.link.drops;
    }
  }
}

// A device that loses its power while its Pull is kept: the Task that was sent to nobody comes again.
TEST(ClientHold, ARestartWhileHeldIsALostAnswer) {
  HeldDevice held;
  ASSERT_TRUE(held.run_to_hold());
  held.keeper.close_version();
  held.link.restart();  // records and Task are lost with the session
  ASSERT_TRUE(held.link.run_to(ClientState::kTrain));
  EXPECT_EQ(held.client().replica().digest(), held.server.model().digest());
  ASSERT_TRUE(held.run_to_hold());
  EXPECT_EQ(held.server.uploads.size(), 2U);
  EXPECT_EQ(held.keeper.base_digests.back(), held.client().digest());
}

// A new session has told no server how long it may keep a Pull: an upload that is pending there names no model, and a
// Pull follows its Ack.
TEST(ClientHold, AnUploadBeforeTheFirstPullOfASessionNamesNoModel) {
  HeldDevice held;
  ASSERT_TRUE(held.link.run_to(ClientState::kUpload));
  held.link.break_connection();
  ASSERT_TRUE(held.run_to_hold());
  EXPECT_EQ(held.keeper.base_digests.front(), 0U);
  EXPECT_EQ(held.keeper.pulls, 2U);
}

// A device cannot be woken while it saves its state. So it saves a task before the update leaves, and no Pull is with
// the server meanwhile: an answer would be a message that nobody awaits.
TEST(ClientHold, NoPullIsKeptWhileTheStateIsSaved) {
  HeldDevice held;
  uint32_t saves = 0;
  for (uint32_t round = 0; round < 3; ++round) {
    ASSERT_TRUE(held.link.run_until([&] {
      if (held.client().state() == ClientState::kSave) {
        ++saves;
        EXPECT_FALSE(held.client().is_held());
        EXPECT_FALSE(held.keeper.has_pull());
      }
      return held.client().is_held() && held.keeper.has_pull();
    }));
    held.keeper.close_version();
  }
  EXPECT_GE(saves, 3U);
  EXPECT_EQ(held.link.saves.size(), 3U);
}

// A shell that saves at a time of its own does so while a Pull is kept: the answer waits in the link, and is taken.
TEST(ClientHold, AShellMaySaveWhileThePullIsKept) {
  HeldDevice held;
  ASSERT_TRUE(held.run_to_hold());
  held.keeper.close_version();  // on its way
  const std::span<const StoragePiece> pieces = held.client().state_pieces();
  ASSERT_FALSE(pieces.empty());
  held.device->storage.clear();
  for (const StoragePiece& piece : pieces) {
    held.device->storage.insert(held.device->storage.end(), piece.bytes, piece.bytes + piece.size);
  }
  held.link.now_ms += 5000;  // a flash that erases
  ASSERT_TRUE(held.link.run_to(ClientState::kTrain));
  EXPECT_EQ(held.client().replica().digest(), held.server.model().digest());
  held.link.restart();
  EXPECT_EQ(held.device->restore_status, Status::kOk);
  ASSERT_TRUE(held.run_to_hold());
  EXPECT_EQ(held.client().counters().malformed_frames, 0U);
}

// A bit of the model that flips while the Pull is kept: the Task's digest tells, and a snapshot comes.
TEST(ClientHold, AFlippedBitIsFoundAtTheTask) {
  HeldDevice held;
  ASSERT_TRUE(held.run_to_hold());
  held.client().replica_for_test().flip_bit_for_test(77);
  held.keeper.close_version();
  ASSERT_TRUE(held.link.run_to(ClientState::kTrain));
  EXPECT_EQ(held.client().counters().digest_mismatches, 1U);
  EXPECT_EQ(held.client().replica().digest(), held.server.model().digest());
}

}  // namespace
}  // namespace gradstream
