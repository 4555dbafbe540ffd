#include "server/base/fields.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(Fields, NothingThatAPeerSendsCanForgeALine) {
  Fields fields;
  fields.add("n", uint64_t{5}).add("plain", "abc/1.2:3").add("empty", "").add("text", "a b\"c\\").add_hex("d", 255);
  fields.add("forged", "x\n2026 error event=y").add_pairs("k=v");
  EXPECT_EQ(fields.text(),
            "n=5 plain=abc/1.2:3 empty=\"\" text=\"a b\\\"c\\\\\" d=00000000000000ff "
            "forged=\"x\\x0a2026 error event=y\" k=v");
}

TEST(Fields, AHexNumberHasAllItsDigits) {
  EXPECT_EQ(hex(0), "0000000000000000");
  EXPECT_EQ(hex(0x0123456789abcdefULL), "0123456789abcdef");
}

}  // namespace
}  // namespace gradstream
