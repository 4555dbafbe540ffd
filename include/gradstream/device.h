/* The application's side of a gradstream device, callable from C and C++.
 *
 *   gs_config config = {0};
 *   config.size = sizeof config;
 *   config.identity_text = ...; config.samples = ...; config.arena = ...; config.tls_pool = ...;
 *   if (gs_init(&config) != GS_OK) { ... }
 *   for (;;) {
 *     uint64_t wake_ms = gs_poll(now_ms);      // link, training, uploads: about 20 ms of a local step at a time
 *     // the application's own work; gs_score(sample, &score) says how well a sample fits the model held
 *     // then sleep until wake_ms, or until the link has news
 *   }
 *
 * One device per image, one thread; at the end of this file are the functions for several. Only gs_sample_push() may be
 * called from an interrupt or another task, where gs_config.queue_buffer is given. The board supplies the functions of
 * runtime/link/port.h. Nothing allocates: all memory is the caller's and must stay valid. docs/use_model.md tells how
 * the model is used on a device.
 */
#ifndef GRADSTREAM_INCLUDE_GRADSTREAM_DEVICE_H_
#define GRADSTREAM_INCLUDE_GRADSTREAM_DEVICE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The release that this header is of, by semantic versioning. gs_version() is that of the library. */
#define GRADSTREAM_VERSION_MAJOR 0
#define GRADSTREAM_VERSION_MINOR 1
#define GRADSTREAM_VERSION_PATCH 0

#ifdef __cplusplus
#define GS_ZERO \
  {} /* of a member that a list leaves out: C has it anyhow, and C++ would warn of it */
extern "C" {
#else
#define GS_ZERO
#endif

typedef enum gs_result {
  GS_OK = 0,
  GS_BAD_ARGUMENT = 1,    /* a null pointer, a size of 0, both or neither kind of samples */
  GS_BAD_IDENTITY = 2,    /* the identity's text does not parse: gs_identity_line() names the line */
  GS_NO_ENTROPY = 3,      /* the board has no source of random numbers that passed its test: no TLS without */
  GS_OUT_OF_MEMORY = 4,   /* the TLS pool is too small to begin with, or the arena for a score that is a loss */
  GS_BAD_SAMPLE = 5,      /* a value that is NaN or infinite */
  GS_FLUSHES_TO_ZERO = 6, /* the processor flushes subnormal numbers: its model would drift from the server's */
  /* gs_sample_push(): there is no place for the sample now, because a local step reads the samples or the queue is
   * full. gs_threshold(): it is not computed yet. Call gs_poll(), and then again. */
  GS_BUSY = 7,
  GS_NO_MODEL = 8,    /* there is no model yet */
  GS_NO_SCORE = 9,    /* the device's problem has no score, or no prediction */
  GS_NO_SAMPLES = 10, /* a threshold is asked for, and the device has no samples of its own, or asks for no threshold */
  GS_OTHER_MODEL = 11, /* the model held is of another problem or shape than the device's samples */
  GS_FUSES = 12,       /* this build fuses multiplications with additions: its model would drift from the server's */
  /* A member `size` is 0, which the caller forgot, or larger than the library knows: the caller was compiled with the
   * header of a newer release. Set it by sizeof, or link the library of that release. A bare-metal build that is
   * compiled as a whole reads no size. */
  GS_BAD_SIZE = 13,
  GS_SMALL_MEMORY = 14 /* gs_device_init(): the memory has less than gs_device_size() bytes */
} gs_result;

/* "MAJOR.MINOR.PATCH" of the library. */
const char* gs_version(void);

/* What gs_poll() returns while a local step is unfinished: call it again soon. As a time it is long past, so that a
 * loop that only compares times needs no change. */
#define GS_PENDING UINT64_C(0)

/* What a callback answers that has no result yet: it is called again with the same arguments' values in a later
 * gs_poll(), until it answers something else.
 * GS_UNFINISHED: it has done a part of the work; it is called again at once.
 * GS_MEASURING: it waits for an apparatus, and has nothing to do until then. It is called again in the next gs_poll(),
 * whose time is at most GS_MEASURE_POLL_MS later. Only a loss and its gradient can say so.
 * (GS_PENDING is no answer: it is 0, which says that there is a result.) */
enum { GS_UNFINISHED = 1000, GS_MEASURING = 1001 };

/* Time between two calls of a loss that is measured, milliseconds. Reason: an answer lies there no longer than this,
 * and 200 calls a second are no load for a Linux host. */
enum { GS_MEASURE_POLL_MS = 5 };
/* Time after which an answer counts as never coming, milliseconds, where gs_problem names no other. Reason: slow
 * apparatus, such as a heater, settle within it. */
enum { GS_MEASURE_TIMEOUT_MS = 60000 };

/* Samples that are bytes in memory, such as of a shard in flash: value i of a sample is values[i] * scale - mean[i]. */
typedef struct gs_sample_bytes {
  const uint8_t* values; /* count x dimension, sample after sample */
  const void* mean;      /* dimension floats, little-endian, of any alignment; null: zeros */
  float scale;           /* not 0 */
} gs_sample_bytes;

/* Samples that the application has: in flash, in RAM, behind a driver. */
typedef struct gs_sample_source {
  const void* context GS_ZERO;
  uint32_t count GS_ZERO;     /* samples, 1 .. 65,535 */
  uint32_t dimension GS_ZERO; /* values of one sample */
  /* Writes sample `index` (dimension floats) to out; 0 on success, GS_UNFINISHED: not yet. Until it is there or
   * is given up, no other one is asked for. Anything else ends the task's local step. A step may take many calls of
   * gs_poll(): samples must not change until it is done. */
  int (*read)(const void* context, uint32_t index, float* out) GS_ZERO;
  /* The same samples as bytes; null: they are none. The loss of kpca is then computed in whole numbers, which a
   * processor without floats does many times faster. It differs from that of floats by what the model loses as 16 bits.
   * *bytes stays as long as the device. */
  const gs_sample_bytes* bytes GS_ZERO;
} gs_sample_source;

/* What a device minimises over its samples. gs_config takes the address of one; null there means kpca. Those below read
 * the samples of gs_config (runtime/problem/problem.h says what a sample of each is), and an image links those that it
 * names. A C++ application makes others with <gradstream/problem.h>. */
typedef struct gs_linked_problem gs_linked_problem;
extern const gs_linked_problem gs_kpca;          /* kpca by its name, such as of an image that reads floats */
extern const gs_linked_problem gs_brockett;      /* Brockett's cost */
extern const gs_linked_problem gs_spd_mean;      /* mean of positive definite matrices */
extern const gs_linked_problem gs_hyperbolic;    /* weighted mean on the hyperboloid */
extern const gs_linked_problem gs_least_squares; /* least squares */
extern const gs_linked_problem gs_completion;    /* matrix completion at fixed rank */
extern const gs_linked_problem gs_logistic;      /* logistic regression */

/* The application's own loss; docs/own_loss.md has an example. x: rows x cols, row-major. The batch is the samples
 * indices[0 .. index_count), or the first index_count ones where indices is null. */
typedef struct gs_problem {
  const char* name GS_ZERO; /* at most 15 characters; the run's parameters name it */
  const void* context GS_ZERO;
  uint32_t rows GS_ZERO; /* the only shape that it takes */
  uint32_t cols GS_ZERO;
  uint32_t sample_count GS_ZERO;
  /* Mean loss over the batch to *out; 0 on success, GS_UNFINISHED: not yet. An evaluation that takes longer than the
   * link or a watchdog waits does a part of it, keeps its sums in *context, and answers so. */
  int (*loss)(const void* context, const float* x, const uint16_t* indices, uint32_t index_count, float* out) GS_ZERO;
  /* Its Euclidean gradient (rows x cols values) to out; 0 on success, GS_UNFINISHED as loss. Null: there is none, and
   * runs that need one refuse the device; forward passes alone train it (zeroth order). */
  int (*gradient)(const void* context, const float* x, const uint16_t* indices, uint32_t index_count,
                  float* out) GS_ZERO;
  /* Of a loss that is measured, which answers GS_MEASURING; both may stay 0. The time from the gs_poll() that asked a
   * question, milliseconds; 0: GS_MEASURE_TIMEOUT_MS. When it has passed, the device gives the question up with
   * event=measurement_lost. It sends the local steps before it where they are enough; else it refuses the task
   * (reason=deadline), and asks for another one later. */
  uint32_t measure_timeout_ms GS_ZERO;
  /* The question that was answered GS_MEASURING is given up, and is not asked again: stop the apparatus. question: as
   * gs_question() was. Called in gs_poll(), and in gs_device_close() where a question waits. */
  void (*cancel)(const void* context, uint32_t question) GS_ZERO;
  /* For gs_score() and gs_predict(); null: there is none. sample: as the application hands it in. What they write to
   * out, and how much, is the application's matter; a score is one value. 0 on success; anything else: GS_BAD_SAMPLE.
   */
  int (*score)(const void* context, const float* x, const float* sample, float* out) GS_ZERO;
  int (*predict)(const void* context, const float* x, const float* sample, float* out) GS_ZERO;
} gs_problem;
/* For gs_config. One own loss in an image: a second call replaces the first. *problem may go afterwards. gs_init()
 * refuses a problem without a name, a loss, rows, cols or samples. */
const gs_linked_problem* gs_own_problem(const gs_problem* problem);

/* For loss and gradient of gs_problem, while they are called: the number of the question. One question is one
 * evaluation at one point. Each call until its answer has the same number, the same values, and x at the same address.
 * Another question has another number, also where its values are equal. Numbers begin at 1, and begin again after a
 * reset. 0: nothing was asked yet. */
uint32_t gs_question(void);

typedef enum gs_key_exchange {
  GS_PSK_DHE_KE = 0, /* pre-shared key with x25519: forward secrecy */
  GS_PSK_KE = 1      /* pre-shared key alone: the smallest boards, mass reconnects */
} gs_key_exchange;

/* What the device runs from. With mains power it leaves its request for a task with the server until there is one, a
 * minute at most, in a session that stays open; a new version then comes at once. From a battery it asks, and sleeps
 * for the time that the server names. docs/how-to/power.md has both. */
typedef enum gs_power {
  GS_POWER_BOARD = 0, /* as the board says: battery, unless it says mains; Linux says mains */
  GS_POWER_MAINS = 1, /* GS_BAD_ARGUMENT of an image whose board does not say mains: it has no code for it */
  GS_POWER_BATTERY = 2
} gs_power;

/* How a number of samples is told to the server. */
typedef enum gs_count_form {
  GS_COUNT_BUCKET = 0, /* the greatest power of two that is not above it */
  GS_COUNT_EXACT = 1,
  GS_COUNT_NONE = 2 /* 1, whatever it is */
} gs_count_form;

/* Floors under what a run may learn of the samples (docs/trust.md). All zero are the defaults, which are safe: a zero
 * number stands for what its comment says. No message of a server lowers a floor. A task below one is refused by name
 * (event=refused reason=privacy floor=...), and the server's log tells its operator which key of the run to change. */
typedef struct gs_privacy {
  uint16_t batch_size_min GS_ZERO;         /* samples of an estimate or an evaluation, at least; 0: 8 */
  uint16_t local_step_count_min GS_ZERO;   /* local steps of a task and of an update, at least; 0: 1 */
  uint16_t scalars_per_sample_max GS_ZERO; /* scalars of an update for each of its samples, at most; 0: 8 */
  uint16_t sums_samples_min GS_ZERO;       /* samples from which on sums over columns leave the device; 0: 32 */
  uint16_t trials_samples_min GS_ZERO; /* the same of losses along a direction, by which a run finds its step; 0: 32 */
  bool refuses_tangents GS_ZERO;       /* no updates that are tensors */
  bool sends_losses GS_ZERO;           /* the losses before and after the local steps; else 0 in their place */
  bool skips_evaluation GS_ZERO;       /* no samples are held out, and none is evaluated */
  uint8_t sample_count GS_ZERO;        /* a gs_count_form */
} gs_privacy;

typedef struct gs_config {      /* NOLINT: an application fills it, from all zeros */
  size_t size;                  /* sizeof(gs_config); members behind a smaller one, of an older caller, count as 0 */
  const char* firmware_version; /* at most 23 characters */
  const char* board;            /* as many: what the image is for, shown to operators; null: nothing is said of it */
  const char* identity_text;    /* what `gradstream device add` wrote */
  size_t identity_size;
  gs_key_exchange key_exchange;
  uint32_t run;                    /* 0: whichever active run this device is enrolled in */
  const gs_sample_source* samples; /* either this, or a buffer for gs_sample_push() */
  float* push_buffer;              /* push_capacity x push_dimension floats: a ring of the newest samples */
  uint32_t push_capacity;
  uint32_t push_dimension;
  const gs_linked_problem* problem; /* null: "kpca" over the samples; samples may be absent with gs_own_problem() */
  void* arena;                      /* for the model and the training */
  size_t arena_size;
  void* tls_pool; /* for Mbed TLS; not used where that has the libc's heap, or is the project's own */
  size_t tls_pool_size;
  bool has_storage;        /* the board keeps state over a reset (port_storage_*) */
  uint8_t* restore_buffer; /* with has_storage: as large as the arena is enough; used by gs_init alone; null: the TLS */
  size_t restore_size;     /* pool serves, if the state fits there */
  uint32_t reset_cause;    /* why the board started, as the wire's ResetCause; 0: unknown */
  uint32_t retry_ms;       /* wait after a failed session, doubling with each further one; 0: the default of 1,000 */
  uint32_t step_delay_ms;  /* added to every local step, to mimic a slower device; 0 in products */
  /* No sums over the columns of the samples leave the device. A run that takes units out asks for them before it
   * trains, and finds its units without this device, which trains in them (docs/operating.md). */
  bool refuses_sums;
  /* Which quantile of its own samples' scores the device keeps as its threshold, such as 0.99; 0: none. gs_init()
   * refuses what is not from 0 to 1. */
  float threshold_quantile;
  /* With push_buffer: queue_capacity x push_dimension floats, where samples wait between gs_sample_push() and
   * gs_poll(). It lets one interrupt or task push beside gs_poll(). Null: gs_sample_push() is called by the thread of
   * gs_poll(), and writes to push_buffer itself. */
  float* queue_buffer;
  uint32_t queue_capacity; /* samples that find place; 0 with null */
  gs_power power;
  gs_privacy privacy;
  /* Never read. It is as aligned as the structure, so that no padding follows it. No size counts padding: a member
   * there would be read of a caller that has none. */
  void* reserved GS_ZERO;
} gs_config;

/* Once, before anything else. *config may go afterwards, what it points to may not (but restore_buffer). */
gs_result gs_init(const gs_config* config);
/* After GS_BAD_IDENTITY: the line at fault, from 1; 0: a field is missing. */
uint32_t gs_identity_line(void);

/* Does what is due, without blocking: at most one local step, and of a long one about 20 ms, or one sample or
 * evaluation where that takes longer. Where there is a threshold to compute, it takes about 10 ms more. Returns when to
 * call again at the latest, in the same clock: milliseconds since boot, monotonic. GS_PENDING: a local step or the
 * threshold is unfinished, call again soon; feed the watchdog in between. A local step that waits for a measurement
 * (GS_MEASURING) has a time instead, at most GS_MEASURE_POLL_MS later. News on the link or of the apparatus (an
 * interrupt) are a reason to call earlier, and so are samples in the queue. */
uint64_t gs_poll(uint64_t now_ms);

/* Adds a sample to the ring, in place of the oldest when it is full. New samples take part from the next task on; an
 * overwritten one changes at once. GS_BAD_ARGUMENT: there is no push_buffer, or gs_init() is not done. GS_BAD_SAMPLE
 * and GS_BUSY leave all as it was, and gs_status_view.samples_lost counts each GS_BUSY. Without gs_config.queue_buffer:
 * called by the thread of gs_poll(). GS_BUSY: the last gs_poll() left a local step unfinished (GS_PENDING, or a
 * measurement that it waits for), and that reads the samples; push the sample again later. With it: called by one
 * interrupt handler or one task, after gs_init() and beside all else here. The sample waits in the queue; gs_poll()
 * moves it to the ring as soon as no local step reads that. GS_BUSY: the queue is full. One producer and one consumer
 * need no lock: loads and stores of words do, also on a Cortex-M0+. */
gs_result gs_sample_push(const float* values);

/* The model that the device holds now, for inference; valid until the next gs_poll(). */
typedef struct gs_model_view {
  const float* values; /* rows x cols, row-major */
  uint32_t rows;
  uint32_t cols;
  uint32_t version;
} gs_model_view;
/* false: there is no model yet. */
bool gs_model(gs_model_view* out);

/* How badly a sample fits the model held, in *out: one value, at least 0 unless it is a loss that can be less.
 * sample: as gs_sample_push() takes it, push_dimension (or gs_sample_source.dimension) values in the units of the
 * sensor; where the run takes a mean and a scale out of its samples, this call does so too. By problem:
 *   kpca           |z - X X'z|, the distance from the model's subspace; z = (sample - mean) * scale
 *   least_squares  |prediction - targets|, in the targets' own units
 *   logistic       -ln p(label)
 *   brockett, spd_mean, hyperbolic, completion: the loss of that sample
 *   gs_own_problem: gs_problem.score
 * The thread of gs_poll() calls it at any time, also while a local step is unfinished. sample and out may be one place.
 * GS_BAD_ARGUMENT: a null pointer. GS_NO_MODEL: also before gs_init(). GS_OTHER_MODEL. GS_NO_SCORE: multitask,
 * networks, an own problem without score. GS_BAD_SAMPLE: a value that is NaN or infinite, or a label that is none.
 * GS_OUT_OF_MEMORY: a problem whose score is its loss finds no room in the arena beside a step: call when none is open.
 * Each but GS_OK leaves *out as it was. */
gs_result gs_score(const float* sample, float* out);

/* What the model held predicts for a sample: gs_model_view.cols values in out. The labels or targets at the sample's
 * end are not read, and may be absent. By problem: least_squares  X'a for each target, in the targets' own units
 *   logistic       the probability of each class; with one column that of label 1
 *   gs_own_problem: gs_problem.predict
 * Results as gs_score(); GS_NO_SCORE: all other problems. out aliases nothing. */
gs_result gs_predict(const float* sample, float* out);

/* The threshold of gs_config.threshold_quantile = q, in *out: the q-quantile of the scores of the device's own samples
 * under the model held. A score above it is an alarm. It is numpy.quantile(scores, q, method="higher"), so that at most
 * 1 - q of the device's own samples are above it. Held-out samples take part. Of more samples than (1 - q) N = 63
 * allows, each n-th takes part, with the least n that does. gs_poll() computes it, a slice at a time: for each new
 * version, and again when the samples have doubled in number. A source that has answered GS_UNFINISHED is asked between
 * local steps alone. With has_storage it is kept beside the model, and is there again after a reset. An image that
 * never calls this function computes none. GS_BUSY: not computed yet for the model held. GS_NO_MODEL. GS_NO_SAMPLES: no
 * samples, none with a score, or threshold_quantile is 0. GS_BAD_ARGUMENT, GS_OTHER_MODEL and GS_NO_SCORE as
 * gs_score(). */
gs_result gs_threshold(float* out);

/* Has gs_poll() call callback(context, model) whenever the device has taken in a version, and in the first gs_poll()
 * with a model from storage. Of several versions that came in one gs_poll() the newest is told. *model is valid during
 * the call, which may call all functions here but gs_init() and gs_poll(). Null: nothing is called. One callback: a
 * second call of this function replaces the first. May come before gs_init(). */
void gs_on_model(void (*callback)(void* context, const gs_model_view* model), void* context);

typedef enum gs_state {
  GS_IDLE = 0,
  GS_CONNECT = 1,
  GS_HELLO = 2,
  GS_SYNC = 3,
  GS_TRAIN = 4,
  GS_SAVE = 5,
  GS_UPLOAD = 6,
  GS_FINISHED = 7
} gs_state;

typedef enum gs_link {
  GS_LINK_DOWN = 0,
  GS_LINK_QUIET = 1, /* input is discarded until the link has been quiet for a while */
  GS_LINK_OPENING = 2,
  GS_LINK_HANDSHAKE = 3, /* of TLS */
  GS_LINK_UP = 4
} gs_link;

/* Counters since gs_init(). */
typedef struct gs_status_view {
  size_t size;        /* the caller sets it to sizeof(gs_status_view); no member behind a smaller one is written */
  const char* device; /* its name, from the identity */
  const char* server; /* HOST:PORT; null: whoever is at the other end of a serial link */
  gs_link link;
  gs_state state;
  bool run_finished;
  bool connected;
  uint32_t version;       /* of the model held */
  uint64_t digest;        /* of the model held, computed from RAM by this call; 0: none */
  uint32_t last_wait;     /* WaitCause of the wire: why there was no task at the last request; 0: there was one */
  uint32_t last_reason;   /* Reason of the wire: why a session or task ended last */
  uint32_t bad_sample;    /* the sample, from 1, that the run's problem never takes; 0: none was found */
  const char* last_fault; /* of the link, in words with the remedy; "" */
  uint32_t sessions;
  uint32_t connection_failures;
  uint32_t deadlines_missed;
  uint32_t malformed_frames;
  uint32_t local_steps;
  uint32_t tasks_done;
  uint32_t tasks_refused;
  uint32_t updates_folded;
  uint32_t updates_late;
  uint32_t updates_refused;
  uint32_t updates_resent;
  uint32_t records_applied;
  uint32_t snapshots;
  uint32_t digest_mismatches;
  uint32_t save_failures;
  uint32_t bytes_sent; /* on the wire, TLS included */
  uint32_t bytes_received;
  uint32_t arena_high_water;  /* bytes */
  uint32_t tls_high_water;    /* bytes; 0: not measured */
  uint32_t measurements_lost; /* questions of a measured loss that had no answer in time */
  bool step_open; /* a local step is unfinished: samples must not change, also where gs_poll() gave a time */
  /* GS_SYNC: the server has the device's request for a task, and may keep it until there is one. gs_poll() names the
   * time at which that is over, more than a minute away, and the link has news before. */
  bool held;
  uint32_t samples_lost; /* that gs_sample_push() answered with GS_BUSY; one that is pushed again counts each time */
} gs_status_view;
/* After gs_init(). GS_BAD_SIZE: nothing else is written. */
gs_result gs_status(gs_status_view* out);

/* What the application measured itself: bytes of stack ever used. The next session reports it (event=device_report in
 * the server's log). */
void gs_note_stack_high_water(uint32_t bytes);

/* ---- Several devices in one process or image ----
 *
 * Each stands behind an object. What gs_poll() does for the only device, gs_device_poll() does for one of them, and so
 * do the other functions that are named alike.
 *
 *   static gs_device_memory memory[2];
 *   static gs_device* devices[2];
 *   gs_port port = {.size = sizeof port, .context = &modems[0]};    // <gradstream/port.h>
 *   port.link_read = ...; port.link_write = ...; config.identity_text = ...; config.arena = ...;
 *   if (gs_device_init(&memory[0], sizeof memory[0], &config, &port, &devices[0]) != GS_OK) { ... }
 *   // another identity, arena and port for devices[1]
 *   for (;;) {
 *     uint64_t wake_ms = UINT64_MAX;
 *     for (int i = 0; i < 2; ++i) {
 *       const uint64_t when_ms = gs_device_poll(devices[i], now_ms);  // of GS_PENDING, 0, there is no sleep
 *       wake_ms = when_ms < wake_ms ? when_ms : wake_ms;
 *     }
 *     // then sleep until wake_ms, or until one of the links has news
 *   }
 *
 * Each has an identity, samples, an arena, a connection and a model of its own. One that fails, is refused or waits
 * does not touch another. The functions above stay, for one device more, which needs no object.
 *
 * What the devices of a process share, by its nature:
 * - The thread. One call at a time works, of whichever device: several threads take a lock around each call.
 *   gs_device_sample_push() of a device with a queue is excepted, as gs_sample_push() is.
 * - Mbed TLS: its random generator, and on boards its pool. gs_config.tls_pool of the first device to start is the pool
 *   of all, for as long as the process lives, also after that device is closed. A start that fails leaves its pool
 *   free. That of a later one is neither read nor written. It has to have room for as many sessions as there are
 *   devices. A session that finds none ends with words (gs_status_view.last_fault), and its device tries again.
 * - Clock, random numbers and assertions of <gradstream/port.h>. A failed assertion ends the process.
 *
 * Callbacks of a device may call all functions here but those that start, end and poll one. In a callback the functions
 * without a device, such as gs_question(), are about the device whose callback it is; gs_sample_push() is not.
 *
 * gradstream::posix and gradstream::c_port have what several devices need of a port. Another port in C++ defines
 * port_use() of runtime/link/port.h. */

/* Bytes of one device on 64 and on 32 bits, beside its arena and buffers. The library's own size is at most this, and
 * gs_device_size() tells it. A project whose Mbed TLS is larger has GS_TLS_CONTEXTS_SIZE in addition. */
#ifdef GS_TLS_CONTEXTS_SIZE
#define GS_DEVICE_SIZE ((sizeof(void*) == 8 ? 8192 : 6656) + (size_t)(GS_TLS_CONTEXTS_SIZE + 7) / 8 * 8)
#else
#define GS_DEVICE_SIZE (sizeof(void*) == 8 ? 8192 : 6656)
#endif

/* Room for one device, with its alignment, for objects that are static or on a stack. */
typedef union gs_device_memory {
  uint64_t words[GS_DEVICE_SIZE / sizeof(uint64_t)];
  void* aligned;
} gs_device_memory;

typedef struct gs_device gs_device;

/* Bytes that gs_device_init() needs. */
size_t gs_device_size(void);

/* Makes a device in memory, of so many bytes, and begins as gs_init() does. *device is it, or null. memory is the
 * device's until gs_device_close(), and is not moved or copied. *config and *port may go afterwards, what they point to
 * may not. An own loss of gs_own_problem() is taken over: the next call of that may be for another device behind an
 * object. gs_init() takes none over: a device of gs_init() with an own loss is begun last.
 * Results as gs_init(), and each but GS_OK leaves memory free. GS_SMALL_MEMORY: it has less than gs_device_size()
 * bytes. GS_BAD_ARGUMENT: a null pointer, memory that is not aligned as gs_device_memory, a port without link_read or
 * link_write, has_storage without a restore_buffer. GS_BAD_SIZE: also gs_port.size. After GS_BAD_IDENTITY
 * gs_identity_line() tells the line. */
struct gs_port;
gs_result gs_device_init(void* memory, size_t size, const gs_config* config, const struct gs_port* port,
                         gs_device** device);

/* Ends the connection and the device. What was not acknowledged is lost, as with a reset. A question that was answered
 * GS_MEASURING and waits is given up: gs_problem.cancel is called once, before this function returns. Null: nothing is
 * done. */
void gs_device_close(gs_device* device);

/* As the functions without a device, whose names end alike. None takes null for device. */
uint64_t gs_device_poll(gs_device* device, uint64_t now_ms);
gs_result gs_device_sample_push(gs_device* device, const float* values);
bool gs_device_model(gs_device* device, gs_model_view* out);
gs_result gs_device_score(gs_device* device, const float* sample, float* out);
gs_result gs_device_predict(gs_device* device, const float* sample, float* out);
gs_result gs_device_threshold(gs_device* device, float* out);
void gs_device_on_model(gs_device* device, void (*callback)(void* context, const gs_model_view* model), void* context);
gs_result gs_device_status(gs_device* device, gs_status_view* out);
void gs_device_note_stack_high_water(gs_device* device, uint32_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* GRADSTREAM_INCLUDE_GRADSTREAM_DEVICE_H_ */
