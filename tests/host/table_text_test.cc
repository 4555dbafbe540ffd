#include "host/table_text.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/text_edits.h"

namespace gradstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string_view> fields_of(std::string_view line, char delimiter) {
  std::vector<std::string_view> fields;
  EXPECT_EQ(split_fields(line, delimiter, &fields), nullptr) << line;
  return fields;
}

TEST(TableText, SplitsFields) {
  EXPECT_THAT(fields_of("a, b ,c", ','), ElementsAre("a", "b", "c"));
  EXPECT_THAT(fields_of(",", ','), ElementsAre("", ""));
  EXPECT_THAT(fields_of("", ','), ElementsAre(""));
  EXPECT_THAT(fields_of("\ta\t", '\t'), ElementsAre("", "a", ""));
  EXPECT_THAT(fields_of("  a \t b ", kBlankDelimiter), ElementsAre("a", "b"));
  EXPECT_THAT(fields_of(" \"a,b\" ,\"c\"\"d\",\"\"", ','), ElementsAre("a,b", "c\"\"d", ""));
  EXPECT_THAT(fields_of("a;b,c", ';'), ElementsAre("a", "b,c"));
  std::vector<std::string_view> fields;
  EXPECT_THAT(split_fields("1,\"2", ',', &fields), HasSubstr("not closed"));
  EXPECT_THAT(split_fields("\"1\"2,3", ',', &fields), HasSubstr("behind a closing quote"));
}

TEST(TableText, TellsNumbersFromWords) {
  for (const char* text : {"0", "-1", "+2.5", ".5", "5.", "1e3", "1E-3", "1.e+3", "007"}) {
    EXPECT_EQ(read_field(text, false).kind, FieldKind::kNumber) << text;
  }
  for (const char* text :
       {"1,5", "+", "e3", "1e", "1e+", "1 2", "0x1", "1f", "--1", "1.2.3", "1.000,5", "'1'", "1.5 "}) {
    EXPECT_EQ(read_field(text, false).kind, FieldKind::kWord) << text;
  }
  EXPECT_EQ(read_field("1,5", true).value, 1.5F);
  EXPECT_TRUE(read_field("1,5", true).has_comma);
  EXPECT_TRUE(read_field("1.5", true).has_point);
  EXPECT_EQ(read_field("1,000,5", true).kind, FieldKind::kWord);
  for (const char* text : {"", "NA", "n/a", "NaN", "NULL", "None", "-", "?", ".", "#N/A", "<NA>", "NaT"}) {
    EXPECT_EQ(read_field(text, false).kind, FieldKind::kMissing) << text;
  }
  for (const char* text : {"inf", "-Inf", "+Infinity", "\xE2\x88\x9E"}) {
    EXPECT_EQ(read_field(text, false).kind, FieldKind::kInfinite) << text;
  }
  EXPECT_EQ(read_field("1e39", false).kind, FieldKind::kTooLarge);
  EXPECT_EQ(read_field("-1e400", false).kind, FieldKind::kTooLarge);
}

TEST(TableText, NumbersHaveOneForm) {
  const struct {
    const char* text;
    const char* form;
  } cases[] = {{"1", "1"},
               {"+01.0", "1"},
               {"10e-1", "1"},
               {"-0", "0"},
               {"0e5", "0"},
               {".10", "0.1"},
               {"0,1", "0.1"},
               {"-1.50E+1", "-15"},
               {"9007199254740993", "9007199254740993"},
               {"1e3", "1000"},
               {"12.5e-3", "0.0125"},
               {"18446744073709551615", "18446744073709551615"},
               {"1e300", "1e300"},
               {"1.5e-40", "15e-41"},
               {"1e-99999999999999999999", "1e-1000000000"},
               {"5.", "5"},
               {"100000001", "100000001"}};
  for (const auto& [text, form] : cases) {
    EXPECT_EQ(number_text(text), form) << text;
  }
}

TEST(TableText, FloatsHoldLabelsOf24Bits) {
  for (const char* const text : {"16777216", "-16777216", "16777218", "0.5", "1e30"}) {
    EXPECT_EQ(label_digits_fault(text, std::strtof(text, nullptr)), "") << text;
  }
  for (const char* const text : {"16777217", "-100000001", "9007199254740993"}) {
    EXPECT_THAT(label_digits_fault(text, std::strtof(text, nullptr)), HasSubstr("16777216 fall together")) << text;
  }
}

// Whatever an editor, a disk or a transfer makes of a table, it reads as finite numbers or is refused in words.
TEST(TableText, SpoiltTablesReadFiniteOrAreRefused) {
  const std::string good[] = {"x,y,kind\n1,-2.5,a\n3e3,4,b\n5,6,a\n", "x;y\r\n1,5;2\r\n3;4,25\r\n",
                              "1\t2\t3\n4\t5\t6\n", "\xEF\xBB\xBF# c\n 1 2 3\n 4 5 6\n", "\"a\";\"b\"\n\"1\";\"2\"\n"};
  TextEdits edits(20261126);
  uint32_t taken = 0;
  for (int i = 0; i < 4000; ++i) {
    TableOptions options;
    options.label = edits.below(3) == 0 ? "1" : "";
    options.takes_words = edits.below(2) == 0;
    const std::string text = edits.spoil(good[edits.below(std::size(good))]);
    SampleTable table;
    const std::string fault = parse_table(text, options, &table);
    ASSERT_LT(fault.size(), 800U) << text;
    if (!fault.empty()) {
      continue;
    }
    ++taken;
    ASSERT_GT(table.sample_count, 0U);
    ASSERT_EQ(table.values.size(), size_t{table.sample_count} * table.dimension);
    ASSERT_TRUE(table.names.empty() || table.names.size() == table.dimension);
    for (const float value : table.values) {
      ASSERT_TRUE(std::isfinite(value)) << text;
    }
  }
  EXPECT_GT(taken, 200U);
  EXPECT_LT(taken, 3800U);
}

}  // namespace
}  // namespace gradstream
