// The port for Linux as C functions: what they refuse, and what they tell a port, which this file stands in for.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "boards/posix/posix.h"
#include "include/gradstream/posix.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

namespace fs = std::filesystem;

struct Told {
  const char* host = nullptr;
  const char* port = nullptr;
  const char* state = nullptr;
  uint64_t until_ms = 0;
} told;

}  // namespace

void posix_set_server(const char* host, const char* port) {
  told.host = host;
  told.port = port;
}
Status posix_set_state_file(const char* path) {
  told.state = path;
  return path == nullptr || path[0] == '/' ? Status::kOk : Status::kInvalidArgument;
}
uint64_t port_now_ms() { return 12345678901; }
void port_sleep_until_ms(uint64_t when_ms) { told.until_ms = when_ms; }

namespace {

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
  EXPECT_STREQ(told.host, "fe80::1%eth0");
  for (const char* const address : {"", "kitchen", "kitchen:", ":7433", "kitchen:70000", "a b:7433"}) {
    EXPECT_FALSE(gs_posix_set_server(address)) << address;
  }
  EXPECT_FALSE(gs_posix_set_server(nullptr));
  EXPECT_FALSE(gs_posix_set_server((std::string(254, 'a') + ":7433").c_str()));
  EXPECT_STREQ(told.host, "fe80::1%eth0") << "as it was";
  std::string address = "kitchen:7433";
  EXPECT_TRUE(gs_posix_set_server(address.c_str()));
  address.assign(address.size(), 'x');
  EXPECT_STREQ(told.host, "kitchen") << "it was copied";
  EXPECT_STREQ(told.port, "7433");
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

TEST_F(CPosix, TheRestIsHandedOn) {
  EXPECT_TRUE(gs_posix_set_state_file("/state"));
  EXPECT_STREQ(told.state, "/state");
  EXPECT_FALSE(gs_posix_set_state_file("too long"));
  EXPECT_TRUE(gs_posix_set_state_file(nullptr));
  EXPECT_EQ(gs_posix_now_ms(), 12345678901U);
  gs_posix_sleep_until(77);
  EXPECT_EQ(told.until_ms, 77U);
}

}  // namespace
}  // namespace gradstream
