// The examples of docs/own_loss.md: they stand there as they are compiled here, and they train.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "firmware/client_main.h"
#include "include/gradstream/problem.h"
#include "tests/support/fake_world.h"

const gs_linked_problem* robust_problem();
extern "C" const gs_linked_problem* calibration_problem(void);
extern "C" const gs_linked_problem* kpca_by_eigen(const gs_sample_source* samples);

namespace gradstream {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(GS_SOURCE_DIR "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(OwnLoss, ExamplesStandInTheDocumentAsTheyAreCompiled) {
  const std::string document = read_text("docs/own_loss.md");
  for (const char* path : {"tests/firmware/own_loss_example.cc", "tests/firmware/own_loss_example_c.c",
                           "tests/firmware/own_loss_example_eigen.cc", "tests/firmware/own_manifold_example.cc"}) {
    const std::string example = read_text(path);
    ASSERT_FALSE(example.empty());
    EXPECT_NE(document.find(example), std::string::npos) << path;
  }
}

// The model after 60 versions that fold this device alone.
std::vector<float> train(const gs_linked_problem* linked, const char* name, StreamKind stream) {
  FakeRun run;
  run.manifold = &kSphereOps;
  run.shape = {3, 1};
  run.stream = stream;
  run.use_correction = false;
  run.step_size = 0.2F;
  run.round_count = 60;
  run.ghost_scale = 0;
  run.start = {0, 0, 1};
  FakeWorld world(run);
  world.server.edit = [name](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) std::strcpy(message.body.task.problem, name);
  };
  std::string identity = "identity = device-1\nkey = ";
  for (int i = 0; i < 32; ++i) identity += "07";  // as test_identity()
  identity += "\n";
  std::vector<uint8_t> arena(1 << 16);
  gs_config config = {};
  config.size = sizeof config;
  config.privacy = no_privacy();
  config.firmware_version = "test";
  config.identity_text = identity.data();
  config.identity_size = identity.size();
  config.arena = arena.data();
  config.arena_size = arena.size();
  config.problem = linked;
  EXPECT_EQ(gs_init(&config), GS_OK);
  gs_status_view status = {};
  status.size = sizeof status;
  for (int turn = 0; turn < 100000 && !status.run_finished; ++turn) {
    world.pass(gs_poll(fake_port().now_ms));
    gs_status(&status);
  }
  EXPECT_TRUE(status.run_finished);
  gs_model_view model = {};
  EXPECT_TRUE(gs_model(&model));
  return {model.values, model.values + 3};
}

// gs_init() may be called once in a process. The answers were worked out by hand: (0.6, 0.8, 0) up to noise of a tenth.
void expect_direction(const gs_linked_problem* linked, const char* name, StreamKind stream) {
  const std::vector<float> x = train(linked, name, stream);
  EXPECT_NEAR(x[0], 0.6, 0.1);
  EXPECT_NEAR(x[1], 0.8, 0.1);
  EXPECT_NEAR(x[2], 0.0, 0.15);
  std::exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(OwnLoss, TrainsTheCxxExampleByForwardPasses) {
  EXPECT_EXIT(expect_direction(robust_problem(), "robust", StreamKind::kScalarStream), testing::ExitedWithCode(0), "");
}

TEST(OwnLoss, TrainsTheCExampleByForwardPasses) {
  EXPECT_EXIT(expect_direction(calibration_problem(), "calibration", StreamKind::kScalarStream),
              testing::ExitedWithCode(0), "");
}

TEST(OwnLoss, TrainsTheCExampleByItsGradient) {
  EXPECT_EXIT(expect_direction(calibration_problem(), "calibration", StreamKind::kTangentBlock),
              testing::ExitedWithCode(0), "");
}

// Readings whose principal direction is that of the other examples.
int read_direction(const void*, uint32_t index, float* out) {
  constexpr float kReadings[4][3] = {{0.6F, 0.8F, 0.1F}, {0.7F, 0.7F, 0}, {0.5F, 0.9F, 0.1F}, {1.2F, 1.6F, 0.1F}};
  std::copy_n(kReadings[index], 3, out);
  return 0;
}
constexpr gs_sample_source kDirection = {nullptr, 4, 3, read_direction};

TEST(OwnLoss, TrainsTheEigenExampleByForwardPasses) {
  EXPECT_EXIT(expect_direction(kpca_by_eigen(&kDirection), "kpca", StreamKind::kScalarStream),
              testing::ExitedWithCode(0), "");
}

TEST(OwnLoss, TrainsTheEigenExampleByItsGradient) {
  EXPECT_EXIT(expect_direction(kpca_by_eigen(&kDirection), "kpca", StreamKind::kTangentBlock),
              testing::ExitedWithCode(0), "");
}

TEST(OwnLoss, TheCxxExampleHasNoGradient) { EXPECT_EQ(robust_problem()->problem.ops->gradient, nullptr); }

TEST(OwnLoss, TheCGradientIsTheDerivative) {
  const Problem& problem = calibration_problem()->problem;
  const std::vector<float> x = {0.3F, -0.5F, 0.8F};
  std::vector<float> gradient(3);
  TestArena memory(8);
  const Batch all = {nullptr, 5};
  ASSERT_EQ(problem.ops->gradient(problem.context, {3, 1}, x.data(), all, gradient.data(), memory.arena), Status::kOk);
  for (size_t k = 0; k < 3; ++k) {
    std::vector<float> plus = x;
    std::vector<float> minus = x;
    plus[k] += 0.5F;  // quadratic: exact but for rounding
    minus[k] -= 0.5F;
    const float difference = problem.ops->loss(problem.context, {3, 1}, plus.data(), all, memory.arena).value() -
                             problem.ops->loss(problem.context, {3, 1}, minus.data(), all, memory.arena).value();
    EXPECT_NEAR(gradient[k], difference, 1e-5);
  }
}

}  // namespace
}  // namespace gradstream
