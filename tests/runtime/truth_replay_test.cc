// Replays the trajectories of an independent reference with the code of the product: the solvers on the devices' side,
// the replica, its records and the corrections on the server's. In the double build to a relative 1e-7 of the gap; in
// the float build, the one that ships, to what float allows. tests/golden/README.md says what the files hold.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <Eigen/Dense>
#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr bool kIsDouble = sizeof(Real) == sizeof(double);
const std::string kGolden = GS_SOURCE_DIR "/tests/golden/";
const std::string kData = GS_SOURCE_DIR "/experiments/data/";

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct Point {
  uint32_t round;
  double gap;
};

// ---- Comparing -----------------------------------------------------------------------------------------------------

// Counts what was compared, so that a test cannot pass by comparing nothing.
struct Tally {
  uint32_t entry_count = 0;
  uint32_t point_count = 0;
  double worst = 0;
  std::string worst_at;

  void compare(const std::string& name, const Point& reference, double gap, double tolerance) {
    const double deviation = std::fabs(gap - reference.gap) / reference.gap;
    EXPECT_LE(deviation, tolerance) << name << " round " << reference.round << ": " << gap << " for " << reference.gap;
    ++point_count;
    if (deviation > worst) {
      worst = deviation;
      worst_at = name + " round " + std::to_string(reference.round);
    }
  }
  void print(const char* what) const {
    std::printf("%s: %u trajectories, %u points, worst relative deviation %.2e (%s)\n", what, entry_count, point_count,
                worst, worst_at.c_str());
    EXPECT_GT(entry_count, 0u);
    EXPECT_GT(point_count, 5 * entry_count) << "next to nothing was compared";
  }
};

std::vector<Point> read_points(std::istream& line) {
  size_t count = 0;
  line >> count;
  std::vector<Point> points(count);
  for (Point& point : points) {
    line >> point.round >> point.gap;
  }
  EXPECT_TRUE(line) << "a golden file is damaged";
  return points;
}

template <typename Visit>
void for_each_line(const std::string& path, Visit visit) {
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') {
      std::istringstream words(line);
      visit(words);
    }
  }
}

// ---- Data ----------------------------------------------------------------------------------------------------------

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

Matrix polar(const Matrix& a) {
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(a, Eigen::ComputeThinU | Eigen::ComputeThinV);
  return svd.matrixU() * svd.matrixV().transpose();
}

std::unique_ptr<TestSamples> samples_of(const Matrix& rows) {
  std::vector<Real> values(static_cast<size_t>(rows.size()));
  std::transform(rows.data(), rows.data() + rows.size(), values.begin(), [](double v) { return static_cast<Real>(v); });
  return std::make_unique<TestSamples>(static_cast<uint32_t>(rows.rows()), static_cast<uint32_t>(rows.cols()),
                                       std::move(values));
}

// A table of numbers whose last column is the class.
void read_table(const std::string& path, bool has_header, Matrix* samples, std::vector<double>* labels) {
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::string line;
  if (has_header) {
    std::getline(file, line);
  }
  std::vector<double> values;
  Eigen::Index rows = 0;
  for (; std::getline(file, line); ++rows) {
    std::istringstream words(line);
    for (std::string word; std::getline(words, word, ',');) {
      values.push_back(std::stod(word));
    }
  }
  const Eigen::Index cols = static_cast<Eigen::Index>(values.size()) / rows;
  const Matrix table = Eigen::Map<Matrix>(values.data(), rows, cols);
  *samples = table.leftCols(cols - 1);
  labels->resize(static_cast<size_t>(rows));
  for (Eigen::Index i = 0; i < rows; ++i) {
    (*labels)[static_cast<size_t>(i)] = table(i, cols - 1);
  }
}

void load(const std::string& name, Matrix* samples, std::vector<double>* labels) {
  if (name == "synth") {
    *samples = normals({1, RandomDomain::kData, 0, 0, 0}, 1000, 16);
    labels->clear();
    for (Eigen::Index c = 0; c < 16; ++c) {
      samples->col(c) *= c == 15 ? 0.2 : 2 + static_cast<double>(c) * (-1.8 / 15);
    }
    for (Eigen::Index i = 0; i < 1000; ++i) {
      labels->push_back((*samples)(i, 0));
    }
  } else if (name == "iris") {
    read_table(kData + "iris.csv", true, samples, labels);
    for (Eigen::Index c = 0; c < samples->cols(); ++c) {
      samples->col(c).array() -= samples->col(c).mean();
      samples->col(c) /= std::sqrt(samples->col(c).squaredNorm() / static_cast<double>(samples->rows()));
    }
  } else {
    read_table(GS_DIGITS_CSV, false, samples, labels);
    *samples /= 16;
  }
}

// ---- A9 and A10 ----------------------------------------------------------------------------------------------------

struct ProjectionEntry {
  std::string name;
  std::string data;
  bool heterogeneous;
  uint32_t step_count;
  bool first_order;
  bool use_correction;
  bool per_direction;
  bool is_float;
  Real smoothing;
  double step_size;
  uint32_t direction_count;
  uint32_t client_count;
  std::vector<Point> points;
};

ProjectionEntry parse_projection(std::istream& line) {
  ProjectionEntry entry;
  line >> entry.name >> entry.step_size >> entry.direction_count >> entry.client_count;
  entry.points = read_points(line);
  std::istringstream key(entry.name);
  std::string words[8];
  for (std::string& word : words) {
    std::getline(key, word, '/');
  }
  entry.data = words[0];
  entry.heterogeneous = words[1] == "het";
  entry.step_count = static_cast<uint32_t>(std::stoul(words[2].substr(3)));
  entry.first_order = words[3] == "FO";
  entry.use_correction = words[4] == "corr";
  entry.per_direction = words[5] == "sample";
  entry.is_float = words[6] == "float32";
  entry.smoothing = static_cast<Real>(std::stod(words[7].substr(2)));
  return entry;
}

// The samples of each client, the mean of their covariances, and what is known about the optimum.
struct Fleet {
  Fleet(const std::string& data, bool heterogeneous, uint32_t client_count) : cols(data == "digits" ? 4 : 2) {
    Matrix all;
    std::vector<double> labels;
    load(data, &all, &labels);
    const uint32_t held = static_cast<uint32_t>(all.rows());
    std::vector<uint16_t> order(held);
    if (heterogeneous) {
      std::iota(order.begin(), order.end(), uint16_t{0});
      std::stable_sort(order.begin(), order.end(), [&](uint16_t a, uint16_t b) { return labels[a] < labels[b]; });
    } else {
      choose({1, RandomDomain::kData, 9, 0, 0}, held, held, order.data());
    }
    const uint32_t share = held / client_count;
    covariance = Matrix::Zero(all.cols(), all.cols());
    for (uint32_t i = 0; i < client_count; ++i) {
      Matrix part(share, all.cols());
      for (uint32_t row = 0; row < share; ++row) {
        part.row(row) = all.row(order[i * share + row]);
      }
      covariance += part.transpose() * part / share / client_count;
      clients.push_back(samples_of(part));
    }
    const Eigen::VectorXd eigenvalues = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(covariance).eigenvalues();
    optimum = -0.5 * eigenvalues.tail(cols).sum();
  }
  // At the nearest point in double: a float model is off the manifold by its rounding, which is no part of the gap but
  // would hide it below 1e-6 of the optimum.
  double gap(const Replica& replica) const {
    const Eigen::Map<const Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> model(
        replica.model(), replica.shape().rows, replica.shape().cols);
    const Matrix x = polar(model.cast<double>());
    return -0.5 * x.cwiseProduct(covariance * x).sum() - optimum;
  }
  std::vector<std::unique_ptr<TestSamples>> clients;
  uint32_t cols;  // of the model
  Matrix covariance;
  double optimum = 0;
};

// A whole federated run: the devices' solvers, the server's sums in enrolment order, the replica that steps.
class ProjectionRun {
 public:
  ProjectionRun(const ProjectionEntry& entry, const Fleet& fleet)
      : entry_(entry), fleet_(fleet), shape_{static_cast<uint32_t>(fleet.covariance.rows()), fleet.cols} {
    EXPECT_EQ(replica_.prepare(kStiefelOps, shape_, memory_.arena), Status::kOk);
    EXPECT_EQ(kStiefelOps.random_point(shape_, {1, RandomDomain::kInitialPoint, 0, 0, 0}, replica_.begin_snapshot(),
                                       memory_.arena),
              Status::kOk);
    replica_.adopt_snapshot(0);
    corrections_.assign(entry.client_count, std::vector<Real>(shape_.size()));
    uploads_.resize(entry.client_count);
    means_.resize(entry.client_count);
  }
  const Replica& replica() const { return replica_; }

  void round() {
    for (uint32_t i = 0; i < entry_.client_count; ++i) {
      work(i);
    }
    const Real step = static_cast<Real>(entry_.step_size) * static_cast<Real>(entry_.step_count);
    if (entry_.first_order) {
      fold_gradients(step);
    } else {
      fold_scalars(step);
    }
  }

 private:
  static constexpr Encoding kEncoding = kIsDouble ? Encoding::kF64 : Encoding::kF32;

  Task task_of(uint32_t client) const {
    Task task = stiefel_task(shape_);
    task.version = replica_.version();
    task.estimator.id = entry_.first_order ? EstimatorId::kAnalyticGradient : EstimatorId::kProjectionOneSided;
    task.estimator.batch_mode = entry_.per_direction ? BatchMode::kPerDirection : BatchMode::kAll;
    task.estimator.smoothing = entry_.smoothing;
    task.estimator.directions.kind = DirectionKind::kSphere;
    task.estimator.directions.shared = false;
    task.estimator.directions.direction_count = entry_.direction_count;
    task.seed = 1;
    task.client_index = client;
    task.local_step_count = entry_.step_count;
    task.step_size = static_cast<Real>(entry_.step_size);
    task.use_correction = entry_.use_correction;
    task.encoding = kEncoding;
    return task;
  }

  void work(uint32_t client) {
    const Problem problems[] = {{&kKpcaOps, &fleet_.clients[client]->source}};
    const size_t mark = memory_.arena.mark();
    SolverRun run;
    ASSERT_EQ(begin_solver(registry_of(problems), task_of(client), replica_.model(), corrections_[client].data(), &run,
                           memory_.arena),
              Status::kOk);
    for (uint32_t t = 0; t < entry_.step_count; ++t) {
      ASSERT_EQ(run.ops->step(run, memory_.arena), Status::kOk);
    }
    GradientStream stream;
    ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
    spec_ = run.task.estimator.directions;
    if (entry_.first_order) {
      means_[client].assign(stream.values, stream.values + stream.value_count);
    } else {
      uploads_[client].resize(encoded_size(kEncoding, stream.value_count));
      ASSERT_EQ(encode_values(kEncoding, stream.value_count, stream.values, uploads_[client].data()), Status::kOk);
    }
    memory_.arena.release(mark);
  }

  DirectionSpec spec_of(uint32_t client, uint32_t base_version) const {
    DirectionSpec spec = spec_;
    spec.base_version = base_version;
    spec.owner = client;
    return spec;
  }

  void fold_scalars(Real step) {
    const uint32_t count = entry_.step_count * entry_.direction_count;
    const uint32_t base_version = replica_.version();
    std::vector<Real> coefficients(count);
    ASSERT_EQ(replica_.begin_record(), Status::kOk);
    for (uint32_t i = 0; i < entry_.client_count; ++i) {
      ASSERT_EQ(decode_values(kEncoding, count, uploads_[i].data(), uploads_[i].size(), coefficients.data()),
                Status::kOk);
      scale(count, Real{1} / static_cast<Real>(entry_.step_count * entry_.client_count), coefficients.data());
      ASSERT_EQ(replica_.add_to_record(spec_of(i, base_version), 0, count, coefficients.data(), memory_.arena),
                Status::kOk);
    }
    ASSERT_EQ(replica_.finish_record(entry_.direction_count, step, memory_.arena), Status::kOk);
    for (uint32_t i = 0; entry_.use_correction && i < entry_.client_count; ++i) {
      ASSERT_EQ(fill_correction(spec_of(i, base_version), shape_, replica_.record_sum(), entry_.step_count, kEncoding,
                                uploads_[i].data(), uploads_[i].size(), corrections_[i].data(), memory_.arena),
                Status::kOk);
    }
  }

  void fold_gradients(Real step) {
    std::vector<Real> mean(shape_.size());
    for (const std::vector<Real>& own : means_) {
      add_scaled(mean.size(), Real{1} / static_cast<Real>(entry_.client_count), own.data(), mean.data());
    }
    ASSERT_EQ(replica_.step_gradient(mean.data(), step, memory_.arena), Status::kOk);
    for (uint32_t i = 0; entry_.use_correction && i < entry_.client_count; ++i) {
      corrections_[i] = mean;
      add_scaled(mean.size(), -1, means_[i].data(), corrections_[i].data());
    }
  }

  const ProjectionEntry& entry_;
  const Fleet& fleet_;
  Shape shape_;
  TestArena memory_;
  Replica replica_;
  DirectionSpec spec_;
  std::vector<std::vector<Real>> corrections_;
  std::vector<std::vector<uint8_t>> uploads_;
  std::vector<std::vector<Real>> means_;
};

// The float build replays the reference's own float runs where directions are random; first-order runs have no such
// noise and are held against the double ones.
bool applies(const ProjectionEntry& entry) { return kIsDouble || entry.first_order ? !entry.is_float : entry.is_float; }

double least_gap(const ProjectionEntry& entry, double optimum) {
  if (kIsDouble) {
    return 1e-9 * std::fabs(optimum);
  }
  return entry.first_order ? 1e-5 * std::fabs(optimum) : 10 * std::fabs(entry.points.back().gap);
}

double tolerance_of(const ProjectionEntry& entry) {
  if (kIsDouble) {
    return 1e-7;
  }
  return entry.first_order ? 1e-3 : 1e-2;
}

void replay_projection(const std::string& data) {
  Tally tally;
  for_each_line(kGolden + "zofl_trajectories.txt", [&](std::istream& line) {
    const ProjectionEntry entry = parse_projection(line);
    if (entry.data != data || !applies(entry)) {
      return;
    }
    const Fleet fleet(entry.data, entry.heterogeneous, entry.client_count);
    ProjectionRun run(entry, fleet);
    ++tally.entry_count;
    const double least = least_gap(entry, fleet.optimum);
    for (const Point& point : entry.points) {
      if (point.gap <= least || testing::Test::HasFatalFailure()) {
        break;
      }
      while (run.replica().version() < point.round && !testing::Test::HasFatalFailure()) {
        run.round();
      }
      tally.compare(entry.name, point, fleet.gap(run.replica()), tolerance_of(entry));
    }
  });
  tally.print(data.c_str());
}

TEST(TruthReplay, ProjectionIris) { replay_projection("iris"); }
TEST(TruthReplay, ProjectionSynth) { replay_projection("synth"); }
TEST(TruthReplay, ProjectionDigits) { replay_projection("digits"); }

// ---- A7 and A8 -----------------------------------------------------------------------------------------------------

// X <- P_M(X - eta G) with one estimator of the product.
void replay_estimator(const EstimatorOps& ops, const std::string& name, uint32_t seed, double eta, uint32_t m,
                      const Fleet& fleet, const std::vector<Point>& points, Tally* tally) {
  const Shape shape{static_cast<uint32_t>(fleet.covariance.rows()), fleet.cols};
  TestArena memory;
  Replica replica;
  ASSERT_EQ(replica.prepare(kStiefelOps, shape, memory.arena), Status::kOk);
  ASSERT_EQ(kStiefelOps.random_point(shape, {seed, RandomDomain::kInitialPoint, 0, 0, 0}, replica.begin_snapshot(),
                                     memory.arena),
            Status::kOk);
  replica.adopt_snapshot(0);
  EstimatorParameters parameters;
  parameters.smoothing = static_cast<Real>(1e-4);
  parameters.directions = {DirectionKind::kSphere, false, seed, 0, 0, m};
  EstimateInput input;
  input.manifold = &kStiefelOps;
  input.shape = shape;
  input.problem = {&kKpcaOps, &fleet.clients[0]->source};
  input.parameters = &parameters;
  input.z = replica.model();
  std::vector<Real> g(shape.size());
  std::vector<Real> scalars(m);
  ++tally->entry_count;
  for (const Point& point : points) {
    while (replica.version() < point.round) {
      parameters.directions.base_version = replica.version();
      ASSERT_EQ(ops.estimate(input, scalars.data(), g.data(), nullptr, memory.arena), Status::kOk);
      ASSERT_EQ(replica.step_gradient(g.data(), static_cast<Real>(eta), memory.arena), Status::kOk);
    }
    // Below, the differences of losses are of the order of their rounding divided by mu.
    if (point.gap > 1e-4 * std::fabs(fleet.optimum)) {
      tally->compare(name, point, fleet.gap(replica), 1e-7);
    }
  }
}

TEST(TruthReplay, ZerothOrderEstimators) {
  if (!kIsDouble) {
    GTEST_SKIP() << "mu = 1e-4 is below what float can difference";
  }
  const Fleet fleet("iris", false, 1);
  const Eigen::VectorXd eigenvalues = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(fleet.covariance).eigenvalues();
  const double spread = eigenvalues[eigenvalues.size() - 1] - eigenvalues[0];
  Tally tally;
  for_each_line(kGolden + "zo_trajectories.txt", [&](std::istream& line) {
    std::string name;
    uint32_t seed = 0;
    double eta = 0;
    uint32_t m = 0;
    line >> name >> seed >> eta >> m;
    const std::vector<Point> points = read_points(line);
    const EstimatorOps* ops = name == "iris/R"   ? &kTangentRetractionOps
                              : name == "iris/P" ? &kProjectionOneSidedOps
                                                 : &kProjectionTangentOps;
    if (name != "iris/E") {
      replay_estimator(*ops, name, seed, eta / spread, m, fleet, points, &tally);
    }
  });
  tally.print("estimators");
  EXPECT_EQ(tally.entry_count, 6u);
}

// ---- A1 ------------------------------------------------------------------------------------------------------------

constexpr uint32_t kAgentCount = 10;
constexpr uint32_t kAgentSampleCount = 80;
constexpr uint32_t kLength = 26;
constexpr Shape kVector = {kLength, 1};

// f(x) = -(1/B) sum_b (z_b' x)^2: twice the loss of k-PCA.
Result<Real> doubled_loss(const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) {
  const Result<Real> loss = kKpcaOps.loss(context, shape, x, batch, arena);
  GS_TRY(loss.status());
  return 2 * loss.value();
}
Status doubled_gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  GS_TRY(kKpcaOps.gradient(context, shape, x, batch, out, arena));
  scale(shape.size(), 2, out);
  return Status::kOk;
}
constexpr ProblemOps doubled_ops() {
  return {"eigenvector", nullptr, nullptr, nullptr, doubled_loss, doubled_gradient};
}

struct Agents {
  explicit Agents(uint32_t seed) : ops(doubled_ops()) {
    ops.sample_count = kKpcaOps.sample_count;
    ops.check_shape = kKpcaOps.check_shape;
    ops.scratch_size = kKpcaOps.scratch_size;
    covariance = Matrix::Zero(kLength, kLength);
    for (uint32_t i = 0; i < kAgentCount; ++i) {
      const Matrix u = polar(normals({seed, RandomDomain::kData, 0, i, 0}, kAgentSampleCount, kLength));
      const Matrix v = polar(normals({seed, RandomDomain::kData, 1, i, 0}, kLength, kLength));
      const Matrix tail = normals({seed, RandomDomain::kData, 2, i, 0}, 1, kLength - 5);
      Eigen::RowVectorXd spectrum(kLength);
      spectrum.head(5) << 1, 1 - 1.1e-3, 1 - 1.2e-3, 1 - 1.3e-3, 1 - 1.4e-3;
      spectrum.tail(kLength - 5) = tail.cwiseAbs() / kLength;
      const Matrix z = (u * spectrum.asDiagonal()) * v;
      covariance += z.transpose() * z / (kAgentCount * kAgentSampleCount);
      agents.push_back(samples_of(z));
    }
    optimum = -Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(covariance).eigenvalues()(kLength - 1);
  }
  double excess(const Replica& replica) const {
    const Eigen::VectorXd x = Eigen::Map<const Eigen::Matrix<Real, kLength, 1>>(replica.model()).cast<double>();
    return -x.dot(covariance * x) / x.squaredNorm() - optimum;
  }
  ProblemOps ops;
  std::vector<std::unique_ptr<TestSamples>> agents;
  Matrix covariance;
  double optimum = 0;
};

struct StreamEntry {
  std::string schedule;
  uint32_t step_count;
  uint32_t participant_count;
  uint32_t seed;
  double optimum;
  std::vector<Point> points;
};

Real step_size_of(const std::string& schedule, uint32_t round) {
  const uint32_t stage = round / 50;
  const bool is_first = schedule == "fixed" || (schedule == "printed" ? round == 0 : stage == 0);
  return is_first ? Real{1} : static_cast<Real>(1 / (0.1 + stage));
}

// zeta of one agent, added to sum with the weight of one participant.
void add_stream(const StreamEntry& entry, const Agents& agents, uint32_t agent, const Replica& replica, Arena& arena,
                std::vector<Real>* sum) {
  const Problem problems[] = {{&agents.ops, &agents.agents[agent]->source}};
  Task task = stiefel_task(kVector);
  std::strcpy(task.problem, "eigenvector");
  task.version = replica.version();
  task.solver = SolverId::kGradientStream;
  task.manifold = ManifoldId::kSphere;
  task.estimator.id = EstimatorId::kAnalyticGradient;
  task.estimator.batch_size = 64;
  task.seed = entry.seed;
  task.client_index = agent;
  task.local_step_count = entry.step_count;
  task.step_size = step_size_of(entry.schedule, replica.version());
  const size_t mark = arena.mark();
  SolverRun run;
  ASSERT_EQ(begin_solver(registry_of(problems), task, replica.model(), nullptr, &run, arena), Status::kOk);
  for (uint32_t k = 0; k < entry.step_count; ++k) {
    ASSERT_EQ(run.ops->step(run, arena), Status::kOk);
  }
  GradientStream stream;
  ASSERT_EQ(run.ops->finish(run, &stream), Status::kOk);
  add_scaled(kLength, Real{1} / static_cast<Real>(entry.participant_count), stream.values, sum->data());
  arena.release(mark);
}

void stream_round(const StreamEntry& entry, const Agents& agents, Replica& replica, Arena& arena) {
  std::vector<uint16_t> chosen(kAgentCount);
  choose({entry.seed, RandomDomain::kClientSampling, replica.version(), 0, 0}, kAgentCount, entry.participant_count,
         chosen.data());
  chosen.resize(entry.participant_count);
  std::sort(chosen.begin(), chosen.end());
  std::vector<Real> sum(kLength);
  for (const uint16_t agent : chosen) {
    ASSERT_NO_FATAL_FAILURE(add_stream(entry, agents, agent, replica, arena, &sum));
  }
  ASSERT_EQ(replica.step_tangent(sum.data(), 1, arena), Status::kOk);
}

void replay_stream(const StreamEntry& entry, const Agents& agents, Tally* tally) {
  TestArena memory;
  Replica replica;
  ASSERT_EQ(replica.prepare(kSphereOps, kVector, memory.arena), Status::kOk);
  ASSERT_EQ(kSphereOps.random_point(kVector, {entry.seed, RandomDomain::kInitialPoint, 0, 0, 0},
                                    replica.begin_snapshot(), memory.arena),
            Status::kOk);
  replica.adopt_snapshot(0);
  ++tally->entry_count;
  const std::string name = entry.schedule + "/K" + std::to_string(entry.step_count) + "/of" +
                           std::to_string(entry.participant_count) + "/seed" + std::to_string(entry.seed);
  for (const Point& point : entry.points) {
    while (replica.version() < point.round) {
      ASSERT_NO_FATAL_FAILURE(stream_round(entry, agents, replica, memory.arena));
    }
    if (point.gap > (kIsDouble ? 1e-9 : 1e-5) * std::fabs(entry.optimum)) {
      tally->compare(name, point, agents.excess(replica), kIsDouble ? 1e-7 : 1e-3);
    }
  }
}

TEST(TruthReplay, GradientStreamOnTheSphere) {
  const Agents agents[] = {Agents(1), Agents(2)};
  Tally tally;
  for_each_line(kGolden + "rfedags_trajectories.txt", [&](std::istream& line) {
    StreamEntry entry;
    line >> entry.schedule >> entry.step_count >> entry.participant_count >> entry.seed >> entry.optimum;
    entry.points = read_points(line);
    ASSERT_TRUE(entry.seed == 1 || entry.seed == 2);
    EXPECT_NEAR(agents[entry.seed - 1].optimum, entry.optimum, 1e-13);
    replay_stream(entry, agents[entry.seed - 1], &tally);
  });
  tally.print("gradient stream");
}

}  // namespace
}  // namespace gradstream
