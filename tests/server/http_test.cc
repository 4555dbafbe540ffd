// The port for people and monitors: what it answers, and how it refuses each kind of bad peer by name.
#include "server/watch/http.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/base/listen_address.h"
#include "tests/support/as_nobody.h"

namespace gradstream {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kHost = "Host: 127.0.0.1:7434\r\n";
constexpr std::chrono::seconds kCutMax{60};  // for what comes after 60 ms on a machine with nothing else to do

// A blocking socket; every wait ends after ten seconds.
class Peer {
 public:
  explicit Peer(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit = {10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Peer() { ::close(socket_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  void send(const std::string& text) { (void)::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  // All until the server closes; "timeout" behind it where it does not.
  std::string rest() {
    std::string text;
    char buffer[4096];
    for (;;) {
      const ssize_t size = ::recv(socket_, buffer, sizeof buffer, 0);
      if (size <= 0) {
        return size < 0 && errno == EAGAIN ? text + "timeout" : text;
      }
      text.append(buffer, static_cast<size_t>(size));
    }
  }

 private:
  int socket_;
};

class Http : public testing::Test {
 protected:
  void open(const HttpLimits& limits = {}, const std::string& token = "", std::vector<std::string> hosts = {}) {
    server_ = std::make_unique<HttpServer>(
        limits, token,
        [this](const HttpTarget& target) {
          HttpResponse response;
          if (target.path == "/x" || target.path == "/page") {
            response.status = 200;
            response.body = body_ + std::string(target.query);
          }
          return response;
        },
        [](std::string_view path) { return path == "/page"; });
    server_->allow_hosts(std::move(hosts));
    ASSERT_EQ(server_->start(Tcp::endpoint(asio::ip::address_v4::loopback(), 0)).sentence, "");
  }
  std::string ask(const std::string& request) {
    Peer peer(server_->port());
    peer.send(request);
    return peer.rest();
  }
  uint64_t refused(HttpRefusal refusal) const { return server_->counters().refusals[static_cast<size_t>(refusal)]; }
  static std::string get(const std::string& path, const std::string& headers = kHost) {
    return "GET " + path + " HTTP/1.1\r\n" + headers + "\r\n";
  }

  std::string body_ = "seen\n";
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Http, AnswersGetAndHead) {
  open();
  const std::string got = ask(get("/x"));
  EXPECT_THAT(got, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(got, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(got, HasSubstr("\r\n\r\nseen\n"));
  EXPECT_THAT(got, HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self';"));
  EXPECT_THAT(ask(get("/x?since=3", "hOST: [::1]:1\r\nContent-Length: 0\r\n")), HasSubstr("seen\nsince=3"));
  const std::string head = ask("HEAD /x HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(head, testing::EndsWith("\r\n\r\n"));
  EXPECT_EQ(server_->counters().requests, 3U);
}

TEST_F(Http, ARequestMayComeInPieces) {
  open();
  Peer peer(server_->port());
  for (const char c : get("/x")) {
    peer.send(std::string(1, c));
  }
  EXPECT_THAT(peer.rest(), HasSubstr("seen"));
}

TEST_F(Http, EachBadRequestIsRefusedByNameAndCounted) {
  open();
  struct Case {
    HttpRefusal refusal;
    const char* status;
    std::string request;
  };
  const std::vector<Case> cases = {
      {HttpRefusal::kMalformed, "400", "hello\r\n\r\n"},
      {HttpRefusal::kMalformed, "400", std::string("\x16\x03\x01\x00\xf0 \r\n\r\n", 10)},
      {HttpRefusal::kMalformed, "400", std::string("\x16\x03\x01\x00\xf0", 5)},  // a TLS client waits for an answer
      {HttpRefusal::kMalformed, "400", "GET /x SPDY/3\r\nHost: localhost\r\n\r\n"},
      {HttpRefusal::kOversize, "431", get("/x", std::string(kHost) + "A: " + std::string(9000, 'a') + "\r\n")},
      {HttpRefusal::kOversize, "431", get("/" + std::string(9000, 'a'))},
      {HttpRefusal::kOversize, "431", get("/x", std::string(kHost) + "Content-Length: 7\r\n") + "content"},
      {HttpRefusal::kOversize, "431", get("/x", std::string(kHost) + "Transfer-Encoding: chunked\r\n")},
      {HttpRefusal::kMethod, "405", std::string("POST /x HTTP/1.1\r\n") + kHost + "\r\n"},
      {HttpRefusal::kMethod, "405", std::string("DELETE /x HTTP/1.1\r\n") + kHost + "\r\n"},
      {HttpRefusal::kPath, "400", get("/../etc/passwd")},
      {HttpRefusal::kPath, "400", get("/x/..%2f..%2fetc/passwd")},
      {HttpRefusal::kPath, "400", get("/%2e%2e/x")},
      {HttpRefusal::kPath, "400", get("\\x")},
      {HttpRefusal::kPath, "400", get("x")},
      {HttpRefusal::kNotFound, "404", get("/gradstream.db")},
      {HttpRefusal::kHost, "403", get("/x", "Host: evil.example\r\n")},
      {HttpRefusal::kHost, "403", get("/x", "Host: 127.0.0.1.evil.example:7434\r\n")},
      {HttpRefusal::kHost, "403", get("/x", "A: b\r\n")},
  };
  for (const Case& c : cases) {
    const uint64_t before = refused(c.refusal);
    const std::string got = ask(c.request);
    EXPECT_THAT(got, StartsWith(std::string("HTTP/1.1 ") + c.status)) << c.request;
    EXPECT_THAT(got, testing::Not(HasSubstr("seen"))) << c.request;
    EXPECT_EQ(refused(c.refusal), before + 1) << c.request;
  }
  EXPECT_EQ(server_->counters().requests, 0U);
  EXPECT_THAT(ask(get("/x")), HasSubstr("200 OK")) << "and it goes on";
}

// RFC 9112, 3.2.2: what a proxy is sent, and a server MUST take. The Host beside it does not count.
TEST_F(Http, ATargetInAbsoluteFormBringsItsHost) {
  open();
  EXPECT_THAT(ask(get("http://127.0.0.1:7434/x?a=b")), HasSubstr("seen\na=b"));
  EXPECT_THAT(ask(get("HTTP://localhost/x", "Host: evil.example\r\n")), HasSubstr("200 OK"));
  EXPECT_THAT(ask(get("https://[::1]:1/x", "")), HasSubstr("200 OK"));
  EXPECT_THAT(ask(get("http://localhost")), StartsWith("HTTP/1.1 404 ")) << "it asks for /";
  EXPECT_THAT(ask(get("http://localhost?x")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask(get("http://evil.example/x")), StartsWith("HTTP/1.1 403 ")) << "whatever its Host says";
  EXPECT_THAT(ask(get("http:///x")), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(ask(get("http://localhost@evil.example/x")), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(ask(get("http://evil.example@localhost/x")), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(ask(get("http://localhost/../x")), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(get("ftp://localhost/x")), StartsWith("HTTP/1.1 400 "));
}

TEST_F(Http, LinesMayEndWithABareLineFeed) {
  open();
  EXPECT_THAT(ask("GET /x HTTP/1.1\nHost: localhost\n\n"), HasSubstr("200 OK"));
  EXPECT_THAT(ask("GET /x HTTP/1.1\r\nA: b\nHost: localhost\r\n\n"), HasSubstr("200 OK"));
  EXPECT_THAT(ask("GET /x HTTP/1.1\nHost: localhost\n\r\n"), HasSubstr("200 OK"));
  EXPECT_THAT(ask("GET /x HTTP/1.1\nContent-Length: 3\nHost: localhost\n\nabc"), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(ask("GET /x HTTP/1.1\nHost: localhost\rA: b\n\n"), StartsWith("HTTP/1.1 403 "))
      << "a bare CR ends no line";
}

TEST_F(Http, AnOperatorNamesTheHostsOfAProxy) {
  open({}, "", {"fleet.example", "[2001:db8::1]", "10.0.0.5"});
  for (const char* const host : {"fleet.example", "FLEET.example:443", "fleet.example.", "[2001:db8::1]:80", "10.0.0.5",
                                 "localhost.", "127.0.0.1"}) {
    EXPECT_THAT(ask(get("/x", std::string("Host: ") + host + "\r\n")), HasSubstr("200 OK")) << host;
  }
  EXPECT_THAT(ask(get("http://fleet.example/x", "")), HasSubstr("200 OK"));
  for (const char* const host : {"a.fleet.example", "fleet.example.evil.example", "fleet", "2001:db8::1", "", "."}) {
    const std::string got = ask(get("/x", std::string("Host: ") + host + "\r\n"));
    EXPECT_THAT(got, StartsWith("HTTP/1.1 403 ")) << host;
    EXPECT_THAT(got, HasSubstr("server.http_hosts")) << host;
  }
}

TEST_F(Http, ATokenIsProvedOrRefused) {
  const std::string token = "0123456789abcdef0123456789abcdef";
  open({}, token);
  const std::string host = "Host: server.example\r\n";
  EXPECT_THAT(ask(get("/x", host + "Authorization: Bearer " + token + "\r\n")), HasSubstr("200 OK"));
  EXPECT_THAT(ask(get("/x", host + "authorization: bearer   " + token + " \r\n")), HasSubstr("200 OK"));
  for (const std::string& wrong :
       {std::string(), std::string("Authorization: Bearer \r\n"), "Authorization: Bearer " + token + "0\r\n",
        "Authorization: Bearer " + token.substr(1) + "\r\n", "Authorization: Basic " + token + "\r\n"}) {
    const std::string got = ask(get("/x", host + wrong));
    EXPECT_THAT(got, StartsWith("HTTP/1.1 401 ")) << wrong;
    EXPECT_THAT(got, HasSubstr("WWW-Authenticate: Bearer"));
    EXPECT_THAT(got, testing::Not(HasSubstr(token)));
  }
  EXPECT_THAT(ask(get("/none", host)), StartsWith("HTTP/1.1 401 ")) << "nor does it tell what paths there are";
  EXPECT_EQ(refused(HttpRefusal::kToken), 6U);
  EXPECT_THAT(ask(get("/page", host)), HasSubstr("200 OK")) << "a browser proves its token from a page";
  EXPECT_THAT(ask(get("/page/../x", host)), StartsWith("HTTP/1.1 401 "));
}

TEST_F(Http, APublicPathTooNeedsALocalHostWhereThereIsNoToken) {
  open();
  EXPECT_THAT(ask(get("/page", "Host: evil.example\r\n")), StartsWith("HTTP/1.1 403 "));
}

TEST_F(Http, SlowRequestsAreCut) {
  HttpLimits limits;
  limits.request_deadline_ms = 60;
  open(limits);
  Peer silent(server_->port());
  EXPECT_EQ(silent.rest(), "");
  Peer half(server_->port());
  half.send("GET /x HTTP/1.1\r\nHost: localhost\r\n");
  EXPECT_EQ(half.rest(), "");
  EXPECT_EQ(refused(HttpRefusal::kSlowRequest), 2U);
}

// A request's own deadline stays long: a busy machine may let this thread stand between the connection and the request.
TEST_F(Http, APeerThatReadsNothingIsCut) {
  HttpLimits limits;
  limits.answer_deadline_ms = 60;
  open(limits);
  body_ = std::string(64U << 20, 'x');  // more than the kernel takes for a peer that reads nothing
  Peer unread(server_->port());
  unread.send(get("/x"));
  const auto end = std::chrono::steady_clock::now() + kCutMax;
  while (refused(HttpRefusal::kSlowAnswer) == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_EQ(refused(HttpRefusal::kSlowAnswer), 1U);
  EXPECT_LT(unread.rest().size(), body_.size());
}

TEST_F(Http, TheOldestConnectionMakesRoom) {
  HttpLimits limits;
  limits.connection_count_max = 2;
  open(limits);
  Peer first(server_->port());
  Peer second(server_->port());
  EXPECT_THAT(ask(get("/x")), HasSubstr("200 OK"));
  EXPECT_EQ(first.rest(), "");
  EXPECT_EQ(refused(HttpRefusal::kOverCap), 1U);
}

TEST_F(Http, StopEndsWhatIsOpen) {
  open();
  Peer peer(server_->port());
  peer.send("GET");
  server_->stop();
  EXPECT_THAT(peer.rest(), testing::Not(HasSubstr("timeout")));
}

TEST(HttpToken, AFileWithOneSecretLine) {
  std::string path = testing::TempDir() + "token_XXXXXX";
  close(mkstemp(path.data()));
  std::string token;
  std::ofstream(path) << "0123456789abcdef\n";
  EXPECT_EQ(read_token(path, &token).sentence, "");
  EXPECT_EQ(token, "0123456789abcdef");
  for (const char* const edited : {"\xEF\xBB\xBF"
                                   "0123456789abcdef\r\n",
                                   " 0123456789abcdef ", "0123456789abcdef\t\n\n"}) {
    std::ofstream(path) << edited;
    EXPECT_EQ(read_token(path, &token).sentence, "") << edited;
    EXPECT_EQ(token, "0123456789abcdef");
  }
  chmod(path.c_str(), 0640);
  EXPECT_THAT(read_token(path, &token).sentence, HasSubstr("chmod 600"));
  chmod(path.c_str(), 0600);
  for (const char* const wrong : {"", "short\n", "has a space in its line\n"}) {
    std::ofstream(path) << wrong;
    const std::string problem = read_token(path, &token).sentence;
    EXPECT_THAT(problem, HasSubstr("expected one line of 16 to 200"));
  }
  if (AsNobody::is_possible()) {
    std::ofstream(path) << "0123456789abcdef\n";
    const AsNobody as_nobody;
    EXPECT_THAT(read_token(path, &token).sentence,
                HasSubstr("cannot be read: Permission denied; the server's user must own"));
  }
  unlink(path.c_str());
  EXPECT_THAT(read_token(path, &token).sentence, HasSubstr("openssl rand"));
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(read_token(path, &token).sentence, HasSubstr("no ordinary file")) << "and nobody waits for its writer";
  unlink(path.c_str());
}

TEST(HttpToken, LoopbackIsWhatOnlyThisMachineReaches) {
  for (const auto& [address, expected] : {std::pair<const char*, bool>{"127.0.0.1", true},
                                          {"127.9.9.9", true},
                                          {"::1", true},
                                          {"0.0.0.0", false},
                                          {"::", false},
                                          {"192.168.0.1", false}}) {
    EXPECT_EQ(is_loopback(Tcp::endpoint(asio::ip::make_address(address), 1)), expected) << address;
  }
}

}  // namespace
}  // namespace gradstream
