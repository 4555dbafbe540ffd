// The problems of the library over samples that are rows of floats; those of networks take a file as well.
#ifndef GRADSTREAM_PYTHON_LIBRARY_PROBLEM_H_
#define GRADSTREAM_PYTHON_LIBRARY_PROBLEM_H_

#include <string>
#include <string_view>

#include "runtime/problem/problem.h"

namespace gradstream {

// Null: there is none of this name.
const ProblemOps* find_library_problem(std::string_view name);
// "kpca, brockett, ...", for people.
std::string library_problem_names();

}  // namespace gradstream

#endif  // GRADSTREAM_PYTHON_LIBRARY_PROBLEM_H_
