// The manifold by Eigen of docs/own_loss.md: it passes what every manifold must, and a client that has it in the place
// of the library's trains beside a server that has the library's.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "firmware/client_main.h"
#include "firmware/registry.h"
#include "include/gradstream/problem.h"
#include "runtime/link/client_run.h"
#include "tests/support/fake_world.h"
#include "tests/support/manifold_checker.h"

namespace gradstream {
namespace {

const ManifoldOps& own = *make_registry({}).manifolds[0];

TEST(OwnManifold, PassesTheChecker) {
  for (const Shape shape : {Shape{4, 1}, Shape{4, 2}, Shape{6, 3}, Shape{64, 4}, Shape{30, 8}, Shape{3, 3}}) {
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      testing::check_manifold({.ops = own, .shape = shape, .seed = seed, .reference = &kStiefelExponentialOps});
    }
  }
}

TEST(OwnManifold, IsNotReproducibleAndKeepsToItsBounds) {
  EXPECT_FALSE(is_reproducible(own, {6, 2}));
  EXPECT_EQ(own.check_shape({64, 8}), Status::kOk);
  for (const Shape shape : {Shape{65, 8}, Shape{64, 9}, Shape{2, 3}, Shape{6, 0}, Shape{0, 0}}) {
    EXPECT_EQ(own.check_shape(shape), Status::kInvalidArgument);
  }
}

TEST(OwnManifold, SaysWhatHasNoAnswer) {
  TestArena memory;
  std::vector<Real> z = {1, 2, 2, 4, 3, 6};  // of rank 1
  EXPECT_EQ(own.project_point({3, 2}, z.data(), z.data(), memory.arena), Status::kSingular);
  z = {1, 0, 0, 1, std::numeric_limits<Real>::quiet_NaN(), 0};
  EXPECT_NE(own.project_point({3, 2}, z.data(), z.data(), memory.arena), Status::kOk);
  const std::vector<Real> x = {1, 0, 0, 1, 0, 0};
  EXPECT_EQ(own.project_tangent({3, 2}, x.data(), z.data(), z.data(), memory.arena), Status::kNotFinite);
}

// Records of scalars are replayed bit for bit, which this table cannot.
TEST(OwnManifold, TakesNoPartInARunOfScalars) {
  FakeRun run;
  run.shape = {6, 2};
  run.use_correction = false;
  for (const StreamKind stream : {StreamKind::kTangentBlock, StreamKind::kScalarStream}) {
    run.stream = stream;
    FakeServer server(run);
    TestArena memory(512);
    RunModel model;
    const Status status = model.begin(server.make_welcome().body.welcome, make_registry({}), memory.arena);
    EXPECT_EQ(status, stream == StreamKind::kScalarStream ? Status::kUnimplemented : Status::kOk);
  }
}

constexpr uint32_t kDimension = 6;

int read_sample(const void*, uint32_t index, float* out) {
  for (uint32_t i = 0; i < kDimension; ++i) {
    out[i] = i < 2 ? static_cast<float>((index + i) % 5) - 2 : 0.1F * static_cast<float>((index * 3 + i) % 4);
  }
  return 0;
}

TEST(OwnManifold, AClientThatHasItEndsWithTheServersModel) {
  FakeRun run;
  run.shape = {kDimension, 2};
  run.stream = StreamKind::kTangentBlock;
  run.use_correction = false;
  run.local_step_count = 3;
  run.round_count = 20;
  FakeWorld world(run);
  std::string identity = "identity = device-1\nkey = ";
  for (int i = 0; i < 32; ++i) identity += "07";  // as test_identity()
  identity += "\n";
  const gs_sample_source samples = {nullptr, 20, kDimension, read_sample};
  std::vector<uint8_t> arena(1 << 16);
  gs_config config = {};
  config.size = sizeof config;
  config.privacy = no_privacy();
  config.firmware_version = "test";
  config.identity_text = identity.data();
  config.identity_size = identity.size();
  config.arena = arena.data();
  config.arena_size = arena.size();
  config.samples = &samples;
  ASSERT_EQ(gs_init(&config), GS_OK);
  gs_status_view status = {};
  status.size = sizeof status;
  for (int turn = 0; turn < 100000 && !status.run_finished; ++turn) {
    world.pass(gs_poll(fake_port().now_ms));
    gs_status(&status);
  }
  ASSERT_TRUE(status.run_finished);
  EXPECT_GE(world.server.uploads.size(), 20U);
  gs_model_view model = {};
  ASSERT_TRUE(gs_model(&model));
  EXPECT_EQ(model.version, world.server.model().version());
  EXPECT_TRUE(std::equal(model.values, model.values + run.shape.size(), world.server.model().model()));
}

}  // namespace
}  // namespace gradstream
