#include "server/coordinator/intake.h"

namespace gradstream {
namespace {

bool is_same_upload(const Upload& a, const Upload& b) {
  return a.kind == b.kind && a.task_sequence == b.task_sequence && a.base_version == b.base_version &&
         a.steps_done == b.steps_done && a.direction_count == b.direction_count && a.encoding == b.encoding &&
         a.value_count == b.value_count && a.crc32c == b.crc32c;
}

template <typename Piece>
UpdateNotes notes_of(const Piece& piece) {
  UpdateNotes notes;
  if (piece.has_line) {
    notes.line = UpdateLine{static_cast<float>(piece.line.slope), static_cast<float>(piece.line.curvature)};
  }
  if (piece.has_evaluation) {
    notes.evaluation = UpdateEvaluation{piece.evaluation.sample_count, static_cast<float>(piece.evaluation.loss),
                                        static_cast<float>(piece.evaluation.metric)};
  }
  return notes;
}

template <typename Piece>
Upload head_of(const Piece& piece, StreamKind kind) {
  Upload head;
  head.kind = kind;
  head.task_sequence = piece.task_sequence;
  head.base_version = piece.base_version;
  head.steps_done = piece.steps_done;
  head.encoding = static_cast<Encoding>(piece.encoding);
  head.value_count = piece.value_count;
  head.crc32c = piece.crc32c;
  head.loss_before = static_cast<float>(piece.loss_before);
  head.loss_after = static_cast<float>(piece.loss_after);
  head.step_time_us = piece.step_time_us;
  head.base_digest = piece.base_digest;
  head.notes = notes_of(piece);
  return head;
}

}  // namespace

IntakeResult Intake::take(const gs_UpdateScalars& piece) {
  Upload head = head_of(piece, StreamKind::kScalarStream);
  head.direction_count = piece.direction_count;
  return take(head, piece.first_value, {piece.values.bytes, piece.values.size});
}

IntakeResult Intake::take(const gs_UpdateTangent& piece) {
  return take(head_of(piece, StreamKind::kTangentBlock), piece.first_value, {piece.values.bytes, piece.values.size});
}

IntakeResult Intake::take(const Upload& head, uint32_t first_value, std::span<const uint8_t> bytes) {
  if (first_value == 0) {
    // Also a second beginning: the device sends the same upload again.
    upload_ = head;
    upload_.is_oversize = head.value_count > value_count_max_;
    received_count_ = 0;
  }
  const uint32_t count = piece_value_count(head.encoding, bytes.size());
  if (!is_same_upload(head, upload_) || count == 0 || count > head.value_count ||
      first_value > head.value_count - count) {
    received_count_ = 0;
    return IntakeResult::kBroken;
  }
  if (received_count_ > 0 && first_value + count <= received_count_) {
    return IntakeResult::kMore;
  }
  if (first_value != received_count_) {
    received_count_ = 0;
    return IntakeResult::kBroken;
  }
  received_count_ += count;
  if (!upload_.is_oversize) {
    upload_.bytes.insert(upload_.bytes.end(), bytes.begin(), bytes.end());
  }
  if (received_count_ < head.value_count) {
    return IntakeResult::kMore;
  }
  received_count_ = 0;
  return IntakeResult::kComplete;
}

}  // namespace gradstream
