// Uploads: what is wrong with one, what it is worth, and its Ack.
#include <utility>

#include "server/coordinator/coordinator_state.h"
#include "server/run/run_core.h"

namespace gradstream {

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
  const UploadStart start =
      begin_upload(view(), ledger.fleet().at(index).row, upload.task_sequence, sessions.at(id).is_upload_limited);
  switch (start.course) {
    case UploadCourse::kUnknown:
      ++counters.updates_refused;
      count_refusal(start.reason);
      log_refusal("update_refused"_event, index, upload.task_sequence, start.reason, now_ms);
      break;
    case UploadCourse::kSuperseded:
      ++counters.updates_superseded;
      send_ack(id, upload.task_sequence, start, said_clip(index, upload));
      return;
    case UploadCourse::kKnown:
      ++counters.updates_duplicate;
      if (folds_duplicates) {
        fold_duplicate(index, upload, now_ms);
      }
      judge_again(id, index, upload, now_ms);
      return;
    case UploadCourse::kJudge:
      judge_upload(id, index, upload, now_ms);
      return;
    case UploadCourse::kLimited:
    case UploadCourse::kUnstored:
    case UploadCourse::kFull:
      break;
  }
  send_ack(id, upload.task_sequence, start, 0);
}

// The Pull that the Ack of the upload stands for. The upload is the session's, which a full queue may end.
Coordinator::State::AckedPull Coordinator::State::pull_after(const Upload& upload) const {
  const uint64_t base = said_base(identity.run_nonce, upload, ledger.run().digest_of(upload.base_version));
  return {upload.task_sequence, {true, upload.base_version, base, 0}};
}

// The verdict is known: the device is told it once more.
void Coordinator::State::judge_again(SessionId id, uint32_t index, const Upload& upload, uint64_t now_ms) {
  const AckedPull next = pull_after(upload);
  if (send_judged_ack(id, index, upload, true)) {
    take_ack_as_pull(id, next, now_ms);
  }
}

void Coordinator::State::judge_upload(SessionId id, uint32_t index, const Upload& upload, uint64_t now_ms) {
  const gs_Reason fault =
      has_own_answers(ledger.run().stage()) ? judge_answer(index, upload, now_ms) : judge_update(index, upload, now_ms);
  const AckedPull next = pull_after(upload);
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

// The first thing wrong with an upload of an open task, or REASON_NONE with its values decoded, and what to fold, which
// the ledger has prepared.
gs_Reason Coordinator::State::find_fault(uint32_t index, const Upload& upload, uint64_t now_ms,
                                         std::vector<Real>* values, FoldInput* input) {
  const RunView run = view();
  const FleetDevice& device = std::as_const(ledger.fleet()).at(index);
  gs_Reason fault = find_head_fault(run, device.row, upload, ledger.run().digest_of(upload.base_version), now_ms);
  if (fault == gs_Reason_REASON_NONE) {
    fault = decode_upload(upload, values);
  }
  if (fault != gs_Reason_REASON_NONE) {
    return fault;
  }
  *input = fold_input(run, index, device.row, device.session.sample_count, upload, *values);
  input->inverse_participation = ledger.inverse_participation(index);
  return reason_of(ledger.prepare_fold(*input));
}

void Coordinator::State::accept_upload(uint32_t index, const Upload& upload, const FoldInput& input, uint64_t now_ms) {
  const bool is_late = upload.base_version < ledger.run().version();
  const FleetDevice& device = std::as_const(ledger.fleet()).at(index);
  const KeptNotes kept = keep_notes(upload.notes, ledger.quality().metric(), device.session.image);
  counters.notes.lines_not_finite += kept.drops_line ? 1 : 0;
  counters.notes.evaluations_not_finite += kept.drops_evaluation ? 1 : 0;
  decide(JournalRecord::update(accepted_update(view(), device.row, upload, input, kept.notes, now_ms)), now_ms,
         FoldSource::kLive);
  note_answer(&ledger.fleet().at(index).session);
  if (!is_late) {
    noted.answers = {noted.answers.last_ms, now_ms, index};
  }
  noted.upload_bytes += upload.bytes.size();
  ++(is_late ? counters.updates_late : counters.updates_folded);
  counters.updates_partial += upload.steps_done < ledger.fleet().at(index).row.task.steps ? 1 : 0;
}

void Coordinator::State::refuse_upload(uint32_t index, const Upload& upload, gs_Reason reason, uint64_t now_ms) {
  const uint32_t step_us = refused_step_us(view(), ledger.fleet().at(index).row, upload, reason, now_ms);
  end_task_refused(index, upload.task_sequence, reason, step_us, now_ms);
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
  decide(JournalRecord::verdict(refused_task(index, device.row, task_sequence, reason, step_time_us)), now_ms);
  log_progress(before);
}

// What the clip left of an update that the memory holds, as an Ack says it. The rule's state has it, which records
// alone move: the same Ack comes again after a restart.
uint32_t Coordinator::State::said_clip(uint32_t index, const Upload& upload) const {
  const uint32_t scale = ledger.run().remembered_clip(index, upload.base_version);
  return scale == kClipScaleOne ? 0 : scale;
}

// An answer beside the last verdict.
void Coordinator::State::send_ack(SessionId id, uint32_t task_sequence, const UploadStart& start, uint32_t clip_scale) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_ack_tag;
  message.body.ack.task_sequence = task_sequence;
  message.body.ack.verdict = start.verdict;
  message.body.ack.reason = start.reason;
  message.body.ack.clip_scale = clip_scale;
  message.body.ack.has_retry = true;
  message.body.ack.retry = start.course == UploadCourse::kLimited ? refused_window() : window(kRefusedWindowFactor);
  respond(id, message, start.required);
}

// The verdict of a task whose verdict is known, once its record is durable. Whether the Ack stands for the device's
// next Pull too.
bool Coordinator::State::send_judged_ack(SessionId id, uint32_t index, const Upload& upload, bool is_duplicate) {
  const FleetDevice& device = ledger.fleet().at(index);
  const JudgedAck judged = judged_ack(device.row, device.session, upload.task_sequence, is_duplicate);
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_ack_tag;
  gs_Ack& ack = message.body.ack;
  ack = judged.ack;
  ack.has_retry = true;
  ack.retry = window(judged.is_long_wait ? kRefusedWindowFactor : 1);
  if (ack.verdict != gs_Verdict_VERDICT_REFUSED) {
    ack.clip_scale = said_clip(index, upload);
    ack.hold = may_hold_after(id, upload);
  }
  const bool is_pull = ack.hold && stands_for_pull(index, upload);
  respond(id, message, judged.required);
  return is_pull;
}

void Coordinator::State::fold_duplicate(uint32_t index, const Upload& upload, uint64_t now_ms) {
  std::vector<Real> values;
  FoldInput input;
  if (!has_own_answers(ledger.run().stage()) &&
      ledger.fleet().at(index).row.answered_version == ledger.run().version() &&
      find_fault(index, upload, now_ms, &values, &input) == gs_Reason_REASON_NONE) {
    ledger.fold_again_for_test(input);
  }
}

}  // namespace gradstream
