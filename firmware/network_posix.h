// A network that a user gives a Linux client (--network): from its file's bytes to the problem that trains it.
#ifndef GRADSTREAM_FIRMWARE_NETWORK_POSIX_H_
#define GRADSTREAM_FIRMWARE_NETWORK_POSIX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "include/gradstream/problem.h"
#include "runtime/problem/gsn.h"

namespace gradstream {

// Points into itself and into the file's bytes: it stays where it is, and the bytes outlive it.
struct PosixNetwork {
  std::vector<Layer> layers;
  Network network;
  NetworkSamples samples;
  gs_linked_problem problem;
  PosixNetwork() = default;
  PosixNetwork(const PosixNetwork&) = delete;
  PosixNetwork& operator=(const PosixNetwork&) = delete;
};

// Empty, or a clause that follows the file's name and a colon: the bytes are no network, or one that trains nothing.
std::string open_network(std::span<const uint8_t> bytes, PosixNetwork* out);

// After open_network(): what it learns from. Empty, or a clause that follows the shard's name and a colon: its samples
// are not made of the network's inputs and targets.
std::string bind_network(const SampleSource& source, PosixNetwork* out);

// After bind_network(). Empty, or a sentence: a sample has a target that the network's loss never takes.
std::string find_target_fault(const PosixNetwork& network);

// After bind_network(). Empty, or a clause that follows the network's file and a colon: the smallest run that trains it
// takes more than `given` bytes of arena, or no run takes a point of so many numbers. Where they are enough for forward
// passes alone, the problem has no gradient of more than a head.
std::string bind_arena(size_t given, PosixNetwork* out);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_NETWORK_POSIX_H_
