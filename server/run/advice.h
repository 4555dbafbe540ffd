// What the works' theorems say of a run's steps, when the user gives the constants that they need. Advice is printed
// and never enforced. All of it assumes what the theorems assume: isometric transport, i.i.d. data, and that all
// devices take part.
#ifndef GRADSTREAM_SERVER_RUN_ADVICE_H_
#define GRADSTREAM_SERVER_RUN_ADVICE_H_

#include <string>
#include <vector>

#include "server/run/run_parameters.h"

namespace gradstream {

// One sentence, with its numbers and its source, for each condition that the given constants allow to judge. The
// constants are smoothness L, pl_constant mu, gradient_noise sigma and initial_excess F(x_0) - F*; each is 0 when not
// given. Without L there is no sentence.
std::vector<std::string> advice(const RunParameters& parameters);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_ADVICE_H_
