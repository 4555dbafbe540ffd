#include "server/cluster/cluster_reader.h"

#include <atomic>
#include <memory>

#include <gtest/gtest.h>

#include "server/base/ports.h"

namespace gradstream {
namespace {

constexpr uint32_t kRunNumber = 3;
constexpr uint32_t kNeverMs = 3'600'000;  // no second look within a test, or no end of a wait

// What the looks of a test have come to.
struct Looks {
  std::atomic<uint32_t> count = 0;
  std::atomic<bool> is_away = false;
};

class FakeLook final : public EngineLook {
 public:
  explicit FakeLook(std::shared_ptr<Looks> looks) : looks_(std::move(looks)) {}
  Objection look(uint32_t run, EngineRunReport* out) override {
    out->run = run;
    out->term = ++looks_->count;
    return looks_->is_away ? Objection("It is away.") : Objection();
  }
  void rest() override {}

 private:
  const std::shared_ptr<Looks> looks_;
};

// read() gives up after kFirstLookMs, which a busy machine may take for the thread alone.
std::shared_ptr<const ClusterReading> reading_of(ClusterReader& reader, uint64_t term) {
  for (int i = 0; i < 100; ++i) {
    const std::shared_ptr<const ClusterReading> reading = reader.read(kRunNumber);
    if (reading != nullptr && (reading->run.term >= term || !reading->trouble.empty())) {
      return reading;
    }
  }
  return nullptr;
}

TEST(ClusterReader, WhoLooksFirstGetsAReading) {
  const auto looks = std::make_shared<Looks>();
  ClusterReader reader(std::make_unique<FakeLook>(looks), kNeverMs);
  const auto reading = reading_of(reader, 1);
  ASSERT_NE(reading, nullptr);
  EXPECT_EQ(reading->run.run, kRunNumber);
  EXPECT_EQ(reading->trouble, "");
  EXPECT_GT(reading->read_ms, 0U);
}

TEST(ClusterReader, NobodyLooksAndNothingIsAsked) {
  const auto looks = std::make_shared<Looks>();
  { const ClusterReader reader(std::make_unique<FakeLook>(looks), kNeverMs); }
  EXPECT_EQ(looks->count, 0U);
}

TEST(ClusterReader, ManyWhoLookAreOneQuestionAPeriod) {
  const auto looks = std::make_shared<Looks>();
  {
    ClusterReader reader(std::make_unique<FakeLook>(looks), kNeverMs);
    ASSERT_NE(reading_of(reader, 1), nullptr);
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(reader.read(kRunNumber)->run.term, 1U);
    }
  }
  EXPECT_EQ(looks->count, 1U);
}

// Who asks less often than a look may be made gets the look of now, and not that of the question before.
TEST(ClusterReader, AReadingOlderThanAPeriodIsWaitedFor) {
  const auto looks = std::make_shared<Looks>();
  ClusterReader reader(std::make_unique<FakeLook>(looks), 1, kNeverMs);
  for (int i = 0; i < 5; ++i) {
    const auto reading = reader.read(kRunNumber);
    ASSERT_NE(reading, nullptr);
    while (steady_ms() <= reading->over_ms + 1) {  // until it is older than a period
    }
    EXPECT_GT(reader.read(kRunNumber)->run.term, reading->run.term);
  }
}

TEST(ClusterReader, AReadingStaysWhereTheEngineIsAway) {
  const auto looks = std::make_shared<Looks>();
  ClusterReader reader(std::make_unique<FakeLook>(looks), 1);
  ASSERT_NE(reading_of(reader, 1), nullptr);
  looks->is_away = true;
  std::shared_ptr<const ClusterReading> reading;
  for (uint32_t count = looks->count; reading == nullptr || reading->trouble.empty();) {
    ASSERT_LT(looks->count, count + 1000);
    reading = reader.read(kRunNumber);
  }
  EXPECT_EQ(reading->trouble, "It is away.");
  EXPECT_EQ(reading->run.run, kRunNumber);
  EXPECT_GT(reading->read_ms, 0U);
}

TEST(PostgresLook, AnEngineThatIsAwayIsNamedWithinTheDeadline) {
  PostgresLook look("host=127.0.0.1 port=1 user=nobody dbname=none", kLookDeadlineMs);
  EngineRunReport report;
  EXPECT_NE(look.look(kRunNumber, &report).sentence, "");
  look.rest();
}

}  // namespace
}  // namespace gradstream
