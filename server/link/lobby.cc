#include "server/link/lobby.h"

#include <chrono>
#include <utility>

#include "server/base/ports.h"
#include "server/link/client_hello.h"
#include "server/link/proxy_header.h"

namespace gradstream {

namespace {

// Whether somebody speaks like a balancer. Two bytes of a header are the end of a line as well, and say nothing.
bool speaks_as_balancer(std::span<const uint8_t> bytes) {
  constexpr size_t kSignatureSize = 12;
  const ProxyHeader::Kind kind = peek_proxy_header(bytes).kind;
  return kind != ProxyHeader::Kind::kNone && (kind != ProxyHeader::Kind::kPartial || bytes.size() >= kSignatureSize);
}

}  // namespace

AddressKey address_key(const asio::ip::address& address) {
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

Lobby::Lobby(asio::io_context& io, uint64_t deadline_ms, Events events, AddressRanges balancers)
    : deadline_ms_(deadline_ms), events_(std::move(events)), balancers_(std::move(balancers)), timer_(io) {}

bool Lobby::enter(SessionId id, Tcp::socket socket, const Tcp::endpoint& peer, size_t count_max) {
  ErrorCode ignored;
  if (guests_.size() >= count_max && !turn_away_least()) {
    socket.close(ignored);
    return false;
  }
  socket.non_blocking(true, ignored);
  Guest& guest = guests_.emplace(id, Guest{id, std::move(socket), {peer, {}, steady_ms(), nullptr}}).first->second;
  guest.is_balancer = guest.is_header_due = balancers_.contains(peer.address());
  waiting_[0].insert(id);
  count_silent(guest);
  arm_timer();
  read(guest);
  return true;
}

const Guest* Lobby::first(Standing standing) const {
  const std::set<SessionId>& ids = waiting_[static_cast<size_t>(standing)];
  return ids.empty() ? nullptr : &guests_.at(*ids.begin());
}

Guest Lobby::take(SessionId id) {
  const auto found = guests_.find(id);
  waiting_[static_cast<size_t>(found->second.standing)].erase(id);
  Guest guest = std::move(found->second);
  guests_.erase(found);
  return guest;
}

bool Lobby::turn_away_least() {
  if (!waiting_[0].empty()) {
    size_t most = 0;
    SessionId victim = 0;
    for (const SessionId id : waiting_[0]) {
      const size_t count = silent_counts_.at(address_key(guests_.at(id).arrival.peer.address()));
      if (count > most) {  // of addresses with as many, the one that came first
        most = count;
        victim = id;
      }
    }
    turn_away(guests_.find(victim), Turned::kFull);
    return true;
  }
  for (const Standing standing : {Standing::kNobody, Standing::kClaim}) {
    if (const Guest* const guest = first(standing); guest != nullptr) {
      turn_away(guests_.find(guest->id), Turned::kFull);
      return true;
    }
  }
  return false;
}

void Lobby::turn_away(Guests::iterator guest, Turned why) {
  const SessionId id = guest->first;
  if (guest->second.standing == Standing::kSilent) {
    discount_silent(guest->second);
  }
  waiting_[static_cast<size_t>(guest->second.standing)].erase(id);
  const Guest gone = std::move(guest->second);
  guests_.erase(guest);
  events_.on_turned_away(gone, why);
}

void Lobby::count_silent(const Guest& guest) { ++silent_counts_[address_key(guest.arrival.peer.address())]; }

void Lobby::discount_silent(const Guest& guest) {
  const auto count = silent_counts_.find(address_key(guest.arrival.peer.address()));
  if (--count->second == 0) {
    silent_counts_.erase(count);
  }
}

void Lobby::clear() {
  guests_.clear();
  for (std::set<SessionId>& ids : waiting_) {
    ids.clear();
  }
  silent_counts_.clear();
  timer_.cancel();
  is_timer_armed_ = false;
}

// ---- Reading -------------------------------------------------------------------------------------------------------

// What a balancer says first: behind it the guest is the peer that the header names, and its bytes are that peer's.
Lobby::Turned Lobby::take_header(Guest& guest) {
  std::vector<uint8_t>& bytes = guest.arrival.bytes;
  const ProxyHeader header = peek_proxy_header(bytes);
  if (header.kind == ProxyHeader::Kind::kPartial) {
    return Turned::kNone;
  }
  if (header.kind != ProxyHeader::Kind::kOwn && header.kind != ProxyHeader::Kind::kPeer) {
    return Turned::kHeaderless;
  }
  guest.is_header_due = false;
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(header.size));
  if (header.kind == ProxyHeader::Kind::kPeer) {
    guest.is_balancer = false;
    discount_silent(guest);
    guest.arrival.peer = header.peer;
    count_silent(guest);
  }
  return Turned::kNone;
}

void Lobby::read(Guest& guest) {
  std::vector<uint8_t>& bytes = guest.arrival.bytes;
  ErrorCode error;
  ClientHello hello;
  Turned turned = Turned::kNone;
  while (!error && !hello.is_complete && turned == Turned::kNone) {
    uint8_t buffer[kClientHelloSizeMax];
    const size_t size = guest.socket.read_some(asio::buffer(buffer, sizeof buffer - bytes.size()), error);
    bytes.insert(bytes.end(), buffer, buffer + size);
    turned = guest.is_header_due ? take_header(guest) : Turned::kNone;
    hello = guest.is_header_due ? ClientHello() : peek_client_hello(bytes);
  }
  const bool stays = turned == Turned::kNone;
  const bool is_over = error && error != asio::error::would_block;
  if (stays && is_over && guest.is_balancer && (guest.is_header_due || bytes.empty())) {
    turned = bytes.empty() ? Turned::kCheck : Turned::kHeaderless;
  } else if (stays && hello.is_complete && !hello.is_hello && speaks_as_balancer(bytes)) {
    turned = Turned::kNotBalancer;
  }
  if (turned != Turned::kNone) {
    turn_away(guests_.find(guest.id), turned);
    return;
  }
  if (!hello.is_complete && error == asio::error::would_block) {
    guest.socket.async_wait(Tcp::socket::wait_read, [this, id = guest.id](const ErrorCode& failed) {
      if (failed == asio::error::operation_aborted) {
        return;
      }
      if (const auto found = guests_.find(id); found != guests_.end()) {
        read(found->second);
      }
    });
    return;
  }
  guest.standing =
      hello.identity.empty() ? Standing::kNobody : events_.standing_of(hello.identity, &guest.arrival.known);
  guest.wants_signature = hello.is_hello && !hello.has_psk;
  settle(guest);
}

// A peer that has left is its session's matter, which says so. Who has to wait is looked up again when its turn comes.
void Lobby::settle(Guest& guest) {
  const SessionId id = guest.id;
  discount_silent(guest);
  waiting_[0].erase(guest.id);
  waiting_[static_cast<size_t>(guest.standing)].insert(guest.id);
  events_.on_ready();
  if (const auto waiting = guests_.find(id); waiting != guests_.end()) {
    waiting->second.arrival.known.reset();
  }
}

// ---- The deadline --------------------------------------------------------------------------------------------------

// The timer is that of the oldest guest; when it leaves before, the timer finds nothing to do.
void Lobby::arm_timer() {
  if (is_timer_armed_ || guests_.empty()) {
    return;
  }
  const uint64_t due_ms = guests_.begin()->second.arrival.accepted_ms + deadline_ms_;
  const uint64_t now_ms = steady_ms();
  is_timer_armed_ = true;
  timer_.expires_after(std::chrono::milliseconds(due_ms > now_ms ? due_ms - now_ms : 0));
  timer_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) {
      on_timer();
    }
  });
}

void Lobby::on_timer() {
  is_timer_armed_ = false;
  const uint64_t now_ms = steady_ms();
  if (!guests_.empty()) {
    const uint64_t due_ms = guests_.begin()->second.arrival.accepted_ms + deadline_ms_;
    if (due_ms + kStandstillMs < now_ms && woken_for_ms_ < due_ms) {
      woken_for_ms_ = now_ms;  // first what has come while the process stood still
      is_timer_armed_ = true;
      timer_.expires_after(std::chrono::milliseconds(kWakeMs));
      timer_.async_wait([this](const ErrorCode& cancelled) {
        if (!cancelled) {
          on_timer();
        }
      });
      return;
    }
  }
  while (!guests_.empty() && guests_.begin()->second.arrival.accepted_ms + deadline_ms_ <= now_ms) {
    const bool is_silent = guests_.begin()->second.standing == Standing::kSilent;
    turn_away(guests_.begin(), is_silent ? Turned::kLate : Turned::kWaited);
  }
  arm_timer();
}

}  // namespace gradstream
