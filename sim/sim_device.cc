#include "sim/sim_device.h"

#include <algorithm>
#include <array>

#include "server/run/run_core.h"

namespace gradstream {
namespace {

// Of a device, bytes. Reason: enough for every run of the simulator; pages that nobody writes cost nothing.
constexpr size_t kArenaSize = size_t{1} << 16;
// Of a problem that is not the simulator's, besides: so many tensors of the model's shape, and values of an upload, as
// sim/timed_fleet.cc has it.
constexpr size_t kTensorCount = 48;
constexpr uint32_t kSampleCountMin = 6;
constexpr uint32_t kSampleCountSpread = 5;
constexpr uint32_t kEntriesPerSample = 4;

constexpr std::array<const EstimatorOps*, 5> kEstimators = {&kAnalyticGradientOps, &kProjectionOneSidedOps,
                                                            &kProjectionTwoSidedOps, &kTangentRetractionOps,
                                                            &kProjectionTangentOps};
constexpr std::array<const SolverOps*, 4> kSolvers = {&kSolverProjectionOps, &kSolverGradientStreamOps,
                                                      &kSolverTangentMeanOps, &kSolverSvrgOps};

size_t arena_size(const RunParameters& parameters, const OwnProblem* own) {
  const size_t values = parameters.model->shape.size() + parameters.value_count();
  return kArenaSize + (own == nullptr ? 0 : kTensorCount * values * sizeof(Real));
}

}  // namespace

SimDevice::SimDevice(uint32_t index, const RunParameters& parameters, const OwnProblem* own)
    : index_(index),
      arena_size_(arena_size(parameters, own)),
      memory_(std::make_unique_for_overwrite<uint64_t[]>(arena_size_ / sizeof(uint64_t))) {
  if (own != nullptr && own->ops != nullptr) {
    problem_ = {own->ops, own->contexts[index]};
    return;
  }
  RandomKey key;
  key.seed = parameters.seed;
  key.owner = index;
  RandomStream stream(key);
  const uint32_t count = kSampleCountMin + index % kSampleCountSpread;
  const bool knows_entries = parameters.model->manifold == ManifoldId::kFixedRank;
  if (knows_entries) {
    fill_entries(stream, count * kEntriesPerSample, *parameters.model->part_list);
  } else {
    fill_vectors(stream, count, parameters.model->shape.rows);
  }
  problem_ = {knows_entries ? &kCompletionOps : &kKpcaOps, &source_};
}

// No libm: the run's digest is the same on every machine. Every device has a strong direction of its own.
void SimDevice::fill_vectors(RandomStream& stream, uint32_t count, uint32_t dimension) {
  samples_.resize(static_cast<size_t>(count) * dimension);
  for (size_t i = 0; i < samples_.size(); ++i) {
    const Real uniform = static_cast<Real>(stream.next_uniform() - 0.5);
    samples_[i] = i % dimension == index_ % dimension ? 3 * uniform : uniform;
  }
  source_ = {this, count, dimension, read};
}

// Entries of [I 0]' + 0.25 (i + 1) (j - 2) / (rows cols), of rank 3 and so not to be had exactly at rank 2.
void SimDevice::fill_entries(RandomStream& stream, uint32_t count, const Parts& factors) {
  const uint32_t rows = factors.part[0].shape.rows, cols = factors.part[1].shape.rows;
  for (uint32_t s = 0; s < count; ++s) {
    const auto i = static_cast<uint32_t>(stream.next_uniform() * rows);
    const auto j = static_cast<uint32_t>(stream.next_uniform() * cols);
    const Real smooth = (static_cast<Real>(i) + 1) * (static_cast<Real>(j) - 2) / static_cast<Real>(4 * rows * cols);
    samples_.insert(samples_.end(), {static_cast<Real>(i), static_cast<Real>(j), (i == j && i < 2 ? 1 : 0) + smooth});
  }
  source_ = {this, count, 3, read};
}

Status SimDevice::read(const void* context, uint32_t index, Real* out) {
  const SimDevice& device = *static_cast<const SimDevice*>(context);
  const uint32_t dimension = device.source_.dimension;
  std::copy_n(device.samples_.data() + static_cast<size_t>(index) * dimension, dimension, out);
  return Status::kOk;
}

bool SimDevice::is_ready(const void* source, Batch batch) {
  SimDevice& device = *static_cast<SimDevice*>(const_cast<void*>(source_of(source).context));
  device.asks_ = device.measurement_.ask(batch) ? 1 : device.asks_ + 1;
  if (device.asks_ < device.asks_needed_) {
    static_cast<void>(device.measurement_.wait(batch));
    return false;
  }
  return true;
}

void SimDevice::measure(uint32_t asks_needed) {
  asks_needed_ = asks_needed;
  computed_ops_ = *problem_.ops;
  measured_ops_ = computed_ops_;
  measured_ops_.loss = [](const void* source, Shape shape, const Real* x, Batch batch, Arena& arena) -> Result<Real> {
    const auto& device = *static_cast<const SimDevice*>(source_of(source).context);
    return is_ready(source, batch) ? device.computed_ops_.loss(source, shape, x, batch, arena) : Status::kUnfinished;
  };
  measured_ops_.gradient = [](const void* source, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
    const auto& device = *static_cast<const SimDevice*>(source_of(source).context);
    return is_ready(source, batch) ? device.computed_ops_.gradient(source, shape, x, batch, out, arena)
                                   : Status::kUnfinished;
  };
  problem_.ops = &measured_ops_;
}

void SimDevice::boot() {
  measurement_ = Measurement();
  ClientConfig config;
  // Every other device keeps records as boards with a network do: all come to one digest.
  const LeanForm* const lean = index_ % 2 == 1 ? &kLeanForm : nullptr;
  config.registry = {all_manifolds(), kEstimators, kSolvers, {&problem_, 1}, &kProximalLossOps, lean, &kStageForm};
  config.firmware_version = "sim";
  config.jitter_seed = index_ * 1000 + boot_count_++;
  config.has_storage = true;
  config.floors = no_floors();
  config.steps = {read_step, this};
  config.min_retry_ms = 100;
  config.holds_pulls = holds_pulls;
  client_.reset();
  arena_ = std::make_unique<Arena>(memory_.get(), arena_size_);
  client_ = std::make_unique<Client>(config, *arena_);
  if (!saved_.empty()) {
    GS_ASSERT(client_->restore(saved_) == Status::kOk);  // storage is whole: old or new
  }
  reader_.reset();
  session = 0;
  poll_ms = UINT64_MAX;
}

void SimDevice::learn(SessionNews news, std::span<const uint8_t> frame, uint64_t now_ms) {
  switch (news) {
    case SessionNews::kConnected:
      client_->on_connected(now_ms);
      return;
    case SessionNews::kFrame:
      reader_.feed(frame);
      client_->on_frame(reader_.payload(), now_ms);
      reader_.pop();
      return;
    case SessionNews::kEnd:
      session = 0;
      client_->on_connection_lost(Status::kClosed, now_ms);
      return;
  }
}

bool SimDevice::wants_poll(uint64_t at_ms) {
  const bool is_sooner = at_ms < poll_ms;
  poll_ms = std::min(poll_ms, at_ms);
  return is_sooner;
}

bool SimDevice::begin_poll(uint64_t at_ms) {
  const bool is_due = is_alive() && poll_ms == at_ms;
  poll_ms = is_due ? UINT64_MAX : poll_ms;
  return is_due;
}

void SimDevice::save(const ClientAction& action) {
  std::vector<uint8_t> bytes;
  for (const StoragePiece& piece : action.pieces) {
    bytes.insert(bytes.end(), piece.bytes, piece.bytes + piece.size);
  }
  saved_ = std::move(bytes);
  steps_.clear();
}

void SimDevice::save_step(const ClientAction& action) {
  steps_.resize(action.step_index);
  std::vector<uint8_t>& step = steps_.emplace_back();
  for (const StoragePiece& piece : action.pieces) {
    step.insert(step.end(), piece.bytes, piece.bytes + piece.size);
  }
}

Result<size_t> SimDevice::read_step(void* context, uint32_t index, uint8_t* out, size_t capacity) {
  const std::vector<std::vector<uint8_t>>& steps = static_cast<SimDevice*>(context)->steps_;
  if (index >= steps.size()) {
    return size_t{0};
  }
  std::copy_n(steps[index].begin(), std::min(capacity, steps[index].size()), out);
  return steps[index].size();
}

bool SimDevice::flip_bit(uint64_t draw) {
  if (!is_alive() || client_->state() != ClientState::kIdle || !client_->replica().has_model()) {
    return false;
  }
  Replica& replica = client_->replica_for_test();
  const size_t tensor_count = replica.has_mean() ? 2 : 1;
  replica.flip_bit_for_test(draw % (tensor_count * replica.shape().size() * 8 * sizeof(Real)));
  return true;
}

}  // namespace gradstream
