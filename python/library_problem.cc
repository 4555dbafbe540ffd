#include "python/library_problem.h"

namespace gradstream {
namespace {

constexpr const ProblemOps* kLibrary[] = {&kKpcaOps,         &kBrockettOps,   &kSpdMeanOps, &kHyperbolicMeanOps,
                                          &kLeastSquaresOps, &kCompletionOps, &kLogisticOps};

}  // namespace

const ProblemOps* find_library_problem(std::string_view name) {
  for (const ProblemOps* ops : kLibrary) {
    if (name == ops->name) {
      return ops;
    }
  }
  return nullptr;
}

std::string library_problem_names() {
  std::string names;
  for (const ProblemOps* ops : kLibrary) {
    names += (names.empty() ? "" : ", ") + std::string(ops->name);
  }
  return names;
}

}  // namespace gradstream
