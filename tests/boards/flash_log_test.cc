// The log in flash: what was written is there after any cut, as before the record or with it; both pages wear alike.
#include "boards/flash_log.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/fake_flash.h"

namespace gradstream {
namespace {

using Bytes = std::vector<uint8_t>;
constexpr uint32_t kPageSize = 1024;
constexpr uint32_t kTearCount = 8;  // ways to tear each call

struct Content {
  Bytes state;
  std::vector<Bytes> steps;
  bool operator==(const Content&) const = default;
};

// One write: a state, or a step with its index.
struct Operation {
  int step = -1;  // -1: a state
  Bytes bytes;
};

Bytes make_bytes(size_t size, uint32_t seed) {
  RandomStream stream({.seed = seed});
  Bytes out(size);
  for (uint8_t& byte : out) {
    byte = static_cast<uint8_t>(stream.next());
  }
  return out;
}

void apply(const Operation& operation, Content* content) {
  if (operation.step < 0) {
    *content = {operation.bytes, {}};
  } else {
    content->steps.resize(static_cast<size_t>(operation.step));
    content->steps.push_back(operation.bytes);
  }
}

// In two pieces, as a client has it.
Status write(FlashLog& log, const Operation& operation) {
  const size_t half = operation.bytes.size() / 3;
  const StoragePiece pieces[] = {{operation.bytes.data(), half},
                                 {operation.bytes.data() + half, operation.bytes.size() - half}};
  return operation.step < 0 ? log.write_state(pieces, 2)
                            : log.write_step(static_cast<uint32_t>(operation.step), pieces, 2);
}

Content read(const FlashLog& log) {
  Content content;
  content.state.resize(log.read_state(nullptr, 0));
  EXPECT_EQ(log.read_state(content.state.data(), content.state.size()), content.state.size());
  for (uint32_t i = 0; i < log.step_count(); ++i) {
    Bytes step(log.read_step(i, nullptr, 0));
    EXPECT_EQ(log.read_step(i, step.data(), step.size()), step.size());
    content.steps.push_back(step);
  }
  EXPECT_EQ(log.read_step(log.step_count(), nullptr, 0), 0U);
  return content;
}

// Rounds of a client: some steps, then a state; sizes that fill pages at different places.
std::vector<Operation> make_script() {
  std::vector<Operation> script;
  for (uint32_t round = 0; round < 6; ++round) {
    for (int step = 0; step < 4; ++step) {
      script.push_back({step, make_bytes(70 + 9 * round, 10 * round + static_cast<uint32_t>(step))});
    }
    script.push_back({-1, make_bytes(200 + 31 * round, 1000 + round)});
  }
  script.push_back({0, make_bytes(33, 77)});  // a task given up after its first step, then another one
  script.push_back({0, make_bytes(33, 78)});
  return script;
}

class FlashLogTest : public ::testing::Test {
 protected:
  FlashLogTest() { FakeFlash::current = &flash_; }
  ~FlashLogTest() override { FakeFlash::current = nullptr; }
  FakeFlash flash_{kPageSize};
};

TEST_F(FlashLogTest, KeepsTheLastStateAndTheStepsAfterIt) {
  FlashLog log(FakeFlash::kOps);
  ASSERT_EQ(log.open(), Status::kOk);
  EXPECT_EQ(read(log), Content{});
  Content expected;
  for (const Operation& operation : make_script()) {
    ASSERT_EQ(write(log, operation), Status::kOk);
    apply(operation, &expected);
    EXPECT_EQ(read(log), expected);
    FlashLog again(FakeFlash::kOps);
    ASSERT_EQ(again.open(), Status::kOk);
    EXPECT_EQ(read(again), expected);
    EXPECT_EQ(again.erase_count(), log.erase_count());
  }
  EXPECT_EQ(flash_.overwrites, 0U);
  EXPECT_GT(log.erase_count(), 5U);
}

TEST_F(FlashLogTest, ChecksWhatStandsThere) {
  FlashLog log(FakeFlash::kOps);
  ASSERT_EQ(log.open(), Status::kOk);
  EXPECT_EQ(log.check(), Status::kOk) << "empty";
  for (const Operation& operation : make_script()) {
    ASSERT_EQ(write(log, operation), Status::kOk);
    EXPECT_EQ(log.check(), Status::kOk);
  }
  std::vector<uint8_t>& page = flash_.pages[(log.erase_count() + 1) % 2];
  page[FlashLog::kPageHeaderSize + FlashLog::kRecordHeaderSize] ^= 1;
  EXPECT_EQ(log.check(), Status::kDataCorrupt);
}

// Every program and every erase of the script is cut, each in several ways; after it the log holds what it held before
// the record in hand or that record too, and goes on to the same end.
TEST_F(FlashLogTest, ACutInsideAnyCallLosesAtMostTheRecordInHand) {
  const std::vector<Operation> script = make_script();
  Content end;
  uint32_t call_count = 0;
  {
    FlashLog log(FakeFlash::kOps);
    ASSERT_EQ(log.open(), Status::kOk);
    for (const Operation& operation : script) {
      ASSERT_EQ(write(log, operation), Status::kOk);
      apply(operation, &end);
    }
    call_count = flash_.calls;
  }
  ASSERT_GT(call_count, 100U);
  uint32_t kept = 0, lost = 0;
  for (uint32_t call = 0; call < call_count; ++call) {
    for (uint32_t tear = 0; tear < kTearCount; ++tear) {
      SCOPED_TRACE(testing::Message() << "call " << call << " tear " << tear);
      flash_ = FakeFlash(kPageSize);
      flash_.cut_at = call;
      flash_.tear_seed = tear;
      std::optional<FlashLog> log;
      log.emplace(FakeFlash::kOps);
      ASSERT_EQ(log->open(), Status::kOk);
      Content before;
      for (const Operation& operation : script) {
        Content after = before;
        apply(operation, &after);
        if (write(*log, operation) != Status::kOk) {
          ASSERT_TRUE(flash_.is_off);
          flash_.restart();
          log.emplace(FakeFlash::kOps);
          static_cast<void>(log->open());  // the first page of all may be torn
          const Content found = read(*log);
          ASSERT_TRUE(found == before || found == after);
          ++(found == after ? kept : lost);
          if (found != after) {
            ASSERT_EQ(write(*log, operation), Status::kOk);
          }
        }
        before = after;
        ASSERT_EQ(read(*log), before);
      }
      ASSERT_EQ(read(*log), end);
      ASSERT_EQ(flash_.overwrites, 0U);
    }
  }
  EXPECT_GT(lost, call_count);  // most cuts
  EXPECT_GT(kept, 0U);          // those that came when the record stood there already
}

TEST_F(FlashLogTest, TwoTornPagesAreToldAndUsableAgain) {
  FlashLog log(FakeFlash::kOps);
  ASSERT_EQ(log.open(), Status::kOk);
  for (const Operation& operation : make_script()) {
    ASSERT_EQ(write(log, operation), Status::kOk);
  }
  flash_.pages[0][3] ^= 1;
  flash_.pages[1][9] ^= 4;
  FlashLog torn(FakeFlash::kOps);
  EXPECT_EQ(torn.open(), Status::kDataCorrupt);
  EXPECT_EQ(read(torn), Content{});
  const Operation operation{-1, make_bytes(100, 3)};
  ASSERT_EQ(write(torn, operation), Status::kOk);
  FlashLog again(FakeFlash::kOps);
  EXPECT_EQ(again.open(), Status::kOk);
  EXPECT_EQ(read(again), (Content{operation.bytes, {}}));
}

// A page is committed with a record in it: where none holds any more, something was lost.
TEST_F(FlashLogTest, APageWhoseFirstRecordDoesNotHoldIsTold) {
  FlashLog log(FakeFlash::kOps);
  ASSERT_EQ(log.open(), Status::kOk);
  const Operation state{-1, make_bytes(100, 1)}, next{-1, make_bytes(60, 2)};
  ASSERT_EQ(write(log, state), Status::kOk);
  ASSERT_EQ(write(log, next), Status::kOk);
  flash_.pages[(log.erase_count() + 1) % 2][FlashLog::kPageHeaderSize + FlashLog::kRecordHeaderSize] ^= 1;
  FlashLog torn(FakeFlash::kOps);
  EXPECT_EQ(torn.open(), Status::kDataCorrupt);
  EXPECT_EQ(read(torn), Content{});
  ASSERT_EQ(write(torn, next), Status::kOk);
  FlashLog again(FakeFlash::kOps);
  EXPECT_EQ(again.open(), Status::kOk);
  EXPECT_EQ(read(again), (Content{next.bytes, {}}));
}

TEST_F(FlashLogTest, AFlippedBitEndsThePageWhereItStands) {
  FlashLog log(FakeFlash::kOps);
  ASSERT_EQ(log.open(), Status::kOk);
  const Operation state{-1, make_bytes(100, 1)}, step0{0, make_bytes(50, 2)}, step1{1, make_bytes(50, 3)};
  for (const Operation& operation : {state, step0, step1}) {
    ASSERT_EQ(write(log, operation), Status::kOk);
  }
  const uint32_t at = FlashLog::kPageHeaderSize + FlashLog::record_size(100) + FlashLog::record_size(50);
  flash_.pages[0][at + FlashLog::kRecordHeaderSize + 7] ^= 0x10;
  FlashLog again(FakeFlash::kOps);
  ASSERT_EQ(again.open(), Status::kOk);
  EXPECT_EQ(read(again), (Content{state.bytes, {step0.bytes}}));
  ASSERT_EQ(write(again, step1), Status::kOk);  // into the other page, with what is left
  EXPECT_EQ(read(again), (Content{state.bytes, {step0.bytes, step1.bytes}}));
  EXPECT_EQ(flash_.erase_counts[1], 1U);
  EXPECT_EQ(flash_.overwrites, 0U);
}

TEST_F(FlashLogTest, AWornByteIsNoticedAndTheOtherPageTakesTheRecord) {
  FlashLog log(FakeFlash::kOps);
  ASSERT_EQ(log.open(), Status::kOk);
  const Operation first{-1, make_bytes(100, 1)};
  ASSERT_EQ(write(log, first), Status::kOk);
  flash_.stuck_offset = FlashLog::kPageHeaderSize + FlashLog::record_size(100) + FlashLog::kRecordHeaderSize;
  const Operation second{-1, Bytes(100, 0)};
  ASSERT_EQ(write(log, second), Status::kOk);
  EXPECT_EQ(read(log).state, second.bytes);
  EXPECT_EQ(flash_.erase_counts[1], 1U);
  FlashLog again(FakeFlash::kOps);
  ASSERT_EQ(again.open(), Status::kOk);
  EXPECT_EQ(read(again).state, second.bytes);
}

TEST_F(FlashLogTest, BothPagesWearAlike) {
  FlashLog log(FakeFlash::kOps);
  ASSERT_EQ(log.open(), Status::kOk);
  const Operation state{-1, make_bytes(300, 5)};
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(write(log, state), Status::kOk);
  }
  EXPECT_EQ(log.erase_count(), flash_.erase_counts[0] + flash_.erase_counts[1]);
  EXPECT_EQ(flash_.erase_counts[0], flash_.erase_counts[1]);
  EXPECT_EQ(log.erase_count(), 1000U);  // three states fill a page
}

TEST_F(FlashLogTest, WithoutPowerNothingIsBegunAndNothingIsLost) {
  FlashLog log(FakeFlash::kOps);
  ASSERT_EQ(log.open(), Status::kOk);
  const Operation state{-1, make_bytes(300, 5)};
  ASSERT_EQ(write(log, state), Status::kOk);
  flash_.is_power_good = false;
  const uint32_t calls = flash_.calls;
  EXPECT_EQ(write(log, {-1, make_bytes(300, 6)}), Status::kClosed);
  EXPECT_EQ(flash_.calls, calls);
  EXPECT_EQ(read(log).state, state.bytes);
}

TEST_F(FlashLogTest, RefusesWhatDoesNotFitAndStepsOutOfOrder) {
  FlashLog log(FakeFlash::kOps);
  ASSERT_EQ(log.open(), Status::kOk);
  const Operation state{-1, make_bytes(100, 5)};
  ASSERT_EQ(write(log, state), Status::kOk);
  const uint32_t most = kPageSize - FlashLog::kPageHeaderSize - FlashLog::kRecordHeaderSize;
  EXPECT_EQ(write(log, {-1, make_bytes(most + 1, 6)}), Status::kOutOfMemory);
  EXPECT_EQ(write(log, {1, make_bytes(10, 6)}), Status::kInvalidArgument);
  EXPECT_EQ(read(log).state, state.bytes);
  EXPECT_EQ(write(log, {0, make_bytes(most - 100, 6)}), Status::kOutOfMemory);  // not beside the state
  EXPECT_EQ(read(log).state, state.bytes);
  EXPECT_EQ(write(log, {-1, make_bytes(most, 6)}), Status::kOk);
}

}  // namespace
}  // namespace gradstream
