// The header of a balancer, byte by byte. The bytes are written by hand after the protocol's own text.
#include "server/link/proxy_header.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "server/base/ports.h"

namespace gradstream {
namespace {

using Bytes = std::vector<uint8_t>;
using Kind = ProxyHeader::Kind;

const Bytes kSignatureBytes = {'\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n'};

Bytes header(uint8_t command, uint8_t family, const Bytes& rest) {
  Bytes bytes = kSignatureBytes;
  bytes.insert(bytes.end(),
               {command, family, static_cast<uint8_t>(rest.size() >> 8), static_cast<uint8_t>(rest.size())});
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

const Bytes kFromV4 = {203, 0, 113, 9, 10, 0, 0, 7, 0x1F, 0x90, 0x1D, 0x09};  // from port 8080 to 7433

TEST(ProxyHeader, NamesThePeerWhoseConnectionItIs) {
  const ProxyHeader v4 = peek_proxy_header(header(0x21, 0x11, kFromV4));
  EXPECT_EQ(v4.kind, Kind::kPeer);
  EXPECT_EQ(v4.size, 16U + 12);
  EXPECT_EQ(text_of(v4.peer), "203.0.113.9:8080");
  Bytes addresses(32, 0);
  addresses[0] = 0x20;
  addresses[1] = 0x01;
  addresses[15] = 9;
  addresses[16] = 0xFD;
  addresses.insert(addresses.end(), {0x1F, 0x90, 0x1D, 0x09});
  const ProxyHeader v6 = peek_proxy_header(header(0x21, 0x21, addresses));
  EXPECT_EQ(v6.kind, Kind::kPeer);
  EXPECT_EQ(v6.size, 16U + 36);
  EXPECT_EQ(text_of(v6.peer), "[2001::9]:8080");
}

TEST(ProxyHeader, FurtherFieldsBelongToItAndThePeersBytesDoNot) {
  Bytes rest = kFromV4;
  rest.insert(rest.end(), {0x05, 0, 3, 1, 2, 3});  // an identifier of three bytes
  Bytes bytes = header(0x21, 0x11, rest);
  bytes.insert(bytes.end(), {22, 3, 1});
  const ProxyHeader found = peek_proxy_header(bytes);
  EXPECT_EQ(found.kind, Kind::kPeer);
  EXPECT_EQ(found.size, 16U + 18);
}

TEST(ProxyHeader, ABalancersOwnConnectionAndAPeerWithoutAddressKeepTheirs) {
  EXPECT_EQ(peek_proxy_header(header(0x20, 0x00, {})).kind, Kind::kOwn);
  EXPECT_EQ(peek_proxy_header(header(0x20, 0x11, kFromV4)).kind, Kind::kOwn) << "addresses of LOCAL mean nothing";
  EXPECT_EQ(peek_proxy_header(header(0x21, 0x00, {})).kind, Kind::kOwn);
  EXPECT_EQ(peek_proxy_header(header(0x21, 0x31, Bytes(216, 'x'))).kind, Kind::kOwn) << "a socket of Unix";
  EXPECT_EQ(peek_proxy_header(header(0x21, 0x12, kFromV4)).kind, Kind::kOwn) << "UDP";
  EXPECT_EQ(peek_proxy_header(header(0x21, 0x31, Bytes(216, 'x'))).size, 16U + 216);
}

TEST(ProxyHeader, WaitsForItsLastByte) {
  const Bytes bytes = header(0x21, 0x11, kFromV4);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(peek_proxy_header({bytes.data(), size}).kind, Kind::kPartial) << size;
  }
}

TEST(ProxyHeader, RefusesWhatVersionTwoDoesNotHave) {
  EXPECT_EQ(peek_proxy_header(header(0x11, 0x11, kFromV4)).kind, Kind::kWrong) << "version 1 by its number";
  EXPECT_EQ(peek_proxy_header(header(0x22, 0x11, kFromV4)).kind, Kind::kWrong) << "an unknown command";
  EXPECT_EQ(peek_proxy_header(header(0x21, 0x41, kFromV4)).kind, Kind::kWrong) << "an unknown family";
  EXPECT_EQ(peek_proxy_header(header(0x21, 0x13, kFromV4)).kind, Kind::kWrong) << "an unknown transport";
  EXPECT_EQ(peek_proxy_header(header(0x21, 0x11, Bytes(11, 1))).kind, Kind::kWrong) << "an IPv4 pair cut short";
  EXPECT_EQ(peek_proxy_header(header(0x21, 0x21, Bytes(35, 1))).kind, Kind::kWrong) << "an IPv6 pair cut short";
  EXPECT_EQ(peek_proxy_header(header(0x21, 0x11, Bytes(kProxyHeaderSizeMax - 16, 1))).kind, Kind::kPeer);
  EXPECT_EQ(peek_proxy_header(header(0x21, 0x11, Bytes(kProxyHeaderSizeMax - 15, 1))).kind, Kind::kWrong) << "too long";
}

// Any byte of it changed to any value, and cut anywhere: what it says has a size that is there. (The address sanitizer
// watches the reads.)
TEST(ProxyHeader, NeverNamesMoreThanIsThere) {
  const Bytes whole = header(0x21, 0x11, kFromV4);
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      Bytes bytes = whole;
      bytes[i] = static_cast<uint8_t>(value);
      const ProxyHeader found = peek_proxy_header(Bytes(bytes.begin(), bytes.end()));
      EXPECT_LE(found.size, bytes.size());
      EXPECT_EQ(found.size > 0, found.kind == Kind::kPeer || found.kind == Kind::kOwn);
      EXPECT_LE(peek_proxy_header(Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(i + 1))).size, i + 1);
    }
  }
}

TEST(ProxyHeader, TellsOtherBytes) {
  const auto kind = [](const std::string& text) { return peek_proxy_header(Bytes(text.begin(), text.end())).kind; };
  EXPECT_EQ(kind("PROXY TCP4 203.0.113.9 10.0.0.7 8080 7433\r\n"), Kind::kText);
  EXPECT_EQ(kind("PROX"), Kind::kPartial);
  EXPECT_EQ(kind("POST / HTTP/1.1"), Kind::kNone);
  EXPECT_EQ(kind("\x16\x03\x01"), Kind::kNone) << "a ClientHello";
  EXPECT_EQ(kind("\r\nGET"), Kind::kNone);
}

}  // namespace
}  // namespace gradstream
