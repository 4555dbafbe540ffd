#include "server/program/model_export.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/as_nobody.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

const std::vector<Real> kModel = {1.0F, -0.5F, 0.1F, 1e-20F, 3.0F, 7.25F};

TEST(ModelExport, NpyIsFormatOneRowByRow) {
  const std::vector<uint8_t> bytes = npy_bytes({3, 2}, kModel);
  const std::string head(bytes.begin(), bytes.begin() + 128);
  EXPECT_EQ(head.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ((bytes[8] | bytes[9] << 8) + 10, 128);
  EXPECT_THAT(head, HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"));
  EXPECT_EQ(head.back(), '\n');
  ASSERT_EQ(bytes.size(), 128 + 6 * sizeof(Real));
  EXPECT_EQ(std::memcmp(bytes.data() + 128, kModel.data(), 6 * sizeof(Real)), 0);
}

TEST(ModelExport, CsvHasALineForEachRow) { EXPECT_EQ(csv_text({3, 2}, kModel), "1,-0.5\n0.1,1e-20\n3,7.25\n"); }

TEST(ModelExport, NeitherADatabaseNorWhatIsNoOrdinaryFileIsReplaced) {
  std::string folder = testing::TempDir() + "export_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::vector<uint8_t> bytes = {1, 2, 3};
  const std::string database = folder + "/gs.db";
  std::ofstream(database) << std::string("SQLite format 3\0rest", 20);
  EXPECT_THAT(write_file_atomically(database, bytes).sentence, HasSubstr("is a database, and stays as it is"));
  EXPECT_EQ(std::filesystem::file_size(database), 20U);
  std::filesystem::create_symlink(database, folder + "/link");
  std::filesystem::create_directory(folder + "/folder");
  for (const char* const name : {"/link", "/folder"}) {
    EXPECT_THAT(write_file_atomically(folder + name, bytes).sentence, HasSubstr("no ordinary file"));
  }
  const std::string model = folder + "/m.npy";
  EXPECT_EQ(write_file_atomically(model, bytes).sentence, "");
  EXPECT_EQ(write_file_atomically(model, bytes).sentence, "") << "a model is replaced by a newer one";
  std::filesystem::remove_all(folder);
}

TEST(ModelExport, FilesAppearWholeOrNotAtAll) {
  std::string folder = testing::TempDir() + "export_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  EXPECT_EQ(version_file_name(3, 12), "run3_v000012.npy");
  const std::string path = folder + "/" + version_file_name(3, 12);
  const std::vector<uint8_t> bytes = npy_bytes({3, 2}, kModel);
  EXPECT_EQ(check_export_folder(folder, true).sentence, "");
  EXPECT_EQ(check_export_folder(folder, false).sentence, "");
  if (AsNobody::is_possible()) {
    const AsNobody as_nobody;
    EXPECT_THAT(check_export_folder(folder, true).sentence, HasSubstr("Permission denied"));
    EXPECT_THAT(check_export_folder(folder, false).sentence, HasSubstr("Permission denied"));
  }
  EXPECT_EQ(write_file_atomically(path, bytes).sentence, "");
  EXPECT_EQ(write_file_atomically(path, bytes).sentence, "") << "a file from before a restart is replaced";
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  EXPECT_EQ(content.str(), std::string(bytes.begin(), bytes.end()));
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++count;
  }
  EXPECT_EQ(count, 1U) << "nothing is left beside it";
  std::filesystem::remove_all(folder);
  EXPECT_THAT(check_export_folder(folder, false).sentence, HasSubstr("mkdir -p"));
  EXPECT_THAT(write_file_atomically(path, bytes).sentence, HasSubstr("cannot write " + path));
}

}  // namespace
}  // namespace gradstream
