#include "server/program/network_memory.h"

#include <memory>

#include "runtime/training/arena_need.h"

namespace gradstream {

NetworkMemory network_memory(const Network& network, uint32_t batch_size) {
  NetworkSamples samples;
  samples.network = &network;
  samples.source.count = batch_size;
  samples.source.dimension = network_input_count(network) + network_target_count(network);
  samples.kept_sample_count_max = batch_size;
  const uint32_t size = network_size(network);
  NetworkMemory out;
  out.model = uint64_t{size} * sizeof(Real);
  out.scratch = kNetworkOps.scratch_size(&samples, {size, 1});
  out.features = kNetworkOps.kept_size != nullptr ? kNetworkOps.kept_size(&samples, {size, 1}, batch_size) : 0;
  // Replica, solver and estimator take seven tensors at most. What is not touched costs nothing.
  const size_t capacity = 8 * out.model + out.scratch + out.features + size_t{4} * kSampleCountMax;
  const auto memory = std::make_unique_for_overwrite<uint8_t[]>(capacity);
  PlainRun run;
  run.batch_size = batch_size;
  const Problem problem = {&kNetworkOps, &samples};
  const Result<size_t> need = find_arena_need(problem, size, run, {memory.get(), capacity});
  out.arena = need.ok() ? need.value() : 0;
  run.is_lean = true;
  const Result<size_t> lean = find_arena_need(problem, size, run, {memory.get(), capacity});
  out.board_arena = lean.ok() ? lean.value() : 0;
  return out;
}

}  // namespace gradstream
