// One device of the simulated fleet: the real client, samples of a small problem (k-PCA, or matrix completion where the
// run is of fixed rank), storage that survives a crash.
#ifndef GRADSTREAM_SIM_SIM_DEVICE_H_
#define GRADSTREAM_SIM_SIM_DEVICE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/link/client.h"
#include "runtime/problem/measurement.h"
#include "runtime/wire/frame.h"
#include "server/run/run_parameters.h"
#include "sim/own_problem.h"

namespace gradstream {

// What a device learns of its session.
enum class SessionNews : uint8_t {
  kConnected,
  kFrame,
  kEnd,  // also of a connection that was not made
};

class SimDevice {
 public:
  // Samples of the run's problem, drawn from its seed and skewed by the index, so that devices differ. own: the problem
  // in place of them, which outlives the device; null: there is none.
  SimDevice(uint32_t index, const RunParameters& parameters, const OwnProblem* own = nullptr);
  SimDevice(const SimDevice&) = delete;
  SimDevice& operator=(const SimDevice&) = delete;

  uint32_t index() const { return index_; }
  bool is_alive() const { return client_ != nullptr; }
  Client& client() { return *client_; }
  const Client& client() const { return *client_; }
  void crash() { client_.reset(); }
  // Boots from what was saved last.
  void boot();
  void save(const ClientAction& action);
  void save_step(const ClientAction& action);
  // Its samples, row by row; none of an own problem.
  const Real* samples() const { return samples_.data(); }
  const SampleSource& source() const { return source_; }
  FrameReader& reader() { return reader_; }
  // Whether what happens to a session is still of interest to it.
  bool hears(uint64_t of_session) const { return is_alive() && session == of_session; }
  // What it hears of its session. frame: of kFrame, as it was sent.
  void learn(SessionNews news, std::span<const uint8_t> frame, uint64_t now_ms);
  // Whether it is to be polled at that time, which is then poll_ms: a poll that was to come later comes to nothing.
  bool wants_poll(uint64_t at_ms);
  // Whether the poll of that time still is to be made; then none is due.
  bool begin_poll(uint64_t at_ms);
  // From the next boot on its loss is measured: each question has its answer at ask number asks_needed.
  void measure(uint32_t asks_needed);
  // Turns one bit of the model over; false when the client is not between two exchanges or has no model.
  bool flip_bit(uint64_t draw);

  bool holds_pulls = false;       // from the next boot on the server may hold its Pulls
  uint32_t step_ms = 1;           // of one local step
  uint64_t session = 0;           // 0: none
  uint64_t poll_ms = UINT64_MAX;  // of the next poll; UINT64_MAX: none is due
  uint64_t last_down_ms = 0;      // frames of one session stay in order
  uint64_t last_up_ms = 0;

 private:
  void fill_vectors(RandomStream& stream, uint32_t count, uint32_t dimension);
  void fill_entries(RandomStream& stream, uint32_t count, const Parts& factors);
  // Whether the question that is asked now has its answer.
  static bool is_ready(const void* source, Batch batch);
  static Status read(const void* context, uint32_t index, Real* out);

  uint32_t index_;
  uint32_t boot_count_ = 0;
  std::vector<Real> samples_;
  SampleSource source_;
  Problem problem_;
  ProblemOps computed_ops_ = {};  // of a loss that is measured: what its answers are
  ProblemOps measured_ops_ = {};
  Measurement measurement_;
  uint32_t asks_needed_ = 0;
  uint32_t asks_ = 0;  // of the question that was asked last
  size_t arena_size_;  // bytes
  std::unique_ptr<uint64_t[]> memory_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Client> client_;
  static Result<size_t> read_step(void* context, uint32_t index, uint8_t* out, size_t capacity);

  std::vector<uint8_t> saved_;
  std::vector<std::vector<uint8_t>> steps_;
  FrameReader reader_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_SIM_DEVICE_H_
