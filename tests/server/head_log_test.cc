// The file of heads: a line each, while the run moves.
#include "server/program/head_log.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/journal/store_memory.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
}

class HeadLogs : public testing::Test {
 protected:
  HeadLogs() { EXPECT_EQ(make_head_key(key_).sentence, ""); }

  // One server's life, in which the journal is at `sequence` when it ends.
  void live(uint64_t sequence) {
    asio::io_context io;
    StoreThread store(io, memory_, {}, {[](uint64_t, const ChainHead&) {}, [](StoreStatus) {}, [] {}});
    HeadLog log(io, store, path_, [sequence]() -> Expected<std::optional<JournalHead>> {
      JournalHead head;
      head.record.sequence = sequence;
      return sequence == 0 ? std::nullopt : std::optional(head);
    });
    ASSERT_EQ(log.begin(key_, 3600).sentence, "");
    log.end();
    log.end();  // nothing has changed: no line
    EXPECT_TRUE(store.stop());
  }

  const Folder folder_;
  const std::string key_ = folder_.file("head.key");
  const std::string path_ = head_log_path(folder_.file("fleet.db"));
  StoreMemory memory_;
};

TEST_F(HeadLogs, StandsBesideTheDatabase) {
  EXPECT_EQ(head_log_path("/var/lib/gradstream/fleet.db"), "/var/lib/gradstream/heads.log");
  EXPECT_EQ(head_log_path("fleet.db"), "heads.log");
}

TEST_F(HeadLogs, EachLineIsASignedHeadAndNoneIsLost) {
  live(0);
  EXPECT_THAT(lines_of(path_), SizeIs(0)) << "no version yet";
  live(7);
  live(9);
  const std::vector<std::string> lines = lines_of(path_);
  ASSERT_THAT(lines, SizeIs(2));
  HeadKey prover;
  ASSERT_EQ(prover.read_public(key_ + ".pub").sentence, "");
  for (size_t i = 0; i < 2; ++i) {
    SignedHead head;
    ASSERT_TRUE(parse_head(lines[i], &head));
    EXPECT_EQ(head.head.record.sequence, 7 + 2 * i);
    EXPECT_TRUE(prover.verify(head.text, head.signature));
  }
}

TEST_F(HeadLogs, ALineBehindATornOneIsWhole) {
  live(7);
  std::ofstream(path_, std::ios::app) << "gradstream_head=1 run=";
  live(9);
  const std::vector<std::string> lines = lines_of(path_);
  ASSERT_THAT(lines, SizeIs(3));
  SignedHead head;
  EXPECT_FALSE(parse_head(lines[1], &head));
  EXPECT_TRUE(parse_head(lines[2], &head));
}

TEST_F(HeadLogs, AFileThatIsRotatedAwayBeginsAnew) {
  live(7);
  std::filesystem::rename(path_, path_ + ".1");
  live(9);
  EXPECT_THAT(lines_of(path_), SizeIs(1));
  EXPECT_THAT(lines_of(path_ + ".1"), SizeIs(1));
}

TEST_F(HeadLogs, AKeyThatIsNoneIsNamed) {
  asio::io_context io;
  StoreThread store(io, memory_, {}, {[](uint64_t, const ChainHead&) {}, [](StoreStatus) {}, [] {}});
  HeadLog log(io, store, path_, [] { return std::optional<JournalHead>(); });
  EXPECT_THAT(log.begin(folder_.file("none.key"), 60).sentence, HasSubstr("none.key "));
  log.end();
  EXPECT_TRUE(store.stop());
  EXPECT_THAT(lines_of(path_), SizeIs(0));
}

}  // namespace
}  // namespace gradstream
