#include "runtime/base/no_contraction.h"

#include "runtime/link/client_record.h"

#include "runtime/base/config.h"
#include "runtime/base/features.h"
#include "runtime/training/encoding.h"

namespace gradstream {

Status RecordReader::take(const gs_LogChunk& chunk, RunModel& run, Arena& arena, LineTracker* line) {
  if (!is_open_) {
    GS_TRY(open(chunk, run, arena));
  }
  if (chunk.block_index != block_index_ || chunk.first_value != first_value_ || chunk.block_count != block_count_ ||
      chunk.step_scale != step_scale_ || chunk.from_zero != from_zero_) {
    return Status::kDataCorrupt;
  }
  GS_TRY(check_block(chunk, run.welcome().direction_count));
  GS_TRY(kHoldsMeans && run.replica().has_mean() ? add_words(chunk, run, arena) : add_values(chunk, run, arena));
  if (first_value_ < value_count_) {
    return Status::kUnfinished;
  }
  first_value_ = 0;
  ++block_index_;
  return block_index_ < block_count_ ? Status::kUnfinished : finish(run, arena, line);
}

Status RecordReader::open(const gs_LogChunk& chunk, RunModel& run, Arena& arena) {
  Replica& replica = run.replica();
  const LeanForm* const lean = run.lean();
  if (lean == nullptr) {
    GS_TRY(kHoldsMeans && replica.has_mean() ? replica.begin_exact_record(chunk.from_zero) : replica.begin_record());
  }
  *this = RecordReader();
  is_open_ = true;
  block_count_ = chunk.block_count;
  step_scale_ = chunk.step_scale;
  from_zero_ = chunk.from_zero;
  if (lean != nullptr) {
    const Result<KeptRecord*> kept = lean->begin(arena);
    kept_ = kept.ok() ? kept.value() : nullptr;
  }
  return Status::kOk;
}

// The first piece of a block says what the block is; the others repeat it.
Status RecordReader::check_block(const gs_LogChunk& chunk, uint32_t direction_count) {
  if (chunk.first_value == 0) {
    value_count_ = chunk.value_count;
    base_version_ = chunk.base_version;
    owner_ = chunk.owner;
    if (after_step_ && !chunk.after_step) {
      return Status::kDataCorrupt;
    }
    after_step_ = chunk.after_step;
    const bool whole_steps =
        chunk.value_count % direction_count == 0 && chunk.value_count / direction_count <= kLocalStepCountMax;
    return whole_steps ? Status::kOk : Status::kDataCorrupt;
  }
  const bool same = chunk.value_count == value_count_ && chunk.base_version == base_version_ && chunk.owner == owner_ &&
                    chunk.after_step == after_step_;
  return same ? Status::kOk : Status::kDataCorrupt;
}

// Decodes in blocks that fit a small stack; the sum does not depend on where the values are cut.
Status RecordReader::add_values(const gs_LogChunk& chunk, RunModel& run, Arena& arena) {
  const Encoding encoding = static_cast<Encoding>(chunk.encoding);
  if (encoding == Encoding::kFixed) {
    return Status::kDataCorrupt;
  }
  const size_t count = piece_value_count(encoding, chunk.values.size);
  DirectionSpec directions = run.directions(chunk.base_version);
  directions.owner = chunk.owner;
  Real values[kInt8BlockSize];
  for (size_t done = 0; done < count; done += kInt8BlockSize) {
    const size_t size = count - done < kInt8BlockSize ? count - done : kInt8BlockSize;
    GS_TRY(decode_values(encoding, size, chunk.values.bytes + encoded_size(encoding, done),
                         encoded_size(encoding, size), values));
    GS_TRY(add(directions, static_cast<uint32_t>(size), values, run, arena));
    first_value_ += static_cast<uint32_t>(size);
  }
  return Status::kOk;
}

Status RecordReader::add(const DirectionSpec& directions, uint32_t count, const Real* values, RunModel& run,
                         Arena& arena) {
  const LeanForm* const lean = run.lean();
  if (lean == nullptr) {
    return run.replica().add_to_record(directions, first_value_, count, values, arena);
  }
  return kept_ == nullptr ? Status::kOutOfMemory
                          : lean->keep(*kept_, directions, first_value_, count, value_count_, values, arena);
}

// As add_values, for the whole coefficients of the memory form.
Status RecordReader::add_words(const gs_LogChunk& chunk, RunModel& run, Arena& arena) {
  if (chunk.encoding != gs_Encoding_ENCODING_FIXED) {
    return Status::kDataCorrupt;
  }
  Replica& replica = run.replica();
  if (chunk.after_step && !replica.has_taken_step()) {
    GS_TRY(take_exact_step(run, arena));
  }
  const size_t count = piece_value_count(Encoding::kFixed, chunk.values.size);
  DirectionSpec directions = run.directions(chunk.base_version);
  directions.owner = chunk.owner;
  FixedWord words[kInt8BlockSize];
  for (size_t done = 0; done < count; done += kInt8BlockSize) {
    const size_t size = count - done < kInt8BlockSize ? count - done : kInt8BlockSize;
    load_words(size, chunk.values.bytes + encoded_size(Encoding::kFixed, done), words);
    GS_TRY(replica.add_exact(directions, first_value_, static_cast<uint32_t>(size), words));
    first_value_ += static_cast<uint32_t>(size);
  }
  return Status::kOk;
}

Status RecordReader::take_exact_step(RunModel& run, Arena& arena) const {
  const gs_Welcome& welcome = run.welcome();
  return run.replica().take_exact_step(welcome.direction_count, step_scale_, welcome.fold_scale_log2, arena);
}

// P_M(X - a/2 d), where the record leads to P_M(X - a d).
void RecordReader::fill_half(const RunModel& run, LineTracker& line, Arena& arena) const {
  Real* const half = line.half();
  if (half == nullptr) {
    return;
  }
  const Real* const record_sum = sum(run, half);
  const Real step = step_scale_ * estimate_factor(run.shape(), run.welcome().direction_count);
  if (run.replica().gradient_step(record_sum, step * static_cast<Real>(0.5), half, arena) == Status::kOk) {
    line.set_half();
  } else {
    line.cancel();
  }
}

Status RecordReader::finish(RunModel& run, Arena& arena, LineTracker* line) const {
  Replica& replica = run.replica();
  if (kHoldsMeans && replica.has_mean()) {
    if (!replica.has_taken_step()) {
      GS_TRY(take_exact_step(run, arena));
    }
    return replica.finish_exact_record();
  }
  if (kTakesUnits && line != nullptr) {
    fill_half(run, *line, arena);
  }
  const LeanForm* const lean = run.lean();
  const uint32_t direction_count = run.welcome().direction_count;
  return lean == nullptr ? replica.finish_record(direction_count, step_scale_, arena)
                         : lean->step(*kept_, replica, direction_count, step_scale_, arena);
}

const Real* RecordReader::sum(const RunModel& run, Real* out) const {
  const LeanForm* const lean = run.lean();
  if (lean == nullptr) {
    return run.replica().record_sum();
  }
  lean->fill_sum(*kept_, run.shape(), out);
  return out;
}

void RecordReader::close(Arena& arena) {
  if (kLinksLeanForm && is_open_ && kept_ != nullptr) {
    arena.release(kept_->mark);
  }
  is_open_ = false;
}

}  // namespace gradstream
