// Addresses that the configuration names, one by one or by network.
#ifndef GRADSTREAM_SERVER_BASE_ADDRESS_RANGES_H_
#define GRADSTREAM_SERVER_BASE_ADDRESS_RANGES_H_

#include <string>
#include <string_view>
#include <vector>

#include <asio/ip/network_v4.hpp>
#include <asio/ip/network_v6.hpp>

#include "server/base/asio_alias.h"

namespace gradstream {

class AddressRanges {
 public:
  // text: an address ("10.0.0.7", "fd00::7"), or a network ("10.0.0.0/24", "fd00::/8"). False: it is neither, or it is
  // a network of no bits, which names everybody. "::ffff:10.0.0.7", as a log has it, is the IPv4 address.
  bool add(const std::string& text);
  // An IPv4 address that is mapped into IPv6 ("::ffff:10.0.0.7") is that IPv4 address.
  bool contains(const asio::ip::address& address) const;
  bool is_empty() const { return v4_.empty() && v6_.empty(); }

 private:
  std::vector<asio::ip::network_v4> v4_;
  std::vector<asio::ip::network_v6> v6_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_ADDRESS_RANGES_H_
