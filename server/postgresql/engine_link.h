// One connection to PostgreSQL: it is made, checked and then used, without ever waiting on its thread.
//
//   open() --> connecting --> checking --> ready: send() ... on_link_answer(), in the order of the requests
//                  |             |           |
//                  '-------------+-----------'--> on_link_lost(): nothing more comes; open() begins anew
//
// Each request is one prepared statement and one transaction, in pipeline mode: any number of them may be under way.
// An answer comes when its transaction has ended, for the rows of a statement come before its commit.
//
// An operator may empty synchronous_standby_names at any time: PostgreSQL then ends all waits for the standby without a
// warning. So a guard follows each request that has to wait, as a transaction behind it. The guard reads that setting,
// and when the session has last read its settings. The answer is doubtful where the setting is empty now, or where the
// settings were read again since the guard before.
//
// What is left: the names are emptied, and then set again. Until PostgreSQL's checkpointer has read them too, which is
// a matter of milliseconds, a commit waits for nobody, and no session can see that.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_LINK_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_LINK_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "server/base/asio_alias.h"
#include "server/postgresql/engine_checks.h"
#include "server/postgresql/pg_values.h"

struct pg_conn;
struct pg_result;

namespace gradstream {

struct EngineStatement;

// Bounds every wait on the engine: a connection with its checks, and a call from the moment it is made. Reason: longer
// than a fail-over that a manager of PostgreSQL does at once, shorter than a device waits for its Ack.
inline constexpr uint32_t kEngineDeadlineMs = 10'000;

struct PostgresOptions {
  // As libpq takes it: key=value or a URI, of one server or of several. No password: pgpass has it. Several servers
  // stand here, not in a service file or the environment: else one that takes connections and says nothing hides the
  // others.
  std::string server;
  uint32_t run = 0;
  std::string node;     // its name in the cluster; two nodes of one name fence each other
  std::string release;  // of this program, for those who look at the engine
  EngineDurability durability = EngineDurability::kStandby;
  uint32_t deadline_ms = kEngineDeadlineMs;
  // Reason: a leader renews it each second, so that two answers may be lost before another node takes over. Calls are
  // executed in their order: behind a call that takes longer than this a renewal comes too late.
  uint32_t lease_ms = 3'000;
};

// What became of a request.
struct PgAnswer {
  const pg_result* table = nullptr;  // its rows, if it was executed; else null
  std::string sql_state;             // of the error that undid it; empty: there was none
  std::string words;                 // of that error, in the server's language
  // The commit may be the primary's alone: the guard says so, or the server warned in the transaction, since its wait
  // for the standby was cut. No statement of ours warns otherwise, and the words depend on the server's language.
  bool is_doubtful = false;
};

class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  virtual void on_link_ready() = 0;
  // To the oldest request that has none. The answer holds during the call.
  virtual void on_link_answer(const PgAnswer& answer) = 0;
  // Requests without an answer may have happened or not, or still will. why: a sentence.
  virtual void on_link_lost(const std::string& why) = 0;
};

class EngineLink {
 public:
  EngineLink(asio::io_context& io, const PostgresOptions& options, LinkOwner& owner);
  ~EngineLink();
  EngineLink(const EngineLink&) = delete;
  EngineLink& operator=(const EngineLink&) = delete;

  // Only where nothing is open. Begins with the next server of the address where the last attempt ended in silence.
  // Blocks while libpq looks up a name, so an address or a name of /etc/hosts is better.
  void open();
  bool is_open() const { return state_ != State::kClosed; }
  bool is_ready() const { return state_ == State::kReady; }
  // Only where is_ready(). False: the link is lost, as the owner was told.
  [[nodiscard]] bool send(const EngineStatement& statement, const PgParameters& parameters);
  // Without a word to the owner: requests without an answer are as after on_link_lost().
  void close();
  // Closes what is open, and tells the owner. why: a copy of what the connection says of itself.
  void lose(const std::string& why);

 private:
  enum class State : uint8_t { kClosed, kConnecting, kChecking, kReady };
  enum class Request : uint8_t { kCheck, kCall, kGuardedCall, kGuard };

  void give_time(uint32_t time_ms);
  void connect_further();
  void begin_checks();
  void take_check(const PgAnswer& answer);
  Objection take_guard(const pg_result* result);
  void watch(bool for_write, void (EngineLink::*then)());
  void flush();
  void read();
  void on_readable();
  void on_writable();
  void on_transaction_end();
  std::string words() const;
  static void on_notice(void* self, const pg_result* notice);

  asio::posix::stream_descriptor descriptor_;  // of libpq's socket, which libpq closes
  SteadyTimer timer_;                          // of connection and checks
  const PostgresOptions options_;
  LinkOwner& owner_;
  State state_ = State::kClosed;
  pg_conn* connection_ = nullptr;
  std::shared_ptr<bool> life_;  // of this connection: a handler of an older one finds it gone
  bool is_write_watched_ = false;
  std::deque<Request> under_way_;  // without an answer
  uint32_t check_ = 0;             // answered
  size_t first_server_ = 0;        // of the address: with which the next attempt begins
  EngineFacts facts_;
  uint64_t settings_time_ = 0;    // when the session has last read its settings, in us by the server's clock
  std::string incarnation_;       // of the first connection
  pg_result* result_ = nullptr;   // of the oldest request, until its transaction has ended
  pg_result* guarded_ = nullptr;  // of the call whose guard is the oldest request
  bool is_doubtful_ = false;      // the oldest call is
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_LINK_H_
