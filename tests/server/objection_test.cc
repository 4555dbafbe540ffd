#include "server/base/objection.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

Objection objection_to(int number) { return number > 0 ? "" : "number: above 0; use 1"; }

TEST(Objection, IsOneWhereThereIsASentence) {
  EXPECT_FALSE(Objection());
  EXPECT_FALSE(objection_to(1));
  const Objection objection = objection_to(0);
  EXPECT_TRUE(objection);
  EXPECT_EQ(objection.sentence, "number: above 0; use 1");
  EXPECT_EQ(objection, objection_to(-1));
  EXPECT_NE(objection, objection_to(1));
}

}  // namespace
}  // namespace gradstream
