#include "server/postgresql/engine_session.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include <libpq-fe.h>
#include <poll.h>

#include "server/postgresql/engine_address.h"
#include "server/postgresql/engine_checks.h"

namespace gradstream {
namespace {

// Shares of the deadline. A server that says nothing has a quarter of it, so that others of the address get theirs. A
// statement that waits for another one's rows gives up before any statement does, so that the error names the cause.
constexpr uint32_t kServerShare = 4;
constexpr uint32_t kRowWaitShare = 2;

using SteadyTime = std::chrono::steady_clock::time_point;

SteadyTime end_after(uint32_t time_ms) { return std::chrono::steady_clock::now() + std::chrono::milliseconds(time_ms); }

// An error of libpq as the rest of a sentence, which ends with its own point.
std::string words_of(const PGconn* connection) {
  std::string words = PQerrorMessage(connection);
  std::replace(words.begin(), words.end(), '\n', ' ');
  words.erase(words.find_last_not_of(" .") + 1);
  return words.empty() ? "no answer came in time" : words;
}

// Whether the connection's socket has something before the end.
bool wait_for(const PGconn* connection, bool for_write, SteadyTime end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  pollfd descriptor = {PQsocket(connection), static_cast<short>(for_write ? POLLOUT : POLLIN), 0};
  return left.count() > 0 && poll(&descriptor, 1, static_cast<int>(left.count())) > 0;
}

// silence_ms: after which a machine that is gone is given up.
PGconn* connect_until(const std::string& server, const ServerLists& lists, uint32_t silence_ms, SteadyTime end) {
  const std::string silence = std::to_string(silence_ms);
  // What stands behind dbname replaces what the address has; an empty value replaces nothing.
  const char* const keys[] = {"dbname",           "host", "hostaddr", "port", "application_name", "client_encoding",
                              "tcp_user_timeout", nullptr};
  const char* const values[] = {server.c_str(),
                                lists.host.c_str(),
                                lists.host_address.c_str(),
                                lists.port.c_str(),
                                "gradstream",
                                "UTF8",
                                silence.c_str(),
                                nullptr};
  PGconn* const connection = PQconnectStartParams(keys, values, 1);
  PostgresPollingStatusType step = PGRES_POLLING_WRITING;
  while (step == PGRES_POLLING_WRITING || step == PGRES_POLLING_READING) {
    if (PQstatus(connection) == CONNECTION_BAD || !wait_for(connection, step == PGRES_POLLING_WRITING, end)) {
      break;
    }
    step = PQconnectPoll(connection);
  }
  return connection;
}

// libpq never leaves a server that takes the connection and then says nothing: so each server comes first once.
PGconn* connect_to_any(const std::string& server, uint32_t deadline_ms, SteadyTime end) {
  const uint32_t share_ms = deadline_ms / kServerShare;
  for (size_t first = 0;; ++first) {
    const ServerLists lists = servers_of(server, first);
    const SteadyTime end_of_turn = first + 1 < lists.count ? std::min(end, end_after(share_ms)) : end;
    PGconn* const connection = connect_until(server, lists, share_ms, end_of_turn);
    const ConnStatusType status = PQstatus(connection);
    if (status == CONNECTION_OK || status == CONNECTION_BAD || first + 1 >= lists.count) {
      return connection;
    }
    PQfinish(connection);
  }
}

std::string remedy_of_refusal(std::string_view state, uint32_t deadline_ms) {
  const std::string key = "engine.deadline_ms (" + std::to_string(deadline_ms) + " ms)";
  if (state == "57014") {
    return "The server was given three quarters of " + key + "; raise it.";
  }
  if (state == "55P03") {
    return "Another import, or a node, holds what is asked for; wait for its end, or raise " + key + ".";
  }
  return "Look into the server's log.";
}

// Whether all of the request is on its way before the end.
bool send_until(PGconn* connection, SteadyTime end) {
  int left = PQflush(connection);
  while (left > 0 && wait_for(connection, true, end)) {
    left = PQconsumeInput(connection) == 1 ? PQflush(connection) : -1;
  }
  return left == 0;
}

}  // namespace

void FreePgResult::operator()(pg_result* result) const { PQclear(result); }

Objection check_engine_address(const std::string& server) {
  const std::string remedy =
      "Give it as key=value pairs or as postgresql://USER@HOST/DATABASE, and the password in ~/.pgpass or PGPASSWORD.";
  char* words = nullptr;
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> all(PQconninfoParse(server.c_str(), &words),
                                                                         &PQconninfoFree);
  PQfreemem(words);  // they may show a password
  if (all == nullptr) {
    return "the engine's address cannot be read. " + remedy;
  }
  for (const PQconninfoOption* one = all.get(); one->keyword != nullptr; ++one) {
    const std::string_view keyword = one->keyword;
    if ((keyword == "password" || keyword == "sslpassword") && one->val != nullptr) {
      return "the engine's address has a password, which others could read there. " + remedy;
    }
  }
  return {};
}

EngineSession::~EngineSession() { PQfinish(connection_); }

std::chrono::steady_clock::time_point EngineSession::end_of_wait() const {
  return std::min(end_, end_after(deadline_ms_));
}

Objection EngineSession::fail_away(const std::string& what, const std::string& remedy) {
  is_away_ = true;
  return "the engine " + what + ": " + words_of(connection_) + ". " + remedy;
}

Objection EngineSession::open(const std::string& server) {
  if (Objection objection = check_engine_address(server)) {
    return objection;
  }
  PQfinish(std::exchange(connection_, nullptr));
  is_away_ = is_doubtful_ = false;
  before_wait_();
  connection_ = connect_to_any(server, deadline_ms_, end_of_wait());
  if (PQstatus(connection_) != CONNECTION_OK || PQsetnonblocking(connection_, 1) != 0) {
    return fail_away("cannot be reached", "Correct the address, or start the server.");
  }
  PQsetNoticeReceiver(connection_, &EngineSession::on_notice, this);
  // The server gives up before the deadline, so that its answer says why. Whatever its defaults are, a commit waits for
  // the standby, and warnings come.
  const std::string time_ms = std::to_string(deadline_ms_ / 4 * 3);
  return execute("SET lock_timeout = " + std::to_string(deadline_ms_ / kRowWaitShare) +
                 "; SET statement_timeout = " + time_ms + "; SET idle_in_transaction_session_timeout = " + time_ms +
                 "; SET synchronous_commit = on; SET client_min_messages = warning; "
                 "SET default_transaction_isolation = 'read committed'");
}

Objection EngineSession::execute(const std::string& statements, std::string* cell) {
  if (PQsendQuery(connection_, statements.c_str()) == 0) {
    return fail_away("cannot be asked", "Start the server, and ask again.");
  }
  return finish(nullptr, cell);
}

Objection EngineSession::ask(const char* statement, const PgParameters& parameters, PgResult* rows) {
  if (PQsendQueryParams(connection_, statement, parameters.count(), nullptr, parameters.pointers().data(),
                        parameters.sizes().data(), parameters.formats().data(), 1) == 0) {
    return fail_away("cannot be asked", "Start the server, and ask again.");
  }
  return finish(rows, nullptr);
}

// Takes all results of what was sent.
Objection EngineSession::finish(PgResult* rows, std::string* cell) {
  before_wait_();
  const SteadyTime end = end_of_wait();
  const std::string remedy = "Look whether its server and its synchronous standby run, and then ask again.";
  if (!send_until(connection_, end)) {
    return fail_away("did not take what was asked", remedy);
  }
  Objection objection;
  for (;;) {
    while (PQisBusy(connection_) != 0) {
      if (!wait_for(connection_, false, end) || PQconsumeInput(connection_) == 0) {
        return fail_away("did not answer", remedy);
      }
    }
    PgResult result(PQgetResult(connection_));
    if (result == nullptr) {
      return objection;
    }
    if (PQresultStatus(result.get()) == PGRES_FATAL_ERROR) {
      objection = fail_refused(result.get(), remedy);
    } else if (PQntuples(result.get()) > 0 && cell != nullptr) {
      *cell = PQgetvalue(result.get(), 0, 0);
    }
    if (rows != nullptr) {
      *rows = std::move(result);
    }
  }
}

Objection EngineSession::fail_refused(const pg_result* result, const std::string& remedy_where_away) {
  const auto field = [result](int code) {
    const char* const text = PQresultErrorField(result, code);
    return std::string(text == nullptr ? "" : text);
  };
  const std::string words = field(PG_DIAG_MESSAGE_PRIMARY), state = field(PG_DIAG_SQLSTATE);
  if (words.empty() || state.empty() || field(PG_DIAG_SEVERITY_NONLOCALIZED) != "ERROR") {
    return fail_away("has ended the connection", remedy_where_away);
  }
  refusal_ = "the engine refuses what it was asked: " + words + " (SQLSTATE " + state + ").";
  return state == "42501" ? sentence_of_error(state, words) : refusal_ + " " + remedy_of_refusal(state, deadline_ms_);
}

void EngineSession::on_notice(void* self, const pg_result* notice) {
  const char* const severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  const std::string_view word = severity == nullptr ? "WARNING" : severity;
  if (word != "NOTICE" && word != "INFO" && word != "LOG" && word != "DEBUG") {
    static_cast<EngineSession*>(self)->is_doubtful_ = true;
  }
}

}  // namespace gradstream
