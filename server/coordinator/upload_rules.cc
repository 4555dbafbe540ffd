#include "server/coordinator/upload_rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/crc32c.h"
#include "runtime/training/encoding.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/trigger.h"
#include "server/run/weights.h"
#include "server/run/work.h"

namespace gradstream {
namespace {

// What one local step of the upload took: by the device's own clock, or where it does not say, at most. 0: not known.
uint32_t measured_step_us(const DeviceRow& row, const Upload& upload, uint64_t now_ms) {
  const uint64_t issued_ms = row.task.issued_ms;
  if (upload.step_time_us > 0 || upload.steps_done == 0 || now_ms <= issued_ms) {
    return upload.step_time_us;
  }
  return static_cast<uint32_t>(std::min<uint64_t>((now_ms - issued_ms) * 1000 / upload.steps_done, UINT32_MAX));
}

// Of an upload that is not of the open version. What a stage before training asked for is of no use once it is closed.
bool is_too_stale(const RunView& run, const Upload& upload) {
  const uint32_t staleness = run.version - upload.base_version;
  return is_too_stale(*run.parameters.trigger, staleness) || (staleness > 0 && upload.base_version < run.train_version);
}

// What was made from another model than the version's, by damage or for another run, is no update of it, and no answer
// to a stage of it. The device's next Pull says that digest too, and is answered by a snapshot.
bool is_of_base(const RunView& run, const Upload& upload, std::optional<uint64_t> known) {
  const uint64_t said = said_base(run.identity.run_nonce, upload, known);
  return upload.base_digest == 0 || said == known.value_or(said);
}

bool has_its_shape(const RunView& run, const DeviceRow& row, const Upload& upload) {
  const RunParameters& parameters = run.parameters;
  const bool is_scalar = parameters.stream() == StreamKind::kScalarStream;
  const uint32_t direction_count = parameters.local->direction_count;
  const size_t value_count =
      is_scalar ? static_cast<size_t>(upload.steps_done) * direction_count : parameters.value_count();
  return upload.kind == parameters.stream() && !upload.is_oversize && upload.value_count == value_count &&
         upload.steps_done <= row.task.steps && (!is_scalar || upload.direction_count == direction_count);
}

bool is_whole(const Upload& upload) { return crc32c(0, upload.bytes.data(), upload.bytes.size()) == upload.crc32c; }

}  // namespace

UploadStart begin_upload(const RunView& run, const DeviceRow& row, uint32_t task_sequence, bool is_limited) {
  if (is_limited) {
    return {UploadCourse::kLimited, gs_Verdict_VERDICT_TRY_LATER, gs_Reason_REASON_RATE_LIMIT};
  }
  switch (sequence_state(row, task_sequence)) {
    case SequenceState::kUnknown:
      return {UploadCourse::kUnknown, gs_Verdict_VERDICT_REFUSED, gs_Reason_REASON_UNKNOWN_TASK};
    case SequenceState::kSuperseded:
      // A crash before these are durable would make the older task the last one again, with a verdict of its own.
      return {UploadCourse::kSuperseded, gs_Verdict_VERDICT_SUPERSEDED, gs_Reason_REASON_NONE,
              std::max(row.task.record_sequence, row.judged.record_sequence)};
    case SequenceState::kJudged:
      return {UploadCourse::kKnown};
    case SequenceState::kOpen:
      break;
  }
  if (run.is_storage_failed) {
    return {UploadCourse::kUnstored, gs_Verdict_VERDICT_TRY_LATER, gs_Reason_REASON_STORAGE};
  }
  if (is_version_full(run)) {
    return {UploadCourse::kFull, gs_Verdict_VERDICT_TRY_LATER, gs_Reason_REASON_NONE};
  }
  return {};
}

bool is_version_full(const RunView& run) {
  const RunParameters& parameters = run.parameters;
  const bool is_single = parameters.delay->delay_rule != DelayRule::kNone && parameters.trigger->buffer_size == 1;
  return run.update_count >= update_count_max(parameters, has_own_answers(run.stage)) ||
         (run.is_paused() && is_single && run.update_count > 0);
}

uint64_t said_base(uint64_t run_nonce, const Upload& upload, std::optional<uint64_t> known) {
  return known && upload.base_digest == (*known ^ run_nonce) ? *known : upload.base_digest;
}

bool has_finite_loss(const Upload& upload) {
  return std::isfinite(upload.loss_before) && std::isfinite(upload.loss_after);
}

gs_Reason reason_of(Status status) {
  switch (status) {
    case Status::kOk:
      return gs_Reason_REASON_NONE;
    case Status::kNotFinite:
      return gs_Reason_REASON_NOT_FINITE;
    case Status::kOutOfRange:
      return gs_Reason_REASON_OUT_OF_RANGE;
    case Status::kSingular:
      return gs_Reason_REASON_TOO_STALE;
    case Status::kInvalidArgument:
      return gs_Reason_REASON_WRONG_SHAPE;
    case Status::kProtocolError:
      return gs_Reason_REASON_OLDER_UPDATE;
    default:
      return gs_Reason_REASON_MALFORMED;
  }
}

gs_Reason find_head_fault(const RunView& run, const DeviceRow& row, const Upload& upload, std::optional<uint64_t> known,
                          uint64_t now_ms) {
  const RunParameters& parameters = run.parameters;
  if (upload.base_version != row.task.version) {
    return gs_Reason_REASON_WRONG_VERSION;
  }
  if (run.is_over()) {
    return gs_Reason_REASON_UNKNOWN_RUN;
  }
  // Before its numbers: what an older version asked for may have been another phase's.
  if (is_too_stale(run, upload)) {
    return gs_Reason_REASON_TOO_STALE;
  }
  if (!is_of_base(run, upload, known)) {
    return gs_Reason_REASON_WRONG_VERSION;
  }
  if (upload.encoding != parameters.wire->upload_encoding) {
    return gs_Reason_REASON_WRONG_ENCODING;
  }
  if (!has_its_shape(run, row, upload)) {
    return gs_Reason_REASON_WRONG_SHAPE;
  }
  if (upload.steps_done < run.steps_min) {
    return gs_Reason_REASON_TOO_FEW_STEPS;
  }
  // A clock that was set back between two lives of the server proves nothing.
  const bool is_timed = now_ms >= row.task.issued_ms;
  if (is_timed &&
      !had_time_for(*parameters.trigger, upload.steps_done, upload.step_time_us, now_ms - row.task.issued_ms)) {
    return gs_Reason_REASON_NO_TIME;
  }
  if (!has_finite_loss(upload)) {
    return gs_Reason_REASON_NOT_FINITE;
  }
  return is_whole(upload) ? gs_Reason_REASON_NONE : gs_Reason_REASON_CORRUPT;
}

gs_Reason find_answer_fault(const RunView& run, const DeviceRow& row, const Upload& upload,
                            std::optional<uint64_t> known) {
  if (upload.base_version != row.task.version) {
    return gs_Reason_REASON_WRONG_VERSION;
  }
  if (run.is_over()) {
    return gs_Reason_REASON_UNKNOWN_RUN;
  }
  if (upload.base_version != run.version) {
    return gs_Reason_REASON_TOO_STALE;
  }
  if (!is_of_base(run, upload, known)) {
    return gs_Reason_REASON_WRONG_VERSION;
  }
  if (upload.encoding != answer_encoding(run.stage)) {
    return gs_Reason_REASON_WRONG_ENCODING;
  }
  if (upload.kind != StreamKind::kTangentBlock || upload.is_oversize || upload.steps_done != 1 ||
      upload.bytes.size() != encoded_size(upload.encoding, upload.value_count)) {
    return gs_Reason_REASON_WRONG_SHAPE;
  }
  return is_whole(upload) ? gs_Reason_REASON_NONE : gs_Reason_REASON_CORRUPT;
}

gs_Reason decode_upload(const Upload& upload, std::vector<Real>* values) {
  values->resize(upload.value_count);
  return reason_of(
      decode_values(upload.encoding, upload.value_count, upload.bytes.data(), upload.bytes.size(), values->data()));
}

FoldInput fold_input(const RunView& run, uint32_t device, const DeviceRow& row, uint32_t sample_count,
                     const Upload& upload, std::span<const Real> values) {
  FoldInput input;
  input.owner = run.parameters.owner_of(device);
  input.base_version = upload.base_version;
  input.steps_done = upload.steps_done;
  input.weight = fold_weight(run.parameters, sample_count, run.version - upload.base_version);
  input.values = values;
  input.device = device;
  input.sample_count = row.task.samples;
  return input;
}

KeptNotes keep_notes(const UpdateNotes& said, QualityMetric metric, const DeviceImage& image) {
  KeptNotes kept = {.notes = said};
  if (said.line && !is_sound(*said.line)) {
    kept.notes.line.reset();
    kept.drops_line = true;
  }
  if (said.evaluation && (!is_sound(*said.evaluation) || !is_possible(metric, *said.evaluation))) {
    kept.notes.evaluation.reset();
    kept.drops_evaluation = true;
  }
  kept.notes.hides_losses = has_feature(image, gs_Feature_FEATURE_NO_LOSSES);
  return kept;
}

UpdateAccepted accepted_update(const RunView& run, const DeviceRow& row, const Upload& upload, const FoldInput& input,
                               const UpdateNotes& notes, uint64_t now_ms) {
  std::vector<uint8_t> values(encoded_size(kRealEncoding, input.values.size()));
  const Status status = encode_values(kRealEncoding, input.values.size(), input.values.data(), values.data());
  GS_ASSERT(status == Status::kOk);
  const bool is_late = upload.base_version < run.version;
  return {.device = input.device,
          .task_sequence = upload.task_sequence,
          .base_version = upload.base_version,
          .version = run.version + 1,
          .steps_done = upload.steps_done,
          .weight = input.weight,
          .verdict = is_late ? gs_Verdict_VERDICT_LATE : gs_Verdict_VERDICT_FOLDED,
          .inverse_participation = input.inverse_participation,
          .step_time_us = measured_step_us(row, upload, now_ms),
          .loss_before = notes.hides_losses ? 0 : upload.loss_before,
          .loss_after = notes.hides_losses ? 0 : upload.loss_after,
          .values = std::move(values),
          .notes = notes};
}

UpdateAccepted accepted_answer(const RunView& run, uint32_t device, uint16_t weight, const Upload& upload) {
  return {.device = device,
          .task_sequence = upload.task_sequence,
          .base_version = upload.base_version,
          .version = run.version + 1,
          .steps_done = upload.steps_done,
          .weight = weight,
          .verdict = gs_Verdict_VERDICT_FOLDED,
          .values = upload.bytes};
}

uint32_t refused_step_us(const RunView& run, const DeviceRow& row, const Upload& upload, gs_Reason reason,
                         uint64_t now_ms) {
  const uint32_t step_us = measured_step_us(row, upload, now_ms);
  const bool is_measured =
      reason == gs_Reason_REASON_TOO_STALE &&
      had_time_for(*run.parameters.trigger, upload.steps_done, step_us, now_ms - std::min(now_ms, row.task.issued_ms));
  return is_measured ? step_us : 0;
}

JudgedAck judged_ack(const DeviceRow& row, const DeviceSession& session, uint32_t task_sequence, bool is_duplicate) {
  const JudgedTask& judged = judged_task(row, task_sequence);
  JudgedAck out;
  out.ack.task_sequence = judged.task_sequence;
  out.ack.verdict = judged.verdict;
  out.ack.reason = judged.reason;
  out.ack.duplicate = is_duplicate;
  out.ack.version = judged.version;
  out.ack.staleness_weight = judged.staleness_weight;
  out.required = judged.record_sequence;
  // Who only came too late did nothing wrong. A longer wait would make it miss the next version too.
  const bool is_only_late = judged.reason == gs_Reason_REASON_TOO_STALE;
  const bool is_refused = judged.verdict == gs_Verdict_VERDICT_REFUSED;
  out.is_long_wait = is_refused && !is_only_late;
  const Complaint& complaint = session.refusals.complaint;
  if (is_refused && complaint.has_value() && complaint.task_sequence == task_sequence) {
    out.ack.value = complaint.value;
    out.ack.limit = complaint.most;
    out.ack.fold_scale_log2 = complaint.fold_scale_log2;
    out.ack.step_size = complaint.step_size;
  }
  return out;
}

}  // namespace gradstream
