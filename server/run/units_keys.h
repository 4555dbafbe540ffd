// Keys of the units that a run takes out of its devices' samples before it trains (docs/wire.md, section 14).
#ifndef GRADSTREAM_SERVER_RUN_UNITS_KEYS_H_
#define GRADSTREAM_SERVER_RUN_UNITS_KEYS_H_

#include <cstdint>

#include "runtime/base/config.h"
#include "server/base/objection.h"
#include "server/run/choices.h"
#include "server/run/key.h"

namespace gradstream {

struct RunParameters;

struct UnitsKeys {
  static constexpr const char* kTitle = "Units";

  Centre centre = Centre::kNone;
  UnitScale scale = UnitScale::kNone;
  uint32_t samples_min = 0;

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(Key{"centre",
              "",
              {},
              "With `federated` the devices subtract the mean that each column has over the whole fleet."},
          keys.centre);
    visit(Key{"scale",
              "",
              {},
              "The devices multiply all columns by one factor, or each by one over its deviation or its range."},
          keys.scale);
    visit(Key{"samples_min", "samples", from(0, kSampleCountMax),
              "A device that holds fewer samples gets no task, and the log names it."},
          keys.samples_min);
  }
};

// A check of check_parameters(), which has the order of all: an objection names the keys and the remedy.
Objection check_units(const RunParameters& run);

// Welcome.units: bit 0, devices subtract a mean; bit 1, they multiply by a factor; bit 2, the sums come with the least
// and the largest value. 0: the run takes no units out.
uint32_t units_bits(const RunParameters& run);
inline constexpr uint32_t kUnitsMeanBit = 1;
inline constexpr uint32_t kUnitsFactorBit = 2;
inline constexpr uint32_t kUnitsRangeBit = 4;

// Whether the samples of the run's problem end with a label or with targets. A column of ones is then an intercept,
// which must stay as it is.
bool has_labels(const RunParameters& run);
// Columns that have units, as the problem and the model's shape say. 0: the devices' answers say.
uint32_t units_column_count(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_UNITS_KEYS_H_
