// Folders, and names that change. That syncs reach the disk is what tests/server/durable_files_test.py watches.
#include "server/base/durable_file.h"

#include <cerrno>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/store_support.h"

namespace gradstream {
namespace {

TEST(DurableFile, TheFolderOfAPath) {
  EXPECT_EQ(folder_of("a"), ".");
  EXPECT_EQ(folder_of("/a"), "/");
  EXPECT_EQ(folder_of("/a/b"), "/a");
  EXPECT_EQ(folder_of("a/b/c"), "a/b");
}

TEST(DurableFile, ARenameReplacesAndSaysWhyNot) {
  const Folder folder;
  std::ofstream(folder.file("new")) << "new";
  std::ofstream(folder.file("old")) << "old";
  EXPECT_EQ(rename_durably(folder.file("new"), folder.file("old")), 0);
  std::string text;
  std::ifstream(folder.file("old")) >> text;
  EXPECT_EQ(text, "new");
  EXPECT_EQ(rename_durably(folder.file("new"), folder.file("old")), ENOENT);
  EXPECT_EQ(rename_durably(folder.file("old"), folder.file("none/old")), ENOENT);
  EXPECT_EQ(sync_folder_of(folder.file("old")), 0);
  EXPECT_EQ(sync_folder_of(folder.file("none/old")), ENOENT);
}

}  // namespace
}  // namespace gradstream
