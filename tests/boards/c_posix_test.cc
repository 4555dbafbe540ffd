// The port for Linux as C functions: what they refuse, and what the port then has.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "include/gradstream/posix.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

namespace fs = std::filesystem;

class CPosix : public testing::Test {
 protected:
  CPosix() {
    std::string pattern = (fs::temp_directory_path() / "c_posix_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~CPosix() override { fs::remove_all(folder_); }
  std::string at(const char* name) const { return (folder_ / name).string(); }

 private:
  fs::path folder_;
};

TEST_F(CPosix, ServerHasAHostAndAPort) {
  EXPECT_TRUE(gs_posix_set_server("[fe80::1%eth0]:7433"));
  EXPECT_STREQ(port_transport().peer, "[fe80::1%eth0]:7433");
  for (const char* const address : {"", "kitchen", "kitchen:", ":7433", "kitchen:70000", "a b:7433"}) {
    EXPECT_FALSE(gs_posix_set_server(address)) << address;
  }
  EXPECT_FALSE(gs_posix_set_server(nullptr));
  EXPECT_FALSE(gs_posix_set_server((std::string(254, 'a') + ":7433").c_str()));
  EXPECT_STREQ(port_transport().peer, "[fe80::1%eth0]:7433") << "as it was";
  std::string address = "kitchen:7433";
  EXPECT_TRUE(gs_posix_set_server(address.c_str()));
  address[0] = 'x';
  EXPECT_STREQ(port_transport().peer, "kitchen:7433");
}

TEST_F(CPosix, AFileIsReadWholeOrNotAtAll) {
  std::ofstream(at("identity")) << "identity = kitchen\n";
  char text[19];
  size_t size = 77;
  ASSERT_TRUE(gs_posix_read_file(at("identity").c_str(), text, sizeof text, &size));
  EXPECT_EQ(std::string(text, size), "identity = kitchen\n");
  EXPECT_FALSE(gs_posix_read_file(at("identity").c_str(), text, sizeof text - 1, &size));
  EXPECT_EQ(errno, EFBIG);
  EXPECT_EQ(size, 0U);
  EXPECT_FALSE(gs_posix_read_file(at("none").c_str(), text, sizeof text, &size));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(gs_posix_read_file(at("").c_str(), text, sizeof text, &size));
  EXPECT_EQ(errno, EISDIR);
  EXPECT_FALSE(gs_posix_read_file(nullptr, text, sizeof text, &size));
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(CPosix, StateIsKeptWhereAFileIsNamed) {
  const uint8_t byte = 7;
  const StoragePiece piece = {&byte, 1};
  EXPECT_EQ(port_storage_write(&piece, 1), Status::kUnimplemented);
  EXPECT_TRUE(gs_posix_set_state_file(at("state").c_str()));
  EXPECT_EQ(port_storage_write(&piece, 1), Status::kOk);
  EXPECT_EQ(fs::file_size(at("state")), 1U);
  EXPECT_FALSE(gs_posix_set_state_file(std::string(4001, 'a').c_str()));
  EXPECT_EQ(port_storage_write(&piece, 1), Status::kUnimplemented);
  EXPECT_TRUE(gs_posix_set_state_file(nullptr));
}

TEST_F(CPosix, TimeIsThatOfThePort) {
  const uint64_t now_ms = gs_posix_now_ms();
  EXPECT_GE(port_now_ms(), now_ms);
  gs_posix_sleep_until(now_ms);  // is over
}

}  // namespace
}  // namespace gradstream
