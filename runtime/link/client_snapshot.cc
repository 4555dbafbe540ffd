#include "runtime/base/no_contraction.h"

#include "runtime/link/client_snapshot.h"

#include <bit>

#include "runtime/training/encoding.h"

namespace gradstream {

Status SnapshotReader::take(const gs_SnapshotChunk& chunk, Replica* replica) {
  if (chunk.total != sizeof(Real) * static_cast<uint64_t>(replica->shape().size())) {
    return Status::kDataCorrupt;
  }
  const uint32_t usual = part_bit(ModelPart::kModel) | (replica->has_mean() ? part_bit(ModelPart::kMean) : 0);
  const uint32_t parts = chunk.parts == 0 ? usual : chunk.parts;
  if (!is_open_) {
    GS_TRY(open(chunk, parts, *replica));
  }
  if (chunk.version != version_ || chunk.digest != digest_ || parts != parts_ ||
      static_cast<uint32_t>(chunk.part) != part_ || chunk.offset != offset_) {
    return Status::kDataCorrupt;
  }
  GS_TRY(read(chunk, *replica));
  offset_ += chunk.values.size;
  if (offset_ < chunk.total) {
    return Status::kUnfinished;
  }
  offset_ = 0;
  const uint32_t rest = parts_ >> (part_ + 1);
  if (rest != 0) {
    part_ = static_cast<uint8_t>(part_ + 1 + std::countr_zero(rest));
    return Status::kUnfinished;
  }
  is_open_ = false;
  if (had_model()) {
    replica->adopt_snapshot(version_, parts_);
  } else {
    replica->adopt_parts(version_, parts_);
  }
  return Status::kOk;
}

// The first piece says what the snapshot holds. Without the model it adds to the one held.
Status SnapshotReader::open(const gs_SnapshotChunk& chunk, uint32_t parts, const Replica& replica) {
  const bool has_model = (parts & part_bit(ModelPart::kModel)) != 0;
  if (!has_model && (!replica.has_model() || chunk.version != replica.version() + 1)) {
    return Status::kProtocolError;
  }
  *this = SnapshotReader();
  is_open_ = true;
  version_ = chunk.version;
  parts_ = parts;
  part_ = static_cast<uint8_t>(std::countr_zero(parts));
  digest_ = chunk.digest;
  return Status::kOk;
}

// A piece of the model, of the mean behind it, or of another tensor of the run.
Status SnapshotReader::read(const gs_SnapshotChunk& chunk, Replica& replica) {
  const auto part = static_cast<ModelPart>(chunk.part);
  if (part == ModelPart::kMean) {
    if (!replica.has_mean()) {
      return Status::kDataCorrupt;
    }
    static_cast<void>(replica.begin_snapshot());
    const size_t count = chunk.values.size / sizeof(FixedWord);
    load_words(count, chunk.values.bytes, replica.mean_buffer() + chunk.offset / sizeof(FixedWord));
    return Status::kOk;
  }
  Real* out = part == ModelPart::kModel ? replica.begin_snapshot() : replica.part_buffer(part);
  if (out == nullptr) {
    return Status::kDataCorrupt;  // a part that the run does not have
  }
  const size_t count = chunk.values.size / sizeof(Real);
  return decode_values(kRealEncoding, count, chunk.values.bytes, chunk.values.size, out + chunk.offset / sizeof(Real));
}

}  // namespace gradstream
