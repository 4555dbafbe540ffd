#include "experiments/workloads/workload.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

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
