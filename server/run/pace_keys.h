// Keys of pace steering: when devices that have answered come back (server/run/pace.h).
#ifndef GRADSTREAM_SERVER_RUN_PACE_KEYS_H_
#define GRADSTREAM_SERVER_RUN_PACE_KEYS_H_

#include <cstdint>
#include <string>

#include "server/base/objection.h"
#include "server/run/key.h"
#include "server/run/limits.h"

namespace gradstream {

struct RunParameters;

struct PaceKeys {
  static constexpr const char* kTitle = "Pace";

  uint32_t retry_min_ms = 200;
  uint32_t retry_max_ms = 1000;
  uint32_t arrival_rate = 0;  // devices a second, at most, that windows are made wide enough for; 0: as given

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(Key{"retry_min_ms", "ms", from(0, kRunRetryMaxMs),
              "A device that has answered asks again after this time at the earliest."},
          keys.retry_min_ms);
    visit(Key{"retry_max_ms", "ms", from(1, kRunRetryMaxMs),
              "A device that has answered asks again after this time at the latest."},
          keys.retry_max_ms);
    visit(Key{"arrival_rate",
              "devices/s",
              {},
              "The windows become so wide that the fleet stays below this rate; 0 leaves them as given."},
          keys.arrival_rate);
  }
};

// A check of check_parameters(), which has the order of all: an objection names the keys and the remedy.
Objection check_retry(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_PACE_KEYS_H_
