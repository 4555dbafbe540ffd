// An engine (server/engine/engine.h) in one thread and virtual time: the rows of one run, and the faults that a real
// one has.
//
// A call travels to the engine, is executed as one transaction, and its reply travels back; each way takes a drawn
// time, so that calls of different nodes overtake each other. Calls of one node keep their order. A way may be lost:
// the reply says kUnknown when the deadline has come, whether the call was executed, never will be, or is executed
// still later.
#ifndef GRADSTREAM_SIM_FAKE_ENGINE_H_
#define GRADSTREAM_SIM_FAKE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/random.h"
#include "server/engine/engine.h"

namespace gradstream {

// Who hears what was committed, in its order, while it is. The oracle of a simulation does.
class EngineWatch {
 public:
  virtual ~EngineWatch() = default;
  // engine_ms: by the engine's clock.
  virtual void on_batch(const std::string& node, const EngineBatch& batch, uint64_t engine_ms) = 0;
  // lease: as it was then.
  virtual void on_published(const std::string& node, const LeaseRow& lease, const PublishedVersion& next) = 0;
};

// What a call meets.
enum class EngineCallFault : uint8_t {
  kNone,
  kLostBefore,  // it never reaches the engine
  kLostAfter,   // it is executed, and its answer is lost
  kLate,        // executed before what its node asks after kUnknown
  kMuchLate,    // executed two deadlines after kUnknown: what its node asked then is answered
};
inline constexpr size_t kEngineCallFaultCount = 5;
// The bit of a fault in FakeEngineOptions::fault_bits.
constexpr uint32_t bit_of(EngineCallFault fault) { return 1U << static_cast<uint32_t>(fault); }
inline constexpr uint32_t kEveryEngineCallFault = bit_of(EngineCallFault::kLostBefore) |
                                                  bit_of(EngineCallFault::kLostAfter) | bit_of(EngineCallFault::kLate) |
                                                  bit_of(EngineCallFault::kMuchLate);

struct FakeEngineOptions {
  uint32_t seed = 1;
  uint32_t delay_most_ms = 5;  // of one way, at least 1
  uint32_t lost_odds = 0;      // a call in so many meets one of fault_bits, each as often as the others; 0: none
  uint32_t fault_bits = kEveryEngineCallFault;  // that calls may meet by chance; plant() knows no mask
  uint32_t deadline_ms = 100;                   // after which a reply is given up
  uint32_t lease_ms = 3000;
  size_t sum_count_max = 3;     // in a reply to read_sums(): few, so that a version takes several
  size_t update_count_max = 3;  // in a reply to read_updates(): the same
  size_t fleet_count_max = 2;   // in a reply to read_fleet(): the same
  bool checks_holder = true;    // of the lease, where a version is sealed or published; false: the term alone
  bool takes_again = false;     // a second update of a device from one version: it replaces the first. false: asserts
};

// What the calls have met, for tests that want each fault to happen.
struct FakeEngineCounters {
  uint64_t executed = 0;
  uint64_t lost_before = 0;  // never executed
  uint64_t lost_after = 0;   // executed, and its reply was lost
  uint64_t late = 0;         // executed after its node was told kUnknown, or to be executed then
  uint64_t much_late = 0;    // the same two deadlines after that; not among late
  uint64_t failovers = 0;
  uint64_t aways = 0;
};

class FakeEngine {
 public:
  explicit FakeEngine(const FakeEngineOptions& options);
  ~FakeEngine();
  // A node's connection; it ends before the engine. An older one of this name is dead from then on: its calls go
  // nowhere.
  std::unique_ptr<EngineNode> connect(const std::string& node);
  // The watch outlives the engine; null: nobody watches.
  void set_watch(EngineWatch* watch) { watch_ = watch; }
  // From now on no call is lost or late but by plant().
  void end_faults() {
    options_.lost_odds = 0;
    away_until_ms_ = 0;
  }
  // What is due by then happens. Never going back.
  void advance(uint64_t now_ms);
  // When something is due; UINT64_MAX: nothing is under way.
  uint64_t next_ms() const;

  // A change of the fleet by an operator, at once: its number is the next one, and not read from the row.
  void change_fleet(FleetChange row);

  // The same of the run's state.
  void change_state(EngineRunState state);
  EngineRunState state() const;
  bool is_sealed() const;

  // ---- Faults ----
  using Fault = EngineCallFault;
  // What the next call of the node meets, in place of a draw.
  void plant(const std::string& node, Fault fault);
  // Nothing of the node arrives, and nothing comes back, until then.
  void pause(const std::string& node, uint64_t until_ms);
  // Calls that are under way become unknown, executed or not. lost_count: so many of the last transactions are undone,
  // as by an asynchronous standby: 0 of a sound engine.
  // back_ms: the clock that takes over is behind virtual time by so much.
  void fail_over(size_t lost_count = 0, uint64_t back_ms = 0);
  // No call is executed until then, and none under way has an answer.
  void go_away(uint64_t until_ms);
  bool is_away() const { return now_ms_ < away_until_ms_; }

  const FakeEngineCounters& counters() const { return counters_; }
  // The rows as they are, past all delays, for a test's own sums.
  DeviceRow row(uint32_t device) const;
  uint32_t open_version() const;
  const LeaseRow& lease() const;
  bool is_lease_free() const;

 private:
  struct Tables;
  struct Call;
  class Node;

  uint64_t clock_ms() const { return now_ms_ - back_ms_; }
  Fault draw_fault();
  void submit(Call call);
  void answer(const Call& call);
  EngineReply execute(const Call& call);
  EngineReply transact(const Call& call);
  void begin_epoch(FrontRow* front) const;
  void commit(const std::string& node, const EngineBatch& batch, EngineReply* reply);
  void resolve(const std::string& node, const EngineBatch& batch, EngineReply* reply);
  void take_lease(const std::string& node, EngineReply* reply);
  void release_lease(const Call& call, EngineReply* reply);
  void read_fleet(const Call& call, EngineReply* reply) const;
  void read_progress(const Call& call, EngineReply* reply) const;
  void read_sums(const Call& call, EngineReply* reply) const;
  void read_updates(const Call& call, EngineReply* reply) const;
  void keep_last_updates(const PublishedVersion& next);
  bool is_leader(const Call& call) const;
  void seal(const Call& call, EngineReply* reply);
  void publish(const Call& call, EngineReply* reply);
  void tell(const Call& call) const;

  FakeEngineOptions options_;
  EngineWatch* watch_ = nullptr;
  RandomStream draw_;
  uint64_t now_ms_ = 0;
  uint64_t back_ms_ = 0;  // of the engine's clock
  uint64_t away_until_ms_ = 0;
  std::unique_ptr<Tables> tables_;
  std::vector<Tables> history_;  // before each of the last transactions, for fail_over()
  std::vector<Call> calls_;      // under way
  std::map<std::string, Node*> nodes_;
  std::map<std::string, Fault> planted_;
  std::map<std::string, uint64_t> paused_;
  FakeEngineCounters counters_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_FAKE_ENGINE_H_
