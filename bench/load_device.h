// A peer of gradstream-load that speaks the product's messages: it says what a device would, and trains nothing.
#ifndef GRADSTREAM_BENCH_LOAD_DEVICE_H_
#define GRADSTREAM_BENCH_LOAD_DEVICE_H_

#include <cstdint>
#include <span>

#include "bench/load_peer.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/frame.h"

namespace gradstream {

// A device that knows of each version only its number and digest, as Task names them.
class DevicePeer final : public LoadPeer {
 public:
  using LoadPeer::LoadPeer;

 private:
  void send(const DeviceMessage& message);
  void forget_session() override;
  void greet() override;
  void ask() override;
  void on_bytes(std::span<const uint8_t> bytes) override;
  void on_message(const ServerMessage& message);
  void answer();

  FrameReader reader_;
  uint32_t value_count_ = 0;
  uint32_t device_ = 0;  // enrolment index
  gs_Task task_ = {};    // to be answered; task_sequence 0: none
  bool has_model_ = false;
  uint32_t version_ = 0;
  uint64_t digest_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_LOAD_DEVICE_H_
