#include "python/gradstream_python.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>

#include "boards/posix/posix.h"
#include "boards/posix/tcp_link.h"
#include "firmware/application.h"
#include "firmware/client_main.h"
#include "firmware/credentials_posix.h"
#include "firmware/device.h"
#include "firmware/key_change_posix.h"
#include "firmware/name_posix.h"
#include "firmware/registry.h"
#include "python/library_problem.h"
#include "python/work.h"
#include "runtime/base/arithmetic.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/fusing.h"
#include "runtime/link/port.h"
#include "runtime/problem/problem.h"
#include "runtime/wire/claim.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/server_address.h"

using namespace gradstream;

namespace {

// A wait is cut to this, milliseconds. Reason: a clock that stands still during a system's sleep is read again.
constexpr uint64_t kWaitMaxMs = 60000;

// What is stored is stored for this device, under the lock of WorkTurn.
gs_py_device* at_work = nullptr;
// The state files of the devices that are open.
std::set<std::string> open_states;

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
  std::vector<char> identity_text;
  std::string name;
  Certificate certificate;
  bool has_certificate = false;
  IdentityKeeper keys;
  bool keeps_keys = false;
  std::string state;  // its file; empty: none
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

std::string in_quotes(const std::string& text) { return "'" + text + "'"; }

// 0, or the code of *fault.
int take_own_loss(const gs_py_options& options, gs_py_device* device, gs_py_fault* fault) {
  OwnLoss& own = device->own;
  own.shape = {options.rows, options.cols};
  if (own.shape.size() == 0 || options.rows > kDimensionMax || options.cols > kDimensionMax) {
    return tell(fault, kExitUsage,
                "the shape of the loss is (" + std::to_string(options.rows) + ", " + std::to_string(options.cols) +
                    "): give rows and columns from 1 to " + std::to_string(kDimensionMax) + ", those of the run");
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
  return kExitOk;
}

int take_samples(const gs_py_options& options, gs_py_device* device, gs_py_fault* fault) {
  const ProblemOps* const found = find_library_problem(options.problem);
  if (found == nullptr) {
    return tell(fault, kExitUsage,
                "the library has no problem of this name, " + in_quotes(options.problem) + ": give a Loss, or one of " +
                    library_problem_names());
  }
  if (options.samples == nullptr || options.dimension == 0) {
    return tell(fault, kExitData, "there are no samples: give rows of numbers");
  }
  device->values = options.samples;
  device->samples = {device, options.sample_count, options.dimension, read_row};
  device->problem = {found, &device->samples};
  return kExitOk;
}

int take_server(const gs_py_options& options, gs_py_device* device, gs_py_fault* fault) {
  ServerAddress address;
  if (const AddressFault wrong = parse_server_address(options.server, &address); wrong.text != nullptr) {
    return tell(fault, kExitUsage,
                "the server is " + in_quotes(options.server) + ": write HOST:PORT; " +
                    in_quotes(std::string(wrong.part)) + " " + wrong.text);
  }
  device->host = address.host;
  device->port = address.port;
  device->server = options.server;
  device->link.host = device->host.c_str();
  device->link.port = device->port.c_str();
  return kExitOk;
}

int take_options(const gs_py_options& options, gs_py_device* device, gs_py_fault* fault) {
  if (options.size != sizeof options) {
    return tell(fault, kExitUsage,
                "the Python files and the library are of different releases: install the package anew");
  }
  if (std::strlen(options.problem) == 0 || std::strlen(options.problem) > kProblemNameSizeMax) {
    return tell(
        fault, kExitUsage,
        "the problem's name is " + in_quotes(options.problem) + ": it has 1 to 15 characters, those of the run");
  }
  if (options.sample_count == 0 || options.sample_count > kSampleCountMax) {
    return tell(fault, kExitData,
                options.sample_count == 0
                    ? "there are 0 samples: a device has 1 to 65,535 samples"
                    : "there are more than 65,535 samples: a device has 1 to 65,535 samples; share them out");
  }
  device->log = options.log;
  if (const int code = take_server(options, device, fault); code != kExitOk) {
    return code;
  }
  return options.loss != nullptr ? take_own_loss(options, device, fault) : take_samples(options, device, fault);
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
  client.has_storage = !device.state.empty();
  client.changes_keys = device.keeps_keys;
  client.holds_pulls = kHoldsPulls;
  if (options.has_floors == 0) {
    client.floors = no_floors();
  }
  return client;
}

int take_credentials(const gs_py_credentials& given, gs_py_device* device, gs_py_fault* fault) {
  if (given.certificate != nullptr) {
    device->has_certificate = true;
    const CertificateFiles files = {given.authority, given.certificate, given.key,
                                    given.server_name == nullptr ? "" : given.server_name};
    return load_certificate(files, device->host, &device->certificate, &device->identity_text, &device->name);
  }
  if (given.identity_file != nullptr) {
    if (const int code = load_identity(given.identity_file, &device->identity_text, &device->name); code != kExitOk) {
      return code;
    }
    ClientMainOptions kept;
    const int code = keep_identity(given.identity_file, &device->keys, &kept);
    device->keeps_keys = kept.keys != nullptr;
    return code;
  }
  device->identity_text.assign(given.identity, given.identity + std::strlen(given.identity));
  Identity identity;
  uint32_t line = 0;
  if (parse_identity(device->identity_text, &identity, &line) != Status::kOk) {
    return tell(fault, kExitIdentity,
                "the identity does not parse," + identity_fault_text(device->identity_text, line) +
                    ": give what `gradstream device add` wrote");
  }
  if (is_claim_identity(identity.name)) {
    return tell(fault, kExitIdentity, "the identity is a claim: give its file as claim, with a name");
  }
  device->name = identity.name;
  return kExitOk;
}

int take_state(const char* folder, gs_py_device* device, gs_py_fault* fault) {
  if (folder == nullptr) {
    return kExitOk;
  }
  if (device->name.find('/') != std::string::npos) {
    return tell(fault, kExitUsage, "no state is kept of the name " + in_quotes(device->name) + ": it has a slash");
  }
  std::string path = (std::filesystem::path(folder) / (device->name + ".state")).string();
  if (posix_set_state_file(path.c_str()) != Status::kOk) {
    return tell(fault, kExitUsage, "the path of the state folder is too long: " + in_quotes(folder));
  }
  if (!open_states.insert(path).second) {
    return tell(fault, kExitUsage, path + " is of a device that is open in this process: close that one first");
  }
  device->state = std::move(path);  // which takes no memory: whoever closes the device finds it in open_states
  return kExitOk;
}

// What cannot be used is dropped, with a line: the device begins afresh.
void restore(gs_py_device* device, size_t capacity) {
  const auto buffer = std::make_unique<uint8_t[]>(capacity);
  const Result<size_t> size = port_storage_read(buffer.get(), capacity);
  if (size.ok() && size.value() == 0) {
    return;
  }
  const Status status = !size.ok()                ? size.status()
                        : size.value() > capacity ? Status::kOutOfMemory
                                                  : device->shell->client().restore({buffer.get(), size.value()});
  if (status != Status::kOk) {
    const char* const why = !size.ok()                           ? "it cannot be read"
                            : status == Status::kDataCorrupt     ? "it is damaged, or of another release"
                            : status == Status::kUnauthenticated ? "it is of another identity"
                                                                 : "it does not fit this device";
    port_log_line(
        ("event=state_dropped reason=\"the saved state: " + std::string(why) + "; starting afresh\"").c_str());
  }
}

int check_arithmetic(gs_py_fault* fault) {
  if (!keeps_subnormals()) {
    return tell(fault, kExitArithmetic,
                "this process flushes subnormal numbers to zero, so that its model would drift from the server's: load "
                "no library that was linked with -ffast-math");
  }
  return fuses_products() ? tell(fault, kExitArithmetic,
                                 "this build fuses products with sums, so that its model would drift from the server's")
                          : int{kExitOk};
}

int start(const gs_py_options& options, gs_py_device* device, gs_py_fault* fault) {
  if (const int code = check_arithmetic(fault); code != kExitOk) {
    return code;
  }
  const size_t word_count = options.arena_bytes / sizeof(uint64_t);
  device->memory.reset(new (std::nothrow) uint64_t[word_count]);
  if (device->memory == nullptr) {
    return tell(fault, kExitMemory,
                "there is no memory for arena_bytes, " + std::to_string(options.arena_bytes) + ": give fewer");
  }
  if (tls_start(nullptr, 0) != Status::kOk) {
    return tell(fault, kExitNoEntropy, "there are no random numbers, so no TLS");
  }
  int code = take_credentials(options.credentials, device, fault);
  code = code == kExitOk ? take_state(options.state, device, fault) : code;
  if (code != kExitOk) {
    fault->code = code;
    return code;
  }
  DeviceConfig config;
  uint32_t line = 0;
  const Status parsed = parse_identity(device->identity_text, &config.identity, &line);
  GS_ASSERT(parsed == Status::kOk);  // take_credentials() has seen it
  config.credentials = device->has_certificate ? &device->certificate.credentials : nullptr;
  config.server_name = device->certificate.server_name.c_str();
  config.keys = device->keeps_keys ? &device->keys : nullptr;
  config.transport = {&kTcpOps, &device->link, device->server.c_str()};
  config.client = client_config(options, config.identity, *device);
  const size_t arena_size = word_count * sizeof(uint64_t);
  device->arena = std::make_unique<Arena>(device->memory.get(), arena_size);
  device->shell = std::make_unique<DeviceShell>(config, *device->arena);
  if (!device->state.empty()) {
    restore(device, arena_size);
  }
  return kExitOk;
}

// Under the lock of WorkTurn: what is stored meanwhile is the device's.
class AtWork {
 public:
  explicit AtWork(gs_py_device* device) : before_(std::exchange(at_work, device)) {}
  ~AtWork() { at_work = before_; }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  gs_py_device* before_;  // whose loss closes this one
};

}  // namespace

namespace gradstream {

// In place of the one device of an image.
Status write_state(std::span<const StoragePiece> pieces) {
  if (at_work->state.empty()) {
    return Status::kUnimplemented;
  }
  GS_TRY(posix_set_state_file(at_work->state.c_str()));
  return port_storage_write(pieces.data(), pieces.size());
}

}  // namespace gradstream

gs_py_device* gs_py_open(const gs_py_options* options, gs_py_fault* fault) {
  const WorkTurn lock(options->log, fault);
  std::unique_ptr<gs_py_device> device;
  const int code = with_memory(fault, [&] {
    device = std::make_unique<gs_py_device>();
    const int taken = take_options(*options, device.get(), fault);
    return taken == kExitOk ? start(*options, device.get(), fault) : taken;
  });
  if (code == kExitOk) {
    return device.release();
  }
  if (device != nullptr) {
    open_states.erase(device->state);
  }
  return nullptr;
}

void gs_py_close(gs_py_device* device) {
  const WorkTurn lock(device->log);
  if (!device->state.empty()) {
    const AtWork work(device);
    gs_py_fault fault = {};  // nobody hears of it: the state that was stored last stays
    (void)with_memory(&fault, [&] {
      device->shell->save_state();
      return int{kExitOk};
    });
  }
  open_states.erase(device->state);
  device->shell.reset();
  kTcpOps.close(&device->link);
  delete device;
}

const float* gs_py_point(const gs_py_device* device) { return device->own.point.data(); }
const uint16_t* gs_py_indices(const gs_py_device* device) { return device->own.indices.data(); }
float* gs_py_gradient_values(gs_py_device* device) { return device->own.gradient_values.data(); }

uint32_t gs_py_poll(gs_py_device* device) {
  const WorkTurn lock(device->log);
  GS_ASSERT(at_work == nullptr);  // device.py refuses it by name
  const AtWork work(device);
  const uint64_t now_ms = port_now_ms();
  uint64_t wake_ms = 0;
  gs_py_fault fault = {};
  if (with_memory(&fault, [&] {
        wake_ms = device->shell->poll(now_ms);
        return int{kExitOk};
      }) != kExitOk) {
    return GS_PY_NO_MEMORY;
  }
  return wake_ms <= now_ms ? 0 : static_cast<uint32_t>(std::min(wake_ms - now_ms, kWaitMaxMs));
}

void gs_py_wait(gs_py_device* const* devices, uint32_t count, uint32_t milliseconds) {
  const std::unique_ptr<pollfd[]> waits(new (std::nothrow) pollfd[count]);
  const uint32_t waited = waits == nullptr ? 0 : count;  // without memory it is the time alone that ends the wait
  {
    const WorkTurn lock(nullptr);
    std::transform(devices, devices + waited, waits.get(),
                   [](const gs_py_device* device) { return wait_for(device->link); });
  }
  const uint64_t timeout = std::min<uint64_t>(milliseconds, kWaitMaxMs);
  (void)::poll(waits.get(), waited, static_cast<int>(timeout));
}

void gs_py_get_status(const gs_py_device* device, gs_py_status* out) {
  const WorkTurn lock(device->log);
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
  out->save_failures = counters.save_failures;
  out->bytes_sent = link.bytes_sent;
  out->bytes_received = link.bytes_received;
  out->arena_high_water = static_cast<uint32_t>(device->arena->high_water_size());
  out->name = device->keeps_keys ? device->keys.name() : device->name.c_str();
  out->last_reason = reason_name(client.last_reason());
  out->last_fault = device->shell->last_fault_text();
}

int gs_py_get_model(const gs_py_device* device, float* out, size_t capacity) {
  const WorkTurn lock(device->log);
  const Replica& replica = device->shell->client().replica();
  if (!replica.has_model() || replica.shape().size() > capacity) {
    return 1;
  }
  std::copy_n(replica.model(), replica.shape().size(), out);
  return 0;
}

double gs_py_evaluate(gs_py_device* device, const float* x, uint32_t index_count, uint32_t times) {
  const WorkTurn lock(device->log);
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
