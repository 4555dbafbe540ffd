#include "server/watch/json_object.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(JsonObject, EachKindOfValueIsWrittenAsJsonHasIt) {
  EXPECT_EQ(JsonObject().text(), "{}");
  EXPECT_EQ(JsonObject()
                .add("count", UINT64_MAX)
                .add("flag", false)
                .add("half", 0.5)
                .word("state", "active")
                .raw("list", json_list(std::vector<int>{1, 2}, [](int value) { return std::to_string(value); }))
                .text(),
            R"({"count":18446744073709551615,"flag":false,"half":0.5,"state":"active","list":[1,2]})");
}

TEST(JsonObject, WhatIsNoNumberIsNull) {
  EXPECT_EQ(JsonObject().add("loss", JsonObject::kNoNumber).text(), R"({"loss":null})");
}

// A device says what it wants, also what is no UTF-8.
TEST(JsonObject, AnyTextBecomesAscii) {
  EXPECT_EQ(JsonObject().add("name", std::string("a \"b\" \\ \n")).text(), R"({"name":"a \"b\" \\ \n"})");
  EXPECT_EQ(JsonObject().add("name", std::string("\xc3\xa9\xff")).text(), R"({"name":"\u00e9\ufffd"})");
}

}  // namespace
}  // namespace gradstream
