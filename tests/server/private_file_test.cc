// Files that hold secrets: any right of a group or of others counts.
#include "server/base/private_file.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace gradstream {
namespace {

using std::filesystem::perms;

class PrivateFile : public testing::Test {
 protected:
  PrivateFile() { std::ofstream(path_) << "secret"; }
  ~PrivateFile() override { std::filesystem::remove(path_); }
  bool is_read(perms others) const {
    std::filesystem::permissions(path_, perms::owner_read | perms::owner_write | others);
    return is_read_by_others(path_);
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("gradstream_private_" + std::to_string(::getpid()))).string();
};

TEST_F(PrivateFile, IsItsOwnersAlone) { EXPECT_FALSE(is_read(perms::none)); }

TEST_F(PrivateFile, AnyRightOfAnybodyElseCounts) {
  for (const perms right : {perms::group_read, perms::group_write, perms::group_exec, perms::others_read,
                            perms::others_write, perms::others_exec}) {
    EXPECT_TRUE(is_read(right)) << static_cast<unsigned>(right);
  }
}

TEST_F(PrivateFile, OneThatIsNotThereIsReadByNobody) { EXPECT_FALSE(is_read_by_others(path_ + ".none")); }

}  // namespace
}  // namespace gradstream
