// The state of one device by its files, and the object that holds all of it for one of several devices.
//
// Each file of firmware/application.h has a static object for the device of the image. gs_device has one of each for a
// device behind an object. at_work() chooses between them. An image without gs_device_init() never moves app_at_work,
// so that a compiler which sees it whole (-flto) leaves the choice out.
#ifndef GRADSTREAM_FIRMWARE_DEVICE_PARTS_H_
#define GRADSTREAM_FIRMWARE_DEVICE_PARTS_H_

#include <atomic>
#include <cstdint>

#include "firmware/application.h"
#include "firmware/upper_quantile.h"
#include "include/gradstream/device.h"
#include "include/gradstream/port.h"
#include "include/gradstream/problem.h"
#include "runtime/problem/measurement.h"

namespace gradstream {

// use_hooks.cc
struct ModelWatch {
  bool is_held = false;  // there was a model when the last gs_poll() ended
  uint32_t taken = 0;    // versions that had come by then
};

// sample_push.cc
struct SampleQueue {
  std::atomic<float*> values{nullptr};  // set last: a producer that is early finds no queue
  uint32_t capacity = 0;
  std::atomic<uint32_t> pushed{0};  // by the producer
  std::atomic<uint32_t> moved{0};   // by gs_poll()
};
// Only loads and stores of words may be used here. Reason: a Cortex-M0+ has no instruction that does both.
static_assert(sizeof(std::atomic<float*>) == sizeof(float*), "no lock beside it");

// model_news.cc
struct ModelListener {
  void (*callback)(void* context, const gs_model_view* model) = nullptr;
  void* context = nullptr;
};

// threshold.cc. All zero at first, so that its values stand in no flash.
struct Threshold {
  float quantile = 0;  // 0: none is wanted
  bool is_open = false;
  bool is_known = false;
  bool is_proven = false;            // the digest is that of the model held, or there is none
  bool is_of_other_problem = false;  // what was kept
  gs_result failure = GS_OK;         // why there is none; GS_OK: there were no samples
  float value = 0;
  uint32_t score_count = 0;  // that led to value
  uint32_t held_count = 0;   // samples that the device had then
  uint64_t digest = 0;       // of the version held, and of the threshold where there is one
  uint64_t kept_digest = 0;  // of the version in the storage
  bool has_storage = false;
  uint32_t next = 0;  // sample to look at
  UpperQuantile scores;
};

// own_problem.cc
struct OwnProblemPart {
  gs_problem problem = {};
  Measurement measurement;
  ProblemOps ops = {};
};

}  // namespace gradstream

struct gs_device : gradstream::Application,
                   gradstream::ModelWatch,
                   gradstream::SampleQueue,
                   gradstream::ModelListener,
                   gradstream::Threshold,
                   gradstream::OwnProblemPart {
  gs_port port = {};
  gs_linked_problem own_problem = {};  // where gs_config.problem is one of gs_own_problem()
};

namespace gradstream {

// The part of the device at work, whose file has `own` for the image's device.
template <class Part>
Part& at_work(Part& own) {
  return app_at_work == &the_app ? own : static_cast<gs_device&>(*app_at_work);
}

// A device is at work while this lives.
class DeviceScope {
 public:
  explicit DeviceScope(gs_device& device) : app_before_(app_at_work), port_before_(port_use(&device.port)) {
    app_at_work = &device;
  }
  ~DeviceScope() {
    app_at_work = app_before_;
    (void)port_use(port_before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Application* app_before_;
  const gs_port* port_before_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_DEVICE_PARTS_H_
