#include "server/run/constant_keys.h"

#include <cmath>

#include "server/run/run_parameters.h"

namespace gradstream {

Objection check_constants(const RunParameters& p) {
  const ConstantKeys& c = *p.constants;
  for (const Real constant : {c.smoothness, c.pl_constant, c.gradient_noise, c.initial_excess}) {
    if (!(constant >= 0) || !std::isfinite(constant)) {
      return "smoothness, pl_constant, gradient_noise, initial_excess: not below 0; 0 where not known";
    }
  }
  return {};
}

}  // namespace gradstream
