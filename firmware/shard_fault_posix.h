// What is wrong with a file that a user gave as a shard, in words. Boards say less: client_main() has their sentences.
#ifndef GRADSTREAM_FIRMWARE_SHARD_FAULT_POSIX_H_
#define GRADSTREAM_FIRMWARE_SHARD_FAULT_POSIX_H_

#include <cstdint>
#include <span>
#include <string>

namespace gradstream {

// Empty where parse_shard() or parse_float_shard() takes the bytes. Else a clause that follows the file's name: it has
// the number, its limit and the remedy. Samples and values are counted from 1.
std::string find_shard_fault(std::span<const uint8_t> bytes);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_SHARD_FAULT_POSIX_H_
