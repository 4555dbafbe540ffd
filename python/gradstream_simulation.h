/* The simulator of a fleet in a process of Python, as python/gradstream/virtual.py calls it through ctypes: schedules
 * of sim/simulation.h, over samples, a loss and an aggregation of the caller's.
 */
#ifndef GRADSTREAM_PYTHON_GRADSTREAM_SIMULATION_H_
#define GRADSTREAM_PYTHON_GRADSTREAM_SIMULATION_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The mean loss of a device at the point over the first index_count indices, both in the caller's buffers. NaN: it
 * failed. */
typedef double (*gs_py_sim_loss)(uint32_t device, uint32_t index_count);
/* The gradient of that mean, to the caller's buffer. 0: it is there. */
typedef int (*gs_py_sim_gradient)(uint32_t device, uint32_t index_count);

typedef struct gs_py_update {
  uint32_t device; /* from 0 */
  uint32_t base_version;
  uint32_t steps_done;
  uint32_t weight;
  const float* values; /* rows x cols: the tangent by a step, at the open version's model; valid during the call */
} gs_py_update;

/* What takes the place of the mean of the updates, rows x cols values to out. model: of the open version. 0: it is
 * there. server/rules/aggregator_own.h has the rest. */
typedef int (*gs_py_aggregate)(uint32_t version, const float* model, const gs_py_update* updates, uint32_t count,
                               float* out);
/* A line: of a schedule that was broken, of what is wrong with the arguments, or the last one, "result: ...". */
typedef void (*gs_py_say)(const char* line);
/* Once, behind the last schedule: the server's model, valid during the call. No call where there is none. */
typedef void (*gs_py_model)(uint32_t version, uint32_t rows, uint32_t cols, const float* values);

typedef struct gs_py_simulation {
  uint32_t size;                /* sizeof(gs_py_simulation) */
  const char* const* arguments; /* of gradstream-sim, from the first option on */
  uint32_t argument_count;
  const char* const* keys; /* keys of the run, as "key=value" */
  uint32_t key_count;
  const uint32_t* sample_counts; /* by device, device_count of them; null: the simulator's own samples and problem */
  uint32_t device_count;
  /* Of a problem of the library, which the key `problem` names: by device, sample_count x dimension values. Null with a
   * loss. */
  const float* const* samples;
  uint32_t dimension;
  gs_py_sim_loss loss;         /* null: the library's problem */
  gs_py_sim_gradient gradient; /* null: forward passes alone train it */
  gs_py_aggregate aggregate;   /* null: the run's rule */
  /* With a loss, the caller's: rows x cols values of the point and of the gradient, and as many indices as the largest
   * of sample_counts. */
  float* point;
  float* gradient_values;
  size_t value_count; /* of both */
  uint16_t* indices;
  gs_py_say say;
  gs_py_model on_model;
  int (*is_ended)(void); /* asked between two events; not 0: the simulation ends, as broken */
} gs_py_simulation;

/* The exit status of gradstream-sim: 0 all held, 1 an invariant was broken, 2 the arguments are none. 6: the process
 * has no more memory. */
int gs_py_simulate(const gs_py_simulation* simulation);

#ifdef __cplusplus
}
#endif

#endif /* GRADSTREAM_PYTHON_GRADSTREAM_SIMULATION_H_ */
