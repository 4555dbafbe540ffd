#include "server/base/client_catalogue.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

std::set<std::string> ids() {
  std::set<std::string> out;
  for (const ClientEventRow& row : kClientEvents) {
    out.insert(row.id);
  }
  return out;
}

// The text of a source without its comments.
std::string code_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string code;
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find_first_not_of(' ');
    const bool is_comment = first != std::string::npos && (line[first] == '/' || line[first] == '*');
    code += is_comment ? "" : line.substr(0, line.find("  // ")) + "\n";
  }
  return code;
}

void find_all(const std::string& code, const std::regex& form, std::set<std::string>* out) {
  for (std::sregex_iterator match(code.begin(), code.end(), form), end; match != end; ++match) {
    for (size_t group = 1; group < match->size(); ++group) {
      if ((*match)[group].matched) {
        out->insert((*match)[group]);
      }
    }
  }
}

// Every event that the client's sources log, in each of the forms in which they do.
std::set<std::string> logged() {
  const std::regex literal("event=([a-z_]+)");
  const std::regex made(
      R"re((?:ConsoleLine(?: \w+)?|device_line|warn)\((?:[\w()]+ \? )?"([a-z_]+)"(?: : "([a-z_]+)")?)re");
  std::set<std::string> out;
  for (const char* const folder : {"/firmware", "/boards", "/host"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(GS_SOURCE_DIR) + folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".cc" || extension == ".h") {
        const std::string code = code_of(entry.path());
        find_all(code, literal, &out);
        find_all(code, made, &out);
      }
    }
  }
  return out;
}

TEST(ClientCatalogue, HasARowForEveryEventThatTheClientsSourcesLogAndNoOther) { EXPECT_EQ(ids(), logged()); }

TEST(ClientCatalogue, RowsAreSortedAndSayWhatTheyMean) {
  EXPECT_TRUE(
      std::is_sorted(std::begin(kClientEvents), std::end(kClientEvents),
                     [](const ClientEventRow& a, const ClientEventRow& b) { return std::string(a.id) < b.id; }));
  for (const ClientEventRow& row : kClientEvents) {
    EXPECT_NE(std::string(row.meaning), "") << row.id;
    EXPECT_FALSE(std::string(row.meaning).ends_with('.')) << row.id;
    EXPECT_FALSE(std::string(row.remedy).ends_with('.')) << row.id;
  }
}

}  // namespace
}  // namespace gradstream
