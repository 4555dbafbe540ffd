// A flipped bit in a write-ahead log is named, a torn last transaction is not.
#include "server/store/wal_check.h"

#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/database_lock.h"
#include "server/store/journal_table.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr size_t kHeaderSize = 32;
constexpr size_t kFrameSize = 24 + 4096;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

// The files of a server that was killed after 30 batches, its log far from a checkpoint.
class WalCheck : public testing::Test {
 protected:
  WalCheck() {
    const std::string alive = folder_.file("alive.db");
    SqliteDatabase database;
    EXPECT_EQ(database.open(options_for(alive)), StoreStatus::kOk) << database.error();
    RunRow run = run_row();
    run.id = value_of(database.create_run(run));
    SqliteStore journal(database, run.id);
    for (uint64_t batch = 0; batch < 30; ++batch) {
      before_last_ = read_file(alive + "-wal").size();
      EXPECT_EQ(journal.append(batch_of(1 + batch * 4, 4)), StoreStatus::kOk);
    }
    database_bytes_ = read_file(alive);
    wal_bytes_ = read_file(alive + "-wal");
    restore(wal_bytes_);
  }
  void restore(const std::string& wal) {
    std::filesystem::remove(path_ + "-shm");
    write_file(path_, database_bytes_);
    write_file(path_ + "-wal", wal);
  }
  // Records that opening finds; -1: it refuses the file.
  int64_t record_count(std::string* error = nullptr) {
    SqliteDatabase database;
    if (const StoreStatus status = database.open(options_for(path_)); status != StoreStatus::kOk) {
      EXPECT_EQ(status, StoreStatus::kCorrupt);
      if (error != nullptr) {
        *error = database.error();
      }
      return -1;
    }
    int64_t count = 0;
    SqliteStore journal(database, 1);
    const StoreStatus read = journal.read([&](const JournalRecord&) {
      ++count;
      return true;
    });
    EXPECT_EQ(read, StoreStatus::kOk);
    return count;
  }

  const Folder folder_;
  const std::string path_ = folder_.file("killed.db");
  std::string database_bytes_;
  std::string wal_bytes_;
  size_t before_last_ = 0;  // bytes of the log before the last batch
};

TEST_F(WalCheck, AWholeLogIsRead) {
  EXPECT_EQ(find_wal_damage(path_).sentence, "");
  EXPECT_EQ(record_count(), 120);
  EXPECT_EQ(find_wal_damage(folder_.file("absent.db")).sentence, "");
}

TEST_F(WalCheck, AFlippedBitBeforeTheLastTransactionIsNamed) {
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    std::string wal = wal_bytes_;
    const size_t at = kHeaderSize + random() % (before_last_ - kHeaderSize);
    wal[at] = static_cast<char>(wal[at] ^ (1 << random() % 8));
    restore(wal);
    const std::string frame = "frame " + std::to_string(1 + (at - kHeaderSize) / kFrameSize) + " ";
    EXPECT_THAT(find_wal_damage(path_).sentence, HasSubstr(frame)) << "byte " << at;
  }
  std::string error;
  EXPECT_EQ(record_count(&error), -1);
  EXPECT_THAT(error, HasSubstr("-wal is damaged: frame "));
  EXPECT_THAT(error, HasSubstr("restore the file"));
  EXPECT_EQ(read_file(path_ + "-wal").size(), wal_bytes_.size()) << "the log stays as it is";
}

// A command that keeps servers out holds the lock itself, and looks at the log like any other.
TEST_F(WalCheck, WhoHoldsTheLockSeesTheDamageToo) {
  std::string wal = wal_bytes_;
  wal[kHeaderSize + kFrameSize + 100] ^= 1;
  restore(wal);
  DatabaseLock lock;
  ASSERT_EQ(lock.take(path_).sentence, "");
  SqliteOptions options = options_for(path_);
  options.is_locked_here = true;
  SqliteDatabase database;
  EXPECT_EQ(database.open(options), StoreStatus::kCorrupt);
  EXPECT_THAT(database.error(), HasSubstr("-wal is damaged: frame 2 "));
  EXPECT_EQ(read_file(path_ + "-wal"), wal) << "the log stays as it is";
}

TEST_F(WalCheck, TheSaltsAndTheCommitOfTheTransactionBeforeTheLastCount) {
  for (size_t field = 0; field < 24; ++field) {
    std::string wal = wal_bytes_;
    const size_t at = before_last_ - kFrameSize + field;
    wal[at] = static_cast<char>(wal[at] ^ 0x80);
    restore(wal);
    EXPECT_NE(find_wal_damage(path_).sentence, "") << "byte " << field << " of the frame";
  }
}

TEST_F(WalCheck, AFlippedBitOfTheHeaderIsNamed) {
  for (size_t at = 0; at < kHeaderSize; ++at) {
    std::string wal = wal_bytes_;
    wal[at] = static_cast<char>(wal[at] ^ 4);
    restore(wal);
    EXPECT_NE(find_wal_damage(path_).sentence, "") << "byte " << at;
  }
  EXPECT_EQ(record_count(), -1);
}

// Each sector of the last batch is there or not, in any order, as a disk leaves them whose power fails.
TEST_F(WalCheck, ATornLastTransactionIsTakenBack) {
  constexpr size_t kSectorSize = 512;
  std::mt19937 random(6);
  for (int i = 0; i < 20; ++i) {
    std::string wal = wal_bytes_;
    for (size_t at = before_last_; at < wal.size(); at += kSectorSize) {
      if (random() % 2 == 0) {
        wal.replace(at, std::min(kSectorSize, wal.size() - at), std::min(kSectorSize, wal.size() - at), 0);
      }
    }
    restore(wal);
    EXPECT_EQ(find_wal_damage(path_).sentence, "");
    const int64_t count = record_count();
    EXPECT_TRUE(count == 116 || count == 120) << count;
  }
  for (size_t size = before_last_; size < wal_bytes_.size(); size += 1000) {
    restore(wal_bytes_.substr(0, size));
    EXPECT_EQ(record_count(), 116);
  }
}

TEST_F(WalCheck, ALogOfWhichNothingWasWrittenIsNone) {
  for (const size_t size : {size_t{0}, size_t{7}, kHeaderSize}) {
    restore(wal_bytes_.substr(0, size));
    EXPECT_EQ(find_wal_damage(path_).sentence, "") << size;
  }
}

}  // namespace
}  // namespace gradstream
