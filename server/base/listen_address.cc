#include "server/base/listen_address.h"

#include <algorithm>
#include <charconv>

#include "host/file_cause.h"
#include "server/base/ports.h"

namespace gradstream {

Objection open_acceptor(const Tcp::endpoint& endpoint, const char* key, Tcp::acceptor* out) {
  ErrorCode error;
  out->open(endpoint.protocol(), error);
  if (!error) {
    out->set_option(Tcp::acceptor::reuse_address(true), error);
    out->bind(endpoint, error);
  }
  if (!error) {
    out->listen(Tcp::acceptor::max_listen_connections, error);
  }
  if (!error) {
    return {};
  }
  ErrorCode ignored;
  out->close(ignored);
  const std::string where = "cannot listen on " + text_of(endpoint) + ": " + error.message();
  if (is_temporary(error.value())) {
    return where + "; " + remedy_text(error.value(), "start it again");
  }
  if (error == asio::error::address_in_use) {
    return where + "; stop the program that holds the port, or set " + key + " to another one (port 0: any)";
  }
  if (error == asio::error::access_denied) {
    return where + "; ports below 1024 need privileges: set " + key + " to a higher one";
  }
  return where + "; set " + key + " to an address of this machine";
}

bool do_collide(const Tcp::endpoint& a, const Tcp::endpoint& b) {
  if (a.port() == 0 || a.port() != b.port()) {
    return false;
  }
  const auto plain = [](const asio::ip::address& address) {
    const bool is_mapped = address.is_v6() && address.to_v6().is_v4_mapped();
    return is_mapped ? asio::ip::address(asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6())) : address;
  };
  // "::" stands for every address of both versions, "0.0.0.0" for those of its own.
  const auto stands_for = [](const asio::ip::address& any, const asio::ip::address& other) {
    return any.is_unspecified() && (any.is_v6() || other.is_v4());
  };
  const asio::ip::address of_a = plain(a.address()), of_b = plain(b.address());
  return of_a == of_b || stands_for(of_a, of_b) || stands_for(of_b, of_a);
}

bool is_loopback(const Tcp::endpoint& endpoint) { return endpoint.address().is_loopback(); }

bool parse_listen_address(const std::string& text, Tcp::endpoint* out) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return false;
  }
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  uint16_t port = 0;
  const char* const begin = text.data() + colon + 1;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(begin, end, port);
  ErrorCode error;
  const auto address = asio::ip::make_address(host, error);
  if (error || begin == end || parsed.ec != std::errc() || parsed.ptr != end) {
    return false;
  }
  *out = Tcp::endpoint(address, port);
  return true;
}

bool is_host_name(std::string_view text) {
  constexpr size_t kSizeMax = 253;  // of a name in the DNS
  const bool is_bracketed = text.starts_with('[') && text.ends_with(']') && text.size() > 2;
  const std::string_view inner = is_bracketed ? text.substr(1, text.size() - 2) : text;
  const auto is_good = [is_bracketed](char c) {
    const bool is_word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return is_word || (is_bracketed ? c == ':' || c == '.' : c == '-' || c == '.' || c == '_');
  };
  return !inner.empty() && text.size() <= kSizeMax && std::all_of(inner.begin(), inner.end(), is_good);
}

Objection check_listen_address(const Tcp::endpoint& endpoint, const char* key) {
  asio::io_context io;
  Tcp::acceptor acceptor(io);
  return open_acceptor(endpoint, key, &acceptor);
}

}  // namespace gradstream
