// Addresses that a port of the server listens on.
#ifndef GRADSTREAM_SERVER_BASE_LISTEN_ADDRESS_H_
#define GRADSTREAM_SERVER_BASE_LISTEN_ADDRESS_H_

#include <string>
#include <string_view>

#include "server/base/asio_alias.h"
#include "server/base/objection.h"

namespace gradstream {

// Splits "host:port" ("127.0.0.1:7433", "[::1]:7433", "0.0.0.0:0"); false when it is none.
bool parse_listen_address(const std::string& text, Tcp::endpoint* out);
// Whether a listener on one of them leaves no room for the other: the same port, and an address that one is, or stands
// for. Port 0 is any free one.
bool do_collide(const Tcp::endpoint& a, const Tcp::endpoint& b);
// Whether no other machine can reach the address.
bool is_loopback(const Tcp::endpoint& endpoint);
// Whether it is a name or a numeric address ("[::1]") as the header Host of HTTP has it, without a port.
bool is_host_name(std::string_view text);
// Whether the address can be listened on now: objections as of Listener::open(). Nothing stays open.
Objection check_listen_address(const Tcp::endpoint& endpoint, const char* key = "server.listen");
// Opens *out there. An objection names the address, the cause and the remedy; key: what it is set by.
Objection open_acceptor(const Tcp::endpoint& endpoint, const char* key, Tcp::acceptor* out);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_LISTEN_ADDRESS_H_
