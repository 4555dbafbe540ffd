// What the works' theorems say of a run's steps, when the user gives the constants that they need. Advice: it is
// printed and never enforced. All of it assumes what the theorems assume: isometric transport, i.i.d. data, everyone
// taking part.
#ifndef GRADSTREAM_SERVER_RUN_ADVICE_H_
#define GRADSTREAM_SERVER_RUN_ADVICE_H_

#include <string>
#include <vector>

#include "server/run/run_parameters.h"

namespace gradstream {

// One sentence for each condition that the constants (smoothness L, pl_constant mu, gradient_noise sigma,
// initial_excess F(x_0) - F*, each 0 when not given) allow to judge, with its numbers and its source; none without L.
std::vector<std::string> advice(const RunParameters& parameters);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_ADVICE_H_
