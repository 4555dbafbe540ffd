// An engine (server/engine/engine.h) on PostgreSQL 15 or newer, for one run and one node.
//
//   node --calls--> PostgresEngine: waiting, under way --EngineLink--> PostgreSQL primary ==synchronous==> standby
//
// Each call is one statement, one transaction and one message each way. Calls are executed in their order. What a call
// that is committed has changed, is on the standby's disk too when its reply comes. So is what it tells of other calls.
//
// A call is kUnknown where its wait for the standby may have been cut: by a cancellation, or by settings that the
// server has read anew. Where synchronous_standby_names were emptied the connection is lost too. A window of
// milliseconds is left when they are emptied and set again (engine_link.h).
//
// A connection that is lost makes the calls under way kUnknown, and the engine connects again by itself. A call that is
// not answered in deadline_ms is kUnknown: where it was under way the connection is given up, since nobody knows what
// still comes by it. Calls wait while there is no connection, as long as that. A server that does not keep what an
// engine promises is refused by name (engine_checks.h), and asked again like one that is away. So is a server that
// answers a call with an error that will not pass by itself, such as a full disk.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_POSTGRES_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_POSTGRES_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/base/asio_alias.h"
#include "server/engine/engine.h"
#include "server/postgresql/engine_calls.h"
#include "server/postgresql/engine_link.h"

namespace gradstream {

// Pauses before a new connection: they double from the first to the last one, until a connection has settled. So calls
// that are made again at once do not burden a server that executes none. Reason: a manager of PostgreSQL promotes a
// standby in a tenth of a second where it can, and a node is to be back two seconds after that. A few nodes that ask
// once a second do not burden a server that starts.
inline constexpr uint32_t kEnginePauseFirstMs = 50;
inline constexpr uint32_t kEnginePauseLastMs = 1'000;
// A connection that is so old when a call is answered has settled, ms. Reason: a server whose disk is full answers what
// reads, and ends each connection by what writes. Such a node would connect, and say so in its log, ten times a second.
inline constexpr uint32_t kEngineSettledMs = 5'000;
// A node's own part of a pause: it leaves out up to a quarter, by its name. Reason: all nodes lose an engine at one
// moment, and they should not all come back at one.
uint32_t pause_of_node(uint32_t pause_ms, const std::string& node);
// Calls of one node that have no reply yet. One more is kUnknown at once. Reason: a front has one batch under way and
// loads the devices of a storm, 64 at a time.
inline constexpr size_t kEngineCallCountMax = 256;

class PostgresEngine final : public EngineNode, private LinkOwner {
 public:
  // Everything happens on io's thread, where the calls are made too. on_change: replies wait, or the connection is made
  // or lost; may be empty. It is told soon after, never inside a call, and once for several changes. io outlives it.
  PostgresEngine(asio::io_context& io, const PostgresOptions& options, std::function<void()> on_change = {});
  ~PostgresEngine() override;
  PostgresEngine(const PostgresEngine&) = delete;
  PostgresEngine& operator=(const PostgresEngine&) = delete;

  EngineTicket join() override;
  EngineTicket load(const std::vector<uint32_t>& devices) override;
  EngineTicket commit(const EngineBatch& batch) override;
  EngineTicket resolve(uint64_t epoch, uint64_t number) override;
  EngineTicket take_lease() override;
  EngineTicket release_lease(uint64_t term) override;
  EngineTicket read_progress(uint32_t version) override;
  EngineTicket read_sums(uint32_t version, const SumPlace& after) override;
  EngineTicket read_updates(uint32_t version, UpdatePart part, const UpdatePlace& from) override;
  EngineTicket seal(uint64_t term, uint32_t version) override;
  EngineTicket publish(uint64_t term, uint64_t sum_count, const PublishedVersion& next) override;
  EngineTicket read_versions(uint32_t from, EngineRunState known) override;
  EngineTicket read_fleet(const FleetPlace& from) override;
  std::vector<EngineReply> take_replies() override;

  bool is_connected() const { return link_.is_ready(); }
  // Why there is no connection, or why the last one ended; a sentence. Empty: there was no trouble yet.
  const std::string& trouble() const { return trouble_; }
  // Connections that were made, for tests and counters.
  uint64_t connection_count() const { return connection_count_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Call {
    EngineTicket ticket = 0;
    EngineVerb verb = EngineVerb::kJoin;
    PgParameters parameters;
    std::vector<uint32_t> devices;  // of a load
    Time end;                       // when it is given up
  };

  void on_link_ready() override;
  void on_link_answer(const PgAnswer& answer) override;
  void on_link_lost(const std::string& why) override;
  EngineTicket submit(EngineVerb verb, PgParameters parameters, std::vector<uint32_t> devices = {});
  void send_waiting();
  void give_up(std::deque<Call>* calls);
  void reply(EngineReply reply);
  void tell();
  void watch_deadline();
  void on_deadline();
  void connect_later();

  const PostgresOptions options_;
  const std::function<void()> on_change_;
  EngineLink link_;
  SteadyTimer deadline_timer_;
  SteadyTimer pause_timer_;
  std::shared_ptr<bool> life_ = std::make_shared<bool>(true);  // a handler of a timer finds it gone with the engine
  std::deque<Call> waiting_;                                   // for a connection; newer than those under way
  std::deque<Call> under_way_;
  std::vector<EngineReply> replies_;
  EngineTicket last_ticket_ = 0;
  bool is_told_soon_ = false;
  uint32_t pause_ms_ = kEnginePauseFirstMs;
  Time settled_at_;  // when the connection is kEngineSettledMs old
  uint64_t connection_count_ = 0;
  std::string trouble_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_POSTGRES_H_
