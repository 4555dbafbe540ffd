// Error feedback: nothing that an encoding leaves out is lost, unless it cannot be transported.
#include "runtime/link/client_feedback.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {40, 1};
constexpr uint32_t kSteps = 4;

// A task of gradient streams on the sphere at a point, and what its solver hands over.
struct Workbench {
  Workbench() {
    run.task.shape = kShape;
    run.task.solver = SolverId::kGradientStream;
    run.task.encoding = Encoding::kInt8;
    run.manifold = &kSphereOps;
    begin_task(1);
    EXPECT_EQ(feedback.prepare(kShape.size(), memory.arena), Status::kOk);
  }
  void begin_task(uint32_t seed) {
    point = random_point(kSphereOps, kShape, seed);
    tangent = random_values(kShape.size(), seed + 100);
    EXPECT_EQ(kSphereOps.project_tangent(kShape, point.data(), tangent.data(), tangent.data(), memory.arena),
              Status::kOk);
    run.model = point.data();
    stream = {StreamKind::kTangentBlock, kSteps, tangent.data(), static_cast<uint32_t>(kShape.size()), 0, 0};
  }
  Status encode() {
    bytes.assign(encoded_size(run.task.encoding, kShape.size()), 0);
    return feedback.encode(run, stream, bytes.data(), memory.arena, &counts);
  }
  std::vector<Real> uploaded() const {
    std::vector<Real> values(kShape.size());
    EXPECT_EQ(decode_values(run.task.encoding, values.size(), bytes.data(), bytes.size(), values.data()), Status::kOk);
    return values;
  }
  std::vector<Real> residual() const {
    return feedback.residual() == nullptr ? std::vector<Real>()
                                          : std::vector<Real>(feedback.residual(), feedback.residual() + kShape.size());
  }

  TestArena memory;
  SolverRun run;
  GradientStream stream;
  ErrorFeedback feedback;
  FeedbackCounts counts;
  std::vector<Real> point;
  std::vector<Real> tangent;
  std::vector<uint8_t> bytes;
};

TEST(ClientFeedback, WithoutMemoryThereIsNoResidual) {
  ErrorFeedback feedback;
  EXPECT_FALSE(feedback.is_used());
  feedback.adopt(true);
  EXPECT_EQ(feedback.residual(), nullptr);
  feedback.take_back();
  EXPECT_EQ(feedback.residual(), nullptr);
  TestArena small(2 * Arena::taken_size<Real>(kShape.size()));
  EXPECT_EQ(feedback.prepare(kShape.size(), small.arena), Status::kOutOfMemory);
  EXPECT_FALSE(feedback.is_used());
}

TEST(ClientFeedback, TheFirstResidualIsWhatTheEncodingLeftOutOfAStep) {
  Workbench bench;
  EXPECT_EQ(bench.residual().size(), 0U);
  ASSERT_EQ(bench.encode(), Status::kOk);
  EXPECT_EQ(bench.counts.carried, 0U);
  std::vector<Real> wanted = bench.tangent;
  const std::vector<Real> uploaded = bench.uploaded();
  for (size_t e = 0; e < wanted.size(); ++e) {
    wanted[e] -= uploaded[e];
  }
  ASSERT_EQ(kSphereOps.project_tangent(kShape, bench.point.data(), wanted.data(), wanted.data(), bench.memory.arena),
            Status::kOk);
  const std::vector<Real> residual = bench.residual();
  ASSERT_EQ(residual.size(), wanted.size());
  for (size_t e = 0; e < wanted.size(); ++e) {
    EXPECT_NEAR(residual[e], wanted[e] / kSteps, 1e-6);
  }
}

TEST(ClientFeedback, TheNextUploadCarriesItFromItsBaseToTheNewOne) {
  Workbench bench;
  ASSERT_EQ(bench.encode(), Status::kOk);
  std::vector<Real> moved = bench.residual();
  const std::vector<Real> before = bench.point;
  bench.begin_task(2);
  ASSERT_EQ(
      kSphereOps.transport(kShape, before.data(), bench.point.data(), moved.data(), moved.data(), bench.memory.arena),
      Status::kOk);
  ASSERT_EQ(bench.encode(), Status::kOk);
  EXPECT_EQ(bench.counts.carried, 1U);
  EXPECT_EQ(bench.counts.lost, 0U);
  const std::vector<Real> uploaded = bench.uploaded();
  const Real most =
      *std::max_element(uploaded.begin(), uploaded.end(), [](Real a, Real b) { return std::abs(a) < std::abs(b); });
  for (size_t e = 0; e < uploaded.size(); ++e) {
    EXPECT_NEAR(uploaded[e], bench.tangent[e] + kSteps * moved[e], std::abs(most) / 127);
  }
}

TEST(ClientFeedback, AnUploadThatCountsNowhereLeavesTheResidualBeforeIt) {
  Workbench bench;
  ASSERT_EQ(bench.encode(), Status::kOk);
  const std::vector<Real> first = bench.residual();
  ASSERT_EQ(bench.encode(), Status::kOk);  // at the same model: nothing is to be transported
  EXPECT_NE(bench.residual(), first);
  bench.feedback.take_back();
  const std::vector<Real> back = bench.residual();
  for (size_t e = 0; e < first.size(); ++e) {
    EXPECT_NEAR(back[e], first[e], 1e-6);
  }
}

TEST(ClientFeedback, WhatCannotBeEncodedLeavesTheResidualBeforeIt) {
  Workbench bench;
  ASSERT_EQ(bench.encode(), Status::kOk);
  const std::vector<Real> first = bench.residual();
  bench.tangent[3] = INFINITY;
  EXPECT_EQ(bench.encode(), Status::kNotFinite);
  EXPECT_EQ(bench.counts.carried, 0U);
  const std::vector<Real> back = bench.residual();
  ASSERT_EQ(back.size(), first.size());
  for (size_t e = 0; e < first.size(); ++e) {
    EXPECT_NEAR(back[e], first[e], 1e-6);
  }
}

TEST(ClientFeedback, AResidualWithoutATransportIsLostAndCounted) {
  Workbench bench;
  ASSERT_EQ(bench.encode(), Status::kOk);
  ManifoldOps severed = kSphereOps;
  severed.transport = [](Shape, const Real*, const Real*, const Real*, Real*, Arena&) { return Status::kSingular; };
  bench.run.manifold = &severed;
  bench.begin_task(2);
  ASSERT_EQ(bench.encode(), Status::kOk);
  EXPECT_EQ(bench.counts.lost, 1U);
  EXPECT_EQ(bench.counts.carried, 0U);
  EXPECT_NE(bench.feedback.residual(), nullptr) << "that of the new upload";
  std::vector<uint8_t> plain(bench.bytes.size());
  ASSERT_EQ(encode_values(Encoding::kInt8, kShape.size(), bench.tangent.data(), plain.data()), Status::kOk);
  EXPECT_EQ(bench.bytes, plain);
}

TEST(ClientFeedback, AmbientUploadsNeedNoTransport) {
  Workbench bench;
  ManifoldOps severed = kSphereOps;
  severed.transport = [](Shape, const Real*, const Real*, const Real*, Real*, Arena&) { return Status::kSingular; };
  bench.run.manifold = &severed;
  bench.run.task.solver = SolverId::kProjection;
  ASSERT_EQ(bench.encode(), Status::kOk);
  const std::vector<Real> first = bench.residual();
  bench.begin_task(2);
  ASSERT_EQ(bench.encode(), Status::kOk);
  EXPECT_EQ(bench.counts.lost, 0U);
  EXPECT_EQ(bench.counts.carried, 1U);
  bench.feedback.take_back();
  EXPECT_EQ(bench.residual(), first);
}

}  // namespace
}  // namespace gradstream
