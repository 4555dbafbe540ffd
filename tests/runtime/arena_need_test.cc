#include "runtime/training/arena_need.h"

#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/problem/network.h"
#include "runtime/training/solver.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr uint32_t kInputs = 6;
constexpr uint32_t kClasses = 3;
constexpr uint32_t kSize = (kInputs + 1) * kClasses;

// One trained layer, and samples for it.
struct Head {
  Layer layer;
  Network network;
  std::vector<Real> values;
  NetworkSamples samples;

  explicit Head(uint32_t count) : values(random_values(size_t{count} * (kInputs + 1), 3)) {
    layer.kind = LayerKind::kDense;
    layer.trained = TrainedForm::kDense;
    layer.in = network.in = {1, 1, kInputs};
    layer.out = {1, 1, kClasses};
    network.layers = &layer;
    network.layer_count = 1;
    for (uint32_t i = 0; i < count; ++i) {
      values[i * (kInputs + 1) + kInputs] = static_cast<Real>(i % kClasses);
    }
    samples.network = &network;
    samples.source = {values.data(), count, kInputs + 1, [](const void* all, uint32_t index, Real* out) {
                        std::memcpy(out, static_cast<const Real*>(all) + size_t{index} * (kInputs + 1),
                                    (kInputs + 1) * sizeof(Real));
                        return Status::kOk;
                      }};
  }
  Problem problem() const { return {&kNetworkOps, &samples}; }
};

// What it says is what the solver takes: a real step fits, and uses nearly all of it.
TEST(ArenaNeed, IsWhatARunTakes) {
  for (const uint32_t batch : {1U, 8U, 32U}) {
    const Head head(40);
    const PlainRun run = {batch, 4, 2};
    std::vector<uint64_t> memory(1 << 14);
    const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(memory.data()), 8 * memory.size());
    const Result<size_t> need = find_arena_need(head.problem(), kSize, run, bytes);
    ASSERT_TRUE(need.ok());
    // With so much it is the same answer, and with less there is none for the trial's run.
    const Result<size_t> same = find_arena_need(head.problem(), kSize, run, bytes.first(need.value()));
    ASSERT_TRUE(same.ok()) << batch;
    EXPECT_EQ(same.value(), need.value());
    const Result<size_t> less = find_arena_need(head.problem(), kSize, run, bytes.first(need.value() - 8));
    EXPECT_EQ(less.status(), Status::kOutOfMemory) << batch;
  }
}

TEST(ArenaNeed, GrowsWithDirectionsAndSteps) {
  const Head head(40);
  std::vector<uint64_t> memory(1 << 14);
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(memory.data()), 8 * memory.size());
  const auto need = [&](const PlainRun& run) { return find_arena_need(head.problem(), kSize, run, bytes).value(); };
  EXPECT_LT(need({1, 1, 1}), need({1, 64, 8}));
  EXPECT_GE(need({1, 1, 1}), 3 * kSize * sizeof(Real)) << "model, sum and a point that is displaced";
}

// A board has no tensor for the sum and none for a displaced point.
TEST(ArenaNeed, IsLessInTheLeanForm) {
  const Head head(40);
  std::vector<uint64_t> memory(1 << 14);
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(memory.data()), 8 * memory.size());
  PlainRun run = {8, 4, 1};
  const size_t usual = find_arena_need(head.problem(), kSize, run, bytes).value();
  run.is_lean = true;
  const Result<size_t> lean = find_arena_need(head.problem(), kSize, run, bytes);
  ASSERT_TRUE(lean.ok());
  EXPECT_LT(lean.value(), usual);
  EXPECT_EQ(find_arena_need(head.problem(), kSize, run, bytes.first(lean.value() - 8)).status(), Status::kOutOfMemory);
}

TEST(ArenaNeed, NamesWhatNoRunTakes) {
  const Head head(4);
  std::vector<uint64_t> memory(64);
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(memory.data()), 8 * memory.size());
  EXPECT_EQ(find_arena_need(head.problem(), kSize + 1, {}, bytes).status(), Status::kInvalidArgument);
  EXPECT_EQ(find_arena_need(head.problem(), 0, {}, bytes).status(), Status::kInvalidArgument);
  EXPECT_EQ(find_arena_need(head.problem(), kProductSizeMax + 1, {}, bytes).status(), Status::kInvalidArgument);
  EXPECT_EQ(find_arena_need(head.problem(), kSize, {}, {}).status(), Status::kOutOfMemory);
}

}  // namespace
}  // namespace gradstream
