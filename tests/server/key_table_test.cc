#include "server/run/key_table.h"

#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradstream {
namespace {

// The page's part between the two marks.
std::string table_of_page() {
  std::ifstream file(std::string(GS_SOURCE_DIR) + "/docs/reference/keys.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const std::string begin = "<!-- `gradstream run keys --markdown` writes this part; a test compares it -->\n\n";
  const size_t from = page.find(begin);
  const size_t to = page.find("\n<!-- end of the keys -->", from);
  return from == std::string::npos || to == std::string::npos
             ? ""
             : page.substr(from + begin.size(), to - from - begin.size());
}

TEST(KeyTable, ThePageHasIt) {
  std::istringstream wanted(key_table());
  std::istringstream found(table_of_page());
  std::string line;
  for (std::string other; std::getline(wanted, line);) {
    ASSERT_TRUE(std::getline(found, other)) << "docs/reference/keys.md lacks: " << line;
    ASSERT_EQ(other, line) << "put the output of `gradstream run keys --markdown` into docs/reference/keys.md";
  }
  EXPECT_FALSE(std::getline(found, line)) << "docs/reference/keys.md has too much: " << line;
}

TEST(KeyTable, ARowSaysDefaultRangeAndUnit) {
  for (const KeyRow& row : key_rows()) {
    const std::string text = row.group + ": " + row.name + " " + row.value + " " + row.takes;
    const auto expect = [&](const char* name, const char* wanted) {
      if (row.name == name) {
        EXPECT_EQ(text, wanted);
      }
    };
    expect("name", "The run: name needed 1 to 63 characters");
    expect("device_count", "Rounds and late answers: device_count needed 1 to 2147483648 devices");
    expect("late", "Rounds and late answers: late drop drop, weight");
    expect("weight_share_max", "Fold: weight_share_max 1 above 0 to 1");
    expect("server_momentum", "Asynchronous steps: server_momentum 0 0 to below 1 (a `delay_rule`)");
    expect("step_offset", "Steps: step_offset 0 from 0");
    expect("step_size", "Steps: step_size 0.1 above 0, or \"auto\"");
    expect("delay_switch_at", "Asynchronous steps: delay_switch_at 0 a number");
    expect("error_feedback", "Wire: error_feedback false true, false");
    expect("task_deadline_ms", "Rounds and late answers: task_deadline_ms 0 from 0 ms");
    expect("batch_sizes", "Local work: batch_sizes  text");
  }
}

}  // namespace
}  // namespace gradstream
