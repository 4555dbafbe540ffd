// Checkpoints of a coordinator (server/journal/checkpoint.h): when one is due, and its bytes.
//
//   magic u32, form u8, bytes of a Real u8, run u32, sequence u64, version u32 | state | CRC-32C of all before it u32
//
// The state is what Ledger::exchange() and exchange() below list. A release that lists other fields raises kForm, and
// reads the forms of releases since the first one: a journal that was cut has nothing else.
#include <algorithm>
#include <utility>

#include "runtime/base/crc32c.h"
#include "server/coordinator/coordinator_state.h"
#include "server/rules/step_rule.h"

namespace gradstream {
namespace {

constexpr uint32_t kMagic = 0x4b435347;  // "GSCK"
// 2: RunProgress knows which losses it watches. 3: Fleet knows who was seen, and who gave what.
constexpr uint8_t kForm = 3;
constexpr size_t kChecksumSize = sizeof(uint32_t);
// Of a record without its payload, in a database.
constexpr uint64_t kRecordBytes = 80;
// A fleet whose updates are refused writes records all the same: then they count.
constexpr uint64_t kRecordsAnUpdate = 4;

// The same text, which lives as long as the program; null: there is none such.
const char* static_text(const std::string& text) {
  for (const Trigger trigger : {Trigger::kNone, Trigger::kGoal, Trigger::kDeadline, Trigger::kStallEnded}) {
    if (text == trigger_name(trigger)) {
      return trigger_name(trigger);
    }
  }
  return nullptr;
}

void exchange_round(StateArchive& io, RoundSummary& round) {
  std::string trigger = round.trigger;
  io.text(trigger);
  const char* const known = static_text(trigger);
  round.trigger = known != nullptr ? known : "";
  if (known == nullptr) {
    io.fail();
  }
  io.values(round.version, round.time_ms, round.folded, round.late, round.partial, round.has_losses, round.loss_before,
            round.loss_after, round.upload_bytes, round.record_bytes, round.opened_ms, round.extensions, round.step);
  io.text(round.bound);
  io.optional(round.quality, [&io](Quality& quality) {
    io.values(quality.version, quality.device_count, quality.sample_count, quality.loss, quality.metric);
  });
}

// What stands before the state.
struct Head {
  uint32_t magic = kMagic;
  uint8_t form = kForm;
  uint8_t real_size = sizeof(Real);
  uint32_t run = 0;
  uint64_t sequence = 0;
  uint32_t version = 0;
  void exchange(StateArchive& io) { io.values(magic, form, real_size, run, sequence, version); }
};

}  // namespace

void Coordinator::State::count_for_checkpoint(const JournalRecord& record) {
  CheckpointPace& pace = noted.checkpoints;
  pace.updates += record.kind() == RecordKind::kUpdate ? 1 : 0;
  ++pace.records;
  pace.bytes += kRecordBytes + record.payload().size();
}

bool Coordinator::State::is_checkpoint_due() const {
  const CheckpointPace& pace = noted.checkpoints;
  const bool is_long = pace.updates >= pace.update_count || pace.records >= kRecordsAnUpdate * pace.update_count;
  const bool is_worth = pace.bytes >= pace.share * pace.size || pace.bytes >= kCheckpointTailMax;
  return pace.update_count > 0 && is_long && is_worth;
}

void Coordinator::State::exchange(StateArchive& io) {
  ledger.exchange(io);
  io.values(noted.version_ms, idle_since_ms);
  io.list(replayed_rounds, [&io](RoundSummary& round) { exchange_round(io, round); });
}

Checkpoint Coordinator::State::make_checkpoint() {
  StateArchive io;
  Head head;
  head.run = identity.run;
  head.sequence = version_sequence;
  head.version = ledger.run().version();
  head.exchange(io);
  exchange(io);
  uint32_t checksum = crc32c(0, io.bytes().data(), io.bytes().size());
  io.values(checksum);
  Checkpoint out;
  out.bytes = io.take_bytes();
  out.head = {head.sequence, head.version, ledger.update_count(), out.bytes.size()};
  noted.checkpoints = {
      .update_count = noted.checkpoints.update_count, .share = noted.checkpoints.share, .size = out.bytes.size()};
  return out;
}

void Coordinator::set_checkpoints(uint32_t update_count, uint32_t share) {
  state_->noted.checkpoints.update_count = update_count;
  state_->noted.checkpoints.share = share;
}

bool Coordinator::is_at_version() const {
  return state_->ledger.run().has_version() && state_->version_sequence == state_->ledger.last_sequence();
}

Checkpoint Coordinator::checkpoint() {
  GS_ASSERT(is_at_version());
  return state_->make_checkpoint();
}

PartialSum Coordinator::take_partial() { return state_->ledger.take_partial(); }

UpdateKeeper* Coordinator::keeper() { return state_->ledger.keeper(); }

void Coordinator::adopt_row(uint32_t device, DeviceRow row) {
  row.task.record_sequence = row.judged.record_sequence = row.accepted.record_sequence = 0;
  state_->ledger.fleet().at(device).row = row;
}

void Coordinator::forget_figures(uint32_t device) { state_->ledger.forget_figures(device); }

Status Coordinator::restore(std::span<const uint8_t> bytes) {
  State& state = *state_;
  GS_ASSERT(!state.is_started && state.ledger.last_sequence() == 0);
  if (bytes.size() < kChecksumSize) {
    return Status::kDataCorrupt;
  }
  const std::span<const uint8_t> body = bytes.first(bytes.size() - kChecksumSize);
  StateArchive end(bytes.last(kChecksumSize));
  uint32_t checksum = 0;
  end.values(checksum);
  StateArchive io(body);
  Head head;
  head.exchange(io);
  if (crc32c(0, body.data(), body.size()) != checksum || head.magic != kMagic || head.form < 1 || head.form > kForm ||
      head.real_size != sizeof(Real) || head.run != state.identity.run) {
    return Status::kDataCorrupt;
  }
  io.set_form(head.form);
  state.exchange(io);
  if (!io.is_sound() || !io.is_at_end() || state.ledger.last_sequence() != head.sequence ||
      state.ledger.run().version() != head.version) {
    return Status::kDataCorrupt;
  }
  state.version_sequence = head.sequence;
  state.durable_sequence = head.sequence;
  state.durable_version = head.version;
  state.opened_ms = state.noted.version_ms;
  state.noted.checkpoints.size = bytes.size();
  return Status::kOk;
}

}  // namespace gradstream
