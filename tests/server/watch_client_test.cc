// A verb asks the HTTP port of a server.
#include "server/program/watch_client.h"

#include <fstream>
#include <memory>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "server/watch/http.h"
#include "tests/support/store_support.h"

namespace gradstream {
namespace {

TEST(WatchClient, AsksWithTheToken) {
  const Folder folder;
  const std::string token = "0123456789abcdef0123";
  ServerConfig config;
  config.http_token_file = folder.file("token");
  std::ofstream(config.http_token_file) << token << "\n";
  ASSERT_EQ(::chmod(config.http_token_file.c_str(), 0600), 0);
  const auto shared = std::make_shared<const std::string>(300'000, 'x');
  HttpServer server({}, token, [&](const HttpTarget& target) {
    HttpResponse response;
    response.status = target.path == "/status" ? 200 : 503;
    response.shared_body = shared;
    return response;
  });
  const Objection problem = server.start({asio::ip::address_v4::loopback(), 0});
  ASSERT_FALSE(problem) << problem.sentence;
  config.http_listen = "0.0.0.0:" + std::to_string(server.port());  // asked on the loopback address
  EXPECT_EQ(ask_server(config, "/status"), *shared);
  EXPECT_FALSE(ask_server(config, "/other"));
  std::ofstream(config.http_token_file) << "another-token-of-20c\n";
  EXPECT_FALSE(ask_server(config, "/status")) << "the token is another one";
  config.http_token_file = folder.file("none");
  EXPECT_FALSE(ask_server(config, "/status"));
  server.stop();
}

TEST(WatchClient, WithoutAPortThereIsNoAnswer) {
  ServerConfig config;
  EXPECT_FALSE(ask_server(config, "/status"));
  config.http_listen = "127.0.0.1:0";
  EXPECT_FALSE(ask_server(config, "/status"));
  config.http_listen = "127.0.0.1:1";  // nobody listens there
  EXPECT_FALSE(ask_server(config, "/status"));
}

}  // namespace
}  // namespace gradstream
