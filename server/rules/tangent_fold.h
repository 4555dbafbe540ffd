// The weighted mean of the tangents of one version, at the open version's model X: what rules of tangent runs share.
//
//   mean = sum_i W_i T_{X_b -> X}(zeta_i) / k_i / sum_i W_i,      K_eff = sum_i W_i k_i / sum_i W_i
//
// A late tangent is transported from the model that it was made at. With unbiased partial participation (Scheme II)
// W_i is the staleness weight alone, and zeta_i / q_i takes the place of zeta_i. S, the number of devices that could
// have been asked, then takes the place of sum_i W_i.
#ifndef GRADSTREAM_SERVER_RULES_TANGENT_FOLD_H_
#define GRADSTREAM_SERVER_RULES_TANGENT_FOLD_H_

#include <cstdint>
#include <vector>

#include "server/rules/aggregator.h"
#include "server/rules/fold.h"

namespace gradstream {

class TangentFold {
 public:
  explicit TangentFold(const AggregatorContext& context);
  void begin(const VersionRecord& opened);
  // As Aggregator's.
  void exchange(StateArchive& io) { io.values(population_); }
  // As Aggregator's: nothing comes between a prepare() that returned kOk and its commit().
  Status prepare(const FoldInput& input);
  void commit();
  // As Aggregator's: by the norm of T(zeta) / k_i, whatever q_i is.
  UpdateClip prepared_clip() const { return prepared_clip_; }
  // As Aggregator's, of this rule and phase.
  PartialSum partial(PartialRule rule, uint8_t phase) const {
    return one_partial(opened(rule, phase), fold_, weights_);
  }
  Status merge(PartialRule rule, uint8_t phase, const PartialSum& sum) {
    return merge_one(opened(rule, phase), sum, &fold_, &weights_);
  }
  void forget_sums();
  // The mean, rows * cols values; codes of Fold::finish.
  Status finish(std::vector<Real>* mean) const;
  Real effective_steps() const { return weights_.effective_steps(); }

 private:
  PartialSum opened(PartialRule rule, uint8_t phase) const {
    return open_partial(context_, rule, phase, divides_by_population() ? population_ : 0);
  }
  bool divides_by_population() const;
  uint64_t divisor() const;

  AggregatorContext context_;
  std::vector<FoldSlot> slots_;
  Fold fold_;
  WeightSum weights_;
  uint32_t population_ = 0;
  // Of the update that was prepared: its zeta at the open model where it was late, and its terms.
  std::vector<Real> transported_;
  std::vector<FoldTerm> terms_;
  UpdateClip prepared_clip_;
  uint16_t prepared_weight_ = 0;
  uint32_t prepared_steps_ = 0;
};

// The record to the next version whose model is the open one.
VersionRecord stand_still_record(const AggregatorContext& context);
// Its model <- R_X(eta_g K_eff mean), its step_scale <- eta_g K_eff. local_step: eta of the devices' steps, which are
// inside the mean; the record's direction and its promise need it. Codes of TangentFold::finish,
// Replica::tangent_step; but for the direction the record is then unspecified.
Status finish_tangent_step(const AggregatorContext& context, const TangentFold& fold, Real local_step,
                           VersionRecord* record);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_TANGENT_FOLD_H_
