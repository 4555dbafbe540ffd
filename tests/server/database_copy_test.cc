// Copies: whole while the database is at work, and from a folder that is only read.
#include "server/store/database_copy.h"

#include <filesystem>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/store/database_lock.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr uid_t kOtherUser = 65534;  // nobody

TEST(DatabaseCopy, ACopyOfADatabaseAtWorkIsWhole) {
  const Folder folder;
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  EXPECT_TRUE(value_of(database.add_device("a", DeviceKey{}, 7)));  // stands in the write-ahead log
  std::string error;
  ASSERT_EQ(copy_database(folder.file("a.db"), folder.file("copy.db"), &error), StoreStatus::kOk) << error;
  EXPECT_TRUE(value_of(database.add_device("later", DeviceKey{}, 7)));
  struct stat info = {};
  ASSERT_EQ(stat(folder.file("copy.db").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  SqliteOptions options = options_for(folder.file("copy.db"));
  options.check_integrity = true;
  SqliteDatabase copy;
  ASSERT_EQ(copy.open(options), StoreStatus::kOk) << copy.error();
  std::vector<EnrolledDevice> rows = value_of(copy.devices());
  EXPECT_EQ(rows.size(), 1U);
  EXPECT_EQ(copy_database(folder.file("a.db"), folder.file("copy.db"), &error), StoreStatus::kFailed);
  EXPECT_THAT(error, HasSubstr("remove it"));
  EXPECT_EQ(copy_database(folder.file("none.db"), folder.file("b.db"), &error), StoreStatus::kFailed);
  EXPECT_THAT(error, HasSubstr("none.db cannot be read: No such file"));
  EXPECT_EQ(copy_database(folder.file(""), folder.file("b.db"), &error), StoreStatus::kFailed);
  EXPECT_THAT(error, HasSubstr("is no regular file"));
  EXPECT_EQ(copy_database(folder.file("a.db"), folder.file("none/b.db"), &error), StoreStatus::kFailed);
  EXPECT_THAT(error, HasSubstr("check its folder"));
}

TEST(DatabaseCopy, UnderAnotherNameThanTheServersNothingIsCopied) {
  const Folder folder;
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  }
  std::filesystem::create_hard_link(folder.file("a.db"), folder.file("b.db"));
  std::string error;
  EXPECT_EQ(copy_database(folder.file("b.db"), folder.file("copy.db"), &error), StoreStatus::kOk) << error;
  DatabaseLock server;
  ASSERT_EQ(server.take(folder.file("a.db")).sentence, "");
  EXPECT_EQ(copy_database(folder.file("b.db"), folder.file("later.db"), &error), StoreStatus::kBusy);
  EXPECT_THAT(error, HasSubstr("under another name"));
  EXPECT_FALSE(std::filesystem::exists(folder.file("later.db")));
}

// Copies as a user who may not write the folder of `from` (root may write everywhere). The error, or "copied"; empty
// where root cannot become another user.
std::string copy_as_another_user(const std::string& from, const std::string& to) {
  int ends[2] = {};
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() != 0 || (setgid(kOtherUser) == 0 && setuid(kOtherUser) == 0)) {
      std::string error;
      const StoreStatus status = copy_database(from, to, &error);
      error = status == StoreStatus::kOk ? "copied" : error;
      [[maybe_unused]] const ssize_t size = write(ends[1], error.data(), error.size());
    }
    _exit(0);
  }
  close(ends[1]);
  std::string said(4096, 0);
  const ssize_t size = read(ends[0], said.data(), said.size());
  said.resize(size > 0 ? static_cast<size_t>(size) : 0);
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return said;
}

constexpr const char* kNoOtherUser = "root may write every folder, and cannot become another user here";

// A folder of copies, in WAL mode as they were, that is only read, and one to copy into.
TEST(DatabaseCopy, ACopyWithAWriteAheadLogIsReadWhereItsFolderIsNotWritten) {
  namespace fs = std::filesystem;
  const Folder folder;
  chmod(folder.file("").c_str(), 0755);
  const std::string copies = folder.file("100%25 of? #1");
  fs::create_directory(copies);
  fs::create_directory(folder.file("own"));
  for (const char* const name : {"whole.db", "torn.db"}) {
    const std::string path = copies + "/" + name;
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(folder.file(name))), StoreStatus::kOk) << database.error();
    EXPECT_TRUE(value_of(database.add_device("a", DeviceKey{}, 7)));
    fs::copy_file(folder.file(name), path);
    fs::copy_file(folder.file(name) + "-wal", path + "-wal");
  }
  {
    SqliteDatabase database;  // its last reader folds the log into the file
    ASSERT_EQ(database.open(options_for(copies + "/whole.db")), StoreStatus::kOk) << database.error();
  }
  ASSERT_FALSE(fs::exists(copies + "/whole.db-wal"));
  if (geteuid() == 0) {
    for (const std::string& path :
         {copies + "/whole.db", copies + "/torn.db", copies + "/torn.db-wal", folder.file("own")}) {
      if (chown(path.c_str(), kOtherUser, kOtherUser) != 0) {
        GTEST_SKIP() << kNoOtherUser;
      }
    }
  }
  chmod(copies.c_str(), 0555);
  const std::string whole = copy_as_another_user(copies + "/whole.db", folder.file("own/whole.db"));
  const std::string torn = copy_as_another_user(copies + "/torn.db", folder.file("own/torn.db"));
  chmod(copies.c_str(), 0755);  // or it could not be removed
  if (whole.empty()) {
    GTEST_SKIP() << kNoOtherUser;
  }
  EXPECT_EQ(whole, "copied");
  EXPECT_THAT(torn, HasSubstr("torn.db-wal belongs to it, and needs a folder that can be written: copy both files"));
  SqliteDatabase copy;
  ASSERT_EQ(copy.open(options_for(folder.file("own/whole.db"))), StoreStatus::kOk) << copy.error();
  std::vector<EnrolledDevice> rows = value_of(copy.devices());
  EXPECT_EQ(rows.size(), 1U);
}

// SQLite tells by the mode that the pragma returns, not by an error. Here each connection passes over that pragma.
TEST(DatabaseCopy, ACopyThatKeepsItsWriteAheadLogIsRefused) {
  const Folder folder;
  {
    SqliteDatabase database;
    ASSERT_EQ(database.open(options_for(folder.file("a.db"))), StoreStatus::kOk);
  }
  const auto pass_over = [](sqlite3* connection, char**, const sqlite3_api_routines*) {
    const auto judge = [](void*, int action, const char* what, const char*, const char*, const char*) {
      return action == SQLITE_PRAGMA && std::string_view(what) == "journal_mode" ? SQLITE_IGNORE : SQLITE_OK;
    };
    return sqlite3_set_authorizer(connection, judge, nullptr);
  };
  int (*const extension)(sqlite3*, char**, const sqlite3_api_routines*) = pass_over;
  ASSERT_EQ(sqlite3_auto_extension(reinterpret_cast<void (*)()>(extension)), SQLITE_OK);
  std::string error;
  const StoreStatus status = copy_database(folder.file("a.db"), folder.file("copy.db"), &error);
  sqlite3_reset_auto_extension();
  EXPECT_EQ(status, StoreStatus::kFailed);
  EXPECT_THAT(error, HasSubstr("the copy's journal_mode stays unknown; name a file on a local disk"));
  EXPECT_FALSE(std::filesystem::exists(folder.file("copy.db")));
}

}  // namespace
}  // namespace gradstream
