/* A device of an application in C over the sockets port, with samples of its own: ADDRESS PORT IDENTITY-FILE INDEX. It
 * trains until its run is finished, and prints the digest of its model. With GS_SOCKETS_LWIP lwIP's sockets lead to the
 * server, through tests/boards/sockets_lwip.c. */
#include <gradstream/device.h>
#include <gradstream/port.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "boards/sockets/sockets.h"
#if defined(GS_SOCKETS_LWIP)
#include "tests/boards/sockets_lwip.h"
#endif

enum { SAMPLES = 40, DIMENSION = 8, SLEEP_MS_MAX = 1000, SECONDS_MAX = 60 };

static uint8_t arena[32768];
static uint8_t tls_pool[32768];
static char identity[1024];
static uint32_t device_index;

uint64_t gs_port_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

bool gs_port_random(uint8_t* out, size_t size) { return getrandom(out, size, 0) == (ssize_t)size; }

void gs_port_log(const char* line) { puts(line); }

void gs_port_assert_failed(const char* file, int line) {
  printf("event=assert_failed file=%s line=%d\n", file, line);
  exit(3);
}

/* Small whole numbers; the first entries vary most. */
static int read_sample(const void* context, uint32_t index, float* out) {
  (void)context;
  uint32_t word = 977 * device_index + index + 1;
  for (uint32_t i = 0; i < DIMENSION; ++i) {
    word = word * 1664525U + 1013904223U;
    out[i] = (float)((int32_t)(word >> 24) - 128) / (float)(64 << i);
  }
  return 0;
}

static size_t read_file(const char* path) {
  FILE* file = fopen(path, "r");
  const size_t size = file == NULL ? 0 : fread(identity, 1, sizeof identity, file);
  if (file != NULL) {
    fclose(file);
  }
  return size;
}

static void sleep_until(uint64_t when_ms) {
  const uint64_t now_ms = gs_port_now_ms();
  uint64_t left_ms = when_ms > now_ms ? when_ms - now_ms : 0;
  left_ms = left_ms < SLEEP_MS_MAX ? left_ms : SLEEP_MS_MAX;
  if (!gs_sockets_wait((uint32_t)left_ms)) {
    const struct timespec rest = {(time_t)(left_ms / 1000), (long)(left_ms % 1000) * 1000000};
    nanosleep(&rest, NULL);
  }
}

int main(int count, char** words) {
  static const gs_sample_source samples = {NULL, SAMPLES, DIMENSION, read_sample, NULL};
  static gs_config config = {.size = sizeof config, .firmware_version = "1.0", .board = "sockets"};
  static gs_status_view status = {.size = sizeof status};
  if (count != 5) {
    return 2;
  }
  uint16_t port = (uint16_t)atoi(words[2]);
#if defined(GS_SOCKETS_LWIP)
  port = sockets_lwip_start(words[1], port);
#endif
  device_index = (uint32_t)atoi(words[4]);
  config.identity_text = identity;
  config.identity_size = read_file(words[3]);
  config.samples = &samples;
  config.arena = arena;
  config.arena_size = sizeof arena;
  config.tls_pool = tls_pool;
  config.tls_pool_size = sizeof tls_pool;
  const bool is_address = gs_sockets_set_server(words[1], port);
  const gs_result result = gs_init(&config);
  if (!is_address || result != GS_OK) {
    printf("event=failed address=%d result=%d\n", is_address, (int)result);
    return 2;
  }
  const uint64_t end_ms = gs_port_now_ms() + 1000 * SECONDS_MAX;
  while (!status.run_finished && gs_port_now_ms() < end_ms) {
    sleep_until(gs_poll(gs_port_now_ms()));
    (void)gs_status(&status);
  }
  printf("event=finished version=%u digest=%016llx sessions=%u mismatches=%u folded=%u\n", (unsigned)status.version,
         (unsigned long long)status.digest, (unsigned)status.sessions, (unsigned)status.digest_mismatches,
         (unsigned)status.updates_folded);
  return status.run_finished ? 0 : 1;
}
