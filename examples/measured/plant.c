/* The application of examples/measured: a loss that is measured on a plant. The plant is a known quadratic, x' A x at a
 * point x of the sphere, with noise. It has its answer some time after the question, when a hardware timer of the board
 * says so. No gradient exists, and no formula is known to the device: zeroth order is all that can train this. */
#include <gradstream/device.h>
#include <stddef.h>

/* Values of a point. Its shard has ROWS samples, the rows of A, and one more: noise, time, seed. */
enum { ROWS = 6 };
/* Deviations from this many uniforms, whose sum has deviation 1. */
enum { UNIFORM_COUNT = 12 };

/* ---- Timer 0 of Arm's CMSDK, which nothing else of the image uses; it counts the system's clock of 25 MHz ---- */

struct cmsdk_timer {
  volatile uint32_t control;
  volatile uint32_t value;
  volatile uint32_t reload;
  volatile uint32_t interrupt; /* read: it has fired; write: clear */
};
#define TIMER ((struct cmsdk_timer*)0x40000000)
enum { TIMER_ENABLE = 1, TIMER_INTERRUPT = 8, TICKS_PER_MS = 25000 };

static void timer_stop(void) {
  TIMER->control = 0;
  TIMER->interrupt = 1;
}

static void timer_start(uint32_t ms) {
  timer_stop();
  TIMER->reload = ms * TICKS_PER_MS;
  TIMER->value = ms * TICKS_PER_MS;
  TIMER->control = TIMER_ENABLE | TIMER_INTERRUPT;
}

static bool timer_has_fired(void) { return TIMER->interrupt != 0; }

/* ---- The plant ---- */

struct plant {
  float matrix[ROWS][ROWS];
  float deviation;   /* of the noise */
  uint32_t time_ms;  /* from the question to the answer */
  uint32_t seed;     /* of the noise */
  uint32_t question; /* that is being measured, or was measured last */
  float answer;      /* to it */
};

static struct plant plant;

/* Uniform in [0, 1): a mixed counter. */
static float uniform(uint32_t counter) {
  uint32_t word = counter * 0x9E3779B9U + plant.seed * 0x85EBCA6BU;
  word = (word ^ word >> 16) * 0x7FEB352DU;
  word = (word ^ word >> 15) * 0x846CA68BU;
  word ^= word >> 16;
  return (float)(word >> 8) / 16777216.0F;
}

/* Of deviation 1 and mean 0, near to a normal; another one for each question. */
static float noise(uint32_t question) {
  float sum = -0.5F * UNIFORM_COUNT;
  for (uint32_t i = 0; i < UNIFORM_COUNT; ++i) {
    sum += uniform(question * UNIFORM_COUNT + i);
  }
  return sum;
}

/* The plant moves to x, and begins to settle. */
static void plant_ask(uint32_t question, const float* x) {
  plant.question = question;
  plant.answer = plant.deviation * noise(question);
  for (uint32_t i = 0; i < ROWS; ++i) {
    for (uint32_t j = 0; j < ROWS; ++j) {
      plant.answer += x[i] * plant.matrix[i][j] * x[j];
    }
  }
  timer_start(plant.time_ms);
}

/* ---- The loss ---- */

static int loss(const void* context, const float* x, const uint16_t* indices, uint32_t index_count, float* out) {
  (void)context;
  (void)indices;
  (void)index_count;
  if (gs_question() != plant.question) {
    plant_ask(gs_question(), x);
  }
  if (!timer_has_fired()) {
    return GS_MEASURING;
  }
  timer_stop();
  *out = plant.answer;
  return 0;
}

static void cancel(const void* context, uint32_t question) {
  (void)context;
  (void)question;
  timer_stop();
}

/* The image's floors (GS_OWN_PRIVACY, firmware/main.cc). A measurement is of a plant, and there are no samples that one
 * could read out of it: an estimate of one is what there is. */
gs_privacy plant_privacy(void) {
  const gs_privacy privacy = {.batch_size_min = 1};
  return privacy;
}

/* The image's problem (GS_OWN_PROBLEM, firmware/main.cc): this unit's plant stands in its shard. */
const gs_linked_problem* plant_problem(const gs_sample_source* shard) {
  static const gs_problem problem = {
      .name = "plant",
      .rows = ROWS,
      .cols = 1,
      .sample_count = 1,
      .loss = loss,
      .measure_timeout_ms = 5000, /* a thousand times what the plant takes */
      .cancel = cancel,
  };
  float settings[ROWS];
  if (shard->dimension != ROWS || shard->count != ROWS + 1) {
    return NULL; /* the shard is no plant: the server then says lacks=problem:plant */
  }
  for (uint32_t i = 0; i < ROWS; ++i) {
    shard->read(shard->context, i, plant.matrix[i]);
  }
  shard->read(shard->context, ROWS, settings);
  plant.deviation = settings[0];
  plant.time_ms = (uint32_t)settings[1];
  plant.seed = (uint32_t)settings[2];
  return gs_own_problem(&problem);
}
