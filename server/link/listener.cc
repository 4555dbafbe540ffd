#include "server/link/listener.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/base/listen_address.h"
#include "server/base/log.h"
#include "server/base/ports.h"

namespace gradstream {

Listener::Listener(asio::io_context& io, TlsContext& context, const ListenerLimits& limits, ShellCounters& counters,
                   SessionOwner& owner, PskLookup lookup)
    : io_(io),
      limits_(limits),
      counters_(counters),
      owner_(owner),
      lookup_(std::move(lookup)),
      pool_(io, context, limits_.session, counters, fault_lines_, *this),
      acceptor_(io),
      pause_{SteadyTimer(io), false},
      lobby_(
          io, limits.session.handshake_deadline_ms,
          {[this](std::string_view identity, std::unique_ptr<KnownPsk>* known) { return standing_of(identity, known); },
           [this] { tend_now(); }, [this](const Guest& guest, Lobby::Turned why) { on_turned_away(guest, why); }},
          limits.balancers),
      takes_certificates_(context.takes_certificates()),
      signatures_{{}, SteadyTimer(io), 0},
      ages_{SessionAges(limits.session_age_max_ms), SteadyTimer(io), 0},
      silent_claims_(limits.connection_count_max) {}

Listener::~Listener() {
  close_accepting();
  abort_all();
}

Status Listener::start_threads(std::vector<PskLookup> lookups, const TlsPolicy& policy, const CredentialBoard* board) {
  for (PskLookup& lookup : lookups) {
    threads_.push_back(
        {std::make_unique<IoThread>(io_, std::move(lookup), policy, board, limits_.session, fault_lines_,
                                    [this](std::vector<SessionReport>& reports) { on_reports(reports); }),
         0});
    if (const Status status = threads_.back().io->start(); status != Status::kOk) {
      return status;
    }
  }
  return Status::kOk;
}

Objection Listener::open(const Tcp::endpoint& endpoint) {
  Objection problem = open_acceptor(endpoint, "server.listen", &acceptor_);
  if (!problem) {
    // Linux hands the options of a listening socket on to those that it accepts: two system calls less for each.
    ErrorCode ignored;
    acceptor_.set_option(Tcp::no_delay(true), ignored);  // a handshake is small flights: Nagle costs 40 ms for each
    acceptor_.set_option(asio::socket_base::send_buffer_size(static_cast<int>(limits_.send_buffer_size)), ignored);
    acceptor_.non_blocking(true, ignored);  // for accept_waiting()
    // Without it Asio waits in poll() for the next connection where one has ended in the system's queue.
    acceptor_.set_option(asio::socket_base::enable_connection_aborted(true), ignored);
    accept();
  }
  return problem;
}

uint16_t Listener::port() const {
  ErrorCode error;
  const Tcp::endpoint endpoint = acceptor_.local_endpoint(error);
  return error ? uint16_t{0} : endpoint.port();
}

// ---- To sessions ---------------------------------------------------------------------------------------------------

void Listener::order(const Entry& entry, SessionOrder order) {
  if (threads_.empty()) {
    pool_.follow(std::move(order));
  } else {
    threads_[entry.thread].io->order(std::move(order));
  }
}

void Listener::send(SessionId session, const ServerMessage& message, bool has_more) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second.is_closing) {
    return;
  }
  SessionOrder what;
  what.session = session;
  const Status status = make_frame(message, limits_.session, found->second.gauge.get(), pool_.frames(), &what.frame);
  if (status == Status::kOutOfMemory) {
    what.kind = SessionOrder::Kind::kOverload;
    found->second.is_closing = true;
  } else if (status != Status::kOk) {
    log_event("message_not_encoded"_event, Fields().add("session", session).add("body", uint64_t{message.which_body}));
    return;
  }
  what.frame.has_more = has_more;
  const bool is_sent = what.kind == SessionOrder::Kind::kSend;
  order(found->second, std::move(what));
  if (const auto sent = sessions_.find(session); is_sent && sent != sessions_.end()) {
    note_rest(session, sent->second, message);
  }
}

// Whoever was late with its update had a place and nothing of it. It keeps that once, so that it is among the first in
// the next round. The session notes the same, by what it has sent and received: it is the one that decides.
void Listener::note_rest(SessionId session, Entry& entry, const ServerMessage& message) {
  end_rest(entry);
  if (!is_rest(message) || entry.is_leaving) {
    return;
  }
  const bool is_late =
      message.which_body == gs_ServerMessage_ack_tag && message.body.ack.reason == gs_Reason_REASON_TOO_STALE;
  entry.was_late = is_late && !entry.was_late;
  if (entry.was_late) {
    return;
  }
  entry.rest = next_rest_++;
  entry.retry = message.which_body == gs_ServerMessage_ack_tag ? message.body.ack.retry : message.body.wait.retry;
  if (entry.rest_node.empty()) {
    resting_[entry.rest] = session;
  } else {
    entry.rest_node.key() = entry.rest;
    resting_.insert(resting_.end(), std::move(entry.rest_node));
  }
  offer_places();
}

void Listener::end_rest(Entry& entry) {
  if (entry.rest != 0) {
    entry.rest_node = resting_.extract(std::exchange(entry.rest, 0));
  }
}

void Listener::close(SessionId session, gs_Reason reason) {
  if (const auto found = sessions_.find(session); found != sessions_.end()) {
    found->second.is_closing = true;
    order(found->second, {SessionOrder::Kind::kClose, reason, session});
  }
}

void Listener::answer_claim(SessionId session, const ClaimVerdict& verdict) {
  if (const auto found = sessions_.find(session); found != sessions_.end()) {
    found->second.is_closing = true;
    SessionOrder what;
    what.kind = SessionOrder::Kind::kAnswerClaim;
    what.session = session;
    what.verdict = verdict;
    order(found->second, std::move(what));
  }
}

void Listener::send_key_change(SessionId session, const KeyChange& change) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second.is_closing) {
    return;
  }
  SessionOrder what;
  what.session = session;
  if (make_key_frame(change, limits_.session, found->second.gauge.get(), pool_.frames(), &what.frame) == Status::kOk) {
    order(found->second, std::move(what));
  }
}

void Listener::admit(SessionId session, TlsFault refusal, uint32_t device) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) {
    return;
  }
  SessionOrder what;
  what.kind = SessionOrder::Kind::kAdmit;
  what.session = session;
  what.device = device;
  what.refusal = refusal;
  order(found->second, std::move(what));
}

void Listener::flush() {
  if (is_in_reports_) {
    return;
  }
  if (threads_.empty()) {
    pool_.flush();
  }
  for (const Thread& thread : threads_) {
    thread.io->deliver(pool_.frames());
  }
}

void Listener::offer_places() {
  if (lobby_.waiting_count() > 0) {
    tend_soon();
  }
}

void Listener::close_accepting() {
  ErrorCode ignored;
  acceptor_.close(ignored);
  pause_.retry.cancel();
  signatures_.retry.cancel();
  ages_.timer.cancel();
  lobby_.clear();
}

void Listener::drain(const gs_RetryWindow& retry) {
  close_accepting();
  if (threads_.empty()) {
    pool_.drain(retry);
  }
  for (const Thread& thread : threads_) {
    thread.io->drain(retry);
  }
  flush();
}

void Listener::abort_all() {
  pool_.abort_all();
  for (const Thread& thread : threads_) {
    thread.io->stop();
  }
}

void Listener::add_thread_counters(ShellCounters* total) const {
  for (const Thread& thread : threads_) {
    add_counters(thread.io->counters(), total);
  }
}

uint64_t Listener::beaten_ms(uint64_t now_ms) {
  uint64_t oldest_ms = now_ms;
  for (const Thread& thread : threads_) {
    oldest_ms = std::min(oldest_ms, thread.io->beaten_ms());
    thread.io->beat();
  }
  return oldest_ms;
}

// ---- From the lobby ------------------------------------------------------------------------------------------------

Standing Listener::standing_of(std::string_view identity, std::unique_ptr<KnownPsk>* known) const {
  if (!lookup_) {
    return Standing::kNobody;
  }
  *known = std::make_unique<KnownPsk>();
  KnownPsk& found = **known;
  found.identity = identity;
  found.is_known = lookup_(identity, &found.entry);
  return !found.is_known || found.entry.refusal != PskRefusal::kNone ? Standing::kNobody
         : found.entry.claim != 0                                    ? Standing::kClaim
                                                                     : Standing::kDevice;
}

void Listener::tend_soon() {
  if (is_tending_ || !acceptor_.is_open()) {
    return;
  }
  is_tending_ = true;
  asio::post(io_, [this] {
    is_tending_ = false;
    tend_now();
  });
}

void Listener::tend_now() {
  tend();
  flush();
  if (pause_.is_on && acceptor_.is_open() && !is_out_of_descriptors()) {
    pause_.is_on = false;
    pause_.retry.cancel();
    accept();
  }
}

// Begins the sessions that there are places for: devices first, and of one standing who came first.
void Listener::tend() {
  for (const Standing standing : {Standing::kDevice, Standing::kClaim, Standing::kNobody}) {
    while (const Guest* const guest = lobby_.first(standing)) {
      if (!make_room_for_connection(*guest)) {
        return;
      }
      if (!make_room_for_handshake(*guest)) {
        break;
      }
      begin_session(lobby_.take(guest->id));
    }
  }
}

void Listener::begin_session(Guest guest) {
  Entry& entry = sessions_[guest.id];
  entry.gauge = std::make_shared<QueueGauge>(0);
  half_open_[guest.id] = {address_key(guest.arrival.peer.address()), guest.standing};
  if (threads_.empty()) {
    pool_.begin(guest.id, std::move(guest.socket), std::move(guest.arrival), entry.gauge);
    return;
  }
  const auto least = std::min_element(threads_.begin(), threads_.end(), [](const Thread& a, const Thread& b) {
    return a.session_count < b.session_count;
  });
  entry.thread = static_cast<uint16_t>(least - threads_.begin());
  ++least->session_count;
  least->io->begin(guest.id, std::move(guest.socket), std::move(guest.arrival), entry.gauge);
}

// A place is free once its session's end has been reported. Whoever was ordered out frees one soon: no more are sent
// away than guests wait.
bool Listener::make_room_for_connection(const Guest& guest) {
  while (sessions_.size() >= session_count_max(limits_) && leaving_count_ < lobby_.waiting_count(guest.standing)) {
    if (!closing_.empty()) {
      evict(*closing_.begin());
    } else if (const SessionId victim = find_half_open(guest.standing, true); victim != 0) {
      evict(victim);
    } else if (const SessionId silent =
                   guest.standing == Standing::kDevice && replaced_claim_ == 0 ? silent_claims_.take_oldest() : 0;
               silent != 0) {
      replaced_claim_ = silent;
      replace(silent);
    } else if (replaced_claim_ == 0 && may_displace(guest) && has_resting()) {
      yield(resting_.begin()->second);
    } else {
      break;
    }
  }
  return sessions_.size() < session_count_max(limits_);
}

// Whether a device waits and owes nothing. Where none does, one whose Pull is held is answered and then does.
bool Listener::has_resting() {
  if (resting_.empty()) {
    owner_.on_place_wanted();
  }
  return !resting_.empty();
}

// The oldest handshake of the address that has most, among those of the least standing. It has no better standing than
// the guest or, if is_less, a lesser one. 0: there is none.
SessionId Listener::find_half_open(Standing standing, bool is_less) const {
  for (const Standing least : {Standing::kNobody, Standing::kClaim, Standing::kDevice}) {
    if (least > standing || (is_less && least == standing)) {
      return 0;
    }
    std::map<AddressKey, size_t> counts;
    for (const auto& [id, half_open] : half_open_) {
      counts[half_open.address] += half_open.standing == least ? 1 : 0;
    }
    SessionId victim = 0;
    size_t most = 0;
    for (const auto& [id, half_open] : half_open_) {  // of addresses with as many, the one that came first
      if (half_open.standing == least && counts[half_open.address] > most) {
        most = counts[half_open.address];
        victim = id;
      }
    }
    if (victim != 0) {
      return victim;
    }
  }
  return 0;
}

void Listener::evict(SessionId session) {
  half_open_.erase(session);
  closing_.erase(session);
  sessions_.at(session).is_leaving = true;
  ++leaving_count_;
  order(sessions_.at(session), {SessionOrder::Kind::kEvict, gs_Reason_REASON_NONE, session});
}

// Whether a device that waits is sent away for this guest. One that can prove nothing could send away all of them.
bool Listener::may_displace(const Guest& guest) const {
  return guest.standing != Standing::kNobody || (takes_certificates_ && guest.wants_signature);
}

bool Listener::may_sign_for(const Guest& guest) {
  if (!takes_certificates_ || !guest.wants_signature || signatures_.meter.admit(limits_.signatures, steady_ms())) {
    return true;
  }
  if (signatures_.held_guest != guest.id) {
    signatures_.held_guest = guest.id;
    ++counters_.arrivals.signatures_over_rate;
    log_cap("signatures_over_rate"_event, counters_.arrivals.signatures_over_rate, &logged_ms_.signature_rate,
            {"signatures a second", limits_.signatures.per_second,
             "find who opens connections without a key; devices with a certificate come in one after the other"});
  }
  signatures_.retry.expires_after(std::chrono::milliseconds(1000 / limits_.signatures.per_second));
  signatures_.retry.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) {
      tend_now();
    }
  });
  return false;
}

// Or one key could take a core by handshakes alone.
bool Listener::may_shake_hands(SessionId session, uint32_t device) {
  if (device_handshakes_.size() <= device) {
    device_handshakes_.resize(device + 1);
  }
  if (device_handshakes_[device].admit(limits_.device_handshakes, steady_ms())) {
    return true;
  }
  ++counters_.arrivals.handshakes_over_rate;
  if (is_log_due(&logged_ms_.handshake_rate)) {
    log_event("handshakes_over_rate"_event, Fields()
                                                .add("session", session)
                                                .add("device_number", uint64_t{device})
                                                .add("count", counters_.arrivals.handshakes_over_rate)
                                                .add("per_second_max", uint64_t{limits_.device_handshakes.per_second}));
  }
  close(session, gs_Reason_REASON_RATE_LIMIT);
  return false;
}

void Listener::forget_replaced_claim(SessionId session) {
  if (replaced_claim_ == session) {
    replaced_claim_ = 0;
    tend_soon();
  }
}

void Listener::yield(SessionId session) {
  Entry& entry = sessions_.at(session);
  end_rest(entry);
  entry.is_leaving = true;
  ++leaving_count_;
  ++counters_.arrivals.places_yielded;
  SessionOrder what;
  what.kind = SessionOrder::Kind::kYield;
  what.session = session;
  what.retry = entry.retry;
  order(entry, std::move(what));
}

// One that closes does not mind.
void Listener::renew_session(SessionId session) {
  ++counters_.arrivals.sessions_renewed;
  SessionOrder what;
  what.kind = SessionOrder::Kind::kRenew;
  what.session = session;
  what.retry = {limits_.session.refusal_retry_min_ms, limits_.session.refusal_retry_max_ms};
  order(sessions_.at(session), std::move(what));
}

void Listener::renew_old() {
  const uint64_t now_ms = steady_ms();
  for (SessionId session = ages_.due.take_due(now_ms); session != 0; session = ages_.due.take_due(now_ms)) {
    renew_session(session);
  }
  flush();
  arm_renewal();
}

// Looks at every session: a rotation is a command and a write to the disk, so few come in a second.
void Listener::renew(uint32_t device) {
  std::vector<SessionId> sessions;
  for (const auto& [session, entry] : sessions_) {
    if (!entry.half_open && entry.claim == 0 && entry.device == device) {
      sessions.push_back(session);
    }
  }
  for (const SessionId session : sessions) {
    if (const auto found = sessions_.find(session); found != sessions_.end()) {  // the end of one may end another
      ages_.due.remove(session, found->second.renewal_ms);
      renew_session(session);
    }
  }
  flush();
}

// Moved only when the next one is due before the time that it is set to: sessions come and go.
void Listener::arm_renewal() {
  const uint64_t due_ms = ages_.due.next_due_ms();
  if (due_ms == UINT64_MAX || !acceptor_.is_open() || (ages_.timer_ms != 0 && ages_.timer_ms <= due_ms)) {
    return;
  }
  const uint64_t now_ms = steady_ms();
  ages_.timer_ms = due_ms;
  ages_.timer.expires_after(std::chrono::milliseconds(due_ms > now_ms ? due_ms - now_ms : 0));
  ages_.timer.async_wait([this](const ErrorCode& error) {
    if (!error) {
      ages_.timer_ms = 0;
      renew_old();
    }
  });
}

// What its thread had of it when the order came was not what this thread knew.
void Listener::stay(Entry& entry) {
  if (entry.is_leaving) {
    entry.is_leaving = false;
    --leaving_count_;
    tend_soon();
  }
}

bool Listener::make_room_for_handshake(const Guest& guest) {
  const bool has_place = half_open_.size() < limits_.handshake_count_max;
  const SessionId victim = has_place ? 0 : find_half_open(guest.standing, false);
  if ((!has_place && victim == 0) || !may_sign_for(guest)) {
    return false;
  }
  if (has_place) {
    return true;
  }
  note_handshake_over_cap(handshake_cap());
  evict(victim);
  return true;
}

// ---- Sessions' reports ---------------------------------------------------------------------------------------------

void Listener::on_reports(std::vector<SessionReport>& reports) {
  is_in_reports_ = true;
  for (const SessionReport& report : reports) {
    switch (report.kind) {
      case SessionReport::Kind::kEstablished:
        on_session_established(report.session, report.device, report.claim);
        break;
      case SessionReport::Kind::kUnregistered:
        on_session_unregistered(report.session, report.name);
        break;
      case SessionReport::Kind::kMessage:
        on_session_message(report.session, report.device, report.message);
        break;
      case SessionReport::Kind::kClaim:
        on_session_claim(report.session, report.claim, **report.request);
        break;
      case SessionReport::Kind::kKeyChange:
        on_session_key_change(report.session, report.device, *report.key_change);
        break;
      case SessionReport::Kind::kStays:
        on_session_stays(report.session, report.is_uploading);
        break;
      case SessionReport::Kind::kClosing:
        on_session_closing(report.session);
        break;
      case SessionReport::Kind::kEnded:
        on_session_ended(report.session);
        break;
    }
  }
  is_in_reports_ = false;
  flush();
}

void Listener::on_session_established(SessionId session, uint32_t device, uint32_t claim) {
  Entry& entry = sessions_.at(session);
  entry.half_open = false;
  half_open_.erase(session);
  tend_soon();
  stay(entry);
  entry.renewal_ms = ages_.due.add(session, steady_ms());
  arm_renewal();
  if (claim == 0) {
    entry.device = device;
    if (may_shake_hands(session, device)) {
      replace_silent(session, device);
    }
  } else {
    entry.claim = claim;
    if (const SessionId oldest = silent_claims_.add(claim, session); oldest != 0) {
      replace(oldest);
    }
  }
  owner_.on_session_established(session, device, claim);
}

// Or one device could take all connections.
void Listener::replace_silent(SessionId session, uint32_t device) {
  const auto [known, is_only] = silent_.try_emplace(device, session);
  if (is_only) {
    return;
  }
  replace(std::exchange(known->second, session));
}

void Listener::replace(SessionId session) {
  order(sessions_.at(session), {SessionOrder::Kind::kReplace, gs_Reason_REASON_NONE, session});
}

void Listener::on_session_unregistered(SessionId session, const std::string& name) {
  owner_.on_session_unregistered(session, name);
}

void Listener::on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) {
  Entry& entry = sessions_.at(session);
  if (entry.is_closing) {
    return;
  }
  if (ends_rest(message)) {
    end_rest(entry);
    stay(entry);
  }
  if (const auto silent = silent_.find(device); silent != silent_.end() && silent->second == session) {
    silent_.erase(silent);
  }
  owner_.on_session_message(session, device, message);
}

void Listener::on_session_claim(SessionId session, uint32_t claim, const ClaimRequest& request) {
  silent_claims_.remove(claim, session);
  forget_replaced_claim(session);
  if (!sessions_.at(session).is_closing) {
    owner_.on_session_claim(session, claim, request);
  }
}

void Listener::on_session_key_change(SessionId session, uint32_t device, const KeyChange& change) {
  if (!sessions_.at(session).is_closing) {
    owner_.on_session_key_change(session, device, change);
  }
}

// Nobody waits for its place any more: another one that rests gives its own.
void Listener::on_session_stays(SessionId session, bool is_uploading) {
  Entry& entry = sessions_.at(session);
  stay(entry);
  if (is_uploading && !std::exchange(entry.is_stay_told, true)) {
    log_event("place_kept"_event,
              Fields()
                  .add("session", session)
                  .add("device_number", uint64_t{entry.device})
                  .add("most_ms", uint64_t{limits_.session.session_idle_max_ms})
                  .add("remedy",
                       "none needed: it sends an update, and gives its place after the Ack; an update that stalls ends "
                       "the session within most_ms (server.limits.session_idle_max_ms)"));
  }
}

void Listener::on_session_closing(SessionId session) {
  Entry& entry = sessions_.at(session);
  forget_replaced_claim(session);
  end_rest(entry);
  half_open_.erase(session);
  silent_claims_.remove(entry.claim, session);
  if (!entry.is_leaving) {
    closing_.insert(session);
  }
  tend_soon();
}

void Listener::on_session_ended(SessionId session) {
  const auto found = sessions_.find(session);
  Entry entry = std::move(found->second);
  forget_replaced_claim(session);
  end_rest(entry);
  ages_.due.remove(session, entry.renewal_ms);
  sessions_.erase(found);
  closing_.erase(session);
  silent_claims_.remove(entry.claim, session);
  leaving_count_ -= entry.is_leaving ? 1 : 0;
  if (!threads_.empty()) {
    --threads_[entry.thread].session_count;
  }
  const auto silent = silent_.find(entry.device);
  if (silent != silent_.end() && silent->second == session) {
    silent_.erase(silent);
  }
  tend_soon();
  if (entry.half_open) {
    half_open_.erase(session);
  } else {
    owner_.on_session_ended(session);
  }
}

}  // namespace gradstream
