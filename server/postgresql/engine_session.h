// One connection to PostgreSQL that waits for each answer: for the verbs of an engine, which have nothing else to do.
//
// Each wait ends at the deadline. What was asked may have happened then, or still will.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_SESSION_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_SESSION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/base/objection.h"
#include "server/postgresql/pg_values.h"

struct pg_conn;
struct pg_result;

namespace gradstream {

struct FreePgResult {
  void operator()(pg_result* result) const;
};
using PgResult = std::unique_ptr<pg_result, FreePgResult>;

// Objects to an address that libpq cannot read, or that has a password: others would see it on the command line and in
// the configuration. The sentence shows nothing of the address.
Objection check_engine_address(const std::string& server);

class EngineSession {
 public:
  // deadline_ms: of the connection, and of each answer.
  explicit EngineSession(uint32_t deadline_ms) : deadline_ms_(deadline_ms) {}
  ~EngineSession();
  EngineSession(const EngineSession&) = delete;
  EngineSession& operator=(const EngineSession&) = delete;

  // Called before each wait, which is the deadline at most. Reason: a service manager counts the silence of a node that
  // asks a slow engine one thing after another.
  void call_before_waits(std::function<void()> before_wait) { before_wait_ = std::move(before_wait); }
  // From now on each wait ends then too. Reason: several waits in turn may have one end for all.
  void end_by(std::chrono::steady_clock::time_point end) { end_ = end; }
  // server: as libpq takes it, key=value or a URI. Blocks for the deadline at most, beside libpq's look-up of a name.
  Objection open(const std::string& server);
  // The statements in their order, as one transaction where they begin none. *cell: of the last result that has rows,
  // its first value; may be null.
  Objection execute(const std::string& statements, std::string* cell = nullptr);
  // One statement with parameters. *rows, in binary form, hold until they are asked for again; may be null.
  Objection ask(const char* statement, const PgParameters& parameters, PgResult* rows = nullptr);

  // Whether the last objection was that no server was reached, or none answered: asking again may help.
  bool is_away() const { return is_away_; }
  // Whether the server has warned of something since open(). Reason: a commit whose wait for the standby was cut is the
  // primary's alone, and PostgreSQL tells that by a warning.
  bool is_doubtful() const { return is_doubtful_; }
  // What the server refused last, in its words and without a remedy.
  const std::string& refusal() const { return refusal_; }

 private:
  // Of a wait that begins now.
  std::chrono::steady_clock::time_point end_of_wait() const;
  Objection finish(PgResult* rows, std::string* cell);
  Objection fail_away(const std::string& what, const std::string& remedy);
  Objection fail_refused(const pg_result* result, const std::string& remedy_where_away);
  static void on_notice(void* self, const pg_result* notice);

  const uint32_t deadline_ms_;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::time_point::max();
  std::function<void()> before_wait_ = [] {};
  pg_conn* connection_ = nullptr;
  bool is_away_ = false;
  bool is_doubtful_ = false;
  std::string refusal_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_SESSION_H_
