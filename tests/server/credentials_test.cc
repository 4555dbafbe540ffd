// The server's certificate files: what is read, what is said of bad ones, and what a reload leaves as it was.
#include "server/link/credentials.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/certificates.h"

namespace gradstream {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class CredentialFiles : public testing::Test {
 protected:
  CredentialFiles() { std::filesystem::create_directories(folder_); }
  ~CredentialFiles() override { std::filesystem::remove_all(folder_); }
  std::string write(const char* name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    allow(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return path;
  }
  static void allow(const std::string& path, std::filesystem::perms who) { std::filesystem::permissions(path, who); }
  CredentialPaths good() {
    return {write("ca.pem", test_pem::kCa), write("server.pem", test_pem::kServer),
            write("server.key", test_pem::kServerKey)};
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("gradstream_credentials_" + std::to_string(::getpid()));
};

TEST_F(CredentialFiles, GoodOnesArePublished) {
  CredentialBoard board;
  EXPECT_EQ(board.read(), nullptr);
  ASSERT_EQ(board.load(good()).sentence, "");
  EXPECT_GT(board.end().time_ms, 0U);
  EXPECT_NE(board.end().path, "");
  Credentials parsed;
  ASSERT_NE(board.read(), nullptr);
  EXPECT_EQ(board.read()->parse_into(&parsed, CertificateRole::kServer).text, nullptr);
}

TEST_F(CredentialFiles, AKeyThatOthersMayReadIsRefused) {
  using std::filesystem::perms;
  const CredentialPaths paths = good();
  CredentialBoard board;
  for (const perms others : {perms::group_read, perms::others_read, perms::group_write}) {
    allow(paths.key, perms::owner_read | perms::owner_write | others);
    EXPECT_THAT(board.load(paths).sentence,
                AllOf(StartsWith("server.certificate_key_file " + paths.key + " can be read by others"),
                      HasSubstr("chmod 600")));
  }
  EXPECT_EQ(board.read(), nullptr);
  allow(paths.key, perms::owner_read);
  allow(paths.certificate, perms::owner_read | perms::group_read | perms::others_read);
  EXPECT_EQ(board.load(paths).sentence, "");
}

TEST_F(CredentialFiles, BadOnesAreNamedAndChangeNothing) {
  CredentialBoard board;
  const CredentialPaths paths = good();
  ASSERT_EQ(board.load(paths).sentence, "");
  const auto before = board.read();
  write("server.pem", test_pem::kServerExpired);
  EXPECT_THAT(board.load(paths).sentence,
              AllOf(StartsWith("server.certificate_file " + paths.certificate + " "), HasSubstr("expired")));
  write("server.pem", test_pem::kServer);
  write("server.key", test_pem::kOtherKey);
  EXPECT_THAT(board.load(paths).sentence,
              AllOf(StartsWith("server.certificate_key_file " + paths.key + " "), HasSubstr("not the key")));
  std::filesystem::remove(paths.key);
  EXPECT_THAT(board.load(paths).sentence,
              AllOf(StartsWith("server.certificate_key_file " + paths.key + " "), HasSubstr("No such file")));
  std::filesystem::create_directory(paths.key);
  EXPECT_THAT(board.load(paths).sentence,
              AllOf(StartsWith("server.certificate_key_file " + paths.key + " "), HasSubstr("is a folder")));
  std::filesystem::remove(paths.key);
  ASSERT_EQ(mkfifo(paths.key.c_str(), 0600), 0);
  EXPECT_THAT(board.load(paths).sentence,
              AllOf(StartsWith("server.certificate_key_file " + paths.key + " "), HasSubstr("no ordinary file")));
  write("ca.pem", std::string(70000, 'x'));
  EXPECT_THAT(board.load(paths).sentence,
              AllOf(StartsWith("server.device_ca_file " + paths.authority + " "), HasSubstr("64 KiB")));
  EXPECT_EQ(board.read(), before);
}

}  // namespace
}  // namespace gradstream
