#include "host/file_cause.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gradstream {
namespace {

namespace fs = std::filesystem;

TEST(FileCause, TellsWhatMendsByItself) {
  for (const int cause : {EROFS, EIO, ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM, ENODEV, ENXIO, ESTALE, ETIMEDOUT}) {
    EXPECT_TRUE(is_temporary(cause)) << std::strerror(cause);
    EXPECT_STRNE(cause_text(cause), "") << cause;
    EXPECT_STRNE(remedy_text(cause, "none"), "none") << cause;
  }
  for (const int cause : {0, ENOENT, EACCES, EPERM, EISDIR, ENOTDIR, ENAMETOOLONG, ELOOP, EINVAL}) {
    EXPECT_FALSE(is_temporary(cause)) << std::strerror(cause);
    EXPECT_STREQ(cause_text(cause), std::strerror(cause));
    EXPECT_STREQ(remedy_text(cause, "the caller's"), "the caller's");
  }
  EXPECT_STREQ(cause_text(EROFS), "the file system is read-only");
}

TEST(FileCause, AFileOfAFolderThatIsMissingOrEmptyMayComeLater) {
  const std::string folder = testing::TempDir() + "file_cause_" + std::to_string(::getpid());
  fs::create_directories(folder + "/mount");
  EXPECT_TRUE(is_temporary_at(ENOENT, (folder + "/gone/data.gsd").c_str()));
  EXPECT_TRUE(is_temporary_at(ENOENT, (folder + "/mount/data.gsd").c_str()));
  std::ofstream(folder + "/mount/other") << "x";
  EXPECT_FALSE(is_temporary_at(ENOENT, (folder + "/mount/data.gsd").c_str()));
  EXPECT_FALSE(is_temporary_at(ENOENT, "/data.gsd"));
  EXPECT_FALSE(is_temporary_at(EACCES, (folder + "/gone/data.gsd").c_str()));
  EXPECT_TRUE(is_temporary_at(EIO, (folder + "/mount/data.gsd").c_str()));
  EXPECT_FALSE(is_temporary_at(ENOENT, ("/" + std::string(5000, 'x') + "/y").c_str()));
  fs::remove_all(folder);
}

TEST(FileCause, OnlyAnOrdinaryFileIsOpenedToRead) {
  std::string folder = testing::TempDir() + "cause_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/file";
  EXPECT_EQ(open_to_read(path.c_str()), -1);
  EXPECT_EQ(errno, ENOENT);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(open_to_read(path.c_str()), -1) << "without a wait for a writer";
  EXPECT_EQ(errno, ESPIPE);
  EXPECT_EQ(open_to_read("/dev/zero"), -1);
  EXPECT_EQ(errno, ESPIPE);
  EXPECT_EQ(open_to_read(folder.c_str()), -1);
  EXPECT_EQ(errno, EISDIR);
  fs::remove(path);
  std::ofstream(path) << "text";
  const int file = open_to_read(path.c_str());
  EXPECT_GE(file, 0);
  close(file);
  fs::remove_all(folder);
}

TEST(FileCause, FindsWhatIsWrongWithAPath) {
  const std::string folder = testing::TempDir() + "file_fault_" + std::to_string(::getpid());
  fs::create_directories(folder);
  EXPECT_EQ(find_path_fault(folder.c_str(), true), 0);
  EXPECT_EQ(find_path_fault((folder + "/none").c_str(), true), ENOENT);
  EXPECT_EQ(find_path_fault((folder + "/none").c_str(), false), ENOENT);
  EXPECT_EQ(find_path_fault(folder.c_str(), false), EISDIR);
  EXPECT_EQ(find_path_fault("/dev/null", false), 0);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace gradstream
