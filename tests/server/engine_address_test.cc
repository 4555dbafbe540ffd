// What an engine's address says of its servers, and of the secrecy of a connection.
#include "server/postgresql/engine_address.h"

#include <chrono>
#include <string>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/postgresql/engine_session.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

TEST(EngineAddress, TheListsBeginWithAnyServer) {
  const std::string address = "postgresql://gs@a:1,b:2,c:3/fleet";
  EXPECT_EQ(servers_of(address, 0).host, "a,b,c");
  EXPECT_EQ(servers_of(address, 1).host, "b,c,a");
  EXPECT_EQ(servers_of(address, 1).port, "2,3,1");
  EXPECT_EQ(servers_of(address, 3).host, "a,b,c");
  EXPECT_EQ(servers_of(address, 3).count, 3U);
  EXPECT_EQ(servers_of("host=a port=5", 1).host, "a");
}

TEST(EngineAddress, KeysLeaveTheMachineByTlsAlone) {
  const std::string away = "10.1.2.3:5432";
  EXPECT_EQ(check_secrecy(true, away, "host=db1").sentence, "");
  for (const std::string near : {"", "127.0.0.1:5432", "127.8.0.1:5432", "::1:5432"}) {
    EXPECT_EQ(check_secrecy(false, near, "host=db1").sentence, "") << near;
  }
  for (const std::string& far : {away, std::string("1127.0.0.1:5432"), std::string("2001:db8::1:5432")}) {
    for (const std::string address : {"host=db1", "host=db1 sslmode=prefer", "postgresql://gs@db1/fleet"}) {
      const std::string sentence = check_secrecy(false, far, address).sentence;
      EXPECT_THAT(sentence, HasSubstr("server " + far + " is reached without TLS"));
      EXPECT_THAT(sentence, HasSubstr("Say sslmode=verify-full in engine.address"));
    }
  }
  EXPECT_EQ(check_secrecy(false, away, "host=db1 sslmode=disable").sentence, "") << "by name";
  EXPECT_EQ(check_secrecy(false, away, "postgresql://gs@db1/fleet?sslmode=disable").sentence, "");
}

// A node's service manager ends a process that says nothing for a while.
TEST(EngineSession, SaysBeforeEachWaitThatItWaits) {
  EngineSession session(1'000);
  int waits = 0;
  session.call_before_waits([&waits] { ++waits; });
  EXPECT_TRUE(session.open("host=/nonexistent dbname=x"));
  EXPECT_TRUE(session.is_away());
  EXPECT_EQ(waits, 1);
}

// Nobody answers at that port, and the deadline of a wait is longer than any test may take.
TEST(EngineSession, WaitsNoLongerThanAllWaitsMay) {
  asio::io_context io;
  const asio::ip::tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), 0});
  EngineSession session(3'600'000);
  session.end_by(std::chrono::steady_clock::now());
  EXPECT_TRUE(session.open("host=127.0.0.1 dbname=x port=" + std::to_string(silent.local_endpoint().port())));
  EXPECT_TRUE(session.is_away());
}

}  // namespace
}  // namespace gradstream
