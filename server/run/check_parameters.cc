#include "server/run/check_parameters.h"

namespace gradstream {

std::string check_parameters(const RunParameters& p) {
  for (const auto check : {check_work, check_model, check_policy}) {
    if (std::string sentence = check(p); !sentence.empty()) {
      return sentence;
    }
  }
  return "";
}

std::string check_new_run(const RunParameters& p) {
  std::string sentence = check_parameters(p);
  if (!sentence.empty()) {
    return sentence;
  }
  if (p.problem == kNetworkProblemName && p.network.empty()) {
    return "network, problem: the problem \"network\" needs the network that is trained; name its file in network, and "
           "`gradstream network show FILE` prints the keys";
  }
  // While one device works each of the others makes a version, even where all are of one speed. With a larger buffer
  // many devices may be away at any time, so that advice() warns instead.
  if (p.buffer_size == 1 && p.staleness_max < p.device_count - 1) {
    return "staleness_max, device_count, buffer_size: with a version for every update each of " +
           std::to_string(p.device_count) + " devices of one speed is " + std::to_string(p.device_count - 1) +
           " versions behind, and beyond staleness_max = " + std::to_string(p.staleness_max) +
           " an update is refused; raise staleness_max (at most " + std::to_string(kStalenessMax) + ") or buffer_size";
  }
  return "";
}

}  // namespace gradstream
