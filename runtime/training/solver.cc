#include "runtime/base/no_contraction.h"

#include "runtime/training/solver.h"

#include <cmath>

#include "runtime/problem/measurement.h"
#include "runtime/training/lean.h"

namespace gradstream {
namespace {

const SolverOps* find_solver(std::span<const SolverOps* const> linked, SolverId id) {
  for (const SolverOps* ops : linked) {
    if (ops->id == id) {
      return ops;
    }
  }
  return nullptr;
}

// A variant with another retraction is used only for operations that do not depend on its transport.
const ManifoldOps* find_local_manifold(const Registry& registry, const Task& task, const ManifoldOps* manifold) {
  return task.local_retraction == RetractionKind::kDefault
             ? manifold
             : find_manifold(registry.manifolds, task.manifold, task.local_retraction, TransportKind::kDefault);
}

bool is_named(const char (&name)[kProblemNameSizeMax + 1]) { return name[kProblemNameSizeMax] == '\0'; }

Status check_numbers(const Task& task) {
  const uint32_t rows_max = task.manifold == ManifoldId::kProduct ? kProductSizeMax : kDimensionMax;
  const bool shape_ok =
      task.shape.rows >= 1 && task.shape.rows <= rows_max && task.shape.cols >= 1 && task.shape.cols <= kDimensionMax;
  const bool steps_ok = task.local_step_count >= 1 && task.local_step_count <= kLocalStepCountMax &&
                        task.steps_min <= task.local_step_count;
  const bool stays =
      kTakesUnits && task.stage == TaskStage::kStart && task.step_size == 0;  // what a path is made of counts alone
  const bool step_ok = std::isfinite(task.step_size) && (task.step_size > 0 || stays) && std::isfinite(task.proximal) &&
                       task.proximal >= 0 && std::isfinite(task.curvature) && task.curvature >= 0;
  const bool encoding_ok = is_value_encoding(task.encoding);
  return shape_ok && steps_ok && step_ok && encoding_ok && is_named(task.problem) ? Status::kOk
                                                                                  : Status::kInvalidArgument;
}

// What the directions repeat of the task is taken from the task: only the group comes from elsewhere.
void complete_directions(Task* task) {
  DirectionSpec& directions = task->estimator.directions;
  directions.seed = task->seed;
  directions.base_version = task->version;
  if (!directions.shared) {
    directions.owner = task->client_index;
  }
}

// The task's proximal term, centred at its model, around its problem. In the arena.
Status wrap_problem(const Registry& registry, SolverRun* run, Arena& arena) {
  const Task& task = run->task;
  if (task.proximal_form == ProximalForm::kGeodesic) {
    return Status::kOk;
  }
  if (registry.proximal_loss == nullptr) {
    return Status::kUnimplemented;
  }
  if (task.solver == SolverId::kSvrg || task.proximal != 0) {
    return Status::kInvalidArgument;  // the mean gradient is that of the bare losses; one term is enough
  }
  const Result<ProximalLoss*> term = arena.persistent<ProximalLoss>(1);
  GS_TRY(term.status());
  *term.value() = {run->problem,
                   run->model,
                   task.proximal_form,
                   task.proximal_weight,
                   task.proximal_sigma,
                   run->manifold,
                   task.estimator.id == EstimatorId::kAnalyticGradient};
  run->problem = {registry.proximal_loss, term.value()};
  return run->problem.ops->check_shape(run->problem.context, task.shape);
}

// Takes the solver's memory.
Status prepare_solver(SolverRun* run, Arena& arena) {
  const size_t needed = run->ops->persistent_size(*run) + run->ops->scratch_size(*run);
  return needed > arena.free_size() ? Status::kOutOfMemory : run->ops->prepare(*run, arena);
}

void end_step(SolverRun* run) {
  run->is_step_open = false;
  run->stage = 0;
  run->estimate = EstimateProgress{};
}

}  // namespace

size_t manifold_scratch_size(const SolverRun& run) {
  const size_t size = run.manifold->scratch_size(run.task.shape);
  const size_t local_size = run.local_manifold->scratch_size(run.task.shape);
  return size > local_size ? size : local_size;
}

EstimateInput estimate_input(const SolverRun& run, const Real* z, EstimateProgress* progress) {
  EstimateInput input;
  input.manifold = run.local_manifold;
  input.shape = run.task.shape;
  input.problem = run.problem;
  input.parameters = &run.task.estimator;
  input.seed = run.task.seed;
  input.version = run.task.version;
  input.client_index = run.task.client_index;
  input.holdout = run.task.holdout;
  input.step = run.steps_done;
  input.z = z;
  input.progress = progress;
  input.units = kTakesUnits && run.units.count > 0 ? &run.units : nullptr;
  return input;
}

Status do_slice(SolverRun& run, Arena& arena, Status (*body)(SolverRun&, Arena&)) {
  if (run.steps_done >= run.task.local_step_count) {
    return Status::kProtocolError;
  }
  if (run.is_step_open) {
    arena.resume_scratch();
  }
  run.estimate.evaluation.units_left = run.slice_size == 0 ? EvaluationProgress::kNoLimit : run.slice_size;
  const Status status = body(run, arena);
  run.is_step_open = status == Status::kUnfinished;
  if (run.is_step_open) {
    arena.suspend_scratch();
  } else {
    end_step(&run);
  }
  return status;
}

Status run_step(SolverRun& run, Arena& arena) {
  Status status = Status::kUnfinished;
  while (status == Status::kUnfinished) {
    status = run.ops->step(run, arena);
  }
  return status;
}

void drop_step(SolverRun& run, Arena& arena) {
  if (run.is_step_open) {
    if (kAwaitsMeasurements && run.estimate.evaluation.measurement != nullptr) {
      run.estimate.evaluation.measurement->drop();
    }
    arena.drop_scratch();
    end_step(&run);
  }
}

Status check_units(const Problem& problem, const Units& units) {
  const auto source_of_units = problem.ops->units_source;
  const bool fits =
      units.count == 0 || (source_of_units != nullptr && source_of_units(problem.context).count == units.count);
  return fits ? Status::kOk : Status::kInvalidArgument;
}

Status begin_solver(const Registry& registry, const Task& task, const Real* model, const Real* correction,
                    SolverRun* run, Arena& arena, const ModelParts& parts) {
  SolverRun fresh;
  fresh.task = task;
  complete_directions(&fresh.task);
  fresh.slice_size = run->slice_size;
  *run = fresh;  // only now: task may be run->task
  GS_TRY(check_numbers(run->task));
  run->ops = find_solver(registry.solvers, run->task.solver);
  run->manifold = find_manifold(registry.manifolds, run->task.manifold, run->task.retraction, run->task.transport);
  run->local_manifold = find_local_manifold(registry, run->task, run->manifold);
  run->estimator = find_estimator(registry.estimators, run->task.estimator.id);
  const Problem* problem = find_problem(registry.problems, run->task.problem);
  if (run->ops == nullptr || run->manifold == nullptr || run->local_manifold == nullptr || run->estimator == nullptr ||
      problem == nullptr) {
    return Status::kUnimplemented;
  }
  run->problem = *problem;
  run->model = model;
  run->correction = run->task.use_correction ? correction : nullptr;
  run->mean_gradient = parts.mean_gradient;
  run->previous_model = parts.previous_model;
  if (kTakesUnits && parts.units.are_decided()) {
    GS_TRY(check_units(*problem, parts.units));
    run->units = parts.units;
  }
  GS_TRY(run->manifold->check_shape(run->task.shape));
  GS_TRY(problem->ops->check_shape(problem->context, run->task.shape));
  GS_TRY(run->estimator->check(estimate_input(*run, model)));
  const size_t mark = arena.mark();
  Status status = wrap_problem(registry, run, arena);
  if (status == Status::kOk) {
    if (registry.lean != nullptr && registry.lean->serves(*run)) {
      run->ops = registry.lean->solver;
    }
    status = prepare_solver(run, arena);
  }
  if (status != Status::kOk) {
    arena.release(mark);
  }
  return status;
}

}  // namespace gradstream
