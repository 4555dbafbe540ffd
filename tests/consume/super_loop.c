/* A program of a user: a device in C over a port of its own, whose link has nobody at the other end. On a host it runs
 * some turns; for a board it is linked. tests/consume/consume_test.py and tools/soak_consume.py build it. */
#include <gradstream/device.h>
#include <gradstream/port.h>

enum { TURNS = 50 };

static float ring[8 * 3];
static uint8_t arena[16384];
static uint8_t tls_pool[16384];
static uint64_t now_ms;
static const char identity[] =
    "identity = kitchen\nkey = 0707070707070707070707070707070707070707070707070707070707070707\n";

uint64_t gs_port_now_ms(void) { return now_ms; }

/* No random numbers at all: a product has a source that passed its test. */
bool gs_port_random(uint8_t* out, size_t size) {
  static uint8_t next = 1;
  for (size_t i = 0; i < size; ++i) {
    next = (uint8_t)(next * 29U + 71U);
    out[i] = next;
  }
  return true;
}

int32_t gs_port_link_read(uint8_t* out, size_t size) {
  (void)out;
  (void)size;
  return GS_PORT_WOULD_BLOCK;
}

int32_t gs_port_link_write(const uint8_t* bytes, size_t size) {
  (void)bytes;
  return (int32_t)size;
}

/* Exit status 0: the device began a handshake and had no answer. */
int main(void) {
  static gs_config config = {.size = sizeof config, .firmware_version = "1.0"};
  config.identity_text = identity;
  config.identity_size = sizeof identity - 1;
  config.push_buffer = ring;
  config.push_capacity = 8;
  config.push_dimension = 3;
  config.arena = arena;
  config.arena_size = sizeof arena;
  config.tls_pool = tls_pool;
  config.tls_pool_size = sizeof tls_pool;
  const gs_result result = gs_init(&config);
  if (result != GS_OK) {
    return (int)result;
  }
  for (int turn = 0; turn < TURNS; ++turn) {
    const uint64_t wake_ms = gs_poll(now_ms);
    now_ms = wake_ms > now_ms ? wake_ms : now_ms + 1;
  }
  gs_status_view status = {.size = sizeof status};
  return gs_status(&status) == GS_OK && status.bytes_sent > 0 && status.bytes_received == 0 ? 0 : 100;
}
