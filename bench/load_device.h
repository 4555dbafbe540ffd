// A peer of gradstream-load that speaks the product's messages: it says what a device would, and trains nothing.
#ifndef GRADSTREAM_BENCH_LOAD_DEVICE_H_
#define GRADSTREAM_BENCH_LOAD_DEVICE_H_

#include <cstdint>
#include <span>

#include "bench/lineage.h"
#include "bench/load_peer.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/frame.h"

namespace gradstream {

// A device that knows of each version only its number and digest, as Task names them. An update without an Ack is sent
// again, in later sessions too, as runtime/link/client.cc does.
class DevicePeer final : public LoadPeer {
 public:
  using LoadPeer::LoadPeer;
  // What it is told is written down there; the file must outlive it.
  void record_in(LineageFile* file) { record_ = file; }
  bool is_pending() const override { return is_sent_; }

 private:
  void send(const DeviceMessage& message);
  void forget_session() override;
  void greet() override;
  void ask() override;
  void on_bytes(std::span<const uint8_t> bytes) override;
  void on_message(const ServerMessage& message);
  void on_lost(double wait_s) override;
  void on_ack(const gs_Ack& ack);
  void end(bool is_answered);
  void note_back();
  void answer();

  FrameReader reader_;
  uint32_t value_count_ = 0;
  uint32_t device_ = 0;   // enrolment index
  gs_Task task_ = {};     // to be answered, or whose update has no Ack yet; task_sequence 0: none
  bool is_sent_ = false;  // its update was, in this session or an earlier one
  LineageAck sent_;       // of that update
  LineageFile* record_ = nullptr;
  bool is_welcome_ = false;   // it was, and knows its enrolment index
  bool is_lost_ = false;      // since then, without an answer yet
  bool is_draining_ = false;  // the server wants it to leave after the exchange
  gs_RetryWindow drain_window_ = {};
  bool has_model_ = false;
  uint32_t version_ = 0;
  uint64_t digest_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_LOAD_DEVICE_H_
