#include "server/base/table_row.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradstream {
namespace {

using testing::HasSubstr;

using Row = std::vector<std::string_view>;

TEST(TableRow, SplitsAtCommasAndLosesBlanksAndQuotes) {
  const struct {
    std::string_view line;
    Row row;
  } cases[] = {
      {"a,b", {"a", "b"}},
      {"a", {"a"}},
      {" a , b ", {"a", "b"}},
      {"a,\t b", {"a", "b"}},
      {"\"a\",\"b\"", {"a", "b"}},
      {" \" a \" , \"b\" ", {"a", "b"}},
      {"\"a,b\",c", {"a,b", "c"}},
      {"\"a;b\"", {"a;b"}},
      {"a\"b,c", {"a\"b", "c"}},
      {"", {""}},
      {",", {"", ""}},
      {"a,", {"a", ""}},
      {",,a", {"", "", "a"}},
      {"\"\",", {"", ""}},
  };
  for (const auto& [line, row] : cases) {
    Row found = {"of before"};
    EXPECT_EQ(split_row(line, &found).text, nullptr) << line;
    EXPECT_EQ(found, row) << line;
  }
}

TEST(TableRow, NamesColumnAndRemedy) {
  const struct {
    std::string_view line;
    size_t column;
    const char* word;
    std::string_view value;
  } cases[] = {
      {"a;b", 1, "semicolons", "a;b"},  {"a,b;c", 2, "semicolons", "b;c"},   {"1\t2", 1, "tabs", "1\t2"},
      {"\"a", 1, "not closed", "a"},    {"a,\"b,c", 2, "not closed", "b,c"}, {"\"a\"b,c", 1, "behind", "a"},
      {"\"a\"\"b\"", 1, "behind", "a"}, {"\"", 1, "not closed", ""},
  };
  for (const auto& [line, column, word, value] : cases) {
    Row row;
    const RowFault fault = split_row(line, &row);
    ASSERT_NE(fault.text, nullptr) << line;
    EXPECT_EQ(fault.column, column) << line;
    EXPECT_THAT(fault.text, HasSubstr(word));
    EXPECT_EQ(row.back(), value) << line;
  }
}

}  // namespace
}  // namespace gradstream
