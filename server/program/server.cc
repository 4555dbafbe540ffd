#include "server/program/server.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <sys/statvfs.h>

#include "server/base/listen_address.h"
#include "server/base/notify.h"
#include "server/program/past_runs.h"
#include "server/program/serve_parts.h"
#include "server/run/pace.h"
#include "server/run/pace_keys.h"
#include "server/run/run_core.h"

namespace gradstream {

namespace {

uint64_t epoch_ms() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count());
}

// A clock that was set back, or that starts late after a power cut, goes on from the latest time that the fleet has
// seen.
uint64_t first_ms(SqliteDatabase& fleet) {
  constexpr uint64_t kCorrectionMaxMs = 60000;  // a time service corrects a clock by less, and nobody needs to know
  const uint64_t clock_ms = epoch_ms();
  uint64_t now_ms = clock_ms;
  if (fleet.note_time(&now_ms) != StoreStatus::kOk) {
    log_event("time_not_stored"_event, Fields().add("cause", fleet.error()));
  }
  if (now_ms > clock_ms + kCorrectionMaxMs) {
    log_event("clock_behind"_event, Fields().add("clock_ms", clock_ms).add("latest_ms", now_ms));
  }
  return now_ms;
}

// What one device may cost. A held Pull is answered long before its session would be idle for too long.
CoordinatorLimits coordinator_limits_for(const ServerConfig& server) {
  return {server.device_messages, std::min(server.pull_hold_ms, server.listener.session.session_idle_max_ms / 2)};
}

}  // namespace

Server::Server(asio::io_context& io, const Config& config, const RunRow& run, Parts parts,
               std::unique_ptr<Coordinator> coordinator, std::vector<EnrolledDevice> devices, WatchBoard* board)
    : io_(io),
      epoch_offset_ms_(first_ms(parts.fleet) - steady_ms()),
      looked_ms_(clock_ms()),
      config_(config),
      run_(run),
      parts_(std::move(parts)),
      coordinator_(std::move(coordinator)),
      keyring_(config_.server, parts_.fleet, fleet_alarm_, [this] { return clock_ms(); }),
      key_changer_(parts_.fleet, fleet_alarm_, [this] { return clock_ms(); }),
      follower_(io, {parts_.fleet, fleet_alarm_, *coordinator_, run_.id, [this] { return now_ms(); }},
                std::move(devices),
                {[this] { on_told(); }, [this](uint32_t next) { make_room_for(next); },
                 [this](uint32_t device) { listener_.renew(device); }}),
      publisher_(config_.server.export_dir, run_.id),
      tls_(keyring_.lookup(), config.server.tls, credential_board()),
      listener_(io, tls_, listener_limits(config), counters_, *this, keyring_.lookup()),
      tick_(io),
      drain_timer_(io),
      watch_timer_(io) {
  coordinator_->set_limits(coordinator_limits_for(config_.server));
  if (board != nullptr) {
    watch_feed_.emplace(*board, *coordinator_, run_, config_.run);
  }
}

Server::~Server() {
  executing_ = true;  // sessions that end now have nobody to tell
  listener_.close_accepting();
  listener_.abort_all();
  follower_.cancel();
  for (SteadyTimer* const timer : {&tick_, &drain_timer_, &watch_timer_}) {
    timer->cancel();
  }
  if (store_) {
    keeper_->end();
    store_->stop();  // what it reports comes into this loop too
  }
  // The cancelled handlers hold TLS streams, which must end before the TLS context that they share.
  io_.restart();
  io_.poll();
}

ShellCounters Server::counters() const {
  ShellCounters total = counters_;
  listener_.add_thread_counters(&total);
  return total;
}

// With io_threads = 1 this thread serves the sessions. With more, that many further threads serve them, and each of
// these opens its own database connection.
Objection Server::start_tls() {
  const uint32_t count = config_.server.io_threads;
  std::vector<PskLookup> lookups;
  if (count > 1) {
    if (Objection problem = keyring_.open_lookups(count, &lookups)) {
      return problem;
    }
  }
  if (credential_board() != nullptr) {
    if (Objection problem = reload_credentials()) {
      return problem;
    }
  }
  const Status status =
      count == 1 ? tls_.start() : listener_.start_threads(std::move(lookups), config_.server.tls, credential_board());
  return status == Status::kOk
             ? ""
             : "TLS cannot start: no random bytes from the operating system, or no memory; check /dev/urandom";
}

Objection Server::start_heads() {
  const ServerConfig& server = config_.server;
  if (server.head_key.empty()) {
    return {};
  }
  heads_.emplace(io_, *store_, head_log_path(server.database), [this] { return parts_.read_head(clock_ms()); });
  return heads_->begin(server.head_key, server.head_period_s);
}

const CredentialBoard* Server::credential_board() const {
  return config_.server.credentials.is_set() ? &credentials_ : nullptr;
}

Objection Server::reload_credentials() { return credentials_.load(config_.server.credentials); }

Objection Server::start() {
  Objection problem = start_tls();
  if (problem) {
    return problem;
  }
  Tcp::endpoint endpoint;
  parse_listen_address(config_.server.listen, &endpoint);  // load_config() has checked it
  problem = listener_.open(endpoint);
  if (problem) {
    return problem;
  }
  ChainHead chain;
  if (parts_.journal.read_chain_end(&chain) == StoreStatus::kOk) {  // else the store says so when it appends
    coordinator_->note_chain(chain);
  }
  store_.emplace(io_, parts_.journal, config_.server.store, make_reports());
  JournalKeep keep;
  parse_journal_keep(config_.server.journal_keep, &keep);  // load_config() has checked it
  keeper_.emplace(run_.id, keep, parts_.journal, *store_);
  coordinator_->set_checkpoints(checkpoint_update_count(config_.run, keep));
  problem = start_heads();
  if (problem) {
    return problem;
  }
  log_event("listening"_event, Fields()
                                   .add("version", GS_VERSION)
                                   .add("address", endpoint.address().to_string())
                                   .add("port", uint64_t{port()})
                                   .add("run", uint64_t{run_.id})
                                   .add("name", run_.name)
                                   .add_hex("parameters", run_.digest)
                                   .add("devices", uint64_t{follower_.devices().size()})
                                   .add("database", absolute_path(config_.server.database)));
  follower_.exclude_inactive();
  coordinator_->start(now_ms());
  execute();
  read_past_runs();
  follower_.poll();  // a stop may have been asked for while no server ran
  watch();
  return {};
}

// ---- Sessions ------------------------------------------------------------------------------------------------------

void Server::on_session_established(SessionId, uint32_t device, uint32_t claim) {
  if (claim == 0 && device >= follower_.devices().size()) {
    follower_.refresh();  // enrolled since the last poll
  }
}

void Server::on_session_unregistered(SessionId session, const std::string& name) {
  const Keyring::Registration registration = keyring_.register_device(name, follower_.devices().size());
  if (registration.is_new) {
    ++counters_.certificates.devices_registered;
    follower_.refresh();
  }
  listener_.admit(session, registration.refusal, registration.device);
}

void Server::on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) {
  if (device >= follower_.devices().size()) {
    listener_.close(session, gs_Reason_REASON_UNKNOWN_RUN);
    return;
  }
  coordinator_->on_message(session, device, message, now_ms());
  execute();
  if (message.which_body == gs_DeviceMessage_hello_tag) {
    ask_for_key(session, device, message.body.hello);
  }
}

// Behind the Welcome. What the device does not answer it is asked in its next session.
void Server::ask_for_key(SessionId session, uint32_t device, const gs_Hello& hello) {
  const EnrolledDevice& known = follower_.devices()[device];
  if (known.key_change_since_ms == 0) {
    return;
  }
  const bool is_able = (hello.capabilities.features & 1U << static_cast<uint32_t>(gs_Feature_FEATURE_KEY_CHANGE)) != 0;
  if (const std::optional<KeyChange> ask = key_changer_.find(known, is_able)) {
    listener_.send_key_change(session, *ask);
    listener_.flush();
  }
}

void Server::on_session_key_change(SessionId session, uint32_t device, const KeyChange& change) {
  if (device >= follower_.devices().size()) {
    return;
  }
  const KeyChanger::Ruling ruling = key_changer_.judge(follower_.devices()[device].name, change);
  if (!ruling.answer) {
    return;
  }
  ++(ruling.is_changed ? counters_.keys_changed : counters_.key_changes_refused);
  listener_.send_key_change(session, *ruling.answer);
  listener_.flush();
}

void Server::on_session_claim(SessionId session, uint32_t claim, const ClaimRequest& request) {
  const ClaimVerdict verdict = keyring_.grant_claim(claim, request);
  ++(verdict.reason == gs_Reason_REASON_NONE ? counters_.claims_granted : counters_.claims_refused);
  listener_.answer_claim(session, verdict);
}

void Server::on_place_wanted() {
  coordinator_->end_longest_hold(now_ms());
  execute();
}

void Server::on_session_ended(SessionId session) {
  coordinator_->on_session_closed(session, now_ms());
  execute();
  if (draining_ && listener_.connection_count() == 0) {
    io_.stop();
  }
}

// ---- Actions -------------------------------------------------------------------------------------------------------

// Executing an action may end a session, which makes more actions: they are taken by the outermost call, in order.
void Server::execute() {
  if (executing_) {
    return;
  }
  executing_ = true;
  std::vector<Action> actions = coordinator_->take_actions(std::move(used_actions_));
  for (; !actions.empty(); actions = coordinator_->take_actions(std::move(actions))) {
    for (Action& action : actions) {
      execute(action);
    }
    listener_.flush();
  }
  used_actions_ = std::move(actions);
  executing_ = false;
  if (coordinator_->round_progress().held > 0) {
    listener_.offer_places();
  }
  note_round();
  mark_run_state();
  arm_tick();
}

void Server::execute(Action& action) {
  switch (action.kind) {
    case ActionKind::kSend:
      listener_.send(action.session, action.message, action.has_more);
      break;
    case ActionKind::kClose:
      listener_.close(action.session, action.reason);
      break;
    case ActionKind::kPersist:
      store_->append(std::move(action.record));
      break;
    case ActionKind::kCheckpoint:
      keeper_->take(std::move(action.checkpoint));
      break;
    case ActionKind::kCompareMark:
      compare_mark(action.device, action.mark);
      break;
    case ActionKind::kPublish:
      publisher_.publish(action.version, coordinator_->digest(), coordinator_->model(), coordinator_->average(),
                         *store_);
      break;
    case ActionKind::kLog:
      log_pairs(*action.event, action.text);
      break;
  }
}

// The store's thread reads the journal, behind all that was stored before.
void Server::compare_mark(uint32_t device, const JournalMark& mark) {
  store_->run_after([this, device, mark] {
    asio::post(io_, [this, device, mark, finding = find_mark(parts_.journal, mark)] {
      coordinator_->on_mark_compared(device, mark, finding, now_ms());
      execute();
    });
  });
}

// Before the next one may close.
void Server::note_round() {
  if (watch_feed_ && watch_feed_->has_new_round()) {
    watch_feed_->note_round(counters());
  }
}

void Server::on_told() {
  execute();
  read_past_runs();
}

// For people: where the database does not say, they see what it said before.
void Server::read_past_runs() {
  if (!watch_feed_) {
    return;
  }
  const Expected<std::vector<RunRow>> rows = parts_.fleet.runs();
  std::vector<PastRun> runs;
  if (rows.is_ok() &&
      gradstream::read_past_runs(parts_.fleet, *rows, run_.id, watch_feed_->past_runs(), &runs) == StoreStatus::kOk) {
    watch_feed_->set_past_runs(std::move(runs));
  }
}

// What `run list` and `run start` read.
void Server::mark_run_state() {
  const std::optional<StoredRunState> state = follower_.take_run_state();
  if (!state) {
    return;
  }
  if (follower_.is_over()) {
    log_counters();
  }
  // Once the record of it is durable.
  store_->run_after([mark = parts_.mark_run_state, state = *state] { mark(state); });
}

void Server::arm_tick() {
  const uint64_t next_ms = coordinator_->next_tick_ms();
  if (next_ms == tick_ms_) {
    return;
  }
  tick_ms_ = next_ms;
  if (next_ms == UINT64_MAX) {
    tick_.cancel();
    return;
  }
  const uint64_t now = now_ms();
  // A tick that stays due would spin: at least a millisecond between two.
  tick_.expires_after(std::chrono::milliseconds(next_ms > now ? next_ms - now : 1));
  tick_.async_wait([this](const ErrorCode& error) {
    if (!error) {
      tick_ms_ = UINT64_MAX;
      coordinator_->on_tick(now_ms());
      execute();
    }
  });
}

uint64_t Server::now_ms() {
  const uint64_t now = clock_ms();
  const uint64_t gap_ms = now - std::exchange(looked_ms_, now);
  if (gap_ms > FleetFollower::kPeriodMs + kStandstillMs) {
    coordinator_->postpone(gap_ms);
  }
  return now;
}

// ---- Storage -------------------------------------------------------------------------------------------------------

StoreThread::Reports Server::make_reports() {
  StoreThread::Reports reports;
  reports.on_persisted = [this](uint64_t sequence, const ChainHead& chain) {
    if (chain.sequence != 0) {
      coordinator_->note_chain(chain);
    }
    coordinator_->on_persisted(sequence, now_ms());
    execute();
  };
  reports.on_failed = [this](StoreStatus status) { on_store_failed(status); };
  reports.on_recovered = [this] {
    log_event("store_recovered"_event, Fields().add("database", config_.server.database));
    coordinator_->on_storage_recovered(now_ms());
    execute();
  };
  return reports;
}

void Server::on_store_failed(StoreStatus status) {
  ++counters_.store_failures;
  log_event("store_failed"_event,
            Fields()
                .add("database", config_.server.database)
                .add("cause", cause_of(status))
                .add("retry_ms", uint64_t{config_.server.store.retry_ms})
                .add("remedy", status == StoreStatus::kCorrupt ? "stop the server and restore the database from a copy"
                               : status == StoreStatus::kMoved
                                   ? "see the line database_moved, which says what to do"
                                   : "free space or repair the disk; the server tries again by itself"));
  coordinator_->on_storage_failed(now_ms());
  execute();
}

// ---- The end -------------------------------------------------------------------------------------------------------

// A drain that was begun for another reason stays one.
void Server::make_room_for(uint32_t run) {
  if (draining_) {
    return;
  }
  next_run_ = run;
  log_event("next_run"_event, Fields().add("run", uint64_t{next_run_}).add("served", uint64_t{run_.id}));
  drain();
}

uint32_t Server::active_count() const {
  const std::vector<EnrolledDevice>& devices = follower_.devices();
  return static_cast<uint32_t>(
      std::count_if(devices.begin(), devices.end(), [](const EnrolledDevice& device) { return device.is_active(); }));
}

void Server::reload() {
  if (!draining_) {
    follower_.refresh();
  }
}

void Server::drain() {
  if (draining_) {
    return;
  }
  draining_ = true;
  log_event("draining"_event, Fields().add("sessions", uint64_t{listener_.connection_count()}));
  coordinator_->drain(now_ms());
  execute();
  const SessionLimits& session = config_.server.listener.session;
  const gs_RetryWindow paced = coordinator_->retry_window();
  listener_.drain(next_run_ != 0 ? handover_window(*config_.run.pace, active_count())
                                 : gs_RetryWindow{session.refusal_retry_min_ms,
                                                  std::max(session.refusal_retry_max_ms, paced.max_ms)});
  if (listener_.connection_count() == 0) {
    io_.stop();
    return;
  }
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
}

bool Server::finish() {
  follower_.note_time();
  if (keeper_) {
    keeper_->end();
  }
  if (heads_) {
    heads_->end();
  }
  const bool complete = !store_ || store_->stop();
  if (!complete) {
    log_event("records_not_stored"_event, Fields().add("database", config_.server.database));
  }
  log_counters();
  log_event("stopped"_event, Fields().add("version", uint64_t{coordinator_->durable_version()}));
  return complete;
}

void Server::log_counters() {
  Fields fields;
  visit_counters(counters(), coordinator_->counters(),
                 [&](const char* key, const char*, uint64_t value) { fields.add(key, value); });
  log_event("counters"_event, fields);
}

// Every kWatchPeriodMs: notify the service manager, and publish a snapshot, so that HTTP readers never block this
// thread. If a thread with sessions has stopped, neither happens, so that the manager and /healthz see a server that
// hangs.
void Server::watch() {
  if (!has_stalled_thread()) {
    notify_manager("READY=1\nWATCHDOG=1");
    if (watch_feed_) {
      const size_t lobby_count = listener_.lobby_count();
      const WatchedShell shell = {listener_.connection_count() + lobby_count, listener_.handshake_count() + lobby_count,
                                  draining_, counters(), place()};
      watch_feed_->publish(clock_ms(), follower_.devices(), shell);
    }
  }
  watch_timer_.expires_after(std::chrono::milliseconds(kWatchPeriodMs));
  watch_timer_.async_wait([this](const ErrorCode& error) {
    if (!error) {
      watch();
    }
  });
}

WatchedPlace Server::place() const {
  WatchedPlace place;
  place.database_fault = follower_.file_fault();
  struct statvfs disk = {};
  if (::statvfs(config_.server.database.c_str(), &disk) == 0) {
    place.disk_free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
    place.disk_size_bytes = uint64_t{disk.f_blocks} * disk.f_frsize;
  }
  place.places = session_count_max(config_.server.listener);
  const uint64_t now_ms = epoch_ms();
  place.clock_behind_ms = clock_ms() - std::min(clock_ms(), now_ms);
  const CertificateEnd end = credentials_.end();
  place.certificate = end.path;
  place.certificate_ends_ms = end.time_ms;
  return place;
}

bool Server::has_stalled_thread() {
  const uint64_t now = steady_ms();
  const uint64_t silent_ms = now - listener_.beaten_ms(now);
  if (silent_ms <= kWatchStaleMs) {
    return false;
  }
  if (is_log_due(&stall_logged_ms_)) {
    log_event("io_thread_stalled"_event, Fields().add("silent_ms", silent_ms));
  }
  return true;
}

}  // namespace gradstream
