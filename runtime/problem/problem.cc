#include "runtime/problem/problem.h"

#include <cstring>

namespace gradstream {

const Problem* find_problem(std::span<const Problem> linked, const char* name) {
  for (const Problem& problem : linked) {
    if (std::strncmp(problem.ops->name, name, kProblemNameSizeMax + 1) == 0) {
      return &problem;
    }
  }
  return nullptr;
}

uint32_t source_sample_count(const void* context) { return source_of(context).count; }

}  // namespace gradstream
