#include "firmware/network_posix.h"

#include <array>
#include <cstdio>
#include <memory>
#include <new>

#include "runtime/problem/gsn_text.h"
#include "runtime/training/arena_need.h"

namespace gradstream {

std::string open_network(std::span<const uint8_t> bytes, PosixNetwork* out) {
  out->layers.assign(gsn_layer_count(bytes), Layer());
  const GsnFault fault = read_gsn(bytes, out->layers, &out->network);
  if (fault.code != GsnFaultCode::kNone) {
    return GsnFaultText(fault).c_str();
  }
  if (network_size(out->network) == 0) {
    return "the network trains nothing; mark a layer as trained, and write the file again";
  }
  out->samples.network = &out->network;
  out->problem.problem = {&kNetworkOps, &out->samples};
  out->problem.network_digest = network_digest(out->network);
  return {};
}

std::string bind_network(const SampleSource& source, PosixNetwork* out) {
  out->samples.source = source;
  const Shape shape{network_size(out->network), 1};
  if (kNetworkOps.check_shape(&out->samples, shape) == Status::kOk) {
    return {};
  }
  const std::string inputs = std::to_string(network_input_count(out->network));
  const std::string targets = std::to_string(network_target_count(out->network));
  const bool may_lack_targets = out->network.loss == NetworkLoss::kSquaredError;
  return "its samples have " + std::to_string(source.dimension) + " values, and the network takes " + inputs +
         " inputs and behind them " + targets + (targets == "1" ? " target" : " targets") +
         (may_lack_targets ? ", or none" : "") + "; write a shard of such samples";
}

std::string find_target_fault(const PosixNetwork& network) {
  const Shape shape{network_size(network.network), 1};
  const size_t size = kNetworkOps.scratch_size(&network.samples, shape) + size_t{8} * network.samples.source.dimension;
  const std::unique_ptr<uint8_t[]> memory(new (std::nothrow) uint8_t[size]);
  if (memory == nullptr) {
    return "the look at the samples takes " + std::to_string(size) +
           " bytes of memory, which this machine does not give: free memory, or make the layers smaller";
  }
  Arena arena(memory.get(), size);
  SampleFault fault;
  if (kNetworkOps.find_fault(&network.samples, shape, arena, &fault) == Status::kOk || fault.what == nullptr) {
    return {};
  }
  const std::string sample = "sample " + std::to_string(fault.sample + 1) + " (from 1)";
  if (!(fault.least < fault.most)) {
    return sample + " is no " + fault.what + ": mend the data";
  }
  std::array<char, 96> text = {};
  std::snprintf(text.data(), text.size(), " has the %s %g; the network takes whole numbers from %g to %g", fault.what,
                static_cast<double>(fault.value), static_cast<double>(fault.least), static_cast<double>(fault.most));
  return sample + text.data() + ": relabel the data";
}

namespace {

// The smallest run, and one by the defaults of all keys.
constexpr PlainRun kLeastRun = {1, 1, 1};
constexpr PlainRun kUsualRun = {};

// Bytes of arena that such a run takes; memory: where the search is made.
Result<size_t> find_arena(const PosixNetwork& network, const PlainRun& run, std::span<uint8_t> memory) {
  NetworkSamples samples = network.samples;  // without features that are kept, and nobody is told
  samples.on_features_given_up = nullptr;
  kNetworkOps.allow_kept(&samples, false);
  return find_arena_need({&kNetworkOps, &samples}, network_size(network.network), run, memory);
}

}  // namespace

std::string bind_arena(size_t given, PosixNetwork* out) {
  const uint32_t size = network_size(out->network);
  const std::string trains = "it trains " + std::to_string(size) + " numbers";
  if (size > kProductSizeMax) {  // before memory is taken for so many numbers
    return trains + ", and a run takes " + std::to_string(kProductSizeMax) + " at most; train fewer layers";
  }
  // Replica, solver and estimator take seven tensors at most. What is not touched costs nothing.
  const size_t capacity =
      size_t{32} * size + kNetworkOps.scratch_size(&out->samples, {size, 1}) + size_t{4} * kSampleCountMax;
  const std::unique_ptr<uint8_t[]> memory(new (std::nothrow) uint8_t[capacity]);
  if (memory == nullptr) {
    return trains + ", and the search for its arena takes " + std::to_string(capacity) +
           " bytes of memory, which this machine does not give; free memory, or train fewer layers";
  }
  // What a gradient would take is kept out of a small arena: each evaluation of a run by forward passes has it too.
  Result<size_t> need = find_arena(*out, kUsualRun, {memory.get(), capacity});
  const size_t correction = size_t{2} * size * sizeof(Real);  // a run by the defaults has one, the trial none
  if (!need.ok() || need.value() + correction > given) {
    out->samples.has_layer_gradients = false;
  }
  need = find_arena(*out, kLeastRun, {memory.get(), capacity});
  if (!need.ok()) {
    return trains + ", and no run takes them: " + status_text(need.status()) + "; train fewer layers";
  }
  return need.value() <= given
             ? ""
             : trains + " and takes " + std::to_string(need.value()) + " bytes of arena at least, where " +
                   std::to_string(given) + " are given; give more than " + std::to_string(need.value() / 1024) +
                   " KiB with --arena-kib";
}

}  // namespace gradstream
