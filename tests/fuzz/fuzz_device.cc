#include "tests/fuzz/fuzz_device.h"

#include <algorithm>
#include <cstring>

#include "server/rules/record.h"
#include "server/run/run_core.h"
#include "tests/fuzz/fuzz_input.h"

namespace gradstream::testing {

FuzzDevice::FuzzDevice(const RunParameters& parameters, uint32_t index)
    : parameters_(parameters), memory_(1 << 14), index_(index) {
  FUZZ_CHECK(replica_.prepare(*server_manifold(parameters), parameters.model->shape, memory_.arena) == Status::kOk);
}

DeviceMessage FuzzDevice::hello() const {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_hello_tag;
  gs_Hello& hello = message.body.hello;
  hello.protocol_version = kProtocolVersion;
  hello.has_capabilities = true;
  hello.capabilities.manifolds = 0xff;
  hello.capabilities.solvers = 0xff;
  hello.capabilities.estimators = 0xff;
  hello.capabilities.encodings = 0xff;
  hello.capabilities.arena_size = 1 << 20;
  hello.capabilities.problems_count = 1;
  std::strcpy(hello.capabilities.problems[0], "kpca");
  hello.has_model = replica_.has_model();
  hello.version = replica_.version();
  hello.digest = replica_.has_model() ? replica_.digest() : 0;
  hello.pending_task_sequence = task_.task_sequence;
  hello.sample_count = 100 + 50 * index_;
  return message;
}

DeviceMessage FuzzDevice::pull() const {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_pull_tag;
  message.body.pull.has_model = replica_.has_model();
  message.body.pull.version = replica_.version();
  message.body.pull.digest = replica_.has_model() ? replica_.digest() : 0;
  return message;
}

DeviceMessage FuzzDevice::refusal() const {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_task_refused_tag;
  message.body.task_refused.task_sequence = task_.task_sequence;
  message.body.task_refused.reason = gs_Reason_REASON_NOT_FINITE;
  return message;
}

void FuzzDevice::make_upload(uint32_t kind) {
  const bool is_scalar = parameters_.stream() == StreamKind::kScalarStream;
  const uint32_t steps =
      kind % 3 == 1 ? 1 + kind % parameters_.local->local_step_count : parameters_.local->local_step_count;
  const uint32_t count =
      is_scalar ? steps * parameters_.local->direction_count : static_cast<uint32_t>(parameters_.model->shape.size());
  std::vector<Real> values(count);
  RandomStream stream({.seed = index_, .version = task_.version, .step = kind});
  constexpr Real kSizes[] = {0x1p-31F, 0x1p-31F, 0x1p-33F, 0x1p-25F, 0x1p60F, 0};
  for (Real& value : values) {
    value = static_cast<Real>(static_cast<int32_t>(stream.next())) * kSizes[kind / 3 % 6];
  }
  std::vector<uint8_t> bytes(encoded_size(parameters_.wire->upload_encoding, count));
  if (encode_values(parameters_.wire->upload_encoding, count, values.data(), bytes.data()) != Status::kOk) {
    std::fill(bytes.begin(), bytes.end(), 0x7f);  // not finite in any encoding of floats
  }
  upload.clear();
  const size_t most = values_per_message(parameters_.wire->upload_encoding);
  for (size_t first = 0; first < count; first += most) {
    upload.push_back(piece(steps, first, count, std::min(most, count - first), bytes));
  }
}

void FuzzDevice::receive(const ServerMessage& message) {
  switch (message.which_body) {
    case gs_ServerMessage_task_tag:
      FUZZ_CHECK(message.body.task.task_sequence >= task_.task_sequence);
      task_ = message.body.task;
      FUZZ_CHECK(!is_truthful || (replica_.version() == task_.version && replica_.digest() == task_.digest));
      break;
    case gs_ServerMessage_log_chunk_tag:
      receive_log(message.body.log_chunk);
      break;
    case gs_ServerMessage_snapshot_chunk_tag:
      receive_snapshot(message.body.snapshot_chunk);
      break;
    default:
      break;
  }
}

template <typename Update>
void FuzzDevice::fill_piece(uint32_t steps, size_t first, uint32_t total, size_t count,
                            const std::vector<uint8_t>& bytes, Update& out) const {
  const Encoding encoding = parameters_.wire->upload_encoding;
  out.task_sequence = task_.task_sequence;
  out.base_version = task_.version;
  out.steps_done = steps;
  out.encoding = static_cast<gs_Encoding>(encoding);
  out.first_value = static_cast<uint32_t>(first);
  out.value_count = total;
  out.crc32c = crc32c(0, bytes.data(), bytes.size());
  out.values.size = static_cast<pb_size_t>(encoded_size(encoding, count));
  std::memcpy(out.values.bytes, bytes.data() + encoded_size(encoding, first), out.values.size);
}

DeviceMessage FuzzDevice::piece(uint32_t steps, size_t first, uint32_t total, size_t count,
                                const std::vector<uint8_t>& bytes) const {
  DeviceMessage message = {};
  if (parameters_.stream() == StreamKind::kScalarStream) {
    message.which_body = gs_DeviceMessage_update_scalars_tag;
    message.body.update_scalars.direction_count = parameters_.local->direction_count;
    fill_piece(steps, first, total, count, bytes, message.body.update_scalars);
  } else {
    message.which_body = gs_DeviceMessage_update_tangent_tag;
    fill_piece(steps, first, total, count, bytes, message.body.update_tangent);
  }
  return message;
}

void FuzzDevice::receive_log(const gs_LogChunk& chunk) {
  if (!is_truthful) {
    return;
  }
  FUZZ_CHECK(replica_.has_model() && chunk.version == replica_.version() + 1);
  if (chunk.block_index == 0 && chunk.first_value == 0) {
    FUZZ_CHECK(replica_.begin_record() == Status::kOk);
  }
  const Encoding encoding = static_cast<Encoding>(chunk.encoding);
  std::vector<Real> values(piece_value_count(encoding, chunk.values.size));
  FUZZ_CHECK(decode_values(encoding, values.size(), chunk.values.bytes, chunk.values.size, values.data()) ==
             Status::kOk);
  FUZZ_CHECK(replica_.add_to_record(direction_spec(parameters_, chunk.base_version, chunk.owner), chunk.first_value,
                                    static_cast<uint32_t>(values.size()), values.data(), memory_.arena) == Status::kOk);
  if (chunk.block_index + 1 == chunk.block_count && chunk.first_value + values.size() == chunk.value_count) {
    FUZZ_CHECK(replica_.finish_record(parameters_.local->direction_count, chunk.step_scale, memory_.arena) ==
               Status::kOk);
    FUZZ_CHECK(replica_.digest() == chunk.digest);
  }
}

void FuzzDevice::receive_snapshot(const gs_SnapshotChunk& chunk) {
  FUZZ_CHECK(chunk.total == 4 * parameters_.model->shape.size());
  std::memcpy(reinterpret_cast<uint8_t*>(replica_.begin_snapshot()) + chunk.offset, chunk.values.bytes,
              chunk.values.size);
  if (chunk.offset + chunk.values.size == chunk.total) {
    replica_.adopt_snapshot(chunk.version);
    FUZZ_CHECK(replica_.digest() == chunk.digest);
  }
}

}  // namespace gradstream::testing
