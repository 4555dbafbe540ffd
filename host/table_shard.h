// The bytes of a shard that is made of a table: firmware/shard.h and firmware/float_shard.h have the forms.
#ifndef GRADSTREAM_HOST_TABLE_SHARD_H_
#define GRADSTREAM_HOST_TABLE_SHARD_H_

#include <cstdint>
#include <span>
#include <vector>

#include "host/table.h"

namespace gradstream {

// GSD2: every value as a float, without groups.
std::vector<uint8_t> float_shard_bytes(const SampleTable& table);

// GSD1: value = byte * scale - mean, in floats. mean: one of each value of a sample. *error: how far a byte is from its
// value at most. scale > 0.
std::vector<uint8_t> byte_shard_bytes(const SampleTable& table, float scale, std::span<const float> mean,
                                      double* error);

// GSD3: value = byte * scale + offset, and the label's byte. The labels are whole numbers below class_count <= 256.
// *error as above.
std::vector<uint8_t> labelled_shard_bytes(const SampleTable& table, float scale, float offset, uint32_t class_count,
                                          double* error);

}  // namespace gradstream

#endif  // GRADSTREAM_HOST_TABLE_SHARD_H_
