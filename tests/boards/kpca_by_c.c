/* The loss of tests/firmware/own_loss_example_eigen.cc in C, by which own_loss_board_test.py measures what Eigen costs.
 * k-PCA at points of at most 64 x 4: f(x) = -1/(2 B) sum_b |z_b x|^2, z_b a row. */
#include <gradstream/device.h>

enum { ROWS = 64, COLS = 4 };

static const gs_sample_source* samples;
static gs_problem problem;
static float sample[ROWS];

/* products (cols values) <- z x of one sample, which stands in `sample` then. */
static int multiply_sample(const uint16_t* indices, uint32_t position, const float* x, float* products) {
  const uint32_t cols = problem.cols;
  const int code = samples->read(samples->context, indices ? indices[position] : position, sample);
  for (uint32_t c = 0; c < cols; ++c) {
    products[c] = 0;
  }
  for (uint32_t r = 0; r < problem.rows; ++r) {
    for (uint32_t c = 0; c < cols; ++c) {
      products[c] += sample[r] * x[r * cols + c];
    }
  }
  return code;
}

static int loss(const void* context, const float* x, const uint16_t* indices, uint32_t count, float* out) {
  float products[COLS];
  float sum = 0;
  (void)context;
  for (uint32_t i = 0; i < count; ++i) {
    const int code = multiply_sample(indices, i, x, products);
    if (code != 0) {
      return code;
    }
    for (uint32_t c = 0; c < problem.cols; ++c) {
      sum += products[c] * products[c];
    }
  }
  *out = -0.5F * sum / (float)count;
  return 0;
}

static int gradient(const void* context, const float* x, const uint16_t* indices, uint32_t count, float* out) {
  float products[COLS];
  (void)context;
  for (uint32_t i = 0; i < problem.rows * problem.cols; ++i) {
    out[i] = 0;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const int code = multiply_sample(indices, i, x, products);
    if (code != 0) {
      return code;
    }
    for (uint32_t r = 0; r < problem.rows; ++r) {
      for (uint32_t c = 0; c < problem.cols; ++c) {
        out[r * problem.cols + c] -= sample[r] * products[c] / (float)count;
      }
    }
  }
  return 0;
}

const gs_linked_problem* kpca_by_c(const gs_sample_source* shard) {
  problem = (gs_problem){
      .name = "kpca", .rows = ROWS, .cols = COLS, .sample_count = shard->count, .loss = loss, .gradient = gradient};
  samples = shard;
  return shard->dimension == ROWS ? gs_own_problem(&problem) : 0;
}
