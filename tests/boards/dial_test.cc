// Connections over the loopback to a name whose addresses the test chooses.
#include "boards/posix/dial.h"

#include <cstring>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

struct Answer {
  sockaddr_in address = {};
  addrinfo info = {};
};
std::vector<Answer> answers;
int lookups = 0;

}  // namespace

// Stand in for those of libc.
extern "C" int getaddrinfo(const char*, const char*, const addrinfo*, addrinfo** out) {
  ++lookups;
  for (size_t i = 0; i < answers.size(); ++i) {
    addrinfo& info = answers[i].info;
    info.ai_family = AF_INET;
    info.ai_socktype = SOCK_STREAM;
    info.ai_addrlen = sizeof(sockaddr_in);
    info.ai_addr = reinterpret_cast<sockaddr*>(&answers[i].address);
    info.ai_next = i + 1 < answers.size() ? &answers[i + 1].info : nullptr;
  }
  *out = answers.empty() ? nullptr : &answers[0].info;
  return answers.empty() ? EAI_NONAME : 0;
}
extern "C" void freeaddrinfo(addrinfo*) {}

namespace gradstream {
namespace {

// A port of 127.0.0.1; with `listens` false nobody takes a connection to it.
struct Port {
  explicit Port(bool listens) : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    Answer answer;
    answer.address.sin_family = AF_INET;
    answer.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(answer.address);
    sockaddr* address = reinterpret_cast<sockaddr*>(&answer.address);
    EXPECT_EQ(::bind(socket, address, size), 0);
    EXPECT_EQ(::getsockname(socket, address, &size), 0);
    EXPECT_TRUE(!listens || ::listen(socket, 8) == 0);
    answers.push_back(answer);
  }
  ~Port() { ::close(socket); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  bool has_caller() const {
    pollfd wait = {socket, POLLIN, 0};
    return ::poll(&wait, 1, 0) == 1;
  }
  int socket;
};

class DialTest : public testing::Test {
 protected:
  void SetUp() override {
    answers.clear();
    lookups = 0;
  }
  void TearDown() override { hang_up(&connection); }
  Status dial_to_end() {
    Status status = Status::kWouldBlock;
    for (int turn = 0; turn < 1000 && status == Status::kWouldBlock; ++turn) {
      status = dial(&connection, "host", "1");
      pollfd wait = {connection.socket, POLLOUT, 0};
      (void)::poll(&wait, connection.socket >= 0 ? 1 : 0, 10);
    }
    return status;
  }
  Dial connection;
};

TEST_F(DialTest, TriesTheNextAddressAfterOneThatRefuses) {
  const Port first(false), second(false), third(true);
  EXPECT_EQ(dial_to_end(), Status::kOk);
  EXPECT_TRUE(third.has_caller());
  EXPECT_EQ(connection.next_address, 0u);
}

TEST_F(DialTest, FailsOnlyAfterTheLastAddressAndThenStartsOver) {
  const Port first(false), second(false);
  for (int round = 1; round <= 2; ++round) {
    EXPECT_EQ(dial_to_end(), Status::kClosed);
    EXPECT_EQ(lookups, 2 * round);
    EXPECT_LT(connection.socket, 0);
  }
  EXPECT_EQ(::listen(first.socket, 8), 0);
  EXPECT_EQ(dial_to_end(), Status::kOk);
  EXPECT_TRUE(first.has_caller());
}

// An address that swallows everything ends by the caller's deadline.
TEST_F(DialTest, GivingUpAnAttemptGoesOnWithTheNextAddress) {
  const Port first(false), second(true);
  ASSERT_EQ(::listen(first.socket, 0), 0);
  int callers[4];  // more than the queue holds: one more gets no answer
  for (int& caller : callers) {
    caller = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)::connect(caller, reinterpret_cast<const sockaddr*>(&answers[0].address), sizeof(sockaddr_in));
  }
  EXPECT_EQ(dial(&connection, "host", "1"), Status::kWouldBlock);
  hang_up(&connection);
  EXPECT_EQ(dial_to_end(), Status::kOk);
  EXPECT_TRUE(second.has_caller());
  for (const int caller : callers) {
    ::close(caller);
  }
}

TEST_F(DialTest, AShorterAnswerStartsOver) {
  const Port only(true);
  connection.next_address = 3;
  EXPECT_EQ(dial_to_end(), Status::kClosed);
  EXPECT_EQ(dial_to_end(), Status::kOk);
}

TEST_F(DialTest, AnUnknownNameFails) {
  EXPECT_EQ(dial_to_end(), Status::kInvalidArgument);
  EXPECT_EQ(dial(&connection, nullptr, "1"), Status::kInvalidArgument);
}

}  // namespace
}  // namespace gradstream
