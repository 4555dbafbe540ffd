// Holds curves to the references: experiments/reference/<experiment>.txt, figures of independent scripts in numpy
// (experiments/reference/README.md). One trajectory a line: key seed measure count, then count pairs round value.
#ifndef GRADSTREAM_EXPERIMENTS_COMPARE_H_
#define GRADSTREAM_EXPERIMENTS_COMPARE_H_

#include <string>
#include <vector>

#include "experiments/experiment.h"

namespace gradstream {

struct ReferenceCurve {
  std::string key;
  uint32_t seed = 0;
  std::string measure;  // excess, grad_norm or other
  struct Point {
    uint32_t round;
    double value;
  };
  std::vector<Point> points;
};

// GS_ASSERT: a file of the checkout is whole. Empty when the experiment has none.
std::vector<ReferenceCurve> read_references(const std::string& experiment);

// How near a curve must be, and down to which value it is compared.
struct Tolerance {
  double relative = 0;
  double least = 0;
  // Of an excess in double: F(x) - F* is a difference of two rounded numbers, whatever computed it. At the least value
  // the relative tolerance is half a unit in the last place of F*.
  double rounding = 0;
  // Above 0: a curve that parts from the reference after the first rounds passes too if the least value that it comes
  // to is so near to the reference's. Of gradient norms in float, and in double where the reference does not converge:
  // the long steps of 002 wander over the manifold, and double every rounding from round to round.
  double end_factor = 0;
  // The least is a floor of noise, where curves bounce: the comparison ends for good at the first value that is not
  // above it. The first rounds are compared in any case, so that a run that never leaves its noise is checked too.
  bool ends_at_least = false;
};

// Of this build, for the measure of a case: the double build replays to rounding; the float build follows first-order
// runs until the rounding of the model shows, and zeroth-order ones while the gap is above ten times the run's floor.
Tolerance tolerance_of(const ReferenceCurve& reference, const RunParameters& parameters, double optimum);

// Adds one criterion: the worst relative deviation over the points that are compared, up to round_count, and where.
void compare(const ReferenceCurve& reference, const Curve& curve, const Tolerance& tolerance, uint32_t round_count,
             Judgement* judgement);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_COMPARE_H_
