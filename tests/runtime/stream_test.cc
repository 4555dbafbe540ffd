#include "runtime/training/stream.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr Shape kShape = {64, 4};
constexpr uint32_t kDirections = 16;
constexpr uint32_t kSteps = 5;
constexpr uint32_t kCount = kDirections * kSteps;

DirectionSpec spec_of(DirectionKind kind, bool shared = true) {
  DirectionSpec spec;
  spec.kind = kind;
  spec.shared = shared;
  spec.seed = 11;
  spec.base_version = 4;
  spec.owner = 3;
  spec.direction_count = kDirections;
  return spec;
}

std::vector<Real> direction(const DirectionSpec& spec, Shape shape, uint32_t step, uint32_t j) {
  std::vector<Real> out(shape.size(), 99);
  fill_direction(spec, shape, step, j, out.data());
  return out;
}

// The layout of the reference, word by word: bit e % 32 of word j * ceil(pr / 32) + e / 32.
TEST(Directions, SignsFollowTheLayout) {
  for (const Shape shape : {Shape{64, 4}, Shape{5, 3}, Shape{33, 1}}) {
    const DirectionSpec spec = spec_of(DirectionKind::kSign, false);
    const RandomKey key = {spec.seed, RandomDomain::kOwnDirections, spec.base_version, spec.owner, 2};
    const size_t words = (shape.size() + 31) / 32;
    const Real magnitude = 1 / std::sqrt(static_cast<Real>(shape.size()));
    for (uint32_t j = 0; j < 3; ++j) {
      const std::vector<Real> u = direction(spec, shape, 2, j);
      for (size_t e = 0; e < shape.size(); ++e) {
        RandomStream stream(key, j * words + e / 32);
        const bool is_set = (stream.next() >> (e % 32)) & 1;
        ASSERT_EQ(u[e], is_set ? magnitude : -magnitude);
      }
    }
  }
}

TEST(Directions, SignsAreReadAtAnyPlace) {
  for (const Shape shape : {Shape{64, 4}, Shape{5, 3}, Shape{33, 7}, Shape{1200, 1}}) {
    const DirectionSpec spec = spec_of(DirectionKind::kSign);
    const Real value = sign_distance(shape, static_cast<Real>(-0.01));
    for (uint32_t j = 0; j < 3; ++j) {
      const std::vector<Real> u = direction(spec, shape, 2, j);
      std::vector<Real> expected = random_values(shape.size(), 5);
      const std::vector<Real> z = expected;
      for (size_t e = 0; e < u.size(); ++e) {
        expected[e] = expected[e] + static_cast<Real>(-0.01) * u[e];
      }
      SignReader reader(spec, shape, 2, j);
      for (const size_t width : {size_t{1}, size_t{10}, size_t{31}, size_t{32}, size_t{200}}) {
        for (size_t at = 0; at < u.size(); at += 7) {
          const size_t count = std::min(width, u.size() - at);
          std::vector<Real> found(z.begin() + static_cast<long>(at), z.begin() + static_cast<long>(at + count));
          reader.add(at, count, value, found.data());
          ASSERT_TRUE(std::equal(found.begin(), found.end(), expected.begin() + static_cast<long>(at)));
        }
      }
    }
  }
}

TEST(Directions, ARangeHasTheBitsOfTheWhole) {
  TestArena memory;
  for (const Shape shape : {Shape{64, 4}, Shape{5, 3}, Shape{1000, 1}}) {
    const DirectionSpec spec = spec_of(DirectionKind::kSign, false);
    const std::vector<Real> coefficients = random_values(kCount, 6);
    std::vector<Real> whole = random_values(shape.size(), 7);
    const std::vector<Real> before = whole;
    ASSERT_EQ(accumulate_directions(spec, shape, 3, 40, coefficients.data(), whole.data(), memory.arena), Status::kOk);
    for (const size_t width : {size_t{1}, size_t{50}, size_t{128}, size_t{5000}}) {
      std::vector<Real> pieces = before;
      for (size_t at = 0; at < pieces.size(); at += width) {
        accumulate_range(spec, shape, 3, 40, coefficients.data(), at, std::min(width, pieces.size() - at), &pieces[at]);
      }
      EXPECT_EQ(pieces, whole) << width;
    }
  }
}

TEST(Directions, SphereFollowsTheLayout) {
  const DirectionSpec spec = spec_of(DirectionKind::kSphere);
  const RandomKey key = {spec.seed, RandomDomain::kSharedDirections, spec.base_version, spec.owner, 1};
  std::vector<Real> normals(3 * kShape.size());
  fill_normal(key, 0, normals.size(), normals.data());
  const std::vector<Real> u = direction(spec, kShape, 1, 2);
  const Real* g = normals.data() + 2 * kShape.size();
  const Real norm = norm2(kShape.size(), g);
  for (size_t e = 0; e < kShape.size(); ++e) {
    ASSERT_EQ(u[e], g[e] / norm);
  }
}

TEST(Directions, HaveUnitNormAndDependOnEveryName) {
  for (const DirectionKind kind : {DirectionKind::kSign, DirectionKind::kSphere}) {
    const DirectionSpec spec = spec_of(kind);
    const std::vector<Real> u = direction(spec, kShape, 0, 0);
    EXPECT_NEAR(norm2(u.size(), u.data()), 1, 1e-6);
    EXPECT_NE(u, direction(spec, kShape, 0, 1));
    EXPECT_NE(u, direction(spec, kShape, 1, 0));
    DirectionSpec other = spec;
    other.shared = false;
    EXPECT_NE(u, direction(other, kShape, 0, 0));
    other = spec;
    other.seed = 12;
    EXPECT_NE(u, direction(other, kShape, 0, 0));
    other = spec;
    other.base_version = 5;
    EXPECT_NE(u, direction(other, kShape, 0, 0));
    other = spec;
    other.owner = 4;
    EXPECT_NE(u, direction(other, kShape, 0, 0));
    EXPECT_EQ(u, direction(spec, kShape, 0, 0));
  }
}

TEST(Accumulate, IsTheSumInOrder) {
  TestArena memory;
  const std::vector<Real> coefficients = random_values(kCount, 1);
  for (const DirectionKind kind : {DirectionKind::kSign, DirectionKind::kSphere}) {
    const DirectionSpec spec = spec_of(kind);
    std::vector<Real> sum = random_values(kShape.size(), 2);
    std::vector<Real> expected = sum;
    for (uint32_t q = 0; q < kCount; ++q) {
      const std::vector<Real> u = direction(spec, kShape, q / kDirections, q % kDirections);
      for (size_t e = 0; e < kShape.size(); ++e) {
        expected[e] += coefficients[q] * u[e];
      }
    }
    ASSERT_EQ(accumulate_directions(spec, kShape, 0, kCount, coefficients.data(), sum.data(), memory.arena),
              Status::kOk);
    EXPECT_EQ(sum, expected);
  }
}

TEST(Accumulate, AnySplitIntoChunksGivesTheSameBits) {
  TestArena memory;
  const std::vector<Real> coefficients = random_values(kCount, 1);
  for (const DirectionKind kind : {DirectionKind::kSign, DirectionKind::kSphere}) {
    for (const Shape shape : {kShape, Shape{7, 3}}) {
      const DirectionSpec spec = spec_of(kind);
      std::vector<Real> whole(shape.size());
      ASSERT_EQ(accumulate_directions(spec, shape, 0, kCount, coefficients.data(), whole.data(), memory.arena),
                Status::kOk);
      for (uint32_t chunk = 1; chunk <= kCount; chunk += chunk < 40 ? 1 : 7) {
        std::vector<Real> sum(shape.size());
        for (uint32_t first = 0; first < kCount; first += chunk) {
          const uint32_t count = std::min(chunk, kCount - first);
          ASSERT_EQ(accumulate_directions(spec, shape, first, count, &coefficients[first], sum.data(), memory.arena),
                    Status::kOk);
        }
        ASSERT_EQ(sum, whole) << chunk;
      }
    }
  }
}

TEST(Accumulate, RefusesAndLeavesTheSum) {
  TestArena small(64);
  const std::vector<Real> coefficients(4, 1);
  std::vector<Real> sum(kShape.size(), 5);
  DirectionSpec spec = spec_of(DirectionKind::kSphere);
  EXPECT_EQ(accumulate_directions(spec, kShape, 0, 4, coefficients.data(), sum.data(), small.arena),
            Status::kOutOfMemory);
  spec.kind = DirectionKind::kNone;
  EXPECT_EQ(accumulate_directions(spec, kShape, 0, 4, coefficients.data(), sum.data(), small.arena),
            Status::kInvalidArgument);
  spec = spec_of(DirectionKind::kSign);
  spec.direction_count = 0;
  EXPECT_EQ(accumulate_directions(spec, kShape, 0, 4, coefficients.data(), sum.data(), small.arena),
            Status::kInvalidArgument);
  EXPECT_EQ(sum, std::vector<Real>(kShape.size(), 5));
  spec.direction_count = kDirections;
  EXPECT_EQ(accumulate_directions(spec, kShape, 0, 4, coefficients.data(), sum.data(), small.arena), Status::kOk);
  EXPECT_EQ(small.arena.high_water_size(), 0u) << "signs take no scratch";
}

TEST(Accumulate, ScratchIsWhatItSays) {
  for (const DirectionKind kind : {DirectionKind::kSign, DirectionKind::kSphere}) {
    TestArena memory;
    const std::vector<Real> coefficients(1, 1);
    std::vector<Real> sum(kShape.size());
    const DirectionSpec spec = spec_of(kind);
    ASSERT_EQ(accumulate_directions(spec, kShape, 0, 1, coefficients.data(), sum.data(), memory.arena), Status::kOk);
    EXPECT_EQ(memory.arena.high_water_size(), accumulate_scratch_size(spec, kShape));
  }
}

// A replica with a model, its arena and the model it began with.
struct TestReplica {
  explicit TestReplica(const ManifoldOps& manifold = kStiefelOps, Shape shape = kShape, uint32_t version = 4)
      : start(random_point(manifold, shape, 9)) {
    EXPECT_EQ(replica.prepare(manifold, shape, memory.arena), Status::kOk);
    std::copy(start.begin(), start.end(), replica.begin_snapshot());
    replica.adopt_snapshot(version);
  }
  std::vector<Real> model() const { return {replica.model(), replica.model() + replica.shape().size()}; }
  Status record(const DirectionSpec& spec, const std::vector<Real>& coefficients, Real step_scale, uint32_t chunk) {
    GS_TRY(replica.begin_record());
    const uint32_t count = static_cast<uint32_t>(coefficients.size());
    for (uint32_t first = 0; first < count; first += chunk) {
      GS_TRY(replica.add_to_record(spec, first, std::min(chunk, count - first), &coefficients[first], memory.arena));
    }
    return replica.finish_record(spec.direction_count, step_scale, memory.arena);
  }
  TestArena memory;
  std::vector<Real> start;
  Replica replica;
};

TEST(Replica, RecordIsTheFormula) {
  const DirectionSpec spec = spec_of(DirectionKind::kSign);
  const std::vector<Real> coefficients = random_values(kCount, 3);
  const Real step_scale = static_cast<Real>(0.01);
  TestReplica test;
  ASSERT_EQ(test.record(spec, coefficients, step_scale, kCount), Status::kOk);
  TestArena memory;
  std::vector<Real> sum(kShape.size());
  ASSERT_EQ(accumulate_directions(spec, kShape, 0, kCount, coefficients.data(), sum.data(), memory.arena), Status::kOk);
  std::vector<Real> expected(kShape.size());
  const Real factor = step_scale * (Real{256} / Real{16});
  for (size_t e = 0; e < kShape.size(); ++e) {
    expected[e] = test.start[e] - factor * sum[e];
  }
  ASSERT_EQ(kStiefelOps.project_point(kShape, expected.data(), expected.data(), memory.arena), Status::kOk);
  EXPECT_EQ(test.model(), expected);
  EXPECT_EQ(test.replica.version(), 5u);
  EXPECT_EQ(test.replica.digest(), digest_values(kDigestStart, kShape.size(), expected.data()));
  EXPECT_EQ((std::vector<Real>{test.replica.record_sum(), test.replica.record_sum() + kShape.size()}), sum);
}

TEST(Replica, AnySplitOfARecordGivesTheSameDigest) {
  const DirectionSpec spec = spec_of(DirectionKind::kSign);
  const std::vector<Real> coefficients = random_values(kCount, 3);
  TestReplica whole;
  ASSERT_EQ(whole.record(spec, coefficients, static_cast<Real>(0.01), kCount), Status::kOk);
  for (const uint32_t chunk : {1u, 7u, 16u, 32u, 79u}) {
    TestReplica pieces;
    ASSERT_EQ(pieces.record(spec, coefficients, static_cast<Real>(0.01), chunk), Status::kOk);
    EXPECT_EQ(pieces.replica.digest(), whole.replica.digest()) << chunk;
  }
}

TEST(Replica, BlocksOfTwoOwnersAddUp) {
  const DirectionSpec first = spec_of(DirectionKind::kSign, false);
  DirectionSpec second = first;
  second.owner = 8;
  const std::vector<Real> coefficients = random_values(2 * kCount, 3);
  TestReplica test;
  ASSERT_EQ(test.replica.begin_record(), Status::kOk);
  ASSERT_EQ(test.replica.add_to_record(first, 0, kCount, coefficients.data(), test.memory.arena), Status::kOk);
  ASSERT_EQ(test.replica.add_to_record(second, 0, kCount, &coefficients[kCount], test.memory.arena), Status::kOk);
  ASSERT_EQ(test.replica.finish_record(kDirections, static_cast<Real>(0.01), test.memory.arena), Status::kOk);
  TestArena memory;
  std::vector<Real> sum(kShape.size());
  ASSERT_EQ(accumulate_directions(first, kShape, 0, kCount, coefficients.data(), sum.data(), memory.arena),
            Status::kOk);
  ASSERT_EQ(accumulate_directions(second, kShape, 0, kCount, &coefficients[kCount], sum.data(), memory.arena),
            Status::kOk);
  EXPECT_EQ((std::vector<Real>{test.replica.record_sum(), test.replica.record_sum() + kShape.size()}), sum);
}

TEST(Replica, NeedsAModelAndARecordBegun) {
  TestArena memory;
  Replica replica;
  ASSERT_EQ(replica.prepare(kStiefelOps, kShape, memory.arena), Status::kOk);
  const std::vector<Real> v(kShape.size());
  EXPECT_FALSE(replica.has_model());
  EXPECT_EQ(replica.begin_record(), Status::kProtocolError);
  EXPECT_EQ(replica.step_tangent(v.data(), 1, memory.arena), Status::kProtocolError);
  TestReplica test;
  const DirectionSpec spec = spec_of(DirectionKind::kSign);
  EXPECT_EQ(test.replica.add_to_record(spec, 0, 1, v.data(), test.memory.arena), Status::kProtocolError);
  EXPECT_EQ(test.replica.finish_record(kDirections, 1, test.memory.arena), Status::kProtocolError);
  ASSERT_EQ(test.record(spec, {1}, static_cast<Real>(0.01), 1), Status::kOk);
  EXPECT_EQ(test.replica.finish_record(kDirections, 1, test.memory.arena), Status::kProtocolError) << "finished twice";
  ASSERT_EQ(test.replica.begin_record(), Status::kOk);
  test.replica.begin_snapshot();
  EXPECT_FALSE(test.replica.has_model());
  EXPECT_EQ(test.replica.add_to_record(spec, 0, 1, v.data(), test.memory.arena), Status::kProtocolError);
}

TEST(Replica, AnAbandonedRecordLeavesNoTrace) {
  const DirectionSpec spec = spec_of(DirectionKind::kSign);
  const std::vector<Real> coefficients = random_values(kCount, 3);
  TestReplica test;
  ASSERT_EQ(test.replica.begin_record(), Status::kOk);
  ASSERT_EQ(test.replica.add_to_record(spec, 0, 40, coefficients.data(), test.memory.arena), Status::kOk);
  EXPECT_EQ(test.model(), test.start);
  ASSERT_EQ(test.record(spec, coefficients, static_cast<Real>(0.01), kCount), Status::kOk);
  TestReplica fresh;
  ASSERT_EQ(fresh.record(spec, coefficients, static_cast<Real>(0.01), kCount), Status::kOk);
  EXPECT_EQ(test.replica.digest(), fresh.replica.digest());
}

TEST(Replica, AFailedStepLeavesTheModel) {
  const DirectionSpec spec = spec_of(DirectionKind::kSign);
  TestReplica test;
  const Real infinity = std::numeric_limits<Real>::infinity();
  EXPECT_EQ(test.record(spec, {1}, infinity, 1), Status::kNotFinite);
  EXPECT_EQ(test.record(spec, {std::numeric_limits<Real>::max(), std::numeric_limits<Real>::max()}, 1, 2),
            Status::kNotFinite);
  ASSERT_EQ(test.replica.begin_record(), Status::kOk);
  EXPECT_EQ(test.replica.finish_record(0, 1, test.memory.arena), Status::kInvalidArgument);
  std::vector<Real> v(kShape.size(), infinity);
  EXPECT_NE(test.replica.step_tangent(v.data(), 1, test.memory.arena), Status::kOk);
  // From X to exactly 0, where P_M has no answer.
  TestReplica sphere(kSphereOps, {8, 1});
  v = sphere.start;
  EXPECT_EQ(sphere.replica.step_gradient(v.data(), 1, sphere.memory.arena), Status::kSingular);
  EXPECT_EQ(sphere.model(), sphere.start);
  EXPECT_EQ(test.model(), test.start);
  EXPECT_EQ(test.replica.version(), 4u);
}

TEST(Replica, StepTangentProjectsAndRetracts) {
  TestReplica test;
  TestArena memory;
  std::vector<Real> v = random_values(kShape.size(), 21);
  std::vector<Real> preview(kShape.size());
  ASSERT_EQ(test.replica.tangent_step(v.data(), static_cast<Real>(0.5), preview.data(), memory.arena), Status::kOk);
  EXPECT_EQ(test.model(), test.start);
  ASSERT_EQ(test.replica.step_tangent(v.data(), static_cast<Real>(0.5), test.memory.arena), Status::kOk);
  EXPECT_EQ(test.model(), preview);
  ASSERT_EQ(kStiefelOps.project_tangent(kShape, test.start.data(), v.data(), v.data(), memory.arena), Status::kOk);
  scale(v.size(), static_cast<Real>(0.5), v.data());
  std::vector<Real> expected(kShape.size());
  ASSERT_EQ(kStiefelOps.retract(kShape, test.start.data(), v.data(), expected.data(), memory.arena), Status::kOk);
  EXPECT_EQ(test.model(), expected);
  EXPECT_EQ(test.replica.version(), 5u);
}

TEST(Replica, StepGradientDescendsAndProjects) {
  TestReplica test;
  TestArena memory;
  const std::vector<Real> g = random_values(kShape.size(), 22);
  ASSERT_EQ(test.replica.step_gradient(g.data(), static_cast<Real>(0.1), test.memory.arena), Status::kOk);
  std::vector<Real> expected = test.start;
  add_scaled(g.size(), static_cast<Real>(-0.1), g.data(), expected.data());
  ASSERT_EQ(kStiefelOps.project_point(kShape, expected.data(), expected.data(), memory.arena), Status::kOk);
  EXPECT_EQ(test.model(), expected);
  EXPECT_EQ(test.replica.version(), 5u);
  EXPECT_EQ(test.replica.step_gradient(g.data(), std::numeric_limits<Real>::infinity(), test.memory.arena),
            Status::kNotFinite);
  EXPECT_EQ(test.model(), expected);
  test.replica.begin_snapshot();
  EXPECT_EQ(test.replica.step_gradient(g.data(), 1, test.memory.arena), Status::kProtocolError);
}

TEST(Replica, PrepareTakesTwoTensorsOrNothing) {
  TestArena memory;
  Replica replica;
  ASSERT_EQ(replica.prepare(kStiefelOps, kShape, memory.arena), Status::kOk);
  EXPECT_EQ(memory.arena.mark(), Replica::persistent_size(kShape));
  EXPECT_EQ(memory.arena.mark(), 2 * kShape.size() * sizeof(Real));
  TestArena small(kShape.size() * sizeof(Real) * 3 / 2);
  EXPECT_EQ(replica.prepare(kStiefelOps, kShape, small.arena), Status::kOutOfMemory);
  EXPECT_EQ(small.arena.mark(), 0u);
  EXPECT_EQ(replica.prepare(kStiefelOps, Shape{4, 64}, memory.arena), Status::kInvalidArgument);
}

TEST(Replica, ScratchIsWhatItSays) {
  TestReplica test;
  ASSERT_EQ(test.record(spec_of(DirectionKind::kSign), {1}, static_cast<Real>(0.01), 1), Status::kOk);
  const std::vector<Real> v(kShape.size());
  ASSERT_EQ(test.replica.step_tangent(v.data(), 1, test.memory.arena), Status::kOk);
  EXPECT_LE(test.memory.arena.high_water_size(),
            Replica::persistent_size(kShape) + Replica::scratch_size(kStiefelOps, kShape));
}

TEST(Replica, FlipBitChangesTheDigestAndBack) {
  TestReplica test;
  const uint64_t digest = test.replica.digest();
  test.replica.flip_bit_for_test(1000);
  EXPECT_NE(test.replica.digest(), digest);
  test.replica.flip_bit_for_test(1000);
  EXPECT_EQ(test.replica.digest(), digest);
}

// c = (pr/m) (record_sum - own mean), in long hand.
void check_correction(Encoding encoding, DirectionKind kind, uint32_t steps_done, bool in_place) {
  const uint32_t count = steps_done * kDirections;
  const DirectionSpec spec = spec_of(kind);
  const std::vector<Real> scalars = random_values(count, 31);
  std::vector<uint8_t> upload(encoded_size(encoding, count));
  ASSERT_EQ(encode_values(encoding, count, scalars.data(), upload.data()), Status::kOk);
  std::vector<Real> decoded(count);
  ASSERT_EQ(decode_values(encoding, count, upload.data(), upload.size(), decoded.data()), Status::kOk);
  const std::vector<Real> record_sum = random_values(kShape.size(), 32);
  TestArena memory;
  std::vector<Real> own(kShape.size());
  ASSERT_EQ(accumulate_directions(spec, kShape, 0, count, decoded.data(), own.data(), memory.arena), Status::kOk);
  std::vector<Real> correction = record_sum;
  const Real* source = in_place ? correction.data() : record_sum.data();
  ASSERT_EQ(fill_correction(spec, kShape, source, steps_done, encoding, upload.data(), upload.size(), correction.data(),
                            memory.arena),
            Status::kOk);
  for (size_t e = 0; e < kShape.size(); ++e) {
    const double expected = 16.0 * (record_sum[e] - static_cast<double>(own[e]) / steps_done);
    ASSERT_NEAR(correction[e], expected, 1e-4) << e;
  }
}

TEST(Correction, IsTheRecordLessTheOwnMean) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kBf16, Encoding::kInt8}) {
    check_correction(encoding, DirectionKind::kSign, kSteps, false);
    check_correction(encoding, DirectionKind::kSign, 3, true);
    check_correction(encoding, DirectionKind::kSphere, kSteps, true);
  }
}

// With everybody's record folded exactly, the corrections of all devices add up to zero.
TEST(Correction, SumsToZeroOverTheFleet) {
  const DirectionSpec spec = spec_of(DirectionKind::kSign);
  constexpr uint32_t kDevices = 4;
  TestArena memory;
  std::vector<Real> folded(kCount);
  std::vector<std::vector<uint8_t>> uploads;
  for (uint32_t i = 0; i < kDevices; ++i) {
    const std::vector<Real> scalars = random_values(kCount, 50 + i);
    uploads.emplace_back(encoded_size(Encoding::kF32, kCount));
    ASSERT_EQ(encode_values(Encoding::kF32, kCount, scalars.data(), uploads[i].data()), Status::kOk);
    add_scaled(kCount, Real{1} / (kDevices * kSteps), scalars.data(), folded.data());
  }
  TestReplica test;
  ASSERT_EQ(test.record(spec, folded, static_cast<Real>(0.01), kCount), Status::kOk);
  std::vector<Real> total(kShape.size());
  for (const std::vector<uint8_t>& upload : uploads) {
    std::vector<Real> correction(kShape.size());
    ASSERT_EQ(fill_correction(spec, kShape, test.replica.record_sum(), kSteps, Encoding::kF32, upload.data(),
                              upload.size(), correction.data(), memory.arena),
              Status::kOk);
    add_scaled(kShape.size(), 1, correction.data(), total.data());
  }
  EXPECT_LT(norm2(kShape.size(), total.data()), 1e-3);
}

TEST(Correction, RefusesBytesThatAreNotTheUpload) {
  const DirectionSpec spec = spec_of(DirectionKind::kSign);
  TestArena memory;
  const std::vector<Real> sum(kShape.size());
  std::vector<Real> correction(kShape.size());
  std::vector<uint8_t> upload(encoded_size(Encoding::kF32, kCount));
  const auto fill = [&](uint32_t steps, Encoding encoding, size_t size) {
    return fill_correction(spec, kShape, sum.data(), steps, encoding, upload.data(), size, correction.data(),
                           memory.arena);
  };
  EXPECT_EQ(fill(kSteps, Encoding::kF32, upload.size()), Status::kOk);
  EXPECT_EQ(fill(0, Encoding::kF32, 0), Status::kInvalidArgument);
  EXPECT_EQ(fill(4, Encoding::kF32, upload.size()), Status::kInvalidArgument);
  EXPECT_EQ(fill(kSteps, Encoding::kBf16, upload.size()), Status::kInvalidArgument);
  EXPECT_EQ(fill(kSteps, Encoding::kNone, 0), Status::kInvalidArgument);
  upload[7] = 0x7f;
  upload[6] = 0xc0;
  EXPECT_EQ(fill(kSteps, Encoding::kF32, upload.size()), Status::kNotFinite);
}

}  // namespace
}  // namespace gradstream
