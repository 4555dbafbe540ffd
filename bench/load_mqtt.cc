#include "bench/load_mqtt.h"

namespace gradstream {
namespace {

constexpr size_t kPayloadSize = 980;  // with its header one record, as an update is

}  // namespace

void MqttPeer::add_text(const std::string& text, std::vector<uint8_t>* out) {
  out->push_back(static_cast<uint8_t>(text.size() >> 8));
  out->push_back(static_cast<uint8_t>(text.size()));
  out->insert(out->end(), text.begin(), text.end());
}

void MqttPeer::send_packet(uint8_t kind, const std::vector<uint8_t>& body) {
  std::vector<uint8_t> packet = {kind};
  for (size_t rest = body.size(); packet.size() == 1 || rest > 0; rest >>= 7) {
    packet.push_back(static_cast<uint8_t>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0)));
  }
  packet.insert(packet.end(), body.begin(), body.end());
  send_bytes(packet);
}

void MqttPeer::greet() {
  std::vector<uint8_t> body;
  add_text("MQTT", &body);
  body.insert(body.end(), {4, 2, 0, 0});  // version 3.1.1, clean session, no keep-alive
  add_text(name_, &body);
  send_packet(0x10, body);
}

void MqttPeer::ask() {
  std::vector<uint8_t> body;
  add_text("u/" + name_, &body);
  body.insert(body.end(), {0, 1});  // packet identifier
  body.resize(body.size() + kPayloadSize, 0x5a);
  start_clock();
  send_packet(0x32, body);
}

void MqttPeer::on_bytes(std::span<const uint8_t> bytes) {
  // CONNACK and PUBACK are four bytes each, and there is never more than one under way.
  for (const uint8_t byte : bytes) {
    packet_[packet_size_++] = byte;
    if (packet_size_ < sizeof packet_) {
      continue;
    }
    packet_size_ = 0;
    if (packet_[0] == 0x20 && packet_[3] == 0) {
      return leave_early() ? void() : greeted();
    } else if (packet_[0] == 0x40) {
      end_exchange(true);
    } else {
      return fail("the broker refuses");
    }
  }
}

}  // namespace gradstream
