#include "firmware/record_posix.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/lineage.h"
#include "runtime/base/crc32c.h"
#include "tests/support/client_support.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_port.h"
#include "tests/support/fake_server.h"

namespace gradstream {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class RecordPosix : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "record_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path() const { return (folder_ / "record").string(); }
  std::vector<std::string> lines() const {
    std::ifstream file(path());
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) {
      all.push_back(line);
    }
    return all;
  }
  // An update of two values, which device 3 was told of.
  static void judge(const ClientMainOptions& options, const StoredUpload& update) {
    constexpr float kValues[] = {1.5F, -2.0F};
    uint8_t bytes[sizeof kValues];
    std::memcpy(bytes, kValues, sizeof bytes);
    gs_Ack ack = {};
    ack.verdict = gs_Verdict_VERDICT_FOLDED;
    ack.version = 6;
    ack.duplicate = true;
    options.judged->tell(options.judged->context, 3, update, {bytes, sizeof bytes}, ack);
  }

  StoredUpload update_{
      .task_sequence = 7, .base_version = 4, .steps_done = 2, .value_count = 2, .size = 8, .encoding = Encoding::kF32};
  fs::path folder_;
};

// What the checker of a lineage reads.
TEST_F(RecordPosix, ALineHasWhatTheUpdateWasAndWhatBecameOfIt) {
  for (int life = 0; life < 2; ++life) {
    UpdateRecord record;
    ClientMainOptions options;
    ASSERT_EQ(open_record(path(), &record, &options), kExitOk);
    judge(options, update_);
  }
  ASSERT_EQ(lines().size(), 2U) << "the second life of the client goes on behind the first one";
  LineageAck ack;
  ASSERT_TRUE(parse_ack(lines()[1], &ack)) << lines()[1];
  EXPECT_EQ(ack.device, 3U);
  EXPECT_EQ(ack.task_sequence, 7U);
  EXPECT_EQ(ack.base_version, 4U);
  EXPECT_EQ(ack.version, 6U);
  EXPECT_EQ(ack.verdict, uint32_t{gs_Verdict_VERDICT_FOLDED});
  EXPECT_TRUE(ack.is_duplicate);
  EXPECT_EQ(ack.steps, 2U);
  EXPECT_THAT(ack.values, ElementsAre(1.5F, -2.0F));
  EXPECT_EQ(ack.crc32c, crc32c(0, reinterpret_cast<const uint8_t*>(ack.values.data()), 8));
  const std::string whole = lines()[1];
  EXPECT_FALSE(parse_ack(whole.substr(0, whole.size() - 1), &ack)) << "a line that is torn";
  struct stat status = {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(RecordPosix, AnAnswerToAStageBeforeTrainingHasNoLine) {
  UpdateRecord record;
  ClientMainOptions options;
  ASSERT_EQ(open_record(path(), &record, &options), kExitOk);
  update_.stage = TaskStage::kSums;
  judge(options, update_);
  EXPECT_TRUE(lines().empty());
}

TEST_F(RecordPosix, WithoutAPathNobodyIsTold) {
  UpdateRecord record;
  ClientMainOptions options;
  EXPECT_EQ(open_record("", &record, &options), kExitOk);
  EXPECT_EQ(options.judged, nullptr);
  EXPECT_EQ(record.open((folder_ / "none" / "record").string()), ENOENT);
}

// Its updates tell of the data, and O_CREAT sets no mode of a file that is there.
TEST_F(RecordPosix, AFileThatOthersMayReadIsRefused) {
  for (const mode_t mode : {0640U, 0604U, 0610U, 0620U}) {
    std::ofstream(path()) << "event=ack\n";
    ASSERT_EQ(::chmod(path().c_str(), mode), 0);
    UpdateRecord record;
    ClientMainOptions options;
    fake_port().lines.clear();
    EXPECT_EQ(open_record(path(), &record, &options), kExitUsage) << mode;
    EXPECT_EQ(options.judged, nullptr);
    EXPECT_THAT(fake_port().lines, ElementsAre(HasSubstr("chmod 600 " + path() + ", or name a file"))) << mode;
    EXPECT_THAT(lines(), ElementsAre("event=ack")) << "it is as it was";
  }
  ASSERT_EQ(::chmod(path().c_str(), 0600), 0);
  UpdateRecord record;
  EXPECT_EQ(record.open(path()), 0);
}

// The client would wait for the reader of a pipe, and write where a link of another user leads.
TEST_F(RecordPosix, WhatIsNoOrdinaryFileIsRefused) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  for (const bool has_reader : {false, true}) {
    const int reader = has_reader ? ::open(path().c_str(), O_RDONLY | O_NONBLOCK) : -1;
    ASSERT_EQ(reader >= 0, has_reader);
    UpdateRecord record;
    ClientMainOptions options;
    fake_port().lines.clear();
    EXPECT_EQ(open_record(path(), &record, &options), kExitUsage) << has_reader;
    EXPECT_THAT(fake_port().lines, ElementsAre(HasSubstr("no ordinary file; name a file that is not there yet")));
    if (has_reader) {
      ::close(reader);
    }
  }
  const std::string link = (folder_ / "link").string();
  const fs::path behind = folder_ / "behind";
  fs::create_symlink(behind, link);
  UpdateRecord record;
  ClientMainOptions options;
  fake_port().lines.clear();
  EXPECT_EQ(open_record(link, &record, &options), kExitUsage);
  EXPECT_THAT(fake_port().lines, ElementsAre(HasSubstr("name the file itself")));
  EXPECT_FALSE(fs::exists(behind));
  EXPECT_EQ(record.open(folder_.string()), EISDIR);
  EXPECT_EQ(record.open("/dev/null"), ESPIPE);
}

// Of each update that the server has judged, with the values that it has folded.
TEST_F(RecordPosix, AClientTellsOfItsUpdates) {
  UpdateRecord record;
  ClientMainOptions options;
  ASSERT_EQ(open_record(path(), &record, &options), kExitOk);
  FakeDevice device;
  device.config.judged = *options.judged;
  FakeServer server(tangent_run());
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  ASSERT_EQ(lines().size(), link.client().counters().updates_folded);
  EXPECT_GT(lines().size(), 1U);
  uint32_t before = 0;
  for (const std::string& line : lines()) {
    LineageAck ack;
    ASSERT_TRUE(parse_ack(line, &ack)) << line;
    EXPECT_GT(ack.task_sequence, before);
    EXPECT_EQ(ack.version, ack.base_version + 1);
    EXPECT_EQ(ack.values.size(), tangent_run().shape.size());
    before = ack.task_sequence;
  }
}

}  // namespace
}  // namespace gradstream
