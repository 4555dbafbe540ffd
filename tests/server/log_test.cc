#include "server/base/log.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(Log, LevelsHaveWords) {
  LogLevel level = LogLevel::kInfo;
  for (const char* const word : {"debug", "info", "warn", "error"}) {
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
  log_event(LogLevel::kWarn, "thing", Fields().add("a", uint64_t{1}));
  set_log_sink({});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], "warn thing a=1");
}

}  // namespace
}  // namespace gradstream
