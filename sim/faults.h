// What the simulator does to a fleet, and how often it did.
#ifndef GRADSTREAM_SIM_FAULTS_H_
#define GRADSTREAM_SIM_FAULTS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/base/random.h"

namespace gradstream {

enum class Fault : uint8_t {
  kLoss,               // a connection drops: what is on its way is lost
  kDuplicate,          // the frames of an update arrive twice
  kReorder,            // frames of one session arrive after some sent later in other sessions, also its successor
  kDelay,              // a frame takes a hundred times its usual time
  kSlow,               // a device computes twenty times slower for a task
  kDeviceCrash,        // between any two actions of a device, its storage stays
  kServerCrash,        // between any two actions of the server
  kCrashBeforeCommit,  // the server crashes with records on their way to the disk; they are lost
  kCrashAfterCommit,   // the server crashes with records on the disk that it does not know to be there
  kBitFlip,            // one bit of a device's model turns over between two exchanges
  kStorageFull,        // the disk takes nothing for a while
  kSilence,            // from now on nothing of one session arrives, in one direction or both, and nobody is told
  kPause,              // the operator pauses the run, and lets it go on some time later
  // Where devices let the server hold their Pulls (SimOptions::holds_pulls):
  kHeldCut,     // the connection of a device that is held drops
  kHeldTwice,   // a device that is held sends its Pull once more
  kSlowCommit,  // an update and the version that it closed become durable together
  kDrain,       // the server goes away in an orderly way, and comes back
};
inline constexpr size_t kFaultCount = 17;
inline constexpr uint32_t kHoldFaultBits =
    1U << static_cast<uint32_t>(Fault::kHeldCut) | 1U << static_cast<uint32_t>(Fault::kHeldTwice) |
    1U << static_cast<uint32_t>(Fault::kSlowCommit) | 1U << static_cast<uint32_t>(Fault::kDrain);
inline constexpr std::array<const char*, kFaultCount> kFaultNames = {"loss",
                                                                     "duplicate",
                                                                     "reorder",
                                                                     "delay",
                                                                     "slow",
                                                                     "device_crash",
                                                                     "server_crash",
                                                                     "crash_before_commit",
                                                                     "crash_after_commit",
                                                                     "bit_flip",
                                                                     "storage_full",
                                                                     "silence",
                                                                     "pause",
                                                                     "held_cut",
                                                                     "held_twice",
                                                                     "slow_commit",
                                                                     "drain"};

using FaultCounts = std::array<uint64_t, kFaultCount>;

// The dice of one schedule.
class Dice {
 public:
  Dice(uint32_t seed, uint32_t schedule) : stream_(key(seed, schedule)) {}
  // Uniform in [low, high].
  uint64_t between(uint64_t low, uint64_t high) {
    return low + ((static_cast<uint64_t>(stream_.next()) * (high - low + 1)) >> 32);
  }
  // True once in `odds` draws.
  bool one_in(uint32_t odds) { return between(1, odds) == 1; }

 private:
  static RandomKey key(uint32_t seed, uint32_t schedule) {
    RandomKey key;
    key.seed = seed;
    key.version = schedule;
    key.owner = 0x51d1ce;  // apart from the samples, which are drawn from the same domain
    return key;
  }
  RandomStream stream_;
};

// Which faults may still happen in a schedule, and how often each did.
class FaultChances {
 public:
  // bits: bit n: Fault n may happen. The dice must outlive this.
  FaultChances(uint32_t bits, Dice& dice) : bits_(bits), are_on_(bits != 0), dice_(dice) {}

  // True once in `odds`. Draws only for a fault that may happen, and does not count it: an occasion may yet be missing.
  bool may(Fault fault, uint32_t odds) {
    return are_on_ && (bits_ >> static_cast<uint32_t>(fault) & 1U) != 0 && dice_.one_in(odds);
  }
  void count(Fault fault) { ++counts_[static_cast<size_t>(fault)]; }
  // From now on none happens.
  void end() { are_on_ = false; }
  bool are_on() const { return are_on_; }
  const FaultCounts& counts() const { return counts_; }

 private:
  uint32_t bits_;
  bool are_on_;
  Dice& dice_;
  FaultCounts counts_ = {};
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_FAULTS_H_
