// The server's half of AsyncCurve (004, A13; equations (16), (17) and (28), as docs/algorithms.md corrects them). It
// says where the control point of a device's curve belongs beside the model that the server has now.
#ifndef GRADSTREAM_SERVER_RULES_CURVE_STEP_H_
#define GRADSTREAM_SERVER_RULES_CURVE_STEP_H_

#include <vector>

#include "runtime/base/config.h"

namespace gradstream {

// v <- R v. R is the rotation in the plane of a and b that takes a's direction to b's and leaves alone what is
// orthogonal to both. If a or b is 0, v stays as it is. False: a and b point against each other (cosine below
// -1 + 1e-6), where more than one rotation does so; then v's part along a changes its sign. All are of one size.
bool rotate(const std::vector<Real>& a, const std::vector<Real>& b, std::vector<Real>* v);

// phi^ = (current + that) / 2 + R(phi - (base + result) / 2), R taking result - base to that - current. The device went
// from base to result; that is where its corrected displacement leads from current.
// displacement: result - base; control: phi - base. False: as of rotate().
bool place_control(const std::vector<Real>& displacement, const std::vector<Real>& control,
                   const std::vector<Real>& current, const std::vector<Real>& that, std::vector<Real>* out);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_CURVE_STEP_H_
