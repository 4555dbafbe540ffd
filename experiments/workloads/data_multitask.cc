// Low-dimensional multitask feature learning (000 section 5). X5: synthetic, 20 devices of 50 tasks on Gr(5, 100). X6:
// School, 6 devices of 23 schools (the last of 139 is left out) on Gr(r, 28), ridge 1e-3, four fifths of each for
// training.
#include <cmath>
#include <sstream>

#include "experiments/workloads/data_completion.h"
#include "experiments/workloads/workload.h"

namespace gradstream {
namespace {

struct MultitaskTask {
  Matrix features;          // a row each
  Eigen::VectorXd targets;  // of the rows
};

// w of 000: the ridge solution for a task's features within the subspace.
Eigen::VectorXd fit(const MultitaskTask& task, const Matrix& u, double ridge) {
  const Matrix inside = task.features * u;
  const Eigen::MatrixXd gram = inside.transpose() * inside + 2 * ridge * Eigen::MatrixXd::Identity(u.cols(), u.cols());
  return solve_semidefinite(gram, inside.transpose() * task.targets);
}

// The rows of some tasks, as a device holds them.
struct StoredTasks {
  StoredTasks(const Matrix& rows, std::vector<uint32_t> ends, double ridge)
      : samples(rows), task_ends(std::move(ends)) {
    data = {samples.source, task_ends.data(), static_cast<uint32_t>(task_ends.size()), static_cast<Real>(ridge)};
  }
  StoredTasks(const StoredTasks&) = delete;
  StoredTasks& operator=(const StoredTasks&) = delete;
  StoredSamples samples;
  std::vector<uint32_t> task_ends;
  MultitaskData data;
};

std::unique_ptr<StoredTasks> store(std::span<const MultitaskTask> tasks, double ridge) {
  std::vector<uint32_t> ends;
  uint32_t end = 0;
  for (const MultitaskTask& task : tasks) {
    ends.push_back(end += static_cast<uint32_t>(task.targets.size()));
  }
  Matrix rows(end, tasks.front().features.cols() + 1);
  for (size_t t = 0; t < tasks.size(); ++t) {
    const Eigen::Index count = tasks[t].targets.size();
    rows.middleRows(ends[t] - count, count) << tasks[t].features, tasks[t].targets;
  }
  return std::make_unique<StoredTasks>(rows, std::move(ends), ridge);
}

// The excess is the cost itself (optimum 0): the reference has no better value either.
class MultitaskWorkload : public Workload {
 public:
  MultitaskWorkload(std::vector<MultitaskTask> tasks, uint32_t device_count, uint32_t cols, double ridge, uint32_t seed)
      : tasks_(std::move(tasks)), cols_(cols), ridge_(ridge), seed_(seed) {
    const size_t share = tasks_.size() / device_count;
    for (size_t i = 0; i < device_count; ++i) {
      stored_.push_back(store(std::span(tasks_).subspan(i * share, share), ridge));
    }
  }

  ManifoldId manifold() const override { return ManifoldId::kGrassmann; }
  Shape shape() const override { return {static_cast<uint32_t>(tasks_.front().features.cols()), cols_}; }
  uint32_t device_count() const override { return static_cast<uint32_t>(stored_.size()); }
  Problem problem(uint32_t device) const override { return {&kMultitaskOps, &stored_[device]->data}; }
  Matrix start() const override {
    return polar(normals({seed_, RandomDomain::kInitialPoint, 0, 0, 0}, shape().rows, cols_));
  }
  double optimum() const override { return 0; }
  Measures measure(const Matrix& model) const override {
    const Matrix u = sizeof(Real) == sizeof(double) ? model : polar(model);
    Measures measures;
    Matrix gradient = Matrix::Zero(u.rows(), u.cols());
    for (const MultitaskTask& task : tasks_) {
      const Eigen::VectorXd w = fit(task, u, ridge_);
      const Eigen::VectorXd error = task.features * (u * w) - task.targets;
      measures.excess += 0.5 * error.squaredNorm();
      gradient += task.features.transpose() * error * w.transpose();
    }
    const double count = static_cast<double>(tasks_.size());
    measures.excess /= count;
    measures.grad_norm = (gradient - u * (u.transpose() * gradient)).norm() / count;
    measures.other = other(u);
    measures.refitted = refitted(u);
    return measures;
  }

 protected:
  virtual double other(const Matrix& u) const = 0;
  virtual double refitted(const Matrix& u) const = 0;
  const std::vector<MultitaskTask>& tasks() const { return tasks_; }
  double ridge() const { return ridge_; }

 private:
  std::vector<MultitaskTask> tasks_;
  uint32_t cols_;
  double ridge_;
  uint32_t seed_;
  std::vector<std::unique_ptr<StoredTasks>> stored_;
};

class SyntheticWorkload : public MultitaskWorkload {
 public:
  static constexpr uint32_t kDeviceCount = 20;
  static constexpr uint32_t kTaskCount = 1000;
  static constexpr Eigen::Index kFeatureCount = 100;
  static constexpr uint32_t kCols = 5;

  explicit SyntheticWorkload(uint32_t seed)
      : MultitaskWorkload(draw(seed), kDeviceCount, kCols, 0, seed), truth_(draw_truth(seed)) {}

 private:
  static Matrix draw_truth(uint32_t seed) {
    return polar(normals({seed, RandomDomain::kData, 0, 0, 0}, kFeatureCount, kCols));
  }
  static std::vector<MultitaskTask> draw(uint32_t seed) {
    constexpr uint32_t kRowCountMin = 10;
    constexpr uint64_t kRowCountSpan = 41;  // 10 .. 50
    constexpr double kNoise = 1e-6;
    const Matrix truth = draw_truth(seed);
    RandomStream counts({seed, RandomDomain::kData, 1, 0, 0});
    std::vector<MultitaskTask> tasks;
    for (uint32_t t = 0; t < kTaskCount; ++t) {
      const auto rows = static_cast<Eigen::Index>(kRowCountMin + ((counts.next() * kRowCountSpan) >> 32));
      MultitaskTask task;
      task.features = normals({seed, RandomDomain::kData, 2, t, 0}, rows, kFeatureCount);
      const Eigen::VectorXd w = normals({seed, RandomDomain::kData, 3, t, 0}, kFeatureCount, 1);
      const Eigen::VectorXd noise = normals({seed, RandomDomain::kData, 4, t, 0}, rows, 1);
      task.targets = task.features * (truth * (truth.transpose() * w)) + kNoise * noise;
      tasks.push_back(std::move(task));
    }
    return tasks;
  }
  // Distance of the subspaces, |principal angles|.
  double other(const Matrix& u) const override {
    const Eigen::MatrixXd inside = u.transpose() * truth_;
    const Eigen::MatrixXd outside = truth_ - u * inside;
    const Eigen::VectorXd cosines = singular_values(inside);
    const Eigen::VectorXd sines = singular_values(outside).reverse();
    double squares = 0;
    for (Eigen::Index i = 0; i < cosines.size(); ++i) {
      const double angle = std::atan2(sines(i), cosines(i));
      squares += angle * angle;
    }
    return std::sqrt(squares);
  }
  double refitted(const Matrix&) const override { return std::numeric_limits<double>::quiet_NaN(); }

  Matrix truth_;
};

// Columns of a matrix as tasks: a row is the unit vector of a known entry's row, its target the entry.
struct GrassmannColumns {
  Matrix truth;
  std::vector<MultitaskTask> tasks;  // a column each
};

class GrassmannCompletion : public MultitaskWorkload {
 public:
  static constexpr uint32_t kDeviceCount = 10;
  static constexpr Eigen::Index kRows = 50;
  static constexpr Eigen::Index kColumns = 200;
  static constexpr uint32_t kRank = 3;
  static constexpr uint32_t kKnownCount = 15;  // of a column

  explicit GrassmannCompletion(uint32_t seed) : GrassmannCompletion(draw(seed), seed) {}

 private:
  GrassmannCompletion(GrassmannColumns columns, uint32_t seed)
      : MultitaskWorkload(std::move(columns.tasks), kDeviceCount, kRank, 0, seed), truth_(std::move(columns.truth)) {}

  // Entries of mean square 1.
  static GrassmannColumns draw(uint32_t seed) {
    const Matrix left = polar(normals({seed, RandomDomain::kData, 0, 0, 0}, kRows, kRank));
    const Matrix right = normals({seed, RandomDomain::kData, 1, 0, 0}, kColumns, kRank);
    GrassmannColumns out;
    out.truth = std::sqrt(static_cast<double>(kRows) / kRank) * (left * right.transpose());
    for (uint32_t j = 0; j < kColumns; ++j) {
      MultitaskTask task{Matrix::Zero(kKnownCount, kRows), Eigen::VectorXd(kKnownCount)};
      const std::vector<uint32_t> known =
          chosen({seed, RandomDomain::kData, 2, j, 0}, static_cast<uint32_t>(kRows), kKnownCount);
      for (Eigen::Index k = 0; k < task.targets.size(); ++k) {
        const auto row = static_cast<Eigen::Index>(known[static_cast<size_t>(k)]);
        task.features(k, row) = 1;
        task.targets(k) = out.truth(row, j);
      }
      out.tasks.push_back(std::move(task));
    }
    return out;
  }
  // The error of the entries that no device knows, relative to them.
  double other(const Matrix& u) const override {
    double error = 0;
    double size = 0;
    for (Eigen::Index j = 0; j < kColumns; ++j) {
      const MultitaskTask& task = tasks()[static_cast<size_t>(j)];
      const Eigen::VectorXd column = u * fit(task, u, ridge());
      const Eigen::VectorXd known = task.features.colwise().sum();
      for (Eigen::Index i = 0; i < kRows; ++i) {
        if (known(i) == 0) {
          error += (column(i) - truth_(i, j)) * (column(i) - truth_(i, j));
          size += truth_(i, j) * truth_(i, j);
        }
      }
    }
    return std::sqrt(error / size);
  }
  double refitted(const Matrix&) const override { return std::numeric_limits<double>::quiet_NaN(); }

  Matrix truth_;
};

struct SchoolSplit {
  std::vector<MultitaskTask> training;
  std::vector<MultitaskTask> test;
};

class SchoolWorkload : public MultitaskWorkload {
 public:
  static constexpr uint32_t kDeviceCount = 6;
  static constexpr uint32_t kSchoolCount = 138;
  static constexpr uint32_t kFeatureCount = 28;

  SchoolWorkload(SchoolSplit split, uint32_t cols, uint32_t seed)
      : MultitaskWorkload(std::move(split.training), kDeviceCount, cols, 1e-3, seed), test_(std::move(split.test)) {
    double sum = 0;
    for (const MultitaskTask& task : test_) {
      test_count_ += static_cast<double>(task.targets.size());
      sum += task.targets.sum();
    }
    for (const MultitaskTask& task : test_) {
      variance_ += (task.targets.array() - sum / test_count_).square().sum() / (test_count_ - 1);
    }
  }

 private:
  double other(const Matrix& u) const override { return test_error(u, tasks()); }
  double refitted(const Matrix& u) const override { return test_error(u, test_); }

  // Normalised mean squared error on the test rows, w fitted on the rows of `fitted`.
  double test_error(const Matrix& u, const std::vector<MultitaskTask>& fitted) const {
    double error = 0;
    for (size_t t = 0; t < test_.size(); ++t) {
      const Eigen::VectorXd w = fit(fitted[t], u, ridge());
      error += (test_[t].features * (u * w) - test_[t].targets).squaredNorm();
    }
    return error / test_count_ / variance_;
  }

  std::vector<MultitaskTask> test_;
  double test_count_ = 0;  // rows
  double variance_ = 0;    // of all test targets
};

// The schools of school.csv: school, target, features; a header line. Empty when that is not what the file holds.
std::vector<MultitaskTask> read_schools(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::string line;
  std::getline(lines, line);
  std::vector<std::vector<double>> schools;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::vector<double> values;
    for (std::string word; std::getline(words, word, ',');) {
      values.push_back(std::strtod(word.c_str(), nullptr));
    }
    if (values.size() != SchoolWorkload::kFeatureCount + 2 || values[0] < 0 ||
        values[0] > SchoolWorkload::kSchoolCount) {
      return {};
    }
    schools.resize(std::max(schools.size(), static_cast<size_t>(values[0]) + 1));
    std::vector<double>& school = schools[static_cast<size_t>(values[0])];
    school.insert(school.end(), values.begin() + 1, values.end());
  }
  std::vector<MultitaskTask> tasks;
  for (std::vector<double>& school : schools) {
    constexpr Eigen::Index kWidth = SchoolWorkload::kFeatureCount + 1;
    const Eigen::Map<Matrix> rows(school.data(), static_cast<Eigen::Index>(school.size()) / kWidth, kWidth);
    tasks.push_back({rows.rightCols(kWidth - 1), rows.col(0)});
  }
  return tasks;
}

MultitaskTask take_rows(const MultitaskTask& task, std::span<const uint32_t> rows) {
  const auto count = static_cast<Eigen::Index>(rows.size());
  MultitaskTask out{Matrix(count, task.features.cols()), Eigen::VectorXd(count)};
  for (Eigen::Index i = 0; i < count; ++i) {
    out.features.row(i) = task.features.row(rows[static_cast<size_t>(i)]);
    out.targets(i) = task.targets(rows[static_cast<size_t>(i)]);
  }
  return out;
}

}  // namespace

std::unique_ptr<Workload> make_multitask(uint32_t seed) { return std::make_unique<SyntheticWorkload>(seed); }

std::unique_ptr<Workload> make_grassmann_completion(uint32_t seed) {
  return std::make_unique<GrassmannCompletion>(seed);
}

std::unique_ptr<Workload> make_school(const std::string& folder, uint32_t cols, uint32_t seed) {
  constexpr double kTrainingShare = 0.8;
  const std::vector<MultitaskTask> schools = read_schools(folder + "/school.csv.gz");
  if (schools.size() <= SchoolWorkload::kSchoolCount) {
    return nullptr;
  }
  SchoolSplit split;
  for (uint32_t school = 0; school < SchoolWorkload::kSchoolCount; ++school) {
    const auto count = static_cast<uint32_t>(schools[school].targets.size());
    const std::vector<uint32_t> order = chosen({seed, RandomDomain::kData, school, 0, 0}, count, count);
    const auto training = static_cast<size_t>(std::lround(kTrainingShare * count));
    split.training.push_back(take_rows(schools[school], std::span(order).first(training)));
    split.test.push_back(take_rows(schools[school], std::span(order).subspan(training)));
  }
  return std::make_unique<SchoolWorkload>(std::move(split), cols, seed);
}

}  // namespace gradstream
