#include "server/engine/leader.h"

#include <utility>

#include "server/run/run_core.h"

namespace gradstream {

Leader::Leader(const RunParameters& parameters, uint32_t device_count, EngineNode& engine)
    : run_(parameters, device_count), engine_(engine), round_{.active_count = device_count} {}

// ---- Calls ----

void Leader::on_tick(uint64_t now_ms) {
  ending_.is_given_up = ending_.is_given_up || now_ms >= ending_.until_ms;
  if (is_broken() || ending_.is_given_up) {
    return;
  }
  if (ending_.is_begun && !is_closing()) {
    give_back(now_ms);
    return;
  }
  if (now_ms >= renew_ms_) {
    renew(now_ms);
  }
  if (!may_call() || now_ms < due_ms_) {
    return;
  }
  if (is_publishing_ && publish_term_ != term_) {
    is_publishing_ = false;
    give_up_version();
  }
  if (is_publishing_) {
    call(Verb::kPublish);
  } else if (is_behind_) {
    call(Verb::kVersions);
  } else {
    call(is_merging_ ? reading_verb() : Verb::kProgress);
  }
}

void Leader::renew(uint64_t now_ms) {
  renew_ms_ = now_ms + kLeaseRenewMs;
  if (lease_tickets_.size() < kLeaseCallsMax) {
    lease_tickets_.push_back(engine_.take_lease());
  }
}

void Leader::drain(uint64_t now_ms) {
  ending_.is_begun = true;
  ending_.until_ms = now_ms + kEndSilenceMs;
  on_tick(now_ms);
}

// Behind the renewals that are under way: the engine executes a node's calls in their order.
void Leader::give_back(uint64_t now_ms) {
  const bool is_due = ending_.pause.due_ms() == UINT64_MAX || ending_.pause.end(now_ms);
  if (is_due && is_leading_ && ticket_ == 0 && ending_.ticket == 0) {
    ending_.ticket = engine_.release_lease(term_);
  }
}

// By any answer that is known the lease is not this node's any more.
void Leader::on_released(const EngineReply& reply, uint64_t now_ms) {
  ending_.ticket = 0;
  if (reply.outcome == EngineOutcome::kUnknown) {
    ending_.pause.begin(now_ms);
    return;
  }
  ending_.pause.reset();
  is_leading_ = false;
}

void Leader::call(Verb verb) {
  verb_ = verb;
  switch (verb) {
    case Verb::kVersions:
      // Where the version is over, the one that stands here is asked for too: the engine has it still, or was restored.
      ticket_ = engine_.read_versions(run_.version() + (is_over_ ? 0 : 1), EngineRunState::kActive);
      return;
    case Verb::kProgress:
      ticket_ = engine_.read_progress(run_.version());
      return;
    case Verb::kSums:
      ticket_ = engine_.read_sums(run_.version(), sums_after_);
      return;
    case Verb::kMemory:
      ticket_ = engine_.read_updates(run_.version(), UpdatePart::kMemory, updates_from_);
      return;
    case Verb::kUpdates:
      ticket_ = engine_.read_updates(run_.version(), UpdatePart::kOpen, updates_from_);
      return;
    case Verb::kSeal:
      ticket_ = engine_.seal(term_, run_.version());
      return;
    case Verb::kPublish:
      ticket_ = engine_.publish(term_, next_sum_count_, next_bytes_);
      return;
    case Verb::kNone:
      return;
  }
}

bool Leader::on_reply(const EngineReply& reply, uint64_t now_ms) {
  if (std::erase(lease_tickets_, reply.ticket) > 0) {
    on_lease(reply, now_ms);
  } else if (ending_.ticket != 0 && reply.ticket == ending_.ticket) {
    on_released(reply, now_ms);
  } else if (ticket_ != 0 && reply.ticket == ticket_) {
    take(reply, now_ms);
  } else {
    return false;
  }
  if (ending_.is_begun && reply.outcome != EngineOutcome::kUnknown) {
    ending_.until_ms = now_ms + kEndSilenceMs;
  }
  on_tick(now_ms);
  return true;
}

// The reply to the other call.
void Leader::take(const EngineReply& reply, uint64_t now_ms) {
  ticket_ = 0;
  due_ms_ = now_ms;
  if (reply.outcome == EngineOutcome::kUnknown) {
    due_ms_ = now_ms + pause_.take();
  } else {
    pause_.reset();
  }
  const Verb verb = std::exchange(verb_, Verb::kNone);
  switch (verb) {
    case Verb::kVersions:
      on_versions(reply, now_ms);
      break;
    case Verb::kProgress:
      on_progress(reply, now_ms);
      break;
    case Verb::kSums:
      on_sums(reply);
      break;
    case Verb::kMemory:
    case Verb::kUpdates:
      on_updates(reply, verb == Verb::kMemory);
      break;
    case Verb::kSeal:
      on_sealed(reply);
      break;
    case Verb::kPublish:
      on_published(reply, now_ms);
      break;
    case Verb::kNone:
      break;
  }
}

// ---- Lease ----

// An answer that was lost changes nothing: what the node then does is cut if its term is over. A cut may tell of a term
// that the standby lacks. So only a term that was held proves that the engine has lost something.
void Leader::on_lease(const EngineReply& reply, uint64_t now_ms) {
  if (reply.outcome == EngineOutcome::kUnknown || reply.ticket < lease_known_) {
    return;
  }
  lease_known_ = reply.ticket;
  if (reply.lease.term < held_term_) {
    break_off(NodeTrouble::kRestored);
    return;
  }
  const bool is_held = reply.outcome == EngineOutcome::kCommitted;
  if (is_held && (!is_leading_ || reply.lease.term != term_)) {
    ++counters_.terms;
    is_behind_ = true;  // others may have published since
    is_merging_ = false;
    round_.deadline_ms = 0;
  }
  if (!is_held && is_leading_ && is_stale_planted_) {
    term_ = publish_term_ = reply.lease.term;
    return;
  }
  is_leading_ = is_held;
  renew_ms_ = is_held ? renew_ms_ : std::min(renew_ms_, now_ms + kLeaseLookMs);
  term_ = reply.lease.term;
  held_term_ = is_held ? term_ : held_term_;
}

// ---- Versions ----

void Leader::on_versions(const EngineReply& reply, uint64_t now_ms) {
  if (reply.outcome != EngineOutcome::kCommitted) {
    return;
  }
  const uint32_t first_version = run_.version();
  const bool was_over = std::exchange(is_over_, false);
  if (was_over && first_version > 0 && reply.versions.empty()) {
    break_off(NodeTrouble::kRestored);  // it was read, or published here: either has waited for the standby
    return;
  }
  for (const PublishedVersion& version : reply.versions) {
    if (version.version > first_version && run_.follow(version) != Status::kOk) {
      break_off(NodeTrouble::kUnfit);
      return;
    }
  }
  is_behind_ = false;
  const bool is_new = run_.version() > first_version;
  if (was_over && !is_new) {
    due_ms_ = now_ms + kProgressPollMs;  // the look told of a version that a fail-over has lost
  }
  if (round_.deadline_ms == 0 || is_new) {
    begin_time(now_ms);
  }
}

void Leader::break_off(NodeTrouble trouble) {
  counters_.unfit += trouble == NodeTrouble::kUnfit ? 1 : 0;
  trouble_ = trouble;
  is_leading_ = false;
}

// T of the open version runs from when this leader has seen it.
void Leader::begin_time(uint64_t now_ms) {
  round_.deadline_ms = now_ms + run_.parameters().trigger->report_deadline_ms;
  round_.extension_count = 0;
  round_.is_stalled = false;
}

// The change may be one that a fail-over takes back: nobody is told of it here, and the next look finds it so.
void Leader::follow_state(EngineRunState state, uint64_t now_ms) {
  const bool was_idle = std::exchange(round_.is_idle, state != EngineRunState::kActive);
  if (was_idle && !round_.is_idle) {
    begin_time(now_ms);
  }
}

// ---- Rounds ----

void Leader::on_progress(const EngineReply& reply, uint64_t now_ms) {
  if (reply.outcome == EngineOutcome::kCut) {
    is_behind_ = is_over_ = true;
    return;
  }
  if (reply.outcome != EngineOutcome::kCommitted) {
    return;
  }
  if (!is_leading_ || is_behind_ || ending_.is_begun) {
    return;  // the lease was lost meanwhile, or lost and won again: then T has not begun. Or the next leader decides
  }
  due_ms_ = now_ms + kProgressPollMs;
  follow_state(reply.progress.state, now_ms);
  if (round_.is_idle && !reply.progress.is_sealed) {
    return;
  }
  Trigger trigger = Trigger::kNone;
  const bool is_over = is_round_over(reply.progress, now_ms, &trigger);
  if (!is_over && !reply.progress.is_sealed) {
    return;
  }
  // By a leader whose T this one does not know: what does not close by its count was closed by its deadline.
  trigger_ = is_over ? trigger : Trigger::kDeadline;
  if (reply.progress.is_sealed) {
    begin_sums();
  } else {
    call(Verb::kSeal);
  }
}

// An answer that was lost is found by the next look at the progress.
void Leader::on_sealed(const EngineReply& reply) {
  if (reply.outcome == EngineOutcome::kCut) {
    give_up_version();
  } else if (reply.outcome == EngineOutcome::kCommitted && is_leading_ && !is_behind_) {
    begin_sums();
  }
}

// A leader that has lost its lease meanwhile may have merged or read some of them.
void Leader::begin_sums() {
  run_.reopen();
  run_.begin_memory();
  is_merging_ = true;
  sums_after_ = {};
  updates_from_ = {};
  next_sum_count_ = 0;
  call(reading_verb());
}

Leader::Verb Leader::reading_verb() const {
  if (!run_.keeps_updates()) {
    return Verb::kSums;
  }
  return run_.has_memory() ? Verb::kUpdates : Verb::kMemory;
}

// The memory is read before the version's updates. A reply of either that has none ends it.
void Leader::on_updates(const EngineReply& reply, bool is_memory) {
  if (reply.outcome == EngineOutcome::kCut) {
    give_up_version();
    return;
  }
  if (reply.outcome != EngineOutcome::kCommitted || !is_merging_) {
    return;
  }
  Status status = Status::kOk;
  for (const StoredUpdate& one : reply.updates) {
    status = status != Status::kOk ? status : is_memory ? run_.remember(one) : run_.add_update(one);
    updates_from_ = one.place_behind();
  }
  if (reply.updates.empty() && is_memory) {
    status = run_.end_memory();
    updates_from_ = {};
  }
  if (status != Status::kOk) {
    break_off(NodeTrouble::kUnfit);
    return;
  }
  next_sum_count_ += is_memory ? 0 : reply.updates.size();
  if (reply.updates.empty() && !is_memory && is_leading_) {
    close_round();
  }
}

void Leader::on_sums(const EngineReply& reply) {
  if (reply.outcome == EngineOutcome::kCut) {
    give_up_version();
    return;
  }
  if (reply.outcome != EngineOutcome::kCommitted || !is_merging_) {
    return;
  }
  for (const BatchSum& one : reply.sums) {
    PartialSum sum;
    if (decode_partial(one.bytes, &sum) != Status::kOk || run_.merge(sum) != Status::kOk) {
      break_off(NodeTrouble::kUnfit);
      return;
    }
    ++next_sum_count_;
    sums_after_ = one.place;
  }
  if (reply.sums.empty() && is_leading_) {
    close_round();
  }
}

bool Leader::is_round_over(const VersionProgress& version, uint64_t now_ms, Trigger* trigger) {
  RoundProgress progress;
  progress.asked_count = round_.active_count;
  progress.extension_count = round_.extension_count;
  progress.is_stalled = round_.is_stalled;
  progress.is_past_deadline = now_ms >= round_.deadline_ms;
  progress.has_deadline = round_.deadline_ms != UINT64_MAX;
  progress.on_time_count = version.on_time_count;
  progress.late_count = version.late_count;
  const RoundVerdict verdict = judge_round(run_.parameters(), progress);
  *trigger = verdict.trigger;
  switch (verdict.decision) {
    case RoundDecision::kClose:
      return true;
    case RoundDecision::kExtend:
      round_.deadline_ms = now_ms + run_.parameters().trigger->report_deadline_ms;
      ++round_.extension_count;
      return false;
    case RoundDecision::kStall:
      round_.deadline_ms = UINT64_MAX;
      round_.is_stalled = true;
      return false;
    case RoundDecision::kWait:
      break;
  }
  return false;
}

void Leader::close_round() {
  is_merging_ = false;
  std::optional<VersionRecord> next = run_.close();
  if (!next) {
    break_off(NodeTrouble::kUnfit);
    return;
  }
  next_ = std::move(*next);
  next_bytes_ = {next_.version, encode_published(next_, trigger_), next_.forgotten};
  is_publishing_ = true;
  publish_term_ = term_;
  call(Verb::kPublish);
}

void Leader::on_published(const EngineReply& reply, uint64_t now_ms) {
  switch (reply.outcome) {
    case EngineOutcome::kCommitted:
      ++counters_.published;
      is_publishing_ = false;
      if (run_.begin(next_) != Status::kOk) {  // the other nodes do not follow it either
        break_off(NodeTrouble::kUnfit);
        return;
      }
      begin_time(now_ms);
      return;
    case EngineOutcome::kUnknown:
      ++counters_.unknown;
      return;
    case EngineOutcome::kCut:
    case EngineOutcome::kConflict:
      is_publishing_ = false;
      give_up_version();
      return;
  }
}

// The version may be there, by this node or another one, or the lease may be gone.
void Leader::give_up_version() {
  ++counters_.cut;
  run_.reopen();
  is_merging_ = false;
  is_behind_ = true;
  renew_ms_ = 0;
}

}  // namespace gradstream
