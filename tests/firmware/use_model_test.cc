// The model used on the device: gs_score(), gs_predict() and gs_on_model(), against sums in double that are made here.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "include/gradstream/device.h"
#include "include/gradstream/problem.h"
#include "tests/support/fake_application.h"

extern "C" {
int gs_test_c_alarm(const float* sample, float* score, float* prediction);
void gs_test_c_listen(uint32_t* version);
uint32_t gs_test_c_versions_told(void);
}

namespace gradstream {
namespace {

// Samples of an application, row by row, some way off zero as those of sensors are.
struct Rows {
  Rows(uint32_t row_count, uint32_t value_count)
      : values(random_values(size_t{row_count} * value_count, 11)), source{this, row_count, value_count, read} {
    for (size_t i = 0; i < values.size(); ++i) values[i] = 3 * values[i] + 7 + static_cast<float>(i % value_count);
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  const float* row(uint32_t i) const { return &values[size_t{i} * source.dimension]; }
  static int read(const void* context, uint32_t index, float* out) {
    const Rows& rows = *static_cast<const Rows*>(context);
    std::copy_n(rows.row(index), rows.source.dimension, out);
    return 0;
  }
  std::vector<float> values;
  gs_sample_source source;
};

// A mean and a factor for each of so many columns.
std::vector<UnitsColumn> make_table(uint32_t count) {
  std::vector<UnitsColumn> table(count);
  for (uint32_t i = 0; i < count; ++i) {
    table[i] = {6, 6.5F + static_cast<float>(i), 0.25F + 0.125F * static_cast<float>(i % 3)};
  }
  return table;
}

// A world whose run has the model of FakeServer and, where there is one, a table of units. It gives one task, and says
// then that others were chosen.
struct UseWorld : FakeWorld {
  explicit UseWorld(const FakeRun& run, std::vector<UnitsColumn> units = {}, const char* problem = "kpca")
      : FakeWorld(run), table(std::move(units)) {
    server.edit = [this, problem](ServerMessage& message) {
      if (message.which_body == gs_ServerMessage_task_tag) std::strcpy(message.body.task.problem, problem);
      if (message.which_body != gs_ServerMessage_welcome_tag || table.empty()) return;
      message.body.welcome.units = 3;
      message.body.welcome.model_parts = part_bit(ModelPart::kUnits);
    };
    server.intercept = [this](const DeviceMessage& message) {
      if (message.which_body != gs_DeviceMessage_pull_tag || table.empty()) return false;
      answer(message.body.pull);
      return true;
    };
  }
  uint64_t digest() const {
    return digest_units(server.model().digest(), {table.data(), static_cast<uint32_t>(table.size())});
  }
  void answer(const gs_Pull& pull) {
    if (!pull.has_model) {
      send_part(ModelPart::kModel, server.model().model(), server.run.shape.size() * sizeof(Real));
      send_part(ModelPart::kUnits, table.data(), table.size() * kUnitsColumnSize);
    }
    if (has_task) {
      has_task = false;
      ServerMessage task = server.make_task();
      task.body.task.task_sequence = 1;
      task.body.task.digest = digest();
      return server.send(task);
    }
    server.send(server.make_wait(gs_WAIT_CAUSE_NOT_CHOSEN));
  }
  void send_part(ModelPart part, const void* bytes, size_t size) {
    ServerMessage message = FakeServer::make(gs_ServerMessage_snapshot_chunk_tag);
    gs_SnapshotChunk& chunk = message.body.snapshot_chunk;
    chunk.part = static_cast<gs_ModelPart>(part);
    chunk.total = static_cast<uint32_t>(size);
    chunk.parts = part_bit(ModelPart::kModel) | part_bit(ModelPart::kUnits);
    chunk.digest = digest();
    chunk.values.size = static_cast<pb_size_t>(size);
    std::memcpy(chunk.values.bytes, bytes, size);
    server.send(message);
  }
  // Polls until the model is there and the device is idle again.
  void run_to_model() {
    gs_model_view model;
    gs_status_view status = {};
    status.size = sizeof status;
    for (int turn = 0; turn < 20000 && !(gs_model(&model) && status.state == GS_IDLE); ++turn) {
      pass(gs_poll(fake_port().now_ms));
      gs_status(&status);
    }
    ASSERT_TRUE(gs_model(&model));
  }
  std::vector<UnitsColumn> table;
  bool has_task = false;
};

// ---- The same in double ----

std::vector<double> in_units(const float* sample, size_t count, const std::vector<UnitsColumn>& table) {
  std::vector<double> z(sample, sample + count);
  for (size_t i = 0; i < std::min(count, table.size()); ++i) {
    z[i] = (z[i] - static_cast<double>(table[i].mean)) * static_cast<double>(table[i].factor);
  }
  return z;
}

// X'z
std::vector<double> products(const gs_model_view& x, const std::vector<double>& z) {
  std::vector<double> out(x.cols);
  for (size_t r = 0; r < x.rows; ++r) {
    for (size_t c = 0; c < x.cols; ++c) out[c] += static_cast<double>(x.values[r * x.cols + c]) * z[r];
  }
  return out;
}

double distance_from_subspace(const gs_model_view& x, const std::vector<double>& z) {
  const std::vector<double> y = products(x, z);
  double sum = 0;
  for (size_t r = 0; r < x.rows; ++r) {
    double rest = z[r];
    for (size_t c = 0; c < x.cols; ++c) rest -= static_cast<double>(x.values[r * x.cols + c]) * y[c];
    sum += rest * rest;
  }
  return std::sqrt(sum);
}

void expect_near_relative(double value, double wanted) {
  EXPECT_NEAR(value, wanted, 1e-5 * std::fabs(wanted)) << "of " << wanted;
}

// ---- kpca ----

void score_kpca_in_units(bool has_units) {
  UseWorld world(run_of({6, 2}), has_units ? make_table(6) : std::vector<UnitsColumn>());
  ApplicationMemory memory;
  const Rows rows(20, 6);
  gs_config config = base_config(memory);
  config.samples = &rows.source;
  float score = -1;
  float prediction[2] = {};
  EXPECT_EQ(gs_score(rows.row(0), &score), GS_NO_MODEL) << "gs_init() is not done";
  ASSERT_EQ(gs_init(&config), GS_OK);
  EXPECT_EQ(gs_score(rows.row(0), &score), GS_NO_MODEL);
  EXPECT_EQ(gs_predict(rows.row(0), prediction), GS_NO_MODEL);
  world.run_to_model();
  EXPECT_EQ(gs_score(nullptr, &score), GS_BAD_ARGUMENT);
  EXPECT_EQ(gs_score(rows.row(0), nullptr), GS_BAD_ARGUMENT);
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), 3e38F}) {
    std::vector<float> sample(rows.row(0), rows.row(1));
    sample[5] = bad;
    EXPECT_EQ(gs_score(sample.data(), &score), GS_BAD_SAMPLE) << bad;
  }
  EXPECT_EQ(score, -1) << "what is refused leaves it as it was";
  EXPECT_EQ(gs_predict(rows.row(0), prediction), GS_NO_SCORE) << "kpca predicts nothing";
  gs_model_view model;
  ASSERT_TRUE(gs_model(&model));
  for (uint32_t i = 0; i < 20; ++i) {
    ASSERT_EQ(gs_score(rows.row(i), &score), GS_OK);
    expect_near_relative(static_cast<double>(score),
                         distance_from_subspace(model, in_units(rows.row(i), 6, world.table)));
  }
}

TEST(UseModel, ScoresByTheDistanceFromTheSubspace) { IN_A_PROCESS(score_kpca_in_units(false)); }

TEST(UseModel, TakesTheRunsUnitsOutOfASample) { IN_A_PROCESS(score_kpca_in_units(true)); }

// ---- Other problems ----

void score_least_squares_in_units() {
  UseWorld world(run_of({6, 2}), make_table(8), "least_squares");
  ApplicationMemory memory;
  const Rows rows(20, 8);  // six features and two targets
  gs_config config = base_config(memory);
  config.samples = &rows.source;
  config.problem = &gs_least_squares;
  ASSERT_EQ(gs_init(&config), GS_OK);
  world.run_to_model();
  gs_model_view model;
  ASSERT_TRUE(gs_model(&model));
  for (uint32_t i = 0; i < 20; ++i) {
    const std::vector<double> y = products(model, in_units(rows.row(i), 6, world.table));
    float prediction[2];
    float score = 0;
    ASSERT_EQ(gs_predict(rows.row(i), prediction), GS_OK);
    ASSERT_EQ(gs_score(rows.row(i), &score), GS_OK);
    double sum = 0;
    for (size_t c = 0; c < 2; ++c) {
      const UnitsColumn& unit = world.table[6 + c];
      const double wanted = y[c] / static_cast<double>(unit.factor) + static_cast<double>(unit.mean);
      expect_near_relative(static_cast<double>(prediction[c]), wanted);
      const double error = wanted - static_cast<double>(rows.row(i)[6 + c]);
      sum += error * error;
    }
    expect_near_relative(static_cast<double>(score), std::sqrt(sum));
  }
  std::vector<float> sample(rows.row(0), rows.row(1));
  sample[7] = std::nanf("");
  float value[2];
  EXPECT_EQ(gs_predict(sample.data(), value), GS_OK) << "targets are not read";
  EXPECT_EQ(gs_score(sample.data(), value), GS_BAD_SAMPLE);
  sample[0] = std::nanf("");
  EXPECT_EQ(gs_predict(sample.data(), value), GS_BAD_SAMPLE);
}

TEST(UseModel, LeastSquaresAnswersInTheTargetsUnits) { IN_A_PROCESS(score_least_squares_in_units()); }

void score_logistic_in_units() {
  UseWorld world(run_of({6, 3}), make_table(6), "logistic");
  ApplicationMemory memory;
  Rows rows(20, 7);
  for (uint32_t i = 0; i < 20; ++i) rows.values[7 * i + 6] = static_cast<float>(i % 3);
  gs_config config = base_config(memory);
  config.samples = &rows.source;
  config.problem = &gs_logistic;
  ASSERT_EQ(gs_init(&config), GS_OK);
  world.run_to_model();
  gs_model_view model;
  ASSERT_TRUE(gs_model(&model));
  for (uint32_t i = 0; i < 20; ++i) {
    const std::vector<double> odds = products(model, in_units(rows.row(i), 6, world.table));
    double total = 0;
    for (const double value : odds) total += std::exp(value);
    float prediction[3];
    float score = 0;
    ASSERT_EQ(gs_predict(rows.row(i), prediction), GS_OK);
    ASSERT_EQ(gs_score(rows.row(i), &score), GS_OK);
    for (size_t c = 0; c < 3; ++c) expect_near_relative(static_cast<double>(prediction[c]), std::exp(odds[c]) / total);
    expect_near_relative(static_cast<double>(score), std::log(total) - odds[i % 3]);
  }
  std::vector<float> sample(rows.row(0), rows.row(1));
  float score = -1;
  for (const float label : {-1.0F, 0.5F, 3.0F}) {
    sample[6] = label;
    EXPECT_EQ(gs_score(sample.data(), &score), GS_BAD_SAMPLE) << label;
  }
  EXPECT_EQ(score, -1);
}

TEST(UseModel, LogisticAnswersByProbabilities) { IN_A_PROCESS(score_logistic_in_units()); }

int own_loss(const void*, const float* x, const uint16_t*, uint32_t, float* out) {
  *out = x[0];
  return 0;
}
int own_score(const void* context, const float* x, const float* sample, float* out) {
  *out = *static_cast<const float*>(context) * x[0] * sample[2];
  return sample[0] < 0 ? 1 : 0;
}
int own_prediction(const void*, const float* x, const float* sample, float* out) {
  out[0] = x[1];
  out[1] = sample[1];
  return 0;
}

void use_own_problem(bool has_score) {
  FakeWorld world(run_of({3, 1}));
  world.server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) std::strcpy(message.body.task.problem, "mine");
  };
  ApplicationMemory memory;
  const Rows rows(20, 3);
  const float factor = 2;
  gs_problem problem = {"mine", &factor, 3, 1, 20, own_loss, nullptr, 0, nullptr};
  if (has_score) {
    problem.score = own_score;
    problem.predict = own_prediction;
  }
  gs_config config = base_config(memory);
  config.samples = &rows.source;
  config.threshold_quantile = 1;
  config.problem = gs_own_problem(&problem);
  ASSERT_EQ(gs_init(&config), GS_OK);
  ASSERT_TRUE(run_to_end(world));
  gs_model_view model;
  ASSERT_TRUE(gs_model(&model));
  float score = -1;
  float prediction[2] = {};
  float threshold = -1;
  if (!has_score) {
    EXPECT_EQ(gs_score(rows.row(0), &score), GS_NO_SCORE);
    EXPECT_EQ(gs_predict(rows.row(0), prediction), GS_NO_SCORE);
    EXPECT_EQ(gs_threshold(&threshold), GS_NO_SCORE);
    return;
  }
  ASSERT_EQ(gs_score(rows.row(0), &score), GS_OK);
  EXPECT_EQ(score, 2 * model.values[0] * rows.row(0)[2]);
  ASSERT_EQ(gs_predict(rows.row(0), prediction), GS_OK);
  EXPECT_EQ(prediction[0], model.values[1]);
  EXPECT_EQ(prediction[1], rows.row(0)[1]);
  EXPECT_EQ(gs_threshold(&threshold), GS_OK);
  const float refused[3] = {-1, 0, 0};
  EXPECT_EQ(gs_score(refused, &score), GS_BAD_SAMPLE) << "the application's own word";
}

TEST(UseModel, AnOwnProblemBringsItsOwn) {
  IN_A_PROCESS(use_own_problem(true));
  IN_A_PROCESS(use_own_problem(false));
}

// The same in C++: what ScoreOps has.
struct CxxProblem {
  static constexpr const char* kName = "cxx";
  uint32_t sample_count() const { return 1; }
  Status check_shape(Shape shape) const { return shape == Shape{3, 1} ? Status::kOk : Status::kInvalidArgument; }
  Result<Real> loss(Shape, const Real* x, Batch) const { return x[0]; }
  Result<Real> score(const ScoreInput& input) const { return input.model[0] + input.value(2); }
};
constexpr ProblemOps kCxxOps = make_problem_ops<CxxProblem>();
constexpr ScoreOps kCxxScores = make_score_ops<CxxProblem>();

void use_cxx_problem() {
  FakeWorld world(run_of({3, 1}));
  world.server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) std::strcpy(message.body.task.problem, "cxx");
  };
  ApplicationMemory memory;
  const Rows rows(20, 3);
  const CxxProblem problem;
  const gs_linked_problem linked = {{&kCxxOps, &problem}, 0, &kCxxScores};
  gs_config config = base_config(memory);
  config.samples = &rows.source;
  config.problem = &linked;
  ASSERT_EQ(gs_init(&config), GS_OK);
  ASSERT_TRUE(run_to_end(world));
  gs_model_view model;
  ASSERT_TRUE(gs_model(&model));
  float score = 0;
  ASSERT_EQ(gs_score(rows.row(0), &score), GS_OK);
  EXPECT_EQ(score, model.values[0] + rows.row(0)[2]);
  EXPECT_EQ(gs_predict(rows.row(0), &score), GS_NO_SCORE);
}

TEST(UseModel, AProblemInCxxBringsItsOwn) { IN_A_PROCESS(use_cxx_problem()); }

// A sample whose score is the loss of its problem.
void meet_another_shape() {
  UseWorld world(run_of({3, 1}), {}, "hyperbolic");
  ApplicationMemory memory;
  const Rows rows(5, 4);
  gs_config config = base_config(memory);
  config.samples = &rows.source;
  config.problem = &gs_brockett;  // of 3 x 3 matrices, which samples of 4 values are not
  ASSERT_EQ(gs_init(&config), GS_OK);
  world.run_to_model();
  float score = -1;
  EXPECT_EQ(gs_score(rows.row(0), &score), GS_OTHER_MODEL);
}

void score_brockett() {
  UseWorld world(run_of({2, 1}), {}, "brockett");
  ApplicationMemory memory;
  const Rows rows(5, 4);
  gs_config config = base_config(memory);
  config.samples = &rows.source;
  config.problem = &gs_brockett;
  ASSERT_EQ(gs_init(&config), GS_OK);
  world.run_to_model();
  gs_model_view model;
  ASSERT_TRUE(gs_model(&model));
  const float* const a = rows.row(1);
  const double x0 = static_cast<double>(model.values[0]);
  const double x1 = static_cast<double>(model.values[1]);
  const double wanted = x0 * x0 * static_cast<double>(a[0]) + x0 * x1 * static_cast<double>(a[1] + a[2]) +
                        x1 * x1 * static_cast<double>(a[3]);
  float score = -1;
  ASSERT_EQ(gs_score(a, &score), GS_OK);
  expect_near_relative(static_cast<double>(score), wanted);
}

TEST(UseModel, ScoresByTheLossWhereThatMakesSense) {
  IN_A_PROCESS(score_brockett());
  IN_A_PROCESS(meet_another_shape());
}

// ---- A model of another run ----

// A run whose task names another problem than the device has, and one whose model has other rows than its samples.
void meet_another_run(const char* problem, uint32_t value_count) {
  FakeWorld world(run_of({6, 2}));
  world.server.edit = [problem](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) std::strcpy(message.body.task.problem, problem);
  };
  ApplicationMemory memory;
  const Rows rows(20, value_count);
  gs_config config = base_config(memory);
  config.samples = &rows.source;
  ASSERT_EQ(gs_init(&config), GS_OK);
  for (int turn = 0; turn < 5000 && world.server.refusals.empty(); ++turn) world.pass(gs_poll(fake_port().now_ms));
  gs_model_view model;
  ASSERT_TRUE(gs_model(&model)) << "the model is there all the same";
  float score = -1;
  float threshold = -1;
  EXPECT_EQ(gs_score(rows.row(0), &score), GS_OTHER_MODEL);
  EXPECT_EQ(gs_predict(rows.row(0), &score), GS_OTHER_MODEL);
  EXPECT_EQ(gs_threshold(&threshold), GS_OTHER_MODEL);
  EXPECT_EQ(score, -1);
}

TEST(UseModel, RefusesTheModelOfAnotherRun) {
  IN_A_PROCESS(meet_another_run("logistic", 6));
  IN_A_PROCESS(meet_another_run("kpca", 5));
}

// ---- News of a model ----

void listen_to_versions() {
  FakeWorld world(run_of({6, 2}));
  ApplicationMemory memory;
  const Rows rows(20, 6);
  gs_config config = base_config(memory);
  config.samples = &rows.source;
  uint32_t version = 99;
  gs_test_c_listen(&version);
  ASSERT_EQ(gs_init(&config), GS_OK);
  ASSERT_TRUE(run_to_end(world));
  EXPECT_EQ(version, 4U);
  EXPECT_EQ(gs_test_c_versions_told(), 5U) << "the snapshot, and four records";
  for (int i = 0; i < 3; ++i) gs_poll(fake_port().now_ms);
  EXPECT_EQ(gs_test_c_versions_told(), 5U) << "each version once";
}

TEST(UseModel, TellsOfEachVersion) { IN_A_PROCESS(listen_to_versions()); }

}  // namespace
}  // namespace gradstream
