// Reads a record: the pieces that lead a replica from one version to the next, as they come from the server.
#ifndef GRADSTREAM_RUNTIME_LINK_CLIENT_RECORD_H_
#define GRADSTREAM_RUNTIME_LINK_CLIENT_RECORD_H_

#include <cstdint>

#include "runtime/base/arena.h"
#include "runtime/link/client_line.h"
#include "runtime/link/client_run.h"
#include "runtime/training/lean.h"
#include "runtime/wire/codec.h"

namespace gradstream {

// Invariants:
// - A record is open from its first piece to close(). Its pieces come in order: block by block, value by value.
// - What all pieces say of the record, and all pieces of a block of that block, they say alike.
// - Until the last piece the replica's model stays, but for the mean of a memory after the step.
// - Memory of the arena is taken for a record only while it is open, and only in a run with a lean form.
class RecordReader {
 public:
  bool is_open() const { return is_open_; }

  // Takes the next piece; the first one opens the record. It leads to the version after the replica's, and the run has
  // a scalar stream.
  // - kOk: it was the last one. The model is that of the next version, and the record still open for sum().
  // - kUnfinished: more pieces are to come.
  // - kOutOfMemory in a run with a lean form: there is no memory to keep the record. Its rest is of no use here.
  // - kDataCorrupt: pieces that contradict each other, or values that no encoder makes.
  // - Codes of Replica and LeanForm: the record cannot be applied.
  // On an error the record is of no use any more: close it.
  // line: if it is open, it gets the point half way; not in a run with a mean. Null: there is none.
  Status take(const gs_LogChunk& chunk, RunModel& run, Arena& arena, LineTracker* line = nullptr);
  // After kOk, in a run without a mean: the sum of the record, as Replica::record_sum(). Where the replica has none it
  // is made in `out`, which has room for a tensor.
  const Real* sum(const RunModel& run, Real* out) const;
  // Gives up the record that is open, if any, and its memory.
  void close(Arena& arena);

 private:
  Status open(const gs_LogChunk& chunk, RunModel& run, Arena& arena);
  Status check_block(const gs_LogChunk& chunk, uint32_t direction_count);
  Status add_values(const gs_LogChunk& chunk, RunModel& run, Arena& arena);
  Status add_words(const gs_LogChunk& chunk, RunModel& run, Arena& arena);
  Status add(const DirectionSpec& directions, uint32_t count, const Real* values, RunModel& run, Arena& arena);
  Status take_exact_step(RunModel& run, Arena& arena) const;
  Status finish(RunModel& run, Arena& arena, LineTracker* line) const;
  void fill_half(const RunModel& run, LineTracker& line, Arena& arena) const;

  uint32_t block_index_ = 0;
  uint32_t block_count_ = 0;
  uint32_t first_value_ = 0;  // that comes next in the block
  uint32_t value_count_ = 0;  // of the block
  uint32_t base_version_ = 0;
  uint32_t owner_ = 0;
  Real step_scale_ = 0;
  bool is_open_ = false;
  bool from_zero_ = false;
  bool after_step_ = false;
  KeptRecord* kept_ = nullptr;  // with a lean form; null: no memory for it
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CLIENT_RECORD_H_
