#include "runtime/base/no_contraction.h"

#include "runtime/link/task_terms.h"

#include <cstring>

namespace gradstream {

DirectionSpec to_directions(const gs_Welcome& welcome, uint32_t base_version) {
  DirectionSpec spec;
  spec.kind = static_cast<DirectionKind>(welcome.directions);
  spec.shared = welcome.shared_directions;
  spec.seed = welcome.seed;
  spec.base_version = base_version;
  spec.owner = welcome.shared_directions ? welcome.group : welcome.client_index;
  spec.direction_count = welcome.direction_count;
  return spec;
}

Task to_task(const gs_Task& task, const gs_Welcome& welcome) {
  Task out;
  out.sequence = task.task_sequence;
  out.version = task.version;
  out.solver = static_cast<SolverId>(task.solver);
  out.manifold = static_cast<ManifoldId>(welcome.manifold);
  out.retraction = static_cast<RetractionKind>(welcome.retraction);
  out.transport = static_cast<TransportKind>(welcome.transport);
  out.shape = Shape{welcome.rows, welcome.cols};  // a product's parts are the client's to add
  out.estimator.id = static_cast<EstimatorId>(task.estimator);
  out.estimator.batch_mode = static_cast<BatchMode>(task.batch_mode);
  out.estimator.batch_size = task.batch_size;
  out.estimator.batch_schedule_count = task.batch_sizes_count;
  for (uint32_t i = 0; i < task.batch_sizes_count; ++i) {
    out.estimator.batch_schedule[i] = task.batch_sizes[i];
  }
  out.estimator.smoothing = task.smoothing;
  out.estimator.directions = to_directions(welcome, task.version);
  out.seed = welcome.seed;
  out.client_index = welcome.client_index;
  out.local_step_count = task.local_step_count;
  out.steps_min = task.steps_min;
  out.step_size = task.step_size;
  out.stream = static_cast<StreamKind>(welcome.stream);
  out.use_correction = task.use_correction;
  out.memory_stamp = task.memory_stamp;
  out.proximal = static_cast<Real>(task.proximal);
  out.proximal_form = static_cast<ProximalForm>(task.proximal_form);
  out.proximal_weight = static_cast<Real>(task.proximal_weight);
  out.proximal_sigma = static_cast<Real>(task.proximal_sigma);
  out.curvature_form = static_cast<BarzilaiBorwein>(task.curvature_form);
  out.curvature = static_cast<Real>(task.curvature);
  out.draws_iterate = task.draws_iterate;
  out.local_retraction = static_cast<RetractionKind>(task.local_retraction);
  out.encoding = static_cast<Encoding>(task.encoding);
  out.deadline_ms = task.deadline_ms;
  static_assert(sizeof(out.problem) == sizeof(task.problem));
  std::memcpy(out.problem, task.problem, sizeof(out.problem));
  return out;
}

}  // namespace gradstream
