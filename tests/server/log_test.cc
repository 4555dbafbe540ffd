#include "server/base/log.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(Log, LevelsHaveWords) {
  LogLevel level = LogLevel::kInfo;
  for (const char* const word : {"debug", "info", "warning", "error"}) {
    ASSERT_TRUE(parse_log_level(word, &level));
    EXPECT_EQ(log_level_text(level), word);
  }
  EXPECT_FALSE(parse_log_level("loud", &level));
}

TEST(Log, ASinkGetsEveryLine) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel level, std::string_view event, std::string_view text) {
    lines.push_back(std::string(log_level_text(level)) + " " + std::string(event) + " " + std::string(text));
  });
  log_event("session_replaced"_event, Fields().add("a", uint64_t{1}).add("remedy", "none"));
  log_event("deadline"_event, Fields().add("a", uint64_t{2}));
  log_milder("journal_broken"_event, LogLevel::kWarn, Fields().add("a", uint64_t{3}));
  log_event("draining"_event);
  log_pairs("deadline"_event, "a=4");
  set_log_sink({});
  const std::vector<std::string> expected = {"warning session_replaced a=1 remedy=none",
                                             "warning deadline a=2 remedy=\"check the link, and the device's console\"",
                                             "warning journal_broken a=3", "info draining ", "warning deadline a=4"};
  EXPECT_EQ(lines, expected);
}

}  // namespace
}  // namespace gradstream
