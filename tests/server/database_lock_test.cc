// The lock: one server a database, and probes that leave it free.
#include "server/store/database_lock.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

TEST(DatabaseLock, OneServerPerDatabase) {
  const Folder folder;
  DatabaseLock first;
  EXPECT_EQ(first.take(folder.file("a.db")).sentence, "");
  DatabaseLock second;
  const std::string problem = second.take(folder.file("a.db")).sentence;
  EXPECT_THAT(problem, HasSubstr("process " + std::to_string(getpid())));
  EXPECT_THAT(problem, HasSubstr("stop that one"));
  std::filesystem::resize_file(folder.file("a.db.lock"), 0);
  EXPECT_THAT(second.take(folder.file("a.db")).sentence, HasSubstr("process unknown")) << "it has not named itself yet";
}

TEST(DatabaseLock, AProbeOfTheLockLeavesItFree) {
  const Folder folder;
  DatabaseOwner owner = {true, 0, 0};
  EXPECT_EQ(DatabaseLock::probe(folder.file("a.db"), &owner).sentence, "");
  EXPECT_FALSE(owner.is_held) << "no lock file yet";
  {
    DatabaseLock server;
    ASSERT_EQ(server.take(folder.file("a.db")).sentence, "");
    EXPECT_EQ(DatabaseLock::probe(folder.file("a.db"), &owner).sentence, "");
    EXPECT_TRUE(owner.is_held);
    EXPECT_TRUE(owner.may_serve(7)) << "it has not chosen yet";
    ASSERT_EQ(server.name_run(12).sentence, "");
    EXPECT_EQ(DatabaseLock::probe(folder.file("a.db"), &owner).sentence, "");
    EXPECT_EQ(owner.process, static_cast<uint32_t>(getpid()));
    EXPECT_EQ(owner.run, 12U);
    EXPECT_FALSE(owner.may_serve(7));
  }
  EXPECT_EQ(DatabaseLock::probe(folder.file("a.db"), &owner).sentence, "");
  EXPECT_FALSE(owner.is_held || owner.may_serve(12));
  DatabaseLock next;
  EXPECT_EQ(next.take(folder.file("a.db")).sentence, "");
}

std::string this_process() { return "process " + std::to_string(getpid()); }

void make_file(const std::string& path) { std::ofstream(path) << "a database"; }

TEST(DatabaseLock, OneServerWhateverTheName) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  make_file(path);
  std::filesystem::create_symlink("a.db", folder.file("soft.db"));
  std::filesystem::create_hard_link(path, folder.file("hard.db"));
  std::filesystem::create_directory_symlink(".", folder.file("door"));
  DatabaseLock first;
  ASSERT_EQ(first.take(path).sentence, "");
  for (const char* const name : {"soft.db", "hard.db", "door/a.db", "door/soft.db", "door/hard.db"}) {
    DatabaseLock second;
    EXPECT_THAT(second.take(folder.file(name)).sentence, HasSubstr(this_process())) << name;
  }
}

TEST(DatabaseLock, ACommandFindsTheServerByALinkAndIsToldOfAnotherName) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  make_file(path);
  std::filesystem::create_symlink("a.db", folder.file("soft.db"));
  std::filesystem::create_hard_link(path, folder.file("hard.db"));
  EXPECT_EQ(DatabaseLock::check_name(folder.file("hard.db")).sentence, "") << "nobody serves it";
  DatabaseLock server;
  ASSERT_EQ(server.take(path).sentence, "");
  DatabaseOwner owner;
  EXPECT_EQ(DatabaseLock::probe(folder.file("soft.db"), &owner).sentence, "");
  EXPECT_TRUE(owner.is_held);
  EXPECT_EQ(DatabaseLock::check_name(path).sentence, "");
  EXPECT_EQ(DatabaseLock::check_name(folder.file("soft.db")).sentence, "");
  EXPECT_THAT(DatabaseLock::check_name(folder.file("hard.db")).sentence,
              HasSubstr("under another name, by " + this_process()));
  EXPECT_EQ(DatabaseLock::check_name(folder.file("none.db")).sentence, "");
}

// In a process of its own, as the server is: this one's own locks are known without a look at files.
TEST(DatabaseLock, ACommandIsToldThatTheServersFileIsGoneOrAnother) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  make_file(path);
  int served[2] = {}, done[2] = {};
  ASSERT_EQ(pipe(served), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    DatabaseLock server;
    char byte = server.take(path).sentence.empty() && server.name_run(3).sentence.empty() ? 'y' : 'n';
    const bool is_told = write(served[1], &byte, 1) == 1 && read(done[0], &byte, 1) == 1;
    std::_Exit(is_told ? 0 : 1);
  }
  char byte = 'n';
  ASSERT_EQ(read(served[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_EQ(DatabaseLock::check_name(path).sentence, "");
  std::filesystem::rename(path, folder.file("away.db"));
  const std::string process = "process " + std::to_string(child);
  for (const char* const word : {process.c_str(), "removed or moved away", "restore a copy"}) {
    EXPECT_THAT(DatabaseLock::check_name(path).sentence, HasSubstr(word));
  }
  SqliteDatabase database;
  SqliteOptions options;
  options.path = path;
  EXPECT_EQ(database.open(options), StoreStatus::kBusy);
  EXPECT_FALSE(std::filesystem::exists(path)) << "no stub that a server would take for an empty fleet";
  make_file(path);
  EXPECT_THAT(DatabaseLock::check_name(path).sentence, HasSubstr("this one has taken its place"));
  std::filesystem::rename(folder.file("away.db"), path);
  EXPECT_EQ(DatabaseLock::check_name(path).sentence, "");
  ASSERT_EQ(write(done[1], &byte, 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(DatabaseLock, AFileThatTheServerMadeIsHeldToo) {
  const Folder folder;
  const std::string path = folder.file("a.db");
  DatabaseLock server;
  ASSERT_EQ(server.take(path).sentence, "");
  EXPECT_THAT(server.hold_file().sentence, HasSubstr("cannot be read"));
  make_file(path);
  ASSERT_EQ(server.hold_file().sentence, "");
  EXPECT_EQ(server.hold_file().sentence, "");
  std::filesystem::create_hard_link(path, folder.file("hard.db"));
  DatabaseLock second;
  EXPECT_THAT(second.take(folder.file("hard.db")).sentence, HasSubstr("under another name"));
  std::filesystem::remove(path);
  make_file(path);
  EXPECT_THAT(server.hold_file().sentence, HasSubstr("another file has taken the place"));
}

// In a mount namespace of its own the file gets a second name that no link count shows.
int take_by_bind_mount(const std::string& path, const std::string& other) {
  constexpr int kNotPossible = 77;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount(path.c_str(), other.c_str(), nullptr, MS_BIND, nullptr) != 0) {
      _exit(kNotPossible);
    }
    DatabaseLock second;
    _exit(second.take(other).sentence.find("under another name") == std::string::npos ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(DatabaseLock, ABindMountInAnotherNamespaceIsTheSameFile) {
  const Folder folder;
  make_file(folder.file("a.db"));
  make_file(folder.file("b.db"));
  DatabaseLock server;
  ASSERT_EQ(server.take(folder.file("a.db")).sentence, "");
  const int outcome = take_by_bind_mount(folder.file("a.db"), folder.file("b.db"));
  if (outcome == 77) {
    GTEST_SKIP() << "a mount namespace takes the rights of root";
  }
  EXPECT_EQ(outcome, 0);
}

}  // namespace
}  // namespace gradstream
