// Who publishes the versions of a run that several nodes train: each node has one, and the engine's lease says whose
// turn it is.
//
//   take_lease() --held--> read_sums() of the open version --the round is over--> seal() --> read_sums() --> ...
//        ^                      |  every kSumsPollMs                                             |
//        '--- every kLeaseRenewMs, and when it is somebody else's       it is sealed: merge, close, publish()
//
// Pure, as server/engine/front.h. At most one call is under way. A call whose answer was lost is made again after a
// CallPause.
//
// The lease is for liveness. Safety is the engine's: a version is published by the term that holds, behind the version
// that is open, and of exactly the sums that are in. A leader that was paused, and comes back to the end of its term,
// publishes nothing. A leader that finds a sealed version goes on with it: the one before has decided, and died.
//
// A round is over as for one server (server/run/trigger.h). k means at least k: the sums are looked at every
// kSumsPollMs, and more may have come by then. Extensions and stalls are the leader's memory: the next one begins T
// anew.
#ifndef GRADSTREAM_SERVER_ENGINE_LEADER_H_
#define GRADSTREAM_SERVER_ENGINE_LEADER_H_

#include <cstdint>

#include "server/engine/call_pause.h"
#include "server/engine/engine.h"
#include "server/engine/followed_run.h"
#include "server/run/trigger.h"

namespace gradstream {

// A leader renews its lease so often, ms, and others try for it. Reason: a third of the lease, so that one lost answer
// costs no term.
inline constexpr uint64_t kLeaseRenewMs = 1000;
// A leader looks at the sums of the open version so often, ms. Reason: a tenth of a second is short beside a round.
inline constexpr uint64_t kSumsPollMs = 100;

struct LeaderCounters {
  uint64_t terms = 0;      // leases that this node has won
  uint64_t published = 0;  // versions
  uint64_t cut = 0;        // seals and versions that were not: another term or another version
  uint64_t unknown = 0;    // publications whose outcome nobody knew at first
  uint64_t unfit = 0;      // versions or sums that this node cannot read: is_broken() from then on
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
  // UINT64_MAX: a reply is awaited, or the leader is broken.
  uint64_t next_tick_ms() const { return ticket_ != 0 || is_broken_ ? UINT64_MAX : due_ms_; }
  // Whether the last answer of the engine was that this node holds the lease.
  bool is_leading() const { return is_leading_; }
  // A version does not follow from those before it, or a sum of the open one does not merge: they are of a newer
  // release, or damaged. The leader makes no call any more. Its lease runs out, and a node that can read them leads.
  bool is_broken() const { return is_broken_; }
  const LeaderCounters& counters() const { return counters_; }
  const FollowedRun& run() const { return run_; }
  // It goes on to publish when its term is over, by the term that the engine names: a fault to be found.
  void plant_stale_term_for_test() { is_stale_planted_ = true; }

 private:
  enum class Verb : uint8_t { kNone, kLease, kVersions, kSums, kSeal, kPublish };

  void call(Verb verb, uint64_t now_ms);
  void on_lease(const EngineReply& reply);
  void on_versions(const EngineReply& reply, uint64_t now_ms);
  void on_sums(const EngineReply& reply, uint64_t now_ms);
  void on_sealed(const EngineReply& reply);
  void on_published(const EngineReply& reply, uint64_t now_ms);
  void break_off();
  void begin_time(uint64_t now_ms);
  bool is_round_over(const EngineReply& reply, uint64_t now_ms, Trigger* trigger);
  bool is_sealed(const EngineReply& reply) const;
  void give_up_version();
  void close_round(const EngineReply& reply, Trigger trigger, uint64_t now_ms);

  FollowedRun run_;
  EngineNode& engine_;
  LeaderCounters counters_;
  Verb verb_ = Verb::kNone;  // of the call under way
  EngineTicket ticket_ = 0;  // 0: none is
  uint64_t due_ms_ = 0;
  CallPause pause_;
  uint64_t renew_ms_ = 0;
  uint64_t term_ = 0;
  bool is_leading_ = false;
  bool is_broken_ = false;
  bool is_behind_ = true;     // versions are to be read before anything is decided
  uint64_t deadline_ms_ = 0;  // 0: not begun; UINT64_MAX: the version is stalled
  uint32_t extension_count_ = 0;
  bool is_stalled_ = false;
  // The version that is being published.
  VersionRecord next_;
  PublishedVersion next_bytes_;
  uint64_t next_sum_count_ = 0;
  bool is_publishing_ = false;  // until it is known whether that happened
  bool is_stale_planted_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_ENGINE_LEADER_H_
