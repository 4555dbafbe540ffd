/* A program of a user: a device in C over a port of its own, whose link has nobody at the other end, and beside it one
 * behind an object. On a host it runs some turns; for a board it is linked. tests/consume/consume_test.py and
 * tools/soak_consume.py build it. */
#include <gradstream/device.h>
#include <gradstream/port.h>

enum { TURNS = 50 };

static float ring[8 * 3];
static uint8_t arena[16384];
static float second_ring[8 * 3];
static uint8_t second_arena[16384];
static gs_device_memory second_memory;
static size_t second_sent;
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

static int32_t second_read(void* context, uint8_t* out, size_t size) {
  (void)context;
  return gs_port_link_read(out, size);
}

static int32_t second_write(void* context, const uint8_t* bytes, size_t size) {
  (void)bytes;
  *(size_t*)context += size;
  return (int32_t)size;
}

/* Of the first one's configuration. */
static gs_result start_second(gs_config config, gs_device** device) {
  gs_port port = {.size = sizeof port, .context = &second_sent};
  port.link_read = second_read;
  port.link_write = second_write;
  config.push_buffer = second_ring;
  config.arena = second_arena;
  return gs_device_init(&second_memory, sizeof second_memory, &config, &port, device);
}

/* Exit status 0: both devices began a handshake and had no answer. */
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
  gs_device* second = 0;
  const gs_result started = start_second(config, &second);
  if (started != GS_OK) {
    return (int)started;
  }
  for (int turn = 0; turn < TURNS; ++turn) {
    const uint64_t wake_ms = gs_poll(now_ms);
    const uint64_t second_ms = gs_device_poll(second, now_ms);
    const uint64_t first_ms = wake_ms < second_ms ? wake_ms : second_ms;
    now_ms = first_ms > now_ms ? first_ms : now_ms + 1;
  }
  gs_device_close(second);
  gs_status_view status = {.size = sizeof status};
  const bool has_sent = gs_status(&status) == GS_OK && status.bytes_sent > 0 && second_sent > 0;
  return has_sent && status.bytes_received == 0 ? 0 : 100;
}
