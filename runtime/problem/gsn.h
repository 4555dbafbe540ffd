// A network in a file (*.gsn), read in place: from a mapped file, from flash. docs/network.md, "The file", has the
// layout for those who write one.
//
//   0       head, kGsnHeadSize bytes: magic, checksum, size, layers, input, loss
//   32      a record of kGsnRecordSize bytes for each layer
//   then    weights, biases and scales, in the order of the layers; each begins at a multiple of 4
//
// All numbers are little-endian, and so is the processor. Nothing is copied or allocated: the layers point into the
// bytes.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_GSN_H_
#define GRADSTREAM_RUNTIME_PROBLEM_GSN_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/problem/network.h"

namespace gradstream {

inline constexpr char kGsnMagic[] = "GSN1";
inline constexpr uint32_t kGsnHeadSize = 32;    // bytes
inline constexpr uint32_t kGsnRecordSize = 48;  // bytes

// Where the fields of the head and of a record stand, bytes from their begin.
enum GsnHeadField : uint32_t {
  kGsnChecksum = 4,     // u32, CRC-32C over the bytes from kGsnSize to the file's end
  kGsnSize = 8,         // u32, bytes of the whole file, a multiple of 4
  kGsnLayerCount = 12,  // u32
  kGsnInput = 16,       // u16 each: height, width, channels
  kGsnLoss = 22,        // u8, NetworkLoss
  kGsnReserved = 23,    // u8, 0
  kGsnScale = 24,       // f32
  kGsnOffset = 28,      // f32
};
enum GsnRecordField : uint32_t {
  kGsnKind = 0,        // u8, LayerKind
  kGsnActivation = 1,  // u8, Activation
  kGsnForm = 2,        // u8, WeightForm
  kGsnTrained = 3,     // u8, TrainedForm
  kGsnIn = 4,          // u16 each: height, width, channels
  kGsnOut = 10,        // as well
  kGsnWindow = 16,     // u8 each: kernel height and width, stride height and width, pad top and left
  kGsnRank = 22,       // u8
  kGsnAddFrom = 23,    // u8
  kGsnData = 24,       // u32 each: offset and size of weights, of biases, of scales, in bytes; both 0: there are none
};

// The arrays of a layer, in the order in which they stand.
enum class GsnArray : uint8_t { kWeights = 0, kBiases = 1, kScales = 2 };
inline constexpr uint32_t kGsnArrayCount = 3;

// value, limit and least of a GsnFault are those that the comment names.
enum class GsnFaultCode : uint8_t {
  kNone = 0,
  kTooShort,   // bytes: value; a head and a record take limit
  kMagic,      // no .gsn at all
  kVersion,    // of the format: value; this reader knows limit
  kAddress,    // the bytes do not begin at a multiple of 4 in memory
  kSize,       // bytes that the head promises: value; there are limit, or it is no multiple of 4
  kChecksum,   // that the head promises: value; of the bytes: limit
  kReserved,   // a byte that must be 0: value
  kLayerRoom,  // layers: value; the caller's room: limit
  kUnused,     // a field for which the layer has no use is not 0: value
  kAbsent,     // an array without bytes has an offset that is not 0: value
  kAlignment,  // an array begins at byte: value; no multiple of limit
  kOverlap,    // an array begins at byte: value; what stands before it ends at limit
  kOutside,    // an array ends at byte: value, at most 32 bits of it; the file ends at limit
  kArraySize,  // bytes of an array: value; the layer takes limit
  kNetwork,    // what check_network() says: network, value, limit, least
};

struct GsnFault {
  GsnFaultCode code = GsnFaultCode::kNone;
  NetworkFaultCode network = NetworkFaultCode::kNone;
  GsnArray array = GsnArray::kWeights;  // of kAbsent .. kArraySize
  bool is_of_layer = false;             // whether `layer` says something
  uint32_t layer = 0;                   // from 0
  uint32_t offset = 0;                  // of the field or the number at fault, bytes from the file's begin
  uint32_t value = 0;
  uint32_t limit = 0;
  uint32_t least = 0;
};

// Layers that the head promises, for the caller who makes room; 0 where there is no head or it promises none, and
// kLayerCountMax for more than that.
uint32_t gsn_layer_count(std::span<const uint8_t> bytes);

// Reads a file whole: its structure, its checksum and each number in it, so that what it takes needs no further check.
// layers: room for gsn_layer_count() of them, overwritten. *out is set without a fault alone; it points into bytes and
// layers, which must outlive the network. Bytes behind the promised size are ignored, since a flash page is longer.
// Never reads outside of bytes.
GsnFault read_gsn(std::span<const uint8_t> bytes, std::span<Layer> layers, Network* out);

// What devices and server compare: a 64-bit FNV-1a of the network without its trained numbers, never 0. Of a network
// that no file holds too. It takes the bytes 12 to 31 of the head, then of each layer the bytes 0 to 23 of its record,
// the sizes of its three arrays (u32, 0 for those of a trained layer), and the bytes of those arrays.
uint64_t network_digest(const Network& network);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_GSN_H_
