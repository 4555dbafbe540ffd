#include "server/program/device_table.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradstream {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kKey = "0123456789abcdefABCDEF0123456789abcdef0123456789abcdef0123456789";
const std::string kOther = "1123456789abcdefABCDEF0123456789abcdef0123456789abcdef0123456789";

struct Table {
  std::vector<EnrolledDevice> rows;
  std::set<std::string> drawn;
  std::string problem;
};

Table parse(const std::string& text) {
  Table table;
  table.problem = parse_device_table(text, "f.csv", &table.rows, &table.drawn).sentence;
  return table;
}

TEST(DeviceTable, ReadsWhatEditorsAndSpreadsheetsWrite) {
  for (const std::string mark : {"", "\xEF\xBB\xBF"}) {
    for (const std::string end : {"\n", "\r\n", "\r"}) {
      for (const std::string blank : {"", " ", "\t"}) {
        for (const std::string quote : {"", "\""}) {
          for (const std::string head : {"", "name", "name,key", "Name, Key", "\"name\",\"key\""}) {
            const std::string text = mark + (head.empty() ? "" : head + end) + quote + "n1" + quote + blank + "," +
                                     blank + quote + kKey + quote + blank + end + blank + end + "# no" + end + blank +
                                     quote + "n2" + quote;
            for (const std::string& last : {std::string(), end, end + end}) {
              const Table table = parse(text + last);
              ASSERT_EQ(table.problem, "") << text;
              ASSERT_EQ(table.rows.size(), 2U) << text;
              EXPECT_EQ(table.rows[0].name, "n1");
              EXPECT_EQ(table.rows[0].key[1], 0x23);
              EXPECT_EQ(table.rows[1].name, "n2");
              EXPECT_EQ(table.drawn, (std::set<std::string>{"n2"}));
            }
          }
        }
      }
    }
  }
}

TEST(DeviceTable, NamesLineLimitAndRemedy) {
  const struct {
    std::string text;
    std::vector<const char*> words;
  } cases[] = {
      {"", {"f.csv names no device", "NAME,KEY"}},
      {"name,key\n", {"f.csv names no device"}},
      {"x\n\n# no\nx\n", {"f.csv:4: x stands here twice", "line 1"}},
      {"x," + kKey + "\ny\nz," + kKey + "\n", {"f.csv:3: z has the key of x in line 1", "its own"}},
      {"x\ny," + std::string(64, '0') + "\n", {"f.csv:2: key:", "the same", "drawn"}},
      {"y," + std::string(64, 'F') + "\n", {"f.csv:1: key:", "the same"}},
      {"y," + kKey.substr(1) + "\n", {"f.csv:1: key: expected 64 hexadecimal digits", "63 characters"}},
      {"x\ny,g" + kKey.substr(1) + "\n", {"f.csv:2: key: expected 64", "character 1 is none"}},
      {"y,\n", {"f.csv:1: key: expected 64", "0 characters", "without the comma"}},
      {"x\ny," + kKey + ",note\n", {"f.csv:2: expected NAME or NAME,KEY", "3 values"}},
      {"y;" + kKey + "\n", {"f.csv:1: column 1", "semicolons", "commas"}},
      {"y\t" + kKey + "\n", {"f.csv:1: column 1", "tabs", "commas"}},
      {"device,secret\nx," + kKey, {"f.csv:1:", "head line", "name,key"}},
      {"x\nname\n", {"f.csv:2: name: expected"}},
      {"x\na b\n", {"f.csv:2: name: expected 1 to 56 printable ASCII"}},
      {"k\xC3\xBC"
       "che\n",
       {"f.csv:1: name: expected 1 to 56 printable ASCII"}},
      {"a~1\n", {"f.csv:1: name: expected"}},
      {"x\n," + kKey, {"f.csv:2: name: expected", "0 bytes"}},
      {std::string(57, 'x') + "\n", {"f.csv:1: name: expected", "57 bytes"}},
      {"x\n\"y," + kKey + "\n", {"f.csv:2: column 1", "not closed"}},
      {"\xFF\xFEx", {"f.csv is text in UTF-16", "UTF-8"}},
      {std::string("a\nb\0c\n", 6), {"f.csv:2: the file holds a byte 0"}},
  };
  for (const auto& [text, words] : cases) {
    const std::string problem = parse(text).problem;
    for (const char* word : words) {
      EXPECT_THAT(problem, HasSubstr(word)) << text;
    }
    EXPECT_THAT(problem, Not(HasSubstr("456789ab"))) << "a key was told";
  }
}

TEST(DeviceTable, FindsAKeyThatAnotherHas) {
  std::vector<EnrolledDevice> imported = parse("x," + kKey + "\ny\nz," + kOther + "\n").rows;
  EnrolledDevice enrolled;
  enrolled.name = "old";
  EXPECT_EQ(find_taken_key(imported, {enrolled}, {}).sentence, "") << "no key, as that of a device never rotated";
  enrolled.previous_key = imported[2].key;
  EXPECT_THAT(find_taken_key(imported, {enrolled}, {}).sentence, HasSubstr("z has the key of the enrolled device old"));
  enrolled.previous_key = {};
  enrolled.key = imported[0].key;
  EXPECT_THAT(find_taken_key(imported, {enrolled}, {}).sentence, HasSubstr("x has the key of the enrolled device old"));
  enrolled.name = "x";
  EXPECT_EQ(find_taken_key(imported, {enrolled}, {}).sentence, "") << "the name says it";
  ClaimRow claim;
  claim.name = "batch";
  claim.key = imported[0].key;
  EXPECT_THAT(find_taken_key(imported, {}, {claim}).sentence, HasSubstr("x has the key of the claim batch"));
}

}  // namespace
}  // namespace gradstream
