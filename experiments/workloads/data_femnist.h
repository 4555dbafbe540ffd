// FEMNIST as LEAF's preprocessing leaves it (S. Caldas et al., LEAF: A Benchmark for Federated Settings, 2018;
// https://leaf.cmu.edu, data/femnist): files of JSON, each with some of the writers.
//
//   {"users": [name, ...], "num_samples": [n, ...],
//    "user_data": {name: {"x": [[784 numbers in [0, 1], 1 = paper], ...], "y": [class 0 .. 61, ...]}, ...}}
//
// Other keys are passed over. Files are read as they stream by: of a file of a gigabyte no more is held than is kept.
#ifndef GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_FEMNIST_H_
#define GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_FEMNIST_H_

#include <string>
#include <vector>

#include "experiments/workloads/workload.h"

namespace gradstream {

inline constexpr uint32_t kFemnistPixelCount = 28 * 28;
inline constexpr uint32_t kFemnistClassCount = 62;

struct FemnistWriter {
  std::string name;
  Matrix samples;  // a row is 784 pixels, 0 = paper as in MNIST, and the class
};

// The first writer_count writers of the folder's *.json, files by their names, writers as they stand there. Returns a
// sentence that names the file and what is wrong with it; empty: read. No folder, or none of these files: no writers.
std::string read_femnist(const std::string& folder, uint32_t writer_count, std::vector<FemnistWriter>* writers);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_FEMNIST_H_
