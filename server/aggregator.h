// An aggregation rule: what a server makes of the updates of one version. One file aggregator_<rule>.cc and one line in
// aggregator.cc for each rule.
//
//   begin() -> add() for each accepted update, in any order -> finish(): the record that leads to the next version
//
// A rule is a pure function of what it was given: the journal holds every accepted update with its weight, and recovery
// adds them again. A rule declares what it wants kept (model_count); state of its own, for the run or for each device,
// is its members, rebuilt by the same calls. A rule whose fold depends on order gets its updates in the journal's
// order, which is that of add(). A rule that needs several phases a version closes a phase with a record whose step is
// 0.
#ifndef GRADSTREAM_SERVER_AGGREGATOR_H_
#define GRADSTREAM_SERVER_AGGREGATOR_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "runtime/training/stream.h"
#include "server/record.h"
#include "server/run_parameters.h"

namespace gradstream {

// One accepted update, decoded.
struct FoldInput {
  uint32_t owner = 0;         // of its directions
  uint32_t base_version = 0;  // of the model it was made from
  uint32_t steps_done = 0;    // k_i
  uint16_t weight = 0;        // W_i, staleness included
  std::span<const Real> values;
};

// The last models of the run, for rules that meet updates of an older one.
class ModelRing {
 public:
  explicit ModelRing(uint32_t capacity) : capacity_(capacity) {}
  void push(uint32_t version, std::span<const Real> model);
  const Real* find(uint32_t version) const;  // null: forgotten

 private:
  struct Entry {
    uint32_t version;
    std::vector<Real> model;
  };
  uint32_t capacity_;
  std::deque<Entry> entries_;
};

// What every rule works with; all of it outlives the rule. replica is the model of the open version.
struct AggregatorContext {
  const RunParameters* parameters = nullptr;
  const Replica* replica = nullptr;
  const ModelRing* models = nullptr;
  Arena* arena = nullptr;  // for scratch
};

class Aggregator {
 public:
  virtual ~Aggregator() = default;
  // Forgets what was added: the next version is open.
  virtual void begin() = 0;
  // Whether add() would take it. kOutOfRange: a value beyond the fold's range, or one update too many for a version;
  // kNotFinite; kSingular: cannot be brought to the open version's model; kInvalidArgument: not of this rule's form.
  virtual Status check(const FoldInput& input) const = 0;
  // Codes as check(); on an error nothing has been added.
  virtual Status add(const FoldInput& input) = 0;
  // The record to the next version, with version and step_scale, without the digest. At least one update was added.
  // kSingular, kNotFinite, kOutOfRange: these updates make no step.
  virtual Status finish(VersionRecord* record) const = 0;
  // The record that leads to the next version without a step: what a version closes with when finish() fails.
  virtual VersionRecord stand_still() const = 0;
};

// How many models, the current one included, a run's rule wants kept.
uint32_t aggregator_model_count(const RunParameters& parameters);
// The rule of a run whose parameters passed check_parameters().
std::unique_ptr<Aggregator> make_aggregator(const AggregatorContext& context);

// Members of the registry.
std::unique_ptr<Aggregator> make_aggregator_mean_gradient(const AggregatorContext& context);
std::unique_ptr<Aggregator> make_aggregator_projection(const AggregatorContext& context);
std::unique_ptr<Aggregator> make_aggregator_gradient_stream(const AggregatorContext& context);

// What the weights of a version add up to, in integers: the same in any order.
class WeightSum {
 public:
  void clear() { *this = WeightSum(); }
  bool is_full() const;
  void add(uint16_t weight, uint32_t steps_done);
  uint32_t total() const { return total_; }
  uint32_t update_count() const { return update_count_; }
  // K_eff = sum W k / sum W.
  float effective_steps() const;

 private:
  uint32_t total_ = 0;
  uint32_t update_count_ = 0;
  uint64_t weighted_steps_ = 0;
};

// values / divisor, into out; kOutOfRange or kNotFinite as the fold would refuse them.
Status divide_checked(const RunParameters& parameters, std::span<const Real> values, Real divisor,
                      std::vector<Real>* out);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_AGGREGATOR_H_
