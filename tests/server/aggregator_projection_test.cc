#include <cmath>

#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "server/run/weights.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

FoldInput input_of(uint32_t owner, uint32_t base, uint32_t steps, uint16_t weight, const std::vector<Real>& values) {
  return {owner, base, steps, weight, values};
}

std::vector<Real> decoded(const RecordBlock& block) {
  std::vector<Real> values(block.value_count);
  EXPECT_EQ(decode_values(block.encoding, block.value_count, block.bytes.data(), block.bytes.size(), values.data()),
            Status::kOk);
  return values;
}

// With everyone taking part and equal K the step is A9's: X <- P_M(X - eta_g eta K mean_i Gbar_i), here in double.
TEST(AggregatorProjection, IsThePublishedStepWithFullParticipation) {
  RunParameters p = scalar_parameters();
  p.fold->fold_weight = FoldWeight::kUniform;
  p.steps->server_step = 2;
  TestRule f(p);
  const uint32_t n = 4;
  const size_t size = p.model->shape.size();
  std::vector<double> z(f.server.replica.model(), f.server.replica.model() + size);
  const double factor = p.steps->server_step * p.step_size_at(2) * p.local->local_step_count *
                        (static_cast<double>(size) / p.local->direction_count / p.local->local_step_count) / n;
  std::vector<Real> u(size);
  for (uint32_t i = 0; i < n; ++i) {
    const std::vector<Real> s = draw_values(p.value_count(), 30 + i, 1);
    ASSERT_EQ(f.rule->add(input_of(0, 2, p.local->local_step_count, kStalenessOne, s)), Status::kOk);
    for (uint32_t q = 0; q < p.value_count(); ++q) {
      fill_direction(direction_spec(p, 2, 0), p.model->shape, q / p.local->direction_count,
                     q % p.local->direction_count, u.data());
      for (size_t e = 0; e < size; ++e) {
        z[e] -= factor * static_cast<double>(s[q]) * static_cast<double>(u[e]);
      }
    }
  }
  std::vector<Real> expected(z.begin(), z.end());
  ASSERT_EQ(kStiefelOps.project_point(p.model->shape, expected.data(), expected.data(), f.server.arena), Status::kOk);
  VersionRecord record;
  ASSERT_EQ(f.rule->finish(&record), Status::kOk);
  EXPECT_EQ(record.version, 3U);
  ASSERT_EQ(record.blocks.size(), 1U);
  ASSERT_EQ(apply_record(p, record, f.server.replica, f.server.arena), Status::kOk);
  for (size_t e = 0; e < size; ++e) {
    EXPECT_NEAR(f.server.replica.model()[e], expected[e], 2e-6) << e;
  }
}

// d of a run that chooses its step by itself: the model is moved against it by the record's step.
TEST(AggregatorProjection, TheMeanDirectionIsThatOfTheStep) {
  RunParameters p = scalar_parameters();
  p.model->manifold = ManifoldId::kEuclidean;
  p.local->group_count = 2;
  for (const Real step : {Real{1} / 2, Real{0}}) {
    p.steps->step_size = 0;
    p.steps->step_decay = 0;
    TestRule f(p);
    const OpenRound open{0, step, {}};
    f.rule = make_aggregator({&f.server.parameters, &f.server.replica, &f.models, &f.server.arena, nullptr, &open});
    f.rule->begin();
    ASSERT_EQ(f.rule->add(input_of(0, 2, 3, 10, draw_values(12, 5, 1))), Status::kOk);
    ASSERT_EQ(f.rule->add(input_of(1, 1, 3, 20, draw_values(12, 6, 1))), Status::kOk);
    VersionRecord record;
    ASSERT_EQ(f.rule->finish(&record), Status::kOk);
    ASSERT_EQ(record.mean_direction.size(), p.model->shape.size());
    EXPECT_EQ(record.step_scale, 3 * step);
    const std::vector<Real> before(f.server.replica.model(), f.server.replica.model() + p.model->shape.size());
    ASSERT_EQ(apply_record(p, record, f.server.replica, f.server.arena), Status::kOk);
    for (size_t e = 0; e < before.size(); ++e) {
      EXPECT_NEAR(f.server.replica.model()[e], before[e] - record.step_scale * record.mean_direction[e], 1e-5F) << e;
    }
  }
}

TEST(AggregatorProjection, BlocksAreSortedAndShareOneDenominator) {
  RunParameters p = scalar_parameters();
  p.local->group_count = 2;
  TestRule f(p);
  const std::vector<Real> full(12, 3);
  const std::vector<Real> partial(8, 2);
  ASSERT_EQ(f.rule->add(input_of(1, 2, 3, 10, full)), Status::kOk);
  ASSERT_EQ(f.rule->add(input_of(0, 2, 2, 30, partial)), Status::kOk);
  ASSERT_EQ(f.rule->add(input_of(1, 1, 3, 40, full)), Status::kOk);
  ASSERT_EQ(f.rule->add(input_of(1, 2, 2, 20, partial)), Status::kOk);
  VersionRecord record;
  ASSERT_EQ(f.rule->finish(&record), Status::kOk);
  ASSERT_EQ(record.blocks.size(), 3U);
  EXPECT_EQ(record.blocks[0].base_version, 1U);
  EXPECT_EQ(record.blocks[1].owner, 0U);
  EXPECT_EQ(record.blocks[1].value_count, 8U);
  EXPECT_EQ(record.blocks[2].owner, 1U);
  EXPECT_EQ(record.blocks[2].value_count, 12U);
  EXPECT_NEAR(decoded(record.blocks[0])[0], 0.4F, 1e-7F);   // 40 * 3/3 / 100
  EXPECT_NEAR(decoded(record.blocks[1])[7], 0.3F, 1e-7F);   // 30 * 2/2 / 100
  EXPECT_NEAR(decoded(record.blocks[2])[0], 0.3F, 1e-7F);   // (10 + 20) / 100
  EXPECT_NEAR(decoded(record.blocks[2])[11], 0.1F, 1e-7F);  // 10 / 100: the third step is of one device only
  EXPECT_FLOAT_EQ(record.step_scale, p.step_size_at(2) * (10 * 3 + 30 * 2 + 40 * 3 + 20 * 2) / 100);
}

TEST(AggregatorProjection, TheRecordAsEncodedDefinesTheModel) {
  RunParameters p = scalar_parameters();
  p.wire->record_encoding = Encoding::kBf16;
  TestRule f(p);
  ASSERT_EQ(f.rule->add(input_of(0, 2, 3, 1, draw_values(12, 5, 1))), Status::kOk);
  VersionRecord record;
  ASSERT_EQ(f.rule->finish(&record), Status::kOk);
  EXPECT_EQ(record.blocks[0].bytes.size(), 24U);
  ASSERT_EQ(apply_record(p, record, f.server.replica, f.server.arena), Status::kOk);
  VersionRecord read = record;
  ASSERT_EQ(decode_payload(p, encode_payload(record), &read), Status::kOk);
  EXPECT_EQ(read, record);
}

TEST(AggregatorProjection, RefusesWhatDoesNotFit) {
  TestRule f(scalar_parameters());
  const std::vector<Real> good(12, 1);
  std::vector<Real> large = good;
  large[5] = 500;
  EXPECT_EQ(f.rule->check(input_of(0, 2, 3, 1, good)), Status::kOk);
  EXPECT_EQ(f.rule->check(input_of(0, 2, 3, 1, large)), Status::kOutOfRange);
  EXPECT_EQ(f.rule->check(input_of(0, 2, 2, 1, good)), Status::kInvalidArgument);
  EXPECT_EQ(f.rule->check(input_of(0, 2, 4, 1, std::vector<Real>(16, 1))), Status::kInvalidArgument);
  EXPECT_EQ(f.rule->check(input_of(0, 2, 3, 0, good)), Status::kInvalidArgument);
  EXPECT_EQ(f.rule->add(input_of(0, 2, 3, 1, large)), Status::kOutOfRange);
}

TEST(AggregatorProjection, StandingStillKeepsTheModel) {
  const RunParameters p = scalar_parameters();
  TestRule f(p);
  const uint64_t digest = f.server.replica.digest();
  const VersionRecord record = f.rule->stand_still();
  VersionRecord read = record;
  EXPECT_EQ(decode_payload(p, encode_payload(record), &read), Status::kOk);
  ASSERT_EQ(apply_record(p, record, f.server.replica, f.server.arena), Status::kOk);
  EXPECT_EQ(f.server.replica.version(), 3U);
  EXPECT_EQ(f.server.replica.digest(), digest);
}

}  // namespace
}  // namespace gradstream
