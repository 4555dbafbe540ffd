// Addresses in a configuration, and the sentence for each one that cannot be listened on.
#include "server/base/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/ports.h"

namespace gradstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const asio::ip::address kLoopback = asio::ip::address_v4::loopback();

TEST(ListenAddress, IsParsed) {
  Tcp::endpoint endpoint;
  EXPECT_TRUE(parse_listen_address("127.0.0.1:7433", &endpoint));
  EXPECT_EQ(endpoint.port(), 7433);
  EXPECT_TRUE(parse_listen_address("[::1]:0", &endpoint));
  EXPECT_TRUE(endpoint.address().is_v6());
  for (const char* const wrong : {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", "host:80", "127.0.0.1:8x"}) {
    EXPECT_FALSE(parse_listen_address(wrong, &endpoint)) << wrong;
  }
}

TEST(ListenAddress, IsPrintedAsItIsParsed) {
  for (const char* const text : {"127.0.0.1:7433", "[::1]:80", "0.0.0.0:0"}) {
    Tcp::endpoint endpoint;
    ASSERT_TRUE(parse_listen_address(text, &endpoint)) << text;
    EXPECT_EQ(text_of(endpoint), text);
  }
}

TEST(ListenAddress, AFreePortIsOpenedAndACheckLeavesNothingOpen) {
  asio::io_context io;
  Tcp::acceptor acceptor(io);
  ASSERT_EQ(open_acceptor(Tcp::endpoint(kLoopback, 0), "server.listen", &acceptor).sentence, "");
  const Tcp::endpoint bound = acceptor.local_endpoint();
  EXPECT_NE(bound.port(), 0);
  acceptor.close();
  EXPECT_EQ(check_listen_address(bound).sentence, "");
  EXPECT_EQ(open_acceptor(bound, "server.listen", &acceptor).sentence, "") << "the check has closed its own socket";
}

TEST(ListenAddress, AnOccupiedPortIsNamedWithItsKey) {
  asio::io_context io;
  Tcp::acceptor first(io);
  Tcp::acceptor second(io);
  ASSERT_EQ(open_acceptor(Tcp::endpoint(kLoopback, 0), "server.listen", &first).sentence, "");
  const std::string problem = open_acceptor(first.local_endpoint(), "server.http_listen", &second).sentence;
  EXPECT_THAT(problem,
              AllOf(HasSubstr(text_of(first.local_endpoint())), HasSubstr("set server.http_listen to another")));
  EXPECT_FALSE(second.is_open());
  EXPECT_EQ(check_listen_address(first.local_endpoint(), "server.http_listen").sentence, problem);
}

TEST(ListenAddress, AnAddressOfAnotherMachineIsNamed) {
  // 192.0.2.0/24 is kept for documents (RFC 5737), so no machine has it.
  const Tcp::endpoint elsewhere(asio::ip::make_address("192.0.2.1"), 7433);
  EXPECT_THAT(check_listen_address(elsewhere).sentence,
              AllOf(HasSubstr("192.0.2.1:7433"), HasSubstr("set server.listen to an address of this machine")));
}

TEST(ListenAddress, TwoThatCannotBothBeListenedOn) {
  const struct {
    const char *a, *b;
    bool do_collide;
  } pairs[] = {
      {"127.0.0.1:7433", "127.0.0.1:7433", true},  {"127.0.0.1:7433", "127.0.0.1:7434", false},
      {"127.0.0.1:0", "127.0.0.1:0", false},       {"0.0.0.0:7433", "127.0.0.1:7433", true},
      {"[::]:7433", "127.0.0.1:7433", true},       {"[::]:7433", "[::1]:7433", true},
      {"[::]:7433", "0.0.0.0:7433", true},         {"0.0.0.0:7433", "[::1]:7433", false},
      {"127.0.0.2:7433", "127.0.0.1:7433", false}, {"[::ffff:127.0.0.1]:7433", "127.0.0.1:7433", true},
  };
  for (const auto& pair : pairs) {
    Tcp::endpoint a, b;
    ASSERT_TRUE(parse_listen_address(pair.a, &a) && parse_listen_address(pair.b, &b));
    EXPECT_EQ(do_collide(a, b), pair.do_collide) << pair.a << " " << pair.b;
    EXPECT_EQ(do_collide(b, a), pair.do_collide) << pair.a << " " << pair.b;
  }
}

TEST(ListenAddress, AHostIsANameOrAnAddressWithoutAPort) {
  for (const char* const good :
       {"localhost", "fleet.example.org", "Fleet-2_b", "10.0.0.5", "[::1]", "[::ffff:10.0.0.5]"}) {
    EXPECT_TRUE(is_host_name(good)) << good;
  }
  for (const char* const wrong :
       {"", "fleet:80", "http://fleet", "*.example", "fleet/", "fl eet", "[]", "[::1", "::1", "[a-b]",
        "k\xc3\xbc"
        "che",
        "a@b"}) {
    EXPECT_FALSE(is_host_name(wrong)) << wrong;
  }
  EXPECT_TRUE(is_host_name(std::string(253, 'a')));
  EXPECT_FALSE(is_host_name(std::string(254, 'a')));
}

}  // namespace
}  // namespace gradstream
