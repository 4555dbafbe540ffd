// The runtime at the vectors of the second implementation (vectors.json): the same bits, or another device cannot
// follow.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/base/crc32c.h"
#include "runtime/base/random.h"
#include "runtime/manifold/manifold.h"
#include "runtime/training/clip.h"
#include "runtime/training/encoding.h"
#include "runtime/training/stream.h"

namespace gradstream {
namespace {

using Json = nlohmann::json;
using Bytes = std::vector<uint8_t>;

static_assert(sizeof(Real) == 4, "the wire is of binary32");

const Json& vectors() {
  static const Json all = Json::parse(std::ifstream(GS_SOURCE_DIR "/tests/conformance/vectors.json"));
  return all;
}

// The cases of this name, of which there are some.
const Json& cases(const char* name) {
  EXPECT_FALSE(vectors().at(name).empty()) << name;
  return vectors().at(name);
}

Bytes bytes_of(const Json& hex) {
  const auto text = hex.get<std::string>();
  Bytes out;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    out.push_back(static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  }
  return out;
}

std::vector<uint32_t> words_of(const Bytes& bytes) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i + 3 < bytes.size(); i += 4) {
    out.push_back(static_cast<uint32_t>(bytes[i]) | static_cast<uint32_t>(bytes[i + 1]) << 8U |
                  static_cast<uint32_t>(bytes[i + 2]) << 16U | static_cast<uint32_t>(bytes[i + 3]) << 24U);
  }
  return out;
}

std::vector<Real> reals_of(const Json& hex) {
  std::vector<Real> out;
  for (const uint32_t word : words_of(bytes_of(hex))) {
    out.push_back(std::bit_cast<Real>(word));
  }
  return out;
}

// As bits: a zero has its sign.
std::vector<uint32_t> bits_of(const Real* values, size_t count) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < count; ++i) {
    out.push_back(std::bit_cast<uint32_t>(values[i]));
  }
  return out;
}

Encoding encoding_of(const std::string& name) {
  return name == "f32" ? Encoding::kF32 : name == "bf16" ? Encoding::kBf16 : Encoding::kInt8;
}

const ManifoldOps& manifold_of(const std::string& name) {
  return name == "euclidean" ? kEuclideanOps : name == "sphere" ? kSphereOps : kStiefelOps;
}

Shape shape_of(const Json& one) { return {one.at("rows").get<uint32_t>(), one.at("cols").get<uint32_t>()}; }

DirectionSpec directions_of(const Json& one, const Json& block, uint32_t direction_count) {
  DirectionSpec spec;
  spec.kind = DirectionKind::kSign;
  spec.seed = one.at("seed");
  spec.shared = block.at("domain") == static_cast<uint32_t>(RandomDomain::kSharedDirections);
  spec.base_version = block.at("version");
  spec.owner = block.at("owner");
  spec.direction_count = direction_count;
  return spec;
}

// With memory for a model of 128 numbers and all that a record takes.
struct Held {
  explicit Held(const Json& one, bool has_mean) {
    EXPECT_EQ(replica.prepare(manifold_of(one.at("manifold")), shape_of(one), arena, has_mean), Status::kOk);
    const std::vector<Real> before = reals_of(one.at("before"));
    std::copy(before.begin(), before.end(), replica.begin_snapshot());
    for (size_t e = 0; has_mean && e < before.size(); ++e) {
      replica.mean_buffer()[e] = one.at("mean")[e];
    }
    replica.adopt_snapshot(1);
  }
  void expect_after(const Json& one) {
    EXPECT_EQ(bits_of(replica.model(), replica.shape().size()), words_of(bytes_of(one.at("after"))));
    EXPECT_EQ(replica.digest(), std::stoull(one.at("digest").get<std::string>(), nullptr, 16));
  }
  alignas(16) uint8_t memory[16384] = {};
  Arena arena{memory, sizeof(memory)};
  Replica replica;
};

TEST(WireVectors, TheRandomStream) {
  for (const Json& one : cases("philox")) {
    const auto counter = one.at("counter").get<std::vector<uint32_t>>();
    const auto key = one.at("key").get<std::vector<uint32_t>>();
    std::vector<uint32_t> words(4);
    philox4x32(counter.data(), key.data(), words.data());
    EXPECT_EQ(words, one.at("words").get<std::vector<uint32_t>>());
  }
}

TEST(WireVectors, SignDirections) {
  for (const Json& one : cases("signs")) {
    const Shape shape = shape_of(one);
    const uint32_t j = one.at("j");
    std::vector<Real> direction(shape.size());
    fill_direction(directions_of(one, one, j + 1), shape, one.at("step"), j, direction.data());
    std::string signs;
    for (const Real value : direction) {
      signs += value > 0 ? '+' : '-';
    }
    EXPECT_EQ(signs, one.at("signs"));
  }
}

RandomKey key_of(const Json& one, RandomDomain domain) {
  return {one.at("seed"), domain, one.at("version"), one.at("client"), one.at("step")};
}

TEST(WireVectors, Minibatches) {
  for (const Json& one : cases("minibatches")) {
    const uint32_t n = one.at("n");
    const uint32_t size = std::min(n, one.at("size").get<uint32_t>());
    std::vector<uint16_t> work(n);
    for (uint32_t i = 0; i < n; ++i) {
      work[i] = static_cast<uint16_t>(i);
    }
    if (size < n) {
      choose(key_of(one, RandomDomain::kMinibatch), n, size, work.data());
    }
    work.resize(size);
    EXPECT_EQ(work, one.at("indices").get<std::vector<uint16_t>>());
  }
}

TEST(WireVectors, WordsThatChooseOne) {
  for (const Json& one : cases("samples_of_directions")) {
    RandomStream stream(key_of(one, RandomDomain::kMinibatch));
    for (const Json& index : one.at("indices")) {
      EXPECT_EQ(static_cast<uint64_t>(stream.next()) * one.at("n").get<uint32_t>() >> 32U, index);
    }
  }
  for (const Json& one : cases("iterates")) {
    RandomKey key = key_of(one, RandomDomain::kIterate);
    key.step = 0;
    const uint64_t word = RandomStream(key).next();
    EXPECT_EQ(word * one.at("step_count").get<uint32_t>() >> 32U, one.at("iterate"));
  }
}

TEST(WireVectors, Encodings) {
  for (const Json& one : cases("encodings")) {
    const Encoding encoding = encoding_of(one.at("encoding"));
    const std::vector<Real> values = reals_of(one.at("values"));
    Bytes bytes(encoded_size(encoding, values.size()));
    ASSERT_EQ(encode_values(encoding, values.size(), values.data(), bytes.data()), Status::kOk);
    EXPECT_EQ(bytes, bytes_of(one.at("bytes"))) << one.at("encoding");
    EXPECT_EQ(crc32c(0, bytes.data(), bytes.size()), one.at("crc32c"));
    std::vector<Real> decoded(values.size());
    ASSERT_EQ(decode_values(encoding, values.size(), bytes.data(), bytes.size(), decoded.data()), Status::kOk);
    EXPECT_EQ(bits_of(decoded.data(), decoded.size()), words_of(bytes_of(one.at("decoded"))));
  }
}

TEST(WireVectors, Records) {
  for (const Json& one : cases("records")) {
    Held held(one, false);
    const Encoding encoding = encoding_of(one.at("encoding"));
    const uint32_t m = one.at("m");
    ASSERT_EQ(held.replica.begin_record(), Status::kOk);
    for (const Json& block : one.at("blocks")) {
      const Bytes bytes = bytes_of(block.at("bytes"));
      uint32_t count = m;
      while (encoded_size(encoding, count) < bytes.size()) {
        count += m;
      }
      std::vector<Real> values(count);
      ASSERT_EQ(decode_values(encoding, count, bytes.data(), bytes.size(), values.data()), Status::kOk);
      const DirectionSpec spec = directions_of(one, block, m);
      ASSERT_EQ(held.replica.add_to_record(spec, 0, count, values.data(), held.arena), Status::kOk);
    }
    ASSERT_EQ(held.replica.finish_record(m, reals_of(one.at("step_scale"))[0], held.arena), Status::kOk);
    held.expect_after(one);
  }
}

TEST(WireVectors, RecordsOfTheMemoryForm) {
  for (const Json& one : cases("memory_records")) {
    Held held(one, true);
    const uint32_t m = one.at("m");
    bool is_after = false;
    const auto take_step = [&] {
      return held.replica.take_exact_step(m, reals_of(one.at("step_scale"))[0], one.at("fold_scale_log2"), held.arena);
    };
    ASSERT_EQ(held.replica.begin_exact_record(one.at("from_zero")), Status::kOk);
    for (const Json& block : one.at("blocks")) {
      if (block.at("after_step") && !is_after) {
        ASSERT_EQ(take_step(), Status::kOk);
        is_after = true;
      }
      const auto words = block.at("words").get<std::vector<FixedWord>>();
      const auto count = static_cast<uint32_t>(words.size());
      ASSERT_EQ(held.replica.add_exact(directions_of(one, block, m), 0, count, words.data()), Status::kOk);
    }
    ASSERT_TRUE(is_after);
    ASSERT_EQ(held.replica.finish_exact_record(), Status::kOk);
    const auto mean = one.at("mean_after").get<std::vector<FixedWord>>();
    EXPECT_TRUE(std::equal(mean.begin(), mean.end(), held.replica.mean()));
    held.expect_after(one);
  }
}

TEST(WireVectors, WhatAClipLeaves) {
  for (const Json& one : cases("clips")) {
    std::vector<Real> values = reals_of(one.at("values"));
    const OwnClip clip{one.at("fold_scale_log2"), one.at("clip_scale")};
    ASSERT_EQ(clip.apply(values.size(), values.data()), Status::kOk);
    EXPECT_EQ(bits_of(values.data(), values.size()), words_of(bytes_of(one.at("left")))) << one.at("clip_scale");
  }
}

}  // namespace
}  // namespace gradstream
