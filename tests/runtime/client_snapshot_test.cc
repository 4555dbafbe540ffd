// The reader of snapshots: what the pieces bring is the version, in their order only, and a run takes no part that it
// does not have.
#include "runtime/link/client_snapshot.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {8, 1};
constexpr uint32_t kHalf = 4 * sizeof(Real);  // bytes
constexpr uint32_t kModelBit = part_bit(ModelPart::kModel);
constexpr uint32_t kGradientBit = part_bit(ModelPart::kMeanGradient);

struct Bench {
  explicit Bench(bool has_mean = false, uint32_t parts = 0) {
    EXPECT_EQ(replica.prepare(kEuclideanOps, kShape, memory.arena, has_mean, parts), Status::kOk);
  }
  Status take(const gs_SnapshotChunk& chunk) { return reader.take(chunk, &replica); }

  TestArena memory;
  Replica replica;
  SnapshotReader reader;
};

// Half of a part, from the byte `offset` on; each number is its place, and 10 more in the mean gradient.
gs_SnapshotChunk piece(ModelPart part, uint32_t offset, uint32_t parts = 0) {
  gs_SnapshotChunk chunk = {};
  chunk.version = 5;
  chunk.part = static_cast<gs_ModelPart>(part);
  chunk.offset = offset;
  chunk.total = static_cast<uint32_t>(kShape.size() * sizeof(Real));
  chunk.digest = 99;
  chunk.parts = parts;
  chunk.values.size = kHalf;
  Real values[4];
  FixedWord words[4];
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t place = offset / sizeof(Real) + i;
    values[i] = static_cast<Real>(part == ModelPart::kMeanGradient ? place + 10 : place);
    words[i] = static_cast<FixedWord>(place);
  }
  if (part == ModelPart::kMean) {
    store_words(4, words, chunk.values.bytes);
  } else {
    EXPECT_EQ(encode_values(kRealEncoding, 4, values, chunk.values.bytes), Status::kOk);
  }
  return chunk;
}

TEST(ClientSnapshot, TheModelComesInPieces) {
  Bench bench;
  EXPECT_EQ(bench.take(piece(ModelPart::kModel, 0)), Status::kUnfinished);
  EXPECT_TRUE(bench.reader.is_open());
  EXPECT_FALSE(bench.replica.has_model());
  EXPECT_EQ(bench.take(piece(ModelPart::kModel, kHalf)), Status::kOk);
  EXPECT_FALSE(bench.reader.is_open());
  EXPECT_TRUE(bench.reader.had_model());
  EXPECT_EQ(bench.reader.version(), 5U);
  ASSERT_TRUE(bench.replica.has_model());
  EXPECT_EQ(bench.replica.version(), 5U);
  for (size_t i = 0; i < kShape.size(); ++i) {
    EXPECT_EQ(bench.replica.model()[i], static_cast<Real>(i));
  }
}

TEST(ClientSnapshot, AMeanFollowsItsModel) {
  Bench bench(true);
  EXPECT_EQ(bench.take(piece(ModelPart::kModel, 0)), Status::kUnfinished);
  EXPECT_EQ(bench.take(piece(ModelPart::kModel, kHalf)), Status::kUnfinished);
  EXPECT_EQ(bench.take(piece(ModelPart::kMean, 0)), Status::kUnfinished);
  EXPECT_EQ(bench.take(piece(ModelPart::kMean, kHalf)), Status::kOk);
  EXPECT_EQ(bench.replica.mean()[7], 7);
}

TEST(ClientSnapshot, PartsAloneFollowTheModelThatIsHeld) {
  Bench bench(false, kGradientBit);
  EXPECT_EQ(bench.take(piece(ModelPart::kMeanGradient, 0, kGradientBit)), Status::kProtocolError)
      << "there is no model";
  static_cast<void>(bench.replica.begin_snapshot());
  bench.replica.adopt_snapshot(3);
  EXPECT_EQ(bench.take(piece(ModelPart::kMeanGradient, 0, kGradientBit)), Status::kProtocolError) << "5 after 3";
  static_cast<void>(bench.replica.begin_snapshot());
  bench.replica.adopt_snapshot(4);
  EXPECT_EQ(bench.take(piece(ModelPart::kMeanGradient, 0, kGradientBit)), Status::kUnfinished);
  EXPECT_TRUE(bench.replica.has_model()) << "of version 4 so far";
  EXPECT_EQ(bench.take(piece(ModelPart::kMeanGradient, kHalf, kGradientBit)), Status::kOk);
  EXPECT_FALSE(bench.reader.had_model());
  EXPECT_EQ(bench.replica.version(), 5U);
  ASSERT_NE(bench.replica.part(ModelPart::kMeanGradient), nullptr);
  EXPECT_EQ(bench.replica.part(ModelPart::kMeanGradient)[2], 12);
}

TEST(ClientSnapshot, PartsComeInTheirOrder) {
  Bench bench(false, kGradientBit);
  constexpr uint32_t kBoth = kModelBit | kGradientBit;
  EXPECT_EQ(bench.take(piece(ModelPart::kMeanGradient, 0, kBoth)), Status::kDataCorrupt) << "the model comes first";
  bench.reader.close();
  EXPECT_EQ(bench.take(piece(ModelPart::kModel, 0, kBoth)), Status::kUnfinished);
  EXPECT_EQ(bench.take(piece(ModelPart::kModel, kHalf, kBoth)), Status::kUnfinished);
  EXPECT_EQ(bench.take(piece(ModelPart::kMeanGradient, 0, kBoth)), Status::kUnfinished);
  EXPECT_EQ(bench.take(piece(ModelPart::kMeanGradient, kHalf, kBoth)), Status::kOk);
  EXPECT_EQ(bench.replica.parts(), kGradientBit);
}

TEST(ClientSnapshot, PiecesThatContradictEachOtherAreRefused) {
  const std::vector<void (*)(gs_SnapshotChunk&)> faults = {
      [](gs_SnapshotChunk& chunk) { chunk.version = 6; },
      [](gs_SnapshotChunk& chunk) { chunk.digest = 98; },
      [](gs_SnapshotChunk& chunk) { chunk.parts = kModelBit | kGradientBit; },
      [](gs_SnapshotChunk& chunk) { chunk.offset = 0; },
      [](gs_SnapshotChunk& chunk) { chunk.total += 4; },
      [](gs_SnapshotChunk& chunk) { chunk.part = gs_ModelPart_MODEL_PART_MEAN; },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    SCOPED_TRACE(i);
    Bench bench;
    EXPECT_EQ(bench.take(piece(ModelPart::kModel, 0)), Status::kUnfinished);
    gs_SnapshotChunk chunk = piece(ModelPart::kModel, kHalf);
    faults[i](chunk);
    EXPECT_EQ(bench.take(chunk), Status::kDataCorrupt);
    EXPECT_FALSE(bench.replica.has_model());
  }
}

TEST(ClientSnapshot, ARunTakesOnlyPartsThatItHas) {
  for (const ModelPart part : {ModelPart::kMean, ModelPart::kMeanGradient}) {
    Bench bench;
    const uint32_t both = kModelBit | part_bit(part);
    EXPECT_EQ(bench.take(piece(ModelPart::kModel, 0, both)), Status::kUnfinished);
    EXPECT_EQ(bench.take(piece(ModelPart::kModel, kHalf, both)), Status::kUnfinished);
    EXPECT_EQ(bench.take(piece(part, 0, both)), Status::kDataCorrupt);
  }
}

TEST(ClientSnapshot, ASnapshotGivenUpBeginsAnew) {
  Bench bench;
  EXPECT_EQ(bench.take(piece(ModelPart::kModel, 0)), Status::kUnfinished);
  bench.reader.close();
  EXPECT_FALSE(bench.reader.is_open());
  EXPECT_EQ(bench.take(piece(ModelPart::kModel, 0)), Status::kUnfinished);
  EXPECT_EQ(bench.take(piece(ModelPart::kModel, kHalf)), Status::kOk);
}

}  // namespace
}  // namespace gradstream
