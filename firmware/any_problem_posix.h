// The built-in problems that a device's samples fit, for `gradstream-client --problem any`.
#ifndef GRADSTREAM_FIRMWARE_ANY_PROBLEM_POSIX_H_
#define GRADSTREAM_FIRMWARE_ANY_PROBLEM_POSIX_H_

#include <cstddef>
#include <string>
#include <vector>

#include "include/gradstream/problem.h"
#include "runtime/problem/problem.h"

namespace gradstream {

// Problems of one client. Reason: a Hello names so many (proto/gradstream.options).
inline constexpr size_t kAnyProblemsMax = 4;
// Samples that are looked at to tell what they are. Reason: they say it as well as all of them, and mapped data stay
// unread. Labels are looked at in all samples, as one wrong label ends a run.
inline constexpr uint32_t kLookedAtMax = 64;

// Those of the samples' kind first: matrices (spd_mean, brockett), entries (completion), points of the hyperboloid.
// Then kpca, logistic where all labels are whole numbers from 0, and least_squares. Their context is null, which stands
// for the client's samples. Whether a sample has as many values as a run's model wants is told by the run. Perceptron,
// lenet, multitask and network want more than samples, and are none of them.
std::vector<Problem> fitting_problems(const SampleSource& source);
// Their names, joined by commas.
std::string names_of_problems(const std::vector<Problem>& problems);

// They as what gs_config.problem points to; it and what it points to live as long as the client.
struct AnyProblem {
  std::vector<Problem> problems;
  std::vector<Problem> left_out;  // they fit too, and a Hello has no room for them
  gs_linked_problem linked;
};
// Fills *out with the first kAnyProblemsMax, and logs which they are and which are left out (event=problems).
const gs_linked_problem* link_any(const SampleSource& source, AnyProblem* out);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_ANY_PROBLEM_POSIX_H_
