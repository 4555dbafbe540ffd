#include "bench/parameters_workload.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "runtime/base/random.h"

namespace gradstream {
namespace {

// Every table of the bench. Rows that end with _raw take out units by the run's own sums, the others are prepared.
constexpr WorkloadRow kRows[] = {
    {"digits_sorted", "kpca", "digits", TableForm::kDigits, 4, 9},
    {"digits_sorted_com", "kpca", "digits", TableForm::kCommon, 4, 9},
    {"digits_iid", "kpca", "digits", TableForm::kDigits, 4, 9, true},
    {"digits_raw", "kpca", "digits", TableForm::kRaw, 4, 9},
    {"pumps_com", "kpca", "pumps", TableForm::kCommon, 3},
    {"pumps_raw", "kpca", "pumps", TableForm::kRaw, 3},
    {"iris_com", "kpca", "iris", TableForm::kCommon, 2},
    {"iris_raw", "kpca", "iris", TableForm::kRaw, 2},
    {"wine_com", "kpca", "wine", TableForm::kCommon, 3},
    {"wine_raw", "kpca", "wine", TableForm::kRaw, 3},
    {"wine_std", "kpca", "wine", TableForm::kStandard, 3},
    {"cars_com", "kpca", "cars", TableForm::kCommon, 2},
    {"cars_raw", "kpca", "cars", TableForm::kRaw, 2},
    {"cars_std", "kpca", "cars", TableForm::kStandard, 2},
    {"cancer_com", "kpca", "breast_cancer", TableForm::kCommon, 3},
    {"cancer_raw", "kpca", "breast_cancer", TableForm::kRaw, 3},
    {"cancer_std", "kpca", "breast_cancer", TableForm::kStandard, 3},
    {"sphere_digits", "kpca", "digits", TableForm::kDigits, 1, 9, false, "sphere"},
    {"sphere_wine_std", "kpca", "wine", TableForm::kStandard, 1, 6, true, "sphere"},
    {"ls_wine", "least_squares", "wine", TableForm::kStandard, 1, 6, false, "euclidean"},
    {"ls_cars", "least_squares", "cars", TableForm::kStandard, 1, 6, false, "euclidean"},
    {"ls_cancer", "least_squares", "breast_cancer", TableForm::kStandard, 1, 6, true, "euclidean"},
    {"ls_cars_raw", "least_squares", "cars", TableForm::kRaw, 1, 6, false, "euclidean"},
    {"log_cancer", "logistic", "breast_cancer", TableForm::kStandard, 1, 6, false, "euclidean"},
    {"log_wine", "logistic", "wine", TableForm::kStandard, 3, 6, true, "euclidean"},
    {"log_iris", "logistic", "iris", TableForm::kStandard, 3, 6, false, "euclidean"},
    {"log_wine_raw", "logistic", "wine", TableForm::kRaw, 3, 6, true, "euclidean"},
};

// A Newton step whose decrease is below this is the last one.
constexpr double kNewtonDecrease = 1e-10;
// Halvings of a Newton step at most. Reason: a millionth of it is no step any more.
constexpr int kHalvingsMax = 20;
// Reason: separable classes have no least point; each step then divides the loss by e, and 60 come to rounding.
constexpr int kNewtonCountMax = 60;
// Added to the Hessian's diagonal. Reason: softmax does not see a constant added to all scores.
constexpr double kNewtonRidge = 1e-11;

Matrix joined(const Matrix& left, const Matrix& right) {
  Matrix out(left.rows(), left.cols() + right.cols());
  out << left, right;
  return out;
}

Matrix column_of(const std::vector<double>& values) {
  return Eigen::Map<const Matrix>(values.data(), static_cast<Eigen::Index>(values.size()), 1);
}

// Six pumps by description: 24 log band energies, a common subspace of three dimensions in which they move, an own
// level and 120 to 500 windows each. The labels number the pumps.
Table make_pumps(uint32_t seed) {
  constexpr Eigen::Index kColumnCount = 24, kSubspace = 3;
  constexpr uint32_t kPumpCount = 6;
  constexpr double kLevel = 1.5, kLevelSpread = 0.3, kNoise = 0.35;
  constexpr double kDeviations[kSubspace] = {1.6, 1.1, 0.8};
  const auto draw = [seed](uint32_t a, uint32_t b, Eigen::Index rows, Eigen::Index cols) {
    return normals({seed, RandomDomain::kData, a, b, 0}, rows, cols);
  };
  const Matrix basis = polar(draw(0, 0, kColumnCount, kSubspace));
  const Matrix common_level = kLevel * Matrix::Ones(1, kColumnCount) + kLevelSpread * draw(1, 0, 1, kColumnCount);
  Table table;
  for (uint32_t pump = 0; pump < kPumpCount; ++pump) {
    const Eigen::Index count = 120 + 76 * static_cast<Eigen::Index>(pump);
    Matrix moves = draw(2, pump, count, kSubspace);
    for (Eigen::Index c = 0; c < kSubspace; ++c) {
      moves.col(c) *= kDeviations[c];
    }
    const Matrix level = common_level + kLevelSpread * draw(3, pump, 1, kColumnCount);
    Matrix windows = moves * basis.transpose() + kNoise * draw(4, pump, count, kColumnCount);
    windows.rowwise() += level.row(0);
    const Eigen::Index held = table.samples.rows();
    table.samples.conservativeResize(held + count, kColumnCount);
    table.samples.bottomRows(count) = windows;
    table.labels.insert(table.labels.end(), static_cast<size_t>(count), pump);
  }
  return table;
}

// Cars has no class: read_table() took its last column for one.
Table read_bench_table(const WorkloadRow& row, uint32_t seed) {
  const std::string_view name = row.table;
  if (name == "pumps") {
    return make_pumps(seed);
  }
  Table table = read_table(row.table);
  if (name == "cars") {
    table.samples = joined(table.samples, column_of(table.labels));
    table.labels.assign(table.samples.col(0).begin(), table.samples.col(0).end());
    if (!row.is_kpca()) {  // miles per gallon are the target
      table.samples = table.samples.rightCols(table.samples.cols() - 1).eval();
    }
  }
  return table;
}

std::vector<uint32_t> order_of(const Table& table, bool is_shuffled, uint32_t seed) {
  const auto count = static_cast<uint32_t>(table.samples.rows());
  if (is_shuffled) {
    return chosen({seed, RandomDomain::kData, 9, 0, 0}, count, count);
  }
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return table.labels[a] < table.labels[b]; });
  return order;
}

// A constant column stays as it is, so that a column of ones goes on to be an intercept.
Matrix in_form(Matrix a, TableForm form) {
  if (form == TableForm::kRaw) {
    return a;
  }
  const double count = static_cast<double>(a.rows());
  for (Eigen::Index c = 0; c < a.cols(); ++c) {
    const double mean = a.col(c).mean();
    const double deviation = std::sqrt((a.col(c).array() - mean).square().sum() / count);
    if (form != TableForm::kStandard || deviation > 0) {
      a.col(c).array() -= mean;
      a.col(c) /= form == TableForm::kStandard ? deviation : 1;
    }
  }
  if (form == TableForm::kCommon) {
    a *= std::sqrt(count) / a.norm();
  }
  return form == TableForm::kDigits ? a / 16 : a;
}

}  // namespace

bool WorkloadRow::is_kpca() const { return std::string_view(problem) == "kpca"; }

std::span<const WorkloadRow> parameter_workloads() { return kRows; }

ParameterWorkload::ParameterWorkload(const WorkloadRow& row, uint32_t seed, bool takes_units_out) : table_row_(row) {
  const Table table = read_bench_table(row, seed);
  const std::vector<uint32_t> order = order_of(table, row.is_shuffled, seed);
  const Eigen::Index count = table.samples.rows();
  Matrix sorted(count, table.samples.cols());
  Matrix last(count, 1);  // label or target
  for (Eigen::Index i = 0; i < count; ++i) {
    sorted.row(i) = table.samples.row(order[static_cast<size_t>(i)]);
    last(i, 0) = table.labels[order[static_cast<size_t>(i)]];
  }
  const bool is_logistic = std::string_view(row.problem) == "logistic";
  Matrix held = in_form(sorted, row.form);
  if (!row.is_kpca()) {
    held = joined(held, Matrix::Ones(count, 1));
  }
  Matrix target = is_logistic ? last : in_form(last, row.form);
  const Matrix samples = row.is_kpca() ? held : joined(held, target);
  for (uint32_t i = 0; i < row.device_count; ++i) {  // parts as equal as can be, the first ones longer by one
    const Eigen::Index share = count / row.device_count, more = count % row.device_count;
    const Eigen::Index first = share * i + std::min<Eigen::Index>(i, more);
    sources_.push_back(std::make_unique<StoredSamples>(samples.middleRows(first, share + (i < more ? 1 : 0))));
  }
  if (takes_units_out) {
    held = in_form(held, row.is_kpca() ? TableForm::kCommon : TableForm::kStandard);
    target = is_logistic ? target : in_form(target, TableForm::kStandard);
  }
  inputs_ = held;
  if (is_logistic) {
    labels_.assign(target.col(0).begin(), target.col(0).end());
  } else if (!row.is_kpca()) {
    targets_ = target;
  }
  shape_ = {static_cast<uint32_t>(held.cols()), row.cols};
  covariance_ = held.transpose() * held / static_cast<double>(count);
  const Eigenpairs pairs = symmetric_eigen(covariance_);
  step_unit_ = (is_logistic ? 2 : 0.2) / pairs.values(pairs.values.size() - 1);
  if (row.is_kpca()) {
    optimum_ = -0.5 * pairs.values.tail(row.cols).sum();
  } else if (is_logistic) {
    find_logistic_optimum();
  } else {
    Matrix best(shape_.rows, 1);
    best.col(0) = solve_semidefinite(covariance_, inputs_.transpose() * targets_.col(0) / static_cast<double>(count));
    optimum_ = loss_of(best);
  }
}

Problem ParameterWorkload::problem(uint32_t device) const {
  const ProblemOps& ops = table_row_.is_kpca() ? kKpcaOps : labels_.empty() ? kLeastSquaresOps : kLogisticOps;
  return {&ops, &sources_[device]->source};
}

// chances (samples x classes, may be null) <- the probability of each class.
double ParameterWorkload::logistic_loss(const Matrix& model, Matrix* chances) const {
  Matrix scores = inputs_ * model;
  if (model.cols() == 1) {  // class 0 has the score 0
    scores = joined(Matrix::Zero(scores.rows(), 1), scores);
  }
  double sum = 0;
  for (Eigen::Index i = 0; i < scores.rows(); ++i) {
    const double most = scores.row(i).maxCoeff();
    const double own = scores(i, labels_[static_cast<size_t>(i)]);
    scores.row(i) = (scores.row(i).array() - most).exp();
    const double total = scores.row(i).sum();
    sum += std::log(total) + most - own;
    scores.row(i) /= total;
  }
  if (chances != nullptr) {
    *chances = scores.rightCols(model.cols());
  }
  return sum / static_cast<double>(inputs_.rows());
}

// Newton's method with halved steps where a whole one climbs. Model entry (r, c) is unknown number r + rows c.
void ParameterWorkload::find_logistic_optimum() {
  const Eigen::Index rows = shape_.rows, cols = shape_.cols;
  const double count = static_cast<double>(inputs_.rows());
  Matrix model = Matrix::Zero(rows, cols);
  Matrix chances;
  optimum_ = logistic_loss(model, &chances);
  for (int step = 0; step < kNewtonCountMax; ++step) {
    Matrix errors = chances;
    for (Eigen::Index i = 0; i < errors.rows(); ++i) {
      const auto label = static_cast<Eigen::Index>(labels_[static_cast<size_t>(i)]) - (cols == 1 ? 1 : 0);
      if (label >= 0) {
        errors(i, label) -= 1;
      }
    }
    const Matrix gradient = inputs_.transpose() * errors / count;
    Eigen::MatrixXd hessian = kNewtonRidge * Eigen::MatrixXd::Identity(rows * cols, rows * cols);
    Eigen::VectorXd slope(rows * cols);
    for (Eigen::Index c = 0; c < cols; ++c) {
      slope.segment(c * rows, rows) = gradient.col(c);
      for (Eigen::Index d = 0; d < cols; ++d) {
        const Eigen::VectorXd weights =
            chances.col(c).array() * ((c == d ? 1.0 : 0.0) - chances.col(d).array()) / count;
        hessian.block(c * rows, d * rows, rows, rows) += inputs_.transpose() * weights.asDiagonal() * inputs_;
      }
    }
    const Eigen::VectorXd move = solve_semidefinite(hessian, slope);
    double next_loss = 0;
    Matrix next = model;
    for (int halvings = 0; halvings < kHalvingsMax; ++halvings) {
      const double size = std::ldexp(1.0, -halvings);
      for (Eigen::Index c = 0; c < cols; ++c) {
        next.col(c) = model.col(c) - size * move.segment(c * rows, rows);
      }
      next_loss = logistic_loss(next, &chances);
      if (next_loss <= optimum_) {
        break;
      }
    }
    const double decrease = optimum_ - next_loss;
    if (!(decrease > kNewtonDecrease)) {
      optimum_ = std::min(optimum_, next_loss);
      return;
    }
    model = next;
    optimum_ = next_loss;
  }
}

double ParameterWorkload::loss_of(const Matrix& model) const {
  if (table_row_.is_kpca()) {
    const Matrix x = polar(model);
    return -0.5 * (x.transpose() * covariance_ * x).trace();
  }
  if (!labels_.empty()) {
    return logistic_loss(model, nullptr);
  }
  return 0.5 * (inputs_ * model - targets_).squaredNorm() / static_cast<double>(inputs_.rows());
}

double ParameterWorkload::loss(std::span<const Real> model) const {
  using Model = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return loss_of(Eigen::Map<const Model>(model.data(), shape_.rows, shape_.cols).cast<double>());
}

double ParameterWorkload::gap(double loss, double start_loss) const {
  return (loss - optimum_) / (table_row_.is_kpca() ? std::abs(optimum_) : start_loss - optimum_);
}

}  // namespace gradstream
