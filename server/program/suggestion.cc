#include "server/program/suggestion.h"

#include <algorithm>
#include <cmath>

#include <Eigen/Cholesky>
#include <Eigen/QR>

#include "runtime/base/status.h"
#include "server/program/data_summary.h"

namespace gradstream {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using Index = Eigen::Index;

// Values first .. first + count of each sample, a sample a row.
Matrix columns_of(const SampleTable& table, uint32_t first, uint32_t count) {
  Matrix out(table.sample_count, count);
  for (Index i = 0; i < out.rows(); ++i) {
    for (Index j = 0; j < out.cols(); ++j) {
      out(i, j) = static_cast<double>(table.values[static_cast<size_t>(i) * table.dimension + first + j]);
    }
  }
  return out;
}

// Products of matrices have one form each here. Reason: Eigen compiles its kernels anew for every form of a factor, and
// this file took as long as ten others.
Matrix product(const Matrix& left, const Matrix& right) { return left * right; }

Matrix transposed_product(const Matrix& left, const Matrix& right) { return left.transpose() * right; }

double largest_eigenvalue(const Matrix& samples) {
  const Matrix moment = transposed_product(samples, samples) / static_cast<double>(samples.rows());
  return largest_eigenvalues({moment.data(), static_cast<size_t>(moment.size())}, 1).front();
}

// ---- Logistic ------------------------------------------------------------------------------------------------------

// A loss below this is 0 for a user: each sample stands on the right side by far.
constexpr double kSeparatedLossMax = 1e-4;
// Half the squared Newton decrement at which the loss is as low as a double shows.
constexpr double kDecrementMin = 1e-12;
// Of the mean curvature, added to the diagonal. Reason: scores of all classes may move together without a change of the
// loss, and the equations would have no single solution.
constexpr double kRidge = 1e-9;
constexpr double kArmijoShare = 0.25;
constexpr int kHalvingsMax = 40;

struct Softmax {
  const Matrix& inputs;
  const std::vector<uint32_t>& labels;
  Index class_count;
  Index cols;  // class_count, or 1 of two classes: the score of class 0 is 0

  // Probabilities of all classes, a sample a row; returns the mean loss.
  double evaluate(const Matrix& model, Matrix* probabilities) const {
    Matrix scores = Matrix::Zero(inputs.rows(), class_count);
    scores.rightCols(cols) = product(inputs, model);
    double loss = 0;
    for (Index i = 0; i < scores.rows(); ++i) {
      const double most = scores.row(i).maxCoeff();
      const double own = scores(i, labels[static_cast<size_t>(i)]);
      scores.row(i) = (scores.row(i).array() - most).exp();
      const double sum = scores.row(i).sum();
      loss += std::log(sum) + most - own;
      scores.row(i) /= sum;
    }
    *probabilities = std::move(scores);
    return loss / static_cast<double>(inputs.rows());
  }

  Matrix gradient(const Matrix& probabilities) const {
    Matrix errors = probabilities;
    for (Index i = 0; i < errors.rows(); ++i) {
      errors(i, labels[static_cast<size_t>(i)]) -= 1;
    }
    return transposed_product(inputs, errors.rightCols(cols)) / static_cast<double>(inputs.rows());
  }

  // Of the model column by column.
  Matrix curvature(const Matrix& probabilities) const {
    const Index rows = inputs.cols();
    Matrix out(rows * cols, rows * cols);
    const Index first = class_count - cols;
    for (Index a = 0; a < cols; ++a) {
      for (Index b = 0; b <= a; ++b) {
        const Eigen::ArrayXd p = probabilities.col(first + a).array();
        const Vector weights = a == b ? Vector(p * (1 - p)) : Vector(-p * probabilities.col(first + b).array());
        const Matrix weighted = inputs.transpose() * weights.asDiagonal();
        const Matrix block = product(weighted, inputs) / static_cast<double>(inputs.rows());
        out.block(a * rows, b * rows, rows, rows) = block;
        out.block(b * rows, a * rows, rows, rows) = block;
      }
    }
    const double ridge = kRidge * std::max(out.trace() / static_cast<double>(out.rows()), 1e-30);
    out.diagonal().array() += ridge;
    return out;
  }
};

}  // namespace

void take_units_out(const UnitPlan& plan, SampleTable* table) {
  const std::vector<ColumnSummary> columns = summarise_columns(*table);
  const size_t count = std::min<size_t>(plan.column_count, columns.size());
  double total = 0;
  for (size_t i = 0; i < count; ++i) {
    total += columns[i].deviation * columns[i].deviation;
  }
  for (size_t i = 0; i < count; ++i) {
    const ColumnSummary& column = columns[i];
    const bool is_kept = column.is_constant() && plan.keeps_constants;
    const double mean = plan.is_centred && !is_kept ? column.mean : 0;
    double width = 1;
    switch (plan.scale) {
      case UnitScale::kNone:
        break;
      case UnitScale::kCommon:
        width = std::sqrt(total);
        break;
      case UnitScale::kDeviation:
        width = column.deviation;
        break;
      case UnitScale::kRange:
        width = static_cast<double>(column.greatest) - static_cast<double>(column.least);
        break;
    }
    const double factor = width > 0 && !is_kept ? 1 / width : 1;
    for (size_t at = i; at < table->values.size(); at += table->dimension) {
      table->values[at] = static_cast<float>((static_cast<double>(table->values[at]) - mean) * factor);
    }
  }
}

BestLoss best_kpca(const SampleTable& table, uint32_t cols) {
  const uint32_t rows = table.dimension;
  GS_ASSERT(cols <= rows);
  // Of X with a sample a row, X'X and XX' have the same eigenvalues beside zeros: the smaller one is made.
  if (std::min(rows, table.sample_count) > kSpectrumSizeMax) {
    return {};
  }
  SampleTable unlabelled = table;
  unlabelled.has_label = false;
  const std::vector<double> values = find_spectrum(unlabelled, rows, rows).raw;
  BestLoss best;
  best.is_known = true;
  double sum = 0;
  double total = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += i < cols ? values[i] : 0;
    total += values[i];
  }
  best.loss = -sum / 2;
  best.smoothness = values.empty() ? 0 : values.front();
  best.share = total > 0 ? sum / total : 1;
  return best;
}

BestLoss best_least_squares(const SampleTable& table, uint32_t cols) {
  const uint32_t rows = table.dimension - cols;
  if (rows > kSpectrumSizeMax) {
    return {};
  }
  const Matrix inputs = columns_of(table, 0, rows);
  const Matrix targets = columns_of(table, rows, cols);
  const Matrix model = inputs.colPivHouseholderQr().solve(targets);
  BestLoss best;
  best.is_known = true;
  best.loss = (product(inputs, model) - targets).squaredNorm() / (2.0 * table.sample_count);
  best.smoothness = largest_eigenvalue(inputs);
  return best;
}

BestLoss best_logistic(const SampleTable& table, uint32_t cols) {
  const uint32_t rows = table.dimension - 1;
  if (uint64_t{rows} * cols > kNewtonSizeMax) {
    return {};
  }
  const Matrix inputs = columns_of(table, 0, rows);
  std::vector<uint32_t> labels;
  for (size_t at = rows; at < table.values.size(); at += table.dimension) {
    labels.push_back(static_cast<uint32_t>(table.values[at]));
  }
  const Softmax softmax{inputs, labels, cols == 1 ? 2 : static_cast<Index>(cols), static_cast<Index>(cols)};
  Matrix model = Matrix::Zero(rows, cols);
  Matrix probabilities;
  BestLoss best;
  best.is_known = true;
  // Boehning's bound: 1/4 of two classes, 1/2 of more.
  best.smoothness = largest_eigenvalue(inputs) * (softmax.class_count == 2 && cols == 1 ? 0.25 : 0.5);
  best.loss = softmax.evaluate(model, &probabilities);
  for (; best.newton_step_count < kNewtonStepMax; ++best.newton_step_count) {
    const Matrix gradient = softmax.gradient(probabilities);
    const Vector step = softmax.curvature(probabilities).ldlt().solve(Vector(gradient.reshaped()));
    const double decrement = step.dot(Vector(gradient.reshaped()));
    if (!std::isfinite(decrement) || decrement < 2 * kDecrementMin || best.loss < kSeparatedLossMax) {
      break;
    }
    double length = 1;
    bool is_lower = false;
    for (int i = 0; i < kHalvingsMax && !is_lower; ++i, length /= 2) {
      const Matrix next = model - length * step.reshaped(rows, cols);
      Matrix next_probabilities;
      const double loss = softmax.evaluate(next, &next_probabilities);
      is_lower = loss <= best.loss - kArmijoShare * length * decrement;
      if (is_lower) {
        model = next;
        probabilities = std::move(next_probabilities);
        best.loss = loss;
      }
    }
    if (!is_lower) {
      break;
    }
  }
  best.is_separated = best.loss < kSeparatedLossMax;
  return best;
}

}  // namespace gradstream
