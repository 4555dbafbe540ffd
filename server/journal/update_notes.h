// What an update says beside its values: the messages Line and Evaluation of proto/gradstream.proto, where the run asks
// for them, and whether its losses say anything. Each part may be absent. An update without any takes no bytes for
// them.
#ifndef GRADSTREAM_SERVER_JOURNAL_UPDATE_NOTES_H_
#define GRADSTREAM_SERVER_JOURNAL_UPDATE_NOTES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace gradstream {

// Of the device's evaluation samples along the record that led to the base version; in the stage START, how far the
// estimates at mu / 4 (slope) and at 4 mu (curvature) are from that at mu.
struct UpdateLine {
  float slope = 0;
  float curvature = 0;
  friend bool operator==(const UpdateLine&, const UpdateLine&) = default;
};

// Of the base version's model on the samples that the device holds out.
struct UpdateEvaluation {
  uint32_t sample_count = 0;  // 1 .. kSampleCountMax
  float loss = 0;             // mean
  float metric = 0;           // of the problem
  friend bool operator==(const UpdateEvaluation&, const UpdateEvaluation&) = default;
};

struct UpdateNotes {
  std::optional<UpdateLine> line;
  std::optional<UpdateEvaluation> evaluation;
  bool hides_losses = false;  // the device keeps its losses: those of the record are 0, and say nothing
  friend bool operator==(const UpdateNotes&, const UpdateNotes&) = default;
};

// Whether all its numbers are finite and in their ranges: what a journal may hold.
bool is_sound(const UpdateLine& line);
bool is_sound(const UpdateEvaluation& evaluation);

// As a record keeps them: a byte of bits, 0 and 1 for the parts that follow and 2 for hidden losses. Then come slope
// and curvature, then sample count, loss and metric, each 4 bytes, little-endian. Without any bit there is no byte. The
// parts must be sound (GS_ASSERT).
std::vector<uint8_t> encode_notes(const UpdateNotes& notes);
// kDataCorrupt: no such bytes, or a part that is not sound. *out is then empty.
Status decode_notes(std::span<const uint8_t> bytes, UpdateNotes* out);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_JOURNAL_UPDATE_NOTES_H_
