#include "server/journal/journal_record.h"

namespace gradstream {
namespace {

void put_word(uint64_t word, size_t size, std::vector<uint8_t>* out) {
  for (size_t i = 0; i < size; ++i) {
    out->push_back(static_cast<uint8_t>(word >> (8 * i)));
  }
}

uint64_t word_at(std::span<const uint8_t> bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    word |= uint64_t{bytes[i]} << (8 * i);
  }
  return word;
}

}  // namespace

JournalRecord JournalRecord::task(const TaskIssued& task) {
  JournalRow row;
  row.kind = RecordKind::kTaskIssued;
  row.device = task.device;
  row.task_sequence = task.task_sequence;
  row.version = task.version;
  row.steps_done = task.step_count;
  row.weight = task.sample_count;
  return JournalRecord(std::move(row));
}

JournalRecord JournalRecord::update(UpdateAccepted update) {
  JournalRow row;
  row.kind = RecordKind::kUpdate;
  row.device = update.device;
  row.task_sequence = update.task_sequence;
  row.version = update.version;
  row.base_version = update.base_version;
  row.steps_done = update.steps_done;
  row.weight = update.weight;
  row.verdict = update.verdict;
  row.detail = update.step_time_us;
  row.step_scale = update.inverse_participation;
  row.loss_before = update.loss_before;
  row.loss_after = update.loss_after;
  row.payload = std::move(update.values);
  row.notes = encode_notes(update.notes);
  return JournalRecord(std::move(row));
}

JournalRecord JournalRecord::verdict(const TaskEnded& task) {
  JournalRow row;
  row.kind = RecordKind::kVerdict;
  row.device = task.device;
  row.task_sequence = task.task_sequence;
  row.version = task.version;
  row.verdict = task.verdict;
  row.reason = task.reason;
  row.detail = task.step_time_us;
  return JournalRecord(std::move(row));
}

JournalRecord JournalRecord::begin_version(VersionBegun begun) {
  JournalRow row;
  row.kind = RecordKind::kVersion;
  row.version = begun.version;
  row.detail = static_cast<uint32_t>(begun.trigger);
  row.step_scale = begun.step_scale;
  row.digest = begun.digest;
  row.weight = begun.promise.has_value() ? 1 : 0;
  row.loss_before = begun.promise.value_or(0);
  row.payload = std::move(begun.payload);
  if (begun.clip) {
    put_word(begun.clip->radius, sizeof(uint64_t), &row.notes);
    put_word(begun.clip->clipped_count, sizeof(uint32_t), &row.notes);
  }
  return JournalRecord(std::move(row));
}

JournalRecord JournalRecord::run_state(RunEventDecided decided) {
  JournalRow row;
  row.kind = RecordKind::kRunState;
  row.version = decided.version;
  row.detail = static_cast<uint32_t>(decided.event);
  row.payload = std::move(decided.cause);
  return JournalRecord(std::move(row));
}

std::optional<float> JournalRecord::promise() const {
  const JournalRow& row = of(RecordKind::kVersion);
  return row.weight == 0 ? std::nullopt : std::optional(row.loss_before);
}

Status JournalRecord::read_clip(std::optional<ClipDecided>* out) const {
  const std::span<const uint8_t> notes = of(RecordKind::kVersion).notes;
  out->reset();
  if (notes.empty()) {
    return Status::kOk;
  }
  if (notes.size() != sizeof(uint64_t) + sizeof(uint32_t)) {
    return Status::kDataCorrupt;
  }
  ClipDecided& clip = out->emplace();
  clip.radius = word_at(notes.first(sizeof(uint64_t)));
  clip.clipped_count = static_cast<uint32_t>(word_at(notes.subspan(sizeof(uint64_t))));
  return Status::kOk;
}

bool JournalRecord::has_device() const { return row_.kind == RecordKind::kTaskIssued || is_judgement(); }

Real JournalRecord::inverse_participation() const {
  const Real inverse = of(RecordKind::kUpdate).step_scale;
  return inverse == 0 ? 1 : inverse;
}

UpdateNotes JournalRecord::notes() const {
  UpdateNotes notes;
  static_cast<void>(read_notes(&notes));
  return notes;
}

bool JournalRecord::tells_losses() const {
  UpdateNotes notes;
  return read_notes(&notes) == Status::kOk && !notes.hides_losses;
}

const JournalRow& JournalRecord::of_device() const {
  GS_ASSERT(has_device());
  return row_;
}

const JournalRow& JournalRecord::of_judgement() const {
  GS_ASSERT(is_judgement());
  return row_;
}

}  // namespace gradstream
