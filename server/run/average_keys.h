// Keys of the average of versions (server/rules/model_average.h).
#ifndef GRADSTREAM_SERVER_RUN_AVERAGE_KEYS_H_
#define GRADSTREAM_SERVER_RUN_AVERAGE_KEYS_H_

#include <cstdint>
#include <string>

#include "server/base/objection.h"
#include "server/run/key.h"

namespace gradstream {

struct RunParameters;

struct AverageKeys {
  static constexpr const char* kTitle = "Average of versions";

  uint32_t average_period = 0;   // c: every so many versions one goes into it; 0: none
  uint32_t average_from = 0;     // the first version that may
  uint32_t average_restart = 0;  // C: every so many versions the run goes on from the average; 0: never

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(Key{"average_period", "versions", {}, "One of this many versions goes into an average (SWA); 0 means none."},
          keys.average_period);
    visit(Key{"average_from", "versions", {}, "This is the first version that may go into the average."},
          keys.average_from);
    visit(Key{"average_restart",
              "versions",
              {},
              "The run goes on from the average every so many versions (periodic SWA); 0 means never."},
          keys.average_restart);
  }
};

// A check of check_parameters(), which has the order of all: an objection names the keys and the remedy.
Objection check_average(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_AVERAGE_KEYS_H_
