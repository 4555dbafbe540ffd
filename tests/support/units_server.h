// A coordinator whose run takes units out, and devices that answer its stages for tables of their own.
#ifndef GRADSTREAM_TESTS_SUPPORT_UNITS_SERVER_H_
#define GRADSTREAM_TESTS_SUPPORT_UNITS_SERVER_H_

#include <cstring>
#include <vector>

#include "server/run/run_core.h"
#include "server/run/units_keys.h"
#include "tests/support/server_support.h"
#include "tests/support/units_device.h"

namespace gradstream {

inline RunParameters units_run(Centre centre = Centre::kFederated, UnitScale scale = UnitScale::kDeviation) {
  RunParameters p = scalar_parameters();
  p.units.keys().centre = centre;
  p.units.keys().scale = scale;
  return p;
}

struct UnitsServer : TestServer {
  explicit UnitsServer(const RunParameters& p, uint32_t enrolled = 0) : TestServer(p, enrolled) {
    const uint32_t columns = p.model->shape.rows;
    for (uint32_t device = 0; device < names.size() + 8; ++device) {
      const uint32_t count = 5 + device;
      const std::vector<Real> values = draw_values(size_t{count} * columns, device + 1, 8);
      SampleRows& rows = tables.emplace_back(count);
      for (size_t i = 0; i < values.size(); ++i) {
        rows[i / columns].push_back(static_cast<float>(i % columns) + values[i]);
      }
    }
  }

  TaskStage stage() const { return coordinator->stage(); }
  // What the device answers its last task.
  Words honest(uint32_t device) const {
    const bool has_range = parameters.units.keys().scale == UnitScale::kRange;
    return answer_of(tables[device], static_cast<TaskStage>(task(device)->stage), coordinator->units(), has_range);
  }
  void answer(uint32_t device) { answer(device, honest(device)); }
  void answer(uint32_t device, const Words& words) { answer(device, *task(device), words); }
  void answer(uint32_t device, const gs_Task& of, const Words& words) {
    const std::vector<uint8_t> bytes = bytes_of(words);
    constexpr size_t kPieceSize = 96 * 8;
    for (size_t begin = 0; begin < bytes.size(); begin += kPieceSize) {
      const size_t size = std::min(kPieceSize, bytes.size() - begin);
      DeviceMessage message = {};
      message.which_body = gs_DeviceMessage_update_tangent_tag;
      gs_UpdateTangent& piece = message.body.update_tangent;
      piece.task_sequence = of.task_sequence;
      piece.base_version = of.version;
      piece.steps_done = 1;
      piece.encoding = gs_Encoding_ENCODING_WORDS;
      piece.base_digest = base_digest;
      piece.first_value = static_cast<uint32_t>(begin / 8);
      piece.value_count = static_cast<uint32_t>(words.size());
      piece.crc32c = crc32c(0, bytes.data(), bytes.size());
      piece.values.size = static_cast<pb_size_t>(size);
      std::memcpy(piece.values.bytes, bytes.data() + begin, size);
      send(device, message);
    }
  }
  void refuse_units(uint32_t device) {
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_task_refused_tag;
    message.body.task_refused.task_sequence = task(device)->task_sequence;
    message.body.task_refused.reason = gs_Reason_REASON_UNITS_REFUSED;
    send(device, message);
  }
  // These devices pull and answer the open stage.
  void stage_round(uint32_t count) {
    for (uint32_t device = 0; device < count; ++device) {
      pull(device);
    }
    for (uint32_t device = 0; device < count; ++device) {
      answer(device);
    }
  }
  // Bits of the parts of the last snapshot that the device got; 0: X alone, or none.
  uint32_t last_parts(uint32_t device) const {
    const ServerMessage* message = last(device, gs_ServerMessage_snapshot_chunk_tag);
    return message == nullptr ? 0 : message->body.snapshot_chunk.parts;
  }

  std::vector<SampleRows> tables;
  uint64_t base_digest = 0;  // that answers say; 0: none
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_UNITS_SERVER_H_
