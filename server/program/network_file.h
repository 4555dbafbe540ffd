// A network's file as the server reads it, and what a run's configuration says of the network.
#ifndef GRADSTREAM_SERVER_PROGRAM_NETWORK_FILE_H_
#define GRADSTREAM_SERVER_PROGRAM_NETWORK_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/problem/gsn.h"
#include "server/base/objection.h"
#include "server/run/run_parameters.h"

namespace gradstream {

// Of a network's file, in bytes. Reason: no device has more flash or memory to hold it in.
inline constexpr uint64_t kNetworkFileSizeMax = uint64_t{1} << 30;

// The network points into bytes and layers, and the layers into bytes: it stays where it was read.
struct NetworkFile {
  std::string bytes;
  uint64_t size = 0;  // bytes of the network: what stands behind them is ignored
  std::vector<Layer> layers;
  Network network;
  uint64_t digest = 0;
  NetworkFile() = default;
  NetworkFile(const NetworkFile&) = delete;
  NetworkFile& operator=(const NetworkFile&) = delete;
};

// An objection begins with the path: the file cannot be read, or is no network; it names layer, byte,
// value, limit and remedy. *out is then unspecified.
Objection read_network_file(const std::string& path, NetworkFile* out);

// The text of run.parts for a network that trains something: "euclidean 64x12, euclidean 12x1". Where there are more
// parts than a product has, neighbours that are Euclidean become one.
std::string network_parts_text(const Network& network);

// An objection is a clause with the remedy: no run takes the network's point, since it has too many numbers or parts.
Objection network_point_fault(const Network& network);

// The numbers to begin at that the trained layers of a network's file hold.
struct NetworkStart {
  std::string path;
  uint64_t digest = 0;       // of the network
  std::vector<Real> values;  // network_size() of them; empty: no layer holds any, or there is a fault
  std::string fault;         // a clause with the remedy: some layers hold theirs and others none
};

// An objection is a clause: the run's parts do not lie as the network's numbers do. It names the first part that
// differs. A Euclidean part may hold several of the network's parts, but none of a factored layer. Every other part is
// one of them, of its shape and its rank. The sizes of both points are equal.
Objection network_parts_fault(const RunParameters& run, const Network& network);

// A configuration names a file in run.network; a run has its digest there, so that whoever goes on with it or replays
// it needs no file. Reads the file and puts the digest in its place; nothing happens where there is no network or a
// digest already. An objection: the file is missing, damaged, or trains another point than the run's.
// *is_file_fault: the file cannot be used; else the keys do not fit it. *start, which may be null: where a run of this
// file begins; it stays as it is where no file was read.
Objection settle_network(RunParameters* run, bool* is_file_fault, NetworkStart* start = nullptr);

// Multiplications that the layer takes for one sample.
uint64_t layer_multiplication_count(const Layer& layer);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_NETWORK_FILE_H_
