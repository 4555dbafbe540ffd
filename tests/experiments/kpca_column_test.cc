// The gradient of many samples at a time has the bits of the runtime's own.
#include "experiments/workloads/kpca_column.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <gtest/gtest.h>

#include "experiments/workloads/workload.h"
#include "runtime/base/arena.h"

namespace gradstream {
namespace {

constexpr uint32_t kRows = 37;
constexpr uint32_t kSampleCount = 30;

class KpcaColumn : public testing::Test {
 protected:
  KpcaColumn() : stored_(normals({7, RandomDomain::kData, 0, 0, 0}, kSampleCount, kRows)), x_(kRows) {
    const Matrix x = normals({7, RandomDomain::kInitialPoint, 0, 0, 0}, kRows, 1);
    for (uint32_t r = 0; r < kRows; ++r) {
      x_[r] = static_cast<Real>(x(r, 0));
    }
  }

  // At most `unit_count` samples a call; how many calls it took. The last number is the loss.
  uint32_t run(const ProblemOps& ops, Batch batch, uint32_t unit_count, std::vector<Real>* out) {
    out->assign(kRows, 0);
    alignas(16) std::array<std::byte, 4096> memory = {};
    EvaluationProgress progress = kWholeEvaluation;
    batch.progress = &progress;
    for (uint32_t calls = 1;; ++calls) {
      Arena arena(memory.data(), memory.size());
      progress.units_left = unit_count;
      const Status status = ops.gradient(&stored_.source, {kRows, 1}, x_.data(), batch, out->data(), arena);
      if (status != Status::kUnfinished) {
        EXPECT_EQ(status, Status::kOk);
        out->push_back(loss(ops, batch, unit_count));
        return calls;
      }
    }
  }

  Real loss(const ProblemOps& ops, Batch batch, uint32_t unit_count) {
    alignas(16) std::array<std::byte, 4096> memory = {};
    EvaluationProgress progress = kWholeEvaluation;
    batch.progress = &progress;
    while (true) {
      Arena arena(memory.data(), memory.size());
      progress.units_left = unit_count;
      const Result<Real> found = ops.loss(&stored_.source, {kRows, 1}, x_.data(), batch, arena);
      if (found.status() != Status::kUnfinished) {
        EXPECT_TRUE(found.ok());
        return found.ok() ? found.value() : 0;
      }
    }
  }

  StoredSamples stored_;
  std::vector<Real> x_;
};

TEST_F(KpcaColumn, HasTheBitsOfTheRuntimesOwn) {
  std::vector<uint16_t> indices(kSampleCount);
  for (uint32_t i = 0; i < kSampleCount; ++i) {
    indices[i] = static_cast<uint16_t>(7 * i % kSampleCount);
  }
  std::vector<Real> wanted;
  std::vector<Real> found;
  for (const uint16_t* const chosen : std::initializer_list<const uint16_t*>{nullptr, indices.data()}) {
    for (uint32_t count = 1; count <= kSampleCount; ++count) {
      const Batch batch = {chosen, count};
      run(kKpcaOps, batch, EvaluationProgress::kNoLimit, &wanted);
      EXPECT_EQ(run(kKpcaColumnOps, batch, EvaluationProgress::kNoLimit, &found), 1U);
      EXPECT_EQ(found, wanted) << count;
    }
  }
}

TEST_F(KpcaColumn, EndsItsCallsAsTheRuntimesOwn) {
  const Batch batch = {nullptr, kSampleCount};
  std::vector<Real> wanted;
  std::vector<Real> found;
  for (const uint32_t unit_count : {1U, 5U, 8U, 11U, kSampleCount}) {
    const uint32_t calls = run(kKpcaOps, batch, unit_count, &wanted);
    EXPECT_EQ(run(kKpcaColumnOps, batch, unit_count, &found), calls) << unit_count;
    EXPECT_EQ(found, wanted) << unit_count;
  }
}

}  // namespace
}  // namespace gradstream
