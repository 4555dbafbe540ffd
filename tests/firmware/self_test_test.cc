// The self-test over boards of a test, in virtual time: what it says of a board that is well, and of what fails.
#include "firmware/self_test.h"

#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/fake_flash.h"

namespace gradstream {
namespace {

uint64_t now_ms;
uint32_t fed;
uint32_t noise;
std::map<std::string, std::string> fields;

// Each look at the clock takes a millisecond.
uint64_t tick() { return ++now_ms; }

uint32_t read_cycles() { return static_cast<uint32_t>(now_ms * 1000); }

void keep(const char* line) {
  const std::string text(line);
  const size_t at = text.find('=');
  fields[text.substr(7, at - 7)] = text.substr(at + 1);
}

Status read_noise(uint8_t* out, size_t size) {
  RandomStream stream({.seed = 3, .step = ++noise});
  for (size_t i = 0; i < size; ++i) {
    out[i] = static_cast<uint8_t>(stream.next());
  }
  return Status::kOk;
}

Status read_stuck(uint8_t* out, size_t size) {
  std::fill_n(out, size, uint8_t{0xFF});
  return Status::kOk;
}

constexpr ProcessorWord kProcessor[] = {{"cpuid", 0x410fc241}};

SelfTestBoard good_board() {
  SelfTestBoard board;
  board.name = "mps2-an386";
  board.version = "0.1.0";
  board.sources = "0123456789ab";
  board.processor = kProcessor;
  board.cycles = {"dwt", UINT32_MAX, read_cycles};
  board.entropy = {"generator", read_noise};
  board.flash = &FakeFlash::kOps;
  board.sizes = {4608, 31744, 20000, 262144, 60000};
  board.stack_used = [] { return size_t{2000}; };
  board.feed = [] { ++fed; };
  board.now_ms = tick;
  board.log = keep;
  return board;
}

std::map<std::string, std::string> test(const SelfTestBoard& board, uint32_t nonce = 0) {
  now_ms = 0;
  fed = 0;
  noise = 0;
  fields.clear();
  run_self_test(board, nonce, std::make_unique<SelfTestMemory>().get());
  return fields;
}

class SelfTest : public testing::Test {
 protected:
  SelfTest() { FakeFlash::current = &flash_; }
  FakeFlash flash_{16384};
};

TEST_F(SelfTest, SaysWhatABoardIsAndDoes) {
  const auto found = test(good_board(), 17);
  const std::map<std::string, std::string> wanted = {{"form", "1"},
                                                     {"board", "mps2-an386"},
                                                     {"emulated", "0"},
                                                     {"cpuid", "410fc241"},
                                                     {"fused", "0"},
                                                     {"subnormals", "1"},
                                                     {"nonce", "17"},
                                                     {"cycle_counter", "dwt"},
                                                     {"x25519", "ok"},
                                                     {"flash", "2"},
                                                     {"flash_slot", "found"},
                                                     {"flash_read_back", "ok"},
                                                     {"flash_power", "good"},
                                                     {"entropy", "generator"},
                                                     {"entropy_bytes", "8192"},
                                                     {"entropy_health", "ok"},
                                                     {"stack", "4608"},
                                                     {"stack_used", "2000"},
                                                     {"ram", "31744"},
                                                     {"image_used", "60000"},
                                                     {"cycles_per_second", "1000000"}};
  for (const auto& [name, value] : wanted) {
    EXPECT_EQ(found.at(name), value) << name;
  }
  EXPECT_EQ(found.count("end crc"), 1u);
  EXPECT_GT(fed, 100u);
  EXPECT_EQ(flash_.overwrites, 0u);
  for (const auto& page : flash_.pages) {
    EXPECT_TRUE(std::all_of(page.begin(), page.end(), [](uint8_t byte) { return byte == 0xFF; }));
  }
}

TEST_F(SelfTest, NamesWhatABoardLacks) {
  SelfTestBoard board = good_board();
  board.cycles = {};
  board.entropy = {};
  board.flash = nullptr;
  board.sizes = {};
  const auto found = test(board);
  for (const char* name : {"cycle_counter", "entropy", "flash", "stack"}) {
    EXPECT_EQ(found.at(name), "none") << name;
  }
  for (const char* name : {"cycles_per_second", "entropy_bytes", "flash_erase_ms", "stack_used", "ram"}) {
    EXPECT_EQ(found.count(name), 0u) << name;
  }
}

TEST_F(SelfTest, FindsAWornFlash) {
  flash_.stuck_offset = 300;
  EXPECT_EQ(test(good_board()).at("flash_read_back"), "wrong");
}

TEST_F(SelfTest, FindsAFlashThatForgets) {
  flash_.cut_at = 70;  // behind the erase, 64 programs and both erases: amid the log
  EXPECT_EQ(test(good_board()).at("flash_slot"), "lost");
}

TEST_F(SelfTest, FeedsTheWatchdogBetweenTwoSlowErases) {
  constexpr uint64_t kWatchdogMs = 8000;  // of every board (boards/bare/machine.h)
  static uint64_t fed_ms, longest_ms;
  fed_ms = longest_ms = 0;
  FlashOps slow = FakeFlash::kOps;
  slow.erase = [](uint32_t page) {
    now_ms += 4000;  // as a sector of an STM32F405 at most
    return FakeFlash::kOps.erase(page);
  };
  SelfTestBoard board = good_board();
  board.flash = &slow;
  board.feed = [] {
    longest_ms = std::max(longest_ms, now_ms - fed_ms);
    fed_ms = now_ms;
  };
  EXPECT_EQ(test(board).at("flash_slot"), "found");
  EXPECT_GE(longest_ms, 4000u);
  EXPECT_LT(longest_ms, kWatchdogMs);
}

// ./run report check refuses each 0 as impossible.
TEST_F(SelfTest, EndsWhereTheClockStandsStill) {
  SelfTestBoard board = good_board();
  board.now_ms = [] { return uint64_t{5}; };
  const auto found = test(board);
  for (const char* name : {"cycles_per_second", "step_us", "record_us", "x25519_us", "flash_erase_ms"}) {
    EXPECT_EQ(found.at(name), "0") << name;
  }
}

TEST_F(SelfTest, FindsASourceThatIsStuck) {
  SelfTestBoard board = good_board();
  board.entropy.read = read_stuck;
  const auto found = test(board);
  EXPECT_EQ(found.at("entropy_health"), "failed");
  EXPECT_EQ(found.at("entropy_most_common"), "8192");
}

TEST_F(SelfTest, FindsASourceThatFails) {
  SelfTestBoard board = good_board();
  board.entropy.read = [](uint8_t*, size_t) { return Status::kClosed; };
  const auto found = test(board);
  EXPECT_EQ(found.at("entropy_bytes"), "0");
  EXPECT_EQ(found.at("entropy_health"), "failed");
}

TEST_F(SelfTest, AnswersANonceOfItsOwn) {
  const auto first = test(good_board(), 1), again = test(good_board(), 1), other = test(good_board(), 2);
  EXPECT_EQ(first, again);
  EXPECT_EQ(first.at("digest"), other.at("digest"));
  EXPECT_NE(first.at("challenge"), other.at("challenge"));
}

}  // namespace
}  // namespace gradstream
