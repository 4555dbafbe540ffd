#include "runtime/wire/server_address.h"

#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(ServerAddress, SplitsHostAndPort) {
  const struct {
    std::string text, host, port;
  } cases[] = {
      {"localhost:7433", "localhost", "7433"},
      {"h:1", "h", "1"},
      {"h:65535", "h", "65535"},
      {"h:07433", "h", "07433"},
      {"a-b_c.example.org.:7433", "a-b_c.example.org.", "7433"},
      {"3com.example:7433", "3com.example", "7433"},
      {"192.0.2.1:7433", "192.0.2.1", "7433"},
      {"0.0.0.0:1", "0.0.0.0", "1"},
      {"[::1]:7433", "::1", "7433"},
      {"[::]:7433", "::", "7433"},
      {"[2001:db8::1]:7433", "2001:db8::1", "7433"},
      {"[1:2:3:4:5:6:7:8]:7433", "1:2:3:4:5:6:7:8", "7433"},
      {"[fe80::1%eth0]:7433", "fe80::1%eth0", "7433"},
      {"[::ffff:192.0.2.1]:7433", "::ffff:192.0.2.1", "7433"},
      {std::string(63, 'x') + ":1", std::string(63, 'x'), "1"},
  };
  for (const auto& good : cases) {
    ServerAddress address;
    const AddressFault fault = parse_server_address(good.text, &address);
    EXPECT_EQ(fault.text, nullptr) << good.text << ": " << fault.text;
    EXPECT_EQ(address.host, good.host);
    EXPECT_EQ(address.port, good.port);
  }
}

TEST(ServerAddress, ANameHas253CharactersAtMost) {
  const std::string label(63, 'x');
  const std::string longest = label + "." + label + "." + label + "." + std::string(61, 'x');
  ASSERT_EQ(longest.size(), 253U);
  ServerAddress address;
  EXPECT_EQ(parse_server_address(longest + ":1", &address).text, nullptr);
  EXPECT_EQ(parse_server_address(longest + ".:1", &address).text, nullptr) << "the root's dot does not count";
  const AddressFault fault = parse_server_address(longest + "x:1", &address);
  ASSERT_NE(fault.text, nullptr);
  EXPECT_NE(std::string(fault.text).find("253"), std::string::npos) << fault.text;
}

struct Bad {
  std::string text, part, word;
};

const Bad kBadTexts[] = {
    {"", "", "empty"},
    {"localhost", "localhost", "port"},
    {"h:", "h:", "port"},
    {"h:0", "0", "65535"},
    {"h:99999", "99999", "65535"},
    {"h:99999999999999999999", "99999999999999999999", "65535"},
    {"h:-1", "-1", "65535"},
    {"h:+1", "+1", "65535"},
    {"h:1x", "1x", "65535"},
    {"h:http", "http", "65535"},
    {"h:1:2", "1:2", "65535"},
    {":7433", ":7433", "host"},
    {"https://h:7433", "https://", "leave it out"},
    {"tcp://[::1]:7433", "tcp://", "leave it out"},
    {"h:7433/", "/", "path"},
    {"h/x:7433", "/x:7433", "path"},
    {"me@h:7433", "me@", "user"},
    {" h:7433", " h:7433", "blank"},
    {"h:7433 ", "h:7433 ", "blank"},
    {"h :7433", "h :7433", "blank"},
    {"h:7433\n", "h:7433\n", "blank"},
    {"::1", "::1", "brackets"},
    {"::1:7433", "::1:7433", "brackets"},
    {"2001:db8::1:7433", "2001:db8::1:7433", "brackets"},
    {"1:2:3:4:5:6:7:8:7433", "1:2:3:4:5:6:7:8:7433", "brackets"},
    {"[::1]", "[::1]", "port"},
    {"[::1]7433", "[::1]7433", "port"},
    {"[::1]:", "[::1]:", "port"},
    {"[::1]:0", "0", "65535"},
    {"[::1:7433", "[::1:7433", "closes"},
    {"[localhost]:7433", "[localhost]", "IPv6"},
    {"[]:7433", "[]", "IPv6"},
    {"[:]:7433", "[:]", "IPv6"},
    {"[1::2::3]:7433", "[1::2::3]", "IPv6"},
    {"[12345::]:7433", "[12345::]", "IPv6"},
    {"[1:2:3:4:5:6:7]:7433", "[1:2:3:4:5:6:7]", "IPv6"},
    {"[1:2:3:4:5:6:7:8:9]:7433", "[1:2:3:4:5:6:7:8:9]", "IPv6"},
    {"[fe80::1%]:7433", "[fe80::1%]", "IPv6"},
    {"[192.0.2.1]:7433", "[192.0.2.1]", "IPv6"},
    {"300.0.2.1:7433", "300.0.2.1", "IPv4"},
    {"192.0.2:7433", "192.0.2", "IPv4"},
    {"192.0.02.1:7433", "192.0.02.1", "IPv4"},
    {"7:7433", "7", "IPv4"},
    {"a..b:7433", "a..b", "empty"},
    {".:7433", ".", "empty"},
    {"-a:7433", "-a", "hyphen"},
    {std::string(64, 'x') + ":1", std::string(64, 'x'), "63"},
    {"h,g:7433", ",", "letters"},
    {"k\xC3\xBC"
     "che:7433",
     "k\xC3\xBC"
     "che",
     "ASCII"},
};

TEST(ServerAddress, NamesThePartThatCanNeverWork) {
  for (const Bad& bad : kBadTexts) {
    ServerAddress address;
    const AddressFault fault = parse_server_address(bad.text, &address);
    ASSERT_NE(fault.text, nullptr) << bad.text;
    EXPECT_EQ(fault.part, bad.part) << bad.text << " " << fault.text;
    EXPECT_NE(std::string(fault.text).find(bad.word), std::string::npos) << bad.text << " " << fault.text;
    EXPECT_TRUE(address.host.empty()) << "set although refused";
  }
  std::string name = "a";
  while (name.size() < 254) {
    name += ".a";
  }
  ServerAddress address;
  EXPECT_NE(parse_server_address(name + ":1", &address).text, nullptr);
}

TEST(ServerAddress, EndsOnEveryText) {  // no byte beyond the text is read
  const std::string alphabet = "[]:.%1a/@ -";
  for (size_t code = 0; code < 11 * 11 * 11 * 11 * 11; ++code) {
    std::string text;
    for (size_t rest = code; rest != 0; rest /= alphabet.size()) {
      text += alphabet[rest % alphabet.size()];
    }
    ServerAddress address;
    if (parse_server_address(text, &address).text == nullptr) {
      EXPECT_FALSE(address.host.empty() || address.port.empty()) << text;
    }
  }
}

}  // namespace
}  // namespace gradstream
