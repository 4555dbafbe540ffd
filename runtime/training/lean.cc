// The points of the path: z = X at first. Each step: zhat <- zhat - eta (G + c); z <- P_M(zhat). In a free (Euclidean)
// part zhat is z. Where z stands beside the model, a step moves it piece by piece. What is torn by an error or a
// dropped step is made again from X by the scalars of the steps before.
#include "runtime/base/no_contraction.h"

#include "runtime/training/lean.h"

#include <cmath>

#include "runtime/base/products.h"
#include "runtime/training/solver_path.h"

namespace gradstream {
namespace {

bool is_free(const ManifoldOps& ops) { return ops.id == ManifoldId::kEuclidean; }

// visit(ops, shape, offset, place) -> Status for each part of a point; place counts the numbers of those not free.
template <typename Visit>
Status for_each_part(const ManifoldOps& manifold, Shape shape, Visit visit) {
  if (manifold.id != ManifoldId::kProduct) {
    return visit(manifold, shape, size_t{0}, size_t{0});
  }
  size_t at = 0;
  size_t place = 0;
  for (const Part& part : shape.parts->list()) {
    GS_TRY(visit(*part.ops, part.shape, at, place));
    at += part.shape.size();
    place += is_free(*part.ops) ? 0 : part.shape.size();
  }
  return Status::kOk;
}

// What moves at once: a block of a free part, or another part as a whole.
struct Piece {
  const ManifoldOps* ops = nullptr;  // null: free numbers
  Shape shape;                       // of ops
  size_t at = 0;                     // the first of its numbers
  size_t size = 0;
  size_t place = 0;  // as in for_each_part()
};

template <typename Visit>
Status for_each_piece(const ManifoldOps& manifold, Shape shape, Visit visit) {
  return for_each_part(manifold, shape, [&](const ManifoldOps& ops, Shape part, size_t at, size_t place) {
    if (!is_free(ops)) {
      return visit(Piece{&ops, part, at, part.size(), place});
    }
    for (size_t done = 0; done < part.size(); done += kLeanBlockSize) {
      const size_t left = part.size() - done;
      GS_TRY(visit(Piece{nullptr, {}, at + done, left < kLeanBlockSize ? left : kLeanBlockSize, place}));
    }
    return Status::kOk;
  });
}

// Numbers that are not free: of all parts, and of the largest.
size_t bound_count(const ManifoldOps& manifold, Shape shape) {
  size_t sum = 0;
  static_cast<void>(for_each_part(manifold, shape, [&](const ManifoldOps& ops, Shape part, size_t, size_t) {
    sum += is_free(ops) ? 0 : part.size();
    return Status::kOk;
  }));
  return sum;
}

size_t piece_size_max(const ManifoldOps& manifold, Shape shape) {
  size_t most = 0;
  static_cast<void>(for_each_piece(manifold, shape, [&](const Piece& piece) {
    most = max_size(most, piece.size);
    return Status::kOk;
  }));
  return most;
}

// ---- Estimates ----

// A displaced point: y in the parts that are not free, and signs on the way in the others.
struct Displaced {
  const ManifoldOps& manifold;
  Shape shape;
  const Real* y;  // null: all parts are free
  Real distance;  // between a free number and z, with its sign
  mutable SignReader signs;
};

void add_displaced(const void* context, size_t offset, size_t count, Real* values) {
  const Displaced& point = *static_cast<const Displaced*>(context);
  if (point.y == nullptr) {
    point.signs.add(offset, count, point.distance, values);
    return;
  }
  const auto add = [&](const ManifoldOps& ops, Shape part, size_t at, size_t place) {
    const size_t begin = max_size(at, offset);
    const size_t end = at + part.size() < offset + count ? at + part.size() : offset + count;
    if (begin < end && is_free(ops)) {
      point.signs.add(begin, end - begin, point.distance, values + (begin - offset));
    } else if (begin < end) {
      copy(end - begin, point.y + place + (begin - at), values + (begin - offset));
    }
    return Status::kOk;
  };
  static_cast<void>(for_each_part(point.manifold, point.shape, add));
}

// What the evaluations of one estimate share.
struct Points {
  const EstimateInput& input;
  Real* y;  // of the parts that are not free
  Arena& arena;

  SignReader signs(uint32_t j) const { return {input.parameters->directions, input.shape, input.step, j}; }
  Status place(uint32_t j, Real distance) const;
  Status loss_at(ProjectionStage stage, uint32_t j, Batch batch, Real* loss) const;
  void take(Real) const {}
};

// y <- P_M(z + distance u_j) in the parts that are not free. In the others looks, once an estimate, whether a displaced
// number is finite on either side.
Status Points::place(uint32_t j, Real distance) const {
  const bool is_first = input.progress->direction == 0;
  SignReader reader = signs(j);
  return for_each_part(*input.manifold, input.shape, [&](const ManifoldOps& ops, Shape part, size_t at, size_t where) {
    const Real* const z = input.z + at;
    if (!is_free(ops)) {
      copy(part.size(), z, y + where);
      reader.add(at, part.size(), distance, y + where);
      return ops.project_point(part, y + where, y + where, arena);
    }
    for (size_t e = 0; is_first && e < part.size(); ++e) {
      if (!std::isfinite(z[e] + distance) || !std::isfinite(z[e] - distance)) {
        return Status::kNotFinite;
      }
    }
    return Status::kOk;
  });
}

Status Points::loss_at(ProjectionStage stage, uint32_t j, Batch batch, Real* loss) const {
  if (stage == ProjectionStage::kAtZ) {
    return evaluate(input, input.z, batch, nullptr, loss, arena);
  }
  EstimateProgress& progress = *input.progress;
  const Real smoothing = input.parameters->smoothing;
  const Real distance = sign_distance(input.shape, stage == ProjectionStage::kPlus ? smoothing : -smoothing);
  if (!progress.is_placed) {
    GS_TRY(place(j, distance));
  }
  const Displaced point{*input.manifold, input.shape, y, distance, signs(j)};
  batch.progress = &progress.evaluation;
  batch.units = input.units;
  const Status status = charge_evaluation(progress.evaluation, arena, [&] {
    const Problem& problem = input.problem;
    const Result<Real> result =
        problem.ops->loss_displaced(problem.context, input.shape, input.z, {&point, add_displaced}, batch, arena);
    GS_TRY(result.status());
    *loss = result.value();
    return std::isfinite(*loss) ? Status::kOk : Status::kNotFinite;
  });
  progress.is_placed = status == Status::kUnfinished;
  return status;
}

// ---- The solver ----

struct State {
  Real* scalars = nullptr;  // local_step_count * m
  Real* z = nullptr;        // null: z is X, there is one step
  Real* zhat = nullptr;     // of the parts that are not free, place by place
  StepLosses losses;
  size_t moved = 0;      // numbers of z that the step in progress has moved
  uint32_t summed = 0;   // directions in the sum of the piece that comes next
  bool is_torn = false;  // z and zhat are between two steps
};

uint32_t direction_count(const SolverRun& run) { return run.task.estimator.directions.direction_count; }

size_t scalar_count(const SolverRun& run) { return size_t{run.task.local_step_count} * direction_count(run); }

bool has_path(const SolverRun& run) { return run.task.local_step_count > 1; }

bool serves(const SolverRun& run) {
  const EstimatorId id = run.task.estimator.id;
  const bool is_by_signs = (id == EstimatorId::kProjectionOneSided || id == EstimatorId::kProjectionTwoSided) &&
                           run.task.estimator.directions.kind == DirectionKind::kSign;
  return run.task.solver == SolverId::kProjection && is_by_signs && run.task.stream != StreamKind::kTangentBlock &&
         run.problem.ops->loss_displaced != nullptr;
}

StreamKind stream(const EstimatorOps&) { return StreamKind::kScalarStream; }

size_t persistent_size(const SolverRun& run) {
  const size_t bound = bound_count(*run.manifold, run.task.shape);
  const size_t path = Arena::taken_size<Real>(run.task.shape.size()) + Arena::taken_size<Real>(bound);
  return Arena::taken_size<State>(1) + Arena::taken_size<Real>(scalar_count(run)) + (has_path(run) ? path : 0);
}

// Samples of the largest evaluation.
uint32_t batch_size_max(const EstimateInput& input) {
  const EstimatorParameters& parameters = *input.parameters;
  const uint32_t held = input.problem.ops->sample_count(input.problem.context);
  if (parameters.batch_mode == BatchMode::kPerDirection) {
    return 1;
  }
  uint32_t most = parameters.batch_schedule_count == 0 ? parameters.batch_size : 0;
  for (uint32_t i = 0; i < parameters.batch_schedule_count && i < kBatchScheduleMax; ++i) {
    most = parameters.batch_schedule[i] > most ? parameters.batch_schedule[i] : most;
  }
  return parameters.batch_mode == BatchMode::kCommon && most < held ? most : held;
}

// The displaced point of bound parts and the sum of a piece; above them the batch, and what an evaluation or P_M takes.
size_t scratch_size(const SolverRun& run) {
  const EstimateInput input = estimate_input(run, run.model);
  const Problem& problem = input.problem;
  const Shape shape = run.task.shape;
  const size_t displaced = problem.ops->displaced_scratch_size(problem.context, shape, batch_size_max(input));
  const size_t at_z = problem.ops->scratch_size(problem.context, shape);
  return Arena::taken_size<Real>(bound_count(*run.manifold, shape)) +
         Arena::taken_size<Real>(piece_size_max(*run.manifold, shape)) + batch_scratch_size(input) +
         max_size(max_size(displaced, at_z), manifold_scratch_size(run));
}

// z and zhat <- X.
void begin_path(const SolverRun& run, const State& state) {
  copy(run.task.shape.size(), run.model, state.z);
  const auto copy_part = [&](const ManifoldOps& ops, Shape part, size_t at, size_t place) {
    copy(is_free(ops) ? 0 : part.size(), run.model + at, state.zhat + place);
    return Status::kOk;
  };
  static_cast<void>(for_each_part(*run.manifold, run.task.shape, copy_part));
}

Status prepare(SolverRun& run, Arena& arena) {
  if (run.task.proximal != 0 || scalar_count(run) > kScalarCountMax) {
    return Status::kInvalidArgument;  // the correction is what holds this path
  }
  const size_t path_size = has_path(run) ? run.task.shape.size() : 0;
  const size_t bound_size = has_path(run) ? bound_count(*run.manifold, run.task.shape) : 0;
  const Result<State*> state = arena.persistent<State>(1);
  GS_TRY(state.status());
  const Result<Real*> scalars = arena.persistent<Real>(scalar_count(run));
  GS_TRY(scalars.status());
  const Result<Real*> z = arena.persistent<Real>(path_size);
  GS_TRY(z.status());
  const Result<Real*> zhat = arena.persistent<Real>(bound_size);
  GS_TRY(zhat.status());
  *state.value() = State{scalars.value(), has_path(run) ? z.value() : nullptr, zhat.value(), {}, 0, 0, false};
  run.state = state.value();
  if (has_path(run)) {
    begin_path(run, *state.value());
  }
  return Status::kOk;
}

// The scratch of a step, taken in this order by each of its slices.
struct Work {
  Real* y;    // of the parts that are not free; null: there are none
  Real* sum;  // of a piece
};

Status take_work(const SolverRun& run, Arena& arena, Work* out) {
  const Shape shape = run.task.shape;
  const size_t bound = bound_count(*run.manifold, shape);
  const Result<Real*> y = arena.scratch<Real>(bound);
  GS_TRY(y.status());
  const Result<Real*> sum = arena.scratch<Real>(piece_size_max(*run.manifold, shape));
  GS_TRY(sum.status());
  *out = {bound == 0 ? nullptr : y.value(), sum.value()};
  return Status::kOk;
}

Real* scalars_of(const SolverRun& run, uint32_t step) {
  return solver_state<State>(run).scalars + size_t{step} * direction_count(run);
}

// sum <- G of the piece, as far as the units go: a unit is the work of one direction over the whole model.
Status sum_piece(const SolverRun& run, uint32_t step, const Piece& piece, uint32_t* units, Real* sum) {
  State& state = solver_state<State>(run);
  const DirectionSpec& directions = run.task.estimator.directions;
  const Shape shape = run.task.shape;
  const uint32_t m = directions.direction_count;
  if (state.summed == 0) {
    fill_zero(piece.size, sum);
  }
  const auto per_unit = static_cast<uint32_t>(max_size(1, shape.size() / piece.size));
  while (state.summed < m) {
    if (*units == 0) {
      return Status::kUnfinished;
    }
    --*units;
    const uint32_t left = m - state.summed;
    const uint32_t count = left < per_unit ? left : per_unit;
    accumulate_range(directions, shape, step * m + state.summed, count, scalars_of(run, step) + state.summed, piece.at,
                     piece.size, sum);
    state.summed += count;
  }
  state.summed = 0;
  scale(piece.size, estimate_factor(shape, m), sum);
  return all_finite(piece.size, sum) ? Status::kOk : Status::kNotFinite;
}

// The piece of zhat and z after a step with that piece of G, which is overwritten.
Status move_piece(const SolverRun& run, const Piece& piece, Real* g, Arena& arena) {
  const State& state = solver_state<State>(run);
  const Real eta = run.task.step_size;
  Real* const z = state.z + piece.at;
  Real* const zhat = piece.ops == nullptr ? z : state.zhat + piece.place;
  for (size_t e = 0; e < piece.size; ++e) {
    zhat[e] = zhat[e] - eta * (run.correction == nullptr ? g[e] : g[e] + run.correction[piece.at + e]);
  }
  if (piece.ops == nullptr) {
    return all_finite(piece.size, z) ? Status::kOk : Status::kNotFinite;
  }
  return piece.ops->project_point(piece.shape, zhat, z, arena);
}

// z and zhat <- those after the step with these scalars.
Status move(const SolverRun& run, uint32_t step, uint32_t* units, Real* sum, Arena& arena) {
  State& state = solver_state<State>(run);
  state.is_torn = true;
  const auto move_next = [&](const Piece& piece) {
    if (piece.at < state.moved) {
      return Status::kOk;
    }
    GS_TRY(sum_piece(run, step, piece, units, sum));
    GS_TRY(move_piece(run, piece, sum, arena));
    state.moved = piece.at + piece.size;
    return Status::kOk;
  };
  GS_TRY(for_each_piece(*run.manifold, run.task.shape, move_next));
  state.moved = 0;
  state.is_torn = false;
  return Status::kOk;
}

// The path as the steps done have left it, where it is torn.
Status mend_path(const SolverRun& run, Real* sum, Arena& arena) {
  State& state = solver_state<State>(run);
  if (!state.is_torn) {
    return Status::kOk;
  }
  begin_path(run, state);
  for (uint32_t step = 0; step < run.steps_done; ++step) {
    uint32_t units = EvaluationProgress::kNoLimit;
    state.moved = 0;
    state.summed = 0;
    GS_TRY(move(run, step, &units, sum, arena));
  }
  state.moved = 0;
  state.summed = 0;
  state.is_torn = false;
  return Status::kOk;
}

// Whether G of these scalars is finite: by its bound, and where that says nothing number by number.
Status check_estimate(const SolverRun& run, uint32_t step, Real* sum) {
  const Shape shape = run.task.shape;
  Real total = 0;
  for (uint32_t j = 0; j < direction_count(run); ++j) {
    total += std::abs(scalars_of(run, step)[j]);
  }
  constexpr Real kSafe = static_cast<Real>(1e37);  // rounding adds far less than what is left to the largest float
  if (estimate_factor(shape, direction_count(run)) * total < kSafe) {
    return Status::kOk;
  }
  return for_each_piece(*run.manifold, shape, [&](const Piece& piece) {
    uint32_t units = EvaluationProgress::kNoLimit;
    return sum_piece(run, step, piece, &units, sum);
  });
}

// The end of a step: the path goes on where another step follows. Nobody would look at it otherwise.
Status advance(SolverRun& run, Real loss, uint32_t* units, Real* sum, Arena& arena) {
  State& state = solver_state<State>(run);
  if (run.steps_done + 1 < run.task.local_step_count) {
    const Status status = move(run, run.steps_done, units, sum, arena);
    if (status == Status::kUnfinished) {
      arena.hold_scratch();
    }
    GS_TRY(status);
  } else {
    GS_TRY(check_estimate(run, run.steps_done, sum));
  }
  count_step(run, loss, state.losses);
  return Status::kOk;
}

Status take_slice(SolverRun& run, Arena& arena) {
  State& state = solver_state<State>(run);
  ScratchScope scope(arena);
  Work work = {};
  GS_TRY(take_work(run, arena, &work));
  if (!run.is_step_open) {
    GS_TRY(mend_path(run, work.sum, arena));
  }
  const EstimateInput input = estimate_input(run, state.z != nullptr ? state.z : run.model, &run.estimate);
  Points points{input, work.y, arena};
  const bool two_sided = run.task.estimator.id == EstimatorId::kProjectionTwoSided;
  GS_TRY(fill_projection_scalars(input, two_sided, true, points, scalars_of(run, run.steps_done), arena));
  return advance(run, projection_loss(input), &run.estimate.evaluation.units_left, work.sum, arena);
}

Status step(SolverRun& run, Arena& arena) { return do_slice(run, arena, take_slice); }

Status replay(SolverRun& run, const Real* scalars, Real loss, Arena& arena) {
  GS_TRY(check_replay(run, scalars));
  ScratchScope scope(arena);
  Work work = {};
  GS_TRY(take_work(run, arena, &work));
  GS_TRY(mend_path(run, work.sum, arena));
  copy(direction_count(run), scalars, scalars_of(run, run.steps_done));
  uint32_t units = EvaluationProgress::kNoLimit;
  return advance(run, loss, &units, work.sum, arena);
}

Status finish(SolverRun& run, GradientStream* out) {
  if (run.steps_done == 0) {
    return Status::kProtocolError;
  }
  const State& state = solver_state<State>(run);
  fill_stream(run, StreamKind::kScalarStream, state.scalars, size_t{run.steps_done} * direction_count(run),
              state.losses, out);
  return Status::kOk;
}

constexpr SolverOps kSolver = {
    SolverId::kProjection, "projection, lean", stream, persistent_size, scratch_size, prepare, step, finish, replay};

// ---- Records ----

Result<KeptRecord*> begin(Arena& arena) {
  const size_t mark = arena.mark();
  const Result<KeptRecord*> record = arena.persistent<KeptRecord>(1);
  if (record.ok()) {
    *record.value() = {nullptr, nullptr, 0, mark};
  }
  return record;
}

Status keep(KeptRecord& record, const DirectionSpec& directions, uint32_t first, uint32_t count, uint32_t total,
            const Real* coefficients, Arena& arena) {
  if (first == 0) {
    if (total > kKeptCoefficientMax - record.count) {
      return Status::kOutOfMemory;
    }
    const Result<KeptBlock*> block = arena.persistent<KeptBlock>(1);
    GS_TRY(block.status());
    const Result<Real*> values = arena.persistent<Real>(total);
    GS_TRY(values.status());
    *block.value() = {directions, total, values.value(), nullptr};
    (record.last == nullptr ? record.first : record.last->next) = block.value();
    record.last = block.value();
    record.count += total;
  }
  if (record.last == nullptr || count > record.last->count || first > record.last->count - count) {
    return Status::kDataCorrupt;
  }
  copy(count, coefficients, record.last->coefficients + first);
  return Status::kOk;
}

// sum <- the record's at numbers [at, at + size).
void sum_record(const KeptRecord& record, Shape shape, size_t at, size_t size, Real* sum) {
  fill_zero(size, sum);
  for (const KeptBlock* block = record.first; block != nullptr; block = block->next) {
    accumulate_range(block->directions, shape, 0, block->count, block->coefficients, at, size, sum);
  }
}

void fill_sum(const KeptRecord& record, Shape shape, Real* out) { sum_record(record, shape, 0, shape.size(), out); }

Status step_by_record(const KeptRecord& record, Replica& replica, uint32_t m, Real step_scale, Arena& arena) {
  if (!replica.has_model()) {
    return Status::kProtocolError;
  }
  if (m == 0) {
    return Status::kInvalidArgument;
  }
  const Shape shape = replica.shape();
  const Real step = step_scale * estimate_factor(shape, m);
  ScratchScope scope(arena);
  const Result<Real*> next = arena.scratch<Real>(piece_size_max(replica.manifold(), shape));
  GS_TRY(next.status());
  Real* const sum = next.value();
  Real* const model = replica.begin_snapshot();
  const auto move_next = [&](const Piece& piece) {
    sum_record(record, shape, piece.at, piece.size, sum);
    for (size_t e = 0; e < piece.size; ++e) {
      sum[e] = model[piece.at + e] + -step * sum[e];
    }
    if (piece.ops != nullptr) {
      GS_TRY(piece.ops->project_point(piece.shape, sum, sum, arena));
    }
    copy(piece.size, sum, model + piece.at);
    return all_finite(piece.size, sum) ? Status::kOk : Status::kNotFinite;
  };
  GS_TRY(for_each_piece(replica.manifold(), shape, move_next));
  replica.adopt_snapshot(replica.version() + 1);
  return Status::kOk;
}

}  // namespace

const LeanForm kLeanForm = {&kSolver, serves, begin, keep, fill_sum, step_by_record};

}  // namespace gradstream
