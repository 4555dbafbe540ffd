// Each kind of value: what it takes, what it expects instead, and that its text is read back.
#include "server/program/config_value.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

using Texts = std::vector<std::string>;

TomlNode node_of(const std::string& value) {
  TomlNode root;
  uint32_t line = 0;
  EXPECT_EQ(parse_toml("x = " + value, &root, &line).sentence, "") << value;
  return root.entries.empty() ? TomlNode() : root.entries.front().value;
}

// What was expected in place of the text; empty: it is taken.
template <typename Value>
std::string objection_to(const std::string& text, Value* out, ValueRange range = {}) {
  return read_value(node_of(text), out, range).sentence;
}

TEST(ConfigValue, AListHasTextsAndOneTextIsAListOfOne) {
  Texts texts = {"old"};
  for (const char* const wrong : {"1", "true", "[1]", "[\"a\", true]", "[[\"a\"]]", "\"a\\u0000b\""}) {
    EXPECT_EQ(objection_to(wrong, &texts), "a list of texts in quotes, such as [\"a\", \"b\"]") << wrong;
    EXPECT_EQ(texts, Texts{"old"}) << wrong;
  }
  EXPECT_EQ(objection_to("\"a\"", &texts), "");
  EXPECT_EQ(texts, Texts{"a"});
  EXPECT_EQ(objection_to("[\"b\", 'c \"d\"']", &texts), "");
  EXPECT_EQ(texts, (Texts{"b", "c \"d\""}));
  EXPECT_EQ(objection_to("[]", &texts), "");
  EXPECT_EQ(texts, Texts());
}

TEST(ConfigValue, ANumberHasItsRange) {
  uint32_t number = 7;
  EXPECT_EQ(objection_to("11", &number, {1, 10}), "a whole number from 1 to 10");
  EXPECT_EQ(objection_to("0", &number, {1, 10}), "a whole number from 1 to 10");
  EXPECT_EQ(objection_to("1.0", &number, {1, 10}), "a whole number from 1 to 10");
  EXPECT_EQ(number, 7U);
  EXPECT_EQ(objection_to("10", &number, {1, 10}), "");
  EXPECT_EQ(number, 10U);
  float real = 7;
  EXPECT_EQ(objection_to("nan", &real), "a finite number");
  EXPECT_EQ(objection_to("1e39", &real), "a finite number");
  EXPECT_EQ(real, 7.0F);
  EXPECT_EQ(objection_to("-0.0", &real), "");
  EXPECT_EQ(toml_text(real), "0");
  bool flag = true;
  EXPECT_EQ(objection_to("0", &flag), "true or false");
  EXPECT_EQ(objection_to("false", &flag), "");
  EXPECT_FALSE(flag);
}

TEST(ConfigValue, EachTextIsReadBack) {
  const std::string awkward = "a \"b\" \\ \n \x7f \xc3\xa4";
  std::string text;
  EXPECT_EQ(objection_to(toml_text(awkward), &text), "");
  EXPECT_EQ(text, awkward);
  Texts texts;
  EXPECT_EQ(objection_to(toml_text(Texts{awkward, "", "b"}), &texts), "");
  EXPECT_EQ(texts, (Texts{awkward, "", "b"}));
  EXPECT_EQ(objection_to(toml_text(Texts()), &texts), "");
  EXPECT_EQ(texts, Texts());
  float real = 0;
  EXPECT_EQ(objection_to(toml_text(0.1F), &real), "");
  EXPECT_EQ(real, 0.1F);
}

}  // namespace
}  // namespace gradstream
