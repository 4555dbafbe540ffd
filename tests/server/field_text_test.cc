#include "server/run/field_text.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(FieldText, IsTheShortestThatReadsBack) {
  EXPECT_EQ(field_text(0.1F), "0.1");
  EXPECT_EQ(field_text(0.1), "0.1");
  EXPECT_EQ(field_text(16777216U), "16777216");
  EXPECT_EQ(field_text(true), "true");
  EXPECT_EQ(field_text(std::string("a b")), "a b");
  EXPECT_EQ(field_text(Work::kTimed), "timed");
}

}  // namespace
}  // namespace gradstream
