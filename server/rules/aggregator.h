// An aggregation rule: what a server makes of the updates of one version. One file aggregator_<rule>.cc and one line in
// aggregator.cc for each rule.
//
//   begin() -> prepare(), commit() for each accepted update, in any order -> finish(): the record to the next version
//
// A rule whose updates go into whole numbers alone may have several of it share a version's updates: partial() of each
// goes to merge() of one, and that one finishes (server/rules/partial_sum.h).
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
#include "server/base/objection.h"
#include "server/base/state_archive.h"
#include "server/rules/enrolment.h"
#include "server/rules/fold.h"
#include "server/rules/partial_sum.h"
#include "server/rules/record.h"
#include "server/rules/weight_sum.h"
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
  uint32_t device = 0;                       // enrolment index, for rules with a state for each device
  Real inverse_participation = 1;            // 1 / q_i (server/run/participation.h)
  uint16_t sample_count = 1;                 // N_i, where the rule weighs by it: the memory form, asynchronous runs
  std::optional<uint64_t> clip_radius = {};  // set by a clip around the rule, which then measures (norm_clip.h)
};

// How long the updates of the open version are, of a rule that clips (docs/algorithms.md, "The clip").
struct ClipTally {
  static constexpr uint32_t kNobody = UINT32_MAX;  // no enrolment index: of a sum that was made elsewhere
  struct Norm {
    uint32_t device = kNobody;
    uint64_t norm = 0;
    double cosine = 0;  // to the version's step, by add_cosines(); 0: not known
  };
  uint64_t median = 0;              // lower median of the window's norms and these
  uint64_t radius = kNoClipRadius;  // by which they count; where it is their own median's, as of now
  std::vector<Norm> norms;          // in the order of commit()
};

// The last models of the run, for rules that meet updates of an older one.
class ModelRing {
 public:
  explicit ModelRing(uint32_t capacity) : capacity_(capacity) {}
  void push(uint32_t version, std::span<const Real> model, std::span<const FixedWord> mean = {});
  const Real* find(uint32_t version) const;            // null: forgotten
  const FixedWord* find_mean(uint32_t version) const;  // of the same version; null also where there is none
  // All of it, of a checkpoint. size: of a model.
  void exchange(StateArchive& io, size_t size);

 private:
  struct Entry {
    uint32_t version;
    std::vector<Real> model;
    std::vector<FixedWord> mean;
  };
  uint32_t capacity_;
  std::deque<Entry> entries_;
};

// N_i of the devices that have been given work.
struct SampleSum {
  uint64_t total = 0;
  uint32_t device_count = 0;
  // A device has `count` samples; before: what it had, 0 for its first work.
  void give(uint16_t before, uint16_t count) {
    total += count - uint64_t{before};
    device_count += before == 0 ? 1 : 0;
  }
  // N_i by the mean of all; 1 where nobody has been given work.
  Real share_of(uint16_t count) const {
    return device_count == 0
               ? Real{1}
               : static_cast<Real>(static_cast<double>(count) * device_count / static_cast<double>(total));
  }
};

// What a rule's step goes by in the open version. A round counts once, whatever stages and phases it has.
struct OpenRound {
  uint32_t round = 0;
  Real step_size = 0;       // eta_k
  SampleSum samples;        // of an asynchronous run that weighs updates by samples
  bool is_training = true;  // a stage before training has no clip
};

// What every rule works with; all of it outlives the rule. replica is the model of the open version.
struct AggregatorContext {
  const RunParameters* parameters = nullptr;
  const Replica* replica = nullptr;
  const ModelRing* models = nullptr;
  Arena* arena = nullptr;                // for scratch
  const Enrolment* enrolment = nullptr;  // null: device_count devices, none of whom leaves
  const OpenRound* open = nullptr;       // null: every version is a round
  uint32_t aggregator_count = 1;         // sums that a version's updates go to, merged when it closes
};

class UpdateKeeper;  // server/rules/kept_update.h

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
  // What the rule knows beyond the open version's record, right after follow(): a checkpoint keeps it. A reader has
  // then the state that follow() left; the replica and the models of the context have it already.
  virtual void exchange(StateArchive& io) { static_cast<void>(io); }
  // Base version of the device's last update that the open version's mean holds; none where there is no memory.
  virtual std::optional<uint32_t> stamp(uint32_t device) const {
    static_cast<void>(device);
    return {};
  }
  // What the clip has left of the device's update from the model of base_version, where the rule remembers it or has
  // just taken it in; kClipScaleOne: all of it, or there is no such update.
  virtual uint32_t remembered_clip(uint32_t device, uint32_t base_version) const {
    static_cast<void>(device);
    static_cast<void>(base_version);
    return kClipScaleOne;
  }
  // Of a rule that clips; else no norms.
  virtual ClipTally clip_tally() const { return {}; }
  // Fills in the cosines of clip_tally(), right after it, where the rule has kept the updates until the close.
  virtual void add_cosines(ClipTally* tally) const { static_cast<void>(tally); }
  // Of the update that was prepared last, where a radius was set. A clip by the version's own median knows no scale
  // yet.
  virtual UpdateClip prepared_clip() const { return {}; }
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

  // Of a rule whose updates several servers may take in although no sum stands for them; null: it is none.
  virtual UpdateKeeper* keeper() { return nullptr; }
  // Whether the three functions below may be called.
  virtual bool is_mergeable() const { return false; }
  // What was added since the version began.
  virtual PartialSum partial() const { return {}; }
  // The same, and forgets it; the version stays open.
  PartialSum take_partial() {
    GS_ASSERT(is_mergeable());
    PartialSum sum = partial();
    is_prepared_ = false;
    forget_sums();
    return sum;
  }
  // Adds the updates of a sum that another instance of this rule made. One that comes twice counts twice: whoever
  // merges sees to that. An update that was prepared before is forgotten. Codes of check_partial(), and on an error
  // nothing has been added.
  // - kUnimplemented: this rule does not merge.
  // - kOutOfRange: also where the version would have more than kFoldUpdateCountMax updates.
  Status merge(const PartialSum& sum) {
    is_prepared_ = false;
    return merge_in(sum);
  }

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
  virtual Status merge_in(const PartialSum& sum) {
    static_cast<void>(sum);
    return Status::kUnimplemented;
  }
  virtual void forget_sums() { open_version(); }

  bool is_prepared_ = false;
};

// eta_k and eta_g of the open version.
Real open_step_size(const AggregatorContext& context);
Real open_server_step(const AggregatorContext& context);

// The record of version 0: the point, and where replicas hold a mean, 0.
VersionRecord first_record(const RunParameters& parameters, uint32_t weight_total, const Real* point);

// The rule of a run whose parameters passed check_parameters(). context.aggregator_count passed
// check_aggregator_count().
std::unique_ptr<Aggregator> make_aggregator(const AggregatorContext& context);

// Whether the run's updates may go to so many sums. The objection names the number, what stands against it, and the
// remedy: a rule that keeps updates or goes by their order has no sums to merge.
Objection check_aggregator_count(const RunParameters& parameters, uint32_t count);

// Members of the registry.
std::unique_ptr<Aggregator> make_aggregator_mean_gradient(const AggregatorContext& context);
std::unique_ptr<Aggregator> make_aggregator_memory(const AggregatorContext& context);
std::unique_ptr<Aggregator> make_aggregator_delayed(const AggregatorContext& context);
std::unique_ptr<Aggregator> make_aggregator_projection(const AggregatorContext& context);
std::unique_ptr<Aggregator> make_aggregator_gradient_stream(const AggregatorContext& context);
std::unique_ptr<Aggregator> make_aggregator_svrg(const AggregatorContext& context);
// Of a simulation's caller, in place of a member: server/rules/aggregator_own.h.
std::unique_ptr<Aggregator> make_aggregator_own(const AggregatorContext& context);
// Around another member, one without a state beyond a version: weight_share_max. parameters outlive the rule.
std::unique_ptr<Aggregator> make_aggregator_capped(const FoldCore& keys, std::unique_ptr<Aggregator> inner);
// Around any other member: clip_norm.
std::unique_ptr<Aggregator> make_aggregator_clipped(const AggregatorContext& context,
                                                    std::unique_ptr<Aggregator> inner);
// Over context.aggregator_count instances of a member that merges.
using MakeAggregator = std::unique_ptr<Aggregator> (*)(const AggregatorContext& context);
std::unique_ptr<Aggregator> make_aggregator_split(const AggregatorContext& context, MakeAggregator make);

// Whether the fold would take values / divisor; kOutOfRange or kNotFinite as it would refuse them.
Status check_quotients(const RunParameters& parameters, std::span<const Real> values, Real divisor);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_AGGREGATOR_H_
