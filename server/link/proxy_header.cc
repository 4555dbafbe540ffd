#include "server/link/proxy_header.h"

#include <algorithm>
#include <string_view>

namespace gradstream {

namespace {

using Kind = ProxyHeader::Kind;

constexpr uint8_t kSignature[] = {0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A};
constexpr std::string_view kTextSignature = "PROXY ";
constexpr size_t kFixedSize = sizeof kSignature + 4;
constexpr uint8_t kLocal = 0x20;  // version 2 in the upper half
constexpr uint8_t kProxied = 0x21;
constexpr uint8_t kTcpV4 = 0x11;
constexpr uint8_t kTcpV6 = 0x21;
constexpr uint8_t kFamilyMost = 3;     // unspecified, IPv4, IPv6, Unix
constexpr uint8_t kTransportMost = 2;  // unspecified, stream, datagram

// Whether they are equal as far as the shorter one goes.
template <typename Signature>
bool begins(std::span<const uint8_t> bytes, const Signature& signature) {
  const size_t size = std::min(bytes.size(), std::size(signature));
  return std::equal(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size), std::begin(signature));
}

uint16_t number(std::span<const uint8_t> bytes) { return static_cast<uint16_t>(bytes[0] << 8 | bytes[1]); }

// addresses: of the peer, of the balancer's end, then both ports.
template <typename Address>
Tcp::endpoint source(std::span<const uint8_t> addresses) {
  typename Address::bytes_type bytes;
  std::copy_n(addresses.begin(), bytes.size(), bytes.begin());
  return {Address(bytes), number(addresses.subspan(2 * bytes.size()))};
}

ProxyHeader read_whole(uint8_t family, std::span<const uint8_t> addresses, size_t size) {
  constexpr size_t kSizeV4 = 2 * 4 + 2 * 2, kSizeV6 = 2 * 16 + 2 * 2;
  if ((family == kTcpV4 && addresses.size() < kSizeV4) || (family == kTcpV6 && addresses.size() < kSizeV6)) {
    return {Kind::kWrong};
  }
  if (family == kTcpV4) {
    return {Kind::kPeer, size, source<asio::ip::address_v4>(addresses)};
  }
  if (family == kTcpV6) {
    return {Kind::kPeer, size, source<asio::ip::address_v6>(addresses)};
  }
  return {Kind::kOwn, size};
}

}  // namespace

ProxyHeader peek_proxy_header(std::span<const uint8_t> bytes) {
  if (!begins(bytes, kSignature)) {
    const bool is_text = begins(bytes, kTextSignature);
    return {!is_text ? Kind::kNone : bytes.size() < kTextSignature.size() ? Kind::kPartial : Kind::kText};
  }
  if (bytes.size() < kFixedSize) {
    return {};
  }
  const uint8_t command = bytes[sizeof kSignature];
  const uint8_t family = bytes[sizeof kSignature + 1];
  const size_t size = kFixedSize + number(bytes.subspan(sizeof kSignature + 2));
  if ((command != kLocal && command != kProxied) || family >> 4 > kFamilyMost || (family & 15) > kTransportMost ||
      size > kProxyHeaderSizeMax) {
    return {Kind::kWrong};
  }
  if (bytes.size() < size) {
    return {};
  }
  return command == kLocal ? ProxyHeader{Kind::kOwn, size}
                           : read_whole(family, bytes.subspan(kFixedSize, size - kFixedSize), size);
}

}  // namespace gradstream
