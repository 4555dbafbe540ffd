// The engine on PostgreSQL, as the tests of every engine want it: each node's connection passes a proxy of the test,
// which loses what a test wants lost.
#ifndef GRADSTREAM_TESTS_SUPPORT_POSTGRES_HARNESS_H_
#define GRADSTREAM_TESTS_SUPPORT_POSTGRES_HARNESS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <asio/read.hpp>
#include <gtest/gtest.h>

#include "server/base/asio_alias.h"
#include "server/postgresql/engine_postgres.h"
#include "server/postgresql/engine_schema.h"
#include "tests/support/engine_contract.h"
#include "tests/support/postgres_cluster.h"

namespace gradstream {

// A wait of the test itself; what it waits for takes milliseconds on an idle machine.
inline constexpr uint32_t kTestDeadlineMs = 60'000;

// Runs what is due until it is so. Whether it is.
inline bool run_until(asio::io_context& io, const std::function<bool()>& is_so) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kTestDeadlineMs);
  while (!is_so() && std::chrono::steady_clock::now() < end) {
    io.restart();
    io.run_one_for(std::chrono::milliseconds(20));
  }
  return is_so();
}

// Between one engine and the primary.
class FaultProxy : public std::enable_shared_from_this<FaultProxy> {
 public:
  FaultProxy(asio::io_context& io, uint16_t target)
      : io_(io), listener_(io, Tcp::endpoint(asio::ip::address_v4::loopback(), 0)), target_(target) {}

  void begin() {
    listener_.async_accept([self = shared_from_this()](ErrorCode error, Tcp::socket socket) {
      if (!error) {
        self->take(std::move(socket));
        self->begin();
      }
    });
  }
  void end() { listener_.close(); }
  uint16_t port() const { return listener_.local_endpoint().port(); }
  // What the next message of the engine meets; the engine is connected.
  void plant(EngineFault fault) {
    fault_ = fault;
    is_planted_ = true;
  }
  // What was held back reaches the server, which has executed it then.
  void release() {
    if (held_ != nullptr) {
      const std::shared_ptr<Pair> pair = std::move(held_);
      asio::write(pair->server, asio::buffer(pair->held));
      wait_for_answer(*pair);
    }
  }

 private:
  struct Pair {
    explicit Pair(Tcp::socket socket, asio::io_context& io) : client(std::move(socket)), server(io) {}
    void close() {
      ErrorCode ignored;
      client.close(ignored);
    }
    Tcp::socket client, server;
    std::array<char, 65536> from_client, from_server;
    std::string held;
  };

  void take(Tcp::socket socket) {
    if (is_late_) {
      is_late_ = false;
      release();
    }
    const auto pair = std::make_shared<Pair>(std::move(socket), io_);
    ErrorCode error;
    pair->server.connect(Tcp::endpoint(asio::ip::address_v4::loopback(), target_), error);
    if (error) {
      return;  // and the engine's connection is closed with the pair
    }
    read_client(pair);
    read_server(pair);
  }
  void read_client(const std::shared_ptr<Pair>& pair) {
    pair->client.async_read_some(asio::buffer(pair->from_client),
                                 [self = shared_from_this(), pair](ErrorCode error, size_t size) {
                                   if (error) {
                                     if (pair != self->held_) {
                                       pair->server.close();
                                     }
                                   } else if (self->is_planted_) {
                                     self->meet(pair, size);
                                   } else {
                                     asio::write(pair->server, asio::buffer(pair->from_client, size), error);
                                     self->read_client(pair);
                                   }
                                 });
  }
  void read_server(const std::shared_ptr<Pair>& pair) {
    pair->server.async_read_some(asio::buffer(pair->from_server),
                                 [self = shared_from_this(), pair](ErrorCode error, size_t size) {
                                   if (error) {
                                     pair->close();
                                   } else {
                                     asio::write(pair->client, asio::buffer(pair->from_server, size), error);
                                     self->read_server(pair);
                                   }
                                 });
  }
  void meet(const std::shared_ptr<Pair>& pair, size_t size) {
    is_planted_ = false;
    pair->server.cancel();  // what the server says from here on the engine does not hear
    if (fault_ == EngineFault::kAnswer) {
      asio::write(pair->server, asio::buffer(pair->from_client, size));
      wait_for_answer(*pair);
    } else if (fault_ != EngineFault::kNever) {
      pair->held.assign(pair->from_client.data(), size);
      held_ = pair;
      is_late_ = fault_ == EngineFault::kLate;
    }
    pair->close();
  }
  // Up to the message that ends a transaction: ReadyForQuery, whose type is Z and whose length is 5.
  static void wait_for_answer(Pair& pair) {
    for (char type = 0; type != 'Z';) {
      std::array<unsigned char, 5> head;
      ErrorCode error;
      asio::read(pair.server, asio::buffer(head), error);
      ASSERT_FALSE(error) << error.message();
      type = static_cast<char>(head[0]);
      const size_t size = (size_t{head[1]} << 24) + (size_t{head[2]} << 16) + (size_t{head[3]} << 8) + head[4] - 4;
      std::vector<char> body(size);
      asio::read(pair.server, asio::buffer(body), error);
      ASSERT_FALSE(error) << error.message();
    }
  }

  asio::io_context& io_;
  Tcp::acceptor listener_;
  const uint16_t target_;
  EngineFault fault_ = EngineFault::kNever;
  bool is_planted_ = false;
  bool is_late_ = false;
  std::shared_ptr<Pair> held_;
};

class PostgresHarness : public EngineHarness {
 public:
  explicit PostgresHarness(const PostgresCluster& cluster) : cluster_(cluster), run_(++last_run_) {
    EXPECT_FALSE(init_engine(cluster.primary(), kTestDeadlineMs));
    EXPECT_FALSE(add_engine_run(cluster.primary(), run_, kTestDeadlineMs));
  }
  ~PostgresHarness() override {
    for (const auto& proxy : proxies_) {
      proxy->end();
    }
  }
  PostgresOptions options(const std::string& node) const {
    PostgresOptions options;
    options.server = cluster_.primary();
    options.run = run_;
    options.node = node;
    options.deadline_ms = kTestDeadlineMs;
    return options;
  }
  std::unique_ptr<EngineNode> connect(const std::string& node) override {
    proxies_.push_back(std::make_shared<FaultProxy>(io_, cluster_.primary_port()));
    proxies_.back()->begin();
    PostgresOptions own = options(node);
    own.server = "host=127.0.0.1 port=" + std::to_string(proxies_.back()->port()) + " user=gs dbname=postgres";
    auto engine = std::make_unique<PostgresEngine>(io_, own);
    nodes_[node] = {engine.get(), proxies_.back().get()};
    return engine;
  }
  EngineReply wait(EngineNode& node, EngineTicket ticket) override {
    EngineReply found;
    const bool is_there = run_until(io_, [&] {
      for (EngineReply& reply : node.take_replies()) {
        if (reply.ticket == ticket) {
          found = std::move(reply);
        }
      }
      return found.ticket == ticket;
    });
    EXPECT_TRUE(is_there) << dynamic_cast<PostgresEngine&>(node).trouble();
    return found;
  }
  void settle() override {
    for (const auto& proxy : proxies_) {
      proxy->release();
    }
  }
  void fault(const std::string& node, EngineFault fault) override {
    const Node& one = nodes_.at(node);
    EXPECT_TRUE(run_until(io_, [&] { return one.engine->is_connected(); })) << one.engine->trouble();
    one.proxy->plant(fault);
  }
  void pass_lease() override {
    cluster_.ask_primary("UPDATE gradstream.run SET lease_until = 'epoch' WHERE run = " + std::to_string(run_));
  }
  void change_fleet(const FleetChange& row) override {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string content;
    for (const uint8_t byte : row.content) {
      content += {kDigits[byte >> 4], kDigits[byte & 15]};
    }
    const std::string table = row.is_claim ? "claim" : "device";
    cluster_.ask_primary(
        "WITH now_at AS (UPDATE gradstream.cluster SET fleet_change = fleet_change + 1 RETURNING "
        "fleet_change) INSERT INTO gradstream." +
        table + " AS old SELECT " + std::to_string(row.number) + ", '" + row.name + "', '\\x" + content +
        "', fleet_change FROM now_at ON CONFLICT (" + table +
        ") DO UPDATE SET content = excluded.content, change = excluded.change");
  }
  void change_state(EngineRunState state) override {
    cluster_.ask_primary("UPDATE gradstream.run SET state = " + std::to_string(static_cast<int>(state)) +
                         " WHERE run = " + std::to_string(run_));
  }
  asio::io_context& io() { return io_; }
  std::string run() const { return std::to_string(run_); }

 private:
  struct Node {
    PostgresEngine* engine = nullptr;
    FaultProxy* proxy = nullptr;
  };
  static inline uint32_t last_run_ = 0;
  const PostgresCluster& cluster_;
  const uint32_t run_;
  asio::io_context io_;
  std::vector<std::shared_ptr<FaultProxy>> proxies_;
  std::map<std::string, Node> nodes_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_POSTGRES_HARNESS_H_
