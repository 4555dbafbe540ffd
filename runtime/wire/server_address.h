// HOST:PORT of a server, as people write it on a command line. What can never work is told from what may work later.
#ifndef GRADSTREAM_RUNTIME_WIRE_SERVER_ADDRESS_H_
#define GRADSTREAM_RUNTIME_WIRE_SERVER_ADDRESS_H_

#include <string_view>

namespace gradstream {

// Views into the text that was parsed.
struct ServerAddress {
  std::string_view host;  // a name, four numbers, or an address of IPv6 without its brackets
  std::string_view port;  // 1 .. 65535, decimal
};

struct AddressFault {
  const char* text = nullptr;  // a clause with the limit or the remedy, after the part; null: there is none
  std::string_view part;       // of the text: what is at fault
};

// Longest name that DNS can hold, and the longest part between two dots, characters (RFC 1035, 2.3.4).
inline constexpr size_t kHostNameSizeMax = 253;
inline constexpr size_t kHostLabelSizeMax = 63;

// Takes "name:7433", "192.0.2.1:7433" and "[2001:db8::1]:7433", with a zone perhaps: "[fe80::1%eth0]:7433". *out is set
// where there is no fault. A host without one may resolve now or later; no name is looked up here.
AddressFault parse_server_address(std::string_view text, ServerAddress* out);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_WIRE_SERVER_ADDRESS_H_
