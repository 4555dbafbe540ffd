#include "runtime/base/no_contraction.h"

#include "server/rules/record.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "server/run/run_core.h"

namespace gradstream {
namespace {

// A frame's prefix and the fields beside the values of a LogChunk and of a SnapshotChunk, at their longest in a run of
// some thousand versions.
constexpr size_t kLogChunkOverhead = 48;
constexpr size_t kSnapshotChunkOverhead = 36;

bool is_model_record(const RunParameters& parameters, uint32_t version) {
  return version == 0 || parameters.stream() == StreamKind::kTangentBlock;
}

Encoding block_encoding(const RunParameters& parameters) {
  return parameters.has_mean() ? Encoding::kFixed : parameters.wire->record_encoding;
}

Status decode_block(const RunParameters& parameters, PayloadReader& reader, RecordBlock* block) {
  block->base_version = reader.take_u32();
  block->owner = reader.take_u32();
  block->value_count = reader.take_u32();
  block->encoding = static_cast<Encoding>(reader.take_u8());
  block->after_step = parameters.has_mean() && reader.take_u8() != 0;
  if (!reader.ok || block->value_count == 0 || block->value_count > parameters.value_count() ||
      block->value_count % parameters.local->direction_count != 0 || block->encoding != block_encoding(parameters)) {
    return Status::kDataCorrupt;
  }
  const auto bytes = reader.take(encoded_size(block->encoding, block->value_count));
  block->bytes.assign(bytes.begin(), bytes.end());
  return reader.ok ? Status::kOk : Status::kDataCorrupt;
}

uint32_t extra_parts(const VersionRecord& record) {
  return (record.mean_gradient.empty() ? 0 : part_bit(ModelPart::kMeanGradient)) |
         (record.previous_model.empty() ? 0 : part_bit(ModelPart::kPreviousModel));
}

void put_parts(const VersionRecord& record, std::vector<uint8_t>* out) {
  const Real numbers[2] = {record.local_step, record.curvature};
  const std::vector<uint8_t> terms = model_bytes({2, 1}, numbers);
  put_u32(extra_parts(record), out);
  out->insert(out->end(), record.mean_gradient.begin(), record.mean_gradient.end());
  out->insert(out->end(), record.previous_model.begin(), record.previous_model.end());
  out->insert(out->end(), terms.begin(), terms.end());
}

Status decode_parts(const RunParameters& parameters, size_t tensor_size, PayloadReader& reader, VersionRecord* record) {
  const uint32_t parts = reader.take_u32();
  if ((parts & ~parameters.model_parts()) != 0) {
    return Status::kDataCorrupt;
  }
  for (const ModelPart part : {ModelPart::kMeanGradient, ModelPart::kPreviousModel}) {
    const auto bytes = reader.take((parts & part_bit(part)) != 0 ? tensor_size : 0);
    (part == ModelPart::kMeanGradient ? record->mean_gradient : record->previous_model)
        .assign(bytes.begin(), bytes.end());
  }
  Real numbers[2] = {};
  const auto terms = reader.take(sizeof(numbers));
  if (!reader.ok || (parts == part_bit(ModelPart::kPreviousModel))) {
    return Status::kDataCorrupt;
  }
  GS_TRY(read_model({2, 1}, terms, numbers));
  record->has_parts = true;
  record->local_step = numbers[0];
  record->curvature = numbers[1];
  return Status::kOk;
}

void put_delay_switch(const DelaySwitch& delay_switch, std::vector<uint8_t>* out) {
  out->push_back(delay_switch.is_switched ? 1 : 0);
  put_u32(delay_switch.sample_count, out);
  const std::vector<uint8_t> mean = model_bytes({1, 1}, &delay_switch.mean);
  out->insert(out->end(), mean.begin(), mean.end());
}

Status decode_delay_switch(PayloadReader& reader, VersionRecord* record) {
  const uint8_t is_switched = reader.take_u8();
  DelaySwitch delay_switch;
  delay_switch.is_switched = is_switched == 1;
  delay_switch.sample_count = reader.take_u32();
  const auto mean = reader.take(sizeof(Real));
  if (!reader.ok || is_switched > 1) {
    return Status::kDataCorrupt;
  }
  GS_TRY(read_model({1, 1}, mean, &delay_switch.mean));
  record->delay_switch = delay_switch;
  return Status::kOk;
}

void put_cohort(const Cohort& cohort, std::vector<uint8_t>* out) {
  if (cohort.population == 0) {
    return;
  }
  put_u32(cohort.population, out);
  put_u32(static_cast<uint32_t>(cohort.members.size()), out);
  for (const uint32_t member : cohort.members) {
    put_u32(member, out);
  }
}

Status decode_cohort(const RunParameters& parameters, PayloadReader& reader, Cohort* cohort) {
  *cohort = {};
  // The phases of a round and the stages that ask everybody name nobody.
  const bool is_optional =
      parameters.cohort->participation == Participation::kAll || parameters.phase_count() > 1 || has_stages(parameters);
  if (is_optional && reader.rest.empty()) {
    return Status::kOk;
  }
  cohort->population = reader.take_u32();
  const uint32_t count = reader.take_u32();
  for (uint32_t i = 0; i < count && reader.ok; ++i) {
    const uint32_t member = reader.take_u32();
    if (!cohort->members.empty() && member <= cohort->members.back()) {
      return Status::kDataCorrupt;
    }
    cohort->members.push_back(member);
  }
  const bool is_good =
      parameters.cohort->participation != Participation::kAll && count > 0 && count <= cohort->population;
  return reader.ok && is_good ? Status::kOk : Status::kDataCorrupt;
}

Status decode_dense(const RunParameters& parameters, PayloadReader& reader, VersionRecord* record) {
  record->weight_total = reader.take_u32();
  const uint32_t forgotten_count = reader.take_u32();
  for (uint32_t i = 0; i < forgotten_count && reader.ok; ++i) {
    record->forgotten.push_back(reader.take_u32());
  }
  const auto model = reader.take(parameters.model->shape.size() * sizeof(Real));
  const auto mean = reader.take(encoded_size(Encoding::kFixed, parameters.model->shape.size()));
  record->model.assign(model.begin(), model.end());
  record->mean.assign(mean.begin(), mean.end());
  GS_TRY(decode_cohort(parameters, reader, &record->cohort));
  return reader.ok && reader.rest.empty() ? Status::kOk : Status::kDataCorrupt;
}

size_t chunk_count(const RecordBlock& block) {
  const size_t per_chunk = values_per_message(block.encoding);
  return (block.value_count + per_chunk - 1) / per_chunk;
}

gs_LogChunk log_chunk_of(const VersionRecord& record, size_t index, size_t first, size_t count) {
  const RecordBlock& block = record.blocks[index];
  gs_LogChunk chunk = {};
  chunk.version = record.version;
  chunk.step_scale = record.step_scale;
  chunk.block_index = static_cast<uint32_t>(index);
  chunk.block_count = static_cast<uint32_t>(record.blocks.size());
  chunk.base_version = block.base_version;
  chunk.owner = block.owner;
  chunk.from_zero = record.from_zero;
  chunk.after_step = block.after_step;
  chunk.first_value = static_cast<uint32_t>(first);
  chunk.value_count = block.value_count;
  chunk.encoding = static_cast<gs_Encoding>(block.encoding);
  const size_t begin = encoded_size(block.encoding, first);
  const size_t size = encoded_size(block.encoding, first + count) - begin;
  chunk.values.size = static_cast<decltype(chunk.values.size)>(size);
  std::memcpy(chunk.values.bytes, block.bytes.data() + begin, size);
  const bool is_last = index + 1 == record.blocks.size() && first + count == block.value_count;
  chunk.digest = is_last ? record.digest : 0;
  return chunk;
}

// Behind *messages. parts: bits of all parts of the snapshot, as the chunks say them.
void add_chunks(uint32_t version, uint64_t digest, ModelPart part, std::span<const uint8_t> bytes, uint32_t parts,
                std::vector<ServerMessage>* messages) {
  for (size_t offset = 0; offset < bytes.size(); offset += kPayloadSizeMax) {
    const auto piece = bytes.subspan(offset, std::min(kPayloadSizeMax, bytes.size() - offset));
    ServerMessage& message = messages->emplace_back();
    message.which_body = gs_ServerMessage_snapshot_chunk_tag;
    gs_SnapshotChunk& chunk = message.body.snapshot_chunk;
    chunk = {};
    chunk.version = version;
    chunk.part = static_cast<gs_ModelPart>(part);
    chunk.parts = parts;
    chunk.offset = static_cast<uint32_t>(offset);
    chunk.total = static_cast<uint32_t>(bytes.size());
    chunk.values.size = static_cast<decltype(chunk.values.size)>(piece.size());
    std::memcpy(chunk.values.bytes, piece.data(), piece.size());
    chunk.digest = digest;
  }
}

}  // namespace

std::vector<uint8_t> encode_payload(const VersionRecord& record) {
  const bool is_exact = !record.blocks.empty() && record.blocks.front().encoding == Encoding::kFixed;
  std::vector<uint8_t> out;
  if (record.stage.is_known) {
    put_stage(record.stage, &out);
  }
  if (record.stage.keeps_model) {
    put_cohort(record.cohort, &out);
    return out;
  }
  if (!record.mean.empty()) {
    out.push_back(1);
    put_u32(record.weight_total, &out);
    put_u32(static_cast<uint32_t>(record.forgotten.size()), &out);
    for (const uint32_t device : record.forgotten) {
      put_u32(device, &out);
    }
    out.insert(out.end(), record.model.begin(), record.model.end());
    out.insert(out.end(), record.mean.begin(), record.mean.end());
    put_cohort(record.cohort, &out);
    return out;
  }
  if (!record.model.empty()) {
    out.insert(out.end(), record.model.begin(), record.model.end());
    if (record.has_parts) {
      put_parts(record, &out);
    }
    if (record.delay_switch) {
      put_delay_switch(*record.delay_switch, &out);
    }
    put_cohort(record.cohort, &out);
    return out;
  }
  if (is_exact) {
    out.push_back(0);
    out.push_back(record.from_zero ? 1 : 0);
  }
  put_u32(static_cast<uint32_t>(record.blocks.size()), &out);
  for (const RecordBlock& block : record.blocks) {
    put_u32(block.base_version, &out);
    put_u32(block.owner, &out);
    put_u32(block.value_count, &out);
    out.push_back(static_cast<uint8_t>(block.encoding));
    if (is_exact) {
      out.push_back(block.after_step ? 1 : 0);
    }
    out.insert(out.end(), block.bytes.begin(), block.bytes.end());
  }
  put_cohort(record.cohort, &out);
  return out;
}

Status decode_payload(const RunParameters& parameters, std::span<const uint8_t> payload, VersionRecord* record) {
  record->blocks.clear();
  record->model.clear();
  record->mean.clear();
  record->forgotten.clear();
  record->delay_switch.reset();
  PayloadReader reader{payload};
  record->stage = StageRecord();
  if (has_stages(parameters)) {
    GS_TRY(take_stage(parameters, reader, &record->stage));
  }
  if (record->stage.keeps_model) {
    GS_TRY(decode_cohort(parameters, reader, &record->cohort));
    return reader.ok && reader.rest.empty() && record->version > 0 ? Status::kOk : Status::kDataCorrupt;
  }
  if (parameters.has_mean()) {
    const uint8_t is_dense = reader.take_u8();
    if (is_dense != 0) {
      return decode_dense(parameters, reader, record);
    }
    record->from_zero = reader.take_u8() != 0;
  }
  if (is_model_record(parameters, record->version)) {
    const auto model = reader.take(parameters.model->shape.size() * sizeof(Real));
    record->model.assign(model.begin(), model.end());
    if (parameters.model_parts() != 0) {
      GS_TRY(decode_parts(parameters, model.size(), reader, record));
    }
    if (parameters.delay->delay_switch_by != DelaySwitchBy::kVersion) {
      GS_TRY(decode_delay_switch(reader, record));
    }
    GS_TRY(decode_cohort(parameters, reader, &record->cohort));
    return reader.ok && reader.rest.empty() ? Status::kOk : Status::kDataCorrupt;
  }
  const uint32_t block_count = reader.take_u32();
  for (uint32_t i = 0; i < block_count && reader.ok; ++i) {
    RecordBlock block;
    GS_TRY(decode_block(parameters, reader, &block));
    if (!record->blocks.empty()) {
      const RecordBlock& before = record->blocks.back();
      if (std::tuple(block.after_step, block.base_version, block.owner) <=
          std::tuple(before.after_step, before.base_version, before.owner)) {
        return Status::kDataCorrupt;
      }
    }
    record->blocks.push_back(std::move(block));
  }
  GS_TRY(decode_cohort(parameters, reader, &record->cohort));
  return reader.ok && reader.rest.empty() && block_count > 0 ? Status::kOk : Status::kDataCorrupt;
}

DirectionSpec direction_spec(const RunParameters& parameters, uint32_t base_version, uint32_t owner) {
  DirectionSpec spec;
  spec.kind = parameters.local->directions;
  spec.shared = parameters.shared_directions();
  spec.seed = parameters.seed;
  spec.base_version = base_version;
  spec.owner = owner;
  spec.direction_count = parameters.local->direction_count;
  return spec;
}

namespace {

Status apply_dense(const RunParameters& parameters, const VersionRecord& record, Replica& replica) {
  std::vector<Real> values(parameters.model->shape.size());
  GS_TRY(read_model(parameters.model->shape, record.model, values.data()));
  if (replica.has_mean() != !record.mean.empty()) {
    return Status::kInvalidArgument;
  }
  std::copy(values.begin(), values.end(), replica.begin_snapshot());
  if (replica.has_mean()) {
    load_words(parameters.model->shape.size(), record.mean.data(), replica.mean_buffer());
  }
  for (const auto& [part, bytes] : {std::pair(ModelPart::kMeanGradient, &record.mean_gradient),
                                    std::pair(ModelPart::kPreviousModel, &record.previous_model)}) {
    if (!bytes->empty()) {
      GS_ASSERT(replica.part_buffer(part) != nullptr);  // decode_payload() has held the record to the run
      GS_TRY(read_model(parameters.model->shape, *bytes, replica.part_buffer(part)));
    }
  }
  replica.adopt_snapshot(record.version, extra_parts(record));
  return Status::kOk;
}

// The model stays, as does the mean.
Status apply_stage(const RunParameters& parameters, const VersionRecord& record, Replica& replica) {
  const std::vector<uint8_t>& direction = record.stage.direction;
  if (!direction.empty()) {
    Real* const out = replica.part_buffer(ModelPart::kDirection);
    if (out == nullptr) {
      return Status::kInvalidArgument;
    }
    GS_TRY(read_model(parameters.model->shape, direction, out));
  }
  replica.adopt_parts(record.version, direction.empty() ? 0 : part_bit(ModelPart::kDirection));
  return Status::kOk;
}

Status apply_exact(const RunParameters& parameters, const VersionRecord& record, Replica& replica, Arena& arena) {
  GS_TRY(replica.begin_exact_record(record.from_zero));
  std::vector<FixedWord> words;
  for (const RecordBlock& block : record.blocks) {
    if (block.after_step && !replica.has_taken_step()) {
      GS_TRY(replica.take_exact_step(parameters.local->direction_count, record.step_scale,
                                     parameters.fold->fold_scale_log2, arena));
    }
    words.resize(block.value_count);
    load_words(block.value_count, block.bytes.data(), words.data());
    GS_TRY(replica.add_exact(direction_spec(parameters, block.base_version, block.owner), 0, block.value_count,
                             words.data()));
  }
  if (!replica.has_taken_step()) {
    GS_TRY(replica.take_exact_step(parameters.local->direction_count, record.step_scale,
                                   parameters.fold->fold_scale_log2, arena));
  }
  return replica.finish_exact_record();
}

}  // namespace

Status apply_record(const RunParameters& parameters, const VersionRecord& record, Replica& replica, Arena& arena) {
  if (!record.model.empty()) {
    return apply_dense(parameters, record, replica);
  }
  if (replica.has_model() && replica.version() + 1 != record.version) {
    return Status::kProtocolError;
  }
  if (record.stage.keeps_model) {
    return replica.has_model() ? apply_stage(parameters, record, replica) : Status::kProtocolError;
  }
  if (replica.has_mean()) {
    return apply_exact(parameters, record, replica, arena);
  }
  GS_TRY(replica.begin_record());
  std::vector<Real> values;
  for (const RecordBlock& block : record.blocks) {
    values.resize(block.value_count);
    GS_TRY(decode_values(block.encoding, block.value_count, block.bytes.data(), block.bytes.size(), values.data()));
    GS_TRY(replica.add_to_record(direction_spec(parameters, block.base_version, block.owner), 0, block.value_count,
                                 values.data(), arena));
  }
  return replica.finish_record(parameters.local->direction_count, record.step_scale, arena);
}

std::vector<uint8_t> mean_bytes(Shape shape, const FixedWord* mean) {
  std::vector<uint8_t> bytes(encoded_size(Encoding::kFixed, shape.size()));
  store_words(shape.size(), mean, bytes.data());
  return bytes;
}

std::vector<uint8_t> model_bytes(Shape shape, const Real* model) {
  std::vector<uint8_t> bytes(shape.size() * sizeof(Real));
  const Status status = encode_values(kRealEncoding, shape.size(), model, bytes.data());
  GS_ASSERT(status == Status::kOk);  // a replica holds finite values only
  return bytes;
}

Status read_model(Shape shape, std::span<const uint8_t> bytes, Real* out) {
  return decode_values(kRealEncoding, shape.size(), bytes.data(), bytes.size(), out);
}

std::vector<ServerMessage> log_chunks(const VersionRecord& record) {
  std::vector<ServerMessage> messages;
  for (size_t index = 0; index < record.blocks.size(); ++index) {
    const RecordBlock& block = record.blocks[index];
    const size_t per_chunk = values_per_message(block.encoding);
    for (size_t first = 0; first < block.value_count; first += per_chunk) {
      const size_t count = std::min(per_chunk, block.value_count - first);
      ServerMessage& message = messages.emplace_back();
      message.which_body = gs_ServerMessage_log_chunk_tag;
      message.body.log_chunk = log_chunk_of(record, index, first, count);
    }
  }
  return messages;
}

std::vector<ServerMessage> snapshot_chunks(uint32_t version, uint64_t digest, std::span<const uint8_t> model,
                                           std::span<const uint8_t> mean) {
  std::vector<ServerMessage> messages;
  add_chunks(version, digest, ModelPart::kModel, model, 0, &messages);
  add_chunks(version, digest, ModelPart::kMean, mean, 0, &messages);
  return messages;
}

std::vector<ServerMessage> snapshot_chunks(uint32_t version, uint64_t digest, std::span<const SnapshotPart> parts) {
  uint32_t bits = 0;
  for (const SnapshotPart& part : parts) {
    bits |= part_bit(part.part);
  }
  const uint32_t usual = part_bit(ModelPart::kModel) | part_bit(ModelPart::kMean);
  bits = (bits & ~usual) == 0 ? 0 : bits;
  std::vector<ServerMessage> messages;
  for (const SnapshotPart& part : parts) {
    add_chunks(version, digest, part.part, part.bytes, bits, &messages);
  }
  return messages;
}

double square_sum(std::span<const Real> values) {
  double sum = 0;
  for (const Real value : values) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

size_t log_size(const VersionRecord& record) {
  size_t size = 0;
  for (const RecordBlock& block : record.blocks) {
    size += block.bytes.size() + chunk_count(block) * kLogChunkOverhead;
  }
  return size;
}

size_t snapshot_size(Shape shape, bool has_mean) {
  const size_t bytes = shape.size() * sizeof(Real);
  return (has_mean ? 2 : 1) * (bytes + (bytes + kPayloadSizeMax - 1) / kPayloadSizeMax * kSnapshotChunkOverhead);
}

}  // namespace gradstream
