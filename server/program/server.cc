#include "server/program/server.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include <mbedtls/platform_util.h>
#include <psa/crypto.h>

#include "server/base/listen_address.h"
#include "server/base/notify.h"
#include "server/base/ports.h"
#include "server/program/model_export.h"
#include "server/rules/record.h"
#include "server/run/pace.h"

namespace gradstream {

namespace {

// How often a change of the fleet by another process is looked for: one row, from the page cache.
constexpr auto kFleetPoll = std::chrono::milliseconds(250);

uint64_t milliseconds_of(std::chrono::nanoseconds duration) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

// A device that is brought up to date gets a whole snapshot, a whole Log, or both at once: the queue must hold them,
// however large the model and however many versions it missed. Both sizes count whole frames, of 52 bytes at least:
// with kQueuedFrameOverhead for each they stay below two and a half times as much.
ListenerLimits limits_for(const Config& config) {
  ListenerLimits limits = config.server.listener;
  const auto tensor_count = 1 + static_cast<uint64_t>(std::popcount(config.run.model_parts()));
  const uint64_t snapshot = snapshot_size(config.run.shape, config.run.has_mean()) * tensor_count;
  const uint64_t log = config.run.log_size_max == 0 ? snapshot : config.run.log_size_max;
  const uint64_t least = std::min<uint64_t>((snapshot + log) * 5 / 2 + 65536, 1ULL << 31);
  limits.session.queue_size_max = std::max(limits.session.queue_size_max, static_cast<uint32_t>(least));
  return limits;
}

const char* cause_of(StoreStatus status) {
  switch (status) {
    case StoreStatus::kFull:
      return "the disk is full";
    case StoreStatus::kBusy:
      return "another program holds the database";
    case StoreStatus::kCorrupt:
      return "the database is damaged";
    default:
      return "the disk failed";
  }
}

}  // namespace

Server::Server(asio::io_context& io, const Config& config, const RunRow& run, Parts parts,
               std::unique_ptr<Coordinator> coordinator, std::vector<EnrolledDevice> devices, WatchBoard* board)
    : io_(io),
      config_(config),
      run_(run),
      parts_(std::move(parts)),
      coordinator_(std::move(coordinator)),
      devices_(std::move(devices)),
      tls_(lookup_in(parts_.fleet), config.server.allow_psk_ke, credential_board()),
      listener_(io, tls_, limits_for(config), counters_, *this),
      tick_(io),
      fleet_poll_(io),
      drain_timer_(io),
      watch_timer_(io),
      board_(board),
      watched_parameters_(std::make_shared<RunParameters>(config.run)) {
  epoch_offset_ms_ = milliseconds_of(std::chrono::system_clock::now().time_since_epoch()) - steady_ms();
  coordinator_->set_limits({config_.server.device_messages});
  for (const RoundSummary& round : coordinator_->replayed_rounds()) {
    rounds_.push_back({round, 0, 0});
  }
}

Server::~Server() {
  executing_ = true;  // sessions that end now have nobody to tell
  listener_.close_accepting();
  listener_.abort_all();
  for (SteadyTimer* const timer : {&tick_, &fleet_poll_, &drain_timer_, &watch_timer_}) {
    timer->cancel();
  }
  if (store_) {
    store_->stop();  // what it reports comes into this loop too
  }
  // The cancelled handlers hold TLS streams, which must end before the TLS context that they share.
  io_.restart();
  io_.poll();
}

uint64_t Server::now_ms() const { return epoch_offset_ms_ + steady_ms(); }

ShellCounters Server::counters() const {
  ShellCounters total = counters_;
  listener_.add_thread_counters(&total);
  return total;
}

// With io_threads = 1 this thread serves the sessions. With more, that many further threads serve them, and each of
// these opens its own database connection.
std::string Server::start_tls() {
  const uint32_t count = config_.server.io_threads;
  std::vector<PskLookup> lookups;
  SqliteOptions options;
  options.path = config_.server.database;
  options.may_create = false;
  for (uint32_t i = 0; count > 1 && i < count; ++i) {
    SqliteDatabase& fleet = *thread_fleets_.emplace_back(std::make_unique<SqliteDatabase>());
    if (fleet.open(options) != StoreStatus::kOk) {
      return "server.limits.io_threads: a thread cannot look devices up: " + fleet.error();
    }
    lookups.push_back(lookup_in(fleet));
  }
  if (credential_board() != nullptr) {
    if (std::string problem = reload_credentials(); !problem.empty()) {
      return problem;
    }
  }
  const Status status =
      count == 1 ? tls_.start()
                 : listener_.start_threads(std::move(lookups), config_.server.allow_psk_ke, credential_board());
  return status == Status::kOk
             ? ""
             : "TLS cannot start: no random bytes from the operating system, or no memory; check /dev/urandom";
}

const CredentialBoard* Server::credential_board() const {
  return config_.server.credentials.is_set() ? &credentials_ : nullptr;
}

std::string Server::reload_credentials() { return credentials_.load(config_.server.credentials); }

std::string Server::start() {
  std::string problem = start_tls();
  if (!problem.empty()) {
    return problem;
  }
  Tcp::endpoint endpoint;
  parse_listen_address(config_.server.listen, &endpoint);  // load_config() has checked it
  problem = listener_.open(endpoint);
  if (!problem.empty()) {
    return problem;
  }
  store_.emplace(io_, parts_.journal, config_.server.store, make_reports());
  log_event(LogLevel::kInfo, "listening",
            Fields()
                .add("version", GS_VERSION)
                .add("address", endpoint.address().to_string())
                .add("port", uint64_t{port()})
                .add("run", uint64_t{run_.id})
                .add("name", run_.name)
                .add_hex("parameters", run_.digest)
                .add("devices", uint64_t{devices_.size()})
                .add("database", absolute_path(config_.server.database)));
  for (const EnrolledDevice& device : devices_) {
    if (!device.is_active()) {
      exclude(device);
    }
  }
  coordinator_->start(now_ms());
  execute();
  poll_fleet();  // a stop may have been asked for while no server ran
  watch();
  return {};
}

// ---- Sessions ------------------------------------------------------------------------------------------------------

// What follows runs in the middle of a handshake, on the thread of its session.
PskLookup Server::lookup_in(SqliteDatabase& fleet) {
  return [this, &fleet](std::string_view identity, PskEntry* out) { return find_psk(fleet, identity, out); };
}

bool Server::find_claim_psk(SqliteDatabase& fleet, std::string_view identity, PskEntry* out) {
  std::optional<ClaimRow> row;
  if (fleet.find_claim(std::string(identity.substr(1)), &row) != StoreStatus::kOk) {
    fleet_unreadable(fleet);
  }
  if (!row) {
    return false;
  }
  out->key = row->key;
  mbedtls_platform_zeroize(row->key.data(), row->key.size());
  out->device = kNoDevice;
  out->claim = row->id;
  out->refusal = now_ms() < row->expires_ms ? PskRefusal::kNone : PskRefusal::kClaimEnded;
  return true;
}

bool Server::find_psk(SqliteDatabase& fleet, std::string_view identity, PskEntry* out) {
  if (is_claim_identity(identity)) {
    return find_claim_psk(fleet, identity, out);
  }
  std::optional<EnrolledDevice> row;
  std::string name(identity);
  uint32_t generation = 0;
  StoreStatus status = fleet.find_device(name, &row);
  if (status == StoreStatus::kOk && !row && split_identity(identity, &name, &generation)) {
    status = fleet.find_device(name, &row);
  }
  if (status != StoreStatus::kOk) {
    fleet_unreadable(fleet);
  }
  if (!row || generation > row->generation) {
    return false;
  }
  const bool is_previous = generation + 1 == row->generation && now_ms() < row->previous_until_ms;
  out->key = is_previous ? row->previous_key : row->key;
  mbedtls_platform_zeroize(row->key.data(), row->key.size());
  mbedtls_platform_zeroize(row->previous_key.data(), row->previous_key.size());
  out->device = row->index;
  out->refusal = row->state == DeviceState::kRevoked            ? PskRefusal::kRevoked
                 : !row->is_active()                            ? PskRefusal::kInactive
                 : generation == row->generation || is_previous ? PskRefusal::kNone
                                                                : PskRefusal::kExpired;
  return true;
}

void Server::on_session_established(SessionId, uint32_t device, uint32_t claim) {
  if (claim == 0 && device >= devices_.size()) {
    refresh_fleet();  // enrolled since the last poll
  }
}

// On this thread, which waits for the disk: it happens once in a device's life, and registrations_ bounds how often.
void Server::on_session_unregistered(SessionId session, const std::string& name) {
  uint32_t device = kNoDevice;
  const TlsFault refusal = register_device(name, &device);
  listener_.admit(session, refusal, device);
}

// kNone: it is *device, and active.
TlsFault Server::register_device(const std::string& name, uint32_t* device) {
  const bool is_pending = config_.server.device_registration == "pending";
  if (config_.server.device_registration == "off") {
    return TlsFault::kUnknownIdentity;
  }
  if (devices_.size() >= config_.server.registration_device_count_max ||
      !registrations_.admit(config_.server.registrations, now_ms())) {
    return TlsFault::kRegistrationLimit;
  }
  PskKey key = {};  // which no file holds; `device rotate` makes one that counts
  std::optional<uint32_t> index;
  StoreStatus status =
      psa_generate_random(key.data(), key.size()) == PSA_SUCCESS ? StoreStatus::kOk : StoreStatus::kFailed;
  if (status == StoreStatus::kOk) {
    status =
        parts_.fleet.add_device(name, key, now_ms(), &index, is_pending ? DeviceState::kPending : DeviceState::kActive);
  }
  mbedtls_platform_zeroize(key.data(), key.size());
  if (status == StoreStatus::kOk && index) {
    ++counters_.devices_registered;
    log_event(LogLevel::kInfo, "device_registered",
              Fields()
                  .add("device", name)
                  .add("index", uint64_t{*index})
                  .add("state", is_pending ? "pending" : "active")
                  .add("remedy", is_pending ? "gradstream device enable lets it in" : "none needed"));
    refresh_fleet();
    *device = *index;
    return is_pending ? TlsFault::kInactive : TlsFault::kNone;
  }
  PskEntry entry;  // another session or program has enrolled it meanwhile
  if (status != StoreStatus::kOk || !find_psk(parts_.fleet, name, &entry)) {
    return TlsFault::kRegistrationFailed;
  }
  mbedtls_platform_zeroize(entry.key.data(), entry.key.size());
  *device = entry.device;
  return entry.refusal == PskRefusal::kRevoked    ? TlsFault::kRevoked
         : entry.refusal == PskRefusal::kInactive ? TlsFault::kInactive
                                                  : TlsFault::kNone;
}

void Server::on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) {
  if (device >= devices_.size()) {
    listener_.close(session, gs_Reason_REASON_UNKNOWN_RUN);
    return;
  }
  coordinator_->on_message(session, device, message, now_ms());
  execute();
}

// On this thread, which waits for the disk: it happens once in a device's life.
void Server::on_session_claim(SessionId session, uint32_t claim, const Identity& identity) {
  ClaimOutcome outcome = ClaimOutcome::kEnded;
  const StoreStatus status = parts_.fleet.claim_device(claim, identity.name, identity.key, now_ms(), &outcome);
  const gs_Reason reason = status != StoreStatus::kOk            ? gs_Reason_REASON_STORAGE
                           : outcome == ClaimOutcome::kNameTaken ? gs_Reason_REASON_CLAIM_USED
                           : outcome == ClaimOutcome::kEnded     ? gs_Reason_REASON_CLAIM_ENDED
                                                                 : gs_Reason_REASON_NONE;
  const bool is_granted = reason == gs_Reason_REASON_NONE;
  ++(is_granted ? counters_.claims_granted : counters_.claims_refused);
  if (is_granted && outcome == ClaimOutcome::kGranted) {
    log_event(LogLevel::kInfo, "claim_granted", Fields().add("device", identity.name).add("claim", uint64_t{claim}));
  } else if (!is_granted && claim_lines_.admit(kFaultLines, now_ms())) {
    log_event(LogLevel::kWarn, "claim_refused",
              Fields()
                  .add("device", identity.name)
                  .add("claim", uint64_t{claim})
                  .add("reason", reason_name(reason))
                  .add("remedy", reason == gs_Reason_REASON_CLAIM_USED
                                     ? "give the device another name, or a file of its own: gradstream device rotate"
                                     : "see gradstream claim list; gradstream claim add makes another one"));
  }
  listener_.answer_claim(session, reason);
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
    case ActionKind::kPublish:
      publish(action.version);
      break;
    case ActionKind::kLog:
      log_event(action.level, action.event, Fields().add_pairs(action.text));
      break;
  }
}

void Server::publish(uint32_t version) {
  const Replica& model = coordinator_->model();
  if (!model.has_model() || model.version() != version) {
    return;
  }
  const std::string& folder = config_.server.export_dir;
  if (folder.empty()) {
    log_event(LogLevel::kInfo, "version", Fields().add("version", uint64_t{version}).add_hex("digest", model.digest()));
    return;
  }
  const std::span<const Real> values(model.model(), model.shape().size());
  const std::string path = folder + "/" + version_file_name(run_.id, version);
  export_model(version, model.digest(), path, npy_bytes(model.shape(), values), "");
  const ModelAverage& average = coordinator_->average();
  if (average.count() > 0 && average.last_version() == version) {
    const uint64_t digest = digest_values(kDigestStart, values.size(), average.model().data());
    export_model(version, digest, average_file_name(path), npy_bytes(model.shape(), average.model()), average.text());
  }
}

// average: what it is the average of; empty: the model.
void Server::export_model(uint32_t version, uint64_t digest, const std::string& path, std::vector<uint8_t> npy,
                          const std::string& average) {
  store_->run_after([version, digest, path, bytes = std::move(npy), average] {
    const std::string problem = write_file_atomically(path, bytes);
    if (problem.empty()) {
      Fields line;
      line.add("version", uint64_t{version}).add_hex("digest", digest).add("file", path);
      log_event(LogLevel::kInfo, "version", average.empty() ? line : line.add("average", average));
    } else {
      log_event(LogLevel::kError, "export_failed", Fields().add("version", uint64_t{version}).add("cause", problem));
    }
  });
}

// What `run list` and `run start` read.
void Server::mark_run_state() {
  const gs_RunState run_state = coordinator_->run_state();
  const StoredRunState state = run_state == gs_RunState_RUN_STATE_FINISHED  ? StoredRunState::kFinished
                               : run_state == gs_RunState_RUN_STATE_STOPPED ? StoredRunState::kStopped
                               : run_state == gs_RunState_RUN_STATE_PAUSED  ? StoredRunState::kPaused
                                                                            : StoredRunState::kActive;
  if (state == marked_state_) {
    return;
  }
  marked_state_ = state;
  if (is_over()) {
    log_counters();
  }
  store_->run_after([mark = parts_.mark_run_state, state] { mark(state); });  // once the record of it is durable
}

bool Server::is_over() const {
  return marked_state_ == StoredRunState::kFinished || marked_state_ == StoredRunState::kStopped;
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

// ---- Storage -------------------------------------------------------------------------------------------------------

StoreThread::Reports Server::make_reports() {
  StoreThread::Reports reports;
  reports.on_persisted = [this](uint64_t sequence) {
    coordinator_->on_persisted(sequence, now_ms());
    execute();
  };
  reports.on_failed = [this](StoreStatus status) { on_store_failed(status); };
  reports.on_recovered = [this] {
    log_event(LogLevel::kInfo, "store_recovered", Fields().add("database", config_.server.database));
    coordinator_->on_storage_recovered(now_ms());
    execute();
  };
  return reports;
}

void Server::on_store_failed(StoreStatus status) {
  ++counters_.store_failures;
  log_event(LogLevel::kError, "store_failed",
            Fields()
                .add("database", config_.server.database)
                .add("cause", cause_of(status))
                .add("retry_ms", uint64_t{config_.server.store.retry_ms})
                .add("remedy", status == StoreStatus::kCorrupt
                                   ? "stop the server and restore the database from a copy"
                                   : "free space or repair the disk; the server tries again by itself"));
  coordinator_->on_storage_failed(now_ms());
  execute();
}

// ---- The fleet -----------------------------------------------------------------------------------------------------

void Server::poll_fleet() {
  uint64_t count = 0;
  if (parts_.fleet.change_count(&count) != StoreStatus::kOk) {
    fleet_unreadable(parts_.fleet);
  } else if (count == change_count_ || refresh_fleet()) {
    change_count_ = count;  // only now: what could not be read is looked for again
    is_fleet_unreadable_ = false;
  }
  fleet_poll_.expires_after(kFleetPoll);
  fleet_poll_.async_wait([this](const ErrorCode& error) {
    if (!error) {
      poll_fleet();
    }
  });
}

// Logged once until it can be read again. Returns false.
bool Server::fleet_unreadable(const SqliteDatabase& fleet) {
  if (!is_fleet_unreadable_.exchange(true)) {
    log_event(LogLevel::kError, "fleet_unreadable", Fields().add("cause", fleet.error()));
  }
  return false;
}

void Server::exclude(const EnrolledDevice& device) {
  if (device.state == DeviceState::kRevoked) {
    coordinator_->on_device_revoked(device.index, now_ms());
  } else {
    coordinator_->on_device_disabled(device.index, now_ms());
  }
}

// What `device add` and `device revoke` have changed, and the runs. False when it could not be read.
bool Server::refresh_fleet() {
  std::vector<EnrolledDevice> rows;
  if (parts_.fleet.devices(&rows) != StoreStatus::kOk) {
    return fleet_unreadable(parts_.fleet);
  }
  for (EnrolledDevice& row : rows) {
    const bool is_new = row.index >= devices_.size();
    if (is_new) {
      log_event(LogLevel::kInfo, "device_added", Fields().add("device", row.name).add("index", uint64_t{row.index}));
      coordinator_->on_device_added(row.name, now_ms());
    }
    const bool is_changed = !is_new && row.state != devices_[row.index].state;
    if (is_changed) {
      log_event(LogLevel::kInfo, "device_state",
                Fields().add("device", row.name).add("state", device_state_text(row.state)));
    }
    if ((is_new || is_changed) && !row.is_active()) {
      exclude(row);
    } else if (is_changed) {
      coordinator_->on_device_restored(row.index, now_ms());
    }
  }
  devices_ = std::move(rows);
  const bool has_runs = refresh_runs();
  execute();
  return has_runs;
}

void Server::follow_wish(StoredRunState wish) {
  switch (wish) {
    case StoredRunState::kStopRequested:
    case StoredRunState::kStopped:
      log_event(LogLevel::kInfo, "stop_requested", Fields().add("run", uint64_t{run_.id}));
      coordinator_->stop(now_ms());
      break;
    case StoredRunState::kPauseRequested:
    case StoredRunState::kPaused:
      coordinator_->pause(now_ms());
      break;
    case StoredRunState::kResumeRequested:
    case StoredRunState::kActive:
      coordinator_->resume(now_ms());
      break;
    case StoredRunState::kFinished:
      break;
  }
}

// What the verbs of `run` have changed.
bool Server::refresh_runs() {
  std::optional<RunRow> run;
  std::optional<RunRow> current;
  if (parts_.fleet.find_run(run_.id, &run) != StoreStatus::kOk ||
      parts_.fleet.current_run(&current) != StoreStatus::kOk) {
    return fleet_unreadable(parts_.fleet);
  }
  if (run && !is_over()) {
    follow_wish(run->state);
  }
  // Only once the end or the pause is durable: the next server of this run must find it so.
  const bool is_idle = is_over() || marked_state_ == StoredRunState::kPaused;
  if (current && current->id != run_.id && is_active(current->state) && is_idle && !draining_) {
    next_run_ = current->id;
    log_event(LogLevel::kInfo, "next_run", Fields().add("run", uint64_t{next_run_}).add("served", uint64_t{run_.id}));
    drain();
  }
  return true;
}

void Server::reload() {
  if (!draining_) {
    refresh_fleet();
  }
}

// ---- The end -------------------------------------------------------------------------------------------------------

void Server::drain() {
  if (draining_) {
    return;
  }
  draining_ = true;
  log_event(LogLevel::kInfo, "draining", Fields().add("sessions", uint64_t{listener_.connection_count()}));
  const SessionLimits& session = config_.server.listener.session;
  const gs_RetryWindow paced = coordinator_->retry_window();
  listener_.drain({session.refusal_retry_min_ms, std::max(session.refusal_retry_max_ms, paced.max_ms)});
  if (listener_.connection_count() == 0) {
    io_.stop();
    return;
  }
  drain_timer_.expires_after(std::chrono::milliseconds(config_.server.drain_deadline_ms));
  drain_timer_.async_wait([this](const ErrorCode& error) {
    if (!error) {
      log_event(LogLevel::kWarn, "deadline",
                Fields()
                    .add("limit", "drain_deadline_ms")
                    .add("sessions", uint64_t{listener_.connection_count()})
                    .add("remedy", "none needed: these devices dial again"));
      io_.stop();
    }
  });
}

bool Server::finish() {
  const bool complete = !store_ || store_->stop();
  if (!complete) {
    log_event(LogLevel::kError, "records_not_stored",
              Fields()
                  .add("database", config_.server.database)
                  .add("remedy", "none of them was acknowledged: their devices send them again"));
  }
  log_counters();
  log_event(LogLevel::kInfo, "stopped", Fields().add("version", uint64_t{coordinator_->durable_version()}));
  return complete;
}

void Server::log_counters() {
  Fields fields;
  visit_counters(counters(), coordinator_->counters(),
                 [&](const char* key, const char*, uint64_t value) { fields.add(key, value); });
  log_event(LogLevel::kInfo, "counters", fields);
}

// Every kWatchPeriodMs: notify the service manager, and publish a snapshot, so that HTTP readers never block this
// thread. If a thread with sessions has stopped, neither happens, so that the manager and /healthz see a server that
// hangs.
void Server::watch() {
  if (!has_stalled_thread()) {
    notify_manager("READY=1\nWATCHDOG=1");
    if (board_ != nullptr) {
      publish_snapshot();
    }
  }
  watch_timer_.expires_after(std::chrono::milliseconds(kWatchPeriodMs));
  watch_timer_.async_wait([this](const ErrorCode& error) {
    if (!error) {
      watch();
    }
  });
}

bool Server::has_stalled_thread() {
  const uint64_t now = steady_ms();
  const uint64_t silent_ms = now - listener_.beaten_ms(now);
  if (silent_ms <= kWatchStaleMs) {
    return false;
  }
  if (is_log_due(&stall_logged_ms_)) {
    log_event(
        LogLevel::kError, "io_thread_stalled",
        Fields()
            .add("silent_ms", silent_ms)
            .add("remedy", "restart the server, as a service manager's watchdog does, and report it with its log"));
  }
  return true;
}

void Server::publish_snapshot() {
  const auto snapshot = std::make_shared<WatchSnapshot>();
  snapshot->taken_ms = now_ms();
  snapshot->taken_steady_ms = steady_ms();
  static const uint64_t started_ms = snapshot->taken_ms;  // of the process, which may serve several runs
  snapshot->started_ms = started_ms;
  snapshot->run = run_.id;
  snapshot->run_name = run_.name;
  snapshot->run_state = coordinator_->run_state();
  const Replica& model = coordinator_->model();
  snapshot->has_version = model.has_model();
  if (model.has_model()) {
    snapshot->version = model.version();
    snapshot->digest = model.digest();
  }
  snapshot->round_count = config_.run.round_count;
  snapshot->parameters = watched_parameters_;
  snapshot->round = coordinator_->round_progress();
  snapshot->silent_after_ms = silent_after_ms();
  for (const EnrolledDevice& device : devices_) {
    ++(device.state == DeviceState::kPending    ? snapshot->devices_pending
       : device.state == DeviceState::kDisabled ? snapshot->devices_disabled
       : device.state == DeviceState::kRevoked  ? snapshot->devices_revoked
                                                : snapshot->devices_active);
  }
  snapshot->sessions = listener_.connection_count();
  snapshot->handshakes = listener_.handshake_count();
  snapshot->is_storage_failed = coordinator_->is_storage_failed();
  snapshot->is_draining = draining_;
  snapshot->shell = counters();
  snapshot->coordinator = coordinator_->counters();
  snapshot->rounds.assign(rounds_.begin(), rounds_.end());
  if (watched_devices_ == nullptr || snapshot->taken_steady_ms >= watch_devices_at_ms_) {
    const auto begin = std::chrono::steady_clock::now();
    watched_devices_ = std::make_shared<std::vector<DeviceStatus>>(coordinator_->device_statuses());
    watched_devices_ms_ = snapshot->taken_ms;
    const auto cost = (std::chrono::steady_clock::now() - begin) * kDeviceCopyShare;
    watch_devices_at_ms_ = snapshot->taken_steady_ms + milliseconds_of(cost);
  }
  snapshot->devices = watched_devices_;
  snapshot->devices_taken_ms = watched_devices_ms_;
  board_->publish(snapshot);
}

// Who has no task may stay away for the widest window, who has one for a round too.
uint64_t Server::silent_after_ms() const {
  const gs_RunState state = coordinator_->run_state();
  const bool is_idle = state == gs_RunState_RUN_STATE_PAUSED || state == gs_RunState_RUN_STATE_FINISHED ||
                       state == gs_RunState_RUN_STATE_STOPPED;
  const auto count = static_cast<uint32_t>(devices_.size());
  const gs_RetryWindow window = is_idle ? idle_window(config_.run, count) : refused_window(config_.run, count);
  return uint64_t{config_.run.report_deadline_ms} + window.max_ms;
}

// Before the next one may close.
void Server::note_round() {
  const RoundSummary& last = coordinator_->last_round();
  if (board_ == nullptr || last.version == 0 || (!rounds_.empty() && rounds_.back().summary.version == last.version)) {
    return;
  }
  const ShellCounters total = counters();
  rounds_.push_back({last, total.wire_bytes_received, total.wire_bytes_sent});
  if (rounds_.size() > kRoundHistoryMax) {
    rounds_.pop_front();
  }
}

}  // namespace gradstream
