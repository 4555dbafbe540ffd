// What a device says in place of what it did: one that is broken, or one that wants the model to be another.
//
//   client --DeviceMessage--> [changed here] --> coordinator
//
// The simulator has a liar beside its faults; experiments and benches put one into a TimedFleet by on_device_message.
// The client knows nothing of it: it trains as it was asked, and keeps what it would have sent.
#ifndef GRADSTREAM_SIM_LIES_H_
#define GRADSTREAM_SIM_LIES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/wire/codec.h"

namespace gradstream {

// ---- Values of an upload ----

// The values of an upload that has one piece, decoded: steps_done * direction_count scalars, or a tangent. Empty: the
// message is no such upload, answers a stage in whole numbers, or has more pieces than one.
std::vector<Real> upload_values(const DeviceMessage& message);
// Puts values in place of those, as many, in the upload's own encoding and with its checksum. GS_ASSERT: the message
// has upload_values() of that count, and the encoding takes the values.
void set_upload_values(std::span<const Real> values, DeviceMessage* message);

// ---- Stages before training ----

// Lies in all that a run goes by which finds its step and its units itself, and in nothing else. For each loss x along
// a direction the device says -1e6 x - 1e3: each answer looks like a fall that no honest device has. It stays above
// -1e30, since a refused answer could do no harm. Of its columns it claims values above 1e30.
void tell_stage_lies(DeviceMessage* message);

// ---- The liar of the simulator ----

enum class Lie : uint8_t {
  kSize,     // the values are a thousand times what they are
  kNoise,    // the values are noise, as large as kLieMax
  kSign,     // the values have the other sign
  kSamples,  // the device claims kLieSamples samples
  kLoss,     // both losses are a thousand times what they are, and the second is below 0
};
inline constexpr size_t kLieCount = 5;
inline constexpr std::array<const char*, kLieCount> kLieNames = {"size", "noise", "sign", "samples", "loss"};
using LieCounts = std::array<uint64_t, kLieCount>;

// Of a value, at most. Reason: a fold takes 128 by default, of one step and divided by the chance of being asked (0.3
// and more in the simulator); what is refused does no harm.
inline constexpr Real kLieMax = 30;
// The most that a weight by samples counts.
inline constexpr uint32_t kLieSamples = 65535;

// One device. Its lie is a function of seed, version and the truth: a repeated upload repeats it, and every schedule
// hears the same lies. No libm: so does every machine.
class Liar {
 public:
  // bits: bit n: it tells Lie n. Of size, noise and sign it tells one for each version, in turn.
  Liar(uint32_t seed, uint32_t bits) : seed_(seed), bits_(bits) {}
  void tell(DeviceMessage* message);
  // Messages with each of the lies, repeated ones too.
  const LieCounts& counts() const { return counts_; }

 private:
  bool may(Lie lie) const { return (bits_ >> static_cast<uint32_t>(lie) & 1U) != 0; }
  void count(Lie lie) { ++counts_[static_cast<size_t>(lie)]; }
  void tell_values(uint32_t version, DeviceMessage* message);

  uint32_t seed_;
  uint32_t bits_;
  LieCounts counts_ = {};
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_LIES_H_
