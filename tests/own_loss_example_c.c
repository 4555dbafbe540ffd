#include "firmware/gradstream_device.h"

/* A unit's calibration: the direction x of its magnet explains the readings b = x' a in the least squares sense. */
typedef struct reading {
  float a[3];
  float b;
} reading;

static const reading readings[] = {
    {{1, 0, 0}, 0.6F}, {{0, 1, 0}, 0.8F}, {{0, 0, 1}, 0.1F}, {{1, 1, 0}, 1.4F}, {{0, 1, 1}, 0.8F}};

static float error_of(const reading* r, const float* x) {
  return r->a[0] * x[0] + r->a[1] * x[1] + r->a[2] * x[2] - r->b;
}

static int loss(const void* context, const float* x, const uint16_t* indices, uint32_t count, float* out) {
  const reading* all = (const reading*)context;
  *out = 0;
  for (uint32_t i = 0; i < count; ++i) {
    float error = error_of(&all[indices ? indices[i] : i], x);
    *out += 0.5F * error * error / (float)count;
  }
  return 0;
}

static int gradient(const void* context, const float* x, const uint16_t* indices, uint32_t count, float* out) {
  const reading* all = (const reading*)context;
  out[0] = out[1] = out[2] = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const reading* r = &all[indices ? indices[i] : i];
    for (int k = 0; k < 3; ++k) {
      out[k] += error_of(r, x) * r->a[k] / (float)count;
    }
  }
  return 0;
}

const gs_linked_problem* calibration_problem(void) { /* config.problem = calibration_problem(); */
  const gs_problem problem = {"calibration", readings, 3, 1, 5, loss, gradient};
  return gs_own_problem(&problem);
}
