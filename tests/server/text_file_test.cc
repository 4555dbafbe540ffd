#include "server/base/text_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "runtime/wire/identity.h"
#include "server/program/device_table.h"
#include "server/program/model_import.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

TEST(TextFile, ReadsOrdinaryFilesUpToALimit) {
  std::string folder = testing::TempDir() + "text_file_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/a";
  const std::string content("a\r\n\0b", 5);
  std::ofstream(path, std::ios::binary) << content;
  std::string text = "of before";
  EXPECT_EQ(read_text_file(path, 5, &text).sentence, "");
  EXPECT_EQ(text, content);
  EXPECT_EQ(read_text_file(path, 4, &text).sentence, "has 5 bytes, and at most 4 are read");
  EXPECT_THAT(read_text_file(folder, 5, &text).sentence, HasSubstr("is a folder"));
  EXPECT_THAT(read_text_file("/dev/null", 5, &text).sentence, HasSubstr("no ordinary file"));
  EXPECT_THAT(read_text_file(folder + "/none", 5, &text).sentence, HasSubstr("cannot be read: No such file"));
  const std::string pipe = folder + "/pipe";  // that nobody writes to
  ASSERT_EQ(mkfifo(pipe.c_str(), S_IRUSR | S_IWUSR), 0);
  EXPECT_THAT(read_text_file(pipe, 5, &text).sentence, HasSubstr("no ordinary file"));
  std::ofstream(path, std::ios::trunc);
  EXPECT_EQ(read_text_file(path, 0, &text).sentence, "");
  EXPECT_EQ(text, "");
  std::filesystem::remove_all(folder);
}

// Lines of each reader, whose end, blanks and mark the test varies.
struct Reader {
  const char* name;
  std::vector<std::string> lines;
  std::function<std::string(const std::string&)> read;  // empty where the text is taken
};

std::vector<Reader> all_readers() {
  const std::string key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
  const auto read_identity = [](const std::string& text) {
    Identity identity;
    uint32_t line = 0;
    const Status status = parse_identity(text, &identity, &line);
    return status == Status::kOk ? std::string(identity.name) == "n1" ? "" : "another name" : "refused";
  };
  const auto read_model = [](const std::string& text) {
    std::vector<Real> model;
    const std::string problem = parse_csv(text, {2, 2}, &model).sentence;
    return problem.empty() && model != std::vector<Real>{1, 2, 3, 4} ? "another model" : problem;
  };
  const auto read_devices = [](const std::string& text) {
    std::vector<EnrolledDevice> rows;
    std::set<std::string> drawn;
    const std::string problem = parse_device_table(text, "f", &rows, &drawn).sentence;
    return problem.empty() && (rows.size() != 2 || rows[0].name != "n1") ? "other devices" : problem;
  };
  return {{"identity", {"identity = n1", "key = " + key}, read_identity},
          {"first_model", {"1,2", "3,4"}, read_model},
          {"devices", {"n1," + key, "n2"}, read_devices}};
}

TEST(TextFile, AllReadersTakeWhatEditorsWrite) {
  for (const Reader& reader : all_readers()) {
    for (const std::string mark : {"", "\xEF\xBB\xBF"}) {
      for (const std::string end : {"\n", "\r\n", "\r"}) {
        for (const std::string blank : {"", " ", "\t", "  \t "}) {
          for (const std::string& between : {std::string(), end, blank + end + end, "# a comment" + end}) {
            for (const std::string& last : {std::string(), end, end + blank, end + end + end}) {
              const std::string text = mark + between + blank + reader.lines[0] + blank + end + between + blank +
                                       reader.lines[1] + blank + last;
              EXPECT_EQ(reader.read(text), "") << reader.name << ": " << text;
            }
          }
        }
      }
    }
  }
}

TEST(TextFile, NoReaderTakesWhatIsNoText) {
  for (const Reader& reader : all_readers()) {
    std::string wide;
    for (const char c : reader.lines[0] + "\n" + reader.lines[1] + "\n") {
      wide += {c, '\0'};
    }
    EXPECT_NE(reader.read(wide), "") << reader.name;
    EXPECT_NE(reader.read("\xFF\xFE" + wide), "") << reader.name;
    EXPECT_NE(reader.read(reader.lines[0] + std::string(1, '\0') + "\n" + reader.lines[1]), "") << reader.name;
    EXPECT_NE(reader.read(""), "") << reader.name;
  }
}

TEST(TextFile, ShowsWhatStandsThere) {
  EXPECT_EQ(shown("a b"), "`a b`");
  EXPECT_EQ(shown(""), "``");
  EXPECT_EQ(shown(std::string_view("\x1b[1m\0", 5)), "`\\x1B[1m\\x00`");
  EXPECT_EQ(shown("\xC3\xBC"), "`\\xC3\\xBC`");
  EXPECT_EQ(shown(std::string(40, 'x')), "`" + std::string(40, 'x') + "`");
  EXPECT_EQ(shown(std::string(41, 'x')), "`" + std::string(40, 'x') + "...`");
}

}  // namespace
}  // namespace gradstream
