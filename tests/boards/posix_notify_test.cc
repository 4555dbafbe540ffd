#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "boards/posix/notify.h"

namespace gradstream {
namespace {

// What arrives at a socket of that name ('@': none of a file) in a process that notifies twice, "" for nothing.
std::string notify_twice(const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, sizeof(address.sun_path));
  if (name[0] == '@') {
    address.sun_path[0] = '\0';
  }
  const int file = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  EXPECT_EQ(::bind(file, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EXIT(
      {
        ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
        posix_notify_alive();
        posix_notify_alive();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  std::string all;
  char bytes[100];
  for (ssize_t count = 0; (count = ::recv(file, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0;) {
    all += std::string(bytes, static_cast<size_t>(count)) + ";";
  }
  ::close(file);
  return all;
}

TEST(Notify, SendsOnceInAWhile) {
  EXPECT_EQ(notify_twice("@gradstream-notify-test-" + std::to_string(::getpid())), "READY=1\nWATCHDOG=1;");
  const std::string path = testing::TempDir() + "notify-" + std::to_string(::getpid());
  EXPECT_EQ(notify_twice(path), "READY=1\nWATCHDOG=1;");
  ::unlink(path.c_str());
}

TEST(Notify, IsQuietWithoutAManager) {
  EXPECT_EXIT(
      {
        ::unsetenv("NOTIFY_SOCKET");
        posix_notify_alive();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  for (const std::string& name : {std::string("/no/such/socket"), std::string(), std::string(300, 'x')}) {
    EXPECT_EXIT(
        {
          ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
          posix_notify_alive();
          std::exit(0);
        },
        testing::ExitedWithCode(0), "");
  }
}

}  // namespace
}  // namespace gradstream
