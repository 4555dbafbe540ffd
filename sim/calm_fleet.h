// A fleet without faults, for measuring: the real coordinator and the real clients in one thread and virtual time,
// every frame encoded, framed and decoded, delivered at once; records are durable at once; devices act in order of
// enrolment, so that the fold adds in that order. The same code in float (the product) and in double.
//
//   device 0, 1, ... --frames--> coordinator --frames--> device 0, 1, ...
//                                     '--- each published version ---> watcher
#ifndef GRADSTREAM_SIM_CALM_FLEET_H_
#define GRADSTREAM_SIM_CALM_FLEET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/link/client.h"
#include "runtime/link/frame.h"
#include "server/coordinator.h"

namespace gradstream {

// What stands on the wire between one version and the next, of all devices: whole frames, prefix included, without TLS.
struct WireBytes {
  uint64_t up = 0;
  uint64_t down = 0;
};

class CalmFleet {
 public:
  // model: rows * cols values of a version that was just published. False ends the run.
  using Watcher = std::function<bool(uint32_t version, const Real* model)>;

  // problems: one for each device, by enrolment index; their contexts outlive the fleet. start: the first model, empty
  // for the point of the run's seed. Parameters must pass check_parameters(); device_count is the number of problems.
  // The fleet sets retry_min_ms and retry_max_ms to 1, so that no device overtakes another.
  CalmFleet(const RunParameters& parameters, std::span<const Problem> problems, std::span<const Real> start);
  ~CalmFleet();
  CalmFleet(const CalmFleet&) = delete;
  CalmFleet& operator=(const CalmFleet&) = delete;

  // Trains to the last version, or until watch says so. Returns what went wrong, naming device and reason, or nothing:
  // an update or a task that is refused, a version without a step, a deadline that fires. What was published before
  // stands.
  std::string run(const Watcher& watch);

  // Before run(): a device that refuses a task, or whose update is refused, ends nothing; what its round waits for at
  // the deadline is the parameters' matter. The first such line stands in refusal(), naming device and reason.
  void tolerate_refusals() { tolerates_refusals_ = true; }
  const std::string& refusal() const { return refusal_; }

  // Since the beginning.
  const WireBytes& bytes() const { return bytes_; }
  uint64_t digest() const { return server_->model().digest(); }
  uint32_t version() const { return server_->durable_version(); }
  // Most arena bytes that a device had in use.
  size_t arena_high_water_size() const;

 private:
  struct Device;

  void poll(Device& device);
  void on_frame_up(Device& device, std::span<const uint8_t> frame);
  void take_server_actions();
  void send_down(const Action& action);
  void deliver(Device& device);
  uint64_t next_ms() const;
  void fail(const std::string& sentence);
  void look_for_faults();
  void on_log(const Action& action);

  RunParameters parameters_;
  std::unique_ptr<Coordinator> server_;
  std::vector<std::unique_ptr<Device>> devices_;
  Watcher watch_;
  WireBytes bytes_;
  std::string fault_;
  std::string refusal_;
  bool tolerates_refusals_ = false;
  bool is_over_ = false;
  uint64_t now_ms_ = 0;
  uint64_t next_session_ = 1;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_CALM_FLEET_H_
