/* The application of examples/vibration: a pump that learns with others what healthy vibration is, and raises an alarm.
 *
 *   1. The sensor measures OWN_WINDOWS windows of the healthy pump. They go into the ring that the device trains on.
 *   2. gs_poll() trains until the run is finished. gs_on_model() tells of the first model.
 *   3. Each new window has a score: how far it is from all that the healthy pumps do. ALARM_WINDOWS windows in a row
 *      above the device's own threshold are an alarm on the console.
 *
 * The sensor is simulated: it plays a recording from the pages of flash that hold a board's samples. Where the
 * recording has the fault is known, so that the application can say how well the scores tell it apart (event=auc). A
 * product has a driver in place of the recording, and no such line.
 */
#include <gradstream/device.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "firmware/application_board.h"

/* The recording: 24 band energies a window, 340 windows, the last 100 of them with the fault. */
enum { VALUES = 24, OWN_WINDOWS = 120, FAULT_BEGIN = 240, WINDOWS = 340 };
/* Time from window to window, milliseconds. Reason: a pump's is a second; nobody waits for an emulated one. */
enum { WINDOW_MS = 5 };
/* Windows in a row above the threshold. Reason: with THRESHOLD_QUANTILE one healthy window in a hundred is above it by
 * chance, and three in a row are one in a million. */
enum { ALARM_WINDOWS = 3 };
#define THRESHOLD_QUANTILE 0.99F
/* Exit status of an image under an emulator. Reason: those of firmware/client_main.h for data and session. */
enum { EXIT_OK = 0, EXIT_IDENTITY = 3, EXIT_DATA = 4, EXIT_START = 6, EXIT_SCORE = 7 };
/* Decimals of a score on the console. */
enum { DECIMALS = 6 };

static float ring[OWN_WINDOWS * VALUES];
static float scores[WINDOWS]; /* those before OWN_WINDOWS stay 0 */
static gs_sample_source sensor;

/* ---- Lines of the console: a board has no printf ---- */

static char line[160];
static size_t line_size;

static void put(const char* text) {
  while (*text != '\0' && line_size < sizeof line - 1) {
    line[line_size++] = *text++;
  }
  line[line_size] = '\0';
}

static void begin_line(const char* event) {
  line_size = 0;
  put("event=");
  put(event);
}

static void end_line(void) { gs_board_log(line); }

/* At least `width` digits of a number in base 10 or 16. */
static void put_digits(uint64_t value, uint32_t base, size_t width) {
  char digits[24];
  size_t at = sizeof digits - 1;
  digits[at] = '\0';
  for (size_t count = 0; count < width || value != 0; ++count, value /= base) {
    digits[--at] = "0123456789abcdef"[value % base];
  }
  put(digits + at);
}

static void put_number(const char* key, uint64_t value) {
  put(" ");
  put(key);
  put("=");
  put_digits(value, 10, 1);
}

/* A value from 0 to 4,000, with DECIMALS digits behind the point. */
static void put_real(const char* key, float value) {
  const uint32_t millionths = (uint32_t)((double)value * 1e6 + 0.5);
  put_number(key, millionths / 1000000);
  put(".");
  put_digits(millionths % 1000000, 10, DECIMALS);
}

static _Noreturn void fail(int status, const char* reason, const char* key, uint64_t value) {
  begin_line("failed reason=\"");
  put(reason);
  put("\"");
  put_number(key, value);
  end_line();
  gs_board_stop(status);
}

/* ---- The sensor ---- */

static void open_sensor(void) {
  if (!gs_board_samples(&sensor)) {
    fail(EXIT_DATA, "no recording for the sensor: load the shard of sensor.csv (gradstream data pack)", "samples", 0);
  }
  if (sensor.dimension != VALUES) {
    fail(EXIT_DATA, "the recording has another number of columns than the 24 of this pump's sensor", "columns",
         sensor.dimension);
  }
  if (sensor.count != WINDOWS) {
    fail(EXIT_DATA, "the recording has another number of windows than the 340 that the program knows", "windows",
         sensor.count);
  }
}

/* Waits for window `index`, and keeps the device at work meanwhile; sample: VALUES floats. */
static void measure(uint32_t index, uint64_t due_ms, bool trains, float* sample) {
  for (uint64_t now_ms = gs_board_now_ms(); now_ms < due_ms; now_ms = gs_board_now_ms()) {
    const uint64_t wake_ms = trains ? gs_poll(now_ms) : due_ms;
    gs_board_feed_watchdog();
    gs_board_sleep_until_ms(wake_ms < due_ms ? wake_ms : due_ms);
  }
  sensor.read(sensor.context, index, sample);
}

/* ---- The pump ---- */

/* In gs_poll(), for each version that the device took in. */
static void on_model(void* context, const gs_model_view* model) {
  uint32_t* const count = context;
  if ((*count)++ == 0) {
    begin_line("first_model");
    put_number("version", model->version);
    put_number("rows", model->rows);
    put_number("cols", model->cols);
    end_line();
  }
}

/* A driver may push from its interrupt, also while the device trains. Here all windows come first, so that the run
 * takes its units out of all of them. */
static void collect(void) {
  float sample[VALUES];
  for (uint32_t i = 0; i < OWN_WINDOWS; ++i) {
    measure(i, gs_board_now_ms() + WINDOW_MS, false, sample);
    const gs_result result = gs_sample_push(sample);
    if (result != GS_OK) {
      fail(EXIT_DATA, "a window of the sensor was not taken; gs_result says why", "gs_result", result);
    }
  }
  begin_line("collected");
  put_number("windows", OWN_WINDOWS);
  end_line();
}

/* Until the device has the last version of the run. */
static void train(void) {
  for (;;) {
    const uint64_t now_ms = gs_board_now_ms();
    const uint64_t wake_ms = gs_poll(now_ms);
    gs_board_feed_watchdog();
    if (wake_ms <= now_ms) {
      continue; /* a local step is unfinished */
    }
    gs_status_view status = {.size = sizeof status};
    gs_status(&status);
    if (status.run_finished) {
      return;
    }
    gs_note_stack_high_water(gs_board_stack_high_water());
    gs_board_sleep_until_ms(wake_ms);
  }
}

/* Of the scores of the device's own windows under the last version. */
static float threshold(void) {
  float value = 0;
  gs_result result = gs_threshold(&value);
  while (result == GS_BUSY) {
    gs_poll(gs_board_now_ms());
    gs_board_feed_watchdog();
    result = gs_threshold(&value);
  }
  if (result != GS_OK) {
    fail(EXIT_SCORE, "there is no threshold; gs_result says why", "gs_result", result);
  }
  begin_line("threshold");
  put_real("value", value);
  end_line();
  return value;
}

/* Scores each new window. The alarm is raised once, and with it the status lamp of a product. */
static void watch(float limit) {
  float sample[VALUES];
  uint32_t above = 0;
  bool is_raised = false;
  for (uint32_t i = OWN_WINDOWS; i < WINDOWS; ++i) {
    measure(i, gs_board_now_ms() + WINDOW_MS, true, sample);
    const gs_result result = gs_score(sample, &scores[i]);
    if (result != GS_OK) {
      fail(EXIT_SCORE, "a window has no score; gs_result says why", "gs_result", result);
    }
    begin_line("score");
    put_number("window", i + 1);
    put_real("value", scores[i]);
    end_line();
    above = scores[i] > limit ? above + 1 : 0;
    if (above >= ALARM_WINDOWS && !is_raised) {
      is_raised = true;
      begin_line("alarm");
      put_number("window", i + 1);
      put_real("score", scores[i]);
      put_real("threshold", limit);
      end_line();
    }
  }
}

/* The share of pairs, a healthy window and a faulty one, whose faulty one has the higher score; ties count half. */
static void judge(void) {
  uint32_t halves = 0;
  for (uint32_t faulty = FAULT_BEGIN; faulty < WINDOWS; ++faulty) {
    for (uint32_t healthy = OWN_WINDOWS; healthy < FAULT_BEGIN; ++healthy) {
      halves += scores[faulty] > scores[healthy] ? 2 : scores[faulty] == scores[healthy] ? 1 : 0;
    }
  }
  begin_line("auc");
  put_number("healthy", FAULT_BEGIN - OWN_WINDOWS);
  put_number("faulty", WINDOWS - FAULT_BEGIN);
  put_real("value", (float)halves / (2.0F * (FAULT_BEGIN - OWN_WINDOWS) * (WINDOWS - FAULT_BEGIN)));
  end_line();
}

int main(void) {
  static gs_config config;
  static uint32_t model_count;
  gs_board_start(&config);
  open_sensor();
  config.push_buffer = ring;
  config.push_capacity = OWN_WINDOWS;
  config.push_dimension = VALUES;
  config.threshold_quantile = THRESHOLD_QUANTILE;
  const gs_result result = gs_init(&config);
  if (result == GS_BAD_IDENTITY) {
    fail(EXIT_IDENTITY, "no identity: load what `gradstream device add` wrote", "line", gs_identity_line());
  }
  if (result != GS_OK) {
    fail(EXIT_START, "the device does not start; gs_result says why", "gs_result", result);
  }
  gs_on_model(on_model, &model_count);
  collect();
  train();
  watch(threshold());
  judge();
  gs_status_view status = {.size = sizeof status};
  gs_status(&status);
  begin_line("finished");
  put_number("version", status.version);
  put(" digest=");
  put_digits(status.digest, 16, 16);
  put_number("models", model_count);
  put_number("folded", status.updates_folded);
  put_number("arena", status.arena_high_water);
  put_number("stack", gs_board_stack_high_water());
  end_line();
  gs_board_stop(EXIT_OK);
}
