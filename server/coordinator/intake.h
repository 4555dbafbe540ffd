// Puts the pieces of an upload together, one upload at a time for each session. Memory: one complete upload of the run.
#ifndef GRADSTREAM_SERVER_COORDINATOR_INTAKE_H_
#define GRADSTREAM_SERVER_COORDINATOR_INTAKE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/training/stream.h"
#include "runtime/wire/codec.h"
#include "server/journal/update_notes.h"

namespace gradstream {

// A complete upload as received; nothing in it is judged but the order of its pieces.
struct Upload {
  StreamKind kind = StreamKind::kNone;
  uint32_t task_sequence = 0;
  uint32_t base_version = 0;
  uint32_t steps_done = 0;
  uint32_t direction_count = 0;  // kScalarStream
  Encoding encoding = Encoding::kNone;
  uint32_t value_count = 0;
  uint32_t crc32c = 0;
  float loss_before = 0;
  float loss_after = 0;
  uint32_t step_time_us = 0;
  uint64_t base_digest = 0;    // of the model held, as the first piece says; 0: it does not
  UpdateNotes notes;           // as the device says them: perhaps no numbers
  bool is_oversize = false;    // more values than any upload of the run has; bytes is empty
  std::vector<uint8_t> bytes;  // encoded values
};

enum class IntakeResult : uint8_t {
  kMore,      // wait for the next piece (or this one was seen before)
  kComplete,  // upload() is whole; the next piece begins another
  kBroken,    // a gap, or a piece at odds with the ones before it: the session cannot go on
};

class Intake {
 public:
  explicit Intake(uint32_t value_count_max) : value_count_max_(value_count_max) {}
  IntakeResult take(const gs_UpdateScalars& piece);
  IntakeResult take(const gs_UpdateTangent& piece);
  const Upload& upload() const { return upload_; }

 private:
  IntakeResult take(const Upload& head, uint32_t first_value, std::span<const uint8_t> bytes);

  uint32_t value_count_max_;
  Upload upload_;
  uint32_t received_count_ = 0;  // values; 0: no upload in progress
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_INTAKE_H_
