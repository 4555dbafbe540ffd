// What the first bytes of a connection tell, whole, in pieces, and when they are wrong.
#include "server/link/client_hello.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes with_length(size_t length_size, const Bytes& content) {
  Bytes out;
  for (size_t i = length_size; i > 0; --i) {
    out.push_back(static_cast<uint8_t>(content.size() >> 8 * (i - 1)));
  }
  out.insert(out.end(), content.begin(), content.end());
  return out;
}

void append(Bytes* out, const Bytes& more) { out->insert(out->end(), more.begin(), more.end()); }

Bytes extension(uint8_t type, const Bytes& content) {
  Bytes out = {0, type};
  append(&out, with_length(2, content));
  return out;
}

Bytes psk_extension(const std::string& identity) {
  Bytes entry = with_length(2, Bytes(identity.begin(), identity.end()));
  append(&entry, {0, 0, 0, 0});  // its age
  Bytes content = with_length(2, entry);
  append(&content, with_length(2, with_length(1, Bytes(32, 7))));
  return extension(41, content);
}

// The handshake message.
Bytes hello_with(const Bytes& extensions) {
  Bytes body = {3, 3};
  append(&body, Bytes(32, 9));
  append(&body, with_length(1, Bytes(32, 5)));
  append(&body, with_length(2, {0x13, 0x01}));
  append(&body, with_length(1, {0}));
  append(&body, with_length(2, extensions));
  Bytes message = {1};
  append(&message, with_length(3, body));
  return message;
}

Bytes record(const Bytes& content) {
  Bytes out = {22, 3, 1};
  append(&out, with_length(2, content));
  return out;
}

Bytes named_hello(const std::string& identity) {
  Bytes extensions = extension(43, {2, 3, 4});
  append(&extensions, psk_extension(identity));
  return hello_with(extensions);
}

TEST(ClientHello, IsCompleteWithItsLastByte) {
  const Bytes bytes = record(named_hello("device-1"));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(peek_client_hello({bytes.data(), size}).is_complete) << size;
  }
  const ClientHello hello = peek_client_hello(bytes);
  EXPECT_TRUE(hello.is_complete && hello.is_hello && hello.has_psk);
  EXPECT_EQ(hello.identity, "device-1");
}

TEST(ClientHello, MayComeInSeveralRecords) {
  const Bytes message = named_hello("device-1");
  Bytes bytes;
  for (size_t i = 0; i < message.size(); i += 3) {
    const size_t end = std::min(message.size(), i + 3);
    append(&bytes,
           record(Bytes(message.begin() + static_cast<ptrdiff_t>(i), message.begin() + static_cast<ptrdiff_t>(end))));
  }
  EXPECT_EQ(peek_client_hello(bytes).identity, "device-1");
  bytes.pop_back();
  EXPECT_FALSE(peek_client_hello(bytes).is_complete);
}

TEST(ClientHello, WithoutAKeyNamesNobody) {
  const ClientHello hello = peek_client_hello(record(hello_with(extension(43, {2, 3, 4}))));
  EXPECT_TRUE(hello.is_complete && hello.is_hello);
  EXPECT_FALSE(hello.has_psk);
  EXPECT_EQ(hello.identity, "");
  const ClientHello longest = peek_client_hello(record(named_hello(std::string(kHelloIdentitySizeMax, 'a'))));
  EXPECT_EQ(longest.identity.size(), kHelloIdentitySizeMax);
  const ClientHello longer = peek_client_hello(record(named_hello(std::string(kHelloIdentitySizeMax + 1, 'a'))));
  EXPECT_TRUE(longer.has_psk);
  EXPECT_EQ(longer.identity, "");
}

// TLS says what they are: nothing is waited for.
TEST(ClientHello, OtherBytesAreCompleteAtOnce) {
  const std::string text = "GET / HTTP/1.1";
  const Bytes others[] = {
      Bytes(text.begin(), text.end()),
      {0},
      {22, 2},
      {22, 3, 1, 0, 0},                    // a record of nothing
      {22, 3, 1, 0x40, 0},                 // one larger than any
      {21, 3, 1, 0, 2, 2, 40},             // an alert
      {22, 3, 1, 0, 4, 2},                 // a ServerHello
      {22, 3, 1, 0, 4, 1, 0, 0xff, 0xff},  // a message larger than any
      {22, 3, 1, 0, 1, 1, 'G', 'E'},       // a good record, and something else behind it
  };
  for (const Bytes& bytes : others) {
    const ClientHello hello = peek_client_hello(bytes);
    EXPECT_TRUE(hello.is_complete);
    EXPECT_FALSE(hello.is_hello);
  }
  Bytes endless;
  while (endless.size() < kClientHelloSizeMax) {
    EXPECT_FALSE(peek_client_hello(endless).is_complete);
    append(&endless, endless.empty() ? record({1, 0, 7, 0}) : record({0}));
  }
  EXPECT_TRUE(peek_client_hello(endless).is_complete);
}

TEST(ClientHello, NoWrongByteIsReadBeyondItsField) {
  const Bytes good = record(named_hello("device-1"));
  for (size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      Bytes bytes = good;
      bytes[at] = static_cast<uint8_t>(value);
      bytes.shrink_to_fit();
      const ClientHello hello = peek_client_hello(bytes);
      EXPECT_LE(hello.identity.size(), kHelloIdentitySizeMax);
    }
  }
}

}  // namespace
}  // namespace gradstream
