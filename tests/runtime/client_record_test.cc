// The reader of records: however a record is cut, the model is the one that a replica makes of it, and whatever
// contradicts itself leaves the model alone.
#include "runtime/link/client_record.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {6, 1};
constexpr uint32_t kDirections = 4;
constexpr uint32_t kValues = 64;  // of a block
constexpr float kStepScale = 0.25F;

// A device with a model at version 3 and a run of scalars.
struct Bench {
  explicit Bench(const LeanForm* lean = nullptr, gs_Correction correction = gs_Correction_CORRECTION_NONE,
                 size_t arena_size = 1 << 14)
      : memory(arena_size) {
    Registry registry = registry_of({});
    registry.lean = lean;
    gs_Welcome welcome = {};
    welcome.manifold = gs_MANIFOLD_SPHERE;
    welcome.rows = kShape.rows;
    welcome.cols = kShape.cols;
    welcome.stream = gs_STREAM_KIND_SCALAR;
    welcome.directions = gs_Directions_DIRECTIONS_SIGN;
    welcome.shared_directions = true;
    welcome.direction_count = kDirections;
    welcome.correction = correction;
    welcome.fold_scale_log2 = 16;
    EXPECT_EQ(run.begin(welcome, registry, memory.arena), Status::kOk);
    const std::vector<Real> point = random_point(kSphereOps, kShape, 1);
    std::copy(point.begin(), point.end(), run.replica().begin_snapshot());
    if (run.replica().has_mean()) {
      std::fill_n(run.replica().mean_buffer(), kShape.size(), FixedWord{0});
    }
    run.replica().adopt_snapshot(3);
  }
  Status take(const gs_LogChunk& chunk) { return reader.take(chunk, run, memory.arena); }

  TestArena memory;
  RunModel run;
  RecordReader reader;
};

// `count` values from `first` on of a block of kValues.
gs_LogChunk piece(uint32_t block, uint32_t first, uint32_t count, uint32_t block_count = 2) {
  gs_LogChunk chunk = {};
  chunk.version = 4;
  chunk.step_scale = kStepScale;
  chunk.block_index = block;
  chunk.block_count = block_count;
  chunk.base_version = 2 + block;
  chunk.first_value = first;
  chunk.value_count = kValues;
  chunk.encoding = static_cast<gs_Encoding>(kRealEncoding);
  const std::vector<Real> values = random_values(kValues, 20 + block);
  chunk.values.size = static_cast<pb_size_t>(encoded_size(kRealEncoding, count));
  EXPECT_EQ(encode_values(kRealEncoding, count, values.data() + first, chunk.values.bytes), Status::kOk);
  return chunk;
}

// The same record by a replica's own calls.
uint64_t expected_digest() {
  Bench bench;
  Replica& replica = bench.run.replica();
  EXPECT_EQ(replica.begin_record(), Status::kOk);
  for (uint32_t block = 0; block < 2; ++block) {
    DirectionSpec directions = bench.run.directions(2 + block);
    directions.owner = 0;
    const std::vector<Real> values = random_values(kValues, 20 + block);
    EXPECT_EQ(replica.add_to_record(directions, 0, kValues, values.data(), bench.memory.arena), Status::kOk);
  }
  EXPECT_EQ(replica.finish_record(kDirections, kStepScale, bench.memory.arena), Status::kOk);
  return replica.digest();
}

TEST(ClientRecord, APieceAtATimeMakesTheReplicasModel) {
  for (const LeanForm* lean : {static_cast<const LeanForm*>(nullptr), &kLeanForm}) {
    Bench bench(lean);
    const size_t mark = bench.memory.arena.mark();
    EXPECT_EQ(bench.take(piece(0, 0, 32)), Status::kUnfinished);
    EXPECT_TRUE(bench.reader.is_open());
    EXPECT_EQ(bench.take(piece(0, 32, 32)), Status::kUnfinished);
    EXPECT_EQ(bench.take(piece(1, 0, 32)), Status::kUnfinished);
    EXPECT_EQ(bench.run.replica().version(), 3U);
    EXPECT_EQ(bench.take(piece(1, 32, 32)), Status::kOk);
    EXPECT_EQ(bench.run.replica().version(), 4U);
    EXPECT_EQ(bench.run.replica().digest(), expected_digest());
    EXPECT_TRUE(bench.reader.is_open()) << "for its sum";
    std::vector<Real> room(kShape.size());
    const Real* const sum = bench.reader.sum(bench.run, room.data());
    EXPECT_EQ(sum == room.data(), lean != nullptr);
    EXPECT_NE(sum[0], 0);
    bench.reader.close(bench.memory.arena);
    EXPECT_FALSE(bench.reader.is_open());
    EXPECT_EQ(bench.memory.arena.mark(), mark);
  }
}

TEST(ClientRecord, ARecordGivenUpLeavesTheModel) {
  for (const LeanForm* lean : {static_cast<const LeanForm*>(nullptr), &kLeanForm}) {
    Bench bench(lean);
    const uint64_t digest = bench.run.replica().digest();
    const size_t mark = bench.memory.arena.mark();
    EXPECT_EQ(bench.take(piece(0, 0, 64)), Status::kUnfinished);
    bench.reader.close(bench.memory.arena);
    EXPECT_EQ(bench.memory.arena.mark(), mark);
    EXPECT_EQ(bench.run.replica().digest(), digest);
    EXPECT_TRUE(bench.run.replica().has_model());
    for (uint32_t block = 0; block < 2; ++block) {  // the same record from its begin
      EXPECT_EQ(bench.take(piece(block, 0, 64)), block == 0 ? Status::kUnfinished : Status::kOk);
    }
    EXPECT_EQ(bench.run.replica().digest(), expected_digest());
  }
}

TEST(ClientRecord, PiecesThatContradictEachOtherAreRefused) {
  const std::vector<void (*)(gs_LogChunk&)> faults = {
      [](gs_LogChunk& chunk) { chunk.block_index = 1; },
      [](gs_LogChunk& chunk) { chunk.block_count = 3; },
      [](gs_LogChunk& chunk) { chunk.first_value = 0; },
      [](gs_LogChunk& chunk) { chunk.step_scale = 1; },
      [](gs_LogChunk& chunk) { chunk.from_zero = true; },
      [](gs_LogChunk& chunk) { chunk.after_step = true; },
      [](gs_LogChunk& chunk) { chunk.value_count = 96; },
      [](gs_LogChunk& chunk) { chunk.base_version = 1; },
      [](gs_LogChunk& chunk) { chunk.owner = 1; },
      [](gs_LogChunk& chunk) { chunk.encoding = gs_Encoding_ENCODING_FIXED; },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    SCOPED_TRACE(i);
    Bench bench;
    const uint64_t digest = bench.run.replica().digest();
    EXPECT_EQ(bench.take(piece(0, 0, 32)), Status::kUnfinished);
    gs_LogChunk chunk = piece(0, 32, 32);
    faults[i](chunk);
    EXPECT_EQ(bench.take(chunk), Status::kDataCorrupt);
    EXPECT_EQ(bench.run.replica().digest(), digest);
  }
}

TEST(ClientRecord, ABlockIsOfWholeSteps) {
  Bench bench;
  gs_LogChunk chunk = piece(0, 0, 32);
  chunk.value_count = 34;
  EXPECT_EQ(bench.take(chunk), Status::kDataCorrupt);
}

TEST(ClientRecord, WithoutMemoryToKeepItARecordIsOfNoUse) {
  Bench bench(&kLeanForm, gs_Correction_CORRECTION_NONE, 256);
  const size_t mark = bench.memory.arena.mark();
  EXPECT_EQ(bench.take(piece(0, 0, 32)), Status::kOutOfMemory);
  EXPECT_TRUE(bench.run.replica().has_model());
  bench.reader.close(bench.memory.arena);
  EXPECT_EQ(bench.memory.arena.mark(), mark);
}

// With a memory: blocks before and after the step, in whole words.
TEST(ClientRecord, BlocksAfterTheStepCountInTheMeanAlone) {
  const auto words_of = [](uint32_t block) {
    gs_LogChunk chunk = piece(block, 0, 32);
    chunk.encoding = gs_Encoding_ENCODING_FIXED;
    chunk.value_count = kDirections;
    FixedWord words[kDirections] = {1 << 14, -(1 << 15), 77, static_cast<FixedWord>(block)};
    chunk.values.size = static_cast<pb_size_t>(encoded_size(Encoding::kFixed, kDirections));
    store_words(kDirections, words, chunk.values.bytes);
    return chunk;
  };
  Bench bench(nullptr, gs_Correction_CORRECTION_MEMORY);
  Bench one_block(nullptr, gs_Correction_CORRECTION_MEMORY);
  gs_LogChunk after = words_of(1);
  after.after_step = true;
  EXPECT_EQ(bench.take(words_of(0)), Status::kUnfinished);
  EXPECT_EQ(bench.take(after), Status::kOk);
  gs_LogChunk alone = words_of(0);
  alone.block_count = 1;
  EXPECT_EQ(one_block.take(alone), Status::kOk);
  const Replica& a = bench.run.replica();
  const Replica& b = one_block.run.replica();
  EXPECT_TRUE(std::equal(a.model(), a.model() + kShape.size(), b.model()));
  EXPECT_FALSE(std::equal(a.mean(), a.mean() + kShape.size(), b.mean()));
  // What comes after the step cannot be followed by what comes before it.
  Bench wrong(nullptr, gs_Correction_CORRECTION_MEMORY);
  after.block_index = 0;
  EXPECT_EQ(wrong.take(after), Status::kUnfinished);
  EXPECT_EQ(wrong.take(words_of(1)), Status::kDataCorrupt);
  Bench plain(nullptr, gs_Correction_CORRECTION_MEMORY);
  EXPECT_EQ(plain.take(piece(0, 0, 32)), Status::kDataCorrupt) << "values are no words";
}

}  // namespace
}  // namespace gradstream
