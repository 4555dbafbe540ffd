// What a device minimises over its own samples: a loss, and where it has one a Euclidean gradient.
//
// A Problem is a table of functions and the caller's context (its samples, its parameters). A user's own loss is one of
// these. Values that a problem returns are inputs of the training, not replicated state: a problem may use libm or
// Eigen.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_PROBLEM_H_
#define GRADSTREAM_RUNTIME_PROBLEM_PROBLEM_H_

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/arena.h"
#include "runtime/base/config.h"
#include "runtime/base/products.h"
#include "runtime/base/status.h"
#include "runtime/base/units.h"
#include "runtime/problem/metric.h"

namespace gradstream {

// Samples that are bytes: value r of a sample is byte[r] scale - mean[r], in float and in this order of operations.
// What it points to is the caller's and stays.
struct SampleBytes {
  const uint8_t* values = nullptr;  // `dimension` bytes a sample, sample after sample
  const void* mean = nullptr;       // `dimension` floats, little-endian, of any alignment; null: zeros
  float scale = 0;                  // not 0
};

// Where samples come from: an array, flash, a callback of the application.
struct SampleSource {
  const void* context = nullptr;
  uint32_t count = 0;      // samples held now, <= kSampleCountMax
  uint32_t dimension = 0;  // values of one sample
  // Writes sample `index` (dimension values) to out. kNotFinite or kClosed when the sample cannot be had.
  Status (*read)(const void* context, uint32_t index, Real* out) = nullptr;
  // The same samples as bytes, for problems that compute in whole numbers (byte_products.h). Null: they are no bytes.
  const SampleBytes* bytes = nullptr;
};

// The mean of count losses, the i-th of which is added in sums[i % 4]; kNotFinite when it is not a number (count 0,
// too). Reason: the rounding error of a large batch stays near that of a quarter of it, and differences of losses are
// divided by the smoothing parameter.
Result<Real> mean_of_sums(const Real (&sums)[4], uint32_t count);

// Adds the losses of a batch in that way.
class LossSum {
 public:
  void add(Real loss) { sums_[count_++ % 4] += loss; }
  Result<Real> mean() const { return mean_of_sums(sums_, count_); }

 private:
  Real sums_[4] = {};
  uint32_t count_ = 0;
};

class Measurement;  // measurement.h

// How far an evaluation has come that is made in several calls, and how much work the present call may do. A unit of
// work is one sample or one direction. They take different times: the shell measures them.
// All zero but units_left: none is begun.
struct EvaluationProgress {
  static constexpr uint32_t kNoLimit = UINT32_MAX;  // more than any step has

  uint32_t position;  // samples of the batch that are done
  uint32_t part;      // of the sample at position, or of the group that begins there, where a problem cuts these too
  Real sums[4];       // of their losses
  uint32_t units_left;
  Measurement* measurement = nullptr;  // whose question the evaluation is; null: of none, the problem computes
  QualitySum* quality = nullptr;       // what a loss() adds to, once a sample, where ProblemOps::metric is; null: none

  // false: the call has done its work and ends with kUnfinished.
  bool take_unit() {
    if (units_left == 0) {
      return false;
    }
    --units_left;
    return true;
  }
  // The loss of the sample at position.
  void add(Real loss) { sums[position % 4] += loss; }
  Result<Real> mean() const { return mean_of_sums(sums, position); }
  // For the next evaluation in the same call.
  void restart() {
    position = part = 0;
    measurement = nullptr;
    quality = nullptr;
    for (Real& sum : sums) {
      sum = 0;
    }
  }
};
// Of an evaluation that is made in one call.
inline constexpr EvaluationProgress kWholeEvaluation = {0, 0, {}, EvaluationProgress::kNoLimit};

// Samples of one evaluation. indices == nullptr: samples 0 .. count - 1.
struct Batch {
  const uint16_t* indices = nullptr;
  uint32_t count = 0;
  EvaluationProgress* progress = nullptr;  // null: the evaluation is made in one call
  // What a problem keeps from one evaluation of these samples to the next: ProblemOps::kept_size() bytes, aligned as
  // arena memory, zeros before the first. Whoever evaluates gives them anew when an index or a sample changes. Null:
  // nothing is kept.
  void* kept = nullptr;
  const Units* units = nullptr;  // read_sample() takes them out; null: samples stay as they are
  uint32_t at(uint32_t position) const { return indices == nullptr ? position : indices[position]; }
};

// out (source.dimension values) <- sample `index`, in the units that the batch asks for. This is the one place where
// problems of a table with ProblemOps::units_source read samples. Codes of SampleSource::read.
inline Status read_sample(const SampleSource& source, const Batch& batch, uint32_t index, Real* out) {
  const Status status = source.read(source.context, index, out);
  if (kTakesUnits && status == Status::kOk && batch.units != nullptr) {
    batch.units->apply(out);
  }
  return status;
}

// The columns that a run may take units out of: the first `count` values of each sample.
struct UnitsSource {
  const SampleSource* samples = nullptr;
  uint32_t count = 0;
};

// A point that stands nowhere in memory: x, of which each run of values is displaced as it is read. So a device can
// evaluate a loss beside its model and holds no second tensor.
struct Displacement {
  const void* context = nullptr;
  // Makes of x[offset .. offset + count), which stand in values, those of the displaced point: for a free part it adds
  // mu u[offset .. offset + count). Any run may be asked for, in any order and more than once. It costs least in the
  // order of the offsets. A value has the same bits whatever the run. count >= 1; offset + count <= shape.size().
  void (*add)(const void* context, size_t offset, size_t count, Real* values) = nullptr;
};

// The polar factor of z + distance s, for s of signs: P_M beside a point of a Stiefel or Grassmann manifold. It stands
// nowhere in memory either.
struct SignDisplacement {
  const Real* z = nullptr;
  const uint32_t* signs = nullptr;  // entry e of s is 1 where bit e % 32 of word e / 32 is set, else -1; null: at z
  uint32_t number = 0;              // of the direction: the same number, the same signs
  Real distance = 0;
};

// The first sample that a problem can never take, and why. least < most: its value, the `what` of it ("label", "row"),
// must be a whole number between them; a "value" any number between them. Else the sample is no `what` ("number",
// "positive definite matrix"). "samples": there are too few of them, `value`, and no single one is at fault.
struct SampleFault {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t sample = 0;  // from 0; kNone: none is at fault
  Real value = 0;
  Real least = 0;
  Real most = 0;
  const char* what = nullptr;  // static; null: there is no fault
};

struct ProblemOps {
  const char* name;  // at most kProblemNameSizeMax characters; a Task names it
  uint32_t (*sample_count)(const void* context);
  // kInvalidArgument when the problem has no point of this shape.
  Status (*check_shape)(const void* context, Shape shape);
  // Bytes of arena scratch that loss and gradient take.
  size_t (*scratch_size)(const void* context, Shape shape);
  // Mean loss over the batch at x. kNotFinite when it is not a number. kUnfinished: not yet. The estimator then calls
  // again with the same point and batch until there is another answer. A loss that is measured answers by
  // Measurement::wait(). What the problem's scratch must keep between
  // such calls it holds (Arena::hold_scratch), and takes again in the same order. A problem that reads no
  // batch.progress makes its evaluation in one call.
  Result<Real> (*loss)(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena);
  // Euclidean gradient of that mean into out (shape.size() values, aliases nothing). Null: the problem has none, and
  // only zeroth-order estimators can train it. kNotFinite. kUnfinished as loss; out keeps its values between the calls.
  Status (*gradient)(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena);
  // Looks at every sample for a value that no point of this shape, which passed check_shape, can ever take. kOk: there
  // is none; kOutOfRange, kNotFinite, kSingular: *out says which. Takes no more scratch than loss. Null: none is looked
  // for.
  Status (*find_fault)(const void* context, Shape shape, Arena& arena, SampleFault* out) = nullptr;
  // Whether find_fault is called before the first task too, and not only after a step that failed: it looks at labels,
  // at the cost of reading each sample once.
  bool has_labels = false;
  // The loss at the displaced point, in the bits that loss has where that point stands in memory. x and the
  // displacement stay the same until there is an answer other than kUnfinished; codes and slices as loss. Each value of
  // the point should be read once for many samples: a displaced value costs about three multiplications. Null: the
  // estimator writes the point down and calls loss.
  Result<Real> (*loss_displaced)(const void* context, Shape shape, const Real* x, const Displacement& displacement,
                                 Batch batch, Arena& arena) = nullptr;
  // Bytes of arena scratch that loss_displaced takes for a batch of at most batch_size samples. Null with it.
  size_t (*displaced_scratch_size)(const void* context, Shape shape, uint32_t batch_size) = nullptr;
  // Bytes of memory that loss_along takes for a batch of at most batch_size samples; 0: it does not serve this context,
  // shape or batch. Null: there is no loss_along.
  size_t (*along_size)(const void* context, Shape shape, uint32_t batch_size) = nullptr;
  // The loss at P_M(z + distance s), for many directions beside one z. memory: along_size() bytes aligned as arena
  // memory, zeros before the first call. Point z and batch stay the same for one memory; evaluations of one direction
  // follow one another. Samples have no units. kSingular: the displaced point is too near one without full rank.
  // Other codes and slices as loss.
  Result<Real> (*loss_along)(const void* context, Shape shape, const SignDisplacement& point, Batch batch, void* memory,
                             Arena& arena) = nullptr;
  // Bytes that the problem can use as Batch::kept for a batch of at most batch_size samples; more samples never take
  // fewer. Values with and without them have the same bits. Null: none.
  size_t (*kept_size)(const void* context, Shape shape, uint32_t batch_size) = nullptr;
  // Says between two tasks whether kept_size may be above 0. Without, what depends on it is computed anew in each
  // evaluation, with as little scratch as that takes. False: nothing changes by it. The context holds the answer,
  // although it is const. Null: it is always allowed.
  bool (*allow_kept)(const void* context, bool is_allowed) = nullptr;
  // Whether this context has no gradient, although the table has one. Null: it has.
  bool (*lacks_gradient)(const void* context) = nullptr;
  // Where the samples are, and which of their columns may have units taken out: not labels, which are counted. Such a
  // problem reads samples by read_sample() alone. Null: it takes samples as they are, and no run with units.
  UnitsSource (*units_source)(const void* context) = nullptr;
  // The metric of what loss() has added to EvaluationProgress::quality. Null: the problem has none but its loss.
  Real (*metric)(const QualitySum& sum) = nullptr;
};

struct Problem {
  const ProblemOps* ops = nullptr;
  const void* context = nullptr;
};

// Whether first-order estimators can train the problem.
inline bool has_gradient(const Problem& problem) {
  const ProblemOps& ops = *problem.ops;
  return ops.gradient != nullptr && (ops.lacks_gradient == nullptr || !ops.lacks_gradient(problem.context));
}

// The member of `linked` with this name, or null.
const Problem* find_problem(std::span<const Problem> linked, const char* name);

// ---- The problems that come with gradstream ----------------------------------------------------------------------
//
// Each has its file, runtime/problem/<name>.cc (hyperbolic_mean.cc), and an image links those that its registry names.
// B is the size of the batch; the loss is a mean over it. Besides their own codes all pass on those of the sample
// source and the arena.

// Principal components (k-PCA), context = SampleSource. Point x: dimension x k with orthonormal columns;
// f(x) = -1/(2 B) sum_b |z_b' x|^2, gradient -1/B sum_b z_b (z_b' x). (003 section 5.1, 002 section 5) With one column
// it is the principal eigenvector; where a work writes -x' A x, without the half, its samples are sqrt(2) z.
// Where the source has bytes, the loss is that of the point rounded to 16 bits, in whole numbers (byte_products.h); the
// gradient stays in float, and so does all of the double build.
extern const ProblemOps kKpcaOps;

// Brockett's cost, context = SampleSource of symmetric matrices A_b, row-major, dimension = rows^2. Point x: rows x p
// with orthonormal columns; f(x) = 1/B sum_b tr(x' A_b x N), N = diag(p, ..., 2, 1), gradient 2/B sum_b A_b x N. The
// minimum is the p lowest eigenvectors, in order. (000 section 5) Only the symmetric part of a matrix counts.
extern const ProblemOps kBrockettOps;

// Frechet (Karcher) mean of symmetric positive definite matrices Z_b under the affine-invariant metric, context =
// SampleSource, row-major, dimension = n^2, n <= kSpdMeanRowsMax. Point x: n x n SPD; f(x) = 1/B sum_b d(x, Z_b)^2,
// Euclidean gradient -2/B sum_b x^(-1) log_x(Z_b) x^(-1). (000 section 5, 002 section 5.1) kSingular: x or a sample is
// not positive definite.
extern const ProblemOps kSpdMeanOps;
// Reason: six n x n matrices of scratch, 96 KiB in float.
inline constexpr uint32_t kSpdMeanRowsMax = 64;

// What multitask learns from: tasks, each some rows (features, target).
struct MultitaskData {
  SampleSource rows;                    // dimension = features + 1, the target last
  const uint32_t* task_ends = nullptr;  // task t has rows task_ends[t - 1] .. task_ends[t] - 1; the last is rows.count
  uint32_t task_count = 0;              // samples of the problem are tasks
  Real ridge = 0;                       // lambda >= 0
};
// Low-dimensional multitask feature learning, context = MultitaskData. Point u: features x r, orthonormal columns, a
// representative of its subspace. f(u) = 1/B sum_b 1/2 |X_b u w_b - y_b|^2, where w_b = w_b(u) solves
// (u' X_b' X_b u + 2 lambda I) w = u' X_b' y_b. The gradient is 1/B sum_b X_b' (X_b u w_b - y_b) w_b'. (000 section 5)
// As printed: with lambda > 0 the cost omits lambda |w_b|^2, so that the gradient is not exactly its derivative.
// kSingular: w_b is not unique (a task with fewer rows than columns, and no ridge). Rows are read twice.
extern const ProblemOps kMultitaskOps;

// Weighted Frechet mean on the hyperboloid, by which structured prediction in hyperbolic space decodes. Context =
// SampleSource, a sample is (z, weight), z in Lorentz coordinates, time first, dimension = rows + 1. Point x: rows x 1
// with <x, x>_L = -1. f(x) = 1/B sum_b weight_b d(x, z_b)^2; weights may be negative. The gradient is J grad f,
// J = diag(-1, 1, ..), with the Riemannian gradient grad f = -2/B sum_b weight_b log_x(z_b) in the form without
// cancellation. Reason: of all extensions of f to the ambient space, the projection of this one loses nothing in float.
extern const ProblemOps kHyperbolicMeanOps;

// Least squares, context = SampleSource, a sample is (a, y), a of rows values and y of cols: f(x) = 1/(2 B) sum_b
// |x' a_b - y_b|^2, gradient 1/B sum_b a_b (x' a_b - y_b)'. On Stiefel it is the orthogonal Procrustes problem.
extern const ProblemOps kLeastSquaresOps;

// Logistic regression, context = SampleSource, a sample is (a, label), dimension = rows + 1. One column: the label is 0
// or 1 and x' a its log-odds. More columns: the label is a class 0 .. cols - 1, x' a the classes' scores (softmax).
// f(x) = -1/B sum_b ln p(label_b | a_b). kOutOfRange: a label that is no such number.
extern const ProblemOps kLogisticOps;

// Matrix completion, context = SampleSource, a sample is (row, column, value) of one known entry, rows and columns from
// 0; dimension = 3. Point x of the fixed-rank manifold, X = U S V': f(x) = 1/(2 B) sum_b (X[row_b, column_b] -
// value_b)^2, gradient by the numbers of (U, V, S). kOutOfRange: a sample names no entry of the matrix.
extern const ProblemOps kCompletionOps;

// What perceptron and lenet learn from: samples (inputs, label), the label a class 0 .. last width - 1.
struct NetworkData {
  SampleSource source;               // dimension = inputs + 1
  const uint16_t* widths = nullptr;  // perceptron: inputs, hidden layers, classes; lenet: classes alone
  uint32_t width_count = 0;          // at most kWidthCountMax
};
// Reason: a Task could not name more parts.
inline constexpr uint32_t kWidthCountMax = 8;
// Numbers of a perceptron of these widths; 0: there is none.
uint32_t perceptron_size(const uint16_t* widths, uint32_t width_count);

// Multilayer perceptron, context = NetworkData. Point x: perceptron_size() x 1. It holds for each layer the weights,
// inputs x outputs row by row, then the biases. A product of parts (inputs x outputs) and (outputs x 1) on any
// manifolds has the same bytes. Each layer but the last does h <- max(0, h W + b); the last one's h W + b are the
// scores of the classes. f(x) = -1/B sum_b ln p(label_b) (softmax). Samples are taken one at a time, so that memory is
// two rows of the network, whatever the batch. At a displaced point they are taken in groups (weight_rows.h). Codes as
// logistic.
extern const ProblemOps kPerceptronOps;

// LeNet-5's shape, context = NetworkData, for Linux images. Images are 28 x 28, row by row. Its layers:
// - a convolution of 6 kernels of 5 x 5 (a border of 2), max(0, .), means of 2 x 2;
// - a convolution of 16 kernels of 6 x 5 x 5, max(0, .), means of 2 x 2;
// - a perceptron 400, 120, 84, classes.
// Point x: lenet_size(classes) x 1. For each convolution it holds the kernels, one after the other, then the biases;
// the perceptron follows. Loss and codes as perceptron.
extern const ProblemOps kLenetOps;
uint32_t lenet_size(uint16_t class_count);

// "network", a list of layers of which some are frozen: runtime/problem/network.h.

// ---- For those who write problems ---------------------------------------------------------------------------------

// The context of a problem that is a SampleSource; and the table's sample_count of such a problem.
inline const SampleSource& source_of(const void* context) { return *static_cast<const SampleSource*>(context); }
uint32_t source_sample_count(const void* context);
// The units_source of such a problem: of all columns, and of all but the last, a label.
UnitsSource units_of_all_columns(const void* context);
UnitsSource units_of_features(const void* context);

// Of each sample the values at `column` and at those behind it must be whole numbers from 0 to count - 1.
struct IndexRule {
  const char* what = nullptr;  // static
  uint32_t column = 0;
  uint32_t count = 0;
  uint32_t column_count = 1;
};
// What find_fault of a problem over a SampleSource does: values that are no numbers, and those that break a rule. Codes
// as find_fault; those of the source and the arena as well. Takes one sample of scratch.
Status find_sample_fault(const SampleSource& source, std::span<const IndexRule> rules, Arena& arena, SampleFault* out);
// The same without rules, for a table whose context is a SampleSource.
Status find_value_fault(const void* context, Shape shape, Arena& arena, SampleFault* out);

// scores (class_count of them) <- the classes' probabilities; returns -ln p(label). kOutOfRange: a label that is no
// whole number from 0 to class_count - 1.
Result<Real> softmax_loss(uint32_t class_count, Real label, Real* scores);

// The progress of a batch, or `whole` where it has none.
inline EvaluationProgress& progress_of(Batch batch, EvaluationProgress* whole) {
  return batch.progress != nullptr ? *batch.progress : *whole;
}

// Where a loss adds up its metric; null: nobody asks for it.
inline QualitySum* quality_of(const Batch& batch) {
  return kEvaluates && batch.progress != nullptr ? batch.progress->quality : nullptr;
}

// Calls visit(index) -> Status for each sample of the batch that is not done yet; kUnfinished when the call's work is
// done before the batch. visit may be called again for a sample that it did not finish, and then has added nothing.
template <typename Visit>
Status visit_samples(Batch batch, EvaluationProgress& progress, Visit visit) {
  for (; progress.position < batch.count; ++progress.position) {
    if (!progress.take_unit()) {
      return Status::kUnfinished;
    }
    GS_TRY(visit(batch.at(progress.position)));
  }
  return Status::kOk;
}

// The mean over the batch of loss_of(index) -> Result<Real>, in the order of LossSum. kUnfinished as visit_samples().
template <typename LossOf>
Result<Real> mean_loss(Batch batch, LossOf loss_of) {
  EvaluationProgress whole = kWholeEvaluation;
  EvaluationProgress& progress = progress_of(batch, &whole);
  GS_TRY(visit_samples(batch, progress, [&](uint32_t index) {
    const Result<Real> loss = loss_of(index);
    if (loss.ok()) {
      progress.add(loss.value());
    }
    return loss.status();
  }));
  return progress.mean();
}

// out (size Reals) <- factor times the mean over the batch of what add(index) -> Status adds to it. kNotFinite.
// kUnfinished as visit_samples().
template <typename Add>
Status mean_gradient(size_t size, Batch batch, Real* out, Add add, Real factor = 1) {
  EvaluationProgress whole = kWholeEvaluation;
  EvaluationProgress& progress = progress_of(batch, &whole);
  if (progress.position == 0) {
    fill_zero(size, out);
  }
  GS_TRY(visit_samples(batch, progress, add));
  scale(size, factor / static_cast<Real>(batch.count), out);
  return all_finite(size, out) ? Status::kOk : Status::kNotFinite;
}

// A problem as a type: the application's own loss, for one. The object is the context and must outlive its use. Its
// loss and its gradient may answer kUnfinished, as ProblemOps says. Optional: Status gradient(Shape, const Real* x,
// Batch, Real* out) const; Status find_fault(Shape, SampleFault*) const; UnitsSource units_source() const.
template <typename P>
concept ProblemType = requires(const P& problem, Shape shape, const Real* x, Batch batch) {
  { P::kName } -> std::convertible_to<const char*>;
  { problem.sample_count() } -> std::same_as<uint32_t>;
  { problem.check_shape(shape) } -> std::same_as<Status>;
  { problem.loss(shape, x, batch) } -> std::same_as<Result<Real>>;
};

// The table of a ProblemType (docs/own_loss.md shows its use). Such a problem takes no memory of the arena.
template <ProblemType P>
constexpr ProblemOps make_problem_ops() {
  ProblemOps ops = {};
  ops.name = P::kName;
  ops.sample_count = [](const void* context) { return static_cast<const P*>(context)->sample_count(); };
  ops.check_shape = [](const void* context, Shape shape) { return static_cast<const P*>(context)->check_shape(shape); };
  ops.scratch_size = [](const void*, Shape) { return size_t{0}; };
  ops.loss = [](const void* context, Shape shape, const Real* x, Batch batch, Arena&) {
    return static_cast<const P*>(context)->loss(shape, x, batch);
  };
  if constexpr (requires(const P& problem, Real* out) {
                  { problem.gradient(Shape{}, out, Batch{}, out) } -> std::same_as<Status>;
                }) {
    ops.gradient = [](const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena&) {
      return static_cast<const P*>(context)->gradient(shape, x, batch, out);
    };
  }
  if constexpr (requires(const P& problem, SampleFault* out) {
                  { problem.find_fault(Shape{}, out) } -> std::same_as<Status>;
                }) {
    ops.find_fault = [](const void* context, Shape shape, Arena&, SampleFault* out) {
      return static_cast<const P*>(context)->find_fault(shape, out);
    };
    ops.has_labels = true;
  }
  if constexpr (kTakesUnits && requires(const P& problem) {
                  { problem.units_source() } -> std::same_as<UnitsSource>;
                }) {
    ops.units_source = [](const void* context) { return static_cast<const P*>(context)->units_source(); };
  }
  return ops;
}

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_PROBLEM_H_
