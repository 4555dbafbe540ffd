// The lock: one server a database, and probes that leave it free.
#include "server/store/database_lock.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

TEST(DatabaseLock, OneServerPerDatabase) {
  const Folder folder;
  DatabaseLock first;
  EXPECT_EQ(first.take(folder.file("a.db")), "");
  DatabaseLock second;
  const std::string problem = second.take(folder.file("a.db"));
  EXPECT_THAT(problem, HasSubstr("process " + std::to_string(getpid())));
  EXPECT_THAT(problem, HasSubstr("stop that one"));
  std::filesystem::resize_file(folder.file("a.db.lock"), 0);
  EXPECT_THAT(second.take(folder.file("a.db")), HasSubstr("process unknown")) << "it has not named itself yet";
}

TEST(DatabaseLock, AProbeOfTheLockLeavesItFree) {
  const Folder folder;
  DatabaseOwner owner = {true, 0, 0};
  EXPECT_EQ(DatabaseLock::probe(folder.file("a.db"), &owner), "");
  EXPECT_FALSE(owner.is_held) << "no lock file yet";
  {
    DatabaseLock server;
    ASSERT_EQ(server.take(folder.file("a.db")), "");
    EXPECT_EQ(DatabaseLock::probe(folder.file("a.db"), &owner), "");
    EXPECT_TRUE(owner.is_held);
    EXPECT_TRUE(owner.may_serve(7)) << "it has not chosen yet";
    ASSERT_EQ(server.name_run(12), "");
    EXPECT_EQ(DatabaseLock::probe(folder.file("a.db"), &owner), "");
    EXPECT_EQ(owner.process, static_cast<uint32_t>(getpid()));
    EXPECT_EQ(owner.run, 12U);
    EXPECT_FALSE(owner.may_serve(7));
  }
  EXPECT_EQ(DatabaseLock::probe(folder.file("a.db"), &owner), "");
  EXPECT_FALSE(owner.is_held || owner.may_serve(12));
  DatabaseLock next;
  EXPECT_EQ(next.take(folder.file("a.db")), "");
}

}  // namespace
}  // namespace gradstream
