// Who publishes the versions of a run that several nodes train: each node has one, and the engine's lease says whose
// turn it is.
//
//   take_lease() --held--> read_progress() of the open version --the round is over--> seal()
//        ^                      |  every kProgressPollMs                                |
//        |                      '--- it is sealed already ------------------------------+
//        '--- every kLeaseRenewMs                                                       v
//                                     publish() <-- close <-- none is left -- read_sums(), merge, from place to place
//
// Where the run's rule has a memory, read_updates() stands in place of read_sums(): of the memory first, at the first
// close of a term, and then of the version. What the leader holds then is the memory, and the version's updates.
//
// Pure, as server/engine/front.h. The lease has calls of its own, and is renewed beside whatever else is under way: at
// most one call. A call whose answer was lost is made again after a CallPause. What a leader holds of a version's sums
// is their total and one reply.
//
// The lease is for liveness. Safety is the engine's: a version is published by the term that holds, behind the version
// that is open, and of exactly the sums that are in. A leader that was paused, and comes back to the end of its term,
// publishes nothing. A leader that finds a sealed version goes on with it: the one before has decided, and died.
//
// A round is over as for one server (server/run/trigger.h). k means at least k: the progress is looked at every
// kProgressPollMs, and more may have come by then. Extensions and stalls are the leader's memory: the next one begins T
// anew. The same holds of a run that an operator has paused: what is sealed is published, nothing is sealed any more,
// and T begins anew when it is active again. The leader hears of it with the progress.
#ifndef GRADSTREAM_SERVER_ENGINE_LEADER_H_
#define GRADSTREAM_SERVER_ENGINE_LEADER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "server/engine/call_pause.h"
#include "server/engine/engine.h"
#include "server/engine/followed_run.h"
#include "server/engine/node_trouble.h"
#include "server/run/trigger.h"

namespace gradstream {

// A leader renews its lease so often, ms. Reason: a third of the lease. The next renewal awaits
// no answer to the one before, so that one lost answer costs no term. An engine that executes a node's calls in their
// order executes a renewal behind a slow call, which may cost the term if it takes longer than the lease.
inline constexpr uint64_t kLeaseRenewMs = 1000;
// Others look whether it is free so long after the answer to their last look, ms. Reason: a leader that ends gives it
// back, and devices wait for the next one. A look that finds it held writes nothing. Ten a second are what a front asks
// for versions, too.
inline constexpr uint64_t kLeaseLookMs = 100;
// Renewals under way, at most. Reason: the lease is over when the fourth is due, and an engine that is away is to keep
// few calls in its queue.
inline constexpr size_t kLeaseCallsMax = 4;
// A leader looks at the progress of the open version so often, ms. Reason: a tenth of a second is short beside a round.
inline constexpr uint64_t kProgressPollMs = 100;
// A leader that ends waits so long for an engine that answers nothing, ms. Reason: a fail-over that a manager of
// PostgreSQL does at once is over by then. A lease that is not given back runs out a second later.
inline constexpr uint64_t kEndSilenceMs = 2000;

struct LeaderCounters {
  uint64_t terms = 0;      // leases that this node has won
  uint64_t published = 0;  // versions
  uint64_t cut = 0;        // seals and versions that were not: another term or another version
  uint64_t unknown = 0;    // publications whose outcome nobody knew at first
  uint64_t unfit = 0;      // versions or sums that this node cannot read
};

class Leader {
 public:
  // parameters as of FollowedRun; the engine outlives the leader.
  Leader(const RunParameters& parameters, uint32_t device_count, EngineNode& engine);
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  // False: the reply is to no call of this leader.
  bool on_reply(const EngineReply& reply, uint64_t now_ms);
  void on_tick(uint64_t now_ms);
  // UINT64_MAX: a reply is awaited, or the leader is broken or drained.
  uint64_t next_tick_ms() const {
    if (is_drained()) {
      return UINT64_MAX;
    }
    if (ending_.is_begun && !is_closing()) {
      return std::min(ending_.pause.due_ms(), ending_.until_ms);
    }
    return std::min({renew_ms_, may_call() ? due_ms_ : UINT64_MAX, ending_.until_ms});
  }
  // The fleet has changed: so many devices take part. An update_goal of all means these. has_left: by enrolment index;
  // a memory forgets who has, and shares its weights among those that take part.
  void on_fleet(uint32_t active_count, std::vector<bool> has_left = {}) {
    round_.active_count = active_count;
    run_.set_fleet(active_count, std::move(has_left));
  }
  // The node ends: a version that is being closed is published, the lease is given back, and none is taken any more.
  // Another node then leads after kLeaseLookMs. Where the answer to a look was lost, the lease may be held and run out.
  void drain(uint64_t now_ms);
  // Whether that has happened, or the leader is broken, or the engine has answered nothing for kEndSilenceMs. The next
  // leader then waits for the end of the lease, and goes on with a version that is sealed.
  bool is_drained() const {
    return is_broken() || ending_.is_given_up ||
           (ending_.is_begun && !is_leading_ && ticket_ == 0 && ending_.ticket == 0 && lease_tickets_.empty());
  }
  // Whether the last answer of the engine was that this node holds the lease.
  bool is_leading() const { return is_leading_; }
  // With any trouble the leader makes no call any more. Its lease runs out, and a node without trouble leads.
  NodeTrouble trouble() const { return trouble_; }
  bool is_broken() const { return trouble_ != NodeTrouble::kNone; }
  const LeaderCounters& counters() const { return counters_; }
  const FollowedRun& run() const { return run_; }
  // It goes on to publish when its term is over, by the term that the engine names: a fault to be found.
  void plant_stale_term_for_test() { is_stale_planted_ = true; }

 private:
  enum class Verb : uint8_t { kNone, kVersions, kProgress, kSums, kMemory, kUpdates, kSeal, kPublish };

  struct Round {
    uint32_t active_count = 0;  // devices that take part
    uint64_t deadline_ms = 0;   // 0: not begun; UINT64_MAX: the version is stalled
    uint32_t extension_count = 0;
    bool is_stalled = false;
    bool is_idle = false;  // the run is paused or stopped
  };
  struct Ending {
    bool is_begun = false;
    EngineTicket ticket = 0;  // of the lease's return under way; 0: none is
    CallPause pause;
    uint64_t until_ms = UINT64_MAX;  // it waits for an engine that is silent
    bool is_given_up = false;        // that came
  };

  // Whether the next call but for the lease is this leader's to make.
  bool may_call() const { return ticket_ == 0 && is_leading_ && !run_.is_done(); }
  // Whether it is about a version that is sealed, or may be.
  bool is_closing() const { return is_leading_ && (is_merging_ || is_publishing_ || verb_ == Verb::kSeal); }
  void renew(uint64_t now_ms);
  void give_back(uint64_t now_ms);
  void on_released(const EngineReply& reply, uint64_t now_ms);
  void call(Verb verb);
  void take(const EngineReply& reply, uint64_t now_ms);
  void on_lease(const EngineReply& reply, uint64_t now_ms);
  void on_versions(const EngineReply& reply, uint64_t now_ms);
  void on_progress(const EngineReply& reply, uint64_t now_ms);
  void on_sums(const EngineReply& reply);
  void on_updates(const EngineReply& reply, bool is_memory);
  Verb reading_verb() const;
  void on_sealed(const EngineReply& reply);
  void on_published(const EngineReply& reply, uint64_t now_ms);
  void break_off(NodeTrouble trouble);
  void begin_time(uint64_t now_ms);
  void follow_state(EngineRunState state, uint64_t now_ms);
  bool is_round_over(const VersionProgress& version, uint64_t now_ms, Trigger* trigger);
  void begin_sums();
  void give_up_version();
  void close_round();

  FollowedRun run_;
  EngineNode& engine_;
  LeaderCounters counters_;
  std::vector<EngineTicket> lease_tickets_;  // of the renewals under way
  EngineTicket lease_known_ = 0;             // the newest whose answer was not lost: an older one says nothing new
  Verb verb_ = Verb::kNone;                  // of the other call under way
  EngineTicket ticket_ = 0;                  // 0: none is
  uint64_t due_ms_ = 0;
  CallPause pause_;
  uint64_t renew_ms_ = 0;
  uint64_t term_ = 0;
  uint64_t held_term_ = 0;  // the newest that was this node's, by an answer that waits for the standby
  Ending ending_;
  bool is_leading_ = false;
  NodeTrouble trouble_ = NodeTrouble::kNone;
  bool is_behind_ = true;  // versions are to be read before anything is decided
  bool is_over_ = false;   // the version that stands here is not the open one, by a look that does not wait
  bool is_stale_planted_ = false;
  Round round_;
  // The version that is being closed and published.
  Trigger trigger_ = Trigger::kNone;
  bool is_merging_ = false;     // its sums are being read
  bool is_publishing_ = false;  // until it is known whether that happened
  SumPlace sums_after_;         // up to which they are merged
  UpdatePlace updates_from_;    // behind those that are added or remembered
  VersionRecord next_;
  PublishedVersion next_bytes_;
  uint64_t next_sum_count_ = 0;
  uint64_t publish_term_ = 0;  // what was made in a term ends with it: the engine may have other sums by the next one
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_ENGINE_LEADER_H_
