// A device as the C interface of include/gradstream/device.h has it: the one of an image, or one of several.
//
// The interface stands in several files, so that an image pays for what it calls:
//   gradstream_device.cc   start, polling, status; every image
//   sample_push.cc         gs_sample_push() and its queue
//   score.cc, predict.cc   gs_score(), gs_predict()
//   model_news.cc          gs_on_model(), and when a version was taken in
//   threshold.cc           gs_threshold(), and what is kept of it
//   use_hooks.cc           what these add to gs_init() and gs_poll(); none of them, and it is not linked either
//   gs_device.cc           devices behind an object: the device at work is another one while one of its functions runs
// An image that lacks a file has in its place what gradstream_device.cc or use_hooks.cc define weakly, which does
// nothing.
#ifndef GRADSTREAM_FIRMWARE_APPLICATION_H_
#define GRADSTREAM_FIRMWARE_APPLICATION_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "firmware/device.h"
#include "include/gradstream/device.h"
#include "include/gradstream/problem.h"
#include "runtime/base/arena.h"
#include "runtime/link/port.h"
#include "runtime/problem/problem.h"
#include "runtime/problem/score.h"

namespace gradstream {

// Whether an image may use a model. Reason: one that only trains may leave it out (runtime/base/features.h).
#if defined(GS_WITHOUT_USE)
inline constexpr bool kUsesModel = false;
#else
inline constexpr bool kUsesModel = true;
#endif

// A board's image is compiled as a whole, from one header: there is no other size, and flash is short. An archive that
// was compiled before the image (tools/package_precompiled.py) meets callers of other releases.
#if defined(GS_PRECOMPILED)
inline constexpr bool kReadsSizes = true;
#else
inline constexpr bool kReadsSizes = kHasHostMembers;
#endif
// size: a caller's sizeof of a structure; known: this release's.
constexpr bool is_size_known(size_t size, size_t known) { return size != 0 && size <= known; }

// The ring of gs_sample_push().
struct SampleRing {
  float* values = nullptr;
  uint32_t capacity = 0;
  uint32_t dimension = 0;
  uint32_t count = 0;
  uint32_t next = 0;  // where the next sample goes
};

// Arena and device come to life in gs_init().
struct Application {
  gs_sample_source callback = {};
  SampleBytes bytes;  // of the callback's samples
  SampleRing ring;
  SampleSource samples;
  Problem problem;
  const ScoreOps* scores = nullptr;       // of a problem in C++; null: it has none
  std::atomic<uint32_t> samples_lost{0};  // written by the one that pushes
  bool is_source_slow = false;            // gs_config.samples has answered GS_UNFINISHED
  bool is_sample_awaited = false;         // by the threshold: no local step may ask for another one meanwhile
  uint32_t identity_line = 0;
  std::optional<Arena> arena;
  std::optional<DeviceShell> device;
#if !defined(GS_BARE_METAL)
  Problem problems[1 + kMoreProblemsMax];  // `problem` first
  size_t problem_count = 0;
  const Credentials* credentials = nullptr;
  const char* server_name = nullptr;
  KeyHolder* keys = nullptr;
  JudgedUpdates judged;
#endif
};
extern Application the_app;  // of the device that needs no object
extern Application* app_at_work;
// The device at work: the functions of include/gradstream/device.h without a device are about it.
inline Application& app() { return *app_at_work; }

#if !defined(GS_BARE_METAL)
// Of several problems the one of that name becomes `app().problem`, which scores are by. Another name changes nothing.
void choose_problem(const char* name);
#endif

// ---- use_hooks.cc ----
// What of gs_config is the other files'. False: it is none. Before the device is there.
bool take_use(const gs_config& config);
// What is due at the end of gs_poll(), which would return wake_ms. Returns what it is to return.
uint64_t after_poll(uint64_t wake_ms);
// Each of the files below names it, so that one of them in an image brings use_hooks.cc with it.
extern const char kUseHooks;

// ---- sample_push.cc ----
// The queue of gs_config. False: it is none.
bool take_queue(const gs_config& config);
// What waits in the queue goes to the ring, unless a local step reads that.
void move_queue();

// ---- model_news.cc ----
// A version was taken in.
void tell_model();

// ---- threshold.cc ----
// The quantile of gs_config, and what stands behind the stored state. False: it is no quantile.
bool take_quantile(const gs_config& config);
// Writes the client's state, and a record of the threshold and the run's problem behind it. As port_storage_write().
Status write_state(std::span<const StoragePiece> pieces);
// Whether that record names another problem than this image has.
bool is_kept_problem_other();
// A version was taken in.
void renew_threshold();
// Does a slice of work. True: there is more, and no local step whose end would come first.
bool tend_threshold();

// ---- gs_device.cc ----
// Whether the TLS pool may be in use before a device starts, so that no state can be restored there.
bool is_pool_taken();
// tls_start(); where there are several devices, for the first one alone.
Status start_tls(void* pool, size_t pool_size);

// ---- own_problem.cc ----
// Where it is of gs_own_problem(), the device's own copy of that; else problem itself.
const gs_linked_problem* take_own_problem(const gs_linked_problem* problem, gs_device* device);
// Of the application's own problem in C. kUnimplemented: there is none, or it has none of these; kNotFinite.
Status score_own(const ScoreInput& input, Real* out);
Status predict_own(const ScoreInput& input, Real* out);

// ---- linked_problem.cc ----
// Of the problems that an application names. kUnimplemented: this one has no score, or no prediction; kNotFinite.
Status score_linked(const ScoreInput& input, Real* out);
Status predict_linked(const ScoreInput& input, Real* out);

// ---- score.cc ----
// Everything of *out but the sample. GS_NO_MODEL, GS_OTHER_MODEL.
gs_result take_model(ScoreInput* out);
// Of input.sample, whose values are finite: codes as gs_score().
gs_result score_sample(const ScoreInput& input, float* out);
gs_result result_of_use(Status status);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_APPLICATION_H_
