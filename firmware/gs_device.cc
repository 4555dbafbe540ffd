// Devices behind an object (include/gradstream/device.h): each function of one has its device at work meanwhile, and
// calls the function without a device. A file of its own, so that an image with one device links none of it.
#include <cstring>
#include <new>

#include "firmware/application.h"
#include "firmware/device_parts.h"
#include "runtime/link/tls.h"

namespace gradstream {
namespace {

// Members of gs_port are only ever added, at the end, where no padding stands.
static_assert(sizeof(gs_port) == offsetof(gs_port, log) + sizeof(gs_port::log));
static_assert(sizeof(gs_device) <= sizeof(gs_device_memory), "raise GS_DEVICE_SIZE");
static_assert(alignof(gs_device) <= alignof(gs_device_memory));

bool is_tls_started = false;
bool is_polling = false;  // a loss that polls a device would do so without end

bool is_aligned(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % alignof(gs_device_memory) == 0; }

gs_result take_port(const gs_port& port, gs_port* out) {
  if (kReadsSizes && !is_size_known(port.size, sizeof port)) {
    return GS_BAD_SIZE;
  }
  std::memcpy(out, &port, kReadsSizes ? port.size : sizeof port);
  return out->link_read != nullptr && out->link_write != nullptr ? GS_OK : GS_BAD_ARGUMENT;
}

// What an older caller's structure has of the configuration.
gs_config whole_config(const gs_config& config) {
  gs_config whole = {};
  std::memcpy(&whole, &config, kReadsSizes ? config.size : sizeof config);
  whole.size = sizeof whole;
  return whole;
}

gs_result start(const gs_config& config, gs_device* device) {
  const DeviceScope scope(*device);
  gs_config whole = whole_config(config);
  whole.problem = take_own_problem(whole.problem, device);
  const gs_result result = gs_init(&whole);
  the_app.identity_line = device->identity_line;
  return result;
}

}  // namespace

bool is_pool_taken() { return is_tls_started || app_at_work != &the_app; }

Status start_tls(void* pool, size_t pool_size) {
  if (!is_tls_started) {
    GS_TRY(tls_start(pool, pool_size));
    is_tls_started = true;
  }
  return Status::kOk;
}

[[gnu::weak]] const gs_linked_problem* take_own_problem(const gs_linked_problem* problem, gs_device*) {
  return problem;
}

}  // namespace gradstream

using gradstream::DeviceScope;

size_t gs_device_size(void) { return sizeof(gs_device); }

gs_result gs_device_init(void* memory, size_t size, const gs_config* config, const gs_port* port, gs_device** device) {
  using namespace gradstream;
  if (device != nullptr) {
    *device = nullptr;
  }
  if (device == nullptr || memory == nullptr || config == nullptr || port == nullptr || !is_aligned(memory)) {
    return GS_BAD_ARGUMENT;
  }
  if (size < sizeof(gs_device)) {
    return GS_SMALL_MEMORY;
  }
  if (kReadsSizes && !is_size_known(config->size, sizeof *config)) {
    return GS_BAD_SIZE;
  }
  gs_port whole_port = {};
  if (const gs_result result = take_port(*port, &whole_port); result != GS_OK) {
    return result;
  }
  auto* const made = new (memory) gs_device();
  made->port = whole_port;
  if (const gs_result result = start(*config, made); result != GS_OK) {
    made->~gs_device();
    return result;
  }
  *device = made;
  return GS_OK;
}

void gs_device_close(gs_device* device) {
  if (device == nullptr) {
    return;
  }
  GS_ASSERT(!gradstream::is_polling);
  {
    const DeviceScope scope(*device);
    gradstream::is_polling = true;  // gs_problem.cancel is a callback as others are
    device->device->client().drop_open_step();
    gradstream::is_polling = false;
    device->device.reset();  // its session says so to the server
    if (device->port.link_close != nullptr) {
      device->port.link_close(device->port.context);
    }
  }
  device->~gs_device();
}

uint64_t gs_device_poll(gs_device* device, uint64_t now_ms) {
  const DeviceScope scope(*device);
  GS_ASSERT(!gradstream::is_polling);
  gradstream::is_polling = true;
  const uint64_t wake_ms = gs_poll(now_ms);
  gradstream::is_polling = false;
  return wake_ms;
}

bool gs_device_model(gs_device* device, gs_model_view* out) {
  const DeviceScope scope(*device);
  return gs_model(out);
}

gs_result gs_device_status(gs_device* device, gs_status_view* out) {
  const DeviceScope scope(*device);
  return gs_status(out);
}

void gs_device_note_stack_high_water(gs_device* device, uint32_t bytes) {
  const DeviceScope scope(*device);
  gs_note_stack_high_water(bytes);
}
