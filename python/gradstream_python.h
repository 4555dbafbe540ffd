/* Devices in a process of Python, as python/gradstream/device.py calls them through ctypes.
 *
 * Any number of devices in one process, each with its own identity, data, loss and connection. All functions may be
 * called by any thread: one call at a time does its work, the others wait. A loss or gradient runs inside of
 * gs_py_poll() and gs_py_evaluate(); it may call none of the functions here but those that only look.
 */
#ifndef GRADSTREAM_PYTHON_GRADSTREAM_PYTHON_H_
#define GRADSTREAM_PYTHON_GRADSTREAM_PYTHON_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gs_py_device gs_py_device;

/* The mean loss at the point of gs_py_point() over the samples that the first index_count entries of gs_py_indices()
 * name. NaN: it failed, and the local step ends. */
typedef double (*gs_py_loss)(uint32_t index_count);
/* The Euclidean gradient of that mean, to gs_py_gradient_values(). 0: it is there; else it failed. */
typedef int (*gs_py_gradient)(uint32_t index_count);
/* A line of the device's log, without the newline; valid during the call. */
typedef void (*gs_py_log)(const char* line);

/* What is wrong, and what to do. code: the exit status of gradstream-client in its place (firmware/client_main.h), 6
 * also where the process has no more memory. text: a sentence, or the line of the client's log that says it:
 * event=failed, event=claim_refused, event=claim_failed. */
typedef struct gs_py_fault {
  int32_t code;
  char text[1024]; /* ends with 0; what is longer is cut */
} gs_py_fault;

/* By what a device proves who it is: one of the three. All texts and paths are copied. */
typedef struct gs_py_credentials {
  const char* identity;      /* what `gradstream device add` wrote */
  const char* identity_file; /* the path of such a file. Where its folder can be written, the key may change there */
  const char* certificate;   /* the path of a PEM file, with those of its key and of the server's CA */
  const char* key;
  const char* authority;
  const char* server_name; /* that the server's certificate is for; null: the HOST of the server */
} gs_py_credentials;

typedef struct gs_py_options {
  uint32_t size; /* sizeof(gs_py_options): Python and the library are of one build */
  gs_py_credentials credentials;
  const char* server;  /* HOST:PORT */
  const char* state;   /* the folder for what survives the process, which is there and can be written; null: none */
  const char* problem; /* its name, at most 15 characters */
  /* Of a problem of the library (docs/python.md): sample_count x dimension values, which stay the caller's and must
   * outlive the device. Null with a loss. */
  const float* samples;
  uint32_t sample_count; /* 1 .. 65,535 */
  uint32_t dimension;
  /* An own loss; null: the problem is the library's. */
  gs_py_loss loss;
  gs_py_gradient gradient; /* null: forward passes alone train it */
  uint32_t rows;           /* of its point, the only shape that it takes */
  uint32_t cols;
  gs_py_log log;        /* null: nothing is logged */
  uint32_t run;         /* 0: whichever active run the device is enrolled in */
  uint32_t arena_bytes; /* for the model and the training */
  uint32_t has_floors;  /* 0: floors under nothing, for data that may be known (docs/trust.md) */
} gs_py_options;

typedef struct gs_py_status {
  uint32_t has_model;
  uint32_t version; /* of the model held */
  uint64_t digest;  /* of the model held; 0: none */
  uint32_t rows;
  uint32_t cols;
  uint32_t run_finished;
  uint32_t connected;
  uint32_t sessions;
  uint32_t connection_failures;
  uint32_t local_steps;
  uint32_t updates_folded;
  uint32_t updates_late;
  uint32_t updates_refused;
  uint32_t tasks_refused;
  uint32_t digest_mismatches;
  uint32_t save_failures;
  uint32_t bytes_sent; /* on the wire, TLS included */
  uint32_t bytes_received;
  uint32_t arena_high_water; /* bytes */
  const char* name;          /* of the identity that it has now; until the next gs_py_poll() */
  const char* last_reason;   /* why a session or task ended last, as the log names it; static */
  const char* last_fault;    /* of the link, in words with the remedy; static, "": none */
} gs_py_status;

/* A device that goes on with what it has stored, or null. Then *fault says what is wrong. */
gs_py_device* gs_py_open(const gs_py_options* options, gs_py_fault* fault);
/* Not from inside of a loss. The connection ends. With a state it is stored once more; without, what was not
 * acknowledged is lost, as with a device that is reset. */
void gs_py_close(gs_py_device* device);

/* rows x cols floats, row by row; sample_count indices; rows x cols floats. Of a device with an own loss; the addresses
 * stay as long as the device. */
const float* gs_py_point(const gs_py_device* device);
const uint16_t* gs_py_indices(const gs_py_device* device);
float* gs_py_gradient_values(gs_py_device* device);

/* What gs_py_poll() returns where the process has no more memory. The device may have stopped anywhere: close it. */
#define GS_PY_NO_MEMORY UINT32_MAX

/* Does what is due, without blocking on the link: at most one local step, and of a long one about 20 ms, or one
 * evaluation where that takes longer. Milliseconds until the next call at the latest; 0: at once. */
uint32_t gs_py_poll(gs_py_device* device);
/* Waits until one of the devices has news on its link, for so many milliseconds at most, or until a signal. */
void gs_py_wait(gs_py_device* const* devices, uint32_t count, uint32_t milliseconds);

void gs_py_get_status(const gs_py_device* device, gs_py_status* out);
/* The model held, rows x cols values to out, which has capacity of them. 0: it is there. 1: there is none, or it is
 * larger. */
int gs_py_get_model(const gs_py_device* device, float* out, size_t capacity);

/* The own loss at x (rows x cols) over the first index_count samples, as training asks for it, so many times; the last
 * value. NaN: the device has no own loss, index_count is none, or the loss failed. */
double gs_py_evaluate(gs_py_device* device, const float* x, uint32_t index_count, uint32_t times);
/* Calls the loss itself so many times: what a call into Python costs at least. */
void gs_py_call(gs_py_loss loss, uint32_t times);

typedef struct gs_py_claim {
  const char* file;          /* that `gradstream claim add` wrote */
  const char* name;          /* that the device is to have */
  const char* identity_file; /* where its own identity is to be; one that is there counts, and nothing is asked */
  const char* server;        /* HOST:PORT */
  gs_py_log log;             /* null: nothing is logged */
  uint32_t takes_unproven;   /* also a claim whose file names no server (firmware/claim_posix.h) */
  uint32_t limit_ms;         /* of the call, but for the look-up of a name */
} gs_py_claim;

/* One attempt to get an identity by a claim, which may take as long as a connection, a handshake and an answer, 30 s at
 * most. 0: the identity is there. Else *fault has the code, and is the same; 7: the server was not reached in time, try
 * again. */
int gs_py_claim_identity(const gs_py_claim* claim, gs_py_fault* fault);

/* Of the library, such as "0.1.0". */
const char* gs_py_version(void);

#ifdef __cplusplus
}
#endif

#endif /* GRADSTREAM_PYTHON_GRADSTREAM_PYTHON_H_ */
