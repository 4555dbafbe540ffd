// What can never work: devices that can give nothing to the open version as they are, and a run that such devices keep
// from its next version. It stalls at once, with the cause.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>

#include "server/coordinator/coordinator_state.h"
#include "server/run/run_core.h"
#include "server/run/trigger.h"

namespace gradstream {
namespace {

// Halvings of the search for the factor that brings an update into the fold's range. Reasons: no float is further from
// the smallest limit than 2^128, and 2^-12 of the value is more than people read.
constexpr int kHalvingsMax = 180;
constexpr int kRefinements = 12;

// The same for the same causes, in any order.
uint64_t hash_of(std::span<const BlockedGroup> groups) {
  uint64_t sum = 0;
  for (const BlockedGroup& group : groups) {
    sum += std::hash<std::string>{}(std::to_string(group.reason) + " " + std::to_string(group.complaint.floor) + " " +
                                    group.lacks);
  }
  return sum;
}

// What the device lacks for the open version: for the run, or for a stage that it is out of.
std::string lacks_of(const FleetDevice& device, TaskStage stage) {
  const bool lacks_lines = device.session.is_barred && !is_of_units(stage) && !device.session.refusals.keeps_trials;
  return device.session.image.lacks.empty() && lacks_lines ? "feature:lines" : device.session.image.lacks;
}

// How far beyond its range a value is, to compare complaints.
double excess_of(const Complaint& complaint) {
  return complaint.has_value() ? std::fabs(static_cast<double>(complaint.value)) : -1;
}

}  // namespace

// A device has refused, or was, or has said what it lacks. In a large fleet of which nobody can do the run each device
// says so, and each look goes over all of them. In a stalled run it is taken when their number may have doubled, and
// when it may be all.
void Coordinator::State::note_blocked(uint64_t now_ms) {
  has_blocked = true;
  ++noted_since_look;
  const bool may_be_all = blocked_at_look + noted_since_look >= ledger.fleet().asked_count();
  if (ledger.stall().empty() || may_be_all || noted_since_look >= blocked_at_look) {
    review_blocked(now_ms);
  }
  if (awaits_seen(parameters)) {
    judge_open_round(now_ms);  // it may be the last that the version waited for
  }
}

// The device began anew, or has another image: what it refused before says nothing of now.
void Coordinator::State::forgive(uint32_t index, uint64_t now_ms) {
  forgive_refusals(&ledger.fleet().at(index).session);
  note_barred(index, now_ms);
  review_blocked(now_ms);
}

// The devices that are blocked, by what they lack or else by reason, the most frequent one first; of several the first
// in that order. At least one, which may be empty.
std::vector<BlockedGroup> Coordinator::State::blocked_groups() {
  Fleet& fleet = ledger.fleet();
  std::map<std::tuple<bool, gs_Reason, gs_Floor, std::string>, std::pair<BlockedGroup, NameList>> groups;
  for (const uint32_t index : fleet.blocked()) {
    const FleetDevice& device = std::as_const(fleet).at(index);
    const std::string lacks = lacks_of(device, ledger.run().stage());
    const bool lacks_something = !lacks.empty();
    const bool is_unasked = device.session.is_barred && device.row.refuses_units;  // by its owner, perhaps long ago
    const bool is_left_out = device.session.is_barred && device.row.is_left_out;
    const bool keeps_answer =
        is_of_units(ledger.run().stage()) ? device.session.refusals.keeps_sums : device.session.refusals.keeps_trials;
    const bool is_private = device.session.is_barred && keeps_answer;
    const gs_Reason reason = lacks_something                       ? gs_Reason_REASON_NONE
                             : is_left_out                         ? gs_Reason_REASON_NONE
                             : is_unasked                          ? gs_Reason_REASON_UNITS_REFUSED
                             : is_private                          ? gs_Reason_REASON_PRIVACY
                             : device.session.refusals.is_for_good ? device.session.refusals.for_good
                                                                   : device.row.judged.reason;
    const bool has_floor = reason == gs_Reason_REASON_PRIVACY;
    const gs_Floor floor = has_floor ? device.session.refusals.complaint.floor : gs_Floor_FLOOR_NONE;
    auto& [group, names] = groups[{!lacks_something, reason, floor, lacks}];
    if (group.device_count == 0 || excess_of(device.session.refusals.complaint) > excess_of(group.complaint)) {
      group.complaint = device.session.refusals.complaint;
      group.first_name = device.name;
    }
    group.lacks = lacks;
    group.lacks_something = lacks_something;
    group.reason = reason;
    ++group.device_count;
    names.add(device.name);
  }
  std::vector<BlockedGroup> out;
  for (auto& [key, entry] : groups) {
    out.push_back(entry.first);
    out.back().names = entry.second.text();
    out.back().asked_count = fleet.asked_count();
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const BlockedGroup& a, const BlockedGroup& b) { return a.device_count > b.device_count; });
  if (out.empty()) {
    out.emplace_back().asked_count = fleet.asked_count();
  }
  return out;
}

// Records that the run stalls by what cannot work, what that is when it changes, and that it is so no more. An accepted
// update changes nothing here: its device could answer before, and has answered now.
void Coordinator::State::review_blocked(uint64_t now_ms) {
  const bool has_cause = !ledger.stall().empty();
  if (!is_decidable() || (!has_blocked && !has_cause)) {
    return;
  }
  const StandingCounts standings = ledger.fleet().standings();
  const uint32_t blocked_count = standings[static_cast<size_t>(VersionStanding::kBlocked)];
  const uint32_t ready_count = standings[static_cast<size_t>(VersionStanding::kReady)];
  const uint32_t silent_count = standings[static_cast<size_t>(VersionStanding::kSilent)];
  has_blocked = blocked_count > 0;
  blocked_at_look = blocked_count;
  noted_since_look = 0;
  const bool has_buffer = parameters.trigger->buffer_size > 0;
  const uint32_t counted = ledger.tally().on_time_count + (has_buffer ? ledger.tally().late_count : 0);
  const uint32_t wanted = awaits_seen(parameters)         ? 1
                          : ledger.run().asks_everybody() ? least_of_all(parameters, asked_count())
                          : has_buffer                    ? 1
                                                          : least_answers();
  const uint32_t least = std::max(1U, wanted);
  const bool is_stalled = ledger.run_state() == gs_RunState_RUN_STATE_STALLED;
  // A device that nobody has heard of yet may be what the run needs, until it has had the time of a round.
  const uint32_t hoped_for = counted + ready_count + (is_stalled ? 0 : silent_count);
  // A cause that another process recorded holds until those have been heard that it may be about, or have had the time
  // of a round to speak.
  const bool is_unheard =
      has_cause && stalled_by == 0 && !has_blocked && silent_count > 0 && hoped_for < least && heard_by_ms != kNever;
  if (is_unheard) {
    return;
  }
  if (hoped_for >= least || !has_blocked) {
    if (has_cause) {
      stalled_by = 0;
      run_event(RunEvent::kStalled, now_ms);
    }
    return;
  }
  const std::vector<BlockedGroup> groups = blocked_groups();
  const BlockedGroup& group = groups.front();
  const StallCause cause = stall_causes(parameters, groups);
  const uint64_t hash = hash_of(groups);
  const bool has_all = ready_count + silent_count == 0;
  const bool has_doubled = group.device_count >= 2 * stalled_by || 2 * group.device_count <= stalled_by;
  const bool is_counted_anew = stalled_by > 0 ? has_doubled || (has_all && group.device_count != stalled_by) : has_all;
  const bool has_other_causes = stalled_by > 0 && hash != stalled_hash;
  if (cause.cause != ledger.stall().cause || is_counted_anew || has_other_causes) {
    stalled_by = group.device_count;
    stalled_hash = hash;
    deadline_ms = kNever;
    run_event(RunEvent::kStalled, now_ms, cause);
  }
}

// Devices that are silent since the start may be mended, or may be off: the cause that was recorded before ends. Where
// one is known to be blocked it stays, as it may tell value and limit, which the journal alone does not.
void Coordinator::State::review_silent(uint64_t now_ms) {
  heard_by_ms = kNever;
  if (ledger.fleet().standings()[static_cast<size_t>(VersionStanding::kBlocked)] == 0) {
    review_blocked(now_ms);
  }
}

// Of an update that the rule refuses for its range: by which factor it would be taken tells value and limit, whatever
// the rule divides by. Nothing where another factor changes nothing, as when a version holds all that it can.
Complaint Coordinator::State::find_complaint(uint32_t index, const Upload& upload, const FoldInput& input) {
  std::vector<Real> scaled(input.values.size());
  FoldInput smaller = input;
  smaller.values = scaled;
  const auto is_taken = [&](double factor) {
    for (size_t i = 0; i < scaled.size(); ++i) {
      scaled[i] = static_cast<Real>(static_cast<double>(input.values[i]) * factor);
    }
    return ledger.check_fold(smaller) == Status::kOk;
  };
  double taken = 1;
  for (int i = 0; i < kHalvingsMax && (i == 0 || !is_taken(taken)); ++i) {
    taken /= 2;
  }
  if (!is_taken(taken)) {
    return {};
  }
  double refused = 2 * taken;
  for (int i = 0; i < kRefinements; ++i) {
    const double middle = (taken + refused) / 2;
    (is_taken(middle) ? taken : refused) = middle;
  }
  const Real* model = ledger.run().replica().model();
  double square = 0;
  for (size_t i = 0; i < parameters.model->shape.size(); ++i) {
    square += static_cast<double>(model[i]) * static_cast<double>(model[i]);
  }
  RangeFault fault;
  fault.values = input.values;
  fault.factor = taken;
  fault.steps_done = upload.steps_done;
  fault.is_gradient = ledger.run().task_terms().solver == SolverId::kGradientStream;
  fault.loss_before = static_cast<double>(upload.loss_before);
  fault.loss_after = static_cast<double>(upload.loss_after);
  fault.model_norm = std::sqrt(square);
  Complaint complaint = range_complaint(parameters, fault);
  complaint.task_sequence = ledger.fleet().at(index).row.task.sequence;
  return complaint;
}

}  // namespace gradstream
