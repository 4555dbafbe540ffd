#include "server/watch/status_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradstream {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

TEST(StatusJson, WordsOfItsOwnStandInTheirPlaces) {
  StatusWords words;
  words.is_ready = true;
  words.attention = attention_json({{"engine_away", AttentionLevel::kStops, "It is away.", "Look.", ""}});
  words.counters = "{\"batches_committed\":6}";
  words.more = {{"node", "{}"}, {"cluster", "null"}};
  const std::string status = status_json(WatchSnapshot(), HttpCounters(), words, 0);
  EXPECT_THAT(status, HasSubstr("\"ready\":true,"));
  EXPECT_THAT(status, HasSubstr("\"attention\":[{\"id\":\"engine_away\",\"level\":\"stops\",\"text\":\"It is away.\""));
  EXPECT_THAT(status, HasSubstr("\"counters\":{\"batches_committed\":6},\"refusals\":{},"));
  EXPECT_THAT(status, EndsWith(",\"rounds\":[],\"node\":{},\"cluster\":null}\n"));
}

TEST(StatusJson, TheOnlyQueryIsAVersion) {
  EXPECT_EQ(version_after(""), 0U);
  EXPECT_EQ(version_after("after=41"), 41U);
  for (const char* const query : {"after=", "after=x", "after=1x", "after=4294967296", "since=1", "after"}) {
    EXPECT_EQ(version_after(query), std::nullopt) << query;
  }
}

}  // namespace
}  // namespace gradstream
