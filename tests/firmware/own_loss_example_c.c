#include <gradstream/device.h>

/* A unit's calibration: the direction x of its magnet explains readings (a, b), b = x' a in the least squares sense. */
static const float readings[5][4] = {
    {1, 0, 0, 0.6F}, {0, 1, 0, 0.8F}, {0, 0, 1, 0.1F}, {1, 1, 0, 1.4F}, {0, 1, 1, 0.8F}};

static float error_of(const float* r, const float* x) { return r[0] * x[0] + r[1] * x[1] + r[2] * x[2] - r[3]; }

static int loss(const void* context, const float* x, const uint16_t* indices, uint32_t count, float* out) {
  *out = 0;
  for (uint32_t i = 0; i < count; ++i) {
    float error = error_of((const float*)context + 4 * (indices ? indices[i] : i), x);
    *out += 0.5F * error * error / (float)count;
  }
  return 0;
}

static int gradient(const void* context, const float* x, const uint16_t* indices, uint32_t count, float* out) {
  out[0] = out[1] = out[2] = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const float* r = (const float*)context + 4 * (indices ? indices[i] : i);
    for (int k = 0; k < 3; ++k) out[k] += error_of(r, x) * r[k] / (float)count;
  }
  return 0;
}

static const gs_problem calibration = {"calibration", readings, 3, 1, 5, loss, gradient};

/* config.problem = calibration_problem(); */
const gs_linked_problem* calibration_problem(void) { return gs_own_problem(&calibration); }
