// Sums of parts of a version: their bytes, what is refused, and that no division and no order changes a bit of the
// record.
#include "server/rules/partial_sum.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "runtime/base/crc32c.h"
#include "server/run/limits.h"
#include "server/run/run_core.h"
#include "tests/support/mergeable_runs.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr uint32_t kUpdateCount = 12;

// Each update to one of so many instances, at random; then their sums into a new one, through bytes, at random too.
VersionRecord merged_record(const MergeableRun& run, uint32_t count, std::mt19937* random) {
  std::vector<std::unique_ptr<MergeableRule>> parts;
  for (uint32_t i = 0; i < count; ++i) {
    parts.push_back(std::make_unique<MergeableRule>(run));
  }
  std::vector<uint32_t> devices(kUpdateCount);
  for (uint32_t i = 0; i < kUpdateCount; ++i) {
    devices[i] = i;
  }
  std::shuffle(devices.begin(), devices.end(), *random);
  for (const uint32_t device : devices) {
    parts[(*random)() % count]->add(device);
  }
  std::vector<std::vector<uint8_t>> sums;
  for (const auto& part : parts) {
    sums.push_back(encode_partial(part->rule->take_partial()));
    EXPECT_EQ(part->rule->partial().weights.update_count(), 0U);
  }
  std::shuffle(sums.begin(), sums.end(), *random);
  // Two by two, so that sums of sums are merged too.
  while (sums.size() > 1) {
    MergeableRule both(run);
    for (int i = 0; i < 2; ++i) {
      PartialSum sum;
      EXPECT_EQ(decode_partial(sums.back(), &sum), Status::kOk);
      EXPECT_EQ(both.rule->merge(sum), Status::kOk);
      sums.pop_back();
    }
    sums.insert(sums.begin(), encode_partial(both.rule->partial()));
  }
  MergeableRule root(run);
  PartialSum sum;
  EXPECT_EQ(decode_partial(sums.front(), &sum), Status::kOk);
  EXPECT_EQ(root.rule->merge(sum), Status::kOk);
  return root.record();
}

TEST(PartialSum, OneRecordHoweverItIsDividedAndMerged) {
  std::mt19937 random(3);
  for (const MergeableRun& run : mergeable_runs()) {
    SCOPED_TRACE(run.name);
    MergeableRule plain(run);
    ASSERT_TRUE(plain.rule->is_mergeable());
    for (uint32_t device = 0; device < kUpdateCount; ++device) {
      plain.add(device);
    }
    const VersionRecord expected = plain.record();
    for (const uint32_t count : {1U, 2U, 8U}) {
      EXPECT_EQ(merged_record(run, count, &random), expected) << count;
    }
  }
}

TEST(PartialSum, ItsBytesReadBack) {
  for (const MergeableRun& run : mergeable_runs()) {
    SCOPED_TRACE(run.name);
    MergeableRule f(run);
    for (uint32_t device = 0; device < 4; ++device) {
      const PartialSum sum = f.rule->partial();
      PartialSum back;
      ASSERT_EQ(decode_partial(encode_partial(sum), &back), Status::kOk);
      EXPECT_EQ(back, sum);
      f.add(device);
    }
  }
}

// Any torn end, and any byte that another one stands for.
TEST(PartialSum, DamagedBytesDoNotRead) {
  MergeableRule f(mergeable_runs().front());
  f.add(0);
  f.add(1);
  const std::vector<uint8_t> good = encode_partial(f.rule->partial());
  PartialSum sum;
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_EQ(decode_partial(std::span(good).first(i), &sum), Status::kDataCorrupt) << i;
    std::vector<uint8_t> bad = good;
    bad[i] ^= static_cast<uint8_t>(1U << (i % 8));
    EXPECT_EQ(decode_partial(bad, &sum), Status::kDataCorrupt) << i;
  }
  std::vector<uint8_t> longer = good;
  longer.push_back(0);
  EXPECT_EQ(decode_partial(longer, &sum), Status::kDataCorrupt);
}

// The checksum holds and a byte is another: what reads then is refused, or is a sum that updates can make.
TEST(PartialSum, ForgedBytesDoNoHarm) {
  for (const MergeableRun& run : mergeable_runs()) {
    MergeableRule f(run);
    f.add(0);
    f.add(1);
    std::vector<uint8_t> good = encode_partial(f.rule->partial());
    good.resize(good.size() - sizeof(uint32_t));
    const size_t head = std::min<size_t>(good.size(), 150);  // and into the first block
    uint32_t read_count = 0;
    for (size_t i = 0; i < head; ++i) {
      for (const uint8_t value : {0, 1, 128, 255}) {
        std::vector<uint8_t> bad = good;
        bad[i] = value;
        const uint32_t checksum = crc32c(0, bad.data(), bad.size());
        for (size_t k = 0; k < sizeof checksum; ++k) {
          bad.push_back(static_cast<uint8_t>(checksum >> (8 * k)));
        }
        PartialSum sum;
        if (decode_partial(bad, &sum) == Status::kOk && f.rule->merge(sum) == Status::kOk) {
          ++read_count;
          f.record();
        }
      }
    }
    EXPECT_GT(read_count, 0U);
    EXPECT_LT(read_count, 4 * head);
  }
}

// A sum that reads, but is not of this version of this run, or that no updates make.
TEST(PartialSum, WhatIsNotOfTheOpenVersionIsRefusedByName) {
  using Change = std::function<void(PartialSum&)>;
  const std::pair<Status, Change> kChanges[] = {
      {Status::kInvalidArgument, [](PartialSum& s) { s.rule = PartialRule::kNone; }},
      {Status::kInvalidArgument, [](PartialSum& s) { s.rows += 1; }},
      {Status::kInvalidArgument, [](PartialSum& s) { s.cols = 1; }},
      {Status::kInvalidArgument, [](PartialSum& s) { s.scale_log2 = 8; }},
      {Status::kInvalidArgument, [](PartialSum& s) { s.phase += 1; }},
      {Status::kProtocolError, [](PartialSum& s) { s.version = 1; }},
      {Status::kProtocolError, [](PartialSum& s) { s.version = 3; }},
      {Status::kProtocolError, [](PartialSum& s) { s.digest ^= 1; }},
      {Status::kProtocolError, [](PartialSum& s) { s.population += 1; }},
      {Status::kDataCorrupt, [](PartialSum& s) { s.blocks.clear(); }},
      {Status::kDataCorrupt, [](PartialSum& s) { s.weights.clear(); }},
      {Status::kDataCorrupt, [](PartialSum& s) { s.blocks.front().slots.pop_back(); }},
      {Status::kDataCorrupt, [](PartialSum& s) { s.blocks.front().slots.resize(10000); }},
      {Status::kDataCorrupt, [](PartialSum& s) { s.blocks.front().slots.clear(); }},
      {Status::kDataCorrupt, [](PartialSum& s) { s.blocks.push_back(s.blocks.front()); }},
      {Status::kOutOfRange, [](PartialSum& s) { s.blocks.back().base_version = 3; }},
      {Status::kOutOfRange, [](PartialSum& s) { s.blocks.back().slots.back() = WideInt::shifted(1, 63); }},
      {Status::kOutOfRange, [](PartialSum& s) { s.blocks.back().slots.back() = -WideInt::shifted(1, 63); }},
      {Status::kOutOfRange,
       [](PartialSum& s) {
         while (s.weights.update_count() < kFoldUpdateCountMax) {
           const WeightSum half = s.weights;
           s.weights.add(half);
         }
       }},
  };
  for (const MergeableRun& run : mergeable_runs()) {
    SCOPED_TRACE(run.name);
    MergeableRule part(run);
    part.add(0);
    part.add(2);
    MergeableRule root(run);
    root.add(4);
    const PartialSum before = root.rule->partial();
    size_t number = 0;
    for (const auto& [status, change] : kChanges) {
      PartialSum sum = part.rule->partial();
      change(sum);
      EXPECT_EQ(root.rule->merge(sum), status) << "change " << number++;
      EXPECT_EQ(root.rule->partial(), before);
    }
    EXPECT_EQ(root.rule->merge(part.rule->partial()), Status::kOk);
  }
}

// A slot has as many units as its weights allow: the largest values fit, and one unit more does not.
TEST(PartialSum, ASlotIsHeldToItsWeights) {
  MergeableRule f(mergeable_runs().front());
  f.add(0);
  PartialSum sum = f.rule->partial();
  const WideInt outside = WideInt::shifted(sum.weights.total(), kFoldValueBits);
  for (const WideInt& edge : {outside, -outside}) {
    sum.blocks.front().slots.front() = edge;
    EXPECT_EQ(f.rule->merge(sum), Status::kOutOfRange);
  }
  sum.blocks.front().slots.front() = outside + int64_t{-1};
  EXPECT_EQ(f.rule->merge(sum), Status::kOk);
}

// Merging forgets what was prepared: its check was of other sums.
TEST(PartialSumDeathTest, NothingPreparedBeforeAMergeIsCommitted) {
  MergeableRule f(mergeable_runs().front());
  f.add(0);
  const PartialSum sum = f.rule->partial();
  f.prepare(1);
  ASSERT_EQ(f.rule->merge(sum), Status::kOk);
  EXPECT_DEATH(f.rule->commit(), "assertion failed");
  f.prepare(1);
  static_cast<void>(f.rule->take_partial());
  EXPECT_DEATH(f.rule->commit(), "assertion failed");
}

TEST(PartialSum, RulesThatKeepUpdatesHaveNone) {
  RunParameters p = tangent_parameters();
  p.fold->weight_share_max = 0.5F;
  for (const RunParameters& kept : {asynchronous_parameters(), p}) {
    TestRule f(kept);
    EXPECT_FALSE(f.rule->is_mergeable());
    EXPECT_EQ(f.rule->merge(PartialSum()), Status::kUnimplemented);
  }
}

}  // namespace
}  // namespace gradstream
