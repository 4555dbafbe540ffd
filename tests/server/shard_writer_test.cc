#include "server/program/shard_writer.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <unistd.h>

namespace gradstream {
namespace {

const std::vector<uint8_t> kBytes = {'n', 'e', 'w'};

class ShardWriterTest : public testing::Test {
 protected:
  ShardWriterTest() : folder_(testing::TempDir() + "shard_writer_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~ShardWriterTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void put(const std::string& name, const char* text) const { std::ofstream(path(name)) << text; }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  size_t file_count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::string folder_;
};

TEST_F(ShardWriterTest, FilesOfOthersBesideTheShardsStay) {
  const std::string stem = ".gradstream-" + std::to_string(::getpid()) + "-";
  put("a.gsd.part", "old");
  put(stem + "0.part", "old");
  std::filesystem::create_symlink(path("a.gsd.part"), path(stem + "1.part"));
  std::string failed;
  ShardWriter writer(folder_, false);
  ASSERT_EQ(writer.open_folder(), 0);
  ASSERT_EQ(writer.write(path("a.gsd"), kBytes), 0);
  ASSERT_EQ(writer.finish(&failed), 0);
  EXPECT_EQ(read("a.gsd"), "new");
  EXPECT_EQ(read("a.gsd.part"), "old");
  EXPECT_EQ(read(stem + "0.part"), "old");
  EXPECT_EQ(file_count(), 4U);
}

TEST_F(ShardWriterTest, TakesBackWhatItHasNotFinished) {
  put("a.gsd", "old");
  {
    ShardWriter writer(folder_, false);
    ASSERT_EQ(writer.open_folder(), 0);
    ASSERT_EQ(writer.write(path("a.gsd"), kBytes), 0);
    ASSERT_EQ(writer.write(path("b.gsd"), kBytes), 0);
    std::string failed;
    EXPECT_EQ(writer.finish(&failed), EEXIST);  // b.gsd has its name by then
    EXPECT_EQ(failed, path("a.gsd"));
    EXPECT_FALSE(writer.has_replaced());
  }
  EXPECT_EQ(read("a.gsd"), "old");
  EXPECT_EQ(file_count(), 1U);
  {
    ShardWriter writer(path("made"), false);
    ASSERT_EQ(writer.open_folder(), 0);
    ASSERT_EQ(writer.write(path("made/a.gsd"), kBytes), 0);
  }
  EXPECT_EQ(file_count(), 1U);
  EXPECT_EQ(ShardWriter(path("a.gsd"), false).open_folder(), ENOTDIR);
}

TEST_F(ShardWriterTest, ReplacesByForceAlone) {
  put("a.gsd", "old");
  ShardWriter writer(folder_, true);
  std::string failed;
  ASSERT_EQ(writer.open_folder(), 0);
  ASSERT_EQ(writer.write(path("a.gsd"), kBytes), 0);
  ASSERT_EQ(writer.finish(&failed), 0);
  EXPECT_TRUE(writer.has_replaced());
  EXPECT_EQ(read("a.gsd"), "new");
  EXPECT_EQ(file_count(), 1U);
}

}  // namespace
}  // namespace gradstream
