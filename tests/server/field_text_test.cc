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
  const Key key{"step_size", "", above(0), "A sentence.", "auto"};
  EXPECT_EQ(key_text(key, 0.0F), "auto");
  EXPECT_EQ(key_text(key, 0.5F), "0.5");
  EXPECT_EQ(key_text(Key{"step_decay", "", {}, "A sentence."}, 0.0F), "0");
}

}  // namespace
}  // namespace gradstream
