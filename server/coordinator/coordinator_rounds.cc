// Rounds: when a version opens and closes, and the events of the run.
#include <algorithm>
#include <utility>

#include "server/coordinator/coordinator_state.h"
#include "server/run/advice.h"
#include "server/run/fold_keys.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "server/run/trigger.h"
#include "server/run/trigger_keys.h"

namespace gradstream {

void Coordinator::State::open_run(uint64_t now_ms) {
  if (!is_started || ledger.run().has_version() || ledger.is_over() || ledger.is_paused()) {
    return;
  }
  if (ledger.fleet().active_count() < parameters.trigger->device_count) {
    log("run_waiting"_event,
        Fields().add("enrolled", ledger.fleet().active_count()).add("wanted", parameters.trigger->device_count));
    return;
  }
  for (const std::string& sentence : advice(parameters)) {
    log("run_advice"_event, Fields().add("text", sentence));
  }
  const FoldKeys& fold = parameters.fold.keys();
  Fields clip;
  clip.add("fold_weight", name_of(fold.fold_weight)).add("clip_norm", name_of(fold.clip_norm));
  if (fold.clip_norm == ClipNorm::kFixed) {
    clip.add("clip_norm_value", number_text(static_cast<double>(fold.clip_norm_value)));
  } else if (fold.clip_norm != ClipNorm::kNone) {
    clip.add("clip_factor", number_text(static_cast<double>(fold.clip_factor)));
  }
  log("run_clip"_event, clip);
  JournalRecord record = ledger.open_first_version(first_model);
  note_version(record.sequence());
  noted.version_ms = now_ms;
  persist(std::move(record), now_ms);
}

// T of the open version, which is durable.
void Coordinator::State::begin_time(uint64_t now_ms) {
  opened_ms = now_ms;
  deadline_ms = ledger.is_over() || ledger.is_paused() ? kNever : now_ms + parameters.trigger->report_deadline_ms;
  review_blocked(now_ms);  // what barred a device in the version before may bar it in this one
}

// Answers that close the open version as it stands, for those who watch: judge_round() decides.
uint32_t Coordinator::State::wanted_answers() {
  const uint32_t asked = asked_count();
  const bool is_past = ledger.extension_count() > 0 || ledger.run_state() == gs_RunState_RUN_STATE_STALLED;
  if (awaits_seen(parameters)) {
    return std::max(1U, ledger.tally().on_time_count + ledger.fleet().awaited_count());
  }
  if (ledger.run().asks_everybody()) {
    const uint32_t goal = goal_of_all(parameters, asked, has_own_answers(ledger.run().stage()));
    return is_past ? std::min(least_of_all(parameters, asked), goal) : goal;
  }
  if (parameters.trigger->buffer_size > 0) {
    return is_past ? 1 : parameters.trigger->buffer_size;
  }
  return is_past ? update_least(parameters, asked) : update_goal(parameters, asked);
}

uint32_t Coordinator::State::least_answers() const {
  return awaits_seen(parameters) ? 1 : update_least(parameters, asked_count());
}

bool Coordinator::State::awaits_answers() const {
  const bool has_rounds = parameters.trigger->buffer_size == 0 || ledger.run().asks_everybody();
  return has_rounds && ledger.run().has_version() && !ledger.is_over() && !ledger.is_paused();
}

// Whether anything about the open version may be decided now.
bool Coordinator::State::is_decidable() const {
  return is_started && ledger.run().has_version() && !ledger.is_over() && !ledger.is_paused() && !is_storage_failed;
}

void Coordinator::State::judge_open_round(uint64_t now_ms) {
  if (!is_decidable()) {
    return;
  }
  RoundProgress progress;
  progress.asked_count = asked_count();
  progress.on_time_count = ledger.tally().on_time_count;
  progress.late_count = ledger.tally().late_count;
  progress.extension_count = ledger.extension_count();
  progress.is_stalled = ledger.run_state() == gs_RunState_RUN_STATE_STALLED;
  progress.is_past_deadline = now_ms >= deadline_ms;
  progress.is_anchor = ledger.run().asks_everybody();
  progress.keeps_answers = has_own_answers(ledger.run().stage());
  progress.awaited_count = awaits_seen(parameters) ? ledger.fleet().awaited_count() : 0;
  progress.has_deadline = deadline_ms != kNever;
  const RoundVerdict verdict = judge_round(parameters, progress);
  switch (verdict.decision) {
    case RoundDecision::kWait:
      return;
    case RoundDecision::kClose:
      close_round(verdict.trigger, now_ms);
      return;
    case RoundDecision::kExtend:
      deadline_ms = now_ms + parameters.trigger->report_deadline_ms;
      ++counters.rounds_extended;
      run_event(RunEvent::kExtended, now_ms);
      if (share_versions(parameters) > 0) {
        wake_held(now_ms);  // nobody else has come: those that had their share go on
      }
      return;
    case RoundDecision::kStall:
      deadline_ms = kNever;
      run_event(RunEvent::kStalled, now_ms);
      review_blocked(now_ms);  // devices that wait for their image or data are a better reason than the time
      return;
  }
}

// An accepted update without a direction, or whose step was not the whole one.
void Coordinator::State::count_notes(uint32_t version, const DelayNotes& notes) {
  counters.updates_still += notes.still_count;
  counters.steps_clamped += notes.clamped_count;
  counters.curves_antiparallel += notes.antiparallel_count;
  if (notes.has_any()) {
    log("step_adjusted"_event, Fields()
                                   .add("version", version)
                                   .add("still", notes.still_count)
                                   .add("clamped", notes.clamped_count)
                                   .add("antiparallel", notes.antiparallel_count));
  }
}

// What has changed since `before`, once: the numbers first, then the likely cause and the key to change. Nothing is
// changed by itself.
void Coordinator::State::log_progress(const ProgressSaid& before) {
  const ProgressView& now = ledger.progress().view();
  const auto say = [&](const EventRow& event, const ProgressWords& words) {
    log(event, Fields()
                   .add("version", ledger.run().version())
                   .add("promise_ratio", number_text(now.ratio))
                   .add("kept", number_text(now.kept))
                   .add("loss", number_text(now.loss))
                   .add("first_loss", number_text(now.first_loss))
                   .add("text", words.text)
                   .add("remedy", words.remedy));
  };
  const SmoothingVerdict& smoothing = ledger.progress().smoothing();
  const ProgressWords misfit = smoothing_words(smoothing, parameters);
  if (smoothing.fit != before.fit && !misfit.text.empty()) {
    log("smoothing"_event, Fields()
                               .add("version", ledger.run().version())
                               .add("smoothing", number_text(static_cast<double>(parameters.local->smoothing)))
                               .add("at_quarter", number_text(smoothing.at_quarter))
                               .add("at_fourfold", number_text(smoothing.at_fourfold))
                               .add("text", misfit.text)
                               .add("remedy", misfit.remedy));
  }
  if (now.drift_count != before.view.drift_count) {
    ++counters.drifts;
    say("drift"_event, drift_words(now));
  }
  if (now.state == before.view.state) {
    return;
  }
  const ProgressWords words = progress_words(now, parameters);
  switch (now.state) {
    case ProgressState::kNotImproving:
      return say("not_improving"_event, words);
    case ProgressState::kDiverged:
      return say("diverged"_event, words);
    case ProgressState::kStillFalling:
      return say("still_falling"_event, words);
    case ProgressState::kSettled:
      return say("settled"_event, words);
    case ProgressState::kStarting:
    case ProgressState::kWatching:
      return;
  }
}

namespace {

// What record and tally tell of a version that is made.
RoundSummary summary_of(const JournalRecord& record, Trigger trigger, const RoundTally& tally,
                        uint32_t extension_count) {
  RoundSummary summary;
  summary.version = record.version();
  summary.trigger = trigger_name(trigger);
  summary.folded = tally.on_time_count;
  summary.late = tally.late_count;
  summary.partial = tally.partial_count;
  summary.has_losses = tally.losses.has_losses(record);
  summary.loss_before = tally.losses.mean_before();
  summary.loss_after = tally.losses.mean_after();
  summary.record_bytes = record.payload().size();
  summary.extensions = extension_count;
  return summary;
}

// A round as recall() has it: without what no record knows.
RoundSummary as_recalled(const RoundSummary& round, uint64_t opened_ms) {
  RoundSummary known = round;
  known.opened_ms = opened_ms;
  known.missing.clear();
  known.asked = known.wanted = 0;
  known.waited_ms = 0;
  known.waited_for.clear();
  return known;
}

// From then on only an operator can change anything.
bool begins_idling(RunEvent event) {
  return event == RunEvent::kPaused || event == RunEvent::kFinished || event == RunEvent::kStopped;
}

// The same of the step, once the ledger has followed the record.
void add_step(const StepKeeper* steps, RoundSummary* summary) {
  if (steps != nullptr && steps->decision().state.first > 0) {
    summary->step = steps->decision().state.step;
    summary->bound = step_bound_name(steps->decision().bound);
  }
}

}  // namespace

// What the clip of the version that closed found. A device that is long again and again is named once an hour: its
// scale may be wrong, or it lies.
void Coordinator::State::note_clip(const ClipTally& tally, uint64_t now_ms) {
  for (const ClipTally::Norm& one : tally.norms) {
    counters.notes.updates_clipped += one.norm > tally.radius ? 1 : 0;
    const DeviceNorms* const norms = ledger.norms().find(one.device);
    if (norms == nullptr || !norms->is_outlier()) {
      continue;
    }
    FleetDevice& device = ledger.fleet().at(one.device);
    if (device.session.meters.outlier_ms != 0 && now_ms - device.session.meters.outlier_ms < kOutlierLineMs) {
      continue;
    }
    device.session.meters.outlier_ms = std::max<uint64_t>(now_ms, 1);
    log("update_outlier"_event, Fields()
                                    .add("device", device.name)
                                    .add("ratio", number_text(norms->ratio()))
                                    .add("clipped_share", number_text(norms->clipped_share()))
                                    .add("cosine", norms->cosine() == 0 ? "none" : number_text(norms->cosine())));
  }
}

// What the last trials have come to where no step was good.
void Coordinator::State::log_trials(uint32_t version) {
  const StepDecision decision = ledger.run().steps() != nullptr ? ledger.run().steps()->decision() : StepDecision();
  const bool has_good = std::any_of(decision.best.begin(), decision.best.end(), [](double best) { return best > 0; });
  if (decision.draw_count < kStartDrawCount || has_good) {
    return;
  }
  log("step_trials_bad"_event,
      Fields()
          .add("version", version)
          .add("step", number_text(decision.state.step))
          .add("text", "no trial step made the devices' loss smaller: the run begins with the least step"));
}

// Of the version that the version `version` was made from.
std::optional<Quality> Coordinator::State::quality_before(uint32_t version) const {
  const Quality* const quality = version == 0 ? nullptr : ledger.quality().find(version - 1);
  return quality == nullptr ? std::nullopt : std::optional(*quality);
}

// Before the round closes: a version that was to be evaluated, and that nobody has evaluated, is named.
void Coordinator::State::note_evaluations(const std::optional<Quality>& quality, bool was_wanted) {
  if (!was_wanted || quality.has_value()) {
    return;
  }
  log("not_evaluated"_event,
      Fields().add("version", ledger.run().version()).add("unable", ledger.fleet().unable_to_evaluate()));
}

// Whom the version that is open now does not wait for any more.
void Coordinator::State::log_gone() {
  if (ledger.fleet().gone_count() > 0) {
    log("devices_not_awaited"_event, Fields()
                                         .add("version", ledger.run().version())
                                         .add("devices", ledger.fleet().gone_names())
                                         .add("seen_versions", parameters.trigger.keys().seen_versions));
  }
}

// The round that closed last.
void Coordinator::State::log_round(uint64_t digest) {
  const RoundSummary& round = last_round;
  Fields line;
  line.add("version", round.version)
      .add_hex("digest", digest)
      .add("trigger", round.trigger)
      .add("folded", round.folded)
      .add("late", round.late)
      .add("partial", round.partial)
      .add("missing", round.missing);
  if (round.has_losses) {
    line.add("loss_before", number_text(round.loss_before)).add("loss_after", number_text(round.loss_after));
  }
  line.add("upload_bytes", round.upload_bytes).add("record_bytes", round.record_bytes);
  if (round.quality) {
    line.add("evaluated", round.quality->device_count)
        .add("metric", quality_metric_name(ledger.quality().metric()))
        .add("quality", number_text(round.quality->metric));
  }
  if (round.step > 0) {
    line.add("step", number_text(round.step)).add("bound", round.bound);
  }
  log("round_closed"_event, line);
}

// What the round that closes now waited for. Its missing devices are those of the version that was open.
void Coordinator::State::note_wait(Trigger trigger, uint64_t now_ms) {
  const LastAnswers answers = std::exchange(noted.answers, {});
  const uint64_t opened = last_round.opened_ms;
  if (parameters.trigger->buffer_size > 0 || opened == 0) {
    return;
  }
  const uint64_t last_ms = std::max(opened, answers.last_ms);
  if (trigger == Trigger::kDeadline && now_ms > last_ms) {
    last_round.waited_ms = now_ms - last_ms;
  } else if (answers.last_ms != 0) {
    last_round.waited_ms = last_ms - std::max(opened, answers.before_ms);
    last_round.waited_for = {ledger.fleet().at(answers.last_device).name};
  }
}

void Coordinator::State::close_round(Trigger trigger, uint64_t now_ms) {
  const RoundTally tally = ledger.tally();
  // Without rounds nobody is waited for.
  const std::string missing = parameters.trigger->buffer_size == 0 ? ledger.fleet().missing() : "none";
  std::vector<std::string> waited_for;
  if (trigger == Trigger::kDeadline && parameters.trigger->buffer_size == 0) {
    waited_for = ledger.fleet().awaited_names(kWaitedNamesMax);
  }
  const uint32_t asked = ledger.fleet().asked_count();
  const uint32_t wanted =
      trigger == Trigger::kDeadline && parameters.trigger->buffer_size == 0 ? least_answers() : wanted_answers();
  const uint32_t extension_count = ledger.extension_count();
  const bool was_switched = ledger.run().delay_switch().is_switched;
  const ProgressSaid said = ledger.progress().said();
  const TaskStage stage = ledger.run().stage();
  const std::optional<Quality> quality = quality_before(ledger.run().version() + 1);
  note_evaluations(quality, ledger.run().task_terms().evaluates);
  ClosingNotes notes;
  JournalRecord record = ledger.close_version(trigger, &notes);
  note_version(record.sequence());
  deadline_ms = kNever;  // runs from the moment when the version is durable
  ++counters.rounds_closed;
  log_gone();
  if (notes.status != Status::kOk) {
    ++counters.steps_failed;
    log("step_failed"_event, Fields().add("version", record.version()).add("status", status_text(notes.status)));
  }
  count_notes(record.version(), notes.delay);
  note_clip(notes.clip, now_ms);
  if (stage != TaskStage::kTrain) {
    log_stage(record.version(), stage, notes.stage);
    log_trials(record.version());
    review_barred(now_ms);
  }
  counters.lines_dropped += tally.lines_dropped;
  if (ledger.run().delay_switch().is_switched && !was_switched) {
    log("delay_rule_switched"_event,
        Fields()
            .add("version", record.version())
            .add("rule", name_of(parameters.delay->late_delay_rule))
            .add("by", name_of(parameters.delay->delay_switch_by))
            .add("mean", number_text(static_cast<double>(ledger.run().delay_switch().mean)))
            .add("samples", ledger.run().delay_switch().sample_count));
  }
  last_round = summary_of(record, trigger, tally, extension_count);
  add_step(ledger.run().steps(), &last_round);
  last_round.time_ms = now_ms;
  last_round.missing = missing;
  last_round.waited_for = std::move(waited_for);
  last_round.upload_bytes = std::exchange(noted.upload_bytes, 0);
  last_round.opened_ms = std::exchange(opened_ms, 0);
  last_round.asked = asked;
  last_round.wanted = wanted;
  last_round.quality = quality;
  note_wait(trigger, now_ms);
  log_round(record.digest());
  log_progress(said);
  remember_round(as_recalled(last_round, std::exchange(noted.version_ms, now_ms)));
  persist(std::move(record), now_ms);
  if (is_checkpoint_due()) {
    Action action;
    action.kind = ActionKind::kCheckpoint;
    action.checkpoint = std::make_shared<const Checkpoint>(make_checkpoint());
    actions.push_back(std::move(action));
  }
  if (ledger.is_done()) {
    run_event(RunEvent::kFinished, now_ms, ledger.end_cause());
  }
}

// After a record is applied: what close_round() said of the round that it ended. tally, extension_count: before.
void Coordinator::State::recall(const JournalRecord& record, const RoundTally& tally, uint32_t extension_count) {
  if (record.kind() == RecordKind::kUpdate) {
    noted.upload_bytes += has_own_answers(ledger.run().stage())
                              ? record.payload().size()
                              : encoded_size(parameters.wire->upload_encoding, record.payload().size() / sizeof(Real));
  } else if (record.kind() == RecordKind::kRunState) {
    opened_ms = record.is_event(RunEvent::kResumed) ? record.time_ms() : opened_ms;
    noted.version_ms = opened_ms;
    idle_since_ms = begins_idling(record.run_event()) ? record.time_ms() : idle_since_ms;
  } else if (record.kind() == RecordKind::kVersion) {
    RoundSummary summary = summary_of(record, record.trigger(), tally, extension_count);
    add_step(ledger.run().steps(), &summary);
    summary.time_ms = record.time_ms();
    summary.upload_bytes = std::exchange(noted.upload_bytes, 0);
    summary.opened_ms = std::exchange(opened_ms, record.time_ms());
    noted.version_ms = opened_ms;
    summary.quality = quality_before(record.version());
    if (record.version() > 0) {
      remember_round(std::move(summary));
    }
  }
}

void Coordinator::State::remember_round(RoundSummary summary) {
  replayed_rounds.push_back(std::move(summary));
  if (replayed_rounds.size() > kReplayedRoundMax) {
    replayed_rounds.pop_front();
  }
}

void Coordinator::State::run_event(RunEvent event, uint64_t now_ms, const StallCause& cause) {
  idle_since_ms = begins_idling(event) ? now_ms : idle_since_ms;
  noted.version_ms = event == RunEvent::kResumed ? now_ms : noted.version_ms;
  const bool is_mended = event == RunEvent::kStalled && cause.empty() && !ledger.stall().empty();
  const EventRow& row = event == RunEvent::kExtended   ? "round_extended"_event
                        : is_mended                    ? "stall_cause_gone"_event
                        : event == RunEvent::kStalled  ? "run_stalled"_event
                        : event == RunEvent::kFinished ? "run_finished"_event
                        : event == RunEvent::kPaused   ? "run_paused"_event
                        : event == RunEvent::kResumed  ? "run_resumed"_event
                                                       : "run_stopped"_event;
  const bool is_late = event == RunEvent::kExtended || (event == RunEvent::kStalled && !is_mended);
  Fields line;
  line.add("version", ledger.run().has_version() ? ledger.run().version() : 0);
  if (is_late) {
    line.add("answers", ledger.tally().on_time_count)
        .add("wanted", least_answers())
        .add("missing", ledger.fleet().missing());
  }
  if (event == RunEvent::kStalled && !is_mended) {
    line.add("cause", cause.empty() ? "too_few_answers" : cause.cause)
        .add("text", cause.empty() ? "too few devices have answered in time" : cause.text)
        .add("remedy", cause.empty() ? "look at the devices in missing: they are off, far or slow" : cause.remedy);
  }
  if (event == RunEvent::kFinished) {
    line.add("cause", cause.empty() ? "round_count" : cause.cause)
        .add("text", cause.empty() ? "all rounds are done" : cause.text);
  }
  run_state_sequence =
      decide(JournalRecord::run_state({.event = event,
                                       .version = ledger.run().has_version() ? ledger.run().version() : 0,
                                       .cause = encode_stall(cause)}),
             now_ms);
  log(row, line);
}

}  // namespace gradstream
