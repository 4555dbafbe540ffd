// Devices that want the model to be another: what they upload in place of their work. They know what every honest
// device has uploaded for the version, and they agree.
//
//   honest devices 0 .. n - f - 1 --uploads--> seen, and left as they are
//   attackers  n - f .. n - 1     --uploads--> the values are the attack's
//
// An attacker runs the honest program besides, on its own samples, and so its upload has the form that the task asks
// for. Device and attack alone decide its values, by the shared random stream.
#ifndef GRADSTREAM_EXPERIMENTS_PAPERS_POISON_ATTACK_H_
#define GRADSTREAM_EXPERIMENTS_PAPERS_POISON_ATTACK_H_

#include <cstdint>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/wire/codec.h"

namespace gradstream {

enum class Attack : uint8_t {
  kNone,
  kZeros,   // says nothing, and that it holds 65,535 samples
  kNoise,   // independent normals, 100 times as large as standard ones
  kFlip,    // its own values with the other sign
  kIpm,     // -10 times the honest mean (inner product manipulation)
  kAlie,    // the honest mean less 1.5 standard deviations, scalar by scalar (a little is enough)
  kMimic,   // what honest device 0 says
  kStages,  // honest values; lies in the sums and trials of stages, and in every line (sim/lies.h)
};
// As keys of cases have them.
const char* name_of(Attack attack);

class Attackers {
 public:
  // attacker_count: f, below device_count. seed: of the noise.
  Attackers(Attack attack, uint32_t attacker_count, uint32_t device_count, uint32_t seed);
  // Sees every message of every device, in the order in which the server gets them, and changes those of attackers.
  // GS_ASSERT: every honest upload of a version comes before an attacker's (TimedFleet::slow_down()).
  void hear(uint32_t device, DeviceMessage* message);

 private:
  struct Upload {
    uint32_t base_version = 0;
    std::vector<Real> values;
  };
  std::vector<Real> attack_values(uint32_t device, const Upload& own) const;
  std::vector<Real> honest_moments(Real deviation_count) const;

  Attack attack_;
  uint32_t honest_count_;
  uint32_t seed_;
  std::vector<Upload> honest_;  // the last upload of each honest device
};

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_PAPERS_POISON_ATTACK_H_
