#include "experiments/papers/poison_attack.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "runtime/base/random.h"
#include "sim/lies.h"

namespace gradstream {
namespace {

constexpr std::array<const char*, 8> kNames = {"none", "zeros", "noise100", "flip", "ipm10", "alie", "mimic", "stages"};
constexpr Real kNoiseSize = 100;
constexpr Real kIpmFactor = -10;
constexpr Real kAlieDeviations = -1.5;

uint32_t base_version_of(const DeviceMessage& message) {
  return message.which_body == gs_DeviceMessage_update_scalars_tag ? message.body.update_scalars.base_version
                                                                   : message.body.update_tangent.base_version;
}

}  // namespace

const char* name_of(Attack attack) { return kNames[static_cast<size_t>(attack)]; }

Attackers::Attackers(Attack attack, uint32_t attacker_count, uint32_t device_count, uint32_t seed)
    : attack_(attack), honest_count_(device_count - attacker_count), seed_(seed), honest_(honest_count_) {}

void Attackers::hear(uint32_t device, DeviceMessage* message) {
  const bool is_attacker = device >= honest_count_;
  if (is_attacker && attack_ == Attack::kZeros && message->which_body == gs_DeviceMessage_hello_tag) {
    message->body.hello.sample_count = kLieSamples;
  }
  if (is_attacker && attack_ == Attack::kStages) {
    tell_stage_lies(message);
    return;
  }
  Upload upload;
  upload.values = upload_values(*message);
  if (upload.values.empty()) {
    return;
  }
  upload.base_version = base_version_of(*message);
  if (is_attacker) {
    GS_ASSERT(std::all_of(honest_.begin(), honest_.end(),
                          [&](const Upload& honest) { return honest.base_version == upload.base_version; }));
    set_upload_values(attack_values(device, upload), message);
  } else {
    honest_[device] = std::move(upload);
  }
}

// The honest mean and so many standard deviations (of the population), scalar by scalar.
std::vector<Real> Attackers::honest_moments(Real deviation_count) const {
  const size_t count = honest_.front().values.size();
  std::vector<double> sums(count), squares(count);
  for (const Upload& upload : honest_) {
    for (size_t q = 0; q < count; ++q) {
      const auto value = static_cast<double>(upload.values[q]);
      sums[q] += value;
      squares[q] += value * value;
    }
  }
  std::vector<Real> moments(count);
  for (size_t q = 0; q < count; ++q) {
    const double mean = sums[q] / honest_count_;
    const double variance = std::fmax(squares[q] / honest_count_ - mean * mean, 0.0);
    moments[q] = static_cast<Real>(mean + static_cast<double>(deviation_count) * std::sqrt(variance));
  }
  return moments;
}

std::vector<Real> Attackers::attack_values(uint32_t device, const Upload& own) const {
  std::vector<Real> values = own.values;
  switch (attack_) {
    case Attack::kNone:
    case Attack::kStages:
      return values;
    case Attack::kZeros:
      return std::vector<Real>(values.size());
    case Attack::kNoise: {
      RandomKey key;
      key.seed = seed_;
      key.version = own.base_version;
      key.owner = 0xbad00 + device;  // apart from the samples, which are drawn from the same domain
      fill_normal(key, 0, values.size(), values.data());
      for (Real& value : values) {
        value *= kNoiseSize;
      }
      return values;
    }
    case Attack::kFlip:
      for (Real& value : values) {
        value = -value;
      }
      return values;
    case Attack::kIpm:
      values = honest_moments(0);
      for (Real& value : values) {
        value *= kIpmFactor;
      }
      return values;
    case Attack::kAlie:
      return honest_moments(kAlieDeviations);
    case Attack::kMimic:
      return honest_.front().values;
  }
  return values;
}

}  // namespace gradstream
