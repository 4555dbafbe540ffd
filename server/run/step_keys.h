// Keys of step sizes: the local step of each round, and the step of the server.
#ifndef GRADSTREAM_SERVER_RUN_STEP_KEYS_H_
#define GRADSTREAM_SERVER_RUN_STEP_KEYS_H_

#include "server/base/objection.h"
#include "server/run/key.h"
#include "server/run/run_core.h"

namespace gradstream {

struct RunParameters;

struct StepKeys : StepCore {
  static constexpr const char* kTitle = "Steps";

  // Rounds of one cycle of the server's step, which begins at server_step and ends at server_step_low; 0: no cycles.
  uint32_t server_step_cycle = 0;
  Real server_step_low = 0;

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(Key{"step_rule", "", {}, "This rule makes the step size of each round (`docs/algorithms.md`, Steps)."},
          keys.step_rule);
    visit(Key{"step_size", "", above(0),
              "The first round takes this step size; with `auto` the server finds the step of every round.", "auto"},
          keys.step_size);
    visit(Key{"step_decay", "", from(0), "Rule `inverse` divides the step size of round k by 1 + `step_decay` k."},
          keys.step_decay);
    visit(Key{"step_offset", "", from(0), "The rules `printed`, `code` and `harmonic` divide by this beta or gamma."},
          keys.step_offset);
    visit(Key{"step_period", "rounds", from(1), "One stage of the rules `printed` and `code` has this many rounds."},
          keys.step_period);
    visit(
        Key{"step_min", "", above(0).only("rule `barzilai_borwein`"), "Rule `barzilai_borwein` takes no smaller step."},
        keys.step_min);
    visit(
        Key{"step_max", "", above(0).only("rule `barzilai_borwein`"), "Rule `barzilai_borwein` takes no larger step."},
        keys.step_max);
    visit(Key{"server_step", "", above(0), "The server multiplies its step by this factor."}, keys.server_step);
    visit(Key{"server_step_cycle",
              "rounds",
              {},
              "In every so many rounds the factor falls from `server_step` to `server_step_low`; 0 means it stays."},
          keys.server_step_cycle);
    visit(Key{"server_step_low", "", above(0).only("a `server_step_cycle`"),
              "The last round of a cycle has this factor."},
          keys.server_step_low);
  }
};

// Lines of a version that change the step of a run with step_size "auto", where so many devices are asked
// (server/rules/step_rule.h). Reason: of two either may be an outlier.
inline constexpr uint32_t kLineCountMin = 3;

// eta_g, the server's factor in a round from 0 on (004, Algorithm 1, eta(tau)). In round j of a cycle of C rounds it is
// server_step - (server_step - server_step_low) j / (C - 1).
Real server_step_at(const RunParameters& run, uint32_t round);

// Checks of check_parameters(), which has the order of all: an objection names the keys and the remedy.
Objection check_steps(const RunParameters& run);
Objection check_cycle(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_STEP_KEYS_H_
