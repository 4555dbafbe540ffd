#include "server/coordinator/share_window.h"

#include <algorithm>

namespace gradstream {

ShareWindow::Device& ShareWindow::device(uint32_t index) {
  if (index >= devices_.size()) {
    devices_.resize(size_t{index} + 1);
  }
  return devices_[index];
}

void ShareWindow::count(const Version& version) {
  const auto count_one = [this](uint32_t index, uint32_t Device::*part) {
    Device& one = device(index);
    device_count_ += one.tasks + one.updates == 0 ? 1 : 0;
    ++(one.*part);
  };
  for (const uint32_t index : version.tasks) {
    count_one(index, &Device::tasks);
  }
  for (const uint32_t index : version.updates) {
    count_one(index, &Device::updates);
  }
}

void ShareWindow::forget(const Version& version) {
  const auto forget_one = [this](uint32_t index, uint32_t Device::*part) {
    Device& one = devices_[index];
    --(one.*part);
    device_count_ -= one.tasks + one.updates == 0 ? 1 : 0;
  };
  for (const uint32_t index : version.tasks) {
    forget_one(index, &Device::tasks);
  }
  for (const uint32_t index : version.updates) {
    forget_one(index, &Device::updates);
  }
}

void ShareWindow::add_task(uint32_t device) {
  if (!versions_.empty()) {
    versions_.back().tasks.push_back(device);
    count({{device}, {}});
  }
}

void ShareWindow::add_update(uint32_t device) {
  if (!versions_.empty()) {
    versions_.back().updates.push_back(device);
    count({{}, {device}});
  }
}

void ShareWindow::begin_version() {
  if (version_count_ == 0) {
    return;
  }
  versions_.emplace_back();
  if (versions_.size() > version_count_) {
    forget(versions_.front());
    versions_.pop_front();
  }
}

void ShareWindow::exchange(StateArchive& io, uint32_t fleet_count) {
  if (version_count_ == 0) {
    return;
  }
  io.list(versions_, [&io](Version& one) {
    io.numbers(one.tasks);
    io.numbers(one.updates);
  });
  if (!io.is_reading()) {
    return;
  }
  const auto is_known = [fleet_count](const std::vector<uint32_t>& devices) {
    return std::all_of(devices.begin(), devices.end(), [fleet_count](uint32_t index) { return index < fleet_count; });
  };
  if (versions_.empty() || versions_.size() > version_count_ ||
      !std::all_of(versions_.begin(), versions_.end(),
                   [&](const Version& one) { return is_known(one.tasks) && is_known(one.updates); })) {
    io.fail();
    return;
  }
  for (const Version& one : versions_) {
    count(one);
  }
}

}  // namespace gradstream
