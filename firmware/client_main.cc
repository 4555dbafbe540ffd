#include "firmware/client_main.h"

#include <optional>

#include "firmware/console.h"
#include "firmware/line.h"
#include "firmware/shard.h"
#include "runtime/base/own_frame.h"
#include "runtime/link/port.h"
#include "runtime/link/privacy.h"
#include "runtime/wire/codec.h"

namespace gradstream {
namespace {

constexpr char kFirmwareVersion[] = GS_VERSION;
// Time between two looks at the status while a step waits for a measurement, milliseconds. Reason: who reads the
// console sees within a second what became of the session, and an ask costs no look.
constexpr uint64_t kMeasuredLookMs = 1000;
constexpr char kBadSample[] =
    "a sample is none that the run's problem takes, as event=bad_sample says: mend the data, and start again";

int read_sample(const void* shard, uint32_t index, float* out) {
  read_shard(*static_cast<const Shard*>(shard), index, out);
  return 0;
}

GS_OWN_FRAME int fail(ExitCode code, const char* reason, uint64_t line_number = 0) {
  ConsoleLine line("failed");
  line.quoted("reason", reason);
  if (line_number != 0) {
    line.number("line", line_number);
  }
  port_log_line(line.c_str());
  return code;
}

uint32_t load_u32(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
         static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
}

// 0: the shard is in *out. A host has looked at its file before, and said more (firmware/shard_fault_posix.h).
GS_OWN_FRAME int open_shard(const ClientMainOptions& options, Shard* out) {
  const Status status = parse_shard(options.shard, out);
  if (status == Status::kOk) {
    return kExitOk;
  }
  const uint8_t* const head = options.shard.data();
  constexpr size_t kHeadSize = 12;  // magic, samples, dimension
  const bool has_head = options.shard.size() >= kHeadSize && head[0] == 'G' && head[1] == 'S' && head[2] == 'D';
  ConsoleLine line("failed");
  line.quoted("reason", status == Status::kOutOfRange  ? "samples beyond 1 to 65535, or dimension beyond 1 to 32768"
                        : status == Status::kNotFinite ? "scale or mean is no number: make it anew"
                        : !has_head                    ? "no shard: docs/data.md"
                        : head[3] == '1'               ? "a truncated shard: write it again"
                                                       : "kpca reads bytes (GSD1): data pack --bytes");
  if (has_head) {
    line.number("samples", load_u32(head + 4)).number("dimension", load_u32(head + 8));
  }
  if (options.shard_name != nullptr) {
    line.quoted("file", options.shard_name);
  }
  port_log_line(line.c_str());
  return kExitData;
}

GS_OWN_FRAME int start(const ClientMainOptions& options, const gs_sample_source& samples) {
#if !defined(GS_BARE_METAL)
  use_credentials(options.credentials, options.server_name);
  use_keys(options.keys);
  use_judged(options.judged);
#endif
  gs_config config = {};
  config.size = sizeof config;
#if !defined(GS_BARE_METAL)
  config.threshold_quantile = options.threshold_quantile;
  config.power = options.power;
#endif
  config.firmware_version = kFirmwareVersion;
  config.board = options.board;
  config.identity_text = options.identity_text.data();
  config.identity_size = options.identity_text.size();
  config.key_exchange = options.key_exchange;
  config.run = options.run;
  config.samples = &samples;
  config.problem = options.problem;
  config.arena = options.arena.data();
  config.arena_size = options.arena.size();
  config.tls_pool = options.tls_pool.data();
  config.tls_pool_size = options.tls_pool.size();
  config.has_storage = options.has_storage;
  config.restore_buffer = options.restore_buffer.data();
  config.restore_size = options.restore_buffer.size();
  config.reset_cause = options.reset_cause;
  config.retry_ms = options.retry_ms;
  config.step_delay_ms = options.step_delay_ms;
  config.refuses_sums = options.refuses_sums;
  config.privacy = options.privacy;
  switch (gs_init(&config)) {
    case GS_OK:
      return kExitOk;
    case GS_BAD_IDENTITY:
      return fail(kExitIdentity,
                  gs_identity_line() == 0
                      ? "no identity, or a field of it is missing: give the device what `gradstream device add` wrote"
                      : "the identity does not parse: give the device what `gradstream device add` wrote",
                  gs_identity_line());
    case GS_NO_ENTROPY:
      return fail(kExitNoEntropy, "no random numbers: this image has no source of them, or it failed its test");
    case GS_FLUSHES_TO_ZERO:
      return fail(kExitArithmetic,
                  "subnormal numbers are flushed to zero, so the model would drift: "
                  "clear the flush-to-zero mode, and link nothing with -ffast-math");
    case GS_FUSES:
      return fail(kExitArithmetic,
                  "multiplications are fused with additions, so the model would drift: compile "
                  "runtime/ with -ffp-contract=off");
    default:
      return fail(kExitMemory, "the arena or the TLS pool is too small to start: see the board's board_config.h");
  }
}

// Of the wire's ResetCause, in its order.
constexpr const char* kResetCauseNames[] = {"unknown", "power_on", "watchdog", "software", "brown_out", "pin"};
constexpr uint32_t kResetCauseCount = sizeof(kResetCauseNames) / sizeof(kResetCauseNames[0]);

const char* reset_cause_name(const ClientMainOptions& options) {
  return kResetCauseNames[options.reset_cause < kResetCauseCount ? options.reset_cause : 0];
}

// Before anything that can fail: an image that stops says which one it is, and why it started.
GS_OWN_FRAME void log_boot(const ClientMainOptions& options) {
  port_log_line(ConsoleLine("boot")
                    .quoted("board", options.board)
                    .word("firmware", kFirmwareVersion)
                    .word("reset", reset_cause_name(options))
                    .c_str());
}

GS_OWN_FRAME void log_model(const gs_status_view& status, const char* from) {
  port_log_line(
      ConsoleLine("model").number("version", status.version).hex("digest", status.digest).word("from", from).c_str());
}

GS_OWN_FRAME void log_started(const ClientMainOptions& options, const gs_sample_source& samples) {
  gs_status_view status;
  status.size = sizeof status;
  gs_status(&status);
  port_log_line(device_line("started", status, kFirmwareVersion, reset_cause_name(options))
                    .number("samples", samples.count)
                    .number("dimension", samples.dimension)
                    .c_str());
  if (status.digest != 0) {
    log_model(status, "storage");
  }
  if (!kIsBareMetal && options.data_fault != nullptr) {
    port_log_line(ConsoleLine("bad_data").quoted("reason", options.data_fault).c_str());
  }
}

GS_OWN_FRAME bool holds_model() {
  gs_model_view model;
  return gs_model(&model);
}

bool is_stopped(const gs_status_view& status) { return status.last_wait == gs_WaitCause_WAIT_CAUSE_STOPPED; }

GS_OWN_FRAME void log_over(const gs_status_view& status, size_t stack_high_water) {
  ConsoleLine line(is_stopped(status) ? "stopped" : "finished");
  line.number("version", status.version).hex("digest", status.digest).number("folded", status.updates_folded);
  line.number("late", status.updates_late).number("snapshots", status.snapshots);
  line.number("records", status.records_applied).number("local_steps", status.local_steps);
  line.number("sessions", status.sessions).number("mismatches", status.digest_mismatches);
  line.number("save_failures", status.save_failures);
  line.number("sent", status.bytes_sent).number("received", status.bytes_received);
  line.number("arena", status.arena_high_water).number("tls", status.tls_high_water);
  port_log_line(line.number("stack", stack_high_water).c_str());
}

// What the loop saw last, to log changes only.
struct Seen {
  bool connected = false;
  bool model = false;
  bool finished = false;
  uint32_t tasks_refused = 0;
};

GS_OWN_FRAME void log_wrong_shape(const gs_sample_source& samples) {
  gs_model_view model = {};
  gs_model(&model);
  port_log_line(ConsoleLine("wrong_shape")
                    .number("dimension", samples.dimension)
                    .number("rows", model.rows)
                    .quoted("reason",
                            "a sample of the shard must have as many values as the run's model has rows: "
                            "give the device the data of this run")
                    .c_str());
}

GS_OWN_FRAME void log_out_of_memory(const ClientMainOptions& options) {
  port_log_line(ConsoleLine("out_of_memory")
                    .number("arena", options.arena.size())
                    .quoted("reason", "the arena is too small for this run")
                    .quoted("remedy", options.arena_remedy)
                    .c_str());
}

const char* key_exchange_name(const ClientMainOptions& options) {
#if !defined(GS_BARE_METAL)
  if (options.credentials != nullptr) {
    return "certificate";
  }
#endif
  return options.key_exchange == GS_PSK_KE ? "psk_ke" : "psk_dhe_ke";
}

void log_changes(const gs_status_view& status, const ClientMainOptions& options, const gs_sample_source& samples,
                 size_t stack_high_water, Seen* seen) {
  if (status.connected && !seen->connected) {
    port_log_line(ConsoleLine("connected")
                      .word("tls", key_exchange_name(options))
                      .number("sessions", status.sessions)
                      .number("version", status.version)
                      .c_str());
  }
  if (status.digest != 0 && !seen->model) {
    log_model(status, "server");
  }
  if (status.run_finished && !seen->finished) {
    log_over(status, stack_high_water);
  }
  if (status.tasks_refused != seen->tasks_refused && status.last_reason == gs_Reason_REASON_WRONG_SHAPE) {
    log_wrong_shape(samples);
  }
  if (status.tasks_refused != seen->tasks_refused && status.last_reason == gs_Reason_REASON_OUT_OF_MEMORY) {
    log_out_of_memory(options);
  }
  *seen = {status.connected, status.digest != 0, status.run_finished, status.tasks_refused};
}

// Whether there is nobody to tell of data that no run can take: the server is not reached, or its run asks for none.
bool is_untellable(const gs_status_view& status) {
  return status.connection_failures > 0 || status.run_finished ||
         status.last_wait == gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE;
}

// Why the data end the client, once the server knows: every later task of the run would meet the same sample. Null:
// they do not. On a board nothing ends the client.
const char* data_fault(const ClientMainOptions& options, const gs_status_view& status) {
  if constexpr (kIsBareMetal) {
    return nullptr;
  }
  const bool is_told = status.bad_sample != 0 && status.state == GS_IDLE;
  if (options.data_fault != nullptr && (is_told || is_untellable(status))) {
    return options.data_fault;
  }
  return options.exits_on_bad_data && is_told ? kBadSample : nullptr;
}

// Whether `once` has what it asked for; *code says how it went.
bool is_once_over(const gs_status_view& status, int* code) {
  if (status.updates_folded + status.updates_late + status.updates_refused > 0) {
    *code = kExitOk;
    return true;
  }
  if (status.run_finished || status.last_wait == gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE) {
    *code = kExitNoTask;
    return true;
  }
  *code = status.last_reason == gs_Reason_REASON_OUT_OF_MEMORY ? kExitMemory : kExitSession;
  return status.connection_failures > 0 || status.last_reason != gs_Reason_REASON_NONE;
}

// Tells what is new since the last look. true: the client is over, and *code says how it went.
GS_OWN_FRAME bool look(const ClientMainOptions& options, const gs_sample_source& samples, Seen* seen, int* code) {
  const size_t stack = options.stack_high_water_size != nullptr ? options.stack_high_water_size() : 0;
  gs_note_stack_high_water(static_cast<uint32_t>(stack));
  gs_status_view status;
  status.size = sizeof status;
  gs_status(&status);
  log_changes(status, options, samples, stack, seen);
  if (const char* const fault = data_fault(options, status); fault != nullptr) {
    *code = fail(kExitData, fault);
    return true;
  }
  return (options.until_finished && status.run_finished) || (options.once && is_once_over(status, code));
}

#if defined(GS_BARE_METAL)
bool is_end_due(const ClientMainOptions&) { return false; }
#else
// A task that was just done is stored first.
bool is_end_due(const ClientMainOptions& options) {
  if (options.is_end_wanted == nullptr || !options.is_end_wanted()) {
    return false;
  }
  gs_status_view status;
  status.size = sizeof status;
  gs_status(&status);
  return status.state != GS_SAVE;
}
#endif

}  // namespace

gs_privacy no_privacy() {
  constexpr PrivacyFloors kNone = no_floors();
  gs_privacy privacy = {};
  privacy.batch_size_min = kNone.batch_size_min;
  privacy.scalars_per_sample_max = kNone.scalars_per_sample_max;
  privacy.sums_samples_min = kNone.sums_samples_min;
  privacy.trials_samples_min = kNone.trials_samples_min;
  privacy.sends_losses = kNone.sends_losses;
  privacy.sample_count = static_cast<uint8_t>(kNone.sample_count);
  return privacy;
}

#if !defined(GS_BARE_METAL)
int start_device(const ClientMainOptions& options, const gs_sample_source& samples) { return start(options, samples); }
#endif

int client_main(const ClientMainOptions& options) {
  log_boot(options);
  Shard shard;
  if (options.samples == nullptr) {
    if (const int code = open_shard(options, &shard); code != kExitOk) {
      return code;
    }
  }
  const gs_sample_bytes bytes = {shard.values, shard.mean, shard.scale};
  const gs_sample_source of_shard = {&shard, shard.count, shard.dimension, read_sample, &bytes};
  const gs_sample_source& samples = options.samples != nullptr ? *options.samples : of_shard;
  if (const int code = start(options, samples); code != kExitOk) {
    return code;
  }
  log_started(options, samples);
  Seen seen;
  seen.model = holds_model();
  uint64_t look_ms = 0;
  std::optional<Console> console;
  if (options.console != nullptr) {
    console.emplace(*options.console, kFirmwareVersion, reset_cause_name(options));
  }
  for (;;) {
    if (options.feed_watchdog != nullptr) {
      options.feed_watchdog();
    }
    if (console.has_value()) {
      console->poll();
    }
    const uint64_t now_ms = port_now_ms();
    const uint64_t wake_ms = gs_poll(now_ms);
    if (is_end_due(options)) {
      return kExitOk;
    }
    if (wake_ms <= now_ms) {
      continue;
    }
    // A step that is open waits for a measurement, and a look at the status takes longer than the ask.
    if (is_step_open() && now_ms < look_ms) {
      port_sleep_until_ms(wake_ms);
      continue;
    }
    look_ms = now_ms + kMeasuredLookMs;
    if (int code = kExitOk; look(options, samples, &seen, &code)) {
      return code;
    }
    port_sleep_until_ms(wake_ms);
  }
}

}  // namespace gradstream
