/* A program of a user on Linux, in C: several devices in one process that train until their run is over.
 *
 * usage: several_devices HOST:PORT IDENTITY..., 1 to 9 files. A device that finds no server, or is refused, is told of,
 * and the others train on. Exit status 0: the run is over for all others; 1: not within a minute; 2: usage, or a device
 * did not start. tests/consume/consume_test.py links it, and tests/firmware/several_devices_test.py has it train. */
#include <gradstream/device.h>
#include <gradstream/port.h>
#include <gradstream/posix.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DEVICES_MAX = 9, SAMPLES = 64, VALUES = 8, ARENA_SIZE = 1 << 18, MINUTE_MS = 60000 };

typedef struct unit {
  char identity[GS_POSIX_IDENTITY_SIZE];
  uint8_t arena[ARENA_SIZE];
  gs_device_memory memory;
  gs_device* device;
  gs_sample_source samples;
  gs_status_view status;
} unit;

static unit units[DEVICES_MAX];
static gs_posix_port ports[DEVICES_MAX];

/* Those of a device differ by the last letter of its name, whichever process it is in. */
static int read_sample(const void* context, uint32_t index, float* out) {
  const unit* self = context;
  const char* name = strchr(self->identity, '=');
  const uint32_t letter = (uint8_t)name[strcspn(name, "\n") - 1];
  for (uint32_t i = 0; i < VALUES; ++i) {
    out[i] = (float)((index * 7 + i * 3 + letter * (i + 1)) % 11) / 11.0F - 0.5F;
  }
  return 0;
}

static bool start(unit* self, gs_posix_port* posix, const char* server, const char* identity) {
  gs_config config = {.size = sizeof config, .firmware_version = "1.0"};
  gs_port port;
  if (!gs_posix_port_init(posix, server, NULL, &port) ||
      !gs_posix_read_file(identity, self->identity, sizeof self->identity - 1, &config.identity_size)) {
    return false;
  }
  self->samples = (gs_sample_source){.context = self, .count = SAMPLES, .dimension = VALUES, .read = read_sample};
  config.identity_text = self->identity;
  config.samples = &self->samples;
  config.arena = self->arena;
  config.arena_size = sizeof self->arena;
  const gs_result result = gs_device_init(&self->memory, sizeof self->memory, &config, &port, &self->device);
  if (result != GS_OK) {
    fprintf(stderr, "several_devices: gs_device_init() gives %d\n", (int)result);
  }
  return result == GS_OK;
}

static bool is_over(const gs_status_view* status) {
  return status->run_finished || (status->sessions == 0 && status->connection_failures > 0);
}

/* When to go on; UINT64_MAX: all are over or refused. */
static uint64_t turn(int count) {
  uint64_t wake_ms = UINT64_MAX;
  for (int i = 0; i < count; ++i) {
    unit* self = &units[i];
    if (is_over(&self->status)) {
      continue;
    }
    const uint64_t when_ms = gs_device_poll(self->device, gs_posix_now_ms());
    self->status.size = sizeof self->status;
    if (gs_device_status(self->device, &self->status) != GS_OK || !is_over(&self->status)) {
      wake_ms = when_ms < wake_ms ? when_ms : wake_ms;
    }
  }
  return wake_ms;
}

int main(int count, char** words) {
  const int device_count = count - 2;
  if (device_count < 1 || device_count > DEVICES_MAX) {
    fprintf(stderr, "usage: several_devices HOST:PORT IDENTITY...\n");
    return 2;
  }
  for (int i = 0; i < device_count; ++i) {
    if (!start(&units[i], &ports[i], words[1], words[i + 2])) {
      fprintf(stderr, "several_devices: %s: no such file, or no HOST:PORT before it\n", words[i + 2]);
      return 2;
    }
  }
  const uint64_t end_ms = gs_posix_now_ms() + MINUTE_MS;
  uint64_t wake_ms = 0;
  while ((wake_ms = turn(device_count)) != UINT64_MAX && gs_posix_now_ms() < end_ms) {
    gs_posix_sleep_until_any(ports, (size_t)device_count, wake_ms);
  }
  for (int i = 0; i < device_count; ++i) {
    const gs_status_view* status = &units[i].status;
    printf("device=%s version=%u folded=%u digest=%016" PRIx64 " finished=%d fault=\"%s\"\n", status->device,
           (unsigned)status->version, (unsigned)status->updates_folded, status->digest, (int)status->run_finished,
           status->last_fault);
    gs_device_close(units[i].device);
  }
  return wake_ms == UINT64_MAX ? 0 : 1;
}
