#include "server/listener.h"

#include <charconv>
#include <utility>

#include "server/log.h"
#include "server/ports.h"

namespace gradstream {

namespace {

}  // namespace

std::string open_acceptor(const Tcp::endpoint& endpoint, const char* key, Tcp::acceptor* out) {
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
  if (error == asio::error::address_in_use) {
    return where + "; stop the program that holds the port, or set " + key + " to another one (port 0: any)";
  }
  if (error == asio::error::access_denied) {
    return where + "; ports below 1024 need privileges: set " + key + " to a higher one";
  }
  return where + "; set " + key + " to an address of this machine";
}

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

std::string check_listen_address(const Tcp::endpoint& endpoint, const char* key) {
  asio::io_context io;
  Tcp::acceptor acceptor(io);
  return open_acceptor(endpoint, key, &acceptor);
}

Listener::Listener(asio::io_context& io, TlsContext& context, const ListenerLimits& limits, ShellCounters& counters,
                   SessionOwner& owner)
    : io_(io),
      context_(context),
      limits_(limits),
      counters_(counters),
      owner_(owner),
      acceptor_(io),
      accept_retry_(io) {}

Listener::~Listener() {
  close_accepting();
  abort_all();
}

std::string Listener::open(const Tcp::endpoint& endpoint) {
  std::string problem = open_acceptor(endpoint, "server.listen", &acceptor_);
  if (problem.empty()) {
    // Linux hands the options of a listening socket on to those that it accepts: two system calls less for each.
    ErrorCode ignored;
    acceptor_.set_option(Tcp::no_delay(true), ignored);  // a handshake is small flights: Nagle costs 40 ms for each
    acceptor_.set_option(asio::socket_base::send_buffer_size(static_cast<int>(limits_.send_buffer_size)), ignored);
    accept();
  }
  return problem;
}

uint16_t Listener::port() const {
  ErrorCode error;
  const Tcp::endpoint endpoint = acceptor_.local_endpoint(error);
  return error ? uint16_t{0} : endpoint.port();
}

Session* Listener::find(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : found->second.session.get();
}

void Listener::close_accepting() {
  ErrorCode ignored;
  acceptor_.close(ignored);
  accept_retry_.cancel();
}

void Listener::drain(uint32_t retry_min_ms, uint32_t retry_max_ms) {
  close_accepting();
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_drain_tag;
  message.body.drain.has_retry = true;
  message.body.drain.retry.min_ms = retry_min_ms;
  message.body.drain.retry.max_ms = retry_max_ms;
  std::vector<std::shared_ptr<Session>> sessions;
  sessions.reserve(sessions_.size());
  for (const auto& [id, entry] : sessions_) {
    sessions.push_back(entry.session);
  }
  for (const auto& session : sessions) {
    if (session->is_half_open()) {
      session->abort();
    } else {
      session->drain(message);
    }
  }
}

void Listener::abort_all() {
  while (!sessions_.empty()) {
    const auto session = sessions_.begin()->second.session;
    session->abort();
    sessions_.erase(session->id());
  }
}

void Listener::accept() {
  acceptor_.async_accept(accepted_peer_,
                         [this](const ErrorCode& error, Tcp::socket socket) { on_accepted(error, std::move(socket)); });
}

void Listener::on_accepted(const ErrorCode& error, Tcp::socket socket) {
  if (error == asio::error::operation_aborted || !acceptor_.is_open()) {
    return;
  }
  if (error) {
    ++counters_.accept_failures;
    if (is_log_due(&accept_failure_logged_ms_)) {
      log_event(LogLevel::kError, "accept_failed",
                Fields().add("cause", error.message()).add("count", counters_.accept_failures)
                    .add("connections", uint64_t{sessions_.size()})
                    .add("remedy", "raise `ulimit -n`, or lower server.limits.connection_count_max"));
    }
    accept_retry_.expires_after(kAcceptRetry);
    accept_retry_.async_wait([this](const ErrorCode& cancelled) {
      if (!cancelled) {
        accept();
      }
    });
    return;
  }
  ++counters_.connections_accepted;
  if (sessions_.size() >= limits_.connection_count_max) {
    ++counters_.connections_over_cap;
    log_cap("connections_over_cap", counters_.connections_over_cap, &connection_cap_logged_ms_,
            "raise server.limits.connection_count_max");
    ErrorCode ignored;
    socket.close(ignored);
    accept();
    return;
  }
  make_room_for_handshake();
  const AddressKey address = address_of(accepted_peer_.address());
  const SessionId id = next_id_++;
  auto session = std::make_shared<Session>(id, std::move(socket), accepted_peer_, context_, limits_.session, counters_,
                                           fault_lines_, *this);
  sessions_[id].session = session;
  half_open_[id] = address;
  session->start();
  accept();
}

Listener::AddressKey Listener::address_of(const asio::ip::address& address) {
  if (address.is_v4()) {
    return address.to_v4().to_uint();
  }
  const asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, v6).to_uint();
  }
  AddressKey key = 0;
  const auto bytes = v6.to_bytes();
  for (size_t i = 0; i < sizeof key; ++i) {
    key = key << 8 | bytes[i];
  }
  return key;
}

void Listener::make_room_for_handshake() {
  if (half_open_.size() < limits_.handshake_count_max) {
    return;
  }
  std::map<AddressKey, size_t> counts;
  for (const auto& [id, address] : half_open_) {
    ++counts[address];
  }
  SessionId victim = 0;
  size_t most = 0;
  for (const auto& [id, address] : half_open_) {  // of addresses with as many, the one that came first
    if (counts[address] > most) {
      most = counts[address];
      victim = id;
    }
  }
  ++counters_.handshakes_over_cap;
  log_cap("handshakes_over_cap", counters_.handshakes_over_cap, &handshake_cap_logged_ms_,
          "raise server.limits.handshake_count_max, or find who opens connections without a handshake");
  const auto session = sessions_.at(victim).session;
  session->abort();
}

void Listener::log_cap(const char* event, uint64_t count, uint64_t* last_ms, const char* remedy) {
  if (!is_log_due(last_ms)) {
    return;
  }
  log_event(LogLevel::kWarn, event, Fields().add("count", count).add("connections", uint64_t{sessions_.size()})
                                        .add("half_open", uint64_t{half_open_.size()}).add("remedy", remedy));
}

// ---- Sessions' reports ---------------------------------------------------------------------------------------------

void Listener::on_session_established(SessionId session) {
  const auto found = sessions_.find(session);
  if (found != sessions_.end() && found->second.half_open) {
    found->second.half_open = false;
    half_open_.erase(session);
    replace_silent(session);
  }
  owner_.on_session_established(session);
}

// Or one device could take all connections.
void Listener::replace_silent(SessionId session) {
  if (find(session)->claim() != 0) {
    return;  // any number of devices have the same one
  }
  const auto [entry, is_only] = silent_.try_emplace(find(session)->device(), session);
  if (is_only) {
    return;
  }
  Session* const before = find(std::exchange(entry->second, session));
  if (before != nullptr && before->is_silent()) {
    ++counters_.greetings_replaced;
    before->close(gs_Reason_REASON_NEWER_SESSION);
  }
}

void Listener::on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) {
  if (const auto silent = silent_.find(device); silent != silent_.end() && silent->second == session) {
    silent_.erase(silent);
  }
  owner_.on_session_message(session, device, message);
}

void Listener::on_session_claim(SessionId session, uint32_t claim, const Identity& identity) {
  owner_.on_session_claim(session, claim, identity);
}

void Listener::on_session_ended(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) {
    return;
  }
  const bool half_open = found->second.half_open;
  const auto silent = silent_.find(found->second.session->device());
  if (!half_open && silent != silent_.end() && silent->second == session) {
    silent_.erase(silent);
  }
  // The session is inside its own call: it goes when that has returned.
  asio::post(io_, [keep = std::move(found->second.session)] {});
  sessions_.erase(found);
  if (half_open) {
    half_open_.erase(session);
  } else {
    owner_.on_session_ended(session);
  }
}

}  // namespace gradstream
