/* A program of a user on Linux, in C: a device that trains until its run is over.
 *
 * usage: linux_client HOST:PORT IDENTITY STATE. Exit status 0: the run is over; 1: not within a minute; 2: usage.
 * tests/consume/consume_test.py links it, and tools/soak_consume.py has it train. */
#include <gradstream/device.h>
#include <gradstream/posix.h>
#include <stdio.h>

enum { SAMPLES = 64, VALUES = 8, MINUTE_MS = 60000 };

static char identity[GS_POSIX_IDENTITY_SIZE];
static uint8_t arena[1 << 20];
static uint8_t saved[1 << 20];

/* Values in a plane, with a little beside it. */
static int read_sample(const void* context, uint32_t index, float* out) {
  (void)context;
  for (uint32_t i = 0; i < VALUES; ++i) {
    out[i] = (float)((index * 7 + i * 3) % 11) / 11.0F - 0.5F;
  }
  return 0;
}

int main(int count, char** words) {
  static const gs_sample_source samples = {.count = SAMPLES, .dimension = VALUES, .read = read_sample};
  gs_config config = {.size = sizeof config, .firmware_version = "1.0"};
  if (count != 4 || !gs_posix_set_server(words[1]) || !gs_posix_set_state_file(words[3]) ||
      !gs_posix_read_file(words[2], identity, sizeof identity, &config.identity_size)) {
    fprintf(stderr, "usage: linux_client HOST:PORT IDENTITY STATE\n");
    return 2;
  }
  config.identity_text = identity;
  config.samples = &samples;
  config.arena = arena;
  config.arena_size = sizeof arena;
  config.has_storage = true;
  config.restore_buffer = saved;
  config.restore_size = sizeof saved;
  const gs_result result = gs_init(&config);
  if (result != GS_OK) {
    fprintf(stderr, "linux_client: gs_init() gives %d\n", (int)result);
    return 2;
  }
  gs_status_view status = {.size = sizeof status};
  const uint64_t end_ms = gs_posix_now_ms() + MINUTE_MS;
  while (gs_status(&status) == GS_OK && !status.run_finished && gs_posix_now_ms() < end_ms) {
    gs_posix_sleep_until(gs_poll(gs_posix_now_ms()));
  }
  printf("version=%u folded=%u finished=%d\n", (unsigned)status.version, (unsigned)status.updates_folded,
         (int)status.run_finished);
  return status.run_finished ? 0 : 1;
}
