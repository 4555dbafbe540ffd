#include "firmware/label_fault_posix.h"

#include <array>
#include <cstdio>
#include <vector>

namespace gradstream {

std::string find_label_fault(const Problem& problem, const SampleSource& rows) {
  const std::string name = problem.ops->name;
  const bool is_logistic = name == kLogisticOps.name;
  if (!is_logistic && name != kPerceptronOps.name && name != kLenetOps.name) {
    return "";
  }
  if (rows.dimension < 2) {
    return "a sample of " + name + " is some inputs and the label, and this shard's have one value";
  }
  const Shape shape{rows.dimension - 1, kDimensionMax};
  std::vector<uint64_t> memory(rows.dimension + 16);
  Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
  SampleFault fault;
  static_cast<void>(
      problem.ops->find_fault(problem.context != nullptr ? problem.context : &rows, shape, arena, &fault));
  if (fault.what == nullptr) {
    return "";
  }
  std::array<char, 32> label = {};
  std::snprintf(label.data(), label.size(), "%g", static_cast<double>(fault.value));
  const std::string most = is_logistic ? "" : " to " + std::to_string(static_cast<uint32_t>(fault.most));
  return "sample " + std::to_string(fault.sample + 1) + " (from 1) has the label " + label.data() + "; " + name +
         " takes whole numbers from 0" + most +
         ", 0 or 1 for two classes: relabel the data, as `gradstream data pack "
         "--map-labels` does";
}

}  // namespace gradstream
