// What each device has given to the last W versions of a run without rounds, so that no device makes more than its
// share of them, and which devices were there at all.
//
// A device was there if it was given a task, or gave an update. Reason: one that answers at once fills the window with
// its own updates, while the others work at their tasks. All of it follows from records. A version costs its records,
// and not the fleet.
#ifndef GRADSTREAM_SERVER_COORDINATOR_SHARE_WINDOW_H_
#define GRADSTREAM_SERVER_COORDINATOR_SHARE_WINDOW_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "server/base/state_archive.h"

namespace gradstream {

class ShareWindow {
 public:
  // version_count: W, the open version included; 0: nothing is noted.
  explicit ShareWindow(uint32_t version_count) : version_count_(version_count) {}

  // In the open version: a task for the device, and an accepted update of it. Without a version they have no effect.
  void add_task(uint32_t device);
  void add_update(uint32_t device);
  void begin_version();
  // Updates of the device in the window.
  uint32_t update_count(uint32_t device) const { return device < devices_.size() ? devices_[device].updates : 0; }
  // Devices that were there in the window.
  uint32_t device_count() const { return device_count_; }
  // Of a checkpoint, of a fleet with so many devices.
  void exchange(StateArchive& io, uint32_t fleet_count);

 private:
  struct Version {
    std::vector<uint32_t> tasks;  // devices, once for each
    std::vector<uint32_t> updates;
  };
  struct Device {
    uint32_t tasks = 0;
    uint32_t updates = 0;
  };
  Device& device(uint32_t index);
  void count(const Version& version);
  void forget(const Version& version);

  uint32_t version_count_;
  std::deque<Version> versions_;  // oldest first
  std::vector<Device> devices_;
  uint32_t device_count_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_SHARE_WINDOW_H_
