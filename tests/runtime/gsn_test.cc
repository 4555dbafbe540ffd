#include "runtime/problem/gsn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/problem/gsn_text.h"
#include "tests/support/gsn_bytes.h"

namespace gradstream {
namespace {

using Bytes = std::vector<uint8_t>;
using Code = GsnFaultCode;
using Network_ = NetworkFaultCode;

struct Read {
  std::vector<Layer> layers = std::vector<Layer>(kLayerCountMax);
  Network network;
  GsnFault fault;
  std::string text;
};

// The bytes stand alone in memory, so that a sanitizer sees what is read beyond them.
Read read(std::span<const uint8_t> bytes) {
  const auto copy = std::make_unique<uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  Read out;
  out.fault = read_gsn({copy.get(), bytes.size()}, out.layers, &out.network);
  out.text = GsnFaultText(out.fault).c_str();
  return out;
}

size_t record_at(size_t layer) { return kGsnHeadSize + layer * kGsnRecordSize; }
size_t pair_at(size_t layer, GsnArray array) { return record_at(layer) + kGsnData + 8 * static_cast<size_t>(array); }

TEST(Gsn, GivesTheNetworkThatWasWritten) {
  const SmallNetwork small;
  Bytes bytes = gsn_bytes(small.network);
  bytes.resize(bytes.size() + 1000, 0xff);  // the rest of a flash page
  std::array<Layer, kLayerCountMax> layers;
  Network network;
  ASSERT_EQ(gsn_layer_count(bytes), 11u);
  const GsnFault fault = read_gsn(bytes, layers, &network);
  ASSERT_EQ(fault.code, Code::kNone) << GsnFaultText(fault).c_str();
  EXPECT_EQ(network.in, small.network.in);
  EXPECT_EQ(network.scale, small.network.scale);
  EXPECT_EQ(network.offset, small.network.offset);
  EXPECT_EQ(network.loss, small.network.loss);
  ASSERT_EQ(network.layer_count, small.network.layer_count);
  for (size_t i = 0; i < network.layer_count; ++i) {
    const Layer& got = network.layers[i];
    const Layer& wanted = small.layers[i];
    EXPECT_EQ(got.kind, wanted.kind) << i;
    EXPECT_EQ(got.activation, wanted.activation) << i;
    EXPECT_EQ(got.form, wanted.form) << i;
    EXPECT_EQ(got.trained, wanted.trained) << i;
    EXPECT_EQ(got.in, wanted.in) << i;
    EXPECT_EQ(got.out, wanted.out) << i;
    EXPECT_EQ(got.kernel_height, wanted.kernel_height) << i;
    EXPECT_EQ(got.stride_width, wanted.stride_width) << i;
    EXPECT_EQ(got.pad_top, wanted.pad_top) << i;
    EXPECT_EQ(got.rank, wanted.rank) << i;
    EXPECT_EQ(got.add_from, wanted.add_from) << i;
    const auto read_arrays = arrays_of(got), wanted_arrays = arrays_of(wanted);
    for (size_t j = 0; j < kGsnArrayCount; ++j) {
      ASSERT_EQ(read_arrays[j].size(), wanted_arrays[j].size()) << i << " " << j;
      EXPECT_TRUE(std::equal(read_arrays[j].begin(), read_arrays[j].end(), wanted_arrays[j].begin())) << i << " " << j;
      EXPECT_TRUE(read_arrays[j].empty() ||
                  (read_arrays[j].data() > bytes.data() && read_arrays[j].data() < bytes.data() + bytes.size()))
          << "read in place";
    }
  }
  EXPECT_EQ(network_digest(network), network_digest(small.network));
}

// A cut file is known as one, wherever it was cut, and nothing behind the cut is read.
TEST(Gsn, RefusesEveryCut) {
  const SmallNetwork small;
  const Bytes good = gsn_bytes(small.network);
  for (size_t size = 0; size < good.size(); ++size) {
    const Read cut = read(std::span(good).first(size));
    const Code wanted = size < kGsnHeadSize + kGsnRecordSize ? Code::kTooShort : Code::kSize;
    EXPECT_EQ(cut.fault.code, wanted) << size;
    EXPECT_EQ(cut.network.layer_count, 0u) << "untouched";
  }
  EXPECT_EQ(read(good).fault.code, Code::kNone);
}

// One bit anywhere: in what it promises of itself, or found by the checksum.
TEST(Gsn, RefusesEveryBit) {
  const SmallNetwork small;
  const Bytes good = gsn_bytes(small.network);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
    EXPECT_NE(read(bad).fault.code, Code::kNone) << bit;
  }
}

struct Wrong {
  const char* what;
  std::function<void(Bytes&)> spoil;
  Code code;
  uint32_t layer;   // UINT32_MAX: none is named
  uint32_t offset;  // of the field
  uint32_t value;
  uint32_t limit;
  const char* text;  // a piece of the sentence
};

constexpr uint32_t kNoLayer = UINT32_MAX;

void expect_refused(const Bytes& good, const Wrong& wrong) {
  Bytes bad = good;
  wrong.spoil(bad);
  if (wrong.code != Code::kChecksum) {
    mend_checksum(bad);
  }
  const Read result = read(bad);
  EXPECT_EQ(result.fault.code, wrong.code) << wrong.what << ": " << result.text;
  EXPECT_EQ(result.fault.is_of_layer ? result.fault.layer : kNoLayer, wrong.layer) << wrong.what;
  EXPECT_EQ(result.fault.offset, wrong.offset) << wrong.what << ": " << result.text;
  EXPECT_EQ(result.fault.value, wrong.value) << wrong.what << ": " << result.text;
  EXPECT_EQ(result.fault.limit, wrong.limit) << wrong.what << ": " << result.text;
  EXPECT_NE(result.text.find(wrong.text), std::string::npos) << wrong.what << ": " << result.text;
  EXPECT_LT(result.text.size(), GsnFaultText::kSizeMax) << wrong.what;
}

TEST(Gsn, NamesWhatIsWrongInTheHead) {
  const SmallNetwork small;
  const Bytes good = gsn_bytes(small.network);
  const auto size = static_cast<uint32_t>(good.size());
  const Wrong all[] = {
      {"magic", [](Bytes& b) { b[0] = 'X'; }, Code::kMagic, kNoLayer, 0, 0, 0, "not GSN1"},
      {"version", [](Bytes& b) { b[3] = '2'; }, Code::kVersion, kNoLayer, 3, 2, 1, "version 2"},
      {"version 0", [](Bytes& b) { b[3] = '0'; }, Code::kVersion, kNoLayer, 3, 0, 1, "version 0"},
      {"version of no digit", [](Bytes& b) { b[3] = ' '; }, Code::kMagic, kNoLayer, 0, 0, 0, "not GSN1"},
      {"version below a digit", [](Bytes& b) { b[3] = '/'; }, Code::kMagic, kNoLayer, 0, 0, 0, "not GSN1"},
      {"version above a digit", [](Bytes& b) { b[3] = ':'; }, Code::kMagic, kNoLayer, 0, 0, 0, "not GSN1"},
      {"version 0xff", [](Bytes& b) { b[3] = 0xff; }, Code::kMagic, kNoLayer, 0, 0, 0, "not GSN1"},
      {"size beyond", [&](Bytes& b) { put_u32(b, kGsnSize, size + 4); }, Code::kSize, kNoLayer, kGsnSize, size + 4,
       size, "copy"},
      {"size of 4 GB", [&](Bytes& b) { put_u32(b, kGsnSize, 0xfffffffc); }, Code::kSize, kNoLayer, kGsnSize, 0xfffffffc,
       size, "4294967292 bytes"},
      {"size odd", [&](Bytes& b) { put_u32(b, kGsnSize, size - 2); }, Code::kSize, kNoLayer, kGsnSize, size - 2, size,
       "multiple of 4"},
      {"size of nothing", [](Bytes& b) { put_u32(b, kGsnSize, 0); }, Code::kSize, kNoLayer, kGsnSize, 0, size, "size"},
      {"reserved", [](Bytes& b) { b[kGsnReserved] = 7; }, Code::kReserved, kNoLayer, kGsnReserved, 7, 0, "must be 0"},
      {"no layers", [](Bytes& b) { put_u32(b, kGsnLayerCount, 0); }, Code::kNetwork, kNoLayer, kGsnLayerCount, 0,
       kLayerCountMax, "0 layers"},
      {"65 layers", [](Bytes& b) { put_u32(b, kGsnLayerCount, 65); }, Code::kNetwork, kNoLayer, kGsnLayerCount, 65,
       kLayerCountMax, "65 layers, and 1 to 64"},
      {"a million layers", [](Bytes& b) { put_u32(b, kGsnLayerCount, 1000000); }, Code::kNetwork, kNoLayer,
       kGsnLayerCount, 1000000, kLayerCountMax, "1000000 layers"},
      {"all the layers there are", [](Bytes& b) { put_u32(b, kGsnLayerCount, UINT32_MAX); }, Code::kNetwork, kNoLayer,
       kGsnLayerCount, UINT32_MAX, kLayerCountMax, "4294967295 layers"},
      {"records beyond the end", [](Bytes& b) { put_u32(b, kGsnLayerCount, 64); }, Code::kTooShort, kNoLayer,
       kGsnLayerCount, size, static_cast<uint32_t>(record_at(64)), "copy"},
  };
  for (const Wrong& wrong : all) {
    expect_refused(good, wrong);
  }
  Bytes torn = good;
  torn.back() ^= 1;
  const Read result = read(torn);
  EXPECT_EQ(result.fault.code, Code::kChecksum);
  EXPECT_EQ(result.fault.value, get_u32(good, kGsnChecksum));
  EXPECT_NE(result.fault.limit, result.fault.value);
}

TEST(Gsn, NamesWhatIsWrongWithAnArray) {
  const SmallNetwork small;
  const Bytes good = gsn_bytes(small.network);
  const auto size = static_cast<uint32_t>(good.size());
  const size_t weights = pair_at(7, GsnArray::kWeights), scales = pair_at(7, GsnArray::kScales);
  const size_t last = pair_at(10, GsnArray::kBiases);
  const uint32_t begin = get_u32(good, weights), end = get_u32(good, last) + get_u32(good, last + 4);
  ASSERT_EQ(end, size);
  const auto at = [](size_t place) { return static_cast<uint32_t>(place); };
  const Wrong all[] = {
      {"misaligned", [&](Bytes& b) { put_u32(b, weights, begin + 2); }, Code::kAlignment, 7, at(weights), begin + 2, 4,
       "the weights begin at byte"},
      {"inside the records", [&](Bytes& b) { put_u32(b, pair_at(0, GsnArray::kWeights), 32); }, Code::kOverlap, 0,
       at(pair_at(0, GsnArray::kWeights)), 32, at(record_at(11)), "inside of what ends"},
      {"inside the array before", [&](Bytes& b) { put_u32(b, scales, begin); }, Code::kOverlap, 7, at(scales), begin,
       begin + 8, "the scales begin"},
      {"at the file's end", [&](Bytes& b) { put_u32(b, last, size); }, Code::kOutside, 10, at(last + 4), size + 12,
       size, "the biases end"},
      {"beyond 32 bits", [&](Bytes& b) { put_u32(b, last, 0xfffffffc); }, Code::kOutside, 10, at(last + 4), UINT32_MAX,
       size, "end at byte"},
      {"a size beyond", [&](Bytes& b) { put_u32(b, weights + 4, UINT32_MAX); }, Code::kOutside, 7, at(weights + 4),
       UINT32_MAX, size, "end at byte"},
      {"too few bytes", [&](Bytes& b) { put_u32(b, weights + 4, 7); }, Code::kArraySize, 7, at(weights + 4), 7, 8,
       "have 7 bytes, and the layer takes 8"},
      {"an array for a layer without",
       [&](Bytes& b) {
         put_u32(b, pair_at(9, GsnArray::kWeights), get_u32(b, pair_at(10, GsnArray::kWeights)));
         put_u32(b, pair_at(9, GsnArray::kWeights) + 4, 4);
         put_u32(b, pair_at(10, GsnArray::kWeights), 0);
         put_u32(b, pair_at(10, GsnArray::kWeights) + 4, 0);
       },
       Code::kArraySize, 9, at(pair_at(9, GsnArray::kWeights) + 4), 4, 0, "takes 0"},
      {"an offset of nothing", [&](Bytes& b) { put_u32(b, pair_at(9, GsnArray::kBiases), 8); }, Code::kAbsent, 9,
       at(pair_at(9, GsnArray::kBiases)), 8, 0, "offset 8"},
      {"no weights",
       [&](Bytes& b) {
         put_u32(b, weights, 0);
         put_u32(b, weights + 4, 0);
       },
       Code::kNetwork, 7, at(weights), 8, 0, "no weights"},
      {"no scales",
       [&](Bytes& b) {
         put_u32(b, scales, 0);
         put_u32(b, scales + 4, 0);
       },
       Code::kNetwork, 7, at(scales), 1, 0, "no scales"},
  };
  for (const Wrong& wrong : all) {
    expect_refused(good, wrong);
  }
}

TEST(Gsn, NamesTheNumberThatIsNone) {
  const SmallNetwork small;
  const Bytes good = gsn_bytes(small.network);
  const float infinity = std::numeric_limits<float>::infinity();
  const struct {
    size_t layer;
    GsnArray array;
    uint32_t index;
    uint32_t counted;  // with the numbers of the arrays before it
    float value;
  } all[] = {
      {1, GsnArray::kWeights, 0, 0, infinity},  {1, GsnArray::kWeights, 17, 17, std::nanf("")},
      {0, GsnArray::kBiases, 1, 19, -infinity}, {0, GsnArray::kScales, 0, 20, 0},
      {0, GsnArray::kScales, 1, 21, -1},        {7, GsnArray::kScales, 0, 8, std::nanf("")},
      {10, GsnArray::kBiases, 2, 14, infinity}, {10, GsnArray::kWeights, 3, 3, std::nanf("")},
  };
  for (const auto& wrong : all) {
    Bytes bad = good;
    const uint32_t at = get_u32(good, pair_at(wrong.layer, wrong.array)) + 4 * wrong.index;
    std::memcpy(bad.data() + at, &wrong.value, 4);
    mend_checksum(bad);
    const Read result = read(bad);
    EXPECT_EQ(result.fault.network, Network_::kNumber) << wrong.layer;
    EXPECT_EQ(result.fault.layer, wrong.layer);
    EXPECT_EQ(result.fault.value, wrong.counted) << wrong.layer;
    EXPECT_EQ(result.fault.offset, at) << wrong.layer;
  }
}

TEST(Gsn, NamesWhatIsWrongWithALayer) {
  const SmallNetwork small;
  const Bytes good = gsn_bytes(small.network);
  const struct {
    size_t layer;
    uint32_t field;
    uint8_t value;
    Network_ code;
  } all[] = {
      {0, kGsnKind, 0, Network_::kKind},
      {0, kGsnKind, 99, Network_::kKind},
      {1, kGsnActivation, 3, Network_::kActivation},
      {9, kGsnActivation, 1, Network_::kActivation},
      {7, kGsnForm, 9, Network_::kForm},
      {10, kGsnForm, 1, Network_::kForm},
      {10, kGsnTrained, 3, Network_::kTrained},
      {9, kGsnTrained, 1, Network_::kTrained},
      {0, kGsnIn, 7, Network_::kChain},
      {8, kGsnIn + 4, 5, Network_::kChain},
      {1, kGsnOut + 4, 3, Network_::kChannels},
      {0, kGsnWindow, 0, Network_::kWindow},
      {0, kGsnWindow + 2, 0, Network_::kWindow},
      {0, kGsnWindow + 4, 3, Network_::kWindow},
      {8, kGsnRank, 0, Network_::kRank},
      {8, kGsnRank, 200, Network_::kRank},
      {2, kGsnAddFrom, 2, Network_::kAddFrom},
      {2, kGsnAddFrom, 200, Network_::kAddFrom},
  };
  for (const auto& wrong : all) {
    Bytes bad = good;
    bad[record_at(wrong.layer) + wrong.field] = wrong.value;
    mend_checksum(bad);
    const Read result = read(bad);
    EXPECT_EQ(result.fault.code, Code::kNetwork) << wrong.layer << " " << wrong.field << ": " << result.text;
    EXPECT_EQ(result.fault.network, wrong.code) << wrong.layer << " " << wrong.field << ": " << result.text;
    EXPECT_TRUE(result.fault.is_of_layer) << result.text;
    EXPECT_EQ(result.fault.layer, wrong.layer) << result.text;
    EXPECT_GE(result.fault.offset, record_at(wrong.layer)) << result.text;
    EXPECT_LT(result.fault.offset, record_at(wrong.layer + 1)) << result.text;
    EXPECT_NE(result.text.find("layer " + std::to_string(wrong.layer)), std::string::npos) << result.text;
  }
}

// A field that means nothing for a layer is 0, so that a later release may give it a meaning.
TEST(Gsn, RefusesWhatALayerHasNoUseFor) {
  const SmallNetwork small;
  const Bytes good = gsn_bytes(small.network);
  for (size_t layer = 0; layer < small.layers.size(); ++layer) {
    const bool is_window = small.layers[layer].kernel_height != 0;
    for (uint32_t field = kGsnWindow; field < kGsnData; ++field) {
      const bool is_used = field == kGsnRank ? layer == 8 : field == kGsnAddFrom ? layer == 2 : is_window;
      if (is_used) {
        continue;
      }
      expect_refused(good,
                     {"unused", [&](Bytes& b) { b[record_at(layer) + field] = 5; }, Code::kUnused,
                      static_cast<uint32_t>(layer), static_cast<uint32_t>(record_at(layer) + field), 5, 0, "no use"});
    }
  }
}

// Every byte of head and records set to some values, with the checksum mended: read or refused, never more. What is
// read is a network that nothing speaks against.
TEST(Gsn, TakesOrRefusesEveryValueOfEveryByte) {
  const SmallNetwork small;
  const Bytes good = gsn_bytes(small.network);
  for (size_t at = kGsnSize; at < record_at(11); ++at) {
    for (const uint8_t value : {0x00, 0x01, 0x02, 0x03, 0x7f, 0x80, 0xff}) {
      Bytes bad = good;
      bad[at] = value;
      mend_checksum(bad);
      const Read result = read(bad);
      EXPECT_EQ(result.text.empty(), result.fault.code == Code::kNone) << at;
      if (result.fault.code == Code::kNone) {
        EXPECT_GT(result.network.layer_count, 0u) << at;
      }
    }
  }
}

TEST(Gsn, WantsRoomAndAnAddress) {
  const SmallNetwork small;
  const Bytes good = gsn_bytes(small.network);
  std::array<Layer, 10> layers;
  Network network;
  const GsnFault fault = read_gsn(good, layers, &network);
  EXPECT_EQ(fault.code, Code::kLayerRoom);
  EXPECT_EQ(fault.value, 11u);
  EXPECT_EQ(fault.limit, 10u);
  alignas(8) std::array<uint8_t, 8192> memory;
  ASSERT_LE(good.size() + 1, memory.size());
  std::copy(good.begin(), good.end(), memory.begin() + 1);
  std::array<Layer, kLayerCountMax> room;
  EXPECT_EQ(read_gsn(std::span(memory).subspan(1, good.size()), room, &network).code, Code::kAddress);
  EXPECT_EQ(gsn_layer_count(std::span(good).first(31)), 0u);
  EXPECT_EQ(gsn_layer_count(Bytes(4096, 0xff)), 0u) << "an erased page";
  EXPECT_EQ(read(Bytes(4096, 0xff)).fault.code, Code::kMagic);
  EXPECT_EQ(read({}).fault.code, Code::kTooShort);
}

// The digest tells every difference but the trained numbers, and is that of the network, not of the file.
TEST(Gsn, DigestIsOfAllButTheTrainedNumbers) {
  const uint64_t digest = network_digest(SmallNetwork().network);
  SmallNetwork trained;
  trained.head[3] += 1;
  trained.head_biases[0] += 1;
  EXPECT_EQ(network_digest(trained.network), digest);
  trained.layers[10].weights = nullptr;
  trained.layers[10].biases = nullptr;
  EXPECT_EQ(network_digest(trained.network), digest) << "a start, or none";
  const std::function<void(SmallNetwork&)> changes[] = {
      [](SmallNetwork& s) { s.conv[17] += 1; },
      [](SmallNetwork& s) { s.conv_scales[1] *= 2; },
      [](SmallNetwork& s) { s.conv_biases[0] = 0; },
      [](SmallNetwork& s) { s.layers[0].biases = nullptr; },
      [](SmallNetwork& s) { s.depthwise[0] += 1; },
      [](SmallNetwork& s) { s.layers[8].rank = 1; },
      [](SmallNetwork& s) { s.layers[8].trained = TrainedForm::kDense; },
      [](SmallNetwork& s) { s.layers[1].activation = Activation::kRelu6; },
      [](SmallNetwork& s) { s.layers[2].add_from = kAddFromInput; },
      [](SmallNetwork& s) { s.network.scale = 1; },
      [](SmallNetwork& s) { s.network.offset = 0; },
      [](SmallNetwork& s) { s.network.loss = NetworkLoss::kLogistic; },
      [](SmallNetwork& s) { --s.network.layer_count; },
  };
  std::vector<uint64_t> seen = {digest};
  for (const auto& change : changes) {
    SmallNetwork other;
    change(other);
    seen.push_back(network_digest(other.network));
    EXPECT_EQ(std::count(seen.begin(), seen.end(), seen.back()), 1) << seen.size();
  }
}

// The figure that docs/network.md gives, for those who compute it themselves.
TEST(Gsn, DigestOfTheSmallestNetwork) {
  Layer layer;
  layer.kind = LayerKind::kDense;
  layer.trained = TrainedForm::kDense;
  layer.in = {1, 1, 2};
  layer.out = {1, 1, 2};
  Network network;
  network.in = {1, 1, 2};
  network.layers = &layer;
  network.layer_count = 1;
  const Bytes bytes = gsn_bytes(network);
  EXPECT_EQ(bytes.size(), 80u);
  uint64_t digest = 0xcbf29ce484222325;
  Bytes counted(bytes.begin() + 12, bytes.begin() + 32 + 24);
  counted.resize(counted.size() + 12);
  for (const uint8_t byte : counted) {
    digest = (digest ^ byte) * 0x100000001b3;
  }
  EXPECT_EQ(network_digest(network), digest);
}

}  // namespace
}  // namespace gradstream
