#include "server/link/shell_counters.h"

#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

constexpr size_t kCount = sizeof(ShellCounters) / sizeof(Counter);

TEST(ShellCounters, EachIsVisitedOnceUnderItsName) {
  const ShellCounters counters;
  std::set<std::string> keys;
  std::set<const Counter*> seen;
  visit_shell_counters(counters, [&](const char* key, const char*, const Counter& counter) {
    keys.insert(key);
    seen.insert(&counter);
  });
  EXPECT_EQ(keys.size(), kCount);
  EXPECT_EQ(seen.size(), kCount);
}

TEST(ShellCounters, PartsAddUp) {
  ShellCounters part;
  ShellCounters total;
  uint64_t value = 0;
  visit_shell_counters(part, [&](const char*, const char*, Counter& counter) { counter += ++value; });
  add_counters(part, &total);
  add_counters(part, &total);
  value = 0;
  visit_shell_counters(total, [&](const char* key, const char*, uint64_t sum) { EXPECT_EQ(sum, 2 * ++value) << key; });
}

TEST(ShellCounters, AnotherThreadReadsWhileOneCounts) {
  Counter counter;
  constexpr uint64_t kEvents = 10000;
  std::thread counting([&] {
    for (uint64_t i = 0; i < kEvents; ++i) {
      ++counter;
    }
  });
  uint64_t last = 0;
  for (uint64_t now = counter; now < kEvents; now = counter) {
    ASSERT_GE(now, last);
    last = now;
    std::this_thread::yield();
  }
  counting.join();
  EXPECT_EQ(counter, kEvents);
}

}  // namespace
}  // namespace gradstream
