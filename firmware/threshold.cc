// gs_threshold(): a quantile of the scores of the device's own samples, computed a slice a poll, and kept with the
// state.
//
//   version taken in -> open: a slice each gs_poll() -> known -> the next save writes it behind the client's state
//
// Behind the state stands a record with its own checksum. Images without this file pass over it.
#include <bit>
#include <cstring>

#include "firmware/application.h"
#include "firmware/device_parts.h"
#include "runtime/base/products.h"
#include "runtime/wire/frame.h"

namespace gradstream {
namespace {

[[gnu::used]] const char* const kHooks = &kUseHooks;

// Time that one gs_poll() gives to a threshold, milliseconds. Reason: half of what a local step is given, so that the
// link waits little longer.
constexpr uint32_t kThresholdSliceMs = 10;

Threshold own_threshold;

Threshold& the_threshold() { return at_work(own_threshold); }

// What stands behind the state. Words as the processor keeps them, as those of the state.
struct KeptThreshold {
  uint32_t magic;
  uint32_t crc;              // of the words behind it
  uint32_t model_digest[2];  // low word first
  uint32_t quantile;         // bits of the float
  uint32_t value;            // bits of the float
  uint32_t score_count;      // 0: there was no threshold
  uint32_t held_count;
  char problem[kProblemNameSizeMax + 1];  // of the run
};
static_assert(sizeof(KeptThreshold) == 48, "no padding: the checksum covers every byte");
constexpr uint32_t kKeptMagic = 0x48545347;  // "GSTH"
// Bytes that a storage may add behind what was written. Reason: flash is written in pages of at most 256 bytes.
constexpr size_t kPaddingMax = 256;
// Pieces of a state, and the record. Reason: the client has 12.
constexpr size_t kPieceCountMax = 16;

uint32_t crc_of(const KeptThreshold& record) {
  constexpr size_t kBegin = offsetof(KeptThreshold, model_digest);
  return crc32c(0, reinterpret_cast<const uint8_t*>(&record) + kBegin, sizeof(record) - kBegin);
}

KeptThreshold make_record() {
  const Threshold& threshold = the_threshold();
  KeptThreshold record = {};
  record.magic = kKeptMagic;
  record.model_digest[0] = static_cast<uint32_t>(threshold.digest);
  record.model_digest[1] = static_cast<uint32_t>(threshold.digest >> 32);
  record.quantile = std::bit_cast<uint32_t>(threshold.quantile);
  record.value = std::bit_cast<uint32_t>(threshold.value);
  record.score_count = threshold.is_known ? threshold.score_count : 0;
  record.held_count = threshold.held_count;
  const char* problem = app().device->client().problem_name();  // of at most kProblemNameSizeMax characters
  std::memcpy(record.problem, problem, std::strlen(problem));
  record.crc = crc_of(record);
  return record;
}

// False: there is none.
bool find_record(std::span<const uint8_t> saved, KeptThreshold* out) {
  for (size_t padding = 0; padding <= kPaddingMax && padding + sizeof(*out) <= saved.size(); ++padding) {
    std::memcpy(out, saved.data() + saved.size() - sizeof(*out) - padding, sizeof(*out));
    if (out->magic == kKeptMagic && out->crc == crc_of(*out)) {
      return true;
    }
  }
  return false;
}

// Of a state that is not the client's to continue, the model is dropped, and the digest tells.
void take_record(std::span<const uint8_t> saved) {
  Threshold& threshold = the_threshold();
  KeptThreshold record = {};
  if (!find_record(saved, &record)) {
    return;
  }
  threshold.kept_digest = record.model_digest[0] | uint64_t{record.model_digest[1]} << 32;
#if !defined(GS_BARE_METAL)
  choose_problem(record.problem);
#endif
  threshold.is_of_other_problem = std::strncmp(record.problem, app().problem.ops->name, kProblemNameSizeMax + 1) != 0;
  if (record.score_count > 0 && record.quantile == std::bit_cast<uint32_t>(threshold.quantile)) {
    threshold.is_known = true;
    threshold.value = std::bit_cast<float>(record.value);
    threshold.score_count = record.score_count;
    threshold.held_count = record.held_count;
    threshold.digest = threshold.kept_digest;
  }
}

uint32_t held_count() { return app().ring.values != nullptr ? app().ring.count : app().samples.count; }

void close(gs_result failure) {
  Threshold& threshold = the_threshold();
  app().is_sample_awaited = false;
  threshold.is_open = false;
  threshold.failure = failure;
}

void begin() {
  Threshold& threshold = the_threshold();
  app().is_sample_awaited = false;
  threshold.held_count = held_count();
  threshold.is_open = threshold.held_count > 0;
  threshold.failure = GS_OK;
  threshold.next = 0;
  if (threshold.is_open) {
    threshold.scores.begin(threshold.quantile, threshold.held_count);
  }
}

void finish() {
  Threshold& threshold = the_threshold();
  close(GS_OK);
  if (threshold.scores.count() > 0) {
    threshold.value = threshold.scores.value();
    threshold.score_count = threshold.scores.count();
    threshold.is_known = true;
  }
}

// Adds the score of sample `index`. GS_OK also where the sample has none: then it counts for nothing. GS_BUSY: not yet.
gs_result add_sample(ScoreInput input, uint32_t index, Real* buffer) {
  Threshold& threshold = the_threshold();
  const Status read = app().samples.read(app().samples.context, index, buffer);
  app().is_sample_awaited = read == Status::kUnfinished;
  if (app().is_sample_awaited) {
    return GS_BUSY;
  }
  if (read != Status::kOk || !all_finite(app().samples.dimension, buffer)) {
    return GS_OK;
  }
  input.sample = buffer;
  float score = 0;
  const gs_result result = score_sample(input, &score);
  if (result == GS_OK) {
    threshold.scores.add(score);
  }
  return result == GS_BAD_SAMPLE ? GS_OK : result;
}

// Does samples until the slice's time is over. GS_OK: all that there was to do; else why not.
gs_result do_slice(const ScoreInput& input) {
  Threshold& threshold = the_threshold();
  ScratchScope scope(*app().arena);
  const Result<Real*> buffer = app().arena->scratch<Real>(app().samples.dimension);
  if (!buffer.ok()) {
    return GS_OUT_OF_MEMORY;
  }
  const auto begun_ms = static_cast<uint32_t>(port_now_ms());
  while (threshold.next < threshold.held_count) {
    if (const gs_result result = add_sample(input, threshold.next, buffer.value()); result != GS_OK) {
      return result;
    }
    threshold.next += threshold.scores.stride();
    const bool is_over = app().is_source_slow || static_cast<uint32_t>(port_now_ms()) - begun_ms >= kThresholdSliceMs;
    if (is_over && threshold.next < threshold.held_count) {
      return GS_BUSY;
    }
  }
  return GS_OK;
}

void advance() {
  ScoreInput input;
  gs_result result = take_model(&input);
  if (result == GS_OK) {
    result = do_slice(input);
  }
  if (result == GS_OK) {
    finish();
  } else if (result != GS_BUSY && !(result == GS_OUT_OF_MEMORY && app().device->client().is_step_open())) {
    close(result);
  }
}

}  // namespace

// Before TLS needs its pool, as the state is restored.
bool take_quantile(const gs_config& config) {
  Threshold& threshold = the_threshold();
  threshold.quantile = config.threshold_quantile;
  threshold.has_storage = config.has_storage;
  if (config.has_storage) {
    const bool has_buffer = config.restore_buffer != nullptr;
    uint8_t* const buffer = has_buffer ? config.restore_buffer : static_cast<uint8_t*>(config.tls_pool);
    const size_t capacity = has_buffer ? config.restore_size : config.tls_pool_size;
    const Result<size_t> size = port_storage_read(buffer, buffer == nullptr ? 0 : capacity);
    if (size.ok() && size.value() <= capacity) {
      take_record({buffer, size.value()});
    }
  }
  return config.threshold_quantile >= 0 && config.threshold_quantile <= 1;
}

bool is_kept_problem_other() { return the_threshold().is_of_other_problem; }

Status write_state(std::span<const StoragePiece> pieces) {
  Threshold& threshold = the_threshold();
  StoragePiece all[kPieceCountMax];
  GS_ASSERT(pieces.size() < kPieceCountMax);
  std::memcpy(all, pieces.data(), pieces.size_bytes());
  const KeptThreshold record = make_record();
  threshold.kept_digest = threshold.digest;
  all[pieces.size()] = {reinterpret_cast<const uint8_t*>(&record), sizeof(record)};
  return port_storage_write(all, pieces.size() + 1);
}

void renew_threshold() {
  Threshold& threshold = the_threshold();
  const uint64_t digest = app().device->client().digest();
  threshold.is_known = threshold.is_known && digest == threshold.digest;
  threshold.is_proven = true;
  threshold.digest = digest;
  if (!threshold.is_known && threshold.quantile > 0) {
    begin();
  }
}

bool tend_threshold() {
  Threshold& threshold = the_threshold();
  DeviceShell& device = *app().device;
  if (!device.client().replica().has_model()) {
    return false;
  }
  const uint32_t held = held_count();
  if (threshold.quantile > 0 && !threshold.is_open && held > 0 && held / 2 >= threshold.held_count) {
    begin();
  }
  // A source that takes its time has one question at once: it is the step's, or this one's.
  if (threshold.is_open && !(app().is_source_slow && device.client().is_step_open())) {
    advance();
  }
  const bool is_over = device.client().state() == ClientState::kFinished && !threshold.is_open;
  if (is_over && threshold.has_storage && threshold.kept_digest != threshold.digest) {
    device.save_state();
    threshold.kept_digest = threshold.digest;  // also where it failed, which is logged: the next version is another try
  }
  return threshold.is_open && !device.client().is_step_open();
}

}  // namespace gradstream

gs_result gs_threshold(float* out) {
  using namespace gradstream;
  const Threshold& threshold = the_threshold();
  if (out == nullptr) {
    return GS_BAD_ARGUMENT;
  }
  ScoreInput input;
  if (const gs_result result = take_model(&input); result != GS_OK) {
    return result;
  }
  // Before the first gs_poll() nobody has looked yet whose threshold was kept.
  const bool is_known =
      threshold.is_known && (threshold.is_proven || threshold.digest == app().device->client().digest());
  if (!is_known) {
    const bool is_coming = threshold.is_open || (!threshold.is_proven && threshold.quantile > 0);
    return is_coming ? GS_BUSY : threshold.failure == GS_OK ? GS_NO_SAMPLES : threshold.failure;
  }
  *out = threshold.value;
  return GS_OK;
}
