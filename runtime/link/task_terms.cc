#include "runtime/base/no_contraction.h"

#include "runtime/link/task_terms.h"

namespace gradstream {
namespace {

constexpr auto kCopy = [](const auto& from, auto& to) { copy_field(from, to); };

}  // namespace

DirectionSpec to_directions(const gs_Welcome& welcome, uint32_t base_version) {
  DirectionSpec spec;
  visit_direction_fields(welcome, spec, kCopy);
  spec.base_version = base_version;
  spec.owner = welcome.shared_directions ? welcome.group : welcome.client_index;
  return spec;
}

Task to_task(const gs_Task& task, const gs_Welcome& welcome) {
  Task out;  // the parts of a product's shape are the client's to add
  visit_task_fields(task, out, kCopy);
  visit_welcome_fields(welcome, out, kCopy);
  out.estimator.directions = to_directions(welcome, task.version);
  return out;
}

}  // namespace gradstream
