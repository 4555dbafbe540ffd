#include "server/engine/leader.h"

#include <algorithm>
#include <utility>

#include "server/run/run_core.h"

namespace gradstream {

Leader::Leader(const RunParameters& parameters, uint32_t device_count, EngineNode& engine)
    : run_(parameters, device_count), engine_(engine) {}

// ---- Calls ----

void Leader::on_tick(uint64_t now_ms) {
  if (is_broken_ || ticket_ != 0 || now_ms < due_ms_) {
    return;
  }
  if (now_ms >= renew_ms_) {
    call(Verb::kLease, now_ms);
  } else if (is_publishing_) {
    call(Verb::kPublish, now_ms);
  } else if (is_behind_) {
    call(Verb::kVersions, now_ms);
  } else {
    call(Verb::kSums, now_ms);
  }
}

void Leader::call(Verb verb, uint64_t now_ms) {
  verb_ = verb;
  switch (verb) {
    case Verb::kLease:
      renew_ms_ = now_ms + kLeaseRenewMs;
      ticket_ = engine_.take_lease();
      return;
    case Verb::kVersions:
      ticket_ = engine_.read_versions(run_.version() + 1);
      return;
    case Verb::kSums:
      ticket_ = engine_.read_sums(run_.version());
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
  if (ticket_ == 0 || reply.ticket != ticket_) {
    return false;
  }
  ticket_ = 0;
  due_ms_ = now_ms;
  if (reply.outcome != EngineOutcome::kUnknown) {
    pause_.reset();
  }
  switch (std::exchange(verb_, Verb::kNone)) {
    case Verb::kLease:
      on_lease(reply);
      break;
    case Verb::kVersions:
      on_versions(reply, now_ms);
      break;
    case Verb::kSums:
      on_sums(reply, now_ms);
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
  if (reply.outcome == EngineOutcome::kUnknown) {
    due_ms_ = std::max(due_ms_, now_ms + pause_.take());
  }
  if (!is_leading_ || run_.is_done()) {
    due_ms_ = std::max(due_ms_, renew_ms_);
  }
  on_tick(now_ms);
  return true;
}

// ---- Lease ----

// An answer that was lost changes nothing: what the node then does is cut if its term is over.
void Leader::on_lease(const EngineReply& reply) {
  if (reply.outcome == EngineOutcome::kUnknown) {
    return;
  }
  const bool is_held = reply.outcome == EngineOutcome::kCommitted;
  if (is_held && (!is_leading_ || reply.lease.term != term_)) {
    ++counters_.terms;
    is_behind_ = true;  // others may have published since
    deadline_ms_ = 0;
  }
  if (!is_held && is_leading_ && is_stale_planted_) {
    term_ = reply.lease.term;
    return;
  }
  is_leading_ = is_held;
  term_ = reply.lease.term;
}

// ---- Versions ----

void Leader::on_versions(const EngineReply& reply, uint64_t now_ms) {
  if (reply.outcome != EngineOutcome::kCommitted) {
    return;
  }
  for (const PublishedVersion& version : reply.versions) {
    if (run_.follow(version) != Status::kOk) {
      break_off();
      return;
    }
  }
  is_behind_ = false;
  if (deadline_ms_ == 0 || !reply.versions.empty()) {
    begin_time(now_ms);
  }
}

void Leader::break_off() {
  ++counters_.unfit;
  is_broken_ = true;
  is_leading_ = false;
}

// T of the open version runs from when this leader has seen it.
void Leader::begin_time(uint64_t now_ms) {
  deadline_ms_ = now_ms + run_.parameters().trigger->report_deadline_ms;
  extension_count_ = 0;
  is_stalled_ = false;
}

// ---- Rounds ----

void Leader::on_sums(const EngineReply& reply, uint64_t now_ms) {
  due_ms_ = now_ms + kSumsPollMs;
  if (reply.outcome == EngineOutcome::kCut) {
    is_behind_ = true;
    due_ms_ = now_ms;
    return;
  }
  if (reply.outcome != EngineOutcome::kCommitted) {
    return;
  }
  Trigger trigger = Trigger::kNone;
  const bool is_over = is_round_over(reply, now_ms, &trigger);
  if (is_sealed(reply)) {
    // By a leader whose T this one does not know: what does not close by its count was closed by its deadline.
    close_round(reply, is_over ? trigger : Trigger::kDeadline, now_ms);
  } else if (is_over) {
    call(Verb::kSeal, now_ms);
  }
}

bool Leader::is_sealed(const EngineReply& reply) const {
  return std::any_of(reply.fronts.begin(), reply.fronts.end(),
                     [this](const FrontRow& front) { return front.open_version > run_.version(); });
}

// An answer that was lost is found by the next read of the sums.
void Leader::on_sealed(const EngineReply& reply) {
  if (reply.outcome == EngineOutcome::kCut) {
    give_up_version();
  }
}

bool Leader::is_round_over(const EngineReply& reply, uint64_t now_ms, Trigger* trigger) {
  RoundProgress progress;
  progress.asked_count = run_.device_count();
  progress.extension_count = extension_count_;
  progress.is_stalled = is_stalled_;
  progress.is_past_deadline = now_ms >= deadline_ms_;
  progress.has_deadline = deadline_ms_ != UINT64_MAX;
  for (const FrontRow& front : reply.fronts) {
    // A node that has not joined since counts for an older version. All others do for this one, sealed or not.
    if (front.open_version >= run_.version()) {
      progress.on_time_count += front.on_time_count;
      progress.late_count += front.late_count;
    }
  }
  const RoundVerdict verdict = judge_round(run_.parameters(), progress);
  *trigger = verdict.trigger;
  switch (verdict.decision) {
    case RoundDecision::kClose:
      return true;
    case RoundDecision::kExtend:
      deadline_ms_ = now_ms + run_.parameters().trigger->report_deadline_ms;
      ++extension_count_;
      return false;
    case RoundDecision::kStall:
      deadline_ms_ = UINT64_MAX;
      is_stalled_ = true;
      return false;
    case RoundDecision::kWait:
      break;
  }
  return false;
}

void Leader::close_round(const EngineReply& reply, Trigger trigger, uint64_t now_ms) {
  for (const std::vector<uint8_t>& bytes : reply.sums) {
    PartialSum sum;
    if (decode_partial(bytes, &sum) != Status::kOk || run_.ledger().merge(sum) != Status::kOk) {
      break_off();
      return;
    }
  }
  next_ = run_.close();
  next_bytes_ = {next_.version, encode_published(next_, trigger)};
  next_sum_count_ = reply.sums.size();
  is_publishing_ = true;
  call(Verb::kPublish, now_ms);
}

void Leader::on_published(const EngineReply& reply, uint64_t now_ms) {
  switch (reply.outcome) {
    case EngineOutcome::kCommitted:
      ++counters_.published;
      is_publishing_ = false;
      GS_ASSERT(run_.begin(next_) == Status::kOk);  // the rule made the record itself
      begin_time(now_ms);
      return;
    case EngineOutcome::kUnknown:
      ++counters_.unknown;
      return;
    case EngineOutcome::kCut:
    case EngineOutcome::kConflict:
      is_publishing_ = false;
      run_.reopen();
      give_up_version();
      return;
  }
}

// The version may be there, by this node or another one, or the lease may be gone.
void Leader::give_up_version() {
  ++counters_.cut;
  is_behind_ = true;
  renew_ms_ = 0;
}

}  // namespace gradstream
