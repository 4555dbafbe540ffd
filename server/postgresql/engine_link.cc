#include "server/postgresql/engine_link.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include <libpq-fe.h>

#include "runtime/base/status.h"
#include "server/postgresql/engine_address.h"
#include "server/postgresql/engine_calls.h"

namespace gradstream {
namespace {

// Shares of the deadline. A statement that waits for another one's rows gives up first, then any statement, and then
// the node itself: so an answer is there before its call is given up. An address of several servers has a quarter for
// its connection. libpq itself never leaves a server that takes the connection and then says nothing.
constexpr uint32_t kLockShare = 2;
constexpr uint32_t kSilenceShare = 4;
constexpr uint32_t kKeepaliveCount = 3;  // without an answer, until the server ends the session of a node that is gone

// What a session runs with, whatever the role's or the database's defaults are; behind what the server says of itself.
constexpr char kSettings[] =
    ", pg_conf_load_time(), "
    "set_config('lock_timeout', $1::text, false), set_config('statement_timeout', $2::text, false), "
    "set_config('idle_in_transaction_session_timeout', $2::text, false), "
    "set_config('tcp_keepalives_idle', $3::text, false), set_config('tcp_keepalives_interval', $3::text, false), "
    "set_config('tcp_keepalives_count', $4::text, false), set_config('tcp_user_timeout', $5::text, false), "
    "set_config('synchronous_commit', 'on', false), set_config('client_min_messages', 'warning', false), "
    "set_config('default_transaction_isolation', 'read committed', false)";
constexpr char kClusterFacts[] =
    "SELECT schema_version, incarnation, EXISTS (SELECT FROM gradstream.run WHERE run = $1::bigint) "
    "FROM gradstream.cluster";
// PostgreSQL tells a session of new settings before it ends any wait for their sake. The session reads them before the
// next message, so that a guard sees what ended the wait.
constexpr EngineStatement kGuardStatement = {
    "guard", "SELECT current_setting('synchronous_standby_names'), pg_conf_load_time()", false};
constexpr uint32_t kFactsCheck = 0;
constexpr uint32_t kClusterCheck = 1;

std::string field_of(const PGresult* result, int field) {
  const char* text = PQresultErrorField(result, field);
  return text == nullptr ? "" : text;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Whether the server has ended the session with the error.
bool is_fatal(const PGresult* result) {
  const std::string severity = field_of(result, PG_DIAG_SEVERITY_NONLOCALIZED);
  return severity != "ERROR";
}

bool send_query(PGconn* connection, const char* query, const PgParameters& parameters) {
  return PQsendQueryParams(connection, query, parameters.count(), nullptr, parameters.pointers().data(),
                           parameters.sizes().data(), parameters.formats().data(), 1) == 1 &&
         PQpipelineSync(connection) == 1;
}

bool send_prepared(PGconn* connection, const char* statement, const PgParameters& parameters) {
  return PQsendQueryPrepared(connection, statement, parameters.count(), parameters.pointers().data(),
                             parameters.sizes().data(), parameters.formats().data(), 1) == 1 &&
         PQpipelineSync(connection) == 1;
}

bool send_prepare(PGconn* connection, const EngineStatement& statement) {
  return PQsendPrepare(connection, statement.name, statement.text, 0, nullptr) == 1 && PQpipelineSync(connection) == 1;
}

// Calls carry keys of devices: a server that is reached without TLS gets none, as no verb sends it any.
Objection check_way(PGconn* connection, const std::string& address) {
  const std::string server = PQhostaddr(connection);  // empty: a socket of this machine
  return check_secrecy(PQsslInUse(connection) != 0, server.empty() ? server : server + ":" + PQport(connection),
                       address);
}

}  // namespace

EngineLink::EngineLink(asio::io_context& io, const PostgresOptions& options, LinkOwner& owner)
    : descriptor_(io), timer_(io), options_(options), owner_(owner) {}

EngineLink::~EngineLink() { close(); }

// ---- Connection ----

void EngineLink::open() {
  GS_ASSERT(!is_open());
  life_ = std::make_shared<bool>(true);
  state_ = State::kConnecting;
  const std::string silence_ms = std::to_string(options_.deadline_ms / kSilenceShare);
  const std::string name = "gradstream " + options_.node;
  const ServerLists servers = servers_of(options_.server, first_server_);
  // What stands behind dbname replaces what the address has; an empty value replaces nothing.
  const char* const keys[] = {"dbname",           "host", "hostaddr", "port", "application_name", "client_encoding",
                              "tcp_user_timeout", nullptr};
  const char* const values[] = {options_.server.c_str(),
                                servers.host.c_str(),
                                servers.host_address.c_str(),
                                servers.port.c_str(),
                                name.c_str(),
                                "UTF8",
                                silence_ms.c_str(),
                                nullptr};
  connection_ = PQconnectStartParams(keys, values, 1);
  give_time(servers.count > 1 ? options_.deadline_ms / kSilenceShare : options_.deadline_ms);
  // The owner is told later, never inside open().
  asio::post(descriptor_.get_executor(), [this, life = std::weak_ptr<bool>(life_)] {
    if (life.expired()) {
      return;
    }
    if (PQstatus(connection_) == CONNECTION_BAD) {
      lose(words());
      return;
    }
    PQsetNoticeReceiver(connection_, &EngineLink::on_notice, this);
    watch(true, &EngineLink::connect_further);
  });
}

// To the connection, or to its checks.
void EngineLink::give_time(uint32_t time_ms) {
  timer_.expires_after(std::chrono::milliseconds(time_ms));
  timer_.async_wait([this, time_ms, life = std::weak_ptr<bool>(life_)](ErrorCode error) {
    if (!error && !life.expired()) {
      ++first_server_;
      lose("the engine gave no connection in " + std::to_string(time_ms) + " ms");
    }
  });
}

// libpq may close the socket and take another one in each step, so it is released before.
void EngineLink::connect_further() {
  descriptor_.release();
  switch (PQconnectPoll(connection_)) {
    case PGRES_POLLING_READING:
      watch(false, &EngineLink::connect_further);
      break;
    case PGRES_POLLING_WRITING:
      watch(true, &EngineLink::connect_further);
      break;
    case PGRES_POLLING_OK:
      begin_checks();
      break;
    default:
      lose(words());
  }
}

void EngineLink::watch(bool for_write, void (EngineLink::*then)()) {
  ErrorCode error;
  if (!descriptor_.is_open()) {
    descriptor_.assign(PQsocket(connection_), error);
  }
  if (error) {
    lose("the engine's socket cannot be watched: " + error.message());
    return;
  }
  using Descriptor = asio::posix::stream_descriptor;
  descriptor_.async_wait(for_write ? Descriptor::wait_write : Descriptor::wait_read,
                         [this, then, life = std::weak_ptr<bool>(life_)](ErrorCode failure) {
                           if (!failure && !life.expired()) {
                             (this->*then)();
                           }
                         });
}

void EngineLink::close() {
  life_.reset();
  timer_.cancel();
  if (descriptor_.is_open()) {
    descriptor_.release();
  }
  PQclear(std::exchange(result_, nullptr));
  PQclear(std::exchange(guarded_, nullptr));
  PQfinish(std::exchange(connection_, nullptr));
  state_ = State::kClosed;
  is_write_watched_ = is_doubtful_ = false;
  under_way_.clear();
  check_ = 0;
}

void EngineLink::lose(const std::string& why) {
  if (!is_open()) {
    return;
  }
  close();
  owner_.on_link_lost(why);
}

std::string EngineLink::words() const {
  std::string words = PQerrorMessage(connection_);
  std::replace(words.begin(), words.end(), '\n', ' ');
  words.erase(words.find_last_not_of(' ') + 1);
  return words.empty() ? "the engine has ended the connection" : words;
}

// ---- Checks ----

void EngineLink::begin_checks() {
  if (const Objection exposed = check_way(connection_, options_.server)) {
    lose(exposed.sentence);
    return;
  }
  state_ = State::kChecking;
  give_time(options_.deadline_ms);
  facts_ = EngineFacts();
  PgParameters times;
  times.text(std::to_string(options_.deadline_ms / kLockShare));
  times.text(std::to_string(options_.deadline_ms / 4 * 3));
  times.text(std::to_string(std::max(options_.deadline_ms / kSilenceShare / 1'000, 1U)));  // PostgreSQL takes seconds
  times.text(std::to_string(kKeepaliveCount));
  times.text(std::to_string(options_.deadline_ms / kSilenceShare * kKeepaliveCount));
  PgParameters run;
  run.number(options_.run);
  bool is_sent = PQsetnonblocking(connection_, 1) == 0 && PQenterPipelineMode(connection_) == 1 &&
                 send_query(connection_, (kEngineFactsQuery + std::string(kSettings)).c_str(), times) &&
                 send_query(connection_, kClusterFacts, run) && send_prepare(connection_, kGuardStatement);
  for (const EngineStatement& one : engine_statements()) {
    is_sent = is_sent && send_prepare(connection_, one);
  }
  under_way_.assign(3 + engine_statements().size(), Request::kCheck);
  if (!is_sent) {
    lose(words());
    return;
  }
  watch(false, &EngineLink::on_readable);
  flush();
}

// The answers to begin_checks(), in its order.
void EngineLink::take_check(const PgAnswer& answer) {
  const uint32_t check = check_++;
  if (check == kClusterCheck && !facts_.has_schema) {
    // its error says the same
  } else if (answer.table == nullptr) {
    lose(sentence_of_error(answer.sql_state, answer.words));
    return;
  }
  if (check == kFactsCheck) {
    PgTable table(answer.table);
    facts_ = engine_facts_of(table);
    settings_time_ = table.number(0, kEngineFactsColumns);
  } else if (check == kClusterCheck) {
    if (facts_.has_schema) {
      PgTable table(answer.table);
      facts_.schema_version = table.number(0, 0);
      facts_.incarnation = table.text(0, 1);
      facts_.has_run = table.flag(0, 2);
    }
    const Objection objection = check_engine(facts_, {options_.durability, incarnation_, options_.run});
    if (objection) {
      lose(objection.sentence);
      return;
    }
    incarnation_ = facts_.incarnation;
  }
  if (under_way_.empty()) {
    state_ = State::kReady;
    timer_.cancel();
    owner_.on_link_ready();
  }
}

// ---- Requests ----

bool EngineLink::send(const EngineStatement& statement, const PgParameters& parameters) {
  GS_ASSERT(is_ready());
  const bool is_guarded = statement.has_to_wait && options_.durability == EngineDurability::kStandby;
  bool is_sent = send_prepared(connection_, statement.name, parameters);
  under_way_.push_back(is_guarded ? Request::kGuardedCall : Request::kCall);
  if (is_guarded) {
    is_sent = is_sent && send_prepared(connection_, kGuardStatement.name, PgParameters());
    under_way_.push_back(Request::kGuard);
  }
  if (!is_sent) {
    lose(words());
    return false;
  }
  const std::weak_ptr<bool> life = life_;
  flush();
  return !life.expired();
}

void EngineLink::flush() {
  const int left = PQflush(connection_);
  if (left < 0) {
    lose(words());
  } else if (left > 0 && !is_write_watched_) {
    is_write_watched_ = true;
    watch(true, &EngineLink::on_writable);
  }
}

void EngineLink::on_writable() {
  is_write_watched_ = false;
  flush();
}

void EngineLink::on_readable() {
  const std::weak_ptr<bool> life = life_;
  const bool is_alive = PQconsumeInput(connection_) == 1;
  read();
  if (life.expired()) {
    return;
  }
  if (!is_alive || PQstatus(connection_) == CONNECTION_BAD) {
    lose(words());
    return;
  }
  watch(false, &EngineLink::on_readable);
  flush();
}

// Takes what has come as a whole. libpq gives a request's result, then null, then the end of its transaction.
void EngineLink::read() {
  const std::weak_ptr<bool> life = life_;
  int null_count = 0;
  while (!life.expired() && !under_way_.empty() && null_count < 2 && PQisBusy(connection_) == 0) {
    PGresult* const result = PQgetResult(connection_);
    null_count = result == nullptr ? null_count + 1 : 0;
    if (result == nullptr) {
      continue;
    }
    if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
      PQclear(result);
      on_transaction_end();
    } else if (PQresultStatus(result) == PGRES_FATAL_ERROR && is_fatal(result)) {
      PQclear(result);
      lose(words());
    } else {
      PQclear(std::exchange(result_, result));
    }
  }
}

void EngineLink::on_transaction_end() {
  const Request request = under_way_.front();
  under_way_.pop_front();
  std::unique_ptr<PGresult, decltype(&PQclear)> result(std::exchange(result_, nullptr), &PQclear);
  if (request == Request::kGuardedCall) {
    guarded_ = result.release();
    return;
  }
  Objection objection;
  if (request == Request::kGuard) {
    objection = take_guard(result.get());
    result.reset(std::exchange(guarded_, nullptr));
  }
  PgAnswer answer;
  answer.is_doubtful = std::exchange(is_doubtful_, false);
  const ExecStatusType status = PQresultStatus(result.get());
  if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
    answer.table = result.get();
  } else {
    answer.sql_state = field_of(result.get(), PG_DIAG_SQLSTATE);
    answer.words = first_line(field_of(result.get(), PG_DIAG_MESSAGE_PRIMARY));
  }
  if (request == Request::kCheck) {
    take_check(answer);
    return;
  }
  const std::weak_ptr<bool> life = life_;
  owner_.on_link_answer(answer);
  if (objection && !life.expired()) {
    lose(objection.sentence);
  }
}

// Whether the call before it is doubtful. The objection ends the connection.
Objection EngineLink::take_guard(const pg_result* result) {
  if (PQresultStatus(result) != PGRES_TUPLES_OK) {
    is_doubtful_ = true;
    return {};
  }
  PgTable table(result);
  Objection objection = check_standby_names(table.text(0, 0));
  const uint64_t settings_time = table.number(0, 1);
  is_doubtful_ = is_doubtful_ || objection || settings_time != settings_time_;
  settings_time_ = settings_time;
  return objection;
}

// Inside libpq: what comes is of the oldest request, a call or its guard.
void EngineLink::on_notice(void* self, const pg_result* notice) {
  const std::string severity = field_of(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity != "NOTICE" && severity != "INFO" && severity != "LOG" && severity != "DEBUG") {
    static_cast<EngineLink*>(self)->is_doubtful_ = true;
  }
}

}  // namespace gradstream
