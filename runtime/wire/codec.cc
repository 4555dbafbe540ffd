#include "runtime/base/no_contraction.h"

#include "runtime/wire/codec.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include <pb_decode.h>
#include <pb_encode.h>

#include "runtime/base/config.h"
#include "runtime/training/task.h"
#include "runtime/wire/frame.h"
#include "runtime/wire/run_fields.h"

namespace gradstream {
namespace {

static_assert(gs_DeviceMessage_size <= kMessageSizeMax && gs_ServerMessage_size <= kMessageSizeMax,
              "the largest message must fit one frame");
static_assert(sizeof(gs_UpdateScalars{}.values.bytes) == kPayloadSizeMax &&
                  sizeof(gs_UpdateTangent{}.values.bytes) == kPayloadSizeMax &&
                  sizeof(gs_LogChunk{}.values.bytes) == kPayloadSizeMax &&
                  sizeof(gs_SnapshotChunk{}.values.bytes) == kPayloadSizeMax,
              "gradstream.options repeats kPayloadSizeMax");
static_assert(sizeof(gs_Task{}.problem) == kProblemNameSizeMax + 1, "gradstream.options repeats kProblemNameSizeMax");
static_assert(sizeof(gs_Task{}.batch_sizes) == 4 * kBatchScheduleMax, "gradstream.options repeats kBatchScheduleMax");

// Values of an enum of the runtime and of the wire are the same numbers.
static_assert(_gs_Manifold_MAX == static_cast<int>(ManifoldId::kProduct));
static_assert(_gs_Retraction_MAX == static_cast<int>(RetractionKind::kPolarFormal));
static_assert(_gs_Transport_MAX == static_cast<int>(TransportKind::kUnaligned));
static_assert(_gs_Solver_MAX == static_cast<int>(SolverId::kCurve));
static_assert(_gs_Estimator_MAX == static_cast<int>(EstimatorId::kProjectionTangent));
static_assert(_gs_BarzilaiBorwein_MAX == static_cast<int>(BarzilaiBorwein::kSecond));
static_assert(_gs_ModelPart_MAX == static_cast<int>(ModelPart::kDirection));
static_assert(_gs_Stage_MAX == static_cast<int>(TaskStage::kTrials));
static_assert(_gs_Directions_MAX == static_cast<int>(DirectionKind::kSphere));
static_assert(_gs_BatchMode_MAX == static_cast<int>(BatchMode::kPerDirection));
static_assert(_gs_Encoding_MAX == static_cast<int>(Encoding::kWords));
static_assert(_gs_StreamKind_MAX == static_cast<int>(StreamKind::kTangentBlock));
static_assert(_gs_ProximalForm_MAX == static_cast<int>(ProximalForm::kDistance));

// Of enum Reason, in its order; null for numbers that have no meaning yet.
constexpr const char* kReasonNames[] = {"none",
                                        "protocol_version",
                                        "unknown_run",
                                        "malformed",
                                        "unexpected_message",
                                        "wrong_shape",
                                        "wrong_version",
                                        "wrong_encoding",
                                        "not_finite",
                                        "out_of_range",
                                        "too_few_steps",
                                        "too_stale",
                                        "corrupt",
                                        "unknown_task",
                                        "task_unimplemented",
                                        "newer_session",
                                        "revoked",
                                        "deadline",
                                        "overloaded",
                                        "out_of_memory",
                                        "storage",
                                        "singular",
                                        "older_update",
                                        "no_time",
                                        "rate_limit",
                                        "claim_used",
                                        "claim_ended",
                                        "inactive",
                                        "privacy",
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        "units_refused",
                                        "wrong_network"};
static_assert(sizeof(kReasonNames) / sizeof(kReasonNames[0]) == _gs_Reason_ARRAYSIZE);

constexpr const char* kFloorNames[] = {"none",     "batch_size", "local_steps", "scalars_per_sample",
                                       "tangents", "unit_sums",  "trial_steps"};
static_assert(sizeof(kFloorNames) / sizeof(kFloorNames[0]) == _gs_Floor_ARRAYSIZE);

Result<size_t> encode_any(const pb_msgdesc_t* fields, const void* message, uint8_t* out) {
  pb_ostream_t stream = pb_ostream_from_buffer(out + kFramePrefixSize, kMessageSizeMax);
  if (!pb_encode(&stream, fields, message) || stream.bytes_written == 0) {
    return Status::kInvalidArgument;
  }
  write_frame_prefix(stream.bytes_written, out);
  return kFramePrefixSize + stream.bytes_written;
}

// ---- One check for each thing that can be wrong; all of a message's are joined by check_all ----

Status corrupt_unless(bool holds) { return holds ? Status::kOk : Status::kDataCorrupt; }

// A wire enum holds whatever number the peer sent. It is read as that number first: loading it as an enum is undefined
// for a value that no enumerator has.
template <typename Enum>
Status known(const Enum& field, int max, int min = 0) {
  std::underlying_type_t<Enum> raw;
  std::memcpy(&raw, &field, sizeof(raw));
  const auto value = static_cast<int64_t>(raw);
  return corrupt_unless(value >= min && value <= max);
}

// The greatest value of an enum that stands in a list of fields.
constexpr int greatest(gs_Manifold) { return _gs_Manifold_MAX; }
constexpr int greatest(gs_Retraction) { return _gs_Retraction_MAX; }
constexpr int greatest(gs_Transport) { return _gs_Transport_MAX; }
constexpr int greatest(gs_StreamKind) { return _gs_StreamKind_MAX; }
constexpr int greatest(gs_Directions) { return _gs_Directions_MAX; }
constexpr int greatest(gs_Correction) { return _gs_Correction_MAX; }
constexpr int greatest(gs_Solver) { return _gs_Solver_MAX; }
constexpr int greatest(gs_Estimator) { return _gs_Estimator_MAX; }
constexpr int greatest(gs_Encoding) { return _gs_Encoding_MAX; }
constexpr int greatest(gs_BatchMode) { return _gs_BatchMode_MAX; }
constexpr int greatest(gs_BarzilaiBorwein) { return _gs_BarzilaiBorwein_MAX; }
constexpr int greatest(gs_ProximalForm) { return _gs_ProximalForm_MAX; }
constexpr int greatest(gs_Stage) { return _gs_Stage_MAX; }

// What a list of fields tells of each one's type: an enum has a known value, a float is finite. Others have any value.
struct FieldCheck {
  bool is_known = true;
  bool is_finite = true;

  template <typename Field, typename Other>
  void operator()(const Field& field, const Other&) {
    if constexpr (std::is_enum_v<Field>) {
      is_known = is_known && known(field, greatest(Field{})) == Status::kOk;
    } else if constexpr (std::is_floating_point_v<Field>) {
      is_finite = is_finite && std::isfinite(field);
    }
  }
  Status status() const { return !is_known ? Status::kDataCorrupt : is_finite ? Status::kOk : Status::kNotFinite; }
};

Status in_bounds(uint32_t value, uint32_t min, uint32_t max) { return corrupt_unless(value >= min && value <= max); }

Status finite(Real value) { return std::isfinite(value) ? Status::kOk : Status::kNotFinite; }

Status known_reason(const gs_Reason& field) {
  GS_TRY(known(field, _gs_Reason_MAX));
  return corrupt_unless(kReasonNames[field] != nullptr);
}

Status check_window(const gs_RetryWindow& window) { return corrupt_unless(window.min_ms <= window.max_ms); }

// A piece of `size` bytes that begins at value `first` of `total`.
Status check_piece(const gs_Encoding& encoding, uint32_t first, uint32_t total, uint32_t total_max, size_t size) {
  GS_TRY(known(encoding, _gs_Encoding_MAX, gs_ENCODING_F32));
  GS_TRY(in_bounds(total, 1, total_max));
  const uint32_t count = piece_value_count(static_cast<Encoding>(encoding), size);
  GS_TRY(corrupt_unless(count >= 1 && first % kInt8BlockSize == 0 && first < total && count <= total - first));
  return corrupt_unless(first + count == total || count % kInt8BlockSize == 0);
}

// Bits of known parts.
Status known_parts(uint32_t parts, uint32_t others = 0) {
  const uint32_t known_bits = kExtraPartBits | part_bit(ModelPart::kModel) | part_bit(ModelPart::kUnits);
  return corrupt_unless((parts & ~(known_bits | others)) == 0);
}

constexpr uint32_t kTensorSizeMax = kDimensionMax * kDimensionMax;

Status check(const gs_Hello& m) {
  GS_TRY(known(m.reset_cause, _gs_ResetCause_MAX));
  return in_bounds(m.sample_count, 0, kSampleCountMax);
}

// The losses of an update may be anything: the coordinator judges them, and names its reason (docs/wire.md).
Status check(const gs_UpdateScalars& m) {
  GS_TRY(corrupt_unless(m.task_sequence != 0));
  GS_TRY(in_bounds(m.steps_done, 1, kLocalStepCountMax));
  GS_TRY(in_bounds(m.direction_count, 1, kDirectionCountMax));
  GS_TRY(corrupt_unless(m.value_count == m.steps_done * m.direction_count));
  return check_piece(m.encoding, m.first_value, m.value_count, kScalarCountMax, m.values.size);
}

Status check(const gs_UpdateTangent& m) {
  GS_TRY(corrupt_unless(m.task_sequence != 0));
  GS_TRY(in_bounds(m.steps_done, 1, kLocalStepCountMax));
  return check_piece(m.encoding, m.first_value, m.value_count, kTensorSizeMax, m.values.size);
}

Status check(const gs_ManifoldPart& m) {
  GS_TRY(known(m.manifold, _gs_Manifold_MAX));
  GS_TRY(known(m.retraction, _gs_Retraction_MAX));
  GS_TRY(known(m.transport, _gs_Transport_MAX));
  GS_TRY(in_bounds(m.rows, 1, kDimensionMax));
  GS_TRY(in_bounds(m.rank, 0, kFixedRankMax));
  return in_bounds(m.cols, 1, kDimensionMax);
}

Status check(const gs_Welcome& m) {
  for (uint32_t i = 0; i < m.manifold_parts_count; ++i) {
    GS_TRY(check(m.manifold_parts[i]));
  }
  GS_TRY(known(m.run_state, _gs_RunState_MAX));
  FieldCheck fields;
  visit_run_fields(m, m, fields);
  GS_TRY(fields.status());
  GS_TRY(in_bounds(m.rows, 1, m.manifold == gs_MANIFOLD_PRODUCT ? kProductSizeMax : kDimensionMax));
  GS_TRY(in_bounds(m.cols, 1, kDimensionMax));
  GS_TRY(in_bounds(m.fold_scale_log2, 0, kFixedScaleLog2Max));
  GS_TRY(known_parts(m.model_parts));
  return in_bounds(m.direction_count, 0, kDirectionCountMax);
}

Status check(const gs_Task& m) {
  GS_TRY(corrupt_unless(m.task_sequence != 0));
  Task task;  // the other side of the list: nothing is copied
  FieldCheck fields;
  visit_task_fields(m, task, fields);
  return fields.status();
}

Status check(const gs_LogChunk& m) {
  GS_TRY(corrupt_unless(m.block_index < m.block_count && m.base_version < m.version));
  GS_TRY(check_piece(m.encoding, m.first_value, m.value_count, kScalarCountMax, m.values.size));
  return finite(m.step_scale);
}

Status check(const gs_SnapshotChunk& m) {
  GS_TRY(known(m.part, _gs_ModelPart_MAX, gs_MODEL_PART_MODEL));
  GS_TRY(known_parts(m.parts, kTakesUnits ? part_bit(ModelPart::kMean) : 0));
  GS_TRY(corrupt_unless(m.parts == 0 || (m.parts >> static_cast<uint32_t>(m.part) & 1U) != 0));
  GS_TRY(corrupt_unless(m.total % 4 == 0 && m.offset % 4 == 0 && m.values.size % 4 == 0 && m.values.size > 0));
  return corrupt_unless(m.offset < m.total && m.values.size <= m.total - m.offset);
}

Status check(const gs_Ack& m) {
  GS_TRY(known(m.verdict, _gs_Verdict_MAX, gs_VERDICT_FOLDED));
  GS_TRY(known_reason(m.reason));
  GS_TRY(corrupt_unless(m.task_sequence != 0));
  GS_TRY(finite(m.staleness_weight));
  GS_TRY(finite(m.value));
  GS_TRY(finite(m.limit));
  GS_TRY(finite(m.step_size));
  return check_window(m.retry);
}

Status check(const gs_TaskRefused& m) {
  GS_TRY(known_reason(m.reason));
  GS_TRY(known(m.floor, _gs_Floor_MAX));
  GS_TRY(finite(m.value));
  GS_TRY(finite(m.least));
  return finite(m.most);
}

Status check(const gs_Wait& m) {
  GS_TRY(known(m.cause, _gs_WaitCause_MAX));
  return check_window(m.retry);
}

Status check(const gs_Refuse& m) {
  GS_TRY(known_reason(m.reason));
  return check_window(m.retry);
}

Status check_body(const DeviceMessage& message) {
  switch (message.which_body) {
    case gs_DeviceMessage_hello_tag:
      return check(message.body.hello);
    case gs_DeviceMessage_update_scalars_tag:
      return check(message.body.update_scalars);
    case gs_DeviceMessage_update_tangent_tag:
      return check(message.body.update_tangent);
    case gs_DeviceMessage_task_refused_tag:
      return check(message.body.task_refused);
    case gs_DeviceMessage_pull_tag:
    case gs_DeviceMessage_status_report_tag:
      return Status::kOk;
    default:
      return Status::kDataCorrupt;
  }
}

Status check_body(const ServerMessage& message) {
  switch (message.which_body) {
    case gs_ServerMessage_welcome_tag:
      return check(message.body.welcome);
    case gs_ServerMessage_task_tag:
      return check(message.body.task);
    case gs_ServerMessage_log_chunk_tag:
      return check(message.body.log_chunk);
    case gs_ServerMessage_snapshot_chunk_tag:
      return check(message.body.snapshot_chunk);
    case gs_ServerMessage_ack_tag:
      return check(message.body.ack);
    case gs_ServerMessage_wait_tag:
      return check(message.body.wait);
    case gs_ServerMessage_refuse_tag:
      return check(message.body.refuse);
    case gs_ServerMessage_drain_tag:
      return check_window(message.body.drain.retry);
    default:
      return Status::kDataCorrupt;
  }
}

template <typename Message>
Status decode_any(const pb_msgdesc_t* fields, std::span<const uint8_t> payload, Message* out) {
  std::memset(out, 0, sizeof(*out));  // a submessage that is absent must read as zeros
  pb_istream_t stream = pb_istream_from_buffer(payload.data(), payload.size());
  if (payload.size() > kMessageSizeMax || !pb_decode(&stream, fields, out)) {
    return Status::kDataCorrupt;
  }
  return check_body(*out);
}

}  // namespace

bool is_reason(gs_Reason reason) {
  return static_cast<size_t>(reason) < _gs_Reason_ARRAYSIZE && kReasonNames[reason] != nullptr;
}

const char* reason_name(gs_Reason reason) { return is_reason(reason) ? kReasonNames[reason] : "unknown"; }

const char* floor_name(gs_Floor floor) {
  return static_cast<size_t>(floor) < _gs_Floor_ARRAYSIZE ? kFloorNames[floor] : "unknown";
}

Result<size_t> encode_frame(const DeviceMessage& message, uint8_t* out) {
  return encode_any(gs_DeviceMessage_fields, &message, out);
}

Result<size_t> encode_frame(const ServerMessage& message, uint8_t* out) {
  return encode_any(gs_ServerMessage_fields, &message, out);
}

Status decode_message(std::span<const uint8_t> payload, DeviceMessage* out) {
  return decode_any(gs_DeviceMessage_fields, payload, out);
}

Status decode_message(std::span<const uint8_t> payload, ServerMessage* out) {
  return decode_any(gs_ServerMessage_fields, payload, out);
}

uint32_t piece_value_count(Encoding encoding, size_t size) {
  if (size > kPayloadSizeMax || encoded_size(encoding, 1) == 0) {
    return 0;
  }
  const size_t block_size = encoded_size(encoding, kInt8BlockSize);
  // Bytes of the last, shorter block beyond what an encoding spends on every block: the scale of int8, else nothing.
  const size_t head_size = block_size - kInt8BlockSize * (encoded_size(encoding, 2) - encoded_size(encoding, 1));
  const size_t value_size = encoded_size(encoding, 2) - encoded_size(encoding, 1);
  const size_t rest = size % block_size;
  if (rest != 0 && (rest <= head_size || (rest - head_size) % value_size != 0)) {
    return 0;
  }
  const size_t rest_count = rest == 0 ? 0 : (rest - head_size) / value_size;
  return static_cast<uint32_t>(size / block_size * kInt8BlockSize + rest_count);
}

}  // namespace gradstream
