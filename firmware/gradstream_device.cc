#include <cstring>
#include <span>
#include <type_traits>

#include "firmware/application.h"
#include "firmware/client_main.h"
#include "firmware/device.h"
#include "firmware/floors.h"
#include "firmware/registry.h"
#include "include/gradstream/device.h"
#include "include/gradstream/problem.h"
#include "runtime/base/arithmetic.h"
#include "runtime/base/fusing.h"
#include "runtime/base/own_frame.h"
#include "runtime/link/port.h"
#include "runtime/training/encoding.h"

namespace gradstream {
namespace {

static_assert(GS_COUNT_EXACT == static_cast<int>(SampleCountForm::kExact));
static_assert(GS_COUNT_NONE == static_cast<int>(SampleCountForm::kNone));

static_assert(std::is_same_v<Real, float>, "the application's interface is float");

DeviceShell& device() {
  GS_ASSERT(app().device.has_value());
  return *app().device;
}

Status read_callback(const void*, uint32_t index, Real* out) {
  const Status status = status_of_callback(app().callback.read(app().callback.context, index, out));
  if (kUsesModel && status == Status::kUnfinished) {
    app().is_source_slow = true;
  }
  return status;
}

Status read_ring(const void*, uint32_t index, Real* out) {
  std::memcpy(out, app().ring.values + size_t{index} * app().ring.dimension, app().ring.dimension * sizeof(float));
  return Status::kOk;
}

bool has_callback(const gs_config& config) { return config.samples != nullptr; }
bool has_ring(const gs_config& config) { return config.push_buffer != nullptr; }

bool are_samples_valid(const gs_config& config) {
  if (has_callback(config) && has_ring(config)) {
    return false;
  }
  if (has_callback(config)) {
    const gs_sample_source& samples = *config.samples;
    const bool has_values = samples.bytes == nullptr || samples.bytes->values != nullptr;
    return samples.read != nullptr && has_values && samples.count > 0 && samples.count <= kSampleCountMax &&
           samples.dimension > 0;
  }
  if (has_ring(config)) {
    return config.push_capacity > 0 && config.push_capacity <= kSampleCountMax && config.push_dimension > 0;
  }
  return config.problem != nullptr && config.problem->problem.context != nullptr;
}

// gs_own_problem() leaves no name in what it refuses.
bool is_problem_valid(const gs_config& config) {
  return config.problem == nullptr || config.problem->problem.ops->name != nullptr;
}

// The smallest image takes all as battery: its bar leaves no byte for the check.
bool is_power_valid(const gs_config& config) {
  return !kUsesModel || (config.power <= GS_POWER_BATTERY && (kHoldsPulls || config.power != GS_POWER_MAINS));
}

void take_samples(const gs_config& config) {
  if (has_callback(config)) {
    app().callback = *config.samples;
    app().samples = {nullptr, app().callback.count, app().callback.dimension, read_callback};
    if (const gs_sample_bytes* const bytes = app().callback.bytes; bytes != nullptr) {
      app().bytes = {bytes->values, bytes->mean, bytes->scale};
      app().samples.bytes = &app().bytes;
    }
  } else if (has_ring(config)) {
    app().ring = {config.push_buffer, config.push_capacity, config.push_dimension, 0, 0};
    app().samples = {nullptr, 0, config.push_dimension, read_ring};
  }
  app().problem = config.problem == nullptr ? Problem{&kKpcaOps, nullptr} : config.problem->problem;
  if (kUsesModel && config.problem != nullptr) {
    app().scores = config.problem->scores;
  }
  if (app().problem.context == nullptr) {
    app().problem.context = &app().samples;
  }
}

#if !defined(GS_BARE_METAL)
std::span<const Problem> linked_problems(const gs_config& config) {
  app().problems[0] = app().problem;
  app().problem_count = 1;
  const std::span<const Problem> more = config.problem == nullptr ? std::span<const Problem>() : config.problem->more;
  for (size_t i = 0; i < more.size() && i < kMoreProblemsMax; ++i) {
    app().problems[app().problem_count++] = {more[i].ops,
                                             more[i].context == nullptr ? &app().samples : more[i].context};
  }
  return {app().problems, app().problem_count};
}
#else
std::span<const Problem> linked_problems(const gs_config&) { return {&app().problem, 1}; }
#endif

ClientConfig client_config(const gs_config& config, const Identity& identity, const Transport& transport) {
  ClientConfig client;
  client.registry = make_registry(linked_problems(config));
  client.firmware_version = config.firmware_version;
  client.board = config.board != nullptr ? config.board : "";
  client.run = config.run;
  client.network_digest = config.problem != nullptr ? config.problem->network_digest : 0;
  // What was computed with another network is not continued either.
  client.owner =
      identity_digest(identity) ^ static_cast<uint32_t>(client.network_digest ^ (client.network_digest >> 32));
  // Devices draw differently inside the server's retry windows because their names differ, and in each life anew: two
  // that met once in a window do not meet in it after every power cut. Without a random source the name remains.
  client.jitter_seed = crc32c(0, reinterpret_cast<const uint8_t*>(identity.name), std::strlen(identity.name));
  uint8_t life[4] = {};
  if (port_random_bytes(life, sizeof life) == Status::kOk) {
    client.jitter_seed = crc32c(client.jitter_seed, life, sizeof life);
  }
  client.can_dial = transport.ops->can_dial;
  client.has_storage = config.has_storage;
  client.holds_pulls = kHoldsPulls && config.power != GS_POWER_BATTERY;
  client.floors = floors_of(config.privacy, config.refuses_sums);
  if (config.has_storage && port_step_read(0, nullptr, 0).ok()) {
    client.steps = {[](void*, uint32_t index, uint8_t* out, size_t size) { return port_step_read(index, out, size); },
                    nullptr};
  }
  if (config.reset_cause <= _gs_ResetCause_MAX) {
    client.reset_cause = static_cast<gs_ResetCause>(config.reset_cause);
  }
  if (config.retry_ms != 0) {
    client.min_retry_ms = config.retry_ms;
  }
  return client;
}

// Before TLS needs its pool, which serves as the buffer where there is no other.
void restore(const gs_config& config) {
  const bool has_buffer = config.restore_buffer != nullptr;
  uint8_t* const buffer = has_buffer ? config.restore_buffer : static_cast<uint8_t*>(config.tls_pool);
  const size_t capacity = has_buffer ? config.restore_size : config.tls_pool_size;
  if (!config.has_storage || buffer == nullptr) {
    return;
  }
  const Result<size_t> size = port_storage_read(buffer, capacity);
  if (!size.ok()) {
    port_log_line("event=state_dropped reason=\"the storage cannot be read; starting afresh\"");
    return;
  }
  if (size.value() == 0) {
    return;
  }
  const Status status =
      size.value() > capacity ? Status::kOutOfMemory : device().client().restore({buffer, size.value()});
  if (status == Status::kDataCorrupt) {
    port_log_line("event=state_dropped reason=\"the saved state is damaged, or of another release; starting afresh\"");
  } else if (status == Status::kUnauthenticated) {
    const bool has_network = config.problem != nullptr && config.problem->network_digest != 0;
    port_log_line(
        has_network
            ? "event=state_dropped reason=\"the saved state is of another identity or network; starting afresh\""
            : "event=state_dropped reason=\"the saved state is of another identity; starting afresh\"");
  } else if (status != Status::kOk) {
    port_log_line("event=state_dropped reason=\"the saved state does not fit this image; starting afresh\"");
  }
}

gs_result to_result(Status status) {
  switch (status) {
    case Status::kOk:
      return GS_OK;
    case Status::kOutOfMemory:
      return GS_OUT_OF_MEMORY;
    default:
      return GS_NO_ENTROPY;
  }
}

}  // namespace

Application the_app;
Application* app_at_work = &the_app;

// ---- Where an image lacks what firmware/application.h names ----

[[gnu::weak]] bool take_use(const gs_config&) { return true; }
[[gnu::weak]] bool is_pool_taken() { return false; }
[[gnu::weak]] Status start_tls(void* pool, size_t pool_size) { return tls_start(pool, pool_size); }
[[gnu::weak]] uint64_t after_poll(uint64_t wake_ms) { return wake_ms; }
[[gnu::weak]] bool is_kept_problem_other() { return false; }
[[gnu::weak]] Status score_own(const ScoreInput&, Real*) { return Status::kUnimplemented; }
[[gnu::weak]] Status predict_own(const ScoreInput&, Real*) { return Status::kUnimplemented; }
[[gnu::weak]] Status score_linked(const ScoreInput&, Real*) { return Status::kUnimplemented; }
[[gnu::weak]] Status predict_linked(const ScoreInput&, Real*) { return Status::kUnimplemented; }
[[gnu::weak]] Status write_state(std::span<const StoragePiece> pieces) {
  return port_storage_write(pieces.data(), pieces.size());
}

bool is_step_open() { return device().client().is_step_open(); }

#if !defined(GS_BARE_METAL)
void choose_problem(const char* name) {
  for (size_t i = 0; i < app().problem_count; ++i) {
    if (std::strncmp(app().problems[i].ops->name, name, kProblemNameSizeMax + 1) == 0) {
      app().problem = app().problems[i];
    }
  }
}

void use_credentials(const Credentials* credentials, const char* server_name) {
  app().credentials = credentials;
  app().server_name = server_name;
}

void use_keys(KeyHolder* keys) { app().keys = keys; }

void use_judged(const JudgedUpdates* judged) { app().judged = judged != nullptr ? *judged : JudgedUpdates(); }
#endif

namespace {

// Members are only ever added, at the end. No padding stands there, in which a member would not change the size.
static_assert(!kReadsSizes || sizeof(gs_config) == offsetof(gs_config, reserved) + sizeof(gs_config::reserved));
static_assert(!kReadsSizes ||
              sizeof(gs_status_view) == offsetof(gs_status_view, samples_lost) + sizeof(gs_status_view::samples_lost));

gs_result start(const gs_config& config) {
  const bool restores_in_pool = config.has_storage && config.restore_buffer == nullptr;
  if (app().device.has_value() || (restores_in_pool && is_pool_taken()) || config.identity_text == nullptr ||
      config.firmware_version == nullptr || config.arena == nullptr || config.arena_size == 0 ||
      !are_samples_valid(config) || !is_problem_valid(config) || !is_power_valid(config)) {
    return GS_BAD_ARGUMENT;
  }
  if (!keeps_subnormals()) {
    return GS_FLUSHES_TO_ZERO;
  }
  if (fuses_products()) {
    return GS_FUSES;
  }
  DeviceConfig device_config;
  if (parse_identity({config.identity_text, config.identity_size}, &device_config.identity, &app().identity_line) !=
      Status::kOk) {
    return GS_BAD_IDENTITY;
  }
  take_samples(config);
  if (kUsesModel && !take_use(config)) {
    return GS_BAD_ARGUMENT;
  }
  device_config.transport = port_transport();
  device_config.client = client_config(config, device_config.identity, device_config.transport);
  device_config.key_exchange = config.key_exchange == GS_PSK_KE ? TlsKeyExchange::kPsk : TlsKeyExchange::kPskEphemeral;
#if !defined(GS_BARE_METAL)
  device_config.credentials = app().credentials;
  device_config.server_name = app().server_name;
  device_config.keys = app().keys;
  device_config.client.changes_keys = app().keys != nullptr;
  device_config.client.judged = app().judged;
#endif
  device_config.step_delay_ms = config.step_delay_ms;
  app().arena.emplace(config.arena, config.arena_size);
  app().device.emplace(device_config, *app().arena);
  restore(config);
  const Status started = start_tls(config.tls_pool, config.tls_pool_size);
  if (started != Status::kOk) {
    app().device.reset();
    return to_result(started);
  }
  return GS_OK;
}

GS_OWN_FRAME gs_result start_of_older(const gs_config& config) {
  gs_config whole = {};
  std::memcpy(&whole, &config, config.size);
  return start(whole);
}

void fill(gs_status_view* out) {
  const DeviceShell& shell = device();
  const Client& client = shell.client();
  const ClientCounters& counters = client.counters();
  const DeviceCounters link = shell.counters();
  const bool has_model = client.replica().has_model();
  *out = {};
  if (kReadsSizes) {
    out->size = sizeof *out;
  }
  out->device = shell.name();
  out->server = shell.server();
  out->link = static_cast<gs_link>(shell.link());
  out->state = static_cast<gs_state>(client.state());
  out->run_finished = client.run_finished();
  out->connected = shell.is_connected();
  out->version = has_model ? client.replica().version() : 0;
  out->digest = has_model ? client.digest() : 0;
  out->last_wait = static_cast<uint32_t>(client.last_wait());
  out->last_reason = static_cast<uint32_t>(client.last_reason());
  out->bad_sample = client.sample_fault().what != nullptr ? client.sample_fault().sample + 1 : 0;
  out->last_fault = shell.last_fault_text();
  out->sessions = counters.sessions;
  out->connection_failures = counters.connection_failures;
  out->deadlines_missed = counters.deadlines_missed + link.frame_deadlines;
  out->malformed_frames = counters.malformed_frames;
  out->local_steps = counters.local_steps;
  out->tasks_done = counters.tasks_done;
  out->tasks_refused = counters.tasks_refused;
  out->updates_folded = counters.updates_folded;
  out->updates_late = counters.updates_late;
  out->updates_refused = counters.updates_refused;
  out->updates_resent = counters.updates_resent;
  out->records_applied = counters.records_applied;
  out->snapshots = counters.snapshots;
  out->digest_mismatches = counters.digest_mismatches;
  out->save_failures = counters.save_failures;
  out->bytes_sent = link.bytes_sent;
  out->bytes_received = link.bytes_received;
  out->arena_high_water = static_cast<uint32_t>(app().arena->high_water_size());
  out->tls_high_water = static_cast<uint32_t>(tls_high_water_size());
  out->measurements_lost = kAwaitsMeasurements ? counters.measurements_lost : 0;
  out->step_open = client.is_step_open();
  if (kHoldsPulls) {
    out->held = client.is_held();
  }
  if (kUsesModel) {
    out->samples_lost = app().samples_lost.load(std::memory_order_relaxed);
  }
}

GS_OWN_FRAME void fill_older(gs_status_view* out) {
  gs_status_view whole;
  fill(&whole);
  whole.size = out->size;
  std::memcpy(out, &whole, out->size);
}

}  // namespace
}  // namespace gradstream

using gradstream::app;

#define GS_WORDS(x) #x
#define GS_TEXT(x) GS_WORDS(x)

gs_result gs_init(const gs_config* config) {
  using namespace gradstream;
  if (config == nullptr) {
    return GS_BAD_ARGUMENT;
  }
  if (kReadsSizes && !is_size_known(config->size, sizeof *config)) {
    return GS_BAD_SIZE;
  }
  return kReadsSizes && config->size < sizeof *config ? start_of_older(*config) : start(*config);
}

const char* gs_version(void) {
  return GS_TEXT(GRADSTREAM_VERSION_MAJOR) "." GS_TEXT(GRADSTREAM_VERSION_MINOR) "." GS_TEXT(GRADSTREAM_VERSION_PATCH);
}

uint32_t gs_identity_line(void) { return app().identity_line; }

uint64_t gs_poll(uint64_t now_ms) {
  if (app().ring.values != nullptr && gradstream::device().client().state() != gradstream::ClientState::kTrain) {
    app().samples.count = app().ring.count;  // a task's memory was measured for the count at its begin
  }
  const bool is_awaited = gradstream::kUsesModel && app().is_sample_awaited;
  const uint64_t wake_ms = is_awaited ? GS_PENDING : gradstream::device().poll(now_ms);
#if !defined(GS_BARE_METAL)
  gradstream::choose_problem(gradstream::device().client().problem_name());
#endif
  return gradstream::kUsesModel ? gradstream::after_poll(wake_ms) : wake_ms;
}

bool gs_model(gs_model_view* out) {
  if (!app().device.has_value() || !gradstream::device().client().replica().has_model()) {
    return false;
  }
  const gradstream::Replica& replica = gradstream::device().client().replica();
  *out = {replica.model(), replica.shape().rows, replica.shape().cols, replica.version()};
  return true;
}

gs_result gs_status(gs_status_view* out) {
  using namespace gradstream;
  if (kReadsSizes && !is_size_known(out->size, sizeof *out)) {
    return GS_BAD_SIZE;
  }
  if (kReadsSizes && out->size < sizeof *out) {
    fill_older(out);
  } else {
    fill(out);
  }
  return GS_OK;
}

void gs_note_stack_high_water(uint32_t bytes) { gradstream::device().client().report().stack_high_water = bytes; }
