// Keys of participation: who is asked in a round, and what an answer is divided by (server/run/participation.h).
#ifndef GRADSTREAM_SERVER_RUN_PARTICIPATION_KEYS_H_
#define GRADSTREAM_SERVER_RUN_PARTICIPATION_KEYS_H_

#include "server/base/objection.h"
#include "server/run/key.h"
#include "server/run/run_core.h"

namespace gradstream {

struct RunParameters;

struct ParticipationKeys : ParticipationCore {
  static constexpr const char* kTitle = "Participation";

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(Key{"participation",
              "",
              {},
              "A round asks all devices, a number of them, or each by its chance (`docs/algorithms.md`)."},
          keys.participation);
    visit(Key{"cohort_size", "devices", from(1).only("`scheme_1`"),
              "Scheme `scheme_1` wants the answers of this many devices in a round."},
          keys.cohort_size);
    visit(Key{"over_selection", "", from(1),
              "Scheme `scheme_1` asks this many times `cohort_size`, and the first `cohort_size` answers close the "
              "round."},
          keys.over_selection);
    visit(Key{"participation_probability",
              "",
              {},
              "Scheme `scheme_2` asks each device with its chance, by enrolment index and with spaces between; the "
              "last one holds on."},
          keys.participation_probability);
    visit(Key{"participation_weights",
              "",
              {},
              "Scheme `scheme_2` divides an answer by its counted share, by the true chance, or not at all."},
          keys.participation_weights);
  }
};

// Checks of check_parameters(), which has the order of all: an objection names the keys and the remedy.
Objection check_participation(const RunParameters& run);
Objection check_over_selection(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_PARTICIPATION_KEYS_H_
