// gs_sample_push(): a ring of the newest samples, and before it a queue for a producer beside gs_poll().
//
//   interrupt or task -> queue -> gs_poll(): while no local step reads the ring -> ring -> problem
//
// The queue has one producer and one consumer. Each writes one counter of samples, and reads the other's: a load and a
// store of a word, which every processor has. Counters run on beyond the capacity, so that full and empty differ.
#include <atomic>
#include <cstring>

#include "firmware/application.h"
#include "firmware/device_parts.h"
#include "runtime/base/products.h"

namespace gradstream {
namespace {

[[gnu::used]] const char* const kHooks = &kUseHooks;

SampleQueue own_queue;

// Where the sample after so many stands. Counters wrap at a multiple of the capacity.
uint32_t counter_after(const SampleQueue& queue, uint32_t count) {
  return count + 1 == 2 * queue.capacity ? 0 : count + 1;
}

float* place_of(const SampleQueue& queue, float* values, uint32_t count, uint32_t dimension) {
  const uint32_t index = count < queue.capacity ? count : count - queue.capacity;
  return values + size_t{index} * dimension;
}

void put_in_ring(SampleRing& ring, const float* values) {
  std::memcpy(ring.values + size_t{ring.next} * ring.dimension, values, ring.dimension * sizeof(float));
  ring.next = ring.next + 1 == ring.capacity ? 0 : ring.next + 1;
  if (ring.count < ring.capacity) {
    ++ring.count;
  }
}

// False: it is full.
bool put_in_queue(SampleQueue& queue, float* place, const float* values, uint32_t dimension) {
  const uint32_t pushed = queue.pushed.load(std::memory_order_relaxed);
  const uint32_t moved = queue.moved.load(std::memory_order_acquire);
  const uint32_t held = pushed >= moved ? pushed - moved : pushed + 2 * queue.capacity - moved;
  if (held == queue.capacity) {
    return false;
  }
  std::memcpy(place_of(queue, place, pushed, dimension), values, dimension * sizeof(float));
  queue.pushed.store(counter_after(queue, pushed), std::memory_order_release);
  return true;
}

bool is_ring_read(const Application& device) { return device.device->client().is_step_open(); }

gs_result lose_sample(Application& device) {
  std::atomic<uint32_t>& lost = device.samples_lost;
  lost.store(lost.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return GS_BUSY;
}

// Beside whichever device is at work: an interrupt may call it.
gs_result push(Application& device, SampleQueue& queue, const float* values) {
  float* const place = queue.values.load(std::memory_order_acquire);
  SampleRing& ring = device.ring;
  if (values == nullptr || ring.values == nullptr || !device.device.has_value()) {
    return GS_BAD_ARGUMENT;
  }
  if (!all_finite(ring.dimension, values)) {
    return GS_BAD_SAMPLE;
  }
  if (place != nullptr) {
    return put_in_queue(queue, place, values, ring.dimension) ? GS_OK : lose_sample(device);
  }
  if (is_ring_read(device)) {
    return lose_sample(device);
  }
  put_in_ring(ring, values);
  return GS_OK;
}

}  // namespace

bool take_queue(const gs_config& config) {
  if (config.queue_buffer == nullptr) {
    return config.queue_capacity == 0;
  }
  if (config.push_buffer == nullptr || config.queue_capacity == 0 || config.queue_capacity > kSampleCountMax) {
    return false;
  }
  SampleQueue& queue = at_work(own_queue);
  queue.capacity = config.queue_capacity;
  queue.pushed.store(0, std::memory_order_relaxed);  // of a start that was refused
  queue.moved.store(0, std::memory_order_relaxed);
  queue.values.store(config.queue_buffer, std::memory_order_release);
  return true;
}

void move_queue() {
  SampleQueue& queue = at_work(own_queue);
  SampleRing& ring = app().ring;
  float* const values = queue.values.load(std::memory_order_relaxed);
  if (values == nullptr || is_ring_read(app())) {
    return;
  }
  uint32_t moved = queue.moved.load(std::memory_order_relaxed);
  // What is pushed meanwhile waits for the next poll: a fast producer cannot hold this one up.
  const uint32_t pushed = queue.pushed.load(std::memory_order_acquire);
  while (moved != pushed) {
    put_in_ring(ring, place_of(queue, values, moved, ring.dimension));
    moved = counter_after(queue, moved);
    queue.moved.store(moved, std::memory_order_release);
  }
}

}  // namespace gradstream

gs_result gs_sample_push(const float* values) {
  return gradstream::push(gradstream::the_app, gradstream::own_queue, values);
}

gs_result gs_device_sample_push(gs_device* device, const float* values) {
  return gradstream::push(*device, *device, values);
}
