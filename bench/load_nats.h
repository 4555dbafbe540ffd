// A peer of gradstream-load that speaks NATS to a server with JetStream: a message counts when its stream has it.
#ifndef GRADSTREAM_BENCH_LOAD_NATS_H_
#define GRADSTREAM_BENCH_LOAD_NATS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "bench/load_peer.h"

namespace gradstream {

// An exchange is a PUB to u.NAME and the stream's answer to r.NAME. The stream must be there.
class NatsPeer final : public LoadPeer {
 public:
  NatsPeer(const Identity& identity, TlsKeyExchange exchange, bool is_storm, LoadStatistics& statistics,
           LoadRandom& random)
      : LoadPeer(identity, exchange, is_storm, statistics, random), name_(identity.name) {}

 private:
  void send_text(const std::string& text);
  void forget_session() override;
  void greet() override;
  void ask() override;
  void on_bytes(std::span<const uint8_t> bytes) override;
  void on_line(const std::string& line);

  std::string name_;
  std::string received_;   // no whole line yet, or an answer's body that is not whole
  bool has_body_ = false;  // a body follows, and its line end
  size_t body_size_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_LOAD_NATS_H_
