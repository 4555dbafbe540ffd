// A peer of gradstream-load that speaks MQTT 3.1.1 to a broker, as a sensor would.
#ifndef GRADSTREAM_BENCH_LOAD_MQTT_H_
#define GRADSTREAM_BENCH_LOAD_MQTT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/load_peer.h"

namespace gradstream {

// An exchange is a PUBLISH with QoS 1 and its PUBACK.
class MqttPeer final : public LoadPeer {
 public:
  MqttPeer(const Identity& identity, TlsKeyExchange exchange, bool is_storm, LoadStatistics& statistics,
           LoadRandom& random)
      : LoadPeer(identity, exchange, is_storm, statistics, random), name_(identity.name) {}

 private:
  static void add_text(const std::string& text, std::vector<uint8_t>* out);
  void send_packet(uint8_t kind, const std::vector<uint8_t>& body);
  void greet() override;
  void ask() override;
  void on_bytes(std::span<const uint8_t> bytes) override;

  std::string name_;
  uint8_t packet_[4] = {};
  size_t packet_size_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_LOAD_MQTT_H_
