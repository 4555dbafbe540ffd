#include "server/program/network_memory.h"

#include <memory>
#include <new>

#include "runtime/base/arena.h"
#include "runtime/training/arena_need.h"
#include "runtime/training/encoding.h"

namespace gradstream {
namespace {

// Bytes of a Layer on a board, whose pointers have 4 bytes.
constexpr uint64_t kBoardLayerSize = 36;

uint64_t board_layers_size(const Network& network) {
  return (kBoardLayerSize * network.layer_count + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace

NetworkMemory network_memory(const Network& network, uint32_t batch_size, uint32_t sample_count) {
  NetworkSamples samples;  // keeps as many samples as devices do
  samples.network = &network;
  samples.source.count = sample_count;
  samples.source.dimension = network_input_count(network) + network_target_count(network);
  const uint32_t size = network_size(network);
  NetworkMemory out;
  out.model = uint64_t{size} * sizeof(Real);
  out.scratch = kNetworkOps.scratch_size(&samples, {size, 1});
  out.features = kNetworkOps.kept_size(&samples, {size, 1}, batch_size < sample_count ? batch_size : sample_count);
  if (size > kProductSizeMax) {  // before memory is taken for so many numbers
    return out;
  }
  // Replica, solver and estimator take seven tensors at most. What is not touched costs nothing.
  const uint64_t capacity = 8 * out.model + 2 * (out.scratch + out.features) + uint64_t{4} * kSampleCountMax;
  const std::unique_ptr<uint8_t[]> memory(capacity <= kArenaSearchMax ? new (std::nothrow) uint8_t[capacity] : nullptr);
  if (memory == nullptr) {
    out.search_size = capacity;
    return out;
  }
  PlainRun run;
  run.batch_size = batch_size;
  const Problem problem = {&kNetworkOps, &samples};
  const Result<size_t> need = find_arena_need(problem, size, run, {memory.get(), capacity});
  out.arena = need.ok() ? need.value() : 0;
  run.is_lean = true;
  const Result<size_t> lean = find_arena_need(problem, size, run, {memory.get(), capacity});
  if (lean.ok()) {
    out.board_arena = lean.value() + board_layers_size(network);
    out.board_arena_local =
        out.board_arena + out.model + encoded_size(Encoding::kF32, size_t{run.direction_count} * run.local_step_count);
  }
  run.keeps_batch = false;
  const Result<size_t> least = find_arena_need(problem, size, run, {memory.get(), capacity});
  out.board_arena_least = least.ok() ? least.value() + board_layers_size(network) : 0;
  return out;
}

}  // namespace gradstream
