// Retractions, projections and transports of the runtime against what a programmer would write with Eigen (float) and
// with LAPACK and BLAS (single), in one run on one thread.
//
// The peers get the better layout for them, columns, all their memory beforehand, and the same formula where it has a
// fast form. Ours are the tables' functions, on rows, in the fixed order of sums that makes them reproducible. Before a
// row is timed, all sides must have the same result. The sides run in turn in short slices of processor time. A ratio
// is the faster peer's time over ours in the same turn, so that what else the machine does meets both: 2.00 means that
// ours takes half as long. Ratios and times are medians of all turns.
//
// Every array of either side begins at a cache line: what a wide load or store across two lines costs is a matter of
// where the caller's memory lies, and made two speeds of one row.
//
// The bars are for the manifolds of tall matrices, from 64x4 to 784x8; the other rows are there to be seen
// (docs/algorithms.md says what holds them back).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/manifold_cases.h"
#include "bench/manifold_fixed_rank.h"
#include "bench/manifold_operands.h"

namespace gradstream {

// A broken contract ends the benchmark.
void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "%s:%d: contract broken\n", file, line);
  std::abort();
}

namespace {

// Many short turns: shorter than a scheduler's, so that a turn is disturbed as a whole, or on one side and no more.
constexpr int kTurnCount = 201;
constexpr double kSliceSeconds = 0.2e-3;  // of ours; a peer does the same number of operations
// Largest difference between the sides' results, relative to the largest entry. Reason: the peers' roots of eigenvalues
// lose a digit.
constexpr float kDifferenceMax = 2e-5F;
// What must hold: nowhere slower than the faster peer, and at the board's shape twice as fast.
constexpr double kRatioMin = 1;
constexpr double kRatioMinBoard = 2;

double cpu_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_each(const std::function<void()>& operation, int count) {
  const double begin = cpu_seconds();
  for (int i = 0; i < count; ++i) {
    operation();
  }
  return (cpu_seconds() - begin) / count;
}

// Medians of all turns.
struct Times {
  double ours, eigen, lapack;  // seconds; lapack 0: there is none
  double ratio;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Ours in o.out against a peer's in o.result: the largest difference, relative to the largest entry.
float difference(Agreement agreement, const Operands& o) {
  using RowMajor = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
  ColumnMatrix ours = RowMajor(o.out.data(), o.result.rows(), o.result.cols()), peer = o.result;
  if (agreement == Agreement::kFactoredMatrix) {
    const FixedRankBlocks b(o);
    for (ColumnMatrix* each : {&ours, &peer}) {
      *each = ColumnMatrix(b.left(*each) * b.core(*each) * b.right(*each).transpose());
    }
  }
  for (Eigen::Index c = 0; agreement == Agreement::kEntriesButColumnSigns && c < peer.cols(); ++c) {
    peer.col(c) *= ours.col(c).dot(peer.col(c)) < 0 ? -1.0F : 1.0F;
  }
  return (ours - peer).cwiseAbs().maxCoeff() / peer.cwiseAbs().maxCoeff();
}

// Empty when the row cannot be measured, since the sides do not compute the same; says so.
std::optional<Times> measure(const Operation& operation, Shape shape) {
  Operands operands(*operation.ops, shape);
  Arena arena(operands.memory.data(), operands.memory.size() * 8);
  Status status = Status::kOk;
  const auto ours = [&] { status = operation.ours(*operation.ops, operands, arena); };
  const auto with_eigen = [&] { operation.with_eigen(operands); };
  const auto with_lapack = [&] { operation.with_lapack(operands); };
  ours();
  GS_ASSERT(status == Status::kOk);
  with_eigen();
  float most = difference(operation.agreement, operands);
  if (operation.with_lapack) {
    with_lapack();
    most = std::max(most, difference(operation.agreement, operands));
  }
  if (!(most <= kDifferenceMax)) {
    std::fprintf(stderr, "manifold_bench: %s of %u x %u: the results differ by %.1e\n", operation.name, shape.rows,
                 shape.cols, static_cast<double>(most));
    return std::nullopt;
  }
  const int count = std::max(1, static_cast<int>(kSliceSeconds / seconds_each(ours, 10)));
  std::vector<double> times_ours, times_eigen, times_lapack, over_eigen, over_lapack;
  for (int turn = 0; turn < kTurnCount; ++turn) {
    times_ours.push_back(seconds_each(ours, count));
    times_eigen.push_back(seconds_each(with_eigen, count));
    over_eigen.push_back(times_eigen.back() / times_ours.back());
    if (operation.with_lapack) {
      times_lapack.push_back(seconds_each(with_lapack, count));
      over_lapack.push_back(times_lapack.back() / times_ours.back());
    }
  }
  Times times = {median(times_ours), median(times_eigen), 0, median(over_eigen)};
  if (operation.with_lapack) {
    times.lapack = median(times_lapack);
    times.ratio = std::min(times.ratio, median(over_lapack));
  }
  return times;
}

// only: rows whose names hold it; empty for all.
int run(const std::string& only) {
  double worst = std::numeric_limits<double>::max();
  double worst_board = worst;
  int slower_count = 0;
  std::printf("%-32s %9s %10s %10s %10s %7s\n", "operation", "shape", "ours us", "eigen us", "lapack us", "ratio");
  for (const Operation& operation : make_operations()) {
    if (std::string(operation.name).find(only) == std::string::npos) {
      continue;
    }
    for (const Shape shape : operation.shapes) {
      const std::optional<Times> measured = measure(operation, shape);
      if (!measured) {
        std::printf("result: error=different operation=\"%s\"\n", operation.name);
        return 1;
      }
      const Times& times = *measured;
      const std::string text = std::to_string(shape.rows) + "x" + std::to_string(shape.cols);
      std::printf("%-32s %9s %10.3f %10.3f %10.3f %7.2f\n", operation.name, text.c_str(), times.ours * 1e6,
                  times.eigen * 1e6, times.lapack * 1e6, times.ratio);
      std::fflush(stdout);
      if (!has_bar(operation)) {
        continue;
      }
      worst = std::min(worst, times.ratio);
      worst_board = shape == kBoardShape ? std::min(worst_board, times.ratio) : worst_board;
      slower_count += times.ratio < kRatioMin ? 1 : 0;
    }
  }
  const bool holds = worst >= kRatioMin && worst_board >= kRatioMinBoard;
  const bool is_judged = worst < std::numeric_limits<double>::max();
  std::printf("result: bench=manifold worst_ratio=%.2f worst_ratio_64x4=%.2f slower=%d holds=%d\n",
              is_judged ? worst : 0, is_judged ? worst_board : 0, slower_count, holds ? 1 : 0);
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) { return gradstream::run(argc > 1 ? argv[1] : ""); }
