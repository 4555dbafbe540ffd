#include "host/shown.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(Shown, KeepsAMessageOneLineOfPrintableAscii) {
  EXPECT_EQ(shown(""), "``");
  EXPECT_EQ(shown("a b~"), "`a b~`");
  EXPECT_EQ(shown("\t\x7F\xC3\xA4"), "`\\x09\\x7F\\xC3\\xA4`");
  EXPECT_EQ(shown(std::string(41, 'x')), "`" + std::string(40, 'x') + "...`");
}

}  // namespace
}  // namespace gradstream
