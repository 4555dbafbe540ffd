#include "runtime/base/no_contraction.h"

#include "runtime/training/arena_need.h"

#include <cstring>

#include "runtime/training/encoding.h"
#include "runtime/training/lean.h"
#include "runtime/training/solver.h"
#include "runtime/training/stream.h"

namespace gradstream {
namespace {

// `size` numbers on no manifold, as a product: only a product has more than kDimensionMax of them.
Shape fill_parts(uint32_t size, Parts* out) {
  const Shape shapes[] = {{kDimensionMax, size / kDimensionMax}, {size % kDimensionMax, 1}};
  for (const Shape shape : shapes) {
    if (shape.size() > 0) {
      out->part[out->count++] = {&kEuclideanOps, shape};
    }
  }
  return {size, 1, out};
}

Task task_of(const Problem& problem, Shape shape, const PlainRun& run) {
  Task task;
  task.sequence = 1;
  task.solver = SolverId::kProjection;
  task.manifold = ManifoldId::kProduct;
  task.shape = shape;
  task.estimator.id = EstimatorId::kProjectionOneSided;
  task.estimator.directions.kind = DirectionKind::kSign;
  task.estimator.directions.shared = true;
  task.estimator.directions.direction_count = run.direction_count;
  task.estimator.smoothing = static_cast<Real>(0.01);
  task.estimator.batch_mode = BatchMode::kCommon;
  task.estimator.batch_size = run.batch_size;
  task.local_step_count = run.local_step_count;
  task.step_size = 1;
  task.stream = StreamKind::kScalarStream;
  task.encoding = Encoding::kF32;
  std::strncpy(task.problem, problem.ops->name, kProblemNameSizeMax);
  return task;
}

}  // namespace

Result<size_t> find_arena_need(const Problem& problem, uint32_t size, const PlainRun& run, std::span<uint8_t> memory) {
  static constexpr const ManifoldOps* kManifolds[] = {&kEuclideanOps, &kProductOps};
  static constexpr const EstimatorOps* kEstimators[] = {&kProjectionOneSidedOps};
  static constexpr const SolverOps* kSolvers[] = {&kSolverProjectionOps};
  Parts parts;
  const Shape shape = fill_parts(size, &parts);
  Arena arena(memory.data(), memory.size());
  Replica replica;
  GS_TRY(replica.prepare(kProductOps, shape, arena, false, 0, !run.is_lean));
  const size_t upload_size = encoded_size(Encoding::kF32, size_t{run.direction_count} * run.local_step_count);
  const Result<uint8_t*> upload = arena.persistent<uint8_t>(upload_size);
  GS_TRY(upload.status());
  SolverRun solver;
  const Registry registry{kManifolds,    kEstimators, kSolvers,
                          {&problem, 1}, nullptr,     run.is_lean ? &kLeanForm : nullptr};
  GS_TRY(begin_solver(registry, task_of(problem, shape, run), replica.model(), nullptr, &solver, arena));
  if (run.keeps_batch && !solver.keeps_batch) {
    return Status::kOutOfMemory;  // it fits without them, which was not the question
  }
  solver.keeps_batch = run.keeps_batch;
  return arena.mark() + solver.ops->scratch_size(solver);
}

}  // namespace gradstream
