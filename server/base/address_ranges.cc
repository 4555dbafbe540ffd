#include "server/base/address_ranges.h"

#include <algorithm>

namespace gradstream {

namespace {

constexpr const char* kWholeV4 = "/32";
constexpr const char* kWholeV6 = "/128";
constexpr int kMappedPrefix = 96;  // bits of ::ffff:0:0, behind which an IPv4 address stands

asio::ip::address plain(const asio::ip::address& address) {
  const bool is_mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return is_mapped ? asio::ip::address(asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6())) : address;
}

}  // namespace

bool AddressRanges::add(const std::string& text) {
  const bool is_network = text.find('/') != std::string::npos;
  ErrorCode error;
  if (text.find(':') == std::string::npos) {
    const asio::ip::network_v4 network = asio::ip::make_network_v4(is_network ? text : text + kWholeV4, error);
    if (!error && network.prefix_length() > 0) {
      v4_.push_back(network.canonical());
      return true;
    }
  } else {
    const asio::ip::network_v6 network = asio::ip::make_network_v6(is_network ? text : text + kWholeV6, error);
    if (!error && network.address().is_v4_mapped()) {  // contains() looks for it among those of IPv4
      if (network.prefix_length() <= kMappedPrefix) {
        return false;
      }
      const asio::ip::address_v4 v4 = asio::ip::make_address_v4(asio::ip::v4_mapped, network.address());
      v4_.push_back(
          asio::ip::network_v4(v4, static_cast<unsigned short>(network.prefix_length() - kMappedPrefix)).canonical());
      return true;
    }
    if (!error && network.prefix_length() > 0) {
      v6_.push_back(network.canonical());
      return true;
    }
  }
  return false;
}

bool AddressRanges::contains(const asio::ip::address& address) const {
  const asio::ip::address wanted = plain(address);
  if (wanted.is_v4()) {
    const asio::ip::address_v4 v4 = wanted.to_v4();
    return std::any_of(v4_.begin(), v4_.end(), [&](const asio::ip::network_v4& network) {
      return asio::ip::network_v4(v4, network.prefix_length()).canonical() == network;
    });
  }
  asio::ip::address_v6 v6 = wanted.to_v6();
  v6.scope_id(0);  // of a link's own address: the list names no interfaces
  return std::any_of(v6_.begin(), v6_.end(), [&](const asio::ip::network_v6& network) {
    return asio::ip::network_v6(v6, network.prefix_length()).canonical() == network;
  });
}

}  // namespace gradstream
