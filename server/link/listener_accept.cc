// How a Listener accepts connections, and what it says of those that found no place.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "server/base/log.h"
#include "server/base/ports.h"
#include "server/link/listener.h"

namespace gradstream {

namespace {

constexpr const char* kOpenFiles = "open files";
// The connection ended in the system's queue, which says nothing of the next one.
bool is_over_already(const ErrorCode& error) {
  return error == asio::error::connection_aborted || error == ErrorCode(EPROTO, asio::error::get_system_category());
}

constexpr const char* kRaiseOpenFiles = "raise the limit of open files (LimitNOFILE=, ulimit -n)";

}  // namespace

size_t session_count_max(const ListenerLimits& limits) {
  constexpr size_t kLobbyLeastMax = 256;  // as many devices come within a second, at a handshake's price on one core
  const size_t descriptors = limits.descriptor_count_max;
  const size_t lobby = std::clamp<size_t>(descriptors / 4, 1, kLobbyLeastMax);
  return std::min<size_t>(limits.connection_count_max, std::max(descriptors, lobby + 1) - lobby);
}

bool Listener::is_out_of_descriptors() const {
  return sessions_.size() + lobby_.count() >= limits_.descriptor_count_max;
}

bool Listener::may_accept() const { return !is_out_of_descriptors() || lobby_.has_lesser(); }

// For kAcceptRetry: a guest that says nothing has had time to speak then, and makes room for another one.
void Listener::pause_accept() {
  pause_.is_on = true;
  pause_.retry.expires_after(kAcceptRetry);
  pause_.retry.async_wait([this](const ErrorCode& cancelled) {
    if (cancelled || !pause_.is_on || !acceptor_.is_open()) {
      return;  // close_accepting() came after the timer was due
    }
    if (may_accept()) {
      pause_.is_on = false;
      accept_waiting();
    } else {
      pause_accept();
    }
  });
}

// All that wait in the system's queue. Those that have spoken there stay; each silent one makes room for the next.
void Listener::accept_waiting() {
  if (!acceptor_.is_open()) {
    return;
  }
  ErrorCode error;
  for (size_t i = 0; i < kAcceptTurnMax && !error && may_accept(); ++i) {
    Tcp::socket socket(io_);
    acceptor_.accept(socket, accepted_peer_, error);
    if (!error) {
      enter(std::move(socket));
    } else if (is_over_already(error)) {
      error.clear();
    }
  }
  flush();
  if (error && error != asio::error::would_block) {
    fail_accept(error);
  } else if (!is_out_of_descriptors()) {
    accept();
  } else if (error || !may_accept()) {
    pause_accept();
  } else {  // more may wait
    asio::post(io_, [this] { accept_waiting(); });
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
  if (error && !is_over_already(error)) {
    fail_accept(error);
    return;
  }
  if (!error) {
    enter(std::move(socket));
  }
  flush();
  if (is_out_of_descriptors()) {
    pause_accept();
  } else {
    accept();
  }
}

void Listener::fail_accept(const ErrorCode& error) {
  ++counters_.arrivals.accept_failures;
  if (is_log_due(&logged_ms_.accept_failure)) {
    log_event("accept_failed"_event, Fields()
                                         .add("cause", error.message())
                                         .add("count", counters_.arrivals.accept_failures)
                                         .add("connections", uint64_t{sessions_.size()}));
  }
  pause_accept();
}

size_t Listener::lobby_count_max() const {
  const size_t used = std::min<size_t>(sessions_.size(), limits_.descriptor_count_max - 1);
  return std::min(kLobbyCountMax, limits_.descriptor_count_max - used);
}

void Listener::enter(Tcp::socket socket) {
  ++counters_.arrivals.connections_accepted;
  if (!lobby_.enter(next_id_++, std::move(socket), accepted_peer_, lobby_count_max())) {
    note_connection_over_cap(connection_cap());  // all others have named a device, and wait for a place
  }
}

void Listener::on_turned_away(const Guest& guest, Lobby::Turned why) {
  tend_soon();
  if (why == Lobby::Turned::kCheck) {
    ++counters_.arrivals.balancer_checks;
  } else if (why == Lobby::Turned::kHeaderless || why == Lobby::Turned::kNotBalancer) {
    note_balancer(guest, why);
  } else if (why == Lobby::Turned::kFull && guest.standing == Standing::kSilent) {
    note_handshake_over_cap(silence_cap());
  } else if (why != Lobby::Turned::kLate) {
    note_waited(guest);
  } else {
    ++counters_.deadlines.handshake;
    if (fault_lines_.admit(steady_ms())) {
      log_event("deadline"_event, Fields()
                                      .add("limit", "handshake_deadline_ms")
                                      .add("state", "tls")
                                      .add("session", guest.id)
                                      .add("peer", text_of(guest.arrival.peer))
                                      .add("remedy", "check the link: no ClientHello came, or a part of one"));
    } else {
      ++counters_.fault_lines_dropped;
    }
  }
}

void Listener::note_balancer(const Guest& guest, Lobby::Turned why) {
  ++counters_.arrivals.balancers_refused;
  if (!fault_lines_.admit(steady_ms())) {
    ++counters_.fault_lines_dropped;
    return;
  }
  const Fields fields =
      Fields().add("session", guest.id).add("peer", text_of(guest.arrival.peer)).add("key", "server.balancers");
  if (why == Lobby::Turned::kHeaderless) {
    log_event("balancer_silent"_event, fields);
  } else {
    log_event("balancer_not_named"_event, fields);
  }
}

Listener::Cap Listener::connection_cap() const {
  return session_count_max(limits_) < limits_.connection_count_max
             ? Cap{kOpenFiles, limits_.descriptor_count_max, kRaiseOpenFiles}
             : Cap{"server.limits.connection_count_max", limits_.connection_count_max,
                   "raise server.limits.connection_count_max"};
}

Listener::Cap Listener::handshake_cap() const {
  return {"server.limits.handshake_count_max", limits_.handshake_count_max,
          "raise server.limits.handshake_count_max, or find who opens connections without a handshake"};
}

// Of the lobby, which is full of peers that say nothing.
Listener::Cap Listener::silence_cap() const {
  return lobby_count_max() < kLobbyCountMax
             ? Cap{kOpenFiles, limits_.descriptor_count_max,
                   "find who opens connections and says nothing, or raise the limit of open files (LimitNOFILE=, "
                   "ulimit -n)"}
             : Cap{"connections that wait", kLobbyCountMax,
                   "find who opens connections and says nothing; no key raises this limit"};
}

// It has said who it is, and there was no place for it.
void Listener::note_waited(const Guest& guest) {
  if (sessions_.size() >= session_count_max(limits_)) {
    note_connection_over_cap(connection_cap());
  } else if (half_open_.size() >= limits_.handshake_count_max) {
    note_handshake_over_cap(handshake_cap());
  } else if (guest.wants_signature) {
    note_handshake_over_cap({"signatures a second", limits_.signatures.per_second,
                             "find who opens connections without a key; no key of the configuration raises this "
                             "limit"});
  } else {
    note_handshake_over_cap(silence_cap());
  }
}

void Listener::note_connection_over_cap(const Cap& cap) {
  ++counters_.arrivals.connections_over_cap;
  log_cap("connections_over_cap"_event, counters_.arrivals.connections_over_cap, &logged_ms_.connection_cap, cap);
}

void Listener::note_handshake_over_cap(const Cap& cap) {
  ++counters_.arrivals.handshakes_over_cap;
  log_cap("handshakes_over_cap"_event, counters_.arrivals.handshakes_over_cap, &logged_ms_.handshake_cap, cap);
}

void Listener::log_cap(const EventRow& event, uint64_t count, uint64_t* last_ms, const Cap& cap) {
  if (!is_log_due(last_ms)) {
    return;
  }
  log_event(event, Fields()
                       .add("count", count)
                       .add("connections", uint64_t{sessions_.size()})
                       .add("half_open", uint64_t{half_open_.size()})
                       .add("limit", cap.limit)
                       .add("most", cap.most)
                       .add("remedy", cap.remedy));
}

}  // namespace gradstream
