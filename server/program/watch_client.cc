#include "server/program/watch_client.h"

#include <array>
#include <chrono>

#include "server/base/asio_alias.h"
#include "server/base/listen_address.h"
#include "server/watch/http.h"

namespace gradstream {
namespace {

// One request and its answer, by the loop of its own.
class Question {
 public:
  Question(const Tcp::endpoint& endpoint, std::string request)
      : request_(std::move(request)), socket_(io_), endpoint_(endpoint) {}

  // Head and body; "": no whole answer.
  std::string ask() {
    socket_.async_connect(endpoint_, [this](const ErrorCode& error) {
      if (!error) {
        asio::async_write(socket_, asio::buffer(request_), [this](const ErrorCode& failed, size_t) {
          if (!failed) {
            read();
          }
        });
      }
    });
    io_.run_for(std::chrono::milliseconds(kAskServerMs));
    return is_whole_ ? std::move(answer_) : std::string();
  }

 private:
  void read() {
    socket_.async_read_some(asio::buffer(chunk_), [this](const ErrorCode& error, size_t size) {
      answer_.append(chunk_.data(), size);
      is_whole_ = error == asio::error::eof;
      if (!error && answer_.size() <= kAskAnswerMax) {
        read();
      }
    });
  }

  asio::io_context io_;
  const std::string request_;
  Tcp::socket socket_;
  const Tcp::endpoint endpoint_;
  std::array<char, 16384> chunk_ = {};
  std::string answer_;
  bool is_whole_ = false;
};

}  // namespace

std::optional<std::string> ask_server(const ServerConfig& server, const std::string& path) {
  Tcp::endpoint endpoint;
  if (!parse_listen_address(server.http_listen, &endpoint) || endpoint.port() == 0) {
    return std::nullopt;
  }
  if (endpoint.address().is_unspecified()) {
    endpoint.address(endpoint.address().is_v4() ? asio::ip::address(asio::ip::address_v4::loopback())
                                                : asio::ip::address(asio::ip::address_v6::loopback()));
  }
  std::string token;
  if (!server.http_token_file.empty() && read_token(server.http_token_file, &token)) {
    return std::nullopt;
  }
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" +
                              (token.empty() ? "" : "Authorization: Bearer " + token + "\r\n") + "\r\n";
  const std::string answer = Question(endpoint, request).ask();
  const size_t head = answer.find("\r\n\r\n");
  if (head == std::string::npos || !answer.starts_with("HTTP/1.1 200 ")) {
    return std::nullopt;
  }
  return answer.substr(head + 4);
}

}  // namespace gradstream
