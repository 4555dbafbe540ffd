// Tables as people bring them: what each reads as, and what is said of those that are refused.
#include "host/table.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/npy_bytes.h"
#include "tests/support/text_edits.h"

namespace gradstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<float>;
using Names = std::vector<std::string>;

SampleTable good(std::string_view bytes, const TableOptions& options = {}) {
  SampleTable table;
  EXPECT_EQ(parse_table(bytes, options, &table), "") << bytes;
  EXPECT_EQ(table.values.size(), size_t{table.sample_count} * table.dimension);
  return table;
}

std::string fault_of(std::string_view bytes, const TableOptions& options = {}) {
  SampleTable table;
  return parse_table(bytes, options, &table);
}

TableOptions by_label(const char* label, bool takes_words = true) {
  TableOptions options;
  options.label = label;
  options.takes_words = takes_words;
  return options;
}

TableOptions header_by(const char* label) {
  TableOptions options = by_label(label, false);
  options.header = HeaderLine::kYes;
  return options;
}

template <typename T>
std::string raw(std::initializer_list<T> values) {
  std::string out(values.size() * sizeof(T), '\0');
  size_t at = 0;
  for (const T value : values) {
    std::memcpy(&out[at], &value, sizeof value);
    at += sizeof value;
  }
  return out;
}

// Every dialect reads as the same table.
TEST(Table, ReadsEveryDialect) {
  const Values wanted = {1, -2.5F, 3000, 0.25F, 5, -6};
  const struct {
    char delimiter;
    std::string between;
    bool takes_comma;
  } dialects[] = {{',', ",", false},   {',', ", ", false},           {',', " ,", false},
                  {';', ";", true},    {';', " ; ", true},           {'\t', "\t", true},
                  {'\t', "\t ", true}, {kBlankDelimiter, " ", true}, {kBlankDelimiter, "   ", true}};
  for (const auto& dialect : dialects) {
    for (const std::string mark : {"", "\xEF\xBB\xBF"}) {
      for (const std::string end : {"\n", "\r\n", "\r"}) {
        for (const std::string quote : {"", "\""}) {
          for (const bool has_comma : {false, true}) {
            for (const bool has_header : {false, true}) {
              if (has_comma && (!dialect.takes_comma || dialect.delimiter == kBlankDelimiter)) {
                continue;  // blanks and commas are told apart by --delimiter alone
              }
              const auto row = [&](const char* a, const char* b, const char* c) {
                return quote + a + quote + dialect.between + quote + b + quote + dialect.between + quote + c + quote;
              };
              const std::string header = has_header ? row("x", "y", "z") + end : "";
              const std::string text = mark + "# a comment" + end + header +
                                       (has_comma ? row("1,0", "-2,5", "3e3") : row("1.0", "-2.5", "3e3")) + end + end +
                                       (has_comma ? row("+0,25", "5", "-6") : row("+0.25", "5", "-6"));
              for (const std::string& last : {std::string(), end, end + end, end + "# end"}) {
                const SampleTable table = good(text + last);
                EXPECT_EQ(table.values, wanted) << text;
                EXPECT_EQ(table.dimension, 3U) << text;
                EXPECT_EQ(table.names, has_header ? Names({"x", "y", "z"}) : Names()) << text;
                EXPECT_EQ(table.delimiter, dialect.delimiter) << text;
                EXPECT_EQ(table.has_decimal_comma, has_comma) << text;
              }
            }
          }
        }
      }
    }
  }
}

TEST(Table, ReadsOddButPlainTables) {
  EXPECT_EQ(good("7").values, Values{7});
  EXPECT_EQ(good("x\n7\n8\n").names, Names{"x"});
  EXPECT_EQ(good("1,2\n").sample_count, 1U);
  EXPECT_EQ(good(",x,y\n0,1.5,2\n1,3,4\n").names, (Names{"", "x", "y"}));  // the index of pandas
  EXPECT_EQ(good("#X,Y\n1,2\n").names, (Names{"#X", "Y"}));
  EXPECT_EQ(good("sep=;\r\n1,5;2\r\n").values, (Values{1.5F, 2}));
  EXPECT_EQ(good("\xEF\xBB\xBFsep=\t\n1\t2\n").values, (Values{1, 2}));
}

TEST(Table, ReadsColumnsOfBlanksAndNamesWithDelimiters) {
  EXPECT_EQ(good("  1   2 \n 3  4\n").values, (Values{1, 2, 3, 4}));
  EXPECT_EQ(good("\"a;b\",c\n1,2\n").names, (Names{"a;b", "c"}));
  EXPECT_EQ(good("\"a \"\"b\"\"\",c\n1,2\n").names, (Names{"a \"b\"", "c"}));
  EXPECT_EQ(good("a b,c d\n1,2\n").delimiter, ',');
  EXPECT_EQ(good("1e-50,1e-40\n").values, (Values{0, 1e-40F}));
  EXPECT_EQ(good("3.4028235e38\n").values, Values{std::numeric_limits<float>::max()});
  TableOptions options;
  options.delimiter = kBlankDelimiter;
  EXPECT_EQ(good("1,5 2,5\n", options).values, (Values{1.5F, 2.5F}));
  EXPECT_EQ(good("  1   2 \n 3\t4\n", options).values, (Values{1, 2, 3, 4}));
  options = {};
  options.header = HeaderLine::kYes;
  EXPECT_EQ(good("2019,2020\n1,2\n", options).names, (Names{"2019", "2020"}));
}

TEST(Table, MovesTheLabelBehindTheValues) {
  const char* const text = "kind,x,y\nb,1,2\na,3,4\n";
  const SampleTable table = good(text, by_label("kind"));
  EXPECT_TRUE(table.has_word_label);
  EXPECT_EQ(table.labels, (Names{"b", "a"}));
  EXPECT_EQ(table.names, (Names{"x", "y", "kind"}));
  EXPECT_EQ(table.values, (Values{1, 2, 0, 3, 4, 0}));
  EXPECT_EQ(good("7,1,2\n8,3,4\n", by_label("1", false)).values, (Values{1, 2, 7, 3, 4, 8}));
  EXPECT_EQ(good("x,2\n1,5\n3,6\n", header_by("2")).values, (Values{1, 5, 3, 6})) << "a name goes first";
  EXPECT_THAT(fault_of(text, by_label("kind", false)),
              AllOf(HasSubstr(", row 2, column 1 (`kind`)"), HasSubstr("`b` is a word"), HasSubstr("data pack")));
  EXPECT_THAT(fault_of(text, by_label("knd")),
              AllOf(HasSubstr("no column `knd`"), HasSubstr("`kind`, `x`, `y`"), HasSubstr("1 to 3")));
  EXPECT_THAT(fault_of("a,a\n1,2\n", by_label("a")), HasSubstr("two columns of the name `a`"));
  EXPECT_THAT(fault_of("1,2\n", by_label("3")), HasSubstr("a number from 1 to 2"));
  EXPECT_THAT(fault_of("x,k\n1,NA\n", by_label("k")), AllOf(HasSubstr("row 2, column 2 (`k`)"), HasSubstr("missing")));
  EXPECT_EQ(good("x,k\n1,none\n2,-\n", by_label("k")).labels, (Names{"none", "-"})) << "these may name classes";
}

TEST(Table, SaysPlaceValueLimitAndRemedy) {
  const struct {
    std::string text;
    std::vector<const char*> words;
  } cases[] = {
      {"", {"is empty", "a sample a row"}},
      {"\n# c\n\n", {"holds no row"}},
      {"x,y\n", {"a header line in row 1 and no sample"}},
      {"x,y\n1,2\n3\n", {", row 3: it has 1 values, and row 1 has 2", "comma", "--delimiter"}},
      {"1,2\n3,4,5\n", {", row 2: it has 3 values, and row 1 has 2"}},
      {"x,y\n1,\n", {"row 2, column 2 (`y`)", "the value is empty", "fill the gap", "at the end of all rows"}},
      {"x,y\n,1\n", {"row 2, column 1 (`x`)", "is empty"}},
      {"a\tb\n\t2\n", {"row 2, column 1 (`a`)", "is empty"}},
      {"a\tb\n1\t\n", {"row 2, column 2 (`b`)", "is empty"}},
      {"1,2\n3,NA\n", {"row 2, column 2", "`NA` is a missing value", "leave the row out"}},
      {"1,2\n3,NaN\n", {"row 2, column 2", "`NaN` is a missing value"}},
      {"1,2\nnull,4\n", {"row 2, column 1", "`null` is a missing value"}},
      {"x,y\n#N/A,4\n", {"row 2, column 1 (`x`)", "`#N/A` is a missing value"}},
      {"x,y\n#DIV/0!,4\n", {"row 2, column 1 (`x`)", "spreadsheet's failed value"}},
      {"1,2\n3,inf\n", {"row 2, column 2", "`inf` is infinite", "3.4e38"}},
      {"1,2\n3,-Infinity\n", {"`-Infinity` is infinite"}},
      {"1,2\n3,1e39\n", {"row 2, column 2", "`1e39` is beyond the range of a float, 3.4e38", "scale"}},
      {"t,x\n1,warm\n", {"row 2, column 2 (`x`)", "`warm` is no number", "--label"}},
      {"1,x\n2,3\n", {"row 1, column 2", "`x` is no number", "--header yes"}},
      {"2020-01-01 10:00,2\n", {"row 1, column 1", "`2020-01-01 10:00` is no number", "leave the column out"}},
      {"1,2\n3,\"4,5\"\n", {"row 2, column 2", "`4,5` has a comma in a number", "point"}},
      {"1,2\n3,0x10\n", {"`0x10` is no number"}},
      {"1,2\n3,1_0\n", {"`1_0` is no number"}},
      {"1,2\n3,5%\n", {"`5%` is no number"}},
      {"1,2\n3,TRUE\n", {"`TRUE` is no number"}},
      {"1;2\n1.234,5;6\n", {"row 2, column 1", "`1.234,5` has a separator of thousands"}},
      {"1,5;2\n1.5;6\n", {"row 1, column 1: a comma is the decimal sign", "row 2, column 1 a point is"}},
      {"1.5;2\n1;6,5\n", {"row 2, column 2: a comma", "row 1, column 1 a point"}},
      {"1,2 3\n4,5 6\n", {"`2 3` is more than one number"}},
      {"1, 2\n3, 4 5\n", {"row 2, column 2", "`4 5` is more than one number"}},
      {"1 2\n3, 4\n", {"row 2, column 1", "`3,` has a separator"}},
      {"1\t2\n3\t\t4\n", {"row 2: it has 3 values, and row 1 has 2 (delimiter: tab)"}},
      {"1\t2\n3\t4\t\n", {"row 2: it has 3 values"}},
      {"a|b\n1|2\n", {"`1|2` has a `|`", "semicolons"}},
      {"1,2\n\xE2\x88\x92"
       "3,4\n",
       {"row 2, column 1", "a minus that is no `-`"}},
      {"1;2\n1\xC2\xA0"
       "234;4\n",
       {"row 2, column 1", "separator of thousands"}},
      {"1,2\n1'234,4\n", {"row 2, column 1", "`1'234` has a separator of thousands"}},
      {",x\n,1\n", {"row 2, column 1: the value is empty"}},
      {"1,\"2\n3,4\n", {"row 1, column 2", "quote is not closed"}},
      {"1,\"2\"3\n", {"row 1, column 2", "behind a closing quote"}},
      {"sep=|\n1|2\n", {"row 1: the delimiter `|`", "semicolon"}},
      {std::string("1,2\n3,\0", 7), {", row 2: it holds a byte 0"}},
      {"\xFF\xFE"
       "1",
       {"UTF-16", "UTF-8"}},
      {"PK\x03\x04", {"zip", "CSV"}},
      {"\x1F\x8B", {"gunzip"}},
      {std::string("GSD2\0\0\0\1", 8), {"is a shard already"}},
  };
  for (const auto& [text, words] : cases) {
    for (const char* const word : words) {
      EXPECT_THAT(fault_of(text), HasSubstr(word)) << text;
    }
  }
}

TEST(Table, RefusesThousandsThatReadAsThousandths) {
  const char* const english = "a\tb\n999\t5\n1,000\t6\n12,345\t7\n";
  const char* const german = "a;b\n999;5\n1.000;6\n12.345;7\n";
  EXPECT_THAT(fault_of(english), AllOf(HasSubstr(", row 3, column 1 (`a`)"), HasSubstr("comma in `1,000`"),
                                       HasSubstr("without a separator"), HasSubstr("--decimal comma")));
  EXPECT_THAT(fault_of(german), AllOf(HasSubstr(", row 3, column 1"), HasSubstr("--decimal point")));
  EXPECT_THAT(fault_of("1\t-1,000\n2\t+2,500\n"), HasSubstr("row 1, column 2: the comma in `-1,000`"));
  EXPECT_THAT(fault_of("999\n1.000\n12.345\n"), HasSubstr("`1.000`"));
  EXPECT_THAT(fault_of("1.000;2.500\n999;3\n"), HasSubstr("row 1, column 1: the point in `1.000`"));
  EXPECT_TRUE(good("1.000;2\n").has_doubted_decimals);
  EXPECT_FALSE(good("1.000,2\n").has_doubted_decimals);
  TableOptions options;
  options.decimal = DecimalSign::kComma;
  EXPECT_EQ(good(english, options).values, (Values{999, 5, 1, 6, 12.345F, 7}));
  options.decimal = DecimalSign::kPoint;
  EXPECT_EQ(good(german, options).values, (Values{999, 5, 1, 6, 12.345F, 7}));
  EXPECT_THAT(fault_of(english, options), AllOf(HasSubstr("`1,000` has another decimal sign"), HasSubstr("--decimal")));
  for (const char* const plain :
       {"1.234;2\n3;4\n",               // one alone
        "1.234;0.5\n2.345;4\n",         // a point that separates no thousands
        "0.123;1\n1.234;2\n2.345;3\n",  // nor does this one
        "1.234;1\n2.345;2\n1234.567;3\n", "1.234;1\n2.345;2\n1.2345;3\n", "1.234e1;1\n2.345;2\n3.456;3\n",
        "1.234,2.345\n3.456,4.567\n", "1.234 2.345\n3.456 4.567\n", "1,234;0,5\n2,345;1\n"}) {
    EXPECT_EQ(fault_of(plain), "") << plain;
  }
}

TEST(Table, TakesTheDecimalSignThatIsNamed) {
  TableOptions options;
  options.decimal = DecimalSign::kComma;
  EXPECT_EQ(good("1,5 2,5\n3 4\n", options).values, (Values{1.5F, 2.5F, 3, 4}));
  EXPECT_EQ(good("1,5\n2\n", options).values, (Values{1.5F, 2}));
  EXPECT_THAT(fault_of("1,5;2.5\n", options), AllOf(HasSubstr("column 2"), HasSubstr("`2.5` has another decimal")));
  options.delimiter = ',';
  EXPECT_THAT(fault_of("1,5\n", options), HasSubstr("cannot be the delimiter and the decimal sign"));
  DecimalSign sign = DecimalSign::kFound;
  EXPECT_TRUE(parse_decimal("comma", &sign) && sign == DecimalSign::kComma);
  EXPECT_TRUE(parse_decimal("point", &sign) && sign == DecimalSign::kPoint);
  EXPECT_TRUE(parse_decimal("auto", &sign) && sign == DecimalSign::kFound);
  EXPECT_FALSE(parse_decimal(",", &sign));
}

TEST(Table, SkipsTheLinesBeforeATable) {
  TableOptions options = by_label("5");
  options.skipped_row_count = 1;
  const char* const text = "150,4,setosa,versicolor,virginica\n5.1,3.5,1.4,0.2,0\n4.9,3.0,1.4,0.2,x\n";
  EXPECT_EQ(good(text, options).sample_count, 2U);
  options.takes_words = false;
  EXPECT_THAT(fault_of(text, options), HasSubstr(", row 3, column 5")) << "rows keep their numbers";
  options = {};
  options.skipped_row_count = 2;
  EXPECT_EQ(good("sep=;\nanything at all\nx;y\n1;2\n", options).names, (Names{"x", "y"}));
  options.skipped_row_count = 9;
  EXPECT_THAT(fault_of("1,2\n", options), HasSubstr("holds no row"));
  EXPECT_THAT(fault_of(npy_table_file("|u1", "(1, 1)", "1"), options), HasSubstr("--skip-rows is of text"));
}

TEST(Table, RefusesTextThatIsNoUtf8) {
  EXPECT_THAT(fault_of("Gr\xFC\xDF"
                       "e,y\n1,2\n"),
              AllOf(HasSubstr(", row 1: "), HasSubstr("byte FC"), HasSubstr("CSV UTF-8")));
  for (const std::string bytes : {"\xFC", "\xC3", "\xC3(", "\xC0\xAF", "\x80", "\xE2\x88", "\xF5\x80\x80\x80"}) {
    EXPECT_THAT(fault_of("x,k\r\n1," + bytes + "\r\n", by_label("k")), HasSubstr(", row 2: ")) << bytes;
    EXPECT_THAT(fault_of("x,k\r1," + bytes, by_label("k")), HasSubstr(", row 2: ")) << bytes;
  }
  EXPECT_EQ(good("x,k\n1,Gr\xC3\xBC\xC3\x9F"
                 "e\n",
                 by_label("k"))
                .sample_count,
            1U);
  EXPECT_EQ(good("x,k\n1,\xF0\x9F\x8C\xB1\n", by_label("k")).sample_count, 1U);
}

TEST(Table, ARowOfTabsHoldsEmptyValues) {
  EXPECT_THAT(fault_of("a\tb\tc\n\t\t\n1\t2\t3\n"), AllOf(HasSubstr(", row 2, column 1"), HasSubstr("is empty")));
  EXPECT_THAT(fault_of("1\t2\n \t \n3\t4\n"), AllOf(HasSubstr(", row 2, column 1"), HasSubstr("is empty")));
  EXPECT_EQ(good("1\t2\n  \n\n3\t4\n").sample_count, 2U);
  EXPECT_EQ(good("1,2\n\t\n3,4\n").sample_count, 2U) << "it is blank where tabs separate nothing";
}

TEST(Table, LabelsKeepTheirExactValue) {
  EXPECT_EQ(good("x,k\n1,1\n2,1.0\n3,01\n4,a\n", by_label("k")).labels, (Names{"1", "1", "1", "a"}));
  EXPECT_EQ(good("x,k\n1,9007199254740993\n", by_label("k")).labels, Names{"9007199254740993"});
  EXPECT_EQ(good(npy_table_file("<i8", "(2, 1)", raw<int64_t>({9007199254740993, INT64_MIN})), by_label("1")).labels,
            (Names{"9007199254740993", "-9223372036854775808"}));
  EXPECT_EQ(good(npy_table_file("<f4", "(2, 1)", raw<float>({0.1F, 3})), by_label("1")).labels, (Names{"0.1", "3"}));
  EXPECT_EQ(good(npy_table_file("<f8", "(1, 1)", raw<double>({0.1})), by_label("1")).labels, Names{"0.1"});
  EXPECT_EQ(good(npy_table_file("<f4", "(1, 2)", raw<float>({123456792, 1e20F})), by_label("1", false)).values,
            (Values{1e20F, 123456792}))
      << "a float holds its own value";
  EXPECT_EQ(good(npy_table_file("<f4", "(1, 1)", raw<float>({1e20F})), by_label("1", false)).values, Values{1e20F});
  EXPECT_EQ(good(npy_table_file("<f4", "(1, 1)", raw<float>({3e38F})), by_label("1", false)).values, Values{3e38F});
  EXPECT_THAT(fault_of("x,k\n1,16777217\n", by_label("k", false)),
              AllOf(HasSubstr(", row 2, column 2 (`k`)"), HasSubstr("16777217"), HasSubstr("16777216")));
  EXPECT_THAT(fault_of(npy_table_file("<i4", "(1, 2)", raw<int32_t>({16777217, 0})), by_label("1", false)),
              AllOf(HasSubstr("row 1, column 1"), HasSubstr("16777217")));
}

TEST(Table, ColumnsKeepTheirNumbersInTheFile) {
  const SampleTable table = good("x,k,y\n1,2,3\n", by_label("k"));
  EXPECT_EQ(column_text(table, 0), "1 (`x`)");
  EXPECT_EQ(column_text(table, 1), "3 (`y`)");
  EXPECT_EQ(column_text(table, 2), "2 (`k`)");
  EXPECT_EQ(column_text(good("x,y\n1,3\n"), 1), "2 (`y`)");
}

TEST(Table, NamesFilesOfOtherKindsByTheirFirstBytes) {
  const auto said = [](const std::string& text) {
    return foreign_fault({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  };
  EXPECT_THAT(said("PK\x03\x04"), HasSubstr("numpy.save"));
  EXPECT_THAT(said("\x1F\x8B"), HasSubstr("gunzip"));
  EXPECT_THAT(said("PAR1"), HasSubstr("Parquet"));
  EXPECT_THAT(said("BZh91AY&SY\x01"), HasSubstr("bunzip2"));
  EXPECT_THAT(said(std::string("SQLite format 3\0\x10", 17)), HasSubstr("SQLite"));
  EXPECT_THAT(said(std::string("\xFF\xFE"
                               "1\0",
                               4)),
              AllOf(HasSubstr("UTF-16"), HasSubstr("save it as UTF-8")));
  EXPECT_THAT(said(std::string("1\0,\0002\0", 6)), HasSubstr("UTF-16"));
  EXPECT_THAT(said(std::string("1,2\n3,\0\n", 8)), HasSubstr(", row 2: it holds a byte 0"));
  for (const std::string& shard : {std::string(), std::string("GSD2\1\0\0\0", 8), std::string(16, '\xFF'),
                                   std::string(16, '\0'), std::string("\1\2\3")}) {
    EXPECT_EQ(said(shard), "");
  }
}

TEST(Table, HoldsTheLimitsOfASample) {
  std::string text;
  for (uint32_t i = 0; i < 65535; ++i) {
    text += "1\n";
  }
  EXPECT_EQ(good(text).sample_count, 65535U);
  EXPECT_THAT(fault_of(text + "1\n\n1\n"), HasSubstr("has 65537 samples, and the limit is 1 to 65535"));
  std::string row = "1";
  for (uint32_t i = 1; i < 32768; ++i) {
    row += ",1";
  }
  EXPECT_EQ(good(row).dimension, 32768U);
  EXPECT_THAT(fault_of(row + ",1"), HasSubstr("has 32769 values, and the limit is 32768"));
}

TEST(Table, ReadsNumPyArraysOfEveryType) {
  const Values wanted = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(good(npy_table_file("<f4", "(2, 3)", raw<float>({1, 2, 3, 4, 5, 6}))).values, wanted);
  EXPECT_EQ(good(npy_table_file("<f8", "(2, 3)", raw<double>({1, 2, 3, 4, 5, 6}))).values, wanted);
  EXPECT_EQ(good(npy_table_file("<i8", "(2, 3)", raw<int64_t>({1, 2, 3, 4, 5, 6}))).values, wanted);
  EXPECT_EQ(good(npy_table_file("<i4", "(2, 3)", raw<int32_t>({1, 2, 3, 4, 5, 6}))).values, wanted);
  EXPECT_EQ(good(npy_table_file("<u2", "(2, 3)", raw<uint16_t>({1, 2, 3, 4, 5, 6}))).values, wanted);
  EXPECT_EQ(good(npy_table_file("|u1", "(2, 3)", raw<uint8_t>({1, 2, 3, 4, 5, 6}))).values, wanted);
  EXPECT_EQ(good(npy_table_file("<f4", "(2, 3)", raw<float>({1, 4, 2, 5, 3, 6}), true)).values, wanted);
  EXPECT_EQ(good(npy_table_file("|i1", "(1, 2)", raw<int8_t>({-128, 127}))).values, (Values{-128, 127}));
  EXPECT_EQ(good(npy_table_file("<i8", "(1, 2)", raw<int64_t>({INT64_MIN, -1}))).values, (Values{-0x1p63F, -1}));
  EXPECT_EQ(good(npy_table_file("<u8", "(1, 1)", raw<uint64_t>({UINT64_MAX}))).values, Values{0x1p64F});
  const SampleTable table = good(npy_table_file("<i4", "(2, 3)", raw<int32_t>({7, 2, 3, 8, 5, 6})), by_label("1"));
  EXPECT_EQ(table.values, (Values{2, 3, 7, 5, 6, 8}));
  EXPECT_EQ(table.labels, (Names{"7", "8"}));
  EXPECT_TRUE(table.is_npy);
}

TEST(Table, NamesWhatIsWrongWithAnArray) {
  const float kNaN = std::numeric_limits<float>::quiet_NaN();
  const float kInf = std::numeric_limits<float>::infinity();
  const struct {
    std::string bytes;
    std::vector<const char*> words;
  } cases[] = {
      {npy_table_file(">f4", "(1, 1)", "1234"), {"big-endian", "`>f4`", "numpy.save"}},
      {npy_table_file("<f2", "(1, 1)", "12"), {"dtype `<f2`", "float32, float64"}},
      {npy_table_file("<c8", "(1, 1)", "12345678"), {"dtype `<c8`"}},
      {npy_table_file("|b1", "(1, 1)", "1"), {"dtype `|b1`"}},
      {npy_table_file("<U3", "(1, 1)", ""), {"dtype `<U3`"}},
      {npy_table_file("|O", "(1, 1)", ""), {"dtype `|O`"}},
      {npy_table_file("<f4", "(3,)", raw<float>({1, 2, 3})), {"shape (3,)", "reshape(-1, 1)", "reshape(1, -1)"}},
      {npy_table_file("<f4", "(1, 1, 3)", raw<float>({1, 2, 3})), {"shape (1, 1, 3)", "reshape(len(table), -1)"}},
      {npy_table_file("<f4", "()", raw<float>({1})), {"shape ()"}},
      {npy_table_file("<f4", "(0, 3)", ""), {"0 samples", "1 to 65535"}},
      {npy_table_file("<f4", "(3, 0)", ""), {"0 values a sample", "1 to 32768"}},
      {npy_table_file("<f4", "(65536, 1)", ""), {"65536 samples", "split it"}},
      {npy_table_file("<f4", "(1, 32769)", ""), {"32769 values", "fewer"}},
      {npy_table_file("<f4", "(18446744073709551615, 18446744073709551615)", ""), {"18446744073709551615 samples"}},
      {npy_table_file("<f4", "(1, 2)", "1234567"), {"truncated"}},
      {npy_table_file("<f4", "(1, 2)", "123456789"), {"more than one array"}},
      {npy_table_file("<f4", "(2, 2)", raw<float>({1, 2, kNaN, 4})), {"row 2, column 1 (from 1)", "missing value"}},
      {npy_table_file("<f4", "(2, 2)", raw<float>({1, 2, 3, -kInf})), {"row 2, column 2", "`-inf` is infinite"}},
      {npy_table_file("<f4", "(2, 2)", raw<float>({1, 2, kInf, 3}), true), {"row 1, column 2", "`inf`"}},
      {npy_table_file("<f8", "(1, 1)", raw<double>({1e39})), {"`1e+39` is beyond", "3.4e38", "scale"}},
      {"\x93NUMPY", {"truncated"}},
  };
  for (const auto& [bytes, words] : cases) {
    for (const char* const word : words) {
      EXPECT_THAT(fault_of(bytes), HasSubstr(word));
    }
  }
}

TEST(Table, SpoiltArraysReadFiniteOrAreRefused) {
  const std::string array = npy_table_file("<f4", "(2, 3)", raw<float>({1, 2, 3, 4, 5, 6}));
  TextEdits edits(20261127);
  for (int i = 0; i < 3000; ++i) {
    SampleTable table;
    const std::string bytes = edits.spoil(array);
    if (parse_table(bytes, by_label(edits.below(2) == 0 ? "2" : ""), &table).empty()) {
      ASSERT_EQ(table.values.size(), size_t{table.sample_count} * table.dimension);
      for (const float value : table.values) {
        ASSERT_TRUE(std::isfinite(value));
      }
    }
  }
}

TEST(Table, ReadsFilesUpToALimit) {
  std::string folder = testing::TempDir() + "table_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/a.csv";
  std::ofstream(path) << "1,2\n";
  SampleTable table;
  int cause = 0;
  EXPECT_EQ(read_table(path, {}, &table, &cause), "");
  EXPECT_EQ(cause, 0);
  TableOptions small;
  small.size_max = 3;
  EXPECT_THAT(read_table(path, small, &table, &cause),
              AllOf(HasSubstr("has 4 bytes, and the limit is 3"), HasSubstr("data pack")));
  EXPECT_EQ(cause, EFBIG);
  EXPECT_THAT(read_table(folder, {}, &table, &cause), HasSubstr("is a folder"));
  EXPECT_THAT(read_table("/dev/null", {}, &table, &cause), HasSubstr("no ordinary file"));
  EXPECT_THAT(read_table(folder + "/none", {}, &table, &cause), HasSubstr("cannot be read: No such file"));
  EXPECT_EQ(cause, ENOENT);
}

TEST(Table, TellsTablesByTheirFirstBytes) {
  const auto told = [](const std::string& text) {
    return is_table({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  };
  EXPECT_TRUE(told("1,2\n"));
  EXPECT_TRUE(
      told("\xEF\xBB\xBF"
           "a;b\r\n"));
  EXPECT_TRUE(told("\x93NUMPY\x01"));
  EXPECT_TRUE(told("GSD;x\n"));
  EXPECT_FALSE(told(""));
  EXPECT_FALSE(told(std::string("GSD1\1\0\0\0", 8)));
  EXPECT_FALSE(told("GSD1"));
  EXPECT_FALSE(
      told("\xFF\xFE"
           "1"));
}

TEST(Table, KnowsDelimitersByNameAndByThemselves) {
  char delimiter = 'x';
  for (const char each : {',', ';', '\t', kBlankDelimiter}) {
    EXPECT_TRUE(parse_delimiter(delimiter_name(each), &delimiter));
    EXPECT_EQ(delimiter, each);
    EXPECT_TRUE(parse_delimiter(std::string(1, each), &delimiter));
    EXPECT_EQ(delimiter, each);
  }
  EXPECT_TRUE(parse_delimiter("auto", &delimiter));
  EXPECT_EQ(delimiter, 0);
  EXPECT_FALSE(parse_delimiter("|", &delimiter));
  EXPECT_STREQ(delimiter_name(0), "none");
}

}  // namespace
}  // namespace gradstream
