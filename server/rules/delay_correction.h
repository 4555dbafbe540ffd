// What an asynchronous server steps by when an update was made at an older model than the one it has now, on any
// manifold (004; docs/algorithms.md, "Asynchronous rules").
//
//   Q     base model, which the device had          delta = T_{Q->C}(-zeta)   displacement, against the descent
//   C     current model                             b     = L_C(Q)            how far the server has gone since
//   zeta  upload, in T_Q; Y = R_Q(zeta)             p     = -L_C(Y)           position of the device's end point
//
//   step  C <- R_C(-alpha D), D by rule:
//
//   asgd        delta
//   fedasync    p; alpha = 1 lands on Y, 0 stays at C
//   dc_asgd     delta - P_C(lambda o delta o delta o b), entry by entry
//   dc_adaptive the same, lambda / sqrt(ms + 1e-7) entry by entry, ms <- 0.95 ms + 0.05 delta o delta
//   dc_rank1    delta - lambda / sqrt(ms + 1e-7) <delta, b> delta, ms <- 0.95 ms + 0.05 |delta|^2
//   ortho_grad  delta - l b; l = <delta, b> / <b, b> where <delta, b> < 0 (a conflict), else 0
//   ortho_pos   the same in a conflict, else p
//   ortho_strict  delta without its part along b, always
//
// In Euclidean space these are A11's formulas. The geometry is one for which they are exact: on the sphere, SPD and
// hyperbolic manifolds it is exponential, logarithm and parallel transport. Elsewhere it is the run's own retraction
// and transport. On Stiefel and oblique L_C(Z) = P_C(Z - C), because that is defined for all pairs.
#ifndef GRADSTREAM_SERVER_RULES_DELAY_CORRECTION_H_
#define GRADSTREAM_SERVER_RULES_DELAY_CORRECTION_H_

#include <optional>
#include <vector>

#include "runtime/base/arena.h"
#include "runtime/manifold/manifold.h"
#include "server/run/run_parameters.h"

namespace gradstream {

// Second moments of the rules that have them; empty at first.
using DelayMoments = std::vector<Real>;

// D at C. Both are rows * cols.
struct DelayDirection {
  std::vector<Real> direction;
  std::vector<Real> target;       // Y, where D is its position: then the step leads to it; else empty
  DelayMoments moments;           // after this update
  bool is_still = false;          // delta is 0: nothing to correct
  std::optional<Real> statistic;  // that the run switches by; none where there is no drift, or no delta
  bool is_clamped = false;        // step() has shortened it
};

// What is worth counting in a version's updates and step. It goes to the counters, not to the journal.
struct DelayNotes {
  uint32_t still_count = 0;         // a displacement of 0: no angle, nothing to correct
  uint32_t clamped_count = 0;       // the step was shortened
  uint32_t antiparallel_count = 0;  // curves whose displacements point against each other
  bool has_any() const { return still_count + clamped_count + antiparallel_count > 0; }
  friend bool operator==(const DelayNotes&, const DelayNotes&) = default;
};

// OrthoCorrect(alpha, theta) (004), with p = -L_C(Y): where <delta, b> <= theta |delta| |b|, D is delta without its
// part along b; elsewhere D = (1 - alpha) delta + alpha p. ortho_grad is (0, 0) unless a run says otherwise, ortho_pos
// is (1, 0) and ortho_strict (any, 1).
struct OrthoCorrect {
  Real alpha = 0;
  Real theta = 0;
};

class DelayCorrection {
 public:
  // table: of the run's manifold. The shape's parts must outlive this. statistic: that direct() measures.
  // ortho: of the rule ortho_grad.
  DelayCorrection(DelayRule rule, Real lambda, const ManifoldOps& table, Shape shape,
                  DelaySwitchBy statistic = DelaySwitchBy::kVersion, OrthoCorrect ortho = {});

  // Bytes of arena that its operations take at most.
  static size_t scratch_size(const ManifoldOps& table, Shape shape);

  // base, current, zeta: rows * cols each, aliasing nothing. kSingular: C and Q, or C and Y, are too far apart for L;
  // kNotFinite.
  Status direct(const Real* base, const Real* current, const Real* zeta, const DelayMoments& moments,
                DelayDirection* out, Arena& arena) const;

  // next <- R_C(-alpha D), or where there is a target, the point alpha of the way to it. A step beyond the radius in
  // which the retraction is one-to-one is shortened to it, on a product each part's by its own. next may be current.
  // alpha in [0, 1] with a target.
  Status step(const Real* current, Real alpha, DelayDirection* direction, Real* next, Arena& arena) const;

  // next <- the point alpha, in [0, 1], of the way from current to target: along the chord where P_M exists, else along
  // R_C(alpha L_C(target)). next aliases neither. Codes as direct().
  Status approach(const Real* current, Real alpha, const Real* target, Real* next, Arena& arena) const;

  // v <- T_{from->to}(v).
  Status carry(const Real* from, const Real* to, Real* v, Arena& arena) const;

 private:
  Status displacement(const Real* base, const Real* current, const Real* zeta, Real* out, Arena& arena) const;
  // L_C(z).
  Status lift(const Real* current, const Real* z, Real* out, Arena& arena) const;
  Status correct_entries(const Real* current, const Real* drift, const DelayMoments& moments, DelayDirection* out,
                         Arena& arena) const;
  Status correct_rank1(const Real* current, const Real* drift, const DelayMoments& moments, DelayDirection* out,
                       Arena& arena) const;
  // D <- D by OrthoCorrect; there is a drift, and delta is not 0.
  Status correct_ortho(const Real* base, const Real* current, const Real* zeta, const Real* drift, DelayDirection* out,
                       Arena& arena) const;
  // D <- D without its part along b, <D, b> being known.
  Status remove_along(const Real* current, const Real* drift, Real along, DelayDirection* out, Arena& arena) const;
  // next <- P_M((1 - alpha) C + alpha target).
  Status take_chord(const Real* current, Real alpha, const Real* target, Real* next, Arena& arena) const;
  // D <- p.
  Status take_position(const Real* base, const Real* current, const Real* zeta, DelayDirection* out,
                       Arena& arena) const;

  // out->statistic; delta stands in out->direction.
  Status measure(const Real* current, const Real* drift, DelayDirection* out, Arena& arena) const;

  DelayRule rule_;
  Real lambda_;
  DelaySwitchBy statistic_;
  OrthoCorrect ortho_;
  const ManifoldOps* run_table_;  // what the device moved by
  const ManifoldOps* table_;      // what the server moves by
  Shape shape_;
  size_t size_;
};

// When a run goes over to late_delay_rule by a statistic: what one version knows of it. It stands in the version's
// record (server/rules/record.h), so that recovery takes the decision from there.
struct DelaySwitch {
  bool is_switched = false;
  uint32_t sample_count = 0;  // updates that had a statistic
  Real mean = 0;              // of these: the mean of the first kDelayWindow, then each counts 1 / kDelayWindow

  // After one more update, whose version is `version`. Once switched it stays so.
  DelaySwitch after(const DelayCore& keys, uint32_t version, std::optional<Real> statistic) const;
  friend bool operator==(const DelaySwitch&, const DelaySwitch&) = default;
};
// Updates that the mean is of, and fewer than which decide nothing. Reason: the standard error of a cosine of unrelated
// directions in high dimension is far below, of a ratio about, a quarter of its size.
inline constexpr uint32_t kDelayWindow = 20;

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_DELAY_CORRECTION_H_
