// A device of a fuzzed coordinator: it holds a real replica, makes honest messages, and checks the server's answers.
#ifndef GRADSTREAM_TESTS_FUZZ_FUZZ_DEVICE_H_
#define GRADSTREAM_TESTS_FUZZ_FUZZ_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/wire/codec.h"
#include "server/coordinator/coordinator.h"
#include "server/run/run_parameters.h"
#include "tests/support/training_support.h"

namespace gradstream::testing {

class FuzzDevice {
 public:
  // The parameters must outlive the device.
  FuzzDevice(const RunParameters& parameters, uint32_t index);

  SessionId session = 0;
  bool has_hello = false;
  bool is_truthful = true;            // every Pull of this session said what it holds
  std::vector<DeviceMessage> upload;  // the last one, in its order

  uint32_t task_sequence() const { return task_.task_sequence; }

  // Honest messages: what a device that holds this replica and this task would send.
  DeviceMessage hello() const;
  DeviceMessage pull() const;
  DeviceMessage refusal() const;
  // Puts the pieces of an update for the task in hand into `upload`.
  // kind: 0 for ordinary values, else stranger ones and fewer steps.
  void make_upload(uint32_t kind);
  // What this device's session brings. A replica that was truthful must come to the digest that the server names.
  void receive(const ServerMessage& message);

 private:
  DeviceMessage piece(uint32_t steps, size_t first, uint32_t total, size_t count,
                      const std::vector<uint8_t>& bytes) const;
  template <typename Update>
  void fill_piece(uint32_t steps, size_t first, uint32_t total, size_t count, const std::vector<uint8_t>& bytes,
                  Update& out) const;
  void receive_log(const gs_LogChunk& chunk);
  void receive_snapshot(const gs_SnapshotChunk& chunk);

  const RunParameters& parameters_;
  TestArena memory_;
  Replica replica_;
  uint32_t index_ = 0;
  gs_Task task_ = {};
};

}  // namespace gradstream::testing

#endif  // GRADSTREAM_TESTS_FUZZ_FUZZ_DEVICE_H_
