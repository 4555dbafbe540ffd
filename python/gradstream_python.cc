#include "python/gradstream_python.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>

#include "boards/posix/tcp_link.h"
#include "firmware/application.h"
#include "firmware/device.h"
#include "firmware/registry.h"
#include "runtime/base/arithmetic.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/fusing.h"
#include "runtime/link/port.h"
#include "runtime/problem/problem.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/server_address.h"

using namespace gradstream;

namespace {

// The problems over samples that are rows of floats; those of networks take a file as well.
constexpr const ProblemOps* kLibrary[] = {&kKpcaOps,         &kBrockettOps,   &kSpdMeanOps, &kHyperbolicMeanOps,
                                          &kLeastSquaresOps, &kCompletionOps, &kLogisticOps};
// A wait is cut to this, milliseconds. Reason: a clock that stands still during a system's sleep is read again.
constexpr uint64_t kWaitMaxMs = 60000;

// Mbed TLS has one random generator for the process, and lines go to the log of the device at work. So one call at a
// time works; a loss may look at a device from inside of one.
std::recursive_mutex work;
gs_py_log current_log = nullptr;
bool is_polling = false;

struct OwnLoss {
  gs_py_loss loss = nullptr;
  gs_py_gradient gradient = nullptr;
  Shape shape;
  uint32_t sample_count = 0;
  std::vector<float> point;
  std::vector<float> gradient_values;
  std::vector<uint16_t> indices;
  bool are_all_in_order = false;  // the indices
  std::string name;
  ProblemOps ops = {};

  // Python holds one view of each for the device's life: making views would cost more than a call.
  void show(const float* x, Batch batch) {
    std::copy_n(x, point.size(), point.data());
    if (batch.indices != nullptr) {
      std::copy_n(batch.indices, batch.count, indices.data());
    } else if (!are_all_in_order) {
      std::iota(indices.begin(), indices.end(), uint16_t{0});
    }
    are_all_in_order = batch.indices == nullptr;
  }
};

// The context of a Problem is const; what a call shows to Python is the device's own.
OwnLoss& own_of(const void* context) { return *static_cast<OwnLoss*>(const_cast<void*>(context)); }

uint32_t own_sample_count(const void* context) { return own_of(context).sample_count; }

Status own_check_shape(const void* context, Shape shape) {
  return shape == own_of(context).shape ? Status::kOk : Status::kInvalidArgument;
}

size_t own_scratch_size(const void*, Shape) { return 0; }

Result<Real> own_loss(const void* context, Shape, const Real* x, Batch batch, Arena&) {
  OwnLoss& own = own_of(context);
  own.show(x, batch);
  const auto value = static_cast<float>(own.loss(batch.count));
  if (!std::isfinite(value)) {
    return Status::kNotFinite;
  }
  return value;
}

Status own_gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena&) {
  OwnLoss& own = own_of(context);
  own.show(x, batch);
  if (own.gradient(batch.count) != 0 || !all_finite(shape.size(), own.gradient_values.data())) {
    return Status::kNotFinite;
  }
  std::copy(own.gradient_values.begin(), own.gradient_values.end(), out);
  return Status::kOk;
}

Status read_row(const void* context, uint32_t index, Real* out);

}  // namespace

struct gs_py_device {
  std::string host;
  std::string port;
  std::string server;
  TcpLink link;
  gs_py_log log = nullptr;
  OwnLoss own;
  const float* values = nullptr;
  SampleSource samples;
  Problem problem;
  std::unique_ptr<uint64_t[]> memory;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<DeviceShell> shell;
};

namespace {

Status read_row(const void* context, uint32_t index, Real* out) {
  const auto& device = *static_cast<const gs_py_device*>(context);
  const size_t dimension = device.samples.dimension;
  std::copy_n(device.values + index * dimension, dimension, out);
  return Status::kOk;
}

// Of one function of the interface: no other one works meanwhile, and lines go to this device's log.
class Work {
 public:
  explicit Work(gs_py_log log) : lock_(work), before_(std::exchange(current_log, log)) {}
  ~Work() { current_log = before_; }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

 private:
  std::scoped_lock<std::recursive_mutex> lock_;
  gs_py_log before_;
};

const char* take_own_loss(const gs_py_options& options, gs_py_device* device) {
  OwnLoss& own = device->own;
  own.shape = {options.rows, options.cols};
  if (own.shape.size() == 0 || options.rows > kDimensionMax || options.cols > kDimensionMax) {
    return "the shape of the loss is none: rows and columns from 1 to 32,768";
  }
  own.loss = options.loss;
  own.gradient = options.gradient;
  own.sample_count = options.sample_count;
  own.point.resize(own.shape.size());
  own.gradient_values.resize(own.shape.size());
  own.indices.resize(options.sample_count);
  own.name = options.problem;
  own.ops = {own.name.c_str(), own_sample_count, own_check_shape,
             own_scratch_size, own_loss,         options.gradient == nullptr ? nullptr : own_gradient};
  device->problem = {&own.ops, &own};
  return nullptr;
}

const char* take_samples(const gs_py_options& options, gs_py_device* device) {
  const auto* const found = std::find_if(std::begin(kLibrary), std::end(kLibrary), [&](const ProblemOps* ops) {
    return std::strcmp(ops->name, options.problem) == 0;
  });
  if (found == std::end(kLibrary)) {
    return "the library has no problem of this name: give a Loss, or name one of docs/python.md";
  }
  if (options.samples == nullptr || options.dimension == 0) {
    return "there are no samples: give rows of numbers";
  }
  device->values = options.samples;
  device->samples = {device, options.sample_count, options.dimension, read_row};
  device->problem = {*found, &device->samples};
  return nullptr;
}

const char* take_options(const gs_py_options& options, gs_py_device* device) {
  if (options.size != sizeof options) {
    return "the Python files and the library are of different releases: install the package anew";
  }
  if (options.problem == nullptr || std::strlen(options.problem) == 0 ||
      std::strlen(options.problem) > kProblemNameSizeMax) {
    return "the problem's name has 1 to 15 characters";
  }
  if (options.sample_count == 0 || options.sample_count > kSampleCountMax) {
    return "a device has 1 to 65,535 samples";
  }
  ServerAddress address;
  if (options.server == nullptr || parse_server_address(options.server, &address).text != nullptr) {
    return "the server's address is none: write HOST:PORT";
  }
  device->host = address.host;
  device->port = address.port;
  device->server = options.server;
  device->link.host = device->host.c_str();
  device->link.port = device->port.c_str();
  device->log = options.log;
  return options.loss != nullptr ? take_own_loss(options, device) : take_samples(options, device);
}

// As firmware/gradstream_device.cc has it for the one device of an image.
ClientConfig client_config(const gs_py_options& options, const Identity& identity, const gs_py_device& device) {
  ClientConfig client;
  client.registry = make_registry({&device.problem, 1});
  client.firmware_version = GS_VERSION;
  client.board = "python";
  client.run = options.run;
  client.owner = identity_digest(identity);
  client.jitter_seed = crc32c(0, reinterpret_cast<const uint8_t*>(identity.name), std::strlen(identity.name));
  uint8_t life[4] = {};
  if (port_random_bytes(life, sizeof life) == Status::kOk) {
    client.jitter_seed = crc32c(client.jitter_seed, life, sizeof life);
  }
  client.holds_pulls = kHoldsPulls;
  if (options.has_floors == 0) {
    client.floors = no_floors();
  }
  return client;
}

const char* start(const gs_py_options& options, gs_py_device* device) {
  if (!keeps_subnormals()) {
    return "this process flushes subnormal numbers to zero, so that its model would drift from the server's: load no "
           "library that was linked with -ffast-math";
  }
  if (fuses_products()) {
    return "this build fuses products with sums, so that its model would drift from the server's";
  }
  DeviceConfig config;
  uint32_t line = 0;
  if (options.identity == nullptr ||
      parse_identity({options.identity, std::strlen(options.identity)}, &config.identity, &line) != Status::kOk) {
    return "the identity does not parse: give what `gradstream device add` wrote";
  }
  const size_t word_count = options.arena_bytes / sizeof(uint64_t);
  device->memory.reset(new (std::nothrow) uint64_t[word_count]);
  if (device->memory == nullptr || tls_start(nullptr, 0) != Status::kOk) {
    return device->memory == nullptr ? "there is no memory for the arena" : "there are no random numbers, so no TLS";
  }
  config.transport = {&kTcpOps, &device->link, device->server.c_str()};
  config.client = client_config(options, config.identity, *device);
  device->arena = std::make_unique<Arena>(device->memory.get(), word_count * sizeof(uint64_t));
  device->shell = std::make_unique<DeviceShell>(config, *device->arena);
  return nullptr;
}

}  // namespace

namespace gradstream {

// ---- What an image's board and application would be ----

void port_log_line(const char* text) {
  if (current_log != nullptr) {
    current_log(text);
  }
}

// Devices here keep no state over the process's end.
Status write_state(std::span<const StoragePiece>) { return Status::kUnimplemented; }

void assert_failed(const char* file, int line) {
  (void)std::fprintf(stderr, "event=assert_failed file=%s line=%d\n", file, line);
  port_reboot();
}

}  // namespace gradstream

gs_py_device* gs_py_open(const gs_py_options* options, const char** why) {
  auto device = std::make_unique<gs_py_device>();
  const Work lock(options->log);
  *why = take_options(*options, device.get());
  if (*why == nullptr) {
    *why = start(*options, device.get());
  }
  return *why == nullptr ? device.release() : nullptr;
}

void gs_py_close(gs_py_device* device) {
  const Work lock(nullptr);
  device->shell.reset();
  kTcpOps.close(&device->link);
  delete device;
}

const float* gs_py_point(const gs_py_device* device) { return device->own.point.data(); }
const uint16_t* gs_py_indices(const gs_py_device* device) { return device->own.indices.data(); }
float* gs_py_gradient_values(gs_py_device* device) { return device->own.gradient_values.data(); }

uint32_t gs_py_poll(gs_py_device* device) {
  const Work lock(device->log);
  GS_ASSERT(!is_polling);  // device.py refuses it by name
  is_polling = true;
  const uint64_t now_ms = port_now_ms();
  const uint64_t wake_ms = device->shell->poll(now_ms);
  is_polling = false;
  return wake_ms <= now_ms ? 0 : static_cast<uint32_t>(std::min(wake_ms - now_ms, kWaitMaxMs));
}

void gs_py_wait(gs_py_device* const* devices, uint32_t count, uint32_t milliseconds) {
  std::vector<pollfd> waits;
  {
    const Work lock(nullptr);
    std::transform(devices, devices + count, std::back_inserter(waits),
                   [](const gs_py_device* device) { return wait_for(device->link); });
  }
  const uint64_t timeout = std::min<uint64_t>(milliseconds, kWaitMaxMs);
  (void)::poll(waits.data(), waits.size(), static_cast<int>(timeout));
}

void gs_py_get_status(const gs_py_device* device, gs_py_status* out) {
  const Work lock(current_log);
  const Client& client = device->shell->client();
  const ClientCounters& counters = client.counters();
  const DeviceCounters link = device->shell->counters();
  *out = {};
  if (const Replica& replica = client.replica(); replica.has_model()) {
    out->has_model = 1;
    out->version = replica.version();
    out->digest = client.digest();
    out->rows = replica.shape().rows;
    out->cols = replica.shape().cols;
  }
  out->run_finished = client.run_finished() ? 1 : 0;
  out->connected = device->shell->is_connected() ? 1 : 0;
  out->sessions = counters.sessions;
  out->connection_failures = counters.connection_failures;
  out->local_steps = counters.local_steps;
  out->updates_folded = counters.updates_folded;
  out->updates_late = counters.updates_late;
  out->updates_refused = counters.updates_refused;
  out->tasks_refused = counters.tasks_refused;
  out->digest_mismatches = counters.digest_mismatches;
  out->bytes_sent = link.bytes_sent;
  out->bytes_received = link.bytes_received;
  out->arena_high_water = static_cast<uint32_t>(device->arena->high_water_size());
  out->last_reason = reason_name(client.last_reason());
  out->last_fault = device->shell->last_fault_text();
}

int gs_py_get_model(const gs_py_device* device, float* out, size_t capacity) {
  const Work lock(current_log);
  const Replica& replica = device->shell->client().replica();
  if (!replica.has_model() || replica.shape().size() > capacity) {
    return 1;
  }
  std::copy_n(replica.model(), replica.shape().size(), out);
  return 0;
}

double gs_py_evaluate(gs_py_device* device, const float* x, uint32_t index_count, uint32_t times) {
  const Work lock(device->log);
  const OwnLoss& own = device->own;
  if (own.loss == nullptr || index_count == 0 || index_count > own.sample_count) {
    return NAN;
  }
  Batch batch;
  batch.count = index_count;
  double value = NAN;
  for (uint32_t i = 0; i < times; ++i) {
    const Result<Real> loss = own.ops.loss(&own, own.shape, x, batch, *device->arena);
    value = loss.ok() ? loss.value() : NAN;
  }
  return value;
}

void gs_py_call(gs_py_loss loss, uint32_t times) {
  for (uint32_t i = 0; i < times; ++i) {
    (void)loss(1);
  }
}

const char* gs_py_version(void) { return GS_VERSION; }
