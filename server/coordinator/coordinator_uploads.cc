// Uploads: what is wrong with one, what it is worth, and its Ack.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "server/coordinator/coordinator_state.h"
#include "server/run/run_core.h"
#include "server/run/trigger.h"
#include "server/run/weights.h"
#include "server/run/work.h"

namespace gradstream {
namespace {

gs_Reason reason_of(Status status) {
  switch (status) {
    case Status::kNotFinite:
      return gs_Reason_REASON_NOT_FINITE;
    case Status::kOutOfRange:
      return gs_Reason_REASON_OUT_OF_RANGE;
    case Status::kSingular:
      return gs_Reason_REASON_TOO_STALE;
    case Status::kInvalidArgument:
      return gs_Reason_REASON_WRONG_SHAPE;
    case Status::kProtocolError:
      return gs_Reason_REASON_OLDER_UPDATE;
    default:
      return gs_Reason_REASON_MALFORMED;
  }
}

// A device whose loss is no number has trained on nothing, whatever its values are.
bool has_finite_loss(const Upload& upload) {
  return std::isfinite(upload.loss_before) && std::isfinite(upload.loss_after);
}

}  // namespace

// A device sends one content under one task, however often. The first verdict stands either way: this tells on a
// device whose storage is broken. By the checksum that the device keeps with its upload: one whose bytes do not fit it
// is refused where it could count.
void Coordinator::State::compare_content(uint32_t index, const Upload& upload, uint64_t now_ms) {
  FleetDevice& device = ledger.fleet().at(index);
  if (device.session.content_task == upload.task_sequence && device.session.content_crc32c != upload.crc32c) {
    ++counters.updates_changed;
    log_of(device, "update_changed"_event, Fields().add("device", device.name).add("task", upload.task_sequence),
           now_ms);
  }
  device.session.content_task = upload.task_sequence;
  device.session.content_crc32c = upload.crc32c;
}

void Coordinator::State::on_upload(SessionId id, const Upload& upload, uint64_t now_ms) {
  const uint32_t index = sessions.at(id).device;
  compare_content(index, upload, now_ms);
  if (sessions.at(id).is_upload_limited) {
    send_ack(id, upload.task_sequence, gs_Verdict_VERDICT_TRY_LATER, gs_Reason_REASON_RATE_LIMIT, 0);
    return;
  }
  switch (sequence_state(ledger.fleet().at(index).row, upload.task_sequence)) {
    case SequenceState::kUnknown:
      ++counters.updates_refused;
      count_refusal(gs_Reason_REASON_UNKNOWN_TASK);
      log_refusal("update_refused"_event, index, upload.task_sequence, gs_Reason_REASON_UNKNOWN_TASK, now_ms);
      send_ack(id, upload.task_sequence, gs_Verdict_VERDICT_REFUSED, gs_Reason_REASON_UNKNOWN_TASK, 0);
      return;
    case SequenceState::kSuperseded: {
      // A crash before these are durable would make the older task the last one again, with a verdict of its own.
      const FleetDevice& device = ledger.fleet().at(index);
      ++counters.updates_superseded;
      send_ack(id, upload.task_sequence, gs_Verdict_VERDICT_SUPERSEDED, gs_Reason_REASON_NONE,
               std::max(device.row.task.record_sequence, device.row.judged.record_sequence), said_clip(index, upload));
      return;
    }
    case SequenceState::kJudged:
      ++counters.updates_duplicate;
      if (folds_duplicates) {
        fold_duplicate(index, upload, now_ms);
      }
      judge_again(id, index, upload, now_ms);
      return;
    case SequenceState::kOpen:
      judge_upload(id, index, upload, now_ms);
      return;
  }
}

// The verdict is known: the device is told it once more.
void Coordinator::State::judge_again(SessionId id, uint32_t index, const Upload& upload, uint64_t now_ms) {
  const AckedPull next = {upload.task_sequence, {true, upload.base_version, said_base(upload), 0}};
  if (send_judged_ack(id, index, upload, true)) {
    take_ack_as_pull(id, next, now_ms);
  }
}

void Coordinator::State::judge_upload(SessionId id, uint32_t index, const Upload& upload, uint64_t now_ms) {
  if (is_storage_failed) {
    send_ack(id, upload.task_sequence, gs_Verdict_VERDICT_TRY_LATER, gs_Reason_REASON_STORAGE, 0);
    return;
  }
  if (is_version_full()) {
    send_ack(id, upload.task_sequence, gs_Verdict_VERDICT_TRY_LATER, gs_Reason_REASON_NONE, 0);
    return;
  }
  const gs_Reason fault =
      has_own_answers(ledger.stage()) ? judge_answer(index, upload, now_ms) : judge_update(index, upload, now_ms);
  // The upload is the session's, which a full queue may end.
  const AckedPull next = {upload.task_sequence, {true, upload.base_version, said_base(upload), 0}};
  const bool is_pull = send_judged_ack(id, index, upload, false);
  note_barred(index, now_ms);
  judge_open_round(now_ms);
  if (fault != gs_Reason_REASON_NONE) {
    note_blocked(now_ms);
  } else if (!ledger.stall().empty()) {
    review_blocked(now_ms);
  }
  if (is_pull) {
    take_ack_as_pull(id, next, now_ms);  // after the version that the update may have closed
  }
}

// Accepts or refuses an upload that the run's rule folds, and says why it was refused.
gs_Reason Coordinator::State::judge_update(uint32_t index, const Upload& upload, uint64_t now_ms) {
  FoldInput input;
  input.device = index;
  input.owner = parameters.owner_of(index);
  const gs_Reason fault = find_fault(index, upload, now_ms, &noted.upload_values, &input);
  if (fault == gs_Reason_REASON_NONE) {
    accept_upload(index, upload, input, now_ms);
    return fault;
  }
  ledger.fleet().at(index).session.refusals.complaint =
      fault == gs_Reason_REASON_OUT_OF_RANGE ? find_complaint(index, upload, input) : Complaint();
  refuse_upload(index, upload, fault, now_ms);
  return fault;
}

// A version that takes no more updates: what comes then waits on its device. Its round closes as soon as it may. Rules
// that step by one update take one into a version, and while the run is paused no version closes.
bool Coordinator::State::is_version_full() const {
  const uint32_t update_count = ledger.tally().on_time_count + ledger.tally().late_count;
  const bool is_single = parameters.delay->delay_rule != DelayRule::kNone && parameters.trigger->buffer_size == 1;
  return update_count >= update_count_max(parameters, has_own_answers(ledger.stage())) ||
         (ledger.is_paused() && is_single && update_count > 0);
}

// What one local step of the upload took: by the device's own clock, or where it does not say, at most. 0: not known.
uint32_t Coordinator::State::measured_step_us(uint32_t index, const Upload& upload, uint64_t now_ms) const {
  const uint64_t issued_ms = ledger.fleet().at(index).row.task.issued_ms;
  if (upload.step_time_us > 0 || upload.steps_done == 0 || now_ms <= issued_ms) {
    return upload.step_time_us;
  }
  return static_cast<uint32_t>(std::min<uint64_t>((now_ms - issued_ms) * 1000 / upload.steps_done, UINT32_MAX));
}

// Of an upload that is not of the open version. What a stage before training asked for is of no use once it is closed.
bool Coordinator::State::is_too_stale(const Upload& upload) const {
  const uint32_t staleness = ledger.version() - upload.base_version;
  return staleness > 0 &&
         (parameters.trigger->late == LatePolicy::kDrop || staleness > parameters.trigger->staleness_max ||
          upload.base_version < ledger.open_stage().train_version);
}

// The digest of the model that the device trained from; 0: it does not say. A device that was told the run's nonce
// mixes it in: what was trained for another run of the same models is no answer to this one's tasks.
uint64_t Coordinator::State::said_base(const Upload& upload) const {
  const std::optional<uint64_t> known = ledger.digest_of(upload.base_version);
  return known && upload.base_digest == (*known ^ identity.run_nonce) ? *known : upload.base_digest;
}

// What was made from another model than the version's, by damage or for another run, is no update of it, and no answer
// to a stage of it. The device's next Pull says that digest too, and is answered by a snapshot.
bool Coordinator::State::is_of_base(const Upload& upload) const {
  const uint64_t said = said_base(upload);
  return upload.base_digest == 0 || said == ledger.digest_of(upload.base_version).value_or(said);
}

// The first thing wrong with an upload of an open task before its values are looked at, or REASON_NONE.
gs_Reason Coordinator::State::find_head_fault(uint32_t index, const Upload& upload, uint64_t now_ms) const {
  const FleetDevice& device = ledger.fleet().at(index);
  const bool is_scalar = parameters.stream() == StreamKind::kScalarStream;
  if (upload.base_version != device.row.task.version) {
    return gs_Reason_REASON_WRONG_VERSION;
  }
  if (ledger.is_over()) {
    return gs_Reason_REASON_UNKNOWN_RUN;
  }
  // Before its numbers: what an older version asked for may have been another phase's.
  if (is_too_stale(upload)) {
    return gs_Reason_REASON_TOO_STALE;
  }
  if (!is_of_base(upload)) {
    return gs_Reason_REASON_WRONG_VERSION;
  }
  const TaskTerms terms = ledger.task_terms();
  if (upload.encoding != parameters.wire->upload_encoding) {
    return gs_Reason_REASON_WRONG_ENCODING;
  }
  const size_t value_count =
      is_scalar ? static_cast<size_t>(upload.steps_done) * parameters.local->direction_count : parameters.value_count();
  if (upload.kind != parameters.stream() || upload.is_oversize || upload.value_count != value_count ||
      upload.steps_done > device.row.task.steps ||
      (is_scalar && upload.direction_count != parameters.local->direction_count)) {
    return gs_Reason_REASON_WRONG_SHAPE;
  }
  if (upload.steps_done < terms.steps_min) {
    return gs_Reason_REASON_TOO_FEW_STEPS;
  }
  // A clock that was set back between two lives of the server proves nothing.
  const bool is_timed = now_ms >= device.row.task.issued_ms;
  if (is_timed &&
      !had_time_for(*parameters.trigger, upload.steps_done, upload.step_time_us, now_ms - device.row.task.issued_ms)) {
    return gs_Reason_REASON_NO_TIME;
  }
  if (!has_finite_loss(upload)) {
    return gs_Reason_REASON_NOT_FINITE;
  }
  if (crc32c(0, upload.bytes.data(), upload.bytes.size()) != upload.crc32c) {
    return gs_Reason_REASON_CORRUPT;
  }
  return gs_Reason_REASON_NONE;
}

// The same with its values: REASON_NONE with them decoded, and what to fold, which the ledger has prepared.
gs_Reason Coordinator::State::find_fault(uint32_t index, const Upload& upload, uint64_t now_ms,
                                         std::vector<Real>* values, FoldInput* input) {
  const gs_Reason fault = find_head_fault(index, upload, now_ms);
  if (fault != gs_Reason_REASON_NONE) {
    return fault;
  }
  values->resize(upload.value_count);
  const Status decoded =
      decode_values(upload.encoding, upload.value_count, upload.bytes.data(), upload.bytes.size(), values->data());
  if (decoded != Status::kOk) {
    return reason_of(decoded);
  }
  input->base_version = upload.base_version;
  input->steps_done = upload.steps_done;
  const uint32_t staleness = ledger.version() - upload.base_version;
  input->weight = fold_weight(parameters, ledger.fleet().at(index).session.sample_count, staleness);
  input->sample_count = ledger.fleet().at(index).row.task.samples;
  input->values = *values;
  input->inverse_participation = ledger.inverse_participation(index);
  const Status folds = ledger.prepare_fold(*input);
  return folds == Status::kOk ? gs_Reason_REASON_NONE : reason_of(folds);
}

// What goes into the journal of an update's notes: a part that is no number harms no update, and stays out.
UpdateNotes Coordinator::State::take_notes(const UpdateNotes& said) {
  UpdateNotes notes = said;
  if (notes.line && !is_sound(*notes.line)) {
    notes.line.reset();
    ++counters.notes.lines_not_finite;
  }
  if (notes.evaluation &&
      (!is_sound(*notes.evaluation) || !is_possible(ledger.quality().metric(), *notes.evaluation))) {
    notes.evaluation.reset();
    ++counters.notes.evaluations_not_finite;
  }
  return notes;
}

void Coordinator::State::accept_upload(uint32_t index, const Upload& upload, const FoldInput& input, uint64_t now_ms) {
  const bool is_late = upload.base_version < ledger.version();
  std::vector<uint8_t> values(encoded_size(kRealEncoding, input.values.size()));
  const Status status = encode_values(kRealEncoding, input.values.size(), input.values.data(), values.data());
  GS_ASSERT(status == Status::kOk);  // find_fault() has seen that they are finite
  UpdateNotes notes = take_notes(upload.notes);
  notes.hides_losses = has_feature(ledger.fleet().at(index).session.image, gs_Feature_FEATURE_NO_LOSSES);
  decide(JournalRecord::update({.device = index,
                                .task_sequence = upload.task_sequence,
                                .base_version = upload.base_version,
                                .version = ledger.version() + 1,
                                .steps_done = upload.steps_done,
                                .weight = input.weight,
                                .verdict = is_late ? gs_Verdict_VERDICT_LATE : gs_Verdict_VERDICT_FOLDED,
                                .inverse_participation = input.inverse_participation,
                                .step_time_us = measured_step_us(index, upload, now_ms),
                                .loss_before = notes.hides_losses ? 0 : upload.loss_before,
                                .loss_after = notes.hides_losses ? 0 : upload.loss_after,
                                .values = std::move(values),
                                .notes = notes}),
         now_ms, FoldSource::kLive);
  note_answer(&ledger.fleet().at(index).session);
  if (!is_late) {
    noted.answers = {noted.answers.last_ms, now_ms, index};
  }
  noted.upload_bytes += upload.bytes.size();
  ++(is_late ? counters.updates_late : counters.updates_folded);
  counters.updates_partial += upload.steps_done < ledger.fleet().at(index).row.task.steps ? 1 : 0;
}

void Coordinator::State::refuse_upload(uint32_t index, const Upload& upload, gs_Reason reason, uint64_t now_ms) {
  // An update that is too late says how slow its device is; else the device would get the same work for ever.
  const uint32_t step_us = measured_step_us(index, upload, now_ms);
  const bool is_measured = reason == gs_Reason_REASON_TOO_STALE &&
                           had_time_for(*parameters.trigger, upload.steps_done, step_us,
                                        now_ms - std::min(now_ms, ledger.fleet().at(index).row.task.issued_ms));
  end_task_refused(index, upload.task_sequence, reason, is_measured ? step_us : 0, now_ms);
  ++counters.updates_refused;
  count_refusal(reason);
  counters.updates_without_time += reason == gs_Reason_REASON_NO_TIME ? 1 : 0;
  counters.updates_loss_not_finite += reason == gs_Reason_REASON_NOT_FINITE && !has_finite_loss(upload) ? 1 : 0;
  log_refusal("update_refused"_event, index, upload.task_sequence, reason, now_ms);
}

// A reason that this release does not know counts as none.
void Coordinator::State::count_refusal(gs_Reason reason) {
  const auto index = static_cast<size_t>(reason);
  ++counters.refusals[index < counters.refusals.size() ? index : 0];
}

// The verdict of a task that ends without an update, by whichever end.
void Coordinator::State::end_task_refused(uint32_t index, uint32_t task_sequence, gs_Reason reason,
                                          uint32_t step_time_us, uint64_t now_ms) {
  FleetDevice& device = ledger.fleet().at(index);
  device.session.refusals.is_forgiven = false;
  device.session.refusals.last_ms = now_ms;
  const ProgressSaid before = ledger.progress().said();
  decide(JournalRecord::verdict({.device = index,
                                 .task_sequence = task_sequence,
                                 .version = device.row.task.version,
                                 .verdict = gs_Verdict_VERDICT_REFUSED,
                                 .reason = reason,
                                 .step_time_us = step_time_us}),
         now_ms);
  log_progress(before);
}

// What the clip left of an update that the memory holds, as an Ack says it. The rule's state has it, which records
// alone move: the same Ack comes again after a restart.
uint32_t Coordinator::State::said_clip(uint32_t index, const Upload& upload) const {
  const uint32_t scale = ledger.remembered_clip(index, upload.base_version);
  return scale == kClipScaleOne ? 0 : scale;
}

// An answer beside the last verdict. required: the record that it depends on; 0: none.
void Coordinator::State::send_ack(SessionId id, uint32_t task_sequence, gs_Verdict verdict, gs_Reason reason,
                                  uint64_t required, uint32_t clip_scale) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_ack_tag;
  message.body.ack.task_sequence = task_sequence;
  message.body.ack.verdict = verdict;
  message.body.ack.reason = reason;
  message.body.ack.clip_scale = clip_scale;
  message.body.ack.has_retry = true;
  message.body.ack.retry = reason == gs_Reason_REASON_RATE_LIMIT ? refused_window() : window(kRefusedWindowFactor);
  respond(id, message, required);
}

// The verdict of a task whose verdict is known, once its record is durable. Whether the Ack stands for the device's
// next Pull too.
bool Coordinator::State::send_judged_ack(SessionId id, uint32_t index, const Upload& upload, bool is_duplicate) {
  const uint32_t task_sequence = upload.task_sequence;
  const JudgedTask& judged = judged_task(ledger.fleet().at(index).row, task_sequence);
  const bool is_refused = judged.verdict == gs_Verdict_VERDICT_REFUSED;
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_ack_tag;
  gs_Ack& ack = message.body.ack;
  ack.task_sequence = judged.task_sequence;
  ack.verdict = judged.verdict;
  ack.reason = judged.reason;
  ack.duplicate = is_duplicate;
  ack.version = judged.version;
  ack.staleness_weight = judged.staleness_weight;
  ack.has_retry = true;
  // Who only came too late did nothing wrong. A longer wait would make it miss the next version too.
  const bool is_only_late = judged.reason == gs_Reason_REASON_TOO_STALE;
  ack.retry = window(is_refused && !is_only_late ? kRefusedWindowFactor : 1);
  const Complaint& complaint = ledger.fleet().at(index).session.refusals.complaint;
  if (is_refused && complaint.has_value() && complaint.task_sequence == task_sequence) {
    ack.value = complaint.value;
    ack.limit = complaint.most;
    ack.fold_scale_log2 = complaint.fold_scale_log2;
    ack.step_size = complaint.step_size;
  }
  ack.clip_scale = is_refused ? 0 : said_clip(index, upload);
  ack.hold = !is_refused && may_hold_after(id, upload);
  const bool is_pull = ack.hold && stands_for_pull(index, upload);
  respond(id, message, judged.record_sequence);
  return is_pull;
}

void Coordinator::State::fold_duplicate(uint32_t index, const Upload& upload, uint64_t now_ms) {
  std::vector<Real> values;
  FoldInput input;
  input.device = index;
  if (!has_own_answers(ledger.stage()) && ledger.fleet().at(index).row.answered_version == ledger.version() &&
      find_fault(index, upload, now_ms, &values, &input) == gs_Reason_REASON_NONE) {
    input.owner = parameters.owner_of(index);
    ledger.fold_again_for_test(input);
  }
}

}  // namespace gradstream
