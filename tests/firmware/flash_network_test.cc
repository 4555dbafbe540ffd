#include "firmware/flash_network.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/arena.h"
#include "tests/support/gsn_bytes.h"

namespace gradstream {
namespace {

constexpr uint32_t kInputs = 36;  // of the small network; then a label

struct Flash {
  SmallNetwork small;
  alignas(8) std::array<uint8_t, 8192> region;
  alignas(8) std::array<uint8_t, 4096> memory;
  std::span<uint8_t> arena = memory;
  SampleSource source = {nullptr, 3, kInputs + 1, nullptr};
  FlashNetwork network;
  GsnFault fault;

  // A shard of so many bytes, and the network behind it.
  explicit Flash(size_t shard_size) {
    region.fill(0xff);
    const std::vector<uint8_t> bytes = gsn_bytes(small.network);
    std::copy(bytes.begin(), bytes.end(), region.begin() + static_cast<ptrdiff_t>((shard_size + 3) / 4 * 4));
  }
  Status take(size_t shard_size) {
    return take_flash_network(behind_shard(region, shard_size), source, &arena, &network, &fault);
  }
};

TEST(FlashNetwork, StandsBehindTheShard) {
  for (const size_t shard_size : {400U, 401U, 403U}) {
    Flash flash(shard_size);
    ASSERT_EQ(flash.take(shard_size), Status::kOk);
    EXPECT_EQ(flash.network.problem.network_digest, network_digest(flash.small.network));
    EXPECT_EQ(flash.network.problem.problem.ops, &kNetworkOps);
    // Its layers are taken from the arena, and the rest is the client's.
    EXPECT_EQ(flash.arena.size(), flash.memory.size() - Arena::taken_size<Layer>(11));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(flash.arena.data()) % kArenaAlignment, 0u);
    EXPECT_EQ(static_cast<const void*>(flash.network.network.layers), static_cast<const void*>(flash.memory.data()));
    const uint8_t* const weights = static_cast<const uint8_t*>(flash.network.network.layers[0].weights);
    EXPECT_TRUE(weights > flash.region.data() && weights < flash.region.data() + flash.region.size()) << "in place";
  }
}

TEST(FlashNetwork, NamesTheFirstFactoredLayer) {
  const SmallNetwork small;
  EXPECT_EQ(first_factored_layer(small.network), 8U);
  Network front = small.network;
  front.layer_count = 8;
  EXPECT_EQ(first_factored_layer(front), 8U) << "none: as many as there are";
}

TEST(FlashNetwork, IsMissingOrRefused) {
  Flash flash(400);
  EXPECT_EQ(flash.take(300), Status::kUnimplemented) << "an erased page";
  EXPECT_EQ(flash.take(flash.region.size()), Status::kUnimplemented) << "the shard takes all";
  for (const uint8_t erased : {0xff, 0x00}) {
    const std::vector<uint8_t> page(100, erased);
    EXPECT_TRUE(is_network_absent(page));
  }
  EXPECT_TRUE(is_network_absent({}));
  flash.source.dimension = kInputs;
  EXPECT_EQ(flash.take(400), Status::kInvalidArgument);
  flash.source.dimension = kInputs + 1;
  flash.arena = flash.arena.first(64);
  EXPECT_EQ(flash.take(400), Status::kOutOfMemory);
  flash.arena = flash.memory;
  flash.region[400 + kGsnHeadSize + kGsnKind] = 77;
  EXPECT_EQ(flash.take(400), Status::kDataCorrupt);
  EXPECT_EQ(flash.fault.code, GsnFaultCode::kChecksum);
  EXPECT_EQ(flash.arena.size(), flash.memory.size()) << "as it was";
}

// Whatever else stands there is a network that is damaged, and no missing one.
TEST(FlashNetwork, NamesWhatStandsThereAndIsNone) {
  Flash magic(400);
  magic.region[400] = 'X';
  EXPECT_EQ(magic.take(400), Status::kDataCorrupt);
  EXPECT_EQ(magic.fault.code, GsnFaultCode::kMagic);
  Flash empty(400);
  empty.region[400 + kGsnLayerCount] = 0;
  mend_checksum(std::span(empty.region).subspan(400));
  EXPECT_EQ(empty.take(400), Status::kDataCorrupt);
  EXPECT_EQ(empty.fault.network, NetworkFaultCode::kLayerCount);
  EXPECT_FALSE(empty.fault.is_of_layer);
}

TEST(FlashNetwork, TellsANetworkThatTrainsNothing) {
  Flash flash(400);
  flash.region.fill(0xff);
  flash.small.network.layer_count = 8;
  const std::vector<uint8_t> bytes = gsn_bytes(flash.small.network);
  std::copy(bytes.begin(), bytes.end(), flash.region.begin() + 400);
  EXPECT_EQ(flash.take(400), Status::kOutOfRange);
  EXPECT_EQ(flash.arena.size(), flash.memory.size()) << "as it was";
}

}  // namespace
}  // namespace gradstream
