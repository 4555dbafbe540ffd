// One table has the words of a state: those of the page's scripts, of the metrics and of the documentation are the
// same.
#include "server/watch/words.h"

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/fleet_rows.h"
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

TEST(Words, TheMetricsHaveEveryStateOfProgress) {
  const std::string text = metrics_text({}, {});
  for (const std::string& word : words_of<ProgressState>()) {
    EXPECT_NE(text.find("\ngradstream_run_progress{state=\"" + word + "\"} "), std::string::npos) << word;
  }
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Words, TheDocumentationHasARowForEveryStanding) {
  const std::string text = text_of_file(GS_SOURCE_DIR "/docs/how-to/watch.md");
  for (const std::string& word : words_of<DeviceStanding>()) {
    EXPECT_NE(text.find("\n| `" + word + "` | "), std::string::npos) << word;
  }
}

TEST(Words, TheDocumentationHasARowForEveryStateOfProgress) {
  const std::string text = text_of_file(GS_SOURCE_DIR "/docs/how-to/quality.md");
  for (const std::string& word : words_of<ProgressState>()) {
    EXPECT_NE(text.find("\n| `" + word + "` | "), std::string::npos) << word;
  }
}

// What `status` says of a round: the state before any event, or the last event.
TEST(Words, TheDocumentationNamesEveryStateOfARound) {
  const std::string text = text_of_file(GS_SOURCE_DIR "/docs/how-to/watch.md");
  const size_t begin = text.find("\n| `state` | `waiting`");
  ASSERT_NE(begin, std::string::npos);
  const std::string row = text.substr(begin, text.find('\n', begin + 1) - begin);
  std::set<std::string> states = words_of<RunEvent>();
  states.erase("resumed");  // the round is active again
  states.merge(words_of<gs_RunState>());
  for (const std::string& word : states) {
    EXPECT_NE(row.find("`" + word + "`"), std::string::npos) << word;
  }
}

// server/watch/ knows no rows of the database.
TEST(Words, TheMetricsCountDevicesByTheWordsOfTheirStates) {
  const std::string text = metrics_text({}, {});
  for (const std::string& word : words_of<DeviceState>()) {
    EXPECT_NE(text.find("\ngradstream_devices{state=\"" + word + "\"} "), std::string::npos) << word;
  }
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
