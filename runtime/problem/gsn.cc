#include "runtime/base/no_contraction.h"

#include "runtime/problem/gsn.h"

#include <bit>
#include <cstring>
#include <iterator>

#include "runtime/base/crc32c.h"

namespace gradstream {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read where they stand");
static_assert(sizeof(float) == 4);
static_assert(kGsnData + 2 * sizeof(uint32_t) * kGsnArrayCount == kGsnRecordSize);
static_assert(kGsnHeadSize % 4 == 0 && kGsnRecordSize % 4 == 0, "what follows them begins at a multiple of 4");

constexpr uint32_t kVersion = 1;
constexpr uint32_t kAlign = 4;

uint16_t load_u16(const uint8_t* bytes) { return static_cast<uint16_t>(bytes[0] | bytes[1] << 8); }
uint32_t load_u32(const uint8_t* bytes) {
  return static_cast<uint32_t>(load_u16(bytes)) | static_cast<uint32_t>(load_u16(bytes + 2)) << 16;
}
float load_f32(const uint8_t* bytes) { return std::bit_cast<float>(load_u32(bytes)); }
Volume load_volume(const uint8_t* bytes) { return {load_u16(bytes), load_u16(bytes + 2), load_u16(bytes + 4)}; }

uint32_t to_u32(uint64_t value) { return value < UINT32_MAX ? static_cast<uint32_t>(value) : UINT32_MAX; }

// Where the field stands that check_network() finds fault with. kHead: in the head; else in the layer's record.
struct FieldPlace {
  bool is_head;
  uint8_t offset;
};
constexpr FieldPlace kPlaces[] = {
    {true, 0},                  // kNone
    {true, kGsnLayerCount},     // kLayerCount
    {true, kGsnLoss},           // kLoss
    {true, kGsnLoss},           // kScoreCount
    {true, kGsnScale},          // kInputScale
    {false, kGsnKind},          // kKind
    {false, kGsnActivation},    // kActivation
    {false, kGsnForm},          // kForm
    {false, kGsnTrained},       // kTrained
    {false, kGsnIn},            // kVolume
    {false, kGsnIn},            // kChain
    {false, kGsnOut},           // kOutput
    {false, kGsnWindow},        // kWindow
    {false, kGsnOut},           // kHeight
    {false, kGsnOut + 2},       // kWidth
    {false, kGsnOut + 4},       // kChannels
    {false, kGsnOut},           // kWeightCount
    {false, kGsnData},          // kNoWeights
    {false, kGsnData + 2 * 8},  // kNoScales
    {false, kGsnData},          // kNumber
    {false, kGsnRank},          // kRank
    {false, kGsnAddFrom},       // kAddFrom
    {false, kGsnAddFrom},       // kAddVolume
    {false, kGsnWindow},        // kWindowWork
};
static_assert(std::size(kPlaces) == static_cast<size_t>(NetworkFaultCode::kWindowWork) + 1);

uint32_t record_at(uint32_t layer) { return kGsnHeadSize + layer * kGsnRecordSize; }

uint32_t weight_size(const Layer& layer) { return layer.form == WeightForm::kFloat ? 4 : 1; }

// Of the fields from kGsnWindow on.
bool has_use(const Layer& layer, uint32_t field) {
  switch (field) {
    case kGsnRank:
      return layer.trained == TrainedForm::kFactored;
    case kGsnAddFrom:
      return layer.kind == LayerKind::kAdd;
    default:
      return layer.kind == LayerKind::kConv2d || layer.kind == LayerKind::kDepthwiseConv2d ||
             layer.kind == LayerKind::kMaxPool || layer.kind == LayerKind::kAveragePool;
  }
}

// Bytes that an array of the layer takes; 0: the layer has none of it.
uint64_t array_size(const Layer& layer, GsnArray array) {
  switch (array) {
    case GsnArray::kWeights:
      return layer_weight_count(layer) * weight_size(layer);
    case GsnArray::kBiases:
      return uint64_t{layer_bias_count(layer)} * 4;
    default:
      return uint64_t{layer_scale_count(layer)} * 4;
  }
}

class GsnReader {
 public:
  GsnReader(std::span<const uint8_t> bytes, std::span<Layer> layers) : bytes_(bytes), layers_(layers) {}

  GsnFault read(Network* out) {
    Network network;
    if (!read_head(&network)) {
      return fault_;
    }
    size_t end = record_at(network.layer_count);
    for (uint32_t i = 0; i < network.layer_count; ++i) {
      read_record(i);
      if (!read_arrays(i, &end)) {
        return fault_;
      }
    }
    // The sizes of arrays mean something only where the layers do, and numbers are read only where the sizes hold.
    if (!check(network, false) || !check_unused(network) || !check_sizes(network) || !check(network, true)) {
      return fault_;
    }
    *out = network;
    return fault_;
  }

 private:
  bool fail(GsnFaultCode code, uint32_t offset, uint32_t value, uint32_t limit) {
    fault_.code = code;
    fault_.offset = offset;
    fault_.value = value;
    fault_.limit = limit;
    return false;
  }
  bool fail_array(GsnFaultCode code, uint32_t layer, GsnArray array, uint64_t value, uint64_t limit) {
    fault_.array = array;
    fault_.is_of_layer = true;
    fault_.layer = layer;
    // The array's size is what exceeds the file or the layer, else its offset is at fault.
    const uint32_t in_pair = code == GsnFaultCode::kOutside || code == GsnFaultCode::kArraySize ? 4 : 0;
    const uint32_t offset = record_at(layer) + kGsnData + 8 * static_cast<uint32_t>(array) + in_pair;
    return fail(code, offset, to_u32(value), to_u32(limit));
  }

  bool read_head(Network* out) {
    const size_t given = bytes_.size();
    const uint8_t* const head = bytes_.data();
    const bool has_version = given >= 4 && head[3] >= '0' && head[3] <= '9';
    if (has_version && std::memcmp(head, kGsnMagic, 3) == 0 && head[3] != kGsnMagic[3]) {
      return fail(GsnFaultCode::kVersion, 3, static_cast<uint32_t>(head[3]) - '0', kVersion);
    }
    if (given >= 4 && std::memcmp(head, kGsnMagic, 4) != 0) {
      return fail(GsnFaultCode::kMagic, 0, 0, 0);
    }
    if (given < kGsnHeadSize + kGsnRecordSize) {
      return fail(GsnFaultCode::kTooShort, 0, to_u32(given), kGsnHeadSize + kGsnRecordSize);
    }
    if (reinterpret_cast<uintptr_t>(head) % kAlign != 0) {
      return fail(GsnFaultCode::kAddress, 0, 0, kAlign);
    }
    const uint32_t size = load_u32(head + kGsnSize);
    if (size > given || size % kAlign != 0 || size < kGsnHeadSize + kGsnRecordSize) {
      return fail(GsnFaultCode::kSize, kGsnSize, size, to_u32(given));
    }
    bytes_ = bytes_.first(size);
    const uint32_t checksum = crc32c(0, head + kGsnSize, size - kGsnSize);
    if (checksum != load_u32(head + kGsnChecksum)) {
      return fail(GsnFaultCode::kChecksum, kGsnChecksum, load_u32(head + kGsnChecksum), checksum);
    }
    if (head[kGsnReserved] != 0) {
      return fail(GsnFaultCode::kReserved, kGsnReserved, head[kGsnReserved], 0);
    }
    out->in = load_volume(head + kGsnInput);
    out->scale = load_f32(head + kGsnScale);
    out->offset = load_f32(head + kGsnOffset);
    out->layers = layers_.data();
    out->layer_count = load_u32(head + kGsnLayerCount);
    out->loss = static_cast<NetworkLoss>(head[kGsnLoss]);
    if (out->layer_count == 0 || out->layer_count > kLayerCountMax) {
      fault_.network = NetworkFaultCode::kLayerCount;
      return fail(GsnFaultCode::kNetwork, kGsnLayerCount, out->layer_count, kLayerCountMax);
    }
    if (record_at(out->layer_count) > size) {
      return fail(GsnFaultCode::kTooShort, kGsnLayerCount, size, record_at(out->layer_count));
    }
    return out->layer_count <= layers_.size() ||
           fail(GsnFaultCode::kLayerRoom, kGsnLayerCount, out->layer_count, to_u32(layers_.size()));
  }

  void read_record(uint32_t index) {
    const uint8_t* const record = bytes_.data() + record_at(index);
    Layer& layer = layers_[index];
    layer = Layer();
    layer.kind = static_cast<LayerKind>(record[kGsnKind]);
    layer.activation = static_cast<Activation>(record[kGsnActivation]);
    layer.form = static_cast<WeightForm>(record[kGsnForm]);
    layer.trained = static_cast<TrainedForm>(record[kGsnTrained]);
    layer.in = load_volume(record + kGsnIn);
    layer.out = load_volume(record + kGsnOut);
    layer.kernel_height = record[kGsnWindow];
    layer.kernel_width = record[kGsnWindow + 1];
    layer.stride_height = record[kGsnWindow + 2];
    layer.stride_width = record[kGsnWindow + 3];
    layer.pad_top = record[kGsnWindow + 4];
    layer.pad_left = record[kGsnWindow + 5];
    layer.rank = record[kGsnRank];
    layer.add_from = record[kGsnAddFrom];
  }

  // A field that means nothing today may get a meaning later, which an old reader must not pass over.
  bool check_unused(const Network& network) {
    for (uint32_t index = 0; index < network.layer_count; ++index) {
      const uint8_t* const record = bytes_.data() + record_at(index);
      for (uint32_t field = kGsnWindow; field < kGsnData; ++field) {
        if (record[field] != 0 && !has_use(network.layers[index], field)) {
          fault_.is_of_layer = true;
          fault_.layer = index;
          return fail(GsnFaultCode::kUnused, record_at(index) + field, record[field], 0);
        }
      }
    }
    return true;
  }

  // *end: of what stands before; then of this layer's arrays.
  bool read_arrays(uint32_t index, size_t* end) {
    const uint8_t* const pairs = bytes_.data() + record_at(index) + kGsnData;
    const void* arrays[kGsnArrayCount] = {};
    for (uint32_t i = 0; i < kGsnArrayCount; ++i) {
      const GsnArray array = static_cast<GsnArray>(i);
      const uint32_t offset = load_u32(pairs + 8 * i);
      const uint32_t size = load_u32(pairs + 8 * i + 4);
      if (size == 0) {
        if (offset != 0) {
          return fail_array(GsnFaultCode::kAbsent, index, array, offset, 0);
        }
        continue;
      }
      if (offset % kAlign != 0) {
        return fail_array(GsnFaultCode::kAlignment, index, array, offset, kAlign);
      }
      if (uint64_t{offset} + size > bytes_.size()) {
        return fail_array(GsnFaultCode::kOutside, index, array, uint64_t{offset} + size, bytes_.size());
      }
      if (offset < *end) {
        return fail_array(GsnFaultCode::kOverlap, index, array, offset, *end);
      }
      *end = size_t{offset} + size;
      arrays[i] = bytes_.data() + offset;
    }
    Layer& layer = layers_[index];
    layer.weights = arrays[0];
    layer.biases = static_cast<const float*>(arrays[1]);
    layer.scales = static_cast<const float*>(arrays[2]);
    return true;
  }

  bool check_sizes(const Network& network) {
    for (uint32_t index = 0; index < network.layer_count; ++index) {
      const uint8_t* const pairs = bytes_.data() + record_at(index) + kGsnData;
      for (uint32_t i = 0; i < kGsnArrayCount; ++i) {
        const GsnArray array = static_cast<GsnArray>(i);
        const uint32_t size = load_u32(pairs + 8 * i + 4);
        const uint64_t wanted = array_size(layers_[index], array);
        if (size != 0 && size != wanted) {
          return fail_array(GsnFaultCode::kArraySize, index, array, size, wanted);
        }
      }
    }
    return true;
  }

  bool check(const Network& network, bool reads_numbers) {
    const NetworkFault found = check_network(network, reads_numbers);
    if (found.code == NetworkFaultCode::kNone) {
      return true;
    }
    fault_.network = found.code;
    fault_.least = found.least;
    fault_.is_of_layer = found.layer < network.layer_count;
    fault_.layer = fault_.is_of_layer ? found.layer : 0;
    return fail(GsnFaultCode::kNetwork, place_of(network, found), found.value, found.limit);
  }

  uint32_t place_of(const Network& network, const NetworkFault& found) const {
    if (found.layer >= network.layer_count) {
      const FieldPlace place = kPlaces[static_cast<size_t>(found.code)];
      return place.is_head ? place.offset : uint32_t{kGsnInput};  // else the input's volume
    }
    if (found.code == NetworkFaultCode::kNumber) {
      return place_of_number(network.layers[found.layer], found.value);
    }
    const FieldPlace place = kPlaces[static_cast<size_t>(found.code)];
    return place.is_head ? place.offset : record_at(found.layer) + place.offset;
  }

  // Of number `value`, counted on through weights, biases and scales.
  uint32_t place_of_number(const Layer& layer, uint64_t value) const {
    const uint64_t counts[] = {layer.weights != nullptr ? layer_weight_count(layer) : 0,
                               layer.biases != nullptr ? layer_bias_count(layer) : 0U};
    const void* array = layer.weights;
    uint32_t size = weight_size(layer);
    if (value >= counts[0]) {
      value -= counts[0];
      array = layer.biases;
      size = 4;
      if (value >= counts[1]) {
        value -= counts[1];
        array = layer.scales;
      }
    }
    const auto begin = static_cast<size_t>(static_cast<const uint8_t*>(array) - bytes_.data());
    return to_u32(begin + value * size);
  }

  std::span<const uint8_t> bytes_;
  std::span<Layer> layers_;
  GsnFault fault_;
};

// 64-bit FNV-1a.
class Digest {
 public:
  void add(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3ULL; }
  void add_u16(uint16_t value) {
    add(static_cast<uint8_t>(value));
    add(static_cast<uint8_t>(value >> 8));
  }
  void add_u32(uint32_t value) {
    add_u16(static_cast<uint16_t>(value));
    add_u16(static_cast<uint16_t>(value >> 16));
  }
  void add_volume(Volume volume) {
    add_u16(volume.height);
    add_u16(volume.width);
    add_u16(volume.channels);
  }
  void add_bytes(const void* bytes, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      add(static_cast<const uint8_t*>(bytes)[i]);
    }
  }
  uint64_t value() const { return value_ != 0 ? value_ : 1; }

 private:
  uint64_t value_ = 0xcbf29ce484222325ULL;
};

void add_layer(const Layer& layer, Digest& digest) {
  for (const uint8_t byte : {static_cast<uint8_t>(layer.kind), static_cast<uint8_t>(layer.activation),
                             static_cast<uint8_t>(layer.form), static_cast<uint8_t>(layer.trained)}) {
    digest.add(byte);
  }
  digest.add_volume(layer.in);
  digest.add_volume(layer.out);
  for (const uint8_t byte : {layer.kernel_height, layer.kernel_width, layer.stride_height, layer.stride_width,
                             layer.pad_top, layer.pad_left, layer.rank, layer.add_from}) {
    digest.add(byte);
  }
  const void* const arrays[] = {layer.weights, layer.biases, layer.scales};
  uint32_t sizes[kGsnArrayCount] = {};
  for (uint32_t i = 0; i < kGsnArrayCount; ++i) {
    const bool is_counted = layer.trained == TrainedForm::kFrozen && arrays[i] != nullptr;
    sizes[i] = is_counted ? static_cast<uint32_t>(array_size(layer, static_cast<GsnArray>(i))) : 0;
    digest.add_u32(sizes[i]);
  }
  for (uint32_t i = 0; i < kGsnArrayCount; ++i) {
    digest.add_bytes(arrays[i], sizes[i]);
  }
}

}  // namespace

uint32_t gsn_layer_count(std::span<const uint8_t> bytes) {
  if (bytes.size() < kGsnHeadSize || std::memcmp(bytes.data(), kGsnMagic, 4) != 0) {
    return 0;
  }
  const uint32_t count = load_u32(bytes.data() + kGsnLayerCount);
  return count < kLayerCountMax ? count : kLayerCountMax;
}

GsnFault read_gsn(std::span<const uint8_t> bytes, std::span<Layer> layers, Network* out) {
  return GsnReader(bytes, layers).read(out);
}

uint64_t network_digest(const Network& network) {
  Digest digest;
  digest.add_u32(network.layer_count);
  digest.add_volume(network.in);
  digest.add(static_cast<uint8_t>(network.loss));
  digest.add(0);
  digest.add_u32(std::bit_cast<uint32_t>(network.scale));
  digest.add_u32(std::bit_cast<uint32_t>(network.offset));
  for (uint32_t i = 0; i < network.layer_count; ++i) {
    add_layer(network.layers[i], digest);
  }
  return digest.value();
}

}  // namespace gradstream
