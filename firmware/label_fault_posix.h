// What is wrong with the labels of a file that a user gave, in words.
#ifndef GRADSTREAM_FIRMWARE_LABEL_FAULT_POSIX_H_
#define GRADSTREAM_FIRMWARE_LABEL_FAULT_POSIX_H_

#include <string>

#include "runtime/problem/problem.h"

namespace gradstream {

// What no run of the problem can take of these samples; empty: nothing, or a problem without labels. How many classes a
// run of logistic has it says later. rows: of a problem whose context is null.
std::string find_label_fault(const Problem& problem, const SampleSource& rows);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_LABEL_FAULT_POSIX_H_
