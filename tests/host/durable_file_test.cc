// Folders, and names that change. That syncs reach the disk is what tests/server/durable_files_test.py watches.
#include "host/durable_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(DurableFile, ARenameReplacesAndSaysWhyNot) {
  std::string folder = testing::TempDir() + "durable_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string young = folder + "/young";
  const std::string old = folder + "/old";
  std::ofstream(young) << "young";
  std::ofstream(old) << "old";
  EXPECT_EQ(rename_durably(young.c_str(), old.c_str()), 0);
  std::string text;
  std::ifstream(old) >> text;
  EXPECT_EQ(text, "young");
  EXPECT_EQ(rename_durably(young.c_str(), old.c_str()), ENOENT);
  EXPECT_EQ(rename_durably(old.c_str(), (folder + "/none/old").c_str()), ENOENT);
  std::filesystem::remove_all(folder);
}

TEST(DurableFile, TheFolderOfAPathIsSynced) {
  EXPECT_EQ(sync_folder_of("a"), 0) << "the working folder";
  EXPECT_EQ(sync_folder_of("/a"), 0);
  EXPECT_EQ(sync_folder_of("/no folder/a"), ENOENT);
  EXPECT_EQ(sync_folder_of((std::string(5000, 'x') + "/a").c_str()), ENAMETOOLONG);
}

}  // namespace
}  // namespace gradstream
