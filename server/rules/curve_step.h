// The server's half of AsyncCurve (004, A13; equations (16), (17) and (28), as docs/algorithms.md corrects them). It
// says where the control point of a device's curve belongs beside the model that the server has now.
#ifndef GRADSTREAM_SERVER_RULES_CURVE_STEP_H_
#define GRADSTREAM_SERVER_RULES_CURVE_STEP_H_

#include <vector>

#include "runtime/base/config.h"
#include "server/run/delay_keys.h"

namespace gradstream {

// v <- R v. R is the rotation in the plane of a and b that takes a's direction to b's and leaves alone what is
// orthogonal to both. If a or b is 0, v stays as it is. False: a and b point against each other (cosine below
// -1 + 1e-6), where more than one rotation does so; then v's part along a changes its sign. All are of one size.
bool rotate(const std::vector<Real>& a, const std::vector<Real>& b, std::vector<Real>* v);

// A curve as a device uploads it, and where the server's step lies. All are of one size.
struct DelayedCurve {
  const std::vector<Real>& base;          // X, where the device began
  const std::vector<Real>& displacement;  // th - X
  const std::vector<Real>& control;       // phi - X
  const std::vector<Real>& current;       // C, the model of now
  const std::vector<Real>& that;          // C^, where the corrected displacement leads from C
};

// out <- phi^, the control point between C and C^:
//
//   none       phi
//   translate  phi + (C - X)
//   rotate     (C + C^) / 2 + R(phi - (X + th) / 2), R taking th - X to C^ - C
//
// Without a delay and without a correction all three are phi. False: as of rotate(), in which `out` is good all the
// same.
bool place_control(CurveControl how, const DelayedCurve& curve, std::vector<Real>* out);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_CURVE_STEP_H_
