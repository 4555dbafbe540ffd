#include "runtime/base/no_contraction.h"

#include "runtime/link/client_snapshot.h"

#include <bit>
#include <cstring>

#include "runtime/base/features.h"
#include "runtime/training/encoding.h"

namespace gradstream {

namespace {

bool is_table(const gs_SnapshotChunk& chunk) { return chunk.part == gs_ModelPart_MODEL_PART_UNITS; }

// Bytes that a part has.
uint64_t part_size(const gs_SnapshotChunk& chunk, const Replica& replica, const UnitsTable* units) {
  if (!kTakesUnits || !is_table(chunk)) {
    return sizeof(Real) * static_cast<uint64_t>(replica.shape().size());
  }
  return units == nullptr ? 0 : kUnitsColumnSize * uint64_t{units->capacity()};
}

}  // namespace

Status SnapshotReader::take(const gs_SnapshotChunk& chunk, Replica* replica, UnitsTable* units) {
  if (chunk.total != part_size(chunk, *replica, units)) {
    return Status::kDataCorrupt;
  }
  const uint32_t usual =
      part_bit(ModelPart::kModel) | (kHoldsMeans && replica->has_mean() ? part_bit(ModelPart::kMean) : 0);
  const uint32_t parts = chunk.parts == 0 ? usual : chunk.parts;
  if (!is_open_) {
    GS_TRY(open(chunk, parts, *replica));
  }
  if (chunk.version != version_ || chunk.digest != digest_ || parts != parts_ ||
      static_cast<uint32_t>(chunk.part) != part_ || chunk.offset != offset_) {
    return Status::kDataCorrupt;
  }
  GS_TRY(read(chunk, *replica, units));
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
  return adopt(*replica, units);
}

Status SnapshotReader::adopt(Replica& replica, UnitsTable* units) const {
  const bool has_table = kTakesUnits && (parts_ & part_bit(ModelPart::kUnits)) != 0;
  if (kTakesUnits && units != nullptr && has_table) {
    GS_TRY(units->adopt());
  } else if (kTakesUnits && units != nullptr && had_model()) {
    units->forget();
  }
  if (had_model() || has_table) {
    replica.adopt_snapshot(version_, parts_);
  } else {
    replica.adopt_parts(version_, parts_);
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
Status SnapshotReader::read(const gs_SnapshotChunk& chunk, Replica& replica, UnitsTable* units) {
  const auto part = static_cast<ModelPart>(chunk.part);
  if (kTakesUnits && is_table(chunk)) {
    static_cast<void>(replica.begin_snapshot());  // the digest of the version held is that of the table held
    std::memcpy(units->begin() + chunk.offset, chunk.values.bytes, chunk.values.size);
    return Status::kOk;
  }
  if (kHoldsMeans && part == ModelPart::kMean) {
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
