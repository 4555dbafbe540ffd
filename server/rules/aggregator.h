// An aggregation rule: what a server makes of the updates of one version. One file aggregator_<rule>.cc and one line in
// aggregator.cc for each rule.
//
//   begin() -> prepare(), commit() for each accepted update, in any order -> finish(): the record to the next version
//
// prepare() makes every check of an update and all of its arithmetic; commit() adds what came out. A decision lies
// between the two. add() is both, for an update that the journal holds.
//
// A rule is a pure function of what it was given: the journal holds every accepted update with its weight, and recovery
// adds them again. A rule declares what it wants kept (model_count); state of its own, for the run or for each device,
// is its members, rebuilt by the same calls. A rule whose fold depends on order gets its updates in the journal's
// order, which is that of commit(). A rule that needs several phases a round makes each a version, and closes all but
// the last with a record whose step is 0.
#ifndef GRADSTREAM_SERVER_RULES_AGGREGATOR_H_
#define GRADSTREAM_SERVER_RULES_AGGREGATOR_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/training/stream.h"
#include "server/rules/enrolment.h"
#include "server/rules/record.h"
#include "server/run/run_parameters.h"

namespace gradstream {

// Who brings an update.
enum class FoldSource : uint8_t {
  kLive,     // a device: whether it counts is decided now
  kJournal,  // a record: it counts already, and checks that came with a later release must not refuse it
};

// One update, decoded.
struct FoldInput {
  uint32_t owner = 0;         // of its directions
  uint32_t base_version = 0;  // of the model it was made from
  uint32_t steps_done = 0;    // k_i
  uint16_t weight = 0;        // W_i, staleness included
  std::span<const Real> values;
  uint32_t device = 0;             // enrolment index, for rules with a state for each device
  Real inverse_participation = 1;  // 1 / q_i (server/run/participation.h)
  uint16_t sample_count = 1;       // N_i, for the memory form, whose weights outlive a version
};

// The last models of the run, for rules that meet updates of an older one.
class ModelRing {
 public:
  explicit ModelRing(uint32_t capacity) : capacity_(capacity) {}
  void push(uint32_t version, std::span<const Real> model, std::span<const FixedWord> mean = {});
  const Real* find(uint32_t version) const;            // null: forgotten
  const FixedWord* find_mean(uint32_t version) const;  // of the same version; null also where there is none

 private:
  struct Entry {
    uint32_t version;
    std::vector<Real> model;
    std::vector<FixedWord> mean;
  };
  uint32_t capacity_;
  std::deque<Entry> entries_;
};

// What a rule's step goes by in the open version. A round counts once, whatever stages and phases it has.
struct OpenRound {
  uint32_t round = 0;
  Real step_size = 0;  // eta_k
};

// What every rule works with; all of it outlives the rule. replica is the model of the open version.
struct AggregatorContext {
  const RunParameters* parameters = nullptr;
  const Replica* replica = nullptr;
  const ModelRing* models = nullptr;
  Arena* arena = nullptr;                // for scratch
  const Enrolment* enrolment = nullptr;  // null: device_count devices, none of whom leaves
  const OpenRound* open = nullptr;       // null: every version is a round
};

class Aggregator {
 public:
  Aggregator() = default;
  Aggregator(const Aggregator&) = delete;
  Aggregator& operator=(const Aggregator&) = delete;
  virtual ~Aggregator() = default;

  // Forgets what was added or prepared: the next version is open.
  void begin() {
    is_prepared_ = false;
    open_version();
  }
  // As begin(), for rules with a state beyond a version. The replica has followed `record`, which was made from the
  // updates that were added. kDataCorrupt: it was made from others.
  Status follow(const VersionRecord& record) {
    is_prepared_ = false;
    return follow_record(record);
  }
  // Base version of the device's last update that the open version's mean holds; none where there is no memory.
  virtual std::optional<uint32_t> stamp(uint32_t device) const {
    static_cast<void>(device);
    return {};
  }
  // Checks the update and works out what it adds to the open version, for commit(). What finish() makes stays as it is.
  // The values need not outlive the call. An update that was prepared before and not committed is forgotten.
  // - kOutOfRange: a value is beyond the fold's range, or this is one update too many for a version.
  // - kNotFinite: a value is no finite number.
  // - kSingular: the update cannot be brought to the open version's model.
  // - kInvalidArgument: the update has not this rule's form.
  // - kProtocolError: an update of the same device from the same or a newer version counts already.
  Status prepare(const FoldInput& input, FoldSource source = FoldSource::kLive) {
    is_prepared_ = false;
    GS_TRY(work_out(input, source));
    is_prepared_ = true;
    return Status::kOk;
  }
  // Adds the update that the last prepare() took. Asserts that there is one: nothing may come between the two calls.
  void commit() {
    GS_ASSERT(is_prepared_);
    is_prepared_ = false;
    take_in();
  }
  // Both, of an update that the journal holds. Codes of prepare(); on an error nothing has been added.
  Status add(const FoldInput& input) {
    GS_TRY(prepare(input, FoldSource::kJournal));
    commit();
    return Status::kOk;
  }
  // Whether prepare() would take the update, with its codes; nothing is prepared afterwards.
  Status check(const FoldInput& input) {
    const Status status = prepare(input);
    is_prepared_ = false;
    return status;
  }
  // The record to the next version, with version and step_scale, without the digest. At least one update was added.
  // kSingular, kNotFinite, kOutOfRange: these updates make no step.
  virtual Status finish(VersionRecord* record) const = 0;
  // The record that leads to the next version without a step: what a version closes with when finish() fails.
  virtual VersionRecord stand_still() const = 0;

 private:
  // What the functions above want of a rule. take_in() comes right after a work_out() that returned kOk.
  virtual void open_version() = 0;
  virtual Status follow_record(const VersionRecord& record) {
    static_cast<void>(record);
    open_version();
    return Status::kOk;
  }
  virtual Status work_out(const FoldInput& input, FoldSource source) = 0;
  virtual void take_in() = 0;

  bool is_prepared_ = false;
};

// eta_k of the open version.
Real open_step_size(const AggregatorContext& context);

// The record of version 0: the point, and where replicas hold a mean, 0.
VersionRecord first_record(const RunParameters& parameters, uint32_t weight_total, const Real* point);

// The rule of a run whose parameters passed check_parameters().
std::unique_ptr<Aggregator> make_aggregator(const AggregatorContext& context);

// Members of the registry.
std::unique_ptr<Aggregator> make_aggregator_mean_gradient(const AggregatorContext& context);
std::unique_ptr<Aggregator> make_aggregator_memory(const AggregatorContext& context);
std::unique_ptr<Aggregator> make_aggregator_delayed(const AggregatorContext& context);
std::unique_ptr<Aggregator> make_aggregator_projection(const AggregatorContext& context);
std::unique_ptr<Aggregator> make_aggregator_gradient_stream(const AggregatorContext& context);
std::unique_ptr<Aggregator> make_aggregator_svrg(const AggregatorContext& context);
// Around another member, one without a state beyond a version: weight_share_max. parameters outlive the rule.
std::unique_ptr<Aggregator> make_aggregator_capped(const FoldCore& keys, std::unique_ptr<Aggregator> inner);

// What the weights of a version add up to, in integers: the same in any order.
class WeightSum {
 public:
  void clear() { *this = WeightSum(); }
  bool is_full() const;
  void add(uint16_t weight, uint32_t steps_done);
  uint32_t total() const { return total_; }
  uint32_t update_count() const { return update_count_; }
  // K_eff = sum W k / sum W.
  Real effective_steps() const;

 private:
  uint32_t total_ = 0;
  uint32_t update_count_ = 0;
  uint64_t weighted_steps_ = 0;
};

// Whether the fold would take values / divisor; kOutOfRange or kNotFinite as it would refuse them.
Status check_quotients(const RunParameters& parameters, std::span<const Real> values, Real divisor);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_AGGREGATOR_H_
