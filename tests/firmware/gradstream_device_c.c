/* The application's header as a C program sees it: compiled as C, used by gradstream_device_test.cc. */
#include "firmware/gradstream_device.h"

static int read_sample(const void* context, uint32_t index, float* out) {
  const float* samples = (const float*)context;
  for (uint32_t i = 0; i < 3; ++i) {
    out[i] = samples[3 * index + i];
  }
  return 0;
}

gs_sample_source gs_test_c_samples(const float* samples, uint32_t count) {
  gs_sample_source source = {samples, count, 3, read_sample};
  return source;
}

uint64_t gs_test_c_turn(uint64_t now_ms, uint32_t* version) {
  gs_model_view model;
  uint64_t wake_ms = gs_poll(now_ms);
  *version = gs_model(&model) ? model.version : 0;
  return wake_ms;
}
