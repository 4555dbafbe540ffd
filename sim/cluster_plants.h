// Faults of a simulated cluster's own, to see that the simulator finds them, and by which sentence it has to.
//
// A plant that any sentence finds would hide a check that has gone blind, or a second fault. So each plant names its
// sentences, and another one is a failure of its own.
#ifndef GRADSTREAM_SIM_CLUSTER_PLANTS_H_
#define GRADSTREAM_SIM_CLUSTER_PLANTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gradstream {

enum class ClusterPlant : uint8_t {
  kNone,
  kAckBeforeCommit,  // as FrontPlant, the first five
  kNoCutCheck,
  kNoResolve,
  kOtherSum,
  kOwnClock,
  kStaleTerm,      // a leader publishes when its term is over
  kAsyncFailover,  // the standby lacks what was committed last
};
inline constexpr size_t kClusterPlantCount = 8;
inline constexpr std::array<const char*, kClusterPlantCount> kClusterPlantNames = {
    "none",      "ack_before_commit", "no_cut_check", "no_resolve",
    "other_sum", "own_clock",         "stale_term",   "async_failover"};

// Whether the sentence is one of those that have to find the plant. None has to find kNone.
bool is_finding(ClusterPlant plant, std::string_view sentence);

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_CLUSTER_PLANTS_H_
