/* The application's header as a C program sees it: compiled as C, used by gradstream_device_test.cc. */
#include <gradstream/device.h>

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

/* Names each function that uses a model, as C declares it. */
static uint32_t versions_told;

static void on_model(void* context, const gs_model_view* model) {
  *(uint32_t*)context = model->version;
  ++versions_told;
}

void gs_test_c_listen(uint32_t* version) { gs_on_model(on_model, version); }

uint32_t gs_test_c_versions_told(void) { return versions_told; }

/* 1: alarm; 0: none; below 0: minus the gs_result that says why there is no answer. */
int gs_test_c_alarm(const float* sample, float* score, float* prediction) {
  float threshold = 0;
  gs_result result = gs_score(sample, score);
  if (result == GS_OK && prediction != NULL) {
    result = gs_predict(sample, prediction);
  }
  if (result == GS_OK) {
    result = gs_threshold(&threshold);
  }
  return result == GS_OK ? *score > threshold : -(int)result;
}
