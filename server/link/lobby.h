// Where a connection waits until it has said who it is and there is a place for it.
//
//   accept --> reading --ClientHello is there--> waiting --first() ... take()--> session
//
// A guest is a socket and a few hundred bytes. The memory of TLS is spent on a session, and a handshake in progress has
// a narrow limit: so a peer that connects and says nothing holds neither. It waits here for as long as a handshake may
// take, from the accept on. Whoever gets a place then has that time again, for the handshake itself.
//
// A balancer whose address the configuration names tells first, in a header, whose connection it passes on
// (server/link/proxy_header.h). The guest then counts by that address, in limits and in the log. Where a balancer says
// nothing, or somebody else says it, the connection is closed: its address would be a claim.
//
// A lobby that is full turns away who has shown least (Standing). Of those that say nothing it takes the address with
// most, and its oldest. Among those that wait for a place the first that came is the first that gets one.
#ifndef GRADSTREAM_SERVER_LINK_LOBBY_H_
#define GRADSTREAM_SERVER_LINK_LOBBY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "server/base/address_ranges.h"
#include "server/base/asio_alias.h"
#include "server/base/session_id.h"
#include "server/link/session.h"

namespace gradstream {

// Guests at once. Reason: at 50 connections a second that say nothing, the deadline of 10 s ends 500 of them; half a
// megabyte of sockets is twice as many.
inline constexpr size_t kLobbyCountMax = 1024;

// An IPv4 address, or the first 64 bits of an IPv6 one, which one machine may have all of.
using AddressKey = uint64_t;
AddressKey address_key(const asio::ip::address& address);

// What a peer's first bytes say, least first. Nothing of it is proven.
enum class Standing : uint8_t {
  kSilent,  // no ClientHello yet
  kNobody,  // its ClientHello names nobody who may come in, or there is none
  kClaim,   // it names a claim
  kDevice,  // it names an enrolled device
};
inline constexpr size_t kStandingCount = 4;

struct Guest {
  SessionId id = 0;
  Tcp::socket socket;
  Arrival arrival;
  Standing standing = Standing::kSilent;
  bool is_header_due = false;    // a balancer's, before the first byte of the peer
  bool is_balancer = false;      // its address is a balancer's still, as no header named another one
  bool wants_signature = false;  // a ClientHello without a pre-shared key: a certificate would answer it
};

class Lobby {
 public:
  enum class Turned : uint8_t {
    kNone,    // it stays
    kLate,    // no ClientHello came within the deadline
    kWaited,  // no place came within the deadline
    kFull,    // another guest needed its place in the lobby
    // Of balancers, and of those who speak like one.
    kCheck,        // a balancer has looked whether the port answers, and asked nothing
    kHeaderless,   // a balancer that is named has sent another thing than a PROXY header of version 2
    kNotBalancer,  // a PROXY header, from an address that is not named
  };
  // All on the thread of the io_context.
  struct Events {
    // Also *known, where the identity was looked up: it is dropped unless the guest is taken within on_ready.
    std::function<Standing(std::string_view identity, std::unique_ptr<KnownPsk>* known)> standing_of;
    std::function<void()> on_ready;  // somebody waits
    std::function<void(const Guest& guest, Turned why)> on_turned_away;
  };

  // deadline_ms: of a guest, from the accept. balancers: who pass connections on. Everything must outlive the lobby.
  Lobby(asio::io_context& io, uint64_t deadline_ms, Events events, AddressRanges balancers = {});
  Lobby(const Lobby&) = delete;
  Lobby& operator=(const Lobby&) = delete;

  // Lets a connection in; reads at once what is there. Calls on_ready when its ClientHello is. count_max: guests at
  // once, this one included. False: all guests have shown more than this one, whose socket is closed.
  bool enter(SessionId id, Tcp::socket socket, const Tcp::endpoint& peer, size_t count_max);
  // The first that came of those that wait with this standing; null: none.
  const Guest* first(Standing standing) const;
  // Takes out a guest that waits. Its socket has no operation under way.
  Guest take(SessionId id);
  // Turns away who has shown least. False: all guests wait and have named a device.
  bool turn_away_least();
  // Whether there is one that may be turned away.
  bool has_lesser() const { return waiting_[static_cast<size_t>(Standing::kDevice)].size() < guests_.size(); }
  // Closes all.
  void clear();

  size_t count() const { return guests_.size(); }
  size_t waiting_count() const { return guests_.size() - waiting_[0].size(); }
  // Of these, the ones of this standing or a better one.
  size_t waiting_count(Standing least) const {
    size_t count = 0;
    for (size_t i = static_cast<size_t>(least); i < kStandingCount; ++i) {
      count += waiting_[i].size();
    }
    return count;
  }

 private:
  using Guests = std::map<SessionId, Guest>;

  void read(Guest& guest);
  Turned take_header(Guest& guest);
  void count_silent(const Guest& guest);
  void discount_silent(const Guest& guest);
  void settle(Guest& guest);
  void turn_away(Guests::iterator guest, Turned why);
  void arm_timer();
  void on_timer();

  const uint64_t deadline_ms_;
  const Events events_;
  const AddressRanges balancers_;
  SteadyTimer timer_;
  bool is_timer_armed_ = false;
  uint64_t woken_for_ms_ = 0;                    // the deadline that was late and has waited for kWakeMs
  Guests guests_;                                // in order of age
  std::set<SessionId> waiting_[kStandingCount];  // by standing; those of kSilent do not wait yet
  std::map<AddressKey, size_t> silent_counts_;   // of guests of kSilent, by address
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_LOBBY_H_
