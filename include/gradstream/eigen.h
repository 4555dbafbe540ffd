// Losses written with Eigen, for every device, and manifolds made by Eigen, for hosts. Header only and optional: a
// program without it needs no Eigen. It works with Eigen 3.4 and 5. docs/own_loss.md has an example of both.
//
//   struct MyLoss : EigenLoss<64, 4, 64> { ... };            // most rows and columns of a point, most values of a
//   sample constexpr ProblemOps kMyOps = make_problem_ops<EigenProblem<MyLoss>>();
//
// It stands before all headers of Eigen, because it sets what Eigen must know first:
// - Nothing allocates: an expression that would is an error of the compiler, with a sentence. GS_EIGEN_HEAP, which a
//   file of a host defines before this header, lifts that.
// - An object on the stack has at most GS_EIGEN_STACK_SIZE_MAX bytes, or there is an error with a sentence.
// - A product of matrices of bounded size is computed number by number. Reason: Eigen's products by blocks take buffers
//   and tens of kilobytes of code.
// - Eigen knows no streams and no threads. Its own checks fail as GS_ASSERT does; a board's image leaves them out.
//
// Files of one program that include Eigen by other ways should set the same. Values of a loss are no replicated state,
// so Eigen may sum in an order of its own, and fleets may mix devices with and without Eigen.
#ifndef GRADSTREAM_INCLUDE_GRADSTREAM_EIGEN_H_
#define GRADSTREAM_INCLUDE_GRADSTREAM_EIGEN_H_

#if defined(EIGEN_WORLD_VERSION)
#error "include <gradstream/eigen.h> before all headers of Eigen: it sets what Eigen must know first"
#endif
#if defined(GS_EIGEN_HEAP) && defined(GS_BARE_METAL)
#error "GS_EIGEN_HEAP is for hosts: a board has no heap"
#endif

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "include/gradstream/manifold.h"
#include "include/gradstream/problem.h"
#include "runtime/base/config.h"
#include "runtime/base/products.h"
#include "runtime/base/random.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/manifold/manifold.h"
#include "runtime/problem/problem.h"
#include "runtime/problem/score.h"

// Bytes of one object on the stack. Reason: a loss in Eigen takes at most 512 bytes more of it than one in C.
#if !defined(GS_EIGEN_STACK_SIZE_MAX)
#define GS_EIGEN_STACK_SIZE_MAX 512
#endif

namespace gradstream {

// A call of this that the compiler keeps is an error, and these are its words.
[[gnu::error(
    "this expression of Eigen takes memory from the heap, and a device has none: give its result a bounded size, "
    "such as gradstream::EigenMatrix<8, 4> in the place of Eigen::MatrixXf, or write it into a Map; see "
    "docs/own_loss.md")]] void
eigen_takes_heap();

constexpr bool begins_with(const char* text, const char* begin) {
  while (*begin != 0 && *text == *begin) {
    ++text;
    ++begin;
  }
  return *begin == 0;
}

// Whether the text of one of Eigen's checks is that of EIGEN_NO_MALLOC, which fails wherever memory is taken or given
// back.
constexpr bool forbids_heap(const char* check) { return begins_with(check, "false && \"heap"); }

// Whether these are Eigen's words for an object above EIGEN_STACK_ALLOCATION_LIMIT.
constexpr bool says_stack(const char* words) { return begins_with(words, "OBJECT_ALLOCATED_ON_STACK_IS_TOO_BIG"); }

template <bool kForbidsHeap>
constexpr void check_eigen() {
  if constexpr (kForbidsHeap) {
    eigen_takes_heap();
  }
}

}  // namespace gradstream

#if defined(GS_EIGEN_HEAP)
#define GS_EIGEN_MAY_ALLOCATE true
#else
#define GS_EIGEN_MAY_ALLOCATE false
#define EIGEN_NO_MALLOC
#define EIGEN_STACK_ALLOCATION_LIMIT GS_EIGEN_STACK_SIZE_MAX
#endif
#define EIGEN_NO_IO
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_CACHEFRIENDLY_PRODUCT_THRESHOLD 32769  // above kDimensionMax: no bounded size counts as large

#if defined(GS_BARE_METAL)
#define eigen_assert(...) (::gradstream::check_eigen<::gradstream::forbids_heap(#__VA_ARGS__)>())
#else
#define eigen_assert(...) \
  (::gradstream::check_eigen<::gradstream::forbids_heap(#__VA_ARGS__)>(), GS_ASSERT(static_cast<bool>(__VA_ARGS__)))
#endif

// Eigen's refusals at compile time, of which one has a sentence besides Eigen's own words.
#define EIGEN_STATIC_ASSERT(condition, words)                                                                         \
  static_assert((condition) || !::gradstream::says_stack(#words),                                                     \
                "an object of this expression of Eigen has more bytes than GS_EIGEN_STACK_SIZE_MAX (512, unless it "  \
                "is defined): form the small product first, as in z' * (z * x), or write into a Map of your memory; " \
                "see docs/own_loss.md");                                                                              \
  static_assert(condition, #words);

#include <Eigen/Core>

namespace gradstream {

// A matrix that holds at most kRowsMax x kColsMax numbers in itself, row by row, and takes no other memory. A bound of
// 1 makes a row or a column of it.
template <uint32_t kRowsMax, uint32_t kColsMax>
using EigenMatrix = Eigen::Matrix<Real, kRowsMax == 1 ? 1 : Eigen::Dynamic, kColsMax == 1 ? 1 : Eigen::Dynamic,
                                  kColsMax == 1 ? Eigen::ColMajor : Eigen::RowMajor, static_cast<int>(kRowsMax),
                                  static_cast<int>(kColsMax)>;

// A Map of values, which are rows x cols numbers, row by row.
template <typename Map, typename Value>
Map map_values(Value* values, uint32_t rows, uint32_t cols) {
  return Map(values, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(cols));
}

// ---- A loss -------------------------------------------------------------------------------------------------------

// The types of a loss, which inherits them. Bounds: rows and columns of a point, values of a sample, and samples that
// the loss is handed at once. The problem keeps so many samples in itself, 4 bytes a value.
template <uint32_t kPointRows, uint32_t kPointCols, uint32_t kSampleValues, uint32_t kGroupSize = 1>
struct EigenLoss {
  static constexpr uint32_t kRowsMax = kPointRows;
  static constexpr uint32_t kColsMax = kPointCols;
  static constexpr uint32_t kValuesMax = kSampleValues;
  static constexpr uint32_t kSamplesMax = kGroupSize;
  using Point = Eigen::Map<const EigenMatrix<kPointRows, kPointCols>>;       // rows x cols
  using Gradient = Eigen::Map<EigenMatrix<kPointRows, kPointCols>>;          // rows x cols
  using Samples = Eigen::Map<const EigenMatrix<kGroupSize, kSampleValues>>;  // a sample a row
};

// What a loss has beside these types:
//   kName                            the run's `problem`
//   bool fits(Shape, uint32_t) const whether it has points of this shape for samples of so many values, within its
//                                    bounds, which are checked already
//   loss(const Point&, const Samples&) const
//                                    Real, or Result<Real>: the sum of the losses of these samples, no mean
//   void add_gradient(const Point&, const Samples&, Gradient&) const
//                                    optional: adds the Euclidean gradient of that sum. The arguments alias nothing
//   uint32_t units_count(uint32_t) const
//                                    optional: how many of so many values of a sample, from the first on, a run may
//                                    take units out of (its keys centre and scale); a label is none of these. Without
//                                    it a run with units has no task for the device
template <typename L>
concept EigenLossType = requires(const L& loss, Shape shape, uint32_t value_count, const typename L::Point& x,
                                 const typename L::Samples& z) {
  { L::kName } -> std::convertible_to<const char*>;
  { loss.fits(shape, value_count) } -> std::same_as<bool>;
  { loss.loss(x, z) } -> std::convertible_to<Result<Real>>;
};

// Such a loss over an application's samples, as a ProblemType: make_problem_ops<EigenProblem<L>>() is its table. One
// object serves one device. A step is cut between two groups of samples, and its bits do not depend on where.
template <EigenLossType L>
class EigenProblem {
 public:
  static constexpr const char* kName = L::kName;

  // samples: the caller's, valid as long as the problem is used.
  explicit EigenProblem(const gs_sample_source* samples, const L& loss = {})
      : loss_(loss), source_{samples, samples->count, samples->dimension, read} {}

  uint32_t sample_count() const { return source_.count; }

  Status check_shape(Shape shape) const {
    const bool is_bounded = shape.rows >= 1 && shape.rows <= L::kRowsMax && shape.cols >= 1 &&
                            shape.cols <= L::kColsMax && source_.dimension <= L::kValuesMax;
    return is_bounded && loss_.fits(shape, source_.dimension) ? Status::kOk : Status::kInvalidArgument;
  }

  // As ProblemOps::units_source.
  UnitsSource units_source() const requires requires(const L& own) {
    { own.units_count(0) } -> std::same_as<uint32_t>;
  }
  { return {&source_, loss_.units_count(source_.dimension)}; }

  // Codes as ProblemOps::loss; a sample that cannot be had is kNotFinite.
  Result<Real> loss(Shape shape, const Real* x, Batch batch) const {
    const auto point = map_values<typename L::Point>(x, shape.rows, shape.cols);
    EvaluationProgress whole = kWholeEvaluation;
    EvaluationProgress& progress = progress_of(batch, &whole);
    GS_TRY(visit_groups(batch, progress, [&](const typename L::Samples& z) {
      const Result<Real> sum = loss_.loss(point, z);
      if (sum.ok()) {
        progress.sums[progress.position / L::kSamplesMax % 4] += sum.value();
      }
      return sum.status();
    }));
    return progress.mean();
  }

  // Codes as ProblemOps::gradient.
  Status gradient(Shape shape, const Real* x, Batch batch, Real* out) const requires
      requires(const L& own, const typename L::Point& point, const typename L::Samples& z, typename L::Gradient& sum) {
    own.add_gradient(point, z, sum);
  }
  {
    const auto point = map_values<typename L::Point>(x, shape.rows, shape.cols);
    auto sum = map_values<typename L::Gradient>(out, shape.rows, shape.cols);
    EvaluationProgress whole = kWholeEvaluation;
    EvaluationProgress& progress = progress_of(batch, &whole);
    if (progress.position == 0) {
      fill_zero(shape.size(), out);
    }
    GS_TRY(visit_groups(batch, progress, [&](const typename L::Samples& z) {
      loss_.add_gradient(point, z, sum);
      return Status::kOk;
    }));
    scale(shape.size(), 1 / static_cast<Real>(batch.count), out);
    return all_finite(shape.size(), out) ? Status::kOk : Status::kNotFinite;
  }

  // For gs_score(), by make_score_ops<EigenProblem<L>>(): the loss of that sample. kNotFinite, and the loss's own
  // codes.
  Result<Real> score(const ScoreInput& input) const {
    for (uint32_t i = 0; i < source_.dimension; ++i) {
      values_[i] = input.value(i);
    }
    const auto sample = map_values<typename L::Samples>(static_cast<const Real*>(values_), 1, source_.dimension);
    const Result<Real> loss =
        loss_.loss(map_values<typename L::Point>(input.model, input.shape.rows, input.shape.cols), sample);
    return loss.ok() && !std::isfinite(loss.value()) ? Result<Real>(Status::kNotFinite) : loss;
  }

 private:
  // As visit_samples() of runtime/problem/problem.h, for kSamplesMax samples at a time. A unit of work is one sample. A
  // group is begun where a unit is left, and then finished.
  template <typename Visit>
  Status visit_groups(Batch batch, EvaluationProgress& progress, Visit visit) const {
    const uint32_t dimension = source_.dimension;
    while (progress.position < batch.count) {
      if (progress.units_left == 0) {
        return Status::kUnfinished;
      }
      const uint32_t rest = batch.count - progress.position;
      const uint32_t count = rest < L::kSamplesMax ? rest : L::kSamplesMax;
      for (uint32_t i = 0; i < count; ++i) {
        const uint32_t index = batch.at(progress.position + i);
        GS_TRY(read_sample(source_, batch, index, &values_[size_t{i} * dimension]));
      }
      GS_TRY(visit(map_values<typename L::Samples>(static_cast<const Real*>(values_), count, dimension)));
      progress.units_left -= count < progress.units_left ? count : progress.units_left;
      progress.position += count;
    }
    return Status::kOk;
  }

  static Status read(const void* context, uint32_t index, Real* out) {
    const auto* samples = static_cast<const gs_sample_source*>(context);
    return status_of_callback(samples->read(samples->context, index, out));
  }

  L loss_;
  SampleSource source_;
  mutable Real values_[size_t{L::kSamplesMax} * L::kValuesMax] = {};  // no replica, and nothing between two calls
};

// ---- A manifold, for hosts ----------------------------------------------------------------------------------------

// The types of a manifold by Eigen, which inherits them. Bounds: rows and columns of a point.
template <uint32_t kPointRows, uint32_t kPointCols>
struct EigenPoints {
  static constexpr uint32_t kRowsMax = kPointRows;
  static constexpr uint32_t kColsMax = kPointCols;
  using Matrix = EigenMatrix<kPointRows, kPointCols>;
  using Point = Eigen::Map<const Matrix>;
};

// What such a manifold has beside these types. It has no state, and its functions are those of ManifoldType on Maps:
//   kId, kName, kRetraction, kTransport, kDefaultRetraction, kDefaultTransport
//   bool has_points(Shape)           within the bounds, which are checked already
//   size_t dimension(Shape)
//   Status f(const Point& ..., Matrix& out)
//                                    project_point(z), project_tangent(x, g), retract(x, v), inverse_retract(x, y). out
//                                    has the shape of the inputs and aliases none of them
// Optional, with what stands for them:
//   riemannian_gradient(x, g, out)   project_tangent(x, g): the metric of the embedding
//   transport(x, y, v, out)          project_tangent(y, v)
//   Real inner(x, v, w)              the sum of v w: the metric of the embedding
//   Real distance(x, y)              the norm of inverse_retract(x, y)
template <typename M>
concept EigenManifoldType = requires(Shape shape, const typename M::Point& in, typename M::Matrix& out) {
  { M::has_points(shape) } -> std::same_as<bool>;
  { M::dimension(shape) } -> std::same_as<size_t>;
  { M::project_point(in, out) } -> std::same_as<Status>;
  { M::project_tangent(in, in, out) } -> std::same_as<Status>;
  { M::retract(in, in, out) } -> std::same_as<Status>;
  { M::inverse_retract(in, in, out) } -> std::same_as<Status>;
};

// A manifold by Eigen as a ManifoldType: make_manifold_ops<EigenManifold<M>>() is its table. It is not reproducible:
// Eigen sums in the order that suits the processor. So it is for runs whose versions are sent as models and not as
// scalars, and a server replays its journal to one digest on processors of one kind alone. For hosts, since a board has
// no stack for it. Outputs are finite, or the status is kNotFinite.
template <EigenManifoldType M>
struct EigenManifold {
  static_assert(GS_EIGEN_MAY_ALLOCATE || sizeof(M) == 0,
                "a manifold by Eigen is for hosts: define GS_EIGEN_HEAP before the include");

  static constexpr ManifoldId kId = M::kId;
  static constexpr const char* kName = M::kName;
  static constexpr RetractionKind kRetraction = M::kRetraction;
  static constexpr TransportKind kTransport = M::kTransport;
  static constexpr RetractionKind kDefaultRetraction = M::kDefaultRetraction;
  static constexpr TransportKind kDefaultTransport = M::kDefaultTransport;
  static constexpr bool kReproducible = false;
  static constexpr bool kIsometricTransport = false;
  using Matrix = typename M::Matrix;
  using Point = typename M::Point;

  static Status check_shape(Shape shape) {
    const bool is_bounded =
        shape.rows >= 1 && shape.rows <= M::kRowsMax && shape.cols >= 1 && shape.cols <= M::kColsMax;
    return is_bounded && M::has_points(shape) ? Status::kOk : Status::kInvalidArgument;
  }
  static size_t dimension(Shape shape) { return M::dimension(shape); }
  static size_t scratch_size(Shape) { return 0; }

  static Status project_point(Shape shape, const Real* z, Real* out, Arena&) {
    return write(shape, out, [&](Matrix& result) { return M::project_point(map(shape, z), result); });
  }
  static Status project_tangent(Shape shape, const Real* x, const Real* g, Real* out, Arena&) {
    return write(shape, out, [&](Matrix& result) { return M::project_tangent(map(shape, x), map(shape, g), result); });
  }
  static Status riemannian_gradient(Shape shape, const Real* x, const Real* g, Real* out, Arena&) {
    return write(shape, out, [&](Matrix& result) {
      if constexpr (requires(Point in) { M::riemannian_gradient(in, in, result); }) {
        return M::riemannian_gradient(map(shape, x), map(shape, g), result);
      } else {
        return M::project_tangent(map(shape, x), map(shape, g), result);
      }
    });
  }
  static Status retract(Shape shape, const Real* x, const Real* v, Real* out, Arena&) {
    return write(shape, out, [&](Matrix& result) { return M::retract(map(shape, x), map(shape, v), result); });
  }
  static Status inverse_retract(Shape shape, const Real* x, const Real* y, Real* out, Arena&) {
    return write(shape, out, [&](Matrix& result) { return M::inverse_retract(map(shape, x), map(shape, y), result); });
  }
  static Status transport(Shape shape, const Real* x, const Real* y, const Real* v, Real* out, Arena&) {
    return write(shape, out, [&](Matrix& result) {
      if constexpr (requires(Point in) { M::transport(in, in, in, result); }) {
        return M::transport(map(shape, x), map(shape, y), map(shape, v), result);
      } else {
        return M::project_tangent(map(shape, y), map(shape, v), result);
      }
    });
  }
  static Result<Real> inner(Shape shape, const Real* x, const Real* v, const Real* w, Arena&) {
    if constexpr (requires(Point in) { M::inner(in, in, in); }) {
      return M::inner(map(shape, x), map(shape, v), map(shape, w));
    } else {
      return dot(shape.size(), v, w);
    }
  }
  static Result<Real> distance(Shape shape, const Real* x, const Real* y, Arena&) {
    if constexpr (requires(Point in) { M::distance(in, in); }) {
      return M::distance(map(shape, x), map(shape, y));
    } else {
      Matrix lift = zeros(shape);
      GS_TRY(M::inverse_retract(map(shape, x), map(shape, y), lift));
      return static_cast<Real>(lift.norm());
    }
  }
  static Status random_point(Shape shape, const RandomKey& key, Real* out, Arena& arena) {
    fill_normal(key, 0, shape.size(), out);
    return project_point(shape, out, out, arena);
  }

 private:
  static Point map(Shape shape, const Real* values) { return map_values<Point>(values, shape.rows, shape.cols); }
  static Matrix zeros(Shape shape) {
    return Matrix::Zero(static_cast<Eigen::Index>(shape.rows), static_cast<Eigen::Index>(shape.cols));
  }
  // out may be an input of compute, which is done with it when out is written.
  template <typename Compute>
  static Status write(Shape shape, Real* out, Compute compute) {
    Matrix result = zeros(shape);
    GS_TRY(compute(result));
    GS_ASSERT(result.size() == static_cast<Eigen::Index>(shape.size()));
    copy(shape.size(), result.data(), out);
    return all_finite(shape.size(), out) ? Status::kOk : Status::kNotFinite;
  }
};

}  // namespace gradstream

#endif  // GRADSTREAM_INCLUDE_GRADSTREAM_EIGEN_H_
