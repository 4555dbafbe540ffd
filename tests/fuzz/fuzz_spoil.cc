#include "tests/fuzz/fuzz_spoil.h"

#include <cstring>

namespace gradstream::testing {
namespace {

void spoil(FuzzInput& in, uint32_t& field) { field = in.number_near(field); }
void spoil(FuzzInput& in, uint16_t& field) { field = static_cast<uint16_t>(in.number_near(field)); }
void spoil(FuzzInput& in, uint64_t& field) { field ^= uint64_t{1} << in.below(64); }
template <typename Enum>
void spoil_enum(FuzzInput& in, Enum& field) {
  const uint32_t raw = in.below(8);
  static_assert(sizeof(raw) == sizeof(field));
  std::memcpy(&field, &raw, sizeof(raw));
}

void spoil_hello(FuzzInput& in, uint32_t which, gs_Hello& m) {
  switch (which % 9) {
    case 0:
      return spoil(in, m.protocol_version);
    case 1:
      return spoil(in, m.run);
    case 2:
      return spoil(in, m.version);
    case 3:
      return spoil(in, m.digest);
    case 4:
      return spoil(in, m.pending_task_sequence);
    case 5:
      m.lost_task_sequence = m.pending_task_sequence + in.below(3);
      return;
    case 6:
      return spoil(in, m.sample_count);
    case 7:
      return spoil(in, m.capabilities.solvers);
    default:
      m.has_model = !m.has_model;
      return;
  }
}

void spoil_pull(FuzzInput& in, uint32_t which, gs_Pull& m) {
  switch (which % 4) {
    case 0:
      return spoil(in, m.version);
    case 1:
      return spoil(in, m.digest);
    case 3:
      return spoil(in, m.hold_max_ms);
    default:
      m.has_model = !m.has_model;
      return;
  }
}

// Any float: a loss may be anything.
void spoil(FuzzInput& in, float& field) {
  const uint32_t raw = in.word();
  static_assert(sizeof(raw) == sizeof(field));
  std::memcpy(&field, &raw, sizeof(raw));
}

template <typename Update>
void spoil_update(FuzzInput& in, uint32_t which, Update& m) {
  switch (which % 14) {
    case 13:
      return spoil(in, m.base_digest);
    case 9:
      m.has_line = true;
      return spoil(in, m.line.slope);
    case 10:
      m.has_line = true;
      return spoil(in, m.line.curvature);
    case 11:
      m.has_evaluation = true;
      spoil(in, m.evaluation.sample_count);
      return spoil(in, m.evaluation.loss);
    case 12:
      m.has_evaluation = true;
      return spoil(in, m.evaluation.metric);
    case 0:
      return spoil(in, m.task_sequence);
    case 1:
      return spoil(in, m.base_version);
    case 2:
      return spoil(in, m.steps_done);
    case 3:
      return spoil_enum(in, m.encoding);
    case 4:
      return spoil(in, m.first_value);
    case 5:
      return spoil(in, m.value_count);
    case 6:
      return spoil(in, m.crc32c);
    case 7:
      m.values.bytes[in.below(64)] ^= in.byte();
      return;
    default:
      m.values.size = static_cast<pb_size_t>(in.word() % (kPayloadSizeMax + 1));
      return;
  }
}

}  // namespace

void spoil(FuzzInput& in, uint32_t which, DeviceMessage& message) {
  if (which == 0) {
    return;
  }
  switch (message.which_body) {
    case gs_DeviceMessage_hello_tag:
      return spoil_hello(in, which, message.body.hello);
    case gs_DeviceMessage_pull_tag:
      return spoil_pull(in, which, message.body.pull);
    case gs_DeviceMessage_update_scalars_tag:
      if (which % 10 == 9) {
        return spoil(in, message.body.update_scalars.direction_count);
      }
      return spoil_update(in, which, message.body.update_scalars);
    case gs_DeviceMessage_update_tangent_tag:
      return spoil_update(in, which, message.body.update_tangent);
    case gs_DeviceMessage_task_refused_tag:
      if (which % 2 == 0) {
        return spoil(in, message.body.task_refused.task_sequence);
      }
      return spoil_enum(in, message.body.task_refused.reason);
    default:
      return;
  }
}

}  // namespace gradstream::testing
