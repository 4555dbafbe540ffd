// What the tests of problem/ and training/ share: an arena with its own buffer, samples in memory, a registry of
// everything, and a task that passes every check.
#ifndef GRADSTREAM_TESTS_SUPPORT_TRAINING_SUPPORT_H_
#define GRADSTREAM_TESTS_SUPPORT_TRAINING_SUPPORT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/arena.h"
#include "runtime/base/random.h"
#include "runtime/base/shape.h"
#include "runtime/manifold/manifold.h"
#include "runtime/problem/problem.h"
#include "runtime/training/estimator.h"
#include "runtime/training/solver.h"
#include "runtime/training/stream.h"

namespace gradstream {

struct TestArena {
  explicit TestArena(size_t size = size_t{1} << 18) : buffer(size / sizeof(uint64_t) + 1), arena(buffer.data(), size) {}
  std::vector<uint64_t> buffer;
  Arena arena;
};

// Samples in memory, row by row, as a SampleSource. Not copyable: the source points into it.
struct TestSamples {
  TestSamples(uint32_t count, uint32_t dimension, std::vector<Real> rows) : values(std::move(rows)) {
    source = {this, count, dimension, read};
  }
  TestSamples(const TestSamples&) = delete;
  TestSamples& operator=(const TestSamples&) = delete;

  static Status read(const void* context, uint32_t index, Real* out) {
    const TestSamples& samples = *static_cast<const TestSamples*>(context);
    ++samples.read_count;
    const Real* row = samples.values.data() + static_cast<size_t>(index) * samples.source.dimension;
    std::copy(row, row + samples.source.dimension, out);
    return samples.read_status;
  }

  std::vector<Real> values;
  SampleSource source;
  mutable uint32_t read_count = 0;
  Status read_status = Status::kOk;
};

inline std::vector<Real> random_values(size_t count, uint32_t seed, uint32_t owner = 0) {
  RandomKey key;
  key.seed = seed;
  key.owner = owner;
  std::vector<Real> values(count);
  fill_normal(key, 0, count, values.data());
  return values;
}

// P_M of normals.
inline std::vector<Real> random_point(const ManifoldOps& manifold, Shape shape, uint32_t seed) {
  TestArena memory;
  std::vector<Real> point = random_values(shape.size(), seed, 77);
  if (manifold.project_point(shape, point.data(), point.data(), memory.arena) != Status::kOk) {
    point.clear();
  }
  return point;
}

inline constexpr const ManifoldOps* kAllManifolds[] = {&kEuclideanOps, &kSphereOps, &kStiefelOps};
inline constexpr const EstimatorOps* kAllEstimators[] = {&kAnalyticGradientOps, &kProjectionOneSidedOps,
                                                         &kProjectionTwoSidedOps, &kTangentRetractionOps,
                                                         &kProjectionTangentOps};
inline constexpr const SolverOps* kAllSolvers[] = {&kSolverProjectionOps, &kSolverGradientStreamOps,
                                                   &kSolverTangentMeanOps, &kSolverSvrgOps};

inline Registry registry_of(std::span<const Problem> problems) {
  return {kAllManifolds, kAllEstimators, kAllSolvers, problems};
}

// A board's task: Stiefel rows x cols, m = 16, K = 5, batch 32, step 0.1.
inline Task stiefel_task(Shape shape) {
  Task task;
  task.sequence = 1;
  task.version = 3;
  task.solver = SolverId::kProjection;
  task.manifold = ManifoldId::kStiefel;
  task.shape = shape;
  task.estimator.id = EstimatorId::kProjectionOneSided;
  task.estimator.batch_mode = BatchMode::kCommon;
  task.estimator.batch_size = 32;
  task.estimator.smoothing = static_cast<Real>(0.01);
  task.estimator.directions.direction_count = 16;
  task.seed = 7;
  task.client_index = 2;
  task.local_step_count = 5;
  task.steps_min = 1;
  task.step_size = static_cast<Real>(0.02);
  task.encoding = Encoding::kF32;
  std::strcpy(task.problem, "kpca");
  return task;
}

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_TRAINING_SUPPORT_H_
