#include "server/postgresql/engine_session.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include <libpq-fe.h>
#include <poll.h>

namespace gradstream {
namespace {

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

PGconn* connect_until(const std::string& server, SteadyTime end) {
  const char* const keys[] = {"dbname", "application_name", "client_encoding", nullptr};
  const char* const values[] = {server.c_str(), "gradstream", "UTF8", nullptr};
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
  connection_ = connect_until(server, end_after(deadline_ms_));
  if (PQstatus(connection_) != CONNECTION_OK || PQsetnonblocking(connection_, 1) != 0) {
    return fail_away("cannot be reached", "Correct the address, or start the server.");
  }
  PQsetNoticeReceiver(connection_, &EngineSession::on_notice, this);
  // The server gives up before the deadline, so that its answer says why. Whatever its defaults are, a commit waits for
  // the standby, and warnings come.
  const std::string time_ms = std::to_string(deadline_ms_ / 4 * 3);
  return execute("SET lock_timeout = " + time_ms + "; SET statement_timeout = " + time_ms +
                 "; SET idle_in_transaction_session_timeout = " + time_ms +
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
  const SteadyTime end = end_after(deadline_ms_);
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
      const char* const words = PQresultErrorField(result.get(), PG_DIAG_MESSAGE_PRIMARY);
      const char* const state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
      objection = words == nullptr ? fail_away("has ended the connection", remedy)
                                   : Objection("the engine refuses what it was asked: " + std::string(words) +
                                               (state == nullptr ? "." : std::string(" (SQLSTATE ") + state + ")."));
    } else if (PQntuples(result.get()) > 0 && cell != nullptr) {
      *cell = PQgetvalue(result.get(), 0, 0);
    }
    if (rows != nullptr) {
      *rows = std::move(result);
    }
  }
}

void EngineSession::on_notice(void* self, const pg_result* notice) {
  const char* const severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  const std::string_view word = severity == nullptr ? "WARNING" : severity;
  if (word != "NOTICE" && word != "INFO" && word != "LOG" && word != "DEBUG") {
    static_cast<EngineSession*>(self)->is_doubtful_ = true;
  }
}

}  // namespace gradstream
