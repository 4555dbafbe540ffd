#include "experiments/workloads/workload.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include <Eigen/Dense>
#include <zlib.h>

namespace gradstream {

Matrix normals(const RandomKey& key, Eigen::Index rows, Eigen::Index cols) {
  Matrix out(rows, cols);
  RandomStream stream(key);
  for (Eigen::Index i = 0; i < out.size(); i += 2) {
    const double u0 = stream.next_uniform();
    const double u1 = stream.next_uniform();
    const double radius = std::sqrt(-2 * std::log(u0));
    out.data()[i] = radius * std::cos(2 * M_PI * u1);
    if (i + 1 < out.size()) {
      out.data()[i + 1] = radius * std::sin(2 * M_PI * u1);
    }
  }
  return out;
}

std::vector<uint32_t> chosen(const RandomKey& key, uint32_t n, uint32_t m) {
  std::vector<uint16_t> work(n);
  choose(key, n, m, work.data());
  return {work.begin(), work.begin() + m};
}

Eigenpairs symmetric_eigen(const Eigen::MatrixXd& a) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(a);
  return {solver.eigenvalues(), solver.eigenvectors()};
}

Eigen::VectorXd singular_values(const Eigen::MatrixXd& a) {
  return Eigen::JacobiSVD<Eigen::MatrixXd>(a).singularValues();
}

Eigen::VectorXd solve_semidefinite(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) { return a.ldlt().solve(b); }

// Newton's iteration X <- (g X + (g X)^(-T)) / 2 on the triangular factor, g = (|X^(-1)| / |X|)^(1/2) (N. Higham,
// Functions of Matrices, 8.6): as accurate as by singular values, at a tenth of the time to compile them.
Matrix polar(const Matrix& a) {
  constexpr int kIterationCountMax = 60;
  const Eigen::Index n = a.cols();
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(a);
  const Eigen::MatrixXd thin = Eigen::MatrixXd::Identity(a.rows(), n);
  Eigen::MatrixXd x = qr.matrixQR().topRows(n).triangularView<Eigen::Upper>();
  const Eigen::MatrixXd q = qr.householderQ() * thin;
  for (int i = 0; i < kIterationCountMax; ++i) {
    const Eigen::MatrixXd inverse = x.partialPivLu().inverse().transpose();
    const double factor = i < 8 ? std::sqrt(inverse.norm() / x.norm()) : 1;
    const Eigen::MatrixXd next = 0.5 * (factor * x + inverse / factor);
    const bool is_done = (next - x).norm() <= 1e-15 * static_cast<double>(n);
    x = next;
    if (is_done) {
      break;
    }
  }
  return q * x;
}

Matrix orthonormal(const Matrix& a) {
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(a);
  return qr.householderQ() * Eigen::MatrixXd::Identity(a.rows(), a.cols());
}

// The sine of the angle, from what of b lies outside the span of a.
double principal_angle(const Matrix& a, const Matrix& b) {
  const Eigen::MatrixXd outside = b - a * (a.transpose() * b);
  const double square = symmetric_eigen(outside.transpose() * outside).values(outside.cols() - 1);
  return std::asin(std::min(1.0, std::sqrt(std::max(0.0, square))));
}

StoredSamples::StoredSamples(const Matrix& rows) : values(static_cast<size_t>(rows.size())) {
  std::transform(rows.data(), rows.data() + rows.size(), values.begin(), [](double v) { return static_cast<Real>(v); });
  source.context = this;
  source.count = static_cast<uint32_t>(rows.rows());
  source.dimension = static_cast<uint32_t>(rows.cols());
  source.read = [](const void* context, uint32_t index, Real* out) {
    const StoredSamples& samples = *static_cast<const StoredSamples*>(context);
    const uint32_t dimension = samples.source.dimension;
    std::copy_n(samples.values.data() + static_cast<size_t>(index) * dimension, dimension, out);
    return Status::kOk;
  };
}

std::string read_file(const std::string& path) {
  std::string bytes;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    return bytes;
  }
  std::array<char, 1 << 16> block = {};
  int size = 0;
  while ((size = gzread(file, block.data(), block.size())) > 0) {
    bytes.append(block.data(), static_cast<size_t>(size));
  }
  gzclose(file);
  return size < 0 ? std::string() : bytes;
}

Table read_table(const std::string& name) {
  const std::string folder = GS_SOURCE_DIR "/experiments/data/";
  const bool has_header = name != "digits";
  const std::string file = has_header ? (name == "wine" ? "wine_data.csv" : name + ".csv") : "digits.csv.gz";
  std::istringstream lines(read_file(folder + file));
  std::string line;
  if (has_header) {
    std::getline(lines, line);
  }
  std::vector<double> values;
  Eigen::Index rows = 0;
  for (; std::getline(lines, line); ++rows) {
    std::istringstream words(line);
    for (std::string word; std::getline(words, word, ',');) {
      values.push_back(std::stod(word));
    }
  }
  GS_ASSERT(rows > 0);
  const Eigen::Index cols = static_cast<Eigen::Index>(values.size()) / rows;
  const Matrix all = Eigen::Map<Matrix>(values.data(), rows, cols);
  Table table;
  table.samples = all.leftCols(cols - 1);
  const Eigen::VectorXd labels = all.col(cols - 1);
  table.labels.assign(labels.begin(), labels.end());
  return table;
}

namespace {

Matrix zscore(Matrix a) {
  for (Eigen::Index c = 0; c < a.cols(); ++c) {
    a.col(c).array() -= a.col(c).mean();
    const double deviation = std::sqrt(a.col(c).squaredNorm() / static_cast<double>(a.rows()));
    a.col(c) /= deviation == 0 ? 1 : deviation;
  }
  return a;
}

Matrix centred(const Matrix& a) { return a.rowwise() - a.colwise().mean(); }

Matrix unit_columns(Matrix a) {
  a.colwise().normalize();
  return a;
}

Matrix unit_rows(Matrix a) {
  a.rowwise().normalize();
  return a;
}

Matrix minmax(Matrix a) {
  for (Eigen::Index c = 0; c < a.cols(); ++c) {
    const double low = a.col(c).minCoeff();
    const double range = a.col(c).maxCoeff() - low;
    a.col(c) = (a.col(c).array() - low) / (range == 0 ? 1 : range);
  }
  return a;
}

}  // namespace

Matrix prepare_table(const Matrix& samples, const std::string& preparation) {
  if (preparation == "center") {
    return centred(samples);
  }
  if (preparation == "zscore") {
    return zscore(samples);
  }
  if (preparation == "scale16") {
    return samples / 16;
  }
  if (preparation == "minmax") {
    return minmax(samples);
  }
  if (preparation == "rownorm") {
    return unit_rows(samples);
  }
  if (preparation == "zrownorm") {
    return unit_rows(zscore(samples));
  }
  if (preparation == "colnorm") {
    return unit_columns(samples);
  }
  if (preparation == "zcolnorm") {
    return unit_columns(centred(samples));
  }
  GS_ASSERT(preparation == "raw");
  return samples;
}

}  // namespace gradstream
