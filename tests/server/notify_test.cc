// The word to a service manager: what arrives at its socket, and silence where there is none.
#include "server/base/notify.h"

#include <cstddef>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace gradstream {
namespace {

// A manager's socket. `name` is a path, or an abstract name that begins with '@'.
class Manager {
 public:
  explicit Manager(const std::string& name) : name_(name), socket_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof(address.sun_path));
    if (name[0] == '@') {
      address.sun_path[0] = '\0';
    }
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() {
    ::unsetenv("NOTIFY_SOCKET");
    ::close(socket_);
    if (name_[0] != '@') {
      ::unlink(name_.c_str());
    }
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // The next datagram; "" for none.
  std::string next() {
    char bytes[100];
    const ssize_t count = ::recv(socket_, bytes, sizeof(bytes), MSG_DONTWAIT);
    return count > 0 ? std::string(bytes, static_cast<size_t>(count)) : "";
  }

 private:
  std::string name_;
  int socket_;
};

TEST(NotifyManager, EachWordIsOneDatagram) {
  for (const std::string& name : {"@gradstream-server-notify-" + std::to_string(::getpid()),
                                  testing::TempDir() + "server-notify-" + std::to_string(::getpid())}) {
    Manager manager(name);
    notify_manager("READY=1");
    notify_manager("STOPPING=1");
    EXPECT_EQ(manager.next(), "READY=1") << name;
    EXPECT_EQ(manager.next(), "STOPPING=1") << name;
    EXPECT_EQ(manager.next(), "") << name;
  }
}

TEST(NotifyManager, IsQuietWithoutAManager) {
  ::unsetenv("NOTIFY_SOCKET");
  notify_manager("READY=1");
  for (const std::string& name : {std::string("/no/such/socket"), std::string(), std::string(300, 'x')}) {
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
    notify_manager("READY=1");
  }
  // A manager that comes later hears the next word only.
  Manager manager("@gradstream-server-notify-late-" + std::to_string(::getpid()));
  notify_manager("WATCHDOG=1");
  EXPECT_EQ(manager.next(), "WATCHDOG=1");
  EXPECT_EQ(manager.next(), "");
}

}  // namespace
}  // namespace gradstream
