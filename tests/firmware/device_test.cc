// A whole device against a whole server in one process: client, TLS and framing over a pipe with faults.
#include "firmware/device.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "firmware/line.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_world.h"

namespace gradstream {
namespace {

struct Bench {
  explicit Bench(bool can_dial, const FakeRun& run = {}) : world(run) {
    EXPECT_EQ(tls_start(nullptr, 0), Status::kOk);
    world.pipe.can_dial = can_dial;
    parts.config.can_dial = can_dial;
    parts.config.has_storage = false;
    boot(test_identity());
  }
  void boot(const Identity& identity, uint32_t step_delay_ms = 0,
            TlsKeyExchange key_exchange = TlsKeyExchange::kPskEphemeral) {
    device.reset();
    parts.memory.arena.reset();
    DeviceConfig config;
    config.client = parts.config;
    config.transport = world.pipe.transport();
    config.identity = identity;
    config.key_exchange = key_exchange;
    config.step_delay_ms = step_delay_ms;
    device = std::make_unique<DeviceShell>(config, parts.memory.arena);
  }
  bool run_until(const std::function<bool()>& is_done, int turns_max = 20000) {
    for (int turn = 0; turn < turns_max && !is_done(); ++turn) {
      world.pass(device->poll(fake_port().now_ms));
    }
    return is_done();
  }
  bool run_to_end() {
    return run_until([this] { return device->client().run_finished(); });
  }
  uint64_t digest() const { return device->client().replica().digest(); }

  FakeWorld world;
  FakeDevice parts;
  std::unique_ptr<DeviceShell> device;
};

std::string lines() {
  std::string all;
  for (size_t i = 0; i < std::min<size_t>(fake_port().lines.size(), 20); ++i) {
    all += "\n" + fake_port().lines[i];
  }
  return all;
}

class DeviceLink : public testing::TestWithParam<bool> {};

TEST_P(DeviceLink, TrainsOverOneSession) {
  Bench bench(GetParam());
  ASSERT_TRUE(bench.run_to_end());
  EXPECT_EQ(bench.device->client().counters().sessions, 1u);
  EXPECT_EQ(bench.device->client().counters().updates_folded, 4u);
  EXPECT_EQ(bench.device->counters().link_faults, 0u);
  EXPECT_EQ(bench.device->counters().bytes_sent + bench.device->counters().bytes_received, bench.world.pipe.moved());
}

// Drops the connection after `first` bytes of a whole run, handshake included, then in a run of its own after `stride`
// more, and so on: each run comes to the end of an undisturbed one.
void expect_recovery(bool can_dial, size_t first, size_t stride) {
  size_t total = 0;
  uint64_t digest = 0;
  {
    Bench bench(can_dial);
    ASSERT_TRUE(bench.run_to_end());
    total = bench.world.pipe.moved();
    digest = bench.digest();
  }
  ASSERT_GT(total, 2000u);
  for (size_t cut = first; cut < total; cut += stride) {
    Bench bench(can_dial);
    bench.world.pipe.drop_after = cut;
    ASSERT_TRUE(bench.run_to_end()) << cut << lines();
    EXPECT_EQ(bench.digest(), digest) << cut;
    EXPECT_LE(fake_port().now_ms, 60000u) << cut << ": recovered, but late";
    EXPECT_EQ(bench.device->client().counters().updates_folded, 4u) << cut;
  }
}

TEST_P(DeviceLink, RecoversFromADropAtEvery29thByte) { expect_recovery(GetParam(), 0, 29); }

// Where nobody tells the device of the drop, it must find out by itself: every byte, in parts that a filter can choose.
// Twenty seconds in all, of which sanitizers and emulators would make minutes: they have the test above.
#if defined(__x86_64__) && !defined(GS_SANITIZED)
constexpr size_t kPartCount = 16;

class DeviceDrop : public testing::TestWithParam<size_t> {};

TEST_P(DeviceDrop, IsRecoveredFromAtEveryByteWithoutDialling) { expect_recovery(false, GetParam(), kPartCount); }

INSTANTIATE_TEST_SUITE_P(Parts, DeviceDrop, testing::Range(size_t{0}, kPartCount));
#endif

TEST_P(DeviceLink, WorksByteByByte) {
  Bench bench(GetParam());
  bench.world.pipe.piece_size_max = 1;
  bench.world.pipe.blocks_often = true;
  ASSERT_TRUE(bench.run_to_end());
}

TEST_P(DeviceLink, NamesWrongKeyAndUnknownIdentity) {
  for (const auto& [identity, word] : {std::pair{test_identity(8), "wrong key"},
                                       std::pair{test_identity(7, "stranger"), "does not know this identity"}}) {
    Bench bench(GetParam());
    bench.boot(identity);
    ASSERT_TRUE(bench.run_until([&] { return bench.device->counters().link_faults >= 2; })) << "it tries again";
    EXPECT_TRUE(bench.world.has_line(word)) << fake_port().lines.front();
    EXPECT_NE(std::string(bench.device->last_fault_text()), "");
    EXPECT_EQ(bench.device->client().counters().sessions, 0u);
  }
}

TEST_P(DeviceLink, StalledFrameMissesItsDeadline) {
  Bench bench(GetParam());
  ASSERT_TRUE(bench.run_until([&] { return bench.device->is_connected(); }));
  bench.world.tls.send({'G', 'S', 100, 0, 1, 2, 3});
  bench.world.silent = true;
  ASSERT_TRUE(bench.run_until([&] { return bench.device->counters().frame_deadlines == 1; }));
  EXPECT_TRUE(bench.world.has_line("stalled inside a frame"));
  bench.world.silent = false;
  bench.world.restart();
  EXPECT_TRUE(bench.run_to_end());
}

TEST_P(DeviceLink, BytesThatAreNoFrameEndTheSession) {
  Bench bench(GetParam());
  ASSERT_TRUE(bench.run_until([&] { return bench.device->is_connected(); }));
  bench.world.tls.send({'n', 'o', ' ', 'f', 'r', 'a', 'm', 'e'});
  ASSERT_TRUE(bench.run_until([&] { return bench.device->client().counters().malformed_frames == 1; }));
  bench.world.restart();
  EXPECT_TRUE(bench.run_to_end());
  EXPECT_EQ(bench.device->client().counters().sessions, 2u);
}

TEST_P(DeviceLink, AMissedDeadlineIsLoggedEachTime) {
  Bench bench(GetParam());
  bench.world.server.intercept = [](const DeviceMessage&) { return true; };  // TLS is answered, Hello is not
  const auto count = [] {
    return std::count(fake_port().lines.begin(), fake_port().lines.end(), "event=deadline state=hello version=0");
  };
  ASSERT_TRUE(bench.run_until([&] { return count() == 2; })) << lines();
  EXPECT_EQ(bench.device->client().counters().deadlines_missed, 2u);
  EXPECT_FALSE(bench.world.has_line("event=refused"));
  bench.world.server.intercept = nullptr;
  EXPECT_TRUE(bench.run_to_end());
}

TEST_P(DeviceLink, EachRefusalIsLoggedByName) {
  Bench bench(GetParam());
  bench.world.server.intercept = [&](const DeviceMessage&) {
    ServerMessage message = FakeServer::make(gs_ServerMessage_refuse_tag);
    message.body.refuse.reason = gs_REASON_OVERLOADED;
    message.body.refuse.has_retry = true;
    message.body.refuse.retry = {100, 200};
    bench.world.server.send(message);
    return true;
  };
  const auto count = [] {
    return std::count(fake_port().lines.begin(), fake_port().lines.end(), "event=refused reason=overloaded version=0");
  };
  ASSERT_TRUE(bench.run_until([&] { return count() == 3; })) << lines();
  EXPECT_FALSE(bench.world.has_line("event=deadline"));
  bench.world.server.intercept = nullptr;
  EXPECT_TRUE(bench.run_to_end());
}

TEST_P(DeviceLink, AnImageThatLacksSomethingSaysSoOnce) {
  Bench bench(GetParam());
  bench.world.server.wait_count = 3;
  bench.world.server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_wait_tag) {
      message.body.wait.cause = gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE;
    }
  };
  ASSERT_TRUE(bench.run_until([&] { return bench.device->client().counters().tasks_done == 1; })) << lines();
  EXPECT_EQ(std::count_if(fake_port().lines.begin(), fake_port().lines.end(),
                          [](const std::string& line) { return line.starts_with("event=not_capable"); }),
            1);
}

TEST_P(DeviceLink, ADeviceWithAnotherNetworkNamesBoth) {
  Bench bench(GetParam());
  bench.parts.config.network_digest = 0xabc;
  bench.boot(test_identity());
  bench.world.server.wait_count = 3;
  bench.world.server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_welcome_tag) {
      message.body.welcome.network_digest = 0xdef;
    } else if (message.which_body == gs_ServerMessage_wait_tag) {
      message.body.wait.cause = gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE;
    }
  };
  ASSERT_TRUE(bench.run_until([&] { return bench.world.has_line("event=not_capable"); })) << lines();
  EXPECT_TRUE(
      bench.world.has_line("event=not_capable network=0000000000000abc wanted=0000000000000def reason=\"the run trains "
                           "another network than this device has: give it the run's file (--network)\""))
      << lines();
}

TEST_P(DeviceLink, ARefusedUpdateIsLoggedWithValueLimitAndKeys) {
  Bench bench(GetParam());
  bench.world.server.verdicts = {gs_VERDICT_REFUSED};
  bench.world.server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_ack_tag && message.body.ack.verdict == gs_VERDICT_REFUSED) {
      message.body.ack.reason = gs_REASON_OUT_OF_RANGE;
      message.body.ack.value = 682391;
      message.body.ack.limit = 128;
      message.body.ack.fold_scale_log2 = 8 + 1;
      message.body.ack.step_size = 4.5e-8F;
    }
  };
  ASSERT_TRUE(bench.run_until([&] { return bench.device->client().counters().updates_refused == 1; })) << lines();
  ASSERT_TRUE(bench.run_until([&] { return bench.world.has_line("event=refused"); }));
  EXPECT_TRUE(
      bench.world.has_line("event=refused reason=out_of_range version=0 value=682400 limit=128 "
                           "remedy=\"begin a run with fold_scale_log2 = 8 and step_size = 4.5e-8\""))
      << lines();
}

TEST_P(DeviceLink, ABadSampleIsLoggedByNumberAndIsNoLackOfTheImage) {
  Bench bench(GetParam());
  bench.parts.samples.values[0] = std::numeric_limits<Real>::quiet_NaN();
  bench.world.server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_wait_tag) {
      message.body.wait.cause = gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE;
    }
  };
  ASSERT_TRUE(bench.run_until([&] { return bench.world.server.refusals.size() == 2; })) << lines();
  // In the version whose step has drawn it.
  EXPECT_TRUE(
      bench.world.has_line("event=bad_sample reason=not_finite version=2 sample=1 "
                           "text=\"sample 1 (from 1) is no number\""))
      << lines();
  EXPECT_FALSE(bench.world.has_line("event=not_capable"));
}

TEST_P(DeviceLink, StorageThatFailsIsNamedAtItsFirstFailureAndItsRecovery) {
  Bench bench(GetParam());
  bench.parts.config.has_storage = true;  // of which the port has none yet
  bench.boot(test_identity());
  const auto count = [](const char* start) {
    return std::count_if(fake_port().lines.begin(), fake_port().lines.end(),
                         [start](const std::string& line) { return line.starts_with(start); });
  };
  ASSERT_TRUE(bench.run_until([&] { return bench.device->client().counters().save_failures == 2; })) << lines();
  EXPECT_EQ(count("event=state_not_saved"), 1);
  fake_port().has_storage = true;
  ASSERT_TRUE(bench.run_to_end());
  EXPECT_EQ(count("event=state_saved failures=2"), 1);
  EXPECT_EQ(count("event=state_not_saved"), 1);
}

TEST_P(DeviceLink, AStepThatIsNotKeptIsNamedAndTheRunGoesOn) {
  Bench bench(GetParam());
  bench.parts.config.has_storage = true;
  bench.boot(test_identity());
  fake_port().has_storage = true;
  fake_port().keeps_steps = false;
  ASSERT_TRUE(bench.run_to_end());
  EXPECT_TRUE(bench.world.has_line("event=step_not_kept")) << lines();
}

TEST_P(DeviceLink, SlowStepsLeaveTheLinkAlive) {
  Bench bench(GetParam());
  bench.boot(test_identity(), 300);
  ASSERT_TRUE(bench.run_to_end());
  EXPECT_GE(fake_port().now_ms, 1000u + 8 * 300u);  // 4 rounds of 2 steps
  EXPECT_EQ(bench.device->client().counters().sessions, 1u);
}

INSTANTIATE_TEST_SUITE_P(Transports, DeviceLink, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "dials" : "cannot_dial"; });

TEST(Device, UnreachableServerIsNamed) {
  Bench bench(true);
  bench.world.pipe.refuses = true;
  ASSERT_TRUE(bench.run_until([&] { return bench.device->counters().link_faults == 3; }));
  EXPECT_TRUE(bench.world.has_line("cannot be reached"));
  EXPECT_TRUE(bench.world.has_line("server=server.test:7433"));
  bench.world.pipe.refuses = false;
  EXPECT_TRUE(bench.run_to_end());
}

TEST(Device, TheTransportsOwnWordsComeFirst) {
  Bench bench(true);
  bench.world.pipe.refuses = true;
  bench.world.pipe.fault_text = "the cable is out";
  EXPECT_FALSE(bench.run_until([&] { return bench.device->client().run_finished(); }, 50));
  EXPECT_TRUE(bench.world.has_line("event=link_lost reason=\"the cable is out\" server=server.test:7433")) << lines();
  EXPECT_FALSE(bench.world.has_line("cannot be reached"));
  EXPECT_STREQ(bench.device->last_fault_text(), "the cable is out");
}

// Without dialling nobody says that nobody is there.
TEST(Device, SilentLinkStartsTheHandshakeAgain) {
  Bench bench(false);
  bench.world.silent = true;
  bench.world.pipe.drop_after = 0;
  bench.world.back_ms = UINT64_MAX;
  ASSERT_TRUE(bench.run_until([&] { return bench.device->counters().handshakes == 3; }));
  EXPECT_TRUE(bench.world.has_line("no answer to the handshake"));
  bench.world.silent = false;
  bench.world.restart();
  EXPECT_TRUE(bench.run_to_end());
}

// Each attempt takes and gives back what TLS needs; the clock passes 2^32 ms.
TEST(Device, OutlastsASilentLinkOfADay) {
  constexpr uint64_t kDayMs = 24 * 3600 * 1000;
  constexpr int kTurnsMax = 2 * kDayMs / 100;  // FakeWorld passes at most 100 ms in a turn, less while bytes move
  Bench bench(false);
  fake_port().now_ms = (uint64_t{1} << 32) - kDayMs / 2;
  const uint64_t end_ms = fake_port().now_ms + kDayMs;
  bench.boot(test_identity(), 0, TlsKeyExchange::kPsk);  // no key pair for each of ten thousand attempts
  bench.world.silent = true;
  bench.world.pipe.drop_after = 0;
  bench.world.back_ms = UINT64_MAX;
  ASSERT_TRUE(bench.run_until([&] { return fake_port().now_ms >= end_ms; }, kTurnsMax));
  const uint32_t handshakes = bench.device->counters().handshakes;
  EXPECT_GT(handshakes, kDayMs / (8000 + kLinkQuietMs + kLinkSilenceMs + 200));
  EXPECT_EQ(bench.device->counters().link_faults, handshakes);
  bench.world.silent = false;
  bench.world.restart();
  EXPECT_TRUE(bench.run_to_end());
}

// ---- Local steps that take long ----

// Samples whose reading takes time on the device's own clock.
struct SlowSamples {
  explicit SlowSamples(FakeDevice& device, uint64_t read_ms) : inner(device.samples.source), ms(read_ms) {
    device.samples.source.context = this;
    device.samples.source.read = [](const void* context, uint32_t index, Real* out) {
      const SlowSamples& self = *static_cast<const SlowSamples*>(context);
      fake_port().now_ms += self.ms;
      ++self.reads;
      return self.inner.read(self.inner.context, index, out);
    };
  }
  SampleSource inner;
  uint64_t ms;
  mutable uint32_t reads = 0;
};

// A step of 30 evaluations of 6 samples, 0.4 s each: 12 s and more in which a poll takes less than one.
TEST_P(DeviceLink, ALongStepLetsEveryPollBeShort) {
  uint64_t digest = 0;
  {
    Bench bench(GetParam());
    ASSERT_TRUE(bench.run_to_end());
    digest = bench.digest();
  }
  Bench bench(GetParam());
  SlowSamples samples(bench.parts, 400);
  uint64_t longest_ms = 0;
  uint64_t step_ms = 0;
  uint64_t longest_step_ms = 0;
  uint32_t pending = 0;
  for (int turn = 0; turn < 50000 && !bench.device->client().run_finished(); ++turn) {
    const uint64_t begun_ms = fake_port().now_ms;
    const uint64_t wake_ms = bench.device->poll(begun_ms);
    const uint64_t taken_ms = fake_port().now_ms - begun_ms;
    longest_ms = std::max(longest_ms, taken_ms);
    step_ms += taken_ms;
    longest_step_ms = std::max(longest_step_ms, step_ms);
    pending += wake_ms == 0 ? 1 : 0;
    EXPECT_EQ(wake_ms == 0, bench.device->client().is_step_open());
    step_ms = wake_ms == 0 ? step_ms : 0;
    bench.world.pass(wake_ms);
  }
  EXPECT_TRUE(bench.device->client().run_finished());
  EXPECT_GE(longest_step_ms, 12000u);
  EXPECT_LE(longest_ms, 2000u) << "a watchdog and a user wait";
  EXPECT_GT(pending, 100u);
  EXPECT_EQ(bench.digest(), digest) << "the same model, bit for bit";
  EXPECT_EQ(bench.device->client().counters().connection_failures, 0u);
}

// Where the link stays up, what comes in during a step is dealt with before the step ends.
TEST(Device, TheLinkIsServedDuringALongStep) {
  Bench bench(false);
  SlowSamples samples(bench.parts, 400);
  ASSERT_TRUE(bench.run_until([&] { return bench.device->client().is_step_open(); }));
  const uint32_t reads = samples.reads;
  EXPECT_TRUE(bench.device->is_connected());
  bench.world.tls.send({1, 2, 3, 4, 5, 6, 7, 8});  // no frame: the session ends
  ASSERT_TRUE(bench.run_until([&] { return !bench.device->is_connected(); }, 10));
  EXPECT_TRUE(bench.device->client().is_step_open()) << "the work goes on";
  EXPECT_LE(samples.reads, reads + 10);
  EXPECT_EQ(bench.device->client().counters().local_steps, 0u);
  EXPECT_TRUE(bench.run_until([&] { return bench.device->client().run_finished(); }, 50000));
  EXPECT_EQ(bench.device->client().counters().updates_folded, 4u);
}

// Fast samples in slow company: slices grow, so that a poll does many units of work.
TEST(Device, SlicesGrowWhereWorkIsFast) {
  Bench bench(false);
  SlowSamples samples(bench.parts, 0);
  uint32_t pending = 0;
  for (int turn = 0; turn < 20000 && !bench.device->client().run_finished(); ++turn) {
    const uint64_t wake_ms = bench.device->poll(fake_port().now_ms);
    pending += wake_ms == 0 ? 1 : 0;
    bench.world.pass(wake_ms);
  }
  EXPECT_TRUE(bench.device->client().run_finished());
  EXPECT_EQ(pending, 0u) << "a step of less than 20 ms is one poll";
}

// What is left of an old session must not be taken for an answer.
TEST(Device, NoiseBeforeTheHandshakeIsDiscarded) {
  Bench bench(false);
  for (int i = 0; i < 50; ++i) {
    bench.world.pipe.to_device.push_back(static_cast<uint8_t>(i));
  }
  ASSERT_TRUE(bench.run_to_end());
  EXPECT_EQ(bench.device->counters().link_faults, 0u);
}

TEST(ConsoleLine, RealNumbersHaveFourDigits) {
  const auto text = [](float value) { return std::string(ConsoleLine("x").text(" ").real(value).c_str() + 8); };
  EXPECT_EQ(text(0), "0");
  EXPECT_EQ(text(1), "1");
  EXPECT_EQ(text(-1), "-1");
  EXPECT_EQ(text(0.25F), "0.25");
  EXPECT_EQ(text(128), "128");
  EXPECT_EQ(text(127345), "127300");
  EXPECT_EQ(text(99999.5F), "100000");
  EXPECT_EQ(text(0.00123456F), "0.001235");
  EXPECT_EQ(text(0.999999F), "1");
  EXPECT_EQ(text(7.7e-7F), "7.7e-7");
  EXPECT_EQ(text(1.5e9F), "1.5e9");
  EXPECT_EQ(text(-3e-38F), "-3e-38");
  EXPECT_EQ(text(std::numeric_limits<float>::max()), "3.403e38");
  EXPECT_EQ(text(std::numeric_limits<float>::denorm_min()).substr(0, 2), "1.");
  EXPECT_EQ(text(std::numeric_limits<float>::infinity()), "not_a_number");
}

}  // namespace
}  // namespace gradstream
