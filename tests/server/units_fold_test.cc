#include "server/rules/units_fold.h"

#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "server/run/units_keys.h"
#include "tests/support/server_support.h"
#include "tests/support/units_device.h"

namespace gradstream {
namespace {

RunParameters units_parameters(Centre centre, UnitScale scale) {
  RunParameters p = scalar_parameters();
  p.units.keys().centre = centre;
  p.units.keys().scale = scale;
  return p;
}

// Devices of one table: columns in the fold's order.
using FleetRows = std::vector<SampleRows>;

SampleRows draw_rows(uint32_t seed, size_t count, std::span<const float> means, std::span<const float> extents) {
  const std::vector<Real> values = draw_values(count * means.size(), seed, 2);
  SampleRows rows(count);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t c = i % means.size();
    rows[i / means.size()].push_back(means[c] + extents[c] * values[i]);
  }
  return rows;
}

// One fold of a stage over these answers, in this order.
StageDecision fold(const RunParameters& p, TaskStage stage, const std::vector<uint8_t>& units,
                   const std::vector<Words>& answers, std::span<const uint32_t> order) {
  TestRule rule(p);
  const auto units_fold = make_units_fold({.parameters = &p, .step = {stage, 0}, .units = units});
  for (const uint32_t device : order) {
    const std::vector<uint8_t> bytes = bytes_of(answers[device]);
    EXPECT_EQ(units_fold->check({device, 1, bytes}).reason, gs_Reason_REASON_NONE) << device;
    units_fold->add({device, 1, bytes});
  }
  return units_fold->close(*rule.rule);
}

std::vector<uint32_t> in_order(size_t count) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

// All stages of a fleet of honest devices.
std::vector<UnitsColumn> units_of(const RunParameters& p, const FleetRows& fleet) {
  std::vector<uint8_t> table;
  for (StageStep step = first_stage(p); step.stage != TaskStage::kTrain; step = stage_after(p, step)) {
    std::vector<Words> answers;
    for (const SampleRows& rows : fleet) {
      answers.push_back(answer_of(rows, step.stage, table, p.units.keys().scale == UnitScale::kRange));
    }
    const StageDecision decision = fold(p, step.stage, table, answers, in_order(answers.size()));
    for (const StageOutlier& outlier : decision.left_out) {
      ADD_FAILURE() << stage_name(step.stage) << " leaves out device " << outlier.device << ", column "
                    << outlier.column << ", value " << outlier.value << ", limit " << outlier.limit;
    }
    table = decision.units;
  }
  std::vector<UnitsColumn> columns;
  EXPECT_EQ(decode_units(table, &columns), Status::kOk);
  return columns;
}

// Mean and variance of a column over all devices, in long doubles.
struct Plain {
  long double mean = 0;
  long double variance = 0;
  float least = std::numeric_limits<float>::max();
  float most = std::numeric_limits<float>::lowest();
};
Plain plain_of(const FleetRows& fleet, size_t column) {
  Plain plain;
  long double count = 0;
  for (const SampleRows& rows : fleet) {
    for (const auto& row : rows) {
      plain.mean += static_cast<long double>(row[column]);
      plain.least = std::min(plain.least, row[column]);
      plain.most = std::max(plain.most, row[column]);
      ++count;
    }
  }
  plain.mean /= count;
  for (const SampleRows& rows : fleet) {
    for (const auto& row : rows) {
      const long double y = static_cast<long double>(row[column]) - plain.mean;
      plain.variance += y * y / count;
    }
  }
  return plain;
}

constexpr size_t kColumns = 16;
FleetRows some_fleet() {
  std::array<float, kColumns> means = {};
  std::array<float, kColumns> extents = {};
  for (size_t c = 0; c < kColumns; ++c) {
    means[c] = std::ldexp(1.0F, static_cast<int>(c) - 9);
    extents[c] = std::ldexp(0.75F, static_cast<int>(c % 5) * 4 - 10);
  }
  FleetRows fleet;
  for (uint32_t device = 0; device < 6; ++device) {
    fleet.push_back(draw_rows(device + 1, 7 + device, means, extents));
  }
  return fleet;
}

TEST(UnitsFold, MeansAndFactorsAreThoseOfAllSamples) {
  const FleetRows fleet = some_fleet();
  ASSERT_EQ(units_column_count(scalar_parameters()), kColumns) << "the fleet is made for another shape";
  long double total = 0;
  for (size_t c = 0; c < kColumns; ++c) {
    total += plain_of(fleet, c).variance;
  }
  for (const UnitScale scale : {UnitScale::kNone, UnitScale::kCommon, UnitScale::kDeviation, UnitScale::kRange}) {
    for (const Centre centre : {Centre::kNone, Centre::kFederated}) {
      if (scale == UnitScale::kNone && centre == Centre::kNone) {
        continue;
      }
      const std::vector<UnitsColumn> units = units_of(units_parameters(centre, scale), fleet);
      ASSERT_EQ(units.size(), kColumns);
      for (size_t c = 0; c < kColumns; ++c) {
        const Plain plain = plain_of(fleet, c);
        const long double reach = std::ldexp(1.0L, units[c].exponent);
        EXPECT_NEAR(units[c].mean, centre == Centre::kNone ? 0 : plain.mean, 1e-7L * reach) << c;
        const long double divisor = scale == UnitScale::kNone        ? 1
                                    : scale == UnitScale::kCommon    ? std::sqrt(total)
                                    : scale == UnitScale::kDeviation ? std::sqrt(plain.variance)
                                                                     : plain.most - plain.least;
        // r has 22 bits below 2^e: what a narrow column loses is a share of its extent.
        const long double tolerance = 1e-6L + (scale == UnitScale::kNone ? 0 : reach * 1e-6L / divisor);
        EXPECT_NEAR(static_cast<long double>(units[c].factor) * divisor, 1, tolerance) << c;
      }
    }
  }
}

TEST(UnitsFold, NoOrderOfTheAnswersChangesABit) {
  const RunParameters p = units_parameters(Centre::kFederated, UnitScale::kDeviation);
  const FleetRows fleet = some_fleet();
  std::vector<uint8_t> table;
  for (const TaskStage stage : {TaskStage::kExponents, TaskStage::kSums, TaskStage::kSquares}) {
    std::vector<Words> answers;
    for (const SampleRows& rows : fleet) {
      answers.push_back(answer_of(rows, stage, table, false));
    }
    std::vector<uint32_t> order = in_order(answers.size());
    const StageDecision first = fold(p, stage, table, answers, order);
    for (size_t i = 0; i < order.size(); ++i) {
      std::rotate(order.begin(), order.begin() + 1, order.end());
      std::swap(order[i], order[(i + 2) % order.size()]);
      ASSERT_EQ(fold(p, stage, table, answers, order).units, first.units);
    }
    table = first.units;
  }
}

// The mean of a column of one value is that value, whatever it is, and its squares are 0.
TEST(UnitsFold, AConstantColumnIsFoundExactly) {
  for (const float x : {1.0F, -0.1F, 1e-38F, 3.4e38F, 1e17F, 1e-17F, 16777215.0F}) {
    FleetRows fleet;
    for (uint32_t device = 0; device < 3; ++device) {
      fleet.push_back(SampleRows(device + 1, std::vector<float>(kColumns, x)));
    }
    RunParameters p = units_parameters(Centre::kFederated, UnitScale::kDeviation);
    std::vector<UnitsColumn> units = units_of(p, fleet);
    EXPECT_EQ(units[3].mean, x);
    EXPECT_EQ(units[3].factor, 1);
    p.units.keys().scale = UnitScale::kCommon;
    EXPECT_EQ(units_of(p, fleet)[3].factor, 1) << "of a table without any variance";
  }
}

// Where samples end with a label or targets a column of ones goes on to be one.
TEST(UnitsFold, AnInterceptStaysAsItIs) {
  for (const UnitScale scale : {UnitScale::kNone, UnitScale::kCommon, UnitScale::kDeviation, UnitScale::kRange}) {
    RunParameters p = units_parameters(Centre::kFederated, scale);
    p.model->problem = "logistic";
    FleetRows fleet;
    for (uint32_t device = 0; device < 3; ++device) {
      SampleRows rows(4, std::vector<float>(kColumns, 1));
      for (size_t i = 0; i < rows.size(); ++i) {
        rows[i][0] = static_cast<float>(i + device);
      }
      fleet.push_back(rows);
    }
    const std::vector<UnitsColumn> units = units_of(p, fleet);
    EXPECT_GT(units[0].mean, 0);
    EXPECT_EQ(units[1].mean, 0);
    EXPECT_EQ(units[1].factor, scale == UnitScale::kCommon ? units[0].factor : 1);
  }
}

// A column of zeros, and the smallest and largest numbers that there are.
TEST(UnitsFold, NothingOverflowsAtTheEndsOfTheRange) {
  const float most = std::numeric_limits<float>::max();
  const float least = std::numeric_limits<float>::denorm_min();
  FleetRows fleet(3, SampleRows(2, std::vector<float>(kColumns)));
  for (size_t device = 0; device < 3; ++device) {
    fleet[device][0][1] = most;
    fleet[device][1][1] = -most;
    fleet[device][0][2] = least;
  }
  for (const UnitScale scale : {UnitScale::kCommon, UnitScale::kDeviation, UnitScale::kRange}) {
    const std::vector<UnitsColumn> units = units_of(units_parameters(Centre::kFederated, scale), fleet);
    EXPECT_EQ(units[0].exponent, kUnitsExponentMin);
    EXPECT_EQ(units[1].exponent, kUnitsExponentMax);
    for (const UnitsColumn& column : units) {
      EXPECT_TRUE(std::isfinite(column.factor) && column.factor > 0);
    }
  }
}

// The quotient as long doubles have it, which hold 64 bits.
TEST(UnitsFold, QuotientsAreTheNearestFloats) {
  const std::vector<Real> draws = draw_values(4000, 5, 2);
  for (size_t i = 0; i + 1 < draws.size(); i += 2) {
    const auto sum = static_cast<int64_t>(std::ldexp(static_cast<double>(draws[i]), 20 + static_cast<int>(i % 40)));
    const auto count = static_cast<uint64_t>(1 + std::fabs(draws[i + 1]) * 65535);
    for (const int exponent : {-30, -156, 98, 0}) {
      const long double exact = std::ldexp(static_cast<long double>(sum) / static_cast<long double>(count), exponent);
      const long double most = std::numeric_limits<float>::max();
      ASSERT_EQ(nearest_quotient(sum, count, exponent), static_cast<float>(std::clamp(exact, -most, most)))
          << sum << "/" << count;
    }
  }
  constexpr int64_t kTie = (int64_t{1} << 25) + 2;  // of halves: 2^24 + 1 lies between two floats
  EXPECT_EQ(nearest_quotient(kTie, 2, 0), 16777216.0F) << "a tie goes to even";
  EXPECT_EQ(nearest_quotient(kTie + 4, 2, 0), 16777220.0F);
  EXPECT_EQ(nearest_quotient(3 * kTie + 1, 6, 0), 16777218.0F) << "what is just above one does not";
  EXPECT_EQ(nearest_quotient(int64_t{1} << 30, 1, 98), std::numeric_limits<float>::max());
  EXPECT_EQ(nearest_quotient(1, 1, -149), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(nearest_quotient(1, 3, -149), 0.0F);
}

struct Lie {
  TaskStage stage;
  size_t word;
  int64_t value;
  uint32_t column;
};

TEST(UnitsFold, AnswersBeyondTheirBoundsAreRefusedByColumn) {
  RunParameters p = units_parameters(Centre::kFederated, UnitScale::kRange);
  const SampleRows rows = some_fleet()[0];
  const std::vector<uint8_t> table = encode_units(std::vector<UnitsColumn>(kColumns, {40, 0, 0}));
  const int64_t huge = 1'000'000'000'000'000'000;
  const Lie lies[] = {
      {TaskStage::kExponents, 0, 65536, 0},
      {TaskStage::kExponents, 0, 0, 0},
      {TaskStage::kExponents, 0, -1, 0},
      {TaskStage::kExponents, 3, 129, 3},
      {TaskStage::kExponents, 16, -127, 16},
      {TaskStage::kSums, 2, huge, 2},
      {TaskStage::kSums, 2, (7LL << 30) + 1, 2},
      {TaskStage::kSums, 5, std::numeric_limits<int64_t>::min(), 5},
      {TaskStage::kSums, 1 + kColumns, (1LL << 30) + 1, 1},
      {TaskStage::kSums, 1 + 2 * kColumns, -(1LL << 30) - 1, 1},
      {TaskStage::kSums, 1 + kColumns, 1LL << 30, 1},
      {TaskStage::kSquares, 1, -1, 1},
      {TaskStage::kSquares, 9, (7LL << 46) + 1, 9},
  };
  for (const Lie& lie : lies) {
    const auto units_fold =
        make_units_fold({.parameters = &p,
                         .step = {lie.stage, 0},
                         .units = lie.stage == TaskStage::kExponents ? std::vector<uint8_t>() : table});
    Words words = answer_of(rows, lie.stage, table, true);
    EXPECT_EQ(units_fold->check({0, 1, bytes_of(words)}).reason, gs_Reason_REASON_NONE);
    words[lie.word] = lie.value;
    const StageFault fault = units_fold->check({0, 1, bytes_of(words)});
    EXPECT_EQ(fault.reason, gs_Reason_REASON_OUT_OF_RANGE) << stage_name(lie.stage) << " word " << lie.word;
    EXPECT_EQ(fault.column, lie.column);
    words = answer_of(rows, lie.stage, table, true);
    words.pop_back();
    EXPECT_EQ(units_fold->check({0, 1, bytes_of(words)}).reason, gs_Reason_REASON_WRONG_SHAPE);
  }
}

TEST(UnitsFold, ExponentsFarAboveTheOthersAreLeftOut) {
  const RunParameters p = units_parameters(Centre::kFederated, UnitScale::kCommon);
  std::vector<Words> answers;
  for (int64_t device = 0; device < 5; ++device) {
    answers.push_back(Words(1 + kColumns, 4 + device % 2));
    answers.back()[2] = kUnitsExponentMin;  // zeros: the label of a digit that most devices do not have
  }
  answers[3][1] = 24;  // 20 above 4 is still believed
  answers[4][2] = 30;  // of this column the others say nothing
  EXPECT_TRUE(fold(p, TaskStage::kExponents, {}, answers, in_order(5)).left_out.empty());
  answers[1][7] = 26;
  const StageDecision decision = fold(p, TaskStage::kExponents, {}, answers, in_order(5));
  ASSERT_EQ(decision.left_out.size(), 1U);
  EXPECT_EQ(decision.left_out[0].device, 1U);
  EXPECT_EQ(decision.left_out[0].column, 7U);
  EXPECT_EQ(decision.left_out[0].value, 26);
  std::vector<UnitsColumn> columns;
  ASSERT_EQ(decode_units(decision.units, &columns), Status::kOk);
  EXPECT_EQ(columns[6].exponent, 5);
  EXPECT_EQ(columns[0].exponent, 24);
}

TEST(UnitsFold, MeansFarFromTheOthersAreLeftOut) {
  const RunParameters p = units_parameters(Centre::kFederated, UnitScale::kCommon);
  const std::vector<uint8_t> table = encode_units(std::vector<UnitsColumn>(kColumns, {5, 0, 0}));
  std::vector<Words> answers;
  for (int64_t device = 0; device < 5; ++device) {
    answers.push_back(Words(1 + kColumns, device << 20));
    answers.back()[0] = 1;
  }
  answers[2][4] = 1LL << 29;  // shards that are sorted by label do that
  EXPECT_TRUE(fold(p, TaskStage::kSums, table, answers, in_order(5)).left_out.empty());
  answers[2][4] = 1LL << 30;
  const StageDecision decision = fold(p, TaskStage::kSums, table, answers, in_order(5));
  ASSERT_EQ(decision.left_out.size(), 1U);
  EXPECT_EQ(decision.left_out[0].device, 2U);
  EXPECT_EQ(decision.left_out[0].column, 4U);
  EXPECT_EQ(decision.left_out[0].value, 32);
  answers.pop_back();
  EXPECT_TRUE(fold(p, TaskStage::kSums, table, answers, in_order(4)).left_out.empty()) << "four have no majority";
}

// A fleet in which each device has a column of its own that is far from all others: nobody knows who is right.
TEST(UnitsFold, HalfOfTheFleetIsNeverLeftOut) {
  const RunParameters p = units_parameters(Centre::kFederated, UnitScale::kCommon);
  std::vector<Words> answers;
  for (size_t device = 0; device < 6; ++device) {
    answers.push_back(Words(1 + kColumns, 1));
    answers.back()[1 + device] = device < 3 ? 60 : 1;
  }
  const StageDecision decision = fold(p, TaskStage::kExponents, {}, answers, in_order(6));
  EXPECT_TRUE(decision.left_out.empty());
  EXPECT_EQ(decision.status, Status::kOk);
}

// Where only devices know how many columns there are, most of them are right.
TEST(UnitsFold, TheNumberOfColumnsIsThatOfMostDevices) {
  RunParameters p = units_parameters(Centre::kFederated, UnitScale::kDeviation);
  p.model->problem = kNetworkProblemName;
  const std::vector<Words> answers = {Words(9, 1), Words(6, 1), Words(6, 1)};
  const StageDecision decision = fold(p, TaskStage::kExponents, {}, answers, in_order(3));
  EXPECT_EQ(decision.units.size(), 5 * kUnitsColumnSize);
  ASSERT_EQ(decision.left_out.size(), 1U);
  EXPECT_EQ(decision.left_out[0].device, 0U);
  EXPECT_EQ(decision.left_out[0].column, 0U);
  EXPECT_EQ(decision.left_out[0].value, 8);
}

}  // namespace
}  // namespace gradstream
