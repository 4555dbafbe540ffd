#include "server/journal/update_notes.h"

#include <bit>
#include <cmath>

#include "runtime/base/config.h"

namespace gradstream {
namespace {

constexpr uint8_t kHasLine = 1;
constexpr uint8_t kHasEvaluation = 2;
constexpr uint8_t kHidesLosses = 4;

void append_word(uint32_t word, std::vector<uint8_t>* out) {
  for (int shift = 0; shift < 32; shift += 8) {
    out->push_back(static_cast<uint8_t>(word >> shift));
  }
}

void append_float(float value, std::vector<uint8_t>* out) { append_word(std::bit_cast<uint32_t>(value), out); }

uint32_t take_word(std::span<const uint8_t>* bytes) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) {
    word |= uint32_t{(*bytes)[i]} << (8 * i);
  }
  *bytes = bytes->subspan(4);
  return word;
}

float take_float(std::span<const uint8_t>* bytes) { return std::bit_cast<float>(take_word(bytes)); }

}  // namespace

bool is_sound(const UpdateLine& line) { return std::isfinite(line.slope) && std::isfinite(line.curvature); }

bool is_sound(const UpdateEvaluation& evaluation) {
  return evaluation.sample_count >= 1 && evaluation.sample_count <= kSampleCountMax && std::isfinite(evaluation.loss) &&
         std::isfinite(evaluation.metric);
}

std::vector<uint8_t> encode_notes(const UpdateNotes& notes) {
  std::vector<uint8_t> bytes;
  if (notes == UpdateNotes()) {
    return bytes;
  }
  bytes.push_back(static_cast<uint8_t>((notes.line ? kHasLine : 0) | (notes.evaluation ? kHasEvaluation : 0) |
                                       (notes.hides_losses ? kHidesLosses : 0)));
  if (notes.line) {
    GS_ASSERT(is_sound(*notes.line));
    append_float(notes.line->slope, &bytes);
    append_float(notes.line->curvature, &bytes);
  }
  if (notes.evaluation) {
    GS_ASSERT(is_sound(*notes.evaluation));
    append_word(notes.evaluation->sample_count, &bytes);
    append_float(notes.evaluation->loss, &bytes);
    append_float(notes.evaluation->metric, &bytes);
  }
  return bytes;
}

Status decode_notes(std::span<const uint8_t> bytes, UpdateNotes* out) {
  *out = UpdateNotes();
  if (bytes.empty()) {
    return Status::kOk;
  }
  const uint8_t parts = bytes[0];
  const bool has_line = (parts & kHasLine) != 0;
  const bool has_evaluation = (parts & kHasEvaluation) != 0;
  const size_t size = 1 + (has_line ? 8U : 0U) + (has_evaluation ? 12U : 0U);
  if (parts == 0 || (parts & ~(kHasLine | kHasEvaluation | kHidesLosses)) != 0 || bytes.size() != size) {
    return Status::kDataCorrupt;
  }
  bytes = bytes.subspan(1);
  UpdateNotes notes;
  notes.hides_losses = (parts & kHidesLosses) != 0;
  if (has_line) {
    const float slope = take_float(&bytes);
    notes.line = UpdateLine{slope, take_float(&bytes)};
  }
  if (has_evaluation) {
    const uint32_t sample_count = take_word(&bytes);
    const float loss = take_float(&bytes);
    notes.evaluation = UpdateEvaluation{sample_count, loss, take_float(&bytes)};
  }
  if ((has_line && !is_sound(*notes.line)) || (has_evaluation && !is_sound(*notes.evaluation))) {
    return Status::kDataCorrupt;
  }
  *out = notes;
  return Status::kOk;
}

}  // namespace gradstream
