// gs_sample_push(): a ring of the newest samples, and before it a queue for a producer beside gs_poll().
//
//   interrupt or task -> queue -> gs_poll(): while no local step reads the ring -> ring -> problem
//
// The queue has one producer and one consumer. Each writes one counter of samples, and reads the other's: a load and a
// store of a word, which every processor has. Counters run on beyond the capacity, so that full and empty differ.
#include <atomic>
#include <cstring>

#include "firmware/application.h"
#include "runtime/base/products.h"

namespace gradstream {
namespace {

[[gnu::used]] const char* const kHooks = &kUseHooks;

struct SampleQueue {
  std::atomic<float*> values{nullptr};  // set last: a producer that is early finds no queue
  uint32_t capacity = 0;
  std::atomic<uint32_t> pushed{0};  // by the producer
  std::atomic<uint32_t> moved{0};   // by gs_poll()
};
// Only loads and stores of words may be used here. Reason: a Cortex-M0+ has no instruction that does both.
static_assert(sizeof(std::atomic<float*>) == sizeof(float*), "no lock beside it");

SampleQueue queue;

// Where the sample after so many stands. Counters wrap at a multiple of the capacity.
uint32_t counter_after(uint32_t count) { return count + 1 == 2 * queue.capacity ? 0 : count + 1; }

float* place_of(float* values, uint32_t count) {
  const uint32_t index = count < queue.capacity ? count : count - queue.capacity;
  return values + size_t{index} * app.ring.dimension;
}

void put_in_ring(const float* values) {
  SampleRing& ring = app.ring;
  std::memcpy(ring.values + size_t{ring.next} * ring.dimension, values, ring.dimension * sizeof(float));
  ring.next = ring.next + 1 == ring.capacity ? 0 : ring.next + 1;
  if (ring.count < ring.capacity) {
    ++ring.count;
  }
}

// False: it is full.
bool put_in_queue(float* place, const float* values) {
  const uint32_t pushed = queue.pushed.load(std::memory_order_relaxed);
  const uint32_t moved = queue.moved.load(std::memory_order_acquire);
  const uint32_t held = pushed >= moved ? pushed - moved : pushed + 2 * queue.capacity - moved;
  if (held == queue.capacity) {
    return false;
  }
  std::memcpy(place_of(place, pushed), values, app.ring.dimension * sizeof(float));
  queue.pushed.store(counter_after(pushed), std::memory_order_release);
  return true;
}

gs_result lose_sample() {
  app.samples_lost.store(app.samples_lost.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return GS_BUSY;
}

bool is_ring_read() { return app.device->client().is_step_open(); }

}  // namespace

bool take_queue(const gs_config& config) {
  if (config.queue_buffer == nullptr) {
    return config.queue_capacity == 0;
  }
  if (config.push_buffer == nullptr || config.queue_capacity == 0 || config.queue_capacity > kSampleCountMax) {
    return false;
  }
  queue.capacity = config.queue_capacity;
  queue.pushed.store(0, std::memory_order_relaxed);  // of a start that was refused
  queue.moved.store(0, std::memory_order_relaxed);
  queue.values.store(config.queue_buffer, std::memory_order_release);
  return true;
}

void move_queue() {
  float* const values = queue.values.load(std::memory_order_relaxed);
  if (values == nullptr || is_ring_read()) {
    return;
  }
  uint32_t moved = queue.moved.load(std::memory_order_relaxed);
  // What is pushed meanwhile waits for the next poll: a fast producer cannot hold this one up.
  const uint32_t pushed = queue.pushed.load(std::memory_order_acquire);
  while (moved != pushed) {
    put_in_ring(place_of(values, moved));
    moved = counter_after(moved);
    queue.moved.store(moved, std::memory_order_release);
  }
}

}  // namespace gradstream

gs_result gs_sample_push(const float* values) {
  using namespace gradstream;
  float* const place = queue.values.load(std::memory_order_acquire);
  if (values == nullptr || app.ring.values == nullptr || !app.device.has_value()) {
    return GS_BAD_ARGUMENT;
  }
  if (!all_finite(app.ring.dimension, values)) {
    return GS_BAD_SAMPLE;
  }
  if (place != nullptr) {
    return put_in_queue(place, values) ? GS_OK : lose_sample();
  }
  if (is_ring_read()) {
    return lose_sample();
  }
  put_in_ring(values);
  return GS_OK;
}
