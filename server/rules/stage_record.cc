#include "runtime/base/no_contraction.h"

#include "server/rules/stage_record.h"

#include <bit>
#include <cmath>

#include "server/run/run_core.h"
#include "server/run/run_parameters.h"

namespace gradstream {
namespace {

void put_bytes(const std::vector<uint8_t>& bytes, std::vector<uint8_t>* out) {
  put_u32(static_cast<uint32_t>(bytes.size()), out);
  out->insert(out->end(), bytes.begin(), bytes.end());
}

std::vector<uint8_t> take_bytes(PayloadReader& reader) {
  const auto bytes = reader.take(reader.take_u32());
  return {bytes.begin(), bytes.end()};
}

}  // namespace

void put_stage(const StageRecord& stage, std::vector<uint8_t>* out) {
  out->push_back(static_cast<uint8_t>(stage.opens.stage));
  out->push_back(stage.opens.draw);
  out->push_back(stage.keeps_model ? 1 : 0);
  put_bytes(stage.decision, out);
  put_bytes(stage.units, out);
  put_bytes(stage.direction, out);
  put_u32(static_cast<uint32_t>(stage.left_out.size()), out);
  for (const uint32_t device : stage.left_out) {
    put_u32(device, out);
  }
}

Status take_stage(const RunParameters& run, PayloadReader& reader, StageRecord* stage) {
  *stage = StageRecord();
  stage->is_known = true;
  stage->opens = {static_cast<TaskStage>(reader.take_u8()), reader.take_u8()};
  const uint8_t keeps_model = reader.take_u8();
  stage->keeps_model = keeps_model == 1;
  stage->decision = take_bytes(reader);
  stage->units = take_bytes(reader);
  stage->direction = take_bytes(reader);
  const uint32_t count = reader.take_u32();
  for (uint32_t i = 0; i < count && reader.ok; ++i) {
    const uint32_t device = reader.take_u32();
    if (!stage->left_out.empty() && device <= stage->left_out.back()) {
      return Status::kDataCorrupt;
    }
    stage->left_out.push_back(device);
  }
  const bool has_direction = !stage->direction.empty();
  std::vector<UnitsColumn> columns;
  const bool is_good = reader.ok && keeps_model <= 1 && is_stage_of(run, stage->opens) &&
                       (!has_direction || (stage->keeps_model && stage->opens.stage == TaskStage::kTrials &&
                                           stage->direction.size() == run.model->shape.size() * sizeof(Real))) &&
                       (stage->units.empty() || stage->keeps_model);
  return is_good ? decode_units(stage->units, &columns) : Status::kDataCorrupt;
}

uint64_t digest_with_units(uint64_t replica_digest, std::span<const uint8_t> units) {
  uint64_t digest = replica_digest;
  for (const uint8_t byte : units) {
    digest = digest_byte(digest, byte);
  }
  return digest;
}

std::vector<uint8_t> encode_units(std::span<const UnitsColumn> columns) {
  std::vector<uint8_t> bytes;
  bytes.reserve(columns.size() * kUnitsColumnSize);
  for (const UnitsColumn& column : columns) {
    put_u32(static_cast<uint32_t>(column.exponent), &bytes);
    put_u32(std::bit_cast<uint32_t>(column.mean), &bytes);
    put_u32(std::bit_cast<uint32_t>(column.factor), &bytes);
  }
  return bytes;
}

Status decode_units(std::span<const uint8_t> bytes, std::vector<UnitsColumn>* columns) {
  columns->clear();
  if (bytes.size() % kUnitsColumnSize != 0) {
    return Status::kDataCorrupt;
  }
  PayloadReader reader{bytes};
  while (!reader.rest.empty()) {
    const UnitsColumn column = {static_cast<int32_t>(reader.take_u32()), std::bit_cast<float>(reader.take_u32()),
                                std::bit_cast<float>(reader.take_u32())};
    if (column.exponent < kUnitsExponentMin || column.exponent > kUnitsExponentMax || !std::isfinite(column.mean) ||
        !std::isfinite(column.factor) || column.factor < 0) {
      return Status::kDataCorrupt;
    }
    columns->push_back(column);
  }
  return Status::kOk;
}

}  // namespace gradstream
