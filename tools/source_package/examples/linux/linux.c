/* A device on Linux in C: its port is a socket, its samples are made up. tools/package_source_trial.py trains it.
 *
 *   linux IDENTITY-FILE ADDRESS PORT
 *
 * ADDRESS is a number, such as 127.0.0.1. The program ends with the run, and its last line says what the device holds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <gradstream.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DIMENSION = 16, SAMPLES = 64, SLEEP_MS_MAX = 20 };

static struct sockaddr_in server = {.sin_family = AF_INET};
static int link_socket = -1;

uint64_t gs_port_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000U + (uint64_t)now.tv_nsec / 1000000U;
}

bool gs_port_random(uint8_t* out, size_t size) { return getrandom(out, size, 0) == (ssize_t)size; }

bool gs_port_link_can_dial(void) { return true; }

int32_t gs_port_link_open(void) {
  if (link_socket < 0) {
    link_socket = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  }
  if (connect(link_socket, (const struct sockaddr*)&server, sizeof server) == 0 || errno == EISCONN) {
    return 1;
  }
  if (errno == EINPROGRESS || errno == EALREADY) {
    return GS_PORT_WOULD_BLOCK;
  }
  gs_port_link_close();
  return GS_PORT_CLOSED;
}

void gs_port_link_close(void) {
  if (link_socket >= 0) {
    close(link_socket);
  }
  link_socket = -1;
}

/* What recv() and send() returned, as the port says it. */
static int32_t answer(ssize_t count) {
  if (count > 0) {
    return (int32_t)count;
  }
  return count < 0 && (errno == EAGAIN || errno == EINTR) ? GS_PORT_WOULD_BLOCK : GS_PORT_CLOSED;
}

int32_t gs_port_link_read(uint8_t* out, size_t size) { return answer(recv(link_socket, out, size, 0)); }

int32_t gs_port_link_write(const uint8_t* bytes, size_t size) {
  return answer(send(link_socket, bytes, size, MSG_NOSIGNAL));
}

void gs_port_log(const char* line) { puts(line); }

/* Whole numbers from -8 to 8, of which the first value varies twice as much. */
static int read_sample(const void* context, uint32_t index, float* out) {
  uint32_t state = index * 2654435761U + 1U;
  (void)context;
  for (int i = 0; i < DIMENSION; ++i) {
    state = state * 1664525U + 1013904223U;
    out[i] = (float)((int32_t)(state >> 24) % 9 - 4) * (i == 0 ? 2.0F : 1.0F);
  }
  return 0;
}

static gs_result start(const char* identity_path) {
  static char identity[4096];
  static uint8_t arena[65536];
  static uint8_t tls_pool[16384];
  static const gs_sample_source samples = {.count = SAMPLES, .dimension = DIMENSION, .read = read_sample};
  static gs_config config = {.size = sizeof config, .firmware_version = "1.0", .board = "linux"};
  FILE* const file = fopen(identity_path, "r");
  if (file == NULL) {
    return GS_BAD_IDENTITY;
  }
  config.identity_text = identity;
  config.identity_size = fread(identity, 1, sizeof identity, file);
  fclose(file);
  config.samples = &samples;
  config.arena = arena;
  config.arena_size = sizeof arena;
  config.tls_pool = tls_pool;
  config.tls_pool_size = sizeof tls_pool;
  return gs_init(&config);
}

int main(int count, char** words) {
  if (count != 4 || inet_pton(AF_INET, words[2], &server.sin_addr) != 1) {
    fputs("usage: linux IDENTITY-FILE ADDRESS PORT\n", stderr);
    return 2;
  }
  server.sin_port = htons((uint16_t)strtoul(words[3], NULL, 10));
  setvbuf(stdout, NULL, _IOLBF, 0);
  const gs_result result = start(words[1]);
  if (result != GS_OK) {
    fprintf(stderr, "gs_init() answered %d\n", (int)result);
    return 1;
  }
  gs_status_view status = {.size = sizeof status};
  while (!status.run_finished) {
    const uint64_t wake_ms = gs_poll(gs_port_now_ms());
    const uint64_t now_ms = gs_port_now_ms();
    struct pollfd news = {.fd = link_socket, .events = POLLIN};
    poll(&news, 1, wake_ms <= now_ms ? 0 : wake_ms - now_ms < SLEEP_MS_MAX ? (int)(wake_ms - now_ms) : SLEEP_MS_MAX);
    gs_status(&status);
  }
  printf("version=%u folded=%u mismatches=%u digest=%016llx\n", status.version, status.updates_folded,
         status.digest_mismatches, (unsigned long long)status.digest);
  return 0;
}
