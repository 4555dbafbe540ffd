#include "server/base/event_catalogue.h"

#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(EventCatalogue, ALiteralIsItsRow) {
  EXPECT_EQ(std::string("draining"_event.id), "draining");
  EXPECT_EQ(&"draining"_event, find_event("draining"));
  EXPECT_EQ(find_event("drain"), nullptr);
  EXPECT_EQ(find_event(""), nullptr);
  EXPECT_EQ(find_event("zzz"), nullptr);
}

TEST(EventCatalogue, EveryRowIsFoundAndSaysWhatItMeans) {
  for (const EventRow& row : kEvents) {
    EXPECT_EQ(find_event(row.id), &row);
    EXPECT_NE(std::string(row.meaning), "") << row.id;
    EXPECT_FALSE(std::string(row.meaning).ends_with('.')) << row.id;
    EXPECT_FALSE(std::string(row.remedy).ends_with('.')) << row.id;
  }
}

// Who is woken by a line must learn what to do.
TEST(EventCatalogue, EveryRowAtWarnOrErrorHasARemedyInWords) {
  for (const EventRow& row : kEvents) {
    if (row.level == LogLevel::kWarn || row.level == LogLevel::kError) {
      EXPECT_NE(std::string(row.remedy).find(' '), std::string::npos) << row.id;
    }
  }
}

TEST(EventCatalogue, ALineThatNamesNoRemedyHasThatOfItsRow) {
  EXPECT_EQ(fields_of("update_changed"_event, Fields().add("device", "a").add("remedy", "none")).text(),
            "device=a remedy=none");
  const std::string remedy = "update_changed"_event.remedy;
  EXPECT_EQ(fields_of("update_changed"_event, Fields().add("device", "a")).text(),
            "device=a remedy=\"" + remedy + "\"");
  EXPECT_EQ(fields_of("version"_event, Fields().add("version", uint64_t{1})).text(), "version=1");
}

}  // namespace
}  // namespace gradstream
