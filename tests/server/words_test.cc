// One table has the words of a state: those of the page's scripts are the same.
#include "server/watch/words.h"

#include <set>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/watch/page.h"
#include "server/watch/watch.h"

namespace gradstream {
namespace {

// The keys of `const NAME = {` in a script: each begins a line, before a colon.
std::set<std::string> keys_of(std::string_view path, const std::string& name) {
  std::set<std::string> keys;
  for (const PageFile& file : page_files()) {
    const size_t begin = file.path == path ? file.content.find("const " + name + " = {\n") : std::string_view::npos;
    if (begin == std::string_view::npos) {
      continue;
    }
    const std::string_view body = file.content.substr(begin, file.content.find("\n};", begin) - begin);
    for (size_t at = body.find("\n  "); at != std::string_view::npos; at = body.find("\n  ", at + 1)) {
      const std::string_view line = body.substr(at + 3, body.find('\n', at + 3) - at - 3);
      if (line.find(':') != std::string_view::npos && line.front() != ' ' && line.front() != '\'') {
        keys.emplace(line.substr(0, line.find(':')));
      }
    }
  }
  return keys;
}

template <typename Enum>
std::set<std::string> words_of() {
  std::set<std::string> words;
  for (const auto& [word, value] : names_of<Enum>()) {
    words.insert(word);
  }
  return words;
}

TEST(Words, ThePageKnowsEveryStanding) { EXPECT_EQ(keys_of("/fleet.js", "STANDINGS"), words_of<DeviceStanding>()); }

// An active run has a sentence of its own there.
TEST(Words, ThePageKnowsEveryStateOfARun) {
  std::set<std::string> states = keys_of("/page.js", "RUN_STATES");
  states.insert("active");
  EXPECT_EQ(states, words_of<gs_RunState>());
}

TEST(Words, EveryReasonOfThePageIsOneOfTheWire) {
  std::set<std::string> reasons;
  for (int reason = _gs_Reason_MIN; reason <= _gs_Reason_MAX; ++reason) {
    reasons.insert(reason_name(static_cast<gs_Reason>(reason)));
  }
  const std::set<std::string> shown = keys_of("/page.js", "REASONS");
  EXPECT_GE(shown.size(), 14U);
  EXPECT_THAT(reasons, testing::IsSupersetOf(shown));
}

TEST(Words, EveryVerdictHasOne) {
  for (int verdict = _gs_Verdict_MIN + 1; verdict <= _gs_Verdict_MAX; ++verdict) {
    EXPECT_STRNE(verdict_text(static_cast<uint32_t>(verdict)), "none") << verdict;
  }
  EXPECT_STREQ(verdict_text(gs_Verdict_VERDICT_NONE), "none");
  EXPECT_STREQ(verdict_text(99), "none");
}

}  // namespace
}  // namespace gradstream
