// What survives a reset: model, units, correction and uploads as they stand when a task has been done, each with its
// checksum; and, where the port keeps them, the local steps of the task in progress as the scalars that they were made
// of.
//
//   state:  header | parts of a product | model | mean | correction | pending, accepted, held upload |
//           residual, the one before, their base | table of units   (a part not held has no bytes)
//   step:   header | scalars
//
// Words as the processor keeps them: only the image that wrote a state reads it again, and only the identity that it
// was written under continues it. What another one did is no answer to this one's tasks, whatever their numbers.
#include "runtime/base/no_contraction.h"

#include <bit>
#include <cstring>

#include "runtime/link/client.h"
#include "runtime/link/client_fields.h"
#include "runtime/training/encoding.h"

namespace gradstream {

// The words of store_run() stand in `run`, `run_sums`, `run_feedback` and `run_stages`, and those of kJournalFields in
// `journal`, by their numbers.
struct SavedHeader {
  uint32_t magic;
  uint32_t format;
  uint32_t real_size;
  uint32_t owner;  // ClientConfig::owner
  uint32_t run[14];
  uint32_t version;
  uint32_t has_model;
  uint32_t model_crc;
  uint32_t has_correction;
  uint32_t correction_crc;
  uint32_t slot_size;
  uint32_t slot_count;
  uint32_t accepted_record;
  uint32_t run_sums[2];
  uint32_t mean_crc;
  uint32_t run_feedback;
  uint32_t has_residual;
  uint32_t residual_crc[ErrorFeedback::kTensorCount];  // residual, the one before, their base
  uint32_t manifold_part_count;
  uint32_t manifold_parts_crc;
  uint32_t run_stages[3];
  uint32_t units_count;  // columns
  uint32_t units_crc;
  uint32_t journal[4];
  uint32_t floors;                                    // digest_floors() of those that the uploads were made under
  uint32_t uploads[kSlotCountMax][kUploadWordCount];  // by SlotRole; the words of kUploadFields
  uint32_t crc;                                       // of the words before it
};

// All that a step depends on, so that a step of another run under the same number, or one that another correction had
// steered, is done again.
struct SavedStep {
  uint32_t run;
  uint32_t parameters_digest[2];  // low word first
  uint32_t task_sequence;
  uint32_t version;
  uint32_t index;
  uint32_t loss;            // bits of the float
  uint32_t correction_crc;  // 0: none
  uint32_t real_size;
  uint32_t crc;  // of the words before it and the scalars, begun with the owner
};

namespace {

constexpr uint32_t kMagic = 0x53534753;  // "SGSS"
constexpr uint32_t kFormat = 7;
constexpr size_t kPieceCount = kTakesUnits ? 12 : 11;  // the last one is the table of units
constexpr size_t kPiecesOffset = 512;                  // in the frame's buffer
static_assert(sizeof(SavedHeader) == 4 * (46 + 3 * 21 + 1), "no padding: the checksum covers every byte");
static_assert(offsetof(SavedHeader, run) == 4 * 4 && offsetof(SavedHeader, run_sums) == 4 * 26 &&
                  offsetof(SavedHeader, run_feedback) == 4 * 29 && offsetof(SavedHeader, run_stages) == 4 * 36,
              "the words of store_run()");
static_assert(offsetof(SavedHeader, journal) == 4 * 41, "the words of kJournalFields");

// What the server said last of its journal. It goes with whatever else is saved and costs no write of its own: a power
// cut leaves an older pair, which is as true.
constexpr WordField kJournalFields[] = {GS_WORD_FIELD(gs_Welcome, journal_sequence, 41),
                                        GS_WORD_FIELD(gs_Welcome, journal_chain, 43)};

constexpr SlotRole kRoles[] = {SlotRole::kPending, SlotRole::kAccepted, SlotRole::kHeld};

uint32_t header_crc(const SavedHeader& header) {
  return crc32c(0, reinterpret_cast<const uint8_t*>(&header), offsetof(SavedHeader, crc));
}

uint32_t* words_of(SavedHeader& header) { return reinterpret_cast<uint32_t*>(&header); }

// Cuts the parts off one after the other. What is missing at the end is empty, and so fails its checksum.
class PartReader {
 public:
  explicit PartReader(std::span<const uint8_t> bytes) : rest_(bytes) {}
  std::span<const uint8_t> next(size_t size) {
    if (size > rest_.size()) {
      rest_ = {};
      return {};
    }
    const std::span<const uint8_t> part = rest_.first(size);
    rest_ = rest_.subspan(size);
    return part;
  }

 private:
  std::span<const uint8_t> rest_;
};

bool holds(std::span<const uint8_t> part, size_t size, uint32_t crc) {
  return part.size() == size && crc32c(0, part.data(), part.size()) == crc;
}

// The CRC starts from the owner's digest: a step saved under another identity fails the check, and no flash is spent on
// storing the owner.
uint32_t step_crc(uint32_t owner, const SavedStep& step, const uint8_t* values, size_t size) {
  return crc32c(crc32c(owner, reinterpret_cast<const uint8_t*>(&step), offsetof(SavedStep, crc)), values, size);
}

}  // namespace

// The pieces stand in the frame's buffer behind the header: nothing is sent while something is saved.
StoragePiece* Client::save_pieces() {
  static_assert(sizeof(SavedHeader) <= kPiecesOffset && kPiecesOffset % alignof(StoragePiece) == 0);
  static_assert(kPiecesOffset + kPieceCount * sizeof(StoragePiece) <= kFrameSizeMax);
  return reinterpret_cast<StoragePiece*>(frame_ + kPiecesOffset);
}

std::span<const StoragePiece> Client::fill_pieces() {
  StoragePiece* const pieces = save_pieces();
  const size_t tensor_size = model_.tensor_size();
  pieces[0] = {frame_, sizeof(SavedHeader)};
  pieces[1] = {reinterpret_cast<const uint8_t*>(model_.welcome().manifold_parts),
               model_.welcome().manifold_parts_count * sizeof(model_.welcome().manifold_parts[0])};
  // A version with more than a model and a mean comes again whole: what survives is the upload.
  const bool saves_model = model_.replica().has_model() && model_.replica().parts() == 0;
  pieces[2] = {reinterpret_cast<const uint8_t*>(model_.replica().model()), saves_model ? tensor_size : 0};
  pieces[3] = {reinterpret_cast<const uint8_t*>(model_.replica().mean()),
               kHoldsMeans && model_.replica().has_model() && model_.replica().has_mean() ? tensor_size : 0};
  pieces[4] = {reinterpret_cast<const uint8_t*>(progress_.correction), progress_.has_correction ? tensor_size : 0};
  const bool has_residual = kSendsTensors && progress_.feedback.residual() != nullptr;
  for (size_t i = 0; i < ErrorFeedback::kTensorCount; ++i) {
    pieces[8 + i] = {reinterpret_cast<const uint8_t*>(progress_.feedback.tensor(i)), has_residual ? tensor_size : 0};
  }
  SavedHeader header = {};
  header.magic = kMagic;
  header.format = kFormat;
  header.real_size = sizeof(Real);
  header.owner = config_.owner;
  store_run(model_.welcome(), words_of(header));
  store_fields(kJournalFields, &model_.welcome(), words_of(header));
  header.version = model_.replica().version();
  header.has_model = saves_model ? 1 : 0;
  header.model_crc = crc32c(0, pieces[2].bytes, pieces[2].size);
  header.has_correction = progress_.has_correction ? 1 : 0;
  header.correction_crc = crc32c(0, pieces[4].bytes, pieces[4].size);
  header.mean_crc = crc32c(0, pieces[3].bytes, pieces[3].size);
  header.manifold_part_count = model_.welcome().manifold_parts_count;
  header.manifold_parts_crc = crc32c(0, pieces[1].bytes, pieces[1].size);
  if (kTakesUnits) {  // the digest of a model is that of its table
    const Units units = saves_model ? model_.units().units() : Units{};
    StoragePiece& table = pieces[kPieceCount - 1];
    table = {reinterpret_cast<const uint8_t*>(units.columns), units.count * kUnitsColumnSize};
    header.units_count = units.count;
    header.units_crc = crc32c(0, table.bytes, table.size);
  }
  header.has_residual = has_residual ? 1 : 0;
  for (size_t i = 0; i < ErrorFeedback::kTensorCount; ++i) {
    header.residual_crc[i] = crc32c(0, pieces[8 + i].bytes, pieces[8 + i].size);
  }
  header.slot_size = progress_.slots.room_size();
  header.slot_count = progress_.slots.count();
  header.accepted_record = progress_.slots.accepted_record();
  for (const SlotRole role : kRoles) {
    const std::span<const uint8_t> bytes = progress_.slots.bytes(role);
    pieces[5 + static_cast<size_t>(role)] = {bytes.data(), bytes.size()};
    store_fields(kUploadFields, &progress_.slots.upload(role), header.uploads[static_cast<size_t>(role)]);
  }
  header.floors = digest_floors(config_.floors);
  header.crc = header_crc(header);
  std::memcpy(frame_, &header, sizeof(header));
  return {pieces, kPieceCount};
}

Status Client::restore(std::span<const uint8_t> saved) {
  SavedHeader header = {};
  if (saved.size() < sizeof(header)) {
    return Status::kDataCorrupt;
  }
  std::memcpy(&header, saved.data(), sizeof(header));
  if (header.magic != kMagic || header.format != kFormat || header.real_size != sizeof(Real) ||
      header.crc != header_crc(header)) {
    return Status::kDataCorrupt;
  }
  if (header.owner != config_.owner) {
    return Status::kUnauthenticated;
  }
  gs_Welcome welcome = {};
  load_run(words_of(header), &welcome);
  load_fields(kJournalFields, words_of(header), &welcome);
  const size_t parts_size = header.manifold_part_count * sizeof(welcome.manifold_parts[0]);
  const std::span<const uint8_t> rest = saved.subspan(sizeof(header));
  if (header.manifold_part_count > kPartCountMax || rest.size() < parts_size ||
      !holds(rest.first(parts_size), parts_size, header.manifold_parts_crc)) {
    return Status::kDataCorrupt;
  }
  welcome.manifold_parts_count = static_cast<pb_size_t>(header.manifold_part_count);
  std::memcpy(welcome.manifold_parts, rest.data(), parts_size);
  GS_TRY(begin_run(welcome));
  if (kTakesUnits && header.units_count > 0) {
    const Status status = header.units_count <= kUnitsColumnMax
                              ? prepare_units(static_cast<uint32_t>(header.units_count * kUnitsColumnSize))
                              : Status::kDataCorrupt;
    if (status != Status::kOk) {
      progress_.is_open = false;
      return status;
    }
  }
  if (header.slot_count > 0) {
    const bool had_correction = model_.lean() != nullptr && header.slot_count > 1;
    Status status = had_correction ? take_correction() : Status::kOk;
    if (status == Status::kOk) {
      status = prepare_slots(header.slot_size, header.slot_count);
    }
    if (status != Status::kOk) {
      progress_.is_open = false;  // the next Welcome begins the run anew
      return status;
    }
  }
  restore_parts(header, rest.subspan(parts_size));
  return Status::kOk;
}

void Client::restore_parts(const SavedHeader& header, std::span<const uint8_t> bytes) {
  PartReader reader(bytes);
  const size_t tensor_size = model_.tensor_size();
  const std::span<const uint8_t> model = reader.next(header.has_model != 0 ? tensor_size : 0);
  const bool wants_mean = kHoldsMeans && header.has_model != 0 && model_.replica().has_mean();
  const std::span<const uint8_t> mean = reader.next(wants_mean ? tensor_size : 0);
  const bool holds_mean = !wants_mean || holds(mean, tensor_size, header.mean_crc);
  if (header.has_model != 0 && holds(model, tensor_size, header.model_crc) && holds_mean) {
    std::memcpy(model_.replica().begin_snapshot(), model.data(), tensor_size);
    if (wants_mean) {
      std::memcpy(model_.replica().mean_buffer(), mean.data(), tensor_size);
    }
    model_.replica().adopt_snapshot(header.version);
  }
  const std::span<const uint8_t> correction = reader.next(header.has_correction != 0 ? tensor_size : 0);
  if (header.has_correction != 0 && progress_.correction != nullptr &&
      holds(correction, tensor_size, header.correction_crc)) {
    std::memcpy(progress_.correction, correction.data(), tensor_size);
    progress_.has_correction = true;
  }
  for (const SlotRole role : kRoles) {
    StoredUpload upload;
    load_fields(kUploadFields, header.uploads[static_cast<size_t>(role)], &upload);
    const std::span<const uint8_t> part = reader.next(upload.size);
    // What has not been judged is sent again, and its owner may have raised a floor since.
    const bool may_leave = role != SlotRole::kPending || header.floors == digest_floors(config_.floors);
    const bool holds_upload = may_leave && progress_.slots.restore(role, upload, part, header.accepted_record);
    if (role == SlotRole::kPending) {
      progress_.is_pending_sent = holds_upload;  // perhaps: only the server knows
      progress_.lost_task_sequence = holds_upload ? 0 : upload.task_sequence;
    } else if (role == SlotRole::kAccepted && !holds_upload && upload.task_sequence != 0) {
      drop_correction();
    }
  }
  bool holds_residual = kSendsTensors && header.has_residual != 0 && progress_.feedback.is_used();
  for (size_t i = 0; kSendsTensors && i < ErrorFeedback::kTensorCount && header.has_residual != 0; ++i) {
    const std::span<const uint8_t> part = reader.next(tensor_size);
    holds_residual = holds_residual && holds(part, tensor_size, header.residual_crc[i]);
    if (holds_residual) {
      std::memcpy(progress_.feedback.tensor(i), part.data(), tensor_size);
    }
  }
  progress_.feedback.adopt(holds_residual);
  if (kTakesUnits && header.units_count > 0) {
    const size_t size = header.units_count * kUnitsColumnSize;
    const std::span<const uint8_t> table = reader.next(size);
    const bool holds_table = holds(table, size, header.units_crc);
    if (holds_table) {
      std::memcpy(model_.units().begin(), table.data(), size);
    }
    if (!holds_table || model_.units().adopt() != Status::kOk) {
      static_cast<void>(model_.replica().begin_snapshot());  // the model without its table is no version
    }
  }
  if (progress_.lost_task_sequence != 0) {
    progress_.feedback.take_back();
  }
  if (kTakesUnits && progress_.line != nullptr && model_.replica().has_model()) {
    progress_.line->prove(model_.digest());  // by the checksums of the storage
  }
}

// A step that is all scalars, and not the last one: what follows that is the upload, which is saved as a whole.
bool Client::keeps_steps() const {
  return config_.steps.read != nullptr && run_.ops->replay != nullptr && model_.has_scalar_stream() &&
         run_.steps_done < run_.task.local_step_count;
}

SavedStep Client::step_header(uint32_t index) const {
  const bool is_steered = run_.correction != nullptr;
  const size_t tensor_size = model_.tensor_size();
  SavedStep step = {};
  step.run = model_.welcome().run;
  step.parameters_digest[0] = static_cast<uint32_t>(model_.welcome().parameters_digest);
  step.parameters_digest[1] = static_cast<uint32_t>(model_.welcome().parameters_digest >> 32);
  step.task_sequence = run_.task.sequence;
  step.version = run_.task.version;
  step.index = index;
  step.correction_crc = is_steered ? crc32c(0, reinterpret_cast<const uint8_t*>(run_.correction), tensor_size) : 0;
  step.real_size = sizeof(Real);
  return step;
}

ClientAction Client::save_step() {
  GradientStream stream;
  GS_ASSERT(run_.ops->finish(run_, &stream) == Status::kOk);  // a step was done
  SavedStep step = step_header(run_.steps_done - 1);
  const uint32_t m = run_.task.estimator.directions.direction_count;
  const size_t size = m * sizeof(Real);
  const uint8_t* values = reinterpret_cast<const uint8_t*>(stream.values + size_t{step.index} * m);
  step.loss = std::bit_cast<uint32_t>(static_cast<float>(stream.loss_after));
  step.crc = step_crc(config_.owner, step, values, size);
  std::memcpy(frame_, &step, sizeof(step));
  StoragePiece* const pieces = save_pieces();
  pieces[0] = {frame_, sizeof(step)};
  pieces[1] = {values, size};
  ClientAction action;
  action.kind = ClientActionKind::kSaveStep;
  action.pieces = {pieces, 2};
  action.step_index = step.index;
  return action;
}

// Takes over what was kept of this very task. What is missing, or does not hold, is done again. Records are read into
// the buffer of frames, none of which is on its way now: an arena just large enough for the steps replays them too.
void Client::replay_steps() {
  task_.steps_replayed = 0;
  const size_t size = sizeof(SavedStep) + run_.task.estimator.directions.direction_count * sizeof(Real);
  ScratchScope scope(arena_);
  uint8_t* record = frame_;
  if (size > sizeof(frame_)) {
    const Result<uint8_t*> scratch = arena_.scratch<uint8_t>(size);
    if (!scratch.ok()) {
      return;
    }
    record = scratch.value();
  }
  while (keeps_steps() && replay_step(record, size)) {
    ++task_.steps_replayed;
    ++counters_.steps_replayed;
  }
}

bool Client::replay_step(uint8_t* record, size_t size) {
  const SavedStep wanted = step_header(run_.steps_done);
  const Result<size_t> found = config_.steps.read(config_.steps.context, run_.steps_done, record, size);
  if (!found.ok() || found.value() != size) {
    return false;
  }
  SavedStep step = {};
  std::memcpy(&step, record, sizeof(step));
  const uint8_t* values = record + sizeof(step);
  static_assert(sizeof(SavedStep) % alignof(Real) == 0);
  const bool is_of_this_step = std::memcmp(&step, &wanted, offsetof(SavedStep, loss)) == 0 &&
                               step.correction_crc == wanted.correction_crc && step.real_size == wanted.real_size;
  const Real loss = static_cast<Real>(std::bit_cast<float>(step.loss));
  return is_of_this_step && step.crc == step_crc(config_.owner, step, values, size - sizeof(step)) &&
         run_.ops->replay(run_, reinterpret_cast<const Real*>(values), loss, arena_) == Status::kOk;
}

}  // namespace gradstream
