// The console of a device that trains against a scripted server. One device per process: see gradstream_device_test.cc.
#include "firmware/console.h"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "firmware/client_main.h"
#include "include/gradstream/device.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_world.h"

namespace gradstream {
namespace {

// What was typed, and what the board says to the shell's questions.
struct Board {
  std::string typed;
  Status storage = Status::kUnimplemented;
  Status wipe = Status::kUnimplemented;
  int wipes = 0;
};
Board board;

constexpr ConsolePort kPort = {[](uint8_t* byte) {
                                 if (board.typed.empty()) {
                                   return false;
                                 }
                                 *byte = static_cast<uint8_t>(board.typed.front());
                                 board.typed.erase(0, 1);
                                 return true;
                               },
                               [] { return board.storage; },
                               [] {
                                 ++board.wipes;
                                 return board.wipe;
                               }};

// The lines that answer one poll.
std::vector<std::string> poll(Console& console) {
  fake_port().lines.clear();
  console.poll();
  return fake_port().lines;
}

std::vector<std::string> type(Console& console, const std::string& bytes) {
  board.typed += bytes;
  return poll(console);
}

TEST(Console, SaysNothingUnasked) {
  Console console(kPort, "1.2", "power_on");
  EXPECT_TRUE(poll(console).empty());
  EXPECT_TRUE(type(console, "stat").empty());
  EXPECT_TRUE(type(console, "\b\b\b\b\r\n").empty());
}

TEST(Console, AnswersOneCommandAPoll) {
  Console console(kPort, "1.2", "power_on");
  EXPECT_EQ(type(console, "help\nhelp\n").size(), 1u);
  EXPECT_EQ(poll(console).size(), 1u);
  EXPECT_TRUE(poll(console).empty());
}

TEST(Console, NamesItsCommandsWhereItKnowsNone) {
  Console console(kPort, "1.2", "power_on");
  const std::string known = "event=help commands=\"status, test, reset identity, help\"";
  EXPECT_EQ(type(console, "help\n"), std::vector<std::string>{known});
  EXPECT_EQ(type(console, "stauts\n"), (std::vector<std::string>{"event=unknown_command", known}));
  EXPECT_EQ(type(console, std::string(64, 'x') + "\n"), (std::vector<std::string>{"event=line_too_long", known}));
}

TEST(Console, TestsRandomNumbersArithmeticAndFlash) {
  Console console(kPort, "1.2", "power_on");
  fake_port().has_random = true;
  EXPECT_EQ(arithmetic_digest(), kArithmeticDigest);
  EXPECT_EQ(type(console, "test\n"),
            std::vector<std::string>{"event=test random=ok arithmetic=ok flash=none result=ok"});
  board.storage = Status::kOk;
  EXPECT_EQ(type(console, "test\n"), std::vector<std::string>{"event=test random=ok arithmetic=ok flash=ok result=ok"});
  board.storage = Status::kDataCorrupt;
  EXPECT_EQ(type(console, "test\n"),
            std::vector<std::string>{"event=test random=ok arithmetic=ok flash=failed result=failed"});
  board.storage = Status::kOk;
  fake_port().has_random = false;
  EXPECT_EQ(type(console, "test\n"),
            std::vector<std::string>{"event=test random=failed arithmetic=ok flash=ok result=failed"});
}

TEST(Console, WipesTheIdentityAfterAYes) {
  Console console(kPort, "1.2", "power_on");
  EXPECT_NE(type(console, "reset identity\n").at(0).find("yes?"), std::string::npos);
  EXPECT_EQ(type(console, "no\n"), std::vector<std::string>{"event=identity_kept"});
  EXPECT_EQ(board.wipes, 0);
  (void)type(console, "reset identity\n");
  EXPECT_NE(type(console, "yes\n").at(1).find("no flash driver"), std::string::npos);
  EXPECT_EQ(board.wipes, 1);
  board.wipe = Status::kClosed;
  (void)type(console, "reset identity\n");
  EXPECT_NE(type(console, "yes\n").at(1).find("does not erase"), std::string::npos);
}

FakeRun small_run() {
  FakeRun run;
  run.shape = {3, 1};
  return run;
}

std::string identity_text() {
  std::string identity = "identity = device-1\nkey = ";
  for (int i = 0; i < 32; ++i) {
    identity += "07";
  }
  return identity;
}

constexpr gs_sample_source kSamples = {nullptr, 5, 3, [](const void*, uint32_t index, float* out) {
                                         for (uint32_t i = 0; i < 3; ++i) {
                                           out[i] = static_cast<float>(index + i);
                                         }
                                         return 0;
                                       }};

void tell_status() {
  FakeWorld world(small_run());
  const std::string identity = identity_text();
  std::vector<uint8_t> arena(1 << 16);
  gs_config config = {};
  config.size = sizeof config;
  config.privacy = no_privacy();
  config.firmware_version = "1.2";
  config.identity_text = identity.data();
  config.identity_size = identity.size();
  config.samples = &kSamples;
  config.arena = arena.data();
  config.arena_size = arena.size();
  ASSERT_EQ(gs_init(&config), GS_OK);
  Console console(kPort, "1.2", "watchdog");
  EXPECT_EQ(type(console, "status\n"),
            (std::vector<std::string>{"event=status device=device-1 firmware=1.2 reset=watchdog "
                                      "server=server.test:7433 link=down tls=none",
                                      "event=status_model state=idle version=0 digest=0000000000000000 round=0 "
                                      "folded=0 last_fault=\"\""}));
  bool was_up = false;
  for (int turn = 0; turn < 20000; ++turn) {
    world.pass(gs_poll(fake_port().now_ms));
    gs_status_view status = {};
    status.size = sizeof status;
    gs_status(&status);
    const bool is_up = status.connected && status.version == 2 && !was_up;
    if (is_up || status.run_finished) {
      const std::vector<std::string> lines = type(console, "status\n");
      ASSERT_EQ(lines.size(), 2u);
      EXPECT_NE(lines[0].find(is_up ? "link=open tls=up" : "device=device-1"), std::string::npos) << lines[0];
      EXPECT_NE(lines[1].find(is_up ? "version=2 " : "state=finished version=4 "), std::string::npos) << lines[1];
      EXPECT_NE(lines[1].find(is_up ? "round=3 " : "round=4 "), std::string::npos) << lines[1];
    }
    was_up = was_up || is_up;
    if (status.run_finished) {
      EXPECT_TRUE(was_up);
      return;
    }
  }
  ADD_FAILURE() << "the run does not end";
}

#define IN_A_PROCESS(body)                              \
  EXPECT_EXIT(                                          \
      {                                                 \
        body;                                           \
        std::exit(testing::Test::HasFailure() ? 1 : 0); \
      },                                                \
      testing::ExitedWithCode(0), "")

TEST(Console, TellsItsStatus) { IN_A_PROCESS(tell_status()); }

FakeWorld* world_of_boot;

// A whole life of the firmware, to the end of the run; what stands in storage outlives it.
void boot(FakeWorld& world) {
  world_of_boot = &world;
  const std::string identity = identity_text();
  std::vector<uint8_t> arena(1 << 16), restore_buffer(1 << 16);
  ClientMainOptions options;
  options.board = "bench";
  options.identity_text = identity;
  options.samples = &kSamples;
  options.arena = arena;
  options.has_storage = fake_port().has_storage;
  options.restore_buffer = restore_buffer;
  options.reset_cause = 4;
  options.until_finished = true;
  options.privacy = no_privacy();  // five samples
  // The loop calls this once in every turn: the server's turn.
  options.feed_watchdog = [] { world_of_boot->pass(fake_port().now_ms); };
  EXPECT_EQ(client_main(options), kExitOk);
}

std::string digest_text(uint64_t digest) {
  return std::string(ConsoleLine("").hex("digest", digest).c_str()).substr(std::strlen("event="));
}

void boot_without_state() {
  FakeWorld world(small_run());
  boot(world);
  const std::vector<std::string>& lines = fake_port().lines;
  ASSERT_GE(lines.size(), 5u);
  EXPECT_EQ(lines[0], "event=boot board=\"bench\" firmware=0.1.0 reset=brown_out");
  EXPECT_EQ(lines[1],
            "event=started device=device-1 firmware=0.1.0 reset=brown_out server=server.test:7433 link=down tls=none "
            "samples=5 dimension=3");
  EXPECT_EQ(lines[2], "event=connected tls=psk_dhe_ke sessions=1 version=0");
  EXPECT_EQ(lines[3].substr(0, 20), "event=model version=");
  EXPECT_NE(lines[3].find(" from=server"), std::string::npos) << lines[3];
  const std::string end = "event=finished version=4" + digest_text(world.server.model().digest());
  EXPECT_EQ(lines.back().substr(0, end.size()), end);
}

// A board that cannot start still says which image it runs, and why it was reset.
void boot_without_identity() {
  FakeWorld world(small_run());
  std::vector<uint8_t> arena(1 << 16);
  ClientMainOptions options;
  options.identity_text = "identity = device-1\nkey = 07";
  options.samples = &kSamples;
  options.arena = arena;
  options.reset_cause = 2;
  EXPECT_EQ(client_main(options), kExitIdentity);
  const std::vector<std::string>& lines = fake_port().lines;
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "event=boot board=\"\" firmware=0.1.0 reset=watchdog");
  EXPECT_EQ(lines[1].substr(0, 20), "event=failed reason=");
}

TEST(Boot, SaysWhichImageCannotStart) { IN_A_PROCESS(boot_without_identity()); }
TEST(Boot, SaysWhoItIsAndWhatItHolds) { IN_A_PROCESS(boot_without_state()); }

void boot_with_state() {
  FakeWorld world(small_run());
  FakeDevice device(3);
  device.config.owner = identity_digest(test_identity());
  FakeLink link(device, world.server);
  ASSERT_TRUE(link.run_until([&] { return link.saves.size() == 3; }));
  const std::string digest = digest_text(link.client().replica().digest());
  world.server.on_lost();
  fake_port().has_storage = true;
  fake_port().storage = device.storage;
  boot(world);
  const std::vector<std::string>& lines = fake_port().lines;
  ASSERT_GE(lines.size(), 4u);
  EXPECT_EQ(lines[2], "event=model version=2" + digest + " from=storage");
  EXPECT_EQ(lines[3], "event=connected tls=psk_dhe_ke sessions=1 version=2");
}

TEST(Boot, SaysWhichModelItKept) { IN_A_PROCESS(boot_with_state()); }

}  // namespace
}  // namespace gradstream
