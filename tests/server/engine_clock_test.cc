#include "server/engine/engine_clock.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(EngineClock, RunsOnFromTheMiddleOfAnAnswer) {
  for (const uint64_t engine_ms : {uint64_t{5}, uint64_t{1'700'000'000'000}}) {  // behind the node's clock, and ahead
    EngineClock clock;
    EXPECT_FALSE(clock.is_known());
    clock.ask(1'000'000);
    clock.answer(1'000'020, engine_ms);
    EXPECT_TRUE(clock.is_known());
    EXPECT_EQ(clock.at(1'000'010), engine_ms);
    EXPECT_EQ(clock.at(1'060'010), engine_ms + 60'000);
  }
}

TEST(EngineClock, TakesTheNewestAnswer) {
  EngineClock clock;
  clock.ask(1000);
  clock.answer(1002, 5000);
  clock.ask(2000);
  clock.answer(2002, 6300);  // the engine has failed over to a server with another clock
  EXPECT_EQ(clock.at(2001), 6300U);
}

TEST(EngineClock, TellsByHowMuchItWasSetBack) {
  EngineClock clock;
  clock.ask(1000);
  clock.answer(1002, 50'000);
  clock.ask(2000);
  clock.answer(2040, 51'000);  // its way back was slow: that explains the 19 ms
  EXPECT_EQ(clock.set_back_ms(0), 0U);
  clock.ask(3000);
  clock.answer(3002, 22'000);
  const uint64_t back_ms = 29'981;
  EXPECT_EQ(clock.set_back_ms(0), back_ms);
  EXPECT_EQ(clock.set_back_ms(51'983), back_ms) << "issued until then, by the clock before";
  EXPECT_EQ(clock.set_back_ms(51'983 + 2 * kClockErrorMaxMs), 0U) << "the new clock has come there";
  clock.ask(4000);
  clock.answer(4002, 13'000);  // once more
  EXPECT_EQ(clock.set_back_ms(0), back_ms + 10'000);
  clock.ask(5000);
  clock.answer(5002, 60'000);  // and on
  EXPECT_EQ(clock.at(5001), 60'000U);
}

TEST(EngineClock, LearnsNothingFromAnAnswerThatTookLong) {
  EngineClock clock;
  clock.ask(1000);
  clock.answer(1001 + 2 * kClockErrorMaxMs, 9000);
  EXPECT_FALSE(clock.is_known());
  clock.ask(5000);
  clock.answer(5000 + 2 * kClockErrorMaxMs, 9000);
  EXPECT_TRUE(clock.is_known());
  const uint64_t known_ms = clock.at(8000);
  clock.ask(8000);
  clock.answer(20'000, 9000);
  EXPECT_EQ(clock.at(8000), known_ms);
}

}  // namespace
}  // namespace gradstream
