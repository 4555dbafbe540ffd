#include "server/cluster/node_server.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "server/base/listen_address.h"
#include "server/base/log.h"
#include "server/base/notify.h"
#include "server/base/ports.h"
#include "server/program/commands.h"
#include "server/program/serve_parts.h"

namespace gradstream {

NodeServer::NodeServer(asio::io_context& io, const Config& config, const NodeRun& run, const PostgresOptions& engine,
                       NodeFleet& fleet, NodeBoard& board)
    : io_(io),
      config_(config),
      run_(run),
      node_(engine.node),
      feed_(run.name, config_.run, run.command_options),
      fleet_(fleet),
      board_(board),
      started_ms_(wall_clock_ms()),
      engine_(io, engine, [this] { go_on(); }),
      front_(run.identity, config_.run, fleet.device_count(), engine_),
      leader_(config_.run, fleet.device_count(), engine_),
      followed_fleet_(engine_, fleet),
      tls_(fleet.lookup(), config.server.tls, credential_board()),
      listener_(io, tls_, listener_limits(config), counters_, *this, fleet.lookup()),
      tick_(io),
      drain_timer_(io),
      watch_timer_(io) {}

NodeServer::~NodeServer() {
  is_going_on_ = true;  // sessions that end now have nobody to tell
  listener_.close_accepting();
  listener_.abort_all();
  for (SteadyTimer* const timer : {&tick_, &drain_timer_, &watch_timer_}) {
    timer->cancel();
  }
  // The cancelled handlers hold TLS streams, which must end before the TLS context that they share.
  io_.restart();
  io_.poll();
}

const CredentialBoard* NodeServer::credential_board() const {
  return config_.server.credentials.is_set() ? &credentials_ : nullptr;
}

Objection NodeServer::reload_credentials() { return credentials_.load(config_.server.credentials); }

Objection NodeServer::start_tls() {
  if (credential_board() != nullptr) {
    if (Objection problem = reload_credentials()) {
      return problem;
    }
  }
  const uint32_t count = config_.server.io_threads;
  const Status status = count == 1 ? tls_.start()
                                   : listener_.start_threads(std::vector<PskLookup>(count, fleet_.lookup()),
                                                             config_.server.tls, credential_board());
  return status == Status::kOk
             ? ""
             : "TLS cannot start: no random bytes from the operating system, or no memory; check /dev/urandom";
}

Objection NodeServer::start() {
  if (Objection problem = start_tls()) {
    return problem;
  }
  Tcp::endpoint endpoint;
  parse_listen_address(config_.server.listen, &endpoint);  // load_config() has checked it
  if (Objection problem = listener_.open(endpoint)) {
    return problem;
  }
  log_event("listening"_event, Fields()
                                   .add("version", GS_VERSION)
                                   .add("address", endpoint.address().to_string())
                                   .add("port", uint64_t{port()})
                                   .add("run", uint64_t{run_.identity.run})
                                   .add("name", run_.name)
                                   .add_hex("parameters", run_.identity.parameters_digest)
                                   .add("devices", uint64_t{fleet_.device_count()})
                                   .add("node", node_));
  front_.start(steady_ms());
  follow_fleet();
  leader_.on_tick(steady_ms());
  go_on();
  watch();
  return {};
}

// ---- Sessions ------------------------------------------------------------------------------------------------------

void NodeServer::on_session_established(SessionId session, uint32_t device, uint32_t) {
  device_of_.emplace(session, device);
}

// Only an enrolled device gets in by its certificate.
void NodeServer::on_session_unregistered(SessionId session, const std::string&) {
  listener_.admit(session, TlsFault::kUnknownIdentity, kNoDevice);
}

void NodeServer::on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) {
  front_.on_message(session, device, message, steady_ms());
  go_on();
}

// No handshake of a claim succeeds on a node.
void NodeServer::on_session_claim(SessionId session, uint32_t, const ClaimRequest&) {
  listener_.answer_claim(session, {gs_Reason_REASON_OVERLOADED});
}

void NodeServer::on_session_ended(SessionId session) {
  device_of_.erase(session);
  front_.on_session_closed(session);
  go_on();
}

// ---- The front, the leader and their engine ------------------------------------------------------------------------

// Executing an action may end a session, which makes more actions: they are taken by the outermost call, in order.
void NodeServer::go_on() {
  if (std::exchange(is_going_on_, true)) {
    return;
  }
  take_replies();
  for (const KeyEnd& end : followed_fleet_.take_ends()) {
    end_sessions(end);
  }
  for (std::vector<FrontAction> actions = front_.take_actions(); !actions.empty(); actions = front_.take_actions()) {
    for (const FrontAction& action : actions) {
      execute(action);
    }
    listener_.flush();
  }
  is_going_on_ = false;
  note_engine();
  note_changes();
  arm_tick();
  end_if_drained();
}

void NodeServer::execute(const FrontAction& action) {
  if (action.is_close) {
    listener_.close(action.session, action.reason);
  } else {
    listener_.send(action.session, action.message);
  }
}

void NodeServer::end_sessions(const KeyEnd& end) {
  if (end.reason == gs_Reason_REASON_NONE) {
    listener_.renew(end.device);
    return;
  }
  std::vector<SessionId> sessions;
  for (const auto& [session, device] : device_of_) {
    if (device == end.device) {
      sessions.push_back(session);
    }
  }
  for (const SessionId session : sessions) {  // the end of one changes the map
    listener_.close(session, end.reason);
  }
}

// Rounds do not wait for a device that may not come.
void NodeServer::follow_fleet() {
  told_.fleet_changes = fleet_.state_change_count();
  feed_.note_fleet(fleet_.counts());
  std::vector<gs_Reason> standings = fleet_.standings();
  if (standings != told_.standings) {
    told_.standings = standings;
    std::vector<bool> has_left;
    has_left.reserve(standings.size());
    for (const gs_Reason standing : standings) {
      has_left.push_back(standing != gs_Reason_REASON_NONE);
    }
    leader_.on_fleet(static_cast<uint32_t>(std::ranges::count(standings, gs_Reason_REASON_NONE)), std::move(has_left));
    front_.on_fleet(std::move(standings), steady_ms());
  }
}

void NodeServer::take_replies() {
  const uint64_t now_ms = steady_ms();
  if (std::exchange(told_.connections, engine_.connection_count()) != engine_.connection_count()) {
    followed_fleet_.on_connection();
  }
  for (const EngineReply& reply : engine_.take_replies()) {
    if (front_.on_reply(reply, now_ms)) {
      note_versions(reply.versions);
    } else if (!followed_fleet_.on_reply(reply, now_ms)) {
      leader_.on_reply(reply, now_ms);
    }
  }
  if (told_.fleet_changes != fleet_.state_change_count()) {
    follow_fleet();
  }
}

// Those before this node's start are one line.
void NodeServer::note_versions(const std::vector<PublishedVersion>& versions) {
  for (const PublishedVersion& one : versions) {
    VersionRecord record;
    const bool is_read = one.version > told_.version && one.version <= front_.run().version() &&
                         decode_published(config_.run, one, &record) == Status::kOk;
    if (is_read && told_.is_caught_up) {
      feed_.note_version(one, snapshot().shell, wall_clock_ms());
      log_event("version"_event, Fields().add("version", uint64_t{one.version}).add_hex("digest", record.digest));
    }
    told_.version = is_read ? one.version : told_.version;
  }
}

void NodeServer::note_engine() {
  const bool is_away = !engine_.is_connected();
  if (is_away == told_.is_away || (is_away && engine_.trouble().empty())) {
    return;
  }
  told_.is_away = is_away;
  show();
  if (is_away) {
    log_event("engine_away"_event, Fields().add("cause", engine_.trouble()));
  } else {
    log_event("engine_back"_event, Fields().add("connections", engine_.connection_count()));
  }
}

void NodeServer::note_changes() {
  if (leader_.is_leading() != told_.is_leading) {
    told_.is_leading = leader_.is_leading();
    const Fields fields = Fields()
                              .add("node", node_)
                              .add("version", uint64_t{leader_.run().version()})
                              .add("won", leader_.counters().terms);
    if (told_.is_leading) {
      log_event("leader_won"_event, fields);
    } else {
      log_event("leader_lost"_event, fields);
    }
  }
  if (!told_.is_caught_up && front_.is_serving()) {
    told_.is_caught_up = true;
    told_.version = front_.run().version();
    show();
    log_event("node_joined"_event, Fields()
                                       .add("node", node_)
                                       .add("version", uint64_t{told_.version})
                                       .add_hex("digest", front_.run().ledger().digest()));
  }
  if (front_.counters().fences > told_.fences && is_log_due(&told_.fenced_ms)) {
    told_.fences = front_.counters().fences;
    log_event("node_fenced"_event, Fields().add("node", node_).add("fences", told_.fences));
  }
  note_run();
  if (trouble() != NodeTrouble::kNone && told_.trouble == NodeTrouble::kNone) {
    told_.trouble = trouble();
    show();
    log_event("node_trouble"_event, Fields().add("node", node_).add("cause", sentence_of(told_.trouble)));
    listener_.drain(
        {config_.server.listener.session.refusal_retry_min_ms, config_.server.listener.session.refusal_retry_max_ms});
  }
}

// What it has come to, as devices hear it from here.
void NodeServer::note_run() {
  if (front_.run().is_done() && !std::exchange(told_.is_done, true)) {
    log_event("run_finished"_event,
              Fields().add("version", uint64_t{front_.run().version()}).add("cause", "round_count"));
  }
  if (std::exchange(told_.run_state, front_.run_state()) == front_.run_state()) {
    return;
  }
  const Fields version = Fields().add("version", uint64_t{front_.run().version()});
  switch (told_.run_state) {
    case EngineRunState::kActive:
      log_event("run_resumed"_event, version);
      return;
    case EngineRunState::kPaused:
      log_event("run_paused"_event, version);
      return;
    case EngineRunState::kStopped:
      log_event("run_stopped"_event, version);
      return;
  }
}

NodeTrouble NodeServer::trouble() const {
  for (const NodeTrouble one : {front_.trouble(), leader_.trouble()}) {
    if (one != NodeTrouble::kNone) {
      return one;
    }
  }
  return followed_fleet_.trouble();
}

void NodeServer::arm_tick() {
  const uint64_t next_ms = std::min({front_.next_tick_ms(), leader_.next_tick_ms(), followed_fleet_.next_tick_ms()});
  if (next_ms == tick_ms_) {
    return;
  }
  tick_ms_ = next_ms;
  if (next_ms == UINT64_MAX) {
    tick_.cancel();
    return;
  }
  const uint64_t now_ms = steady_ms();
  // A tick that stays due would spin: at least a millisecond between two.
  tick_.expires_after(std::chrono::milliseconds(next_ms > now_ms ? next_ms - now_ms : 1));
  tick_.async_wait([this](const ErrorCode& error) {
    if (!error) {
      tick_ms_ = UINT64_MAX;
      front_.on_tick(steady_ms());
      leader_.on_tick(steady_ms());
      followed_fleet_.on_tick(steady_ms());
      go_on();
    }
  });
}

// ---- The end -------------------------------------------------------------------------------------------------------

void NodeServer::drain() {
  if (std::exchange(is_draining_, true)) {
    return;
  }
  log_event("draining"_event, Fields().add("sessions", uint64_t{listener_.connection_count()}));
  front_.drain();
  leader_.drain(steady_ms());
  listener_.drain(front_.drain_window());
  drain_timer_.expires_after(std::chrono::milliseconds(config_.server.drain_deadline_ms));
  drain_timer_.async_wait([this](const ErrorCode& error) {
    if (!error) {
      log_event("deadline"_event, Fields()
                                      .add("limit", "drain_deadline_ms")
                                      .add("sessions", uint64_t{listener_.connection_count()})
                                      .add("remedy", "none needed: these devices dial again"));
      io_.stop();
    }
  });
  go_on();
}

// Once the lease is given back: another node leads at once.
void NodeServer::end_if_drained() {
  if (is_draining_ && listener_.connection_count() == 0 && front_.is_drained() && leader_.is_drained()) {
    io_.stop();
  }
}

bool NodeServer::finish() {
  Fields fields;
  visit_node_counters(snapshot(), [&](const char* key, const char*, uint64_t value) { fields.add(key, value); });
  log_event("counters"_event, fields);
  log_event("stopped"_event, Fields().add("version", uint64_t{front_.run().version()}));
  return trouble() == NodeTrouble::kNone;
}

// ---- What others see -----------------------------------------------------------------------------------------------

std::string NodeServer::why_not_ready() const {
  if (trouble() != NodeTrouble::kNone) {
    return sentence_of(trouble());
  }
  if (is_draining_) {
    return "draining";
  }
  if (!engine_.is_connected()) {
    return "without a connection to the engine" + (engine_.trouble().empty() ? "" : ": " + engine_.trouble());
  }
  return told_.is_caught_up ? "" : "the node has not joined the run yet";
}

NodeSnapshot NodeServer::snapshot() const {
  NodeSnapshot now;
  now.node = node_;
  now.release = GS_VERSION;
  now.taken_steady_ms = steady_ms();
  now.started_ms = started_ms_;
  now.not_ready = why_not_ready();
  now.run = run_.identity.run;
  now.run_state = front_.heard_state();
  now.version = front_.run().version();
  now.devices = fleet_.device_count();
  now.sessions = listener_.connection_count() + listener_.lobby_count();
  now.handshakes = listener_.handshake_count() + listener_.lobby_count();
  now.is_draining = is_draining_;
  now.is_leading = leader_.is_leading();
  now.is_connected = engine_.is_connected();
  now.engine_trouble = engine_.trouble();
  now.is_in_trouble = trouble() != NodeTrouble::kNone;
  now.connection_count = engine_.connection_count();
  now.shell = counters_;
  listener_.add_thread_counters(&now.shell);
  now.front = front_.counters();
  now.leader = leader_.counters();
  return now;
}

// Before the log tells of it: who reads the line finds it so.
void NodeServer::show() {
  NodeSnapshot now = snapshot();
  now.run_view = feed_.view(front_.run(), now, wall_clock_ms());
  board_.publish(std::make_shared<const NodeSnapshot>(std::move(now)));
}

// Every kWatchPeriodMs: notify the service manager, and publish a snapshot. If a thread with sessions has stopped,
// neither happens, so that the manager and /healthz see a node that hangs.
void NodeServer::watch() {
  if (!has_stalled_thread()) {
    notify_manager("READY=1\nWATCHDOG=1");
    show();
  }
  watch_timer_.expires_after(std::chrono::milliseconds(kWatchPeriodMs));
  watch_timer_.async_wait([this](const ErrorCode& error) {
    if (!error) {
      watch();
    }
  });
}

bool NodeServer::has_stalled_thread() {
  const uint64_t now_ms = steady_ms();
  const uint64_t silent_ms = now_ms - listener_.beaten_ms(now_ms);
  if (silent_ms <= kWatchStaleMs) {
    return false;
  }
  if (is_log_due(&stall_logged_ms_)) {
    log_event("io_thread_stalled"_event, Fields().add("silent_ms", silent_ms));
  }
  return true;
}

}  // namespace gradstream
