// Low-dimensional multitask feature learning. A task is read row by row, twice: its w first, then its residuals. So
// neither X' X nor the task stands in memory, and the cost is a sum of squares that cancels nothing. w comes from the
// triangular factor of (X u; sqrt(2 lambda) I), which takes the rows one by one (Givens). Reason: the normal equations
// square the condition, and make a school's features with a small ridge singular to float.
#include "runtime/base/no_contraction.h"

#include <cmath>
#include <limits>

#include "runtime/base/products.h"
#include "runtime/problem/problem.h"

namespace gradstream {
namespace {

const MultitaskData& data_of(const void* context) { return *static_cast<const MultitaskData*>(context); }

uint32_t sample_count(const void* context) { return data_of(context).task_count; }

Status check_shape(const void* context, Shape shape) {
  const MultitaskData& data = data_of(context);
  const bool has_tasks = data.task_count > 0 && data.task_ends[data.task_count - 1] == data.rows.count;
  const bool fits = has_tasks && uint64_t{shape.rows} + 1 == data.rows.dimension && shape.cols >= 1 &&
                    shape.cols <= shape.rows && data.ridge >= 0;
  return fits ? Status::kOk : Status::kInvalidArgument;
}

struct Work {
  Real* row = nullptr;       // features, target
  Real* residual = nullptr;  // features: X' (X u w - y)
  Real* features = nullptr;  // cols: u' x of one row
  Real* weights = nullptr;   // cols: w
  Real* matrix = nullptr;    // cols x cols: upper triangular R, R'R = u' X' X u + 2 lambda I
};

size_t scratch_size(const void*, Shape shape) {
  return Arena::taken_size<Real>(size_t{shape.rows} + 1) + Arena::taken_size<Real>(shape.rows) +
         2 * Arena::taken_size<Real>(shape.cols) + Arena::taken_size<Real>(size_t{shape.cols} * shape.cols);
}

Status take_work(Shape shape, Arena& arena, Work* out) {
  const struct {
    Real** memory;
    size_t count;
  } wanted[] = {{&out->row, size_t{shape.rows} + 1},
                {&out->residual, shape.rows},
                {&out->features, shape.cols},
                {&out->weights, shape.cols},
                {&out->matrix, size_t{shape.cols} * shape.cols}};
  for (const auto& want : wanted) {
    const Result<Real*> memory = arena.scratch<Real>(want.count);
    GS_TRY(memory.status());
    *want.memory = memory.value();
  }
  return Status::kOk;
}

// Reads row `index` to work.row and its features u' x to work.features.
Status take_row(const MultitaskData& data, Shape shape, const Real* u, uint32_t index, const Work& work) {
  GS_TRY(data.rows.read(data.rows.context, index, work.row));
  fill_zero(shape.cols, work.features);
  for (size_t r = 0; r < shape.rows; ++r) {
    add_scaled(shape.cols, work.row[r], u + r * shape.cols, work.features);
  }
  return Status::kOk;
}

// Takes one more equation, work.features w = target, into the triangular system work.matrix w = work.weights by n
// rotations; work.features are overwritten.
void rotate_in(uint32_t n, Real target, const Work& work) {
  for (size_t i = 0; i < n; ++i) {
    Real* const row = work.matrix + i * n;
    const Real length = std::sqrt(row[i] * row[i] + work.features[i] * work.features[i]);
    if (length == 0) {
      continue;
    }
    const Real cosine = row[i] / length;
    const Real sine = work.features[i] / length;
    row[i] = length;
    for (size_t j = i + 1; j < n; ++j) {
      const Real above = row[j];
      row[j] = cosine * above + sine * work.features[j];
      work.features[j] = cosine * work.features[j] - sine * above;
    }
    const Real above = work.weights[i];
    work.weights[i] = cosine * above + sine * target;
    target = cosine * target - sine * above;
  }
}

// work.weights <- the solution of matrix w = weights, matrix n x n upper triangular. kSingular when a pivot is not
// above rounding of the largest.
Status solve_triangular(uint32_t n, const Work& work) {
  Real largest = 0;
  for (size_t i = 0; i < n; ++i) {
    largest = std::fmax(largest, work.matrix[i * n + i]);
  }
  const Real pivot_min = static_cast<Real>(n) * std::numeric_limits<Real>::epsilon() * largest;
  for (size_t i = n; i-- > 0;) {
    const Real* const row = work.matrix + i * n;
    if (!(row[i] > pivot_min)) {
      return Status::kSingular;
    }
    work.weights[i] = (work.weights[i] - dot(n - i - 1, row + i + 1, work.weights + i + 1)) / row[i];
  }
  return Status::kOk;
}

struct Rows {
  uint32_t begin = 0;
  uint32_t end = 0;
};

Rows rows_of(const MultitaskData& data, uint32_t task) {
  return {task == 0 ? 0 : data.task_ends[task - 1], data.task_ends[task]};
}

// One task, from the row where the last call ended: progress.part counts the rows that were read, those of the fit and
// then those of the residual. A unit of work is a row.
struct TaskReader {
  const MultitaskData& data;
  Shape shape;
  const Real* u = nullptr;
  const Work& work;
  EvaluationProgress& progress;

  // work.weights <- w of the task.
  Status fit(Rows rows) const;
  // *cost <- half the squared residual, summed in work.residual[0]. With `sum_residual` instead work.residual <-
  // X' (X u w - y).
  Status measure(Rows rows, bool sum_residual, Real* cost) const;
};

Status TaskReader::fit(Rows rows) const {
  const size_t n = shape.cols;
  const uint32_t count = rows.end - rows.begin;
  if (progress.part > count) {
    return Status::kOk;  // done in an earlier call
  }
  if (progress.part == 0) {
    fill_zero(n * n, work.matrix);
    fill_zero(n, work.weights);
    for (size_t i = 0; i < n; ++i) {
      work.matrix[i * n + i] = std::sqrt(2 * data.ridge);
    }
  }
  for (; progress.part < count; ++progress.part) {
    if (!progress.take_unit()) {
      return Status::kUnfinished;
    }
    GS_TRY(take_row(data, shape, u, rows.begin + progress.part, work));
    rotate_in(shape.cols, work.row[shape.rows], work);
  }
  ++progress.part;
  return all_finite(n * n, work.matrix) && all_finite(n, work.weights) ? solve_triangular(shape.cols, work)
                                                                       : Status::kNotFinite;
}

Status TaskReader::measure(Rows rows, bool sum_residual, Real* cost) const {
  const uint32_t first = rows.end - rows.begin + 1;  // of progress.part
  if (progress.part == first) {
    fill_zero(shape.rows, work.residual);
  }
  for (; progress.part - first < rows.end - rows.begin; ++progress.part) {
    if (!progress.take_unit()) {
      return Status::kUnfinished;
    }
    GS_TRY(take_row(data, shape, u, rows.begin + (progress.part - first), work));
    const Real error = dot(shape.cols, work.features, work.weights) - work.row[shape.rows];
    if (sum_residual) {
      add_scaled(shape.rows, error, work.row, work.residual);
    } else {
      work.residual[0] += error * error;
    }
  }
  *cost = static_cast<Real>(0.5) * work.residual[0];
  progress.part = 0;
  return Status::kOk;
}

// Calls done(cost) after each task of the batch. An unfinished task keeps its equations and its residual in scratch.
template <typename Done>
Status visit_tasks(const TaskReader& reader, Batch batch, bool sum_residual, Arena& arena, Done done) {
  EvaluationProgress& progress = reader.progress;
  for (; progress.position < batch.count; ++progress.position) {
    const Rows rows = rows_of(reader.data, batch.at(progress.position));
    Real cost = 0;
    Status status = reader.fit(rows);
    if (status == Status::kOk) {
      status = reader.measure(rows, sum_residual, &cost);
    }
    if (status == Status::kUnfinished) {
      arena.hold_scratch();
    }
    GS_TRY(status);
    done(cost);
  }
  return Status::kOk;
}

Result<Real> loss(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) {
  ScratchScope scope(arena);
  Work work;
  GS_TRY(take_work(shape, arena, &work));
  EvaluationProgress whole = kWholeEvaluation;
  EvaluationProgress& progress = progress_of(batch, &whole);
  const TaskReader reader{data_of(context), shape, x, work, progress};
  GS_TRY(visit_tasks(reader, batch, false, arena, [&](Real cost) { progress.add(cost); }));
  return progress.mean();
}

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  ScratchScope scope(arena);
  Work work;
  GS_TRY(take_work(shape, arena, &work));
  EvaluationProgress whole = kWholeEvaluation;
  EvaluationProgress& progress = progress_of(batch, &whole);
  if (progress.position == 0) {
    fill_zero(shape.size(), out);
  }
  const TaskReader reader{data_of(context), shape, x, work, progress};
  GS_TRY(visit_tasks(reader, batch, true, arena, [&](Real) {
    for (size_t r = 0; r < shape.rows; ++r) {
      add_scaled(shape.cols, work.residual[r], work.weights, out + r * shape.cols);
    }
  }));
  scale(shape.size(), static_cast<Real>(1) / static_cast<Real>(batch.count), out);
  return all_finite(shape.size(), out) ? Status::kOk : Status::kNotFinite;
}

Status find_fault(const void* context, Shape, Arena& arena, SampleFault* out) {
  return find_sample_fault(data_of(context).rows, {}, arena, out);
}

}  // namespace

const ProblemOps kMultitaskOps = {
    "multitask",  sample_count, check_shape, scratch_size, loss, gradient, kIsBareMetal ? nullptr : find_fault,
    !kIsBareMetal};

}  // namespace gradstream
