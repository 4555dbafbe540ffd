// Keys of asynchronous steps: what the server makes of single tangents that were made at older models
// (server/rules/delay_correction.h). alpha = server_step by staleness.
#ifndef GRADSTREAM_SERVER_RUN_DELAY_KEYS_H_
#define GRADSTREAM_SERVER_RUN_DELAY_KEYS_H_

#include "server/base/enum_names.h"
#include "server/base/objection.h"
#include "server/run/key.h"
#include "server/run/run_core.h"

namespace gradstream {

struct RunParameters;

// Where a server has the control point of a device's curve beside the model of now (004, its third figure).
enum class CurveControl : uint8_t {
  kNone,       // where the device had it
  kTranslate,  // moved by what the model has moved since the task's version
  kRotate,     // moved between the ends of the server's step, its bend turned with the displacement
};
template <>
inline constexpr auto kEnumNames<CurveControl> = std::to_array<EnumName<CurveControl>>(
    {{"none", CurveControl::kNone}, {"translate", CurveControl::kTranslate}, {"rotate", CurveControl::kRotate}});

struct DelayKeys : DelayCore {
  static constexpr const char* kTitle = "Asynchronous steps";

  CurveControl curve_control = CurveControl::kRotate;
  // OrthoCorrect's alpha and theta (004), of the rule ortho_grad.
  Real ortho_alpha = 0;
  Real ortho_theta = 0;

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(Key{"delay_rule",
              "",
              {},
              "An asynchronous run makes its step by this rule from an update of an older version."},
          keys.delay_rule);
    visit(Key{"late_delay_rule", "", {}, "This rule takes over after the switch; `none` keeps the first one."},
          keys.late_delay_rule);
    visit(Key{"delay_switch_by",
              "",
              {},
              "The run switches by its version, or by a statistic of its updates (`docs/algorithms.md`)."},
          keys.delay_switch_by);
    visit(Key{"delay_switch",
              "versions",
              {},
              "The run switches at this version; by a statistic it switches there at the earliest."},
          keys.delay_switch);
    visit(
        Key{"delay_switch_at", "", {}, "The run switches when the moving mean of the statistic is down at this value."},
        keys.delay_switch_at);
    visit(Key{"delay_lambda", "", above(0).only("a `delay_rule`"), "The `dc_` rules have this strength."},
          keys.delay_lambda);
    visit(Key{"dominance_penalty", "", {}, "A device that answers often counts less each time."},
          keys.dominance_penalty);
    visit(Key{"server_momentum", "", from_below(0, 1).only("a `delay_rule`"),
              "The next step of the server takes this share of its last direction along."},
          keys.server_momentum);
    visit(Key{"curve_control", "", {}, "Solver `curve`: the server corrects the control point for the delay this way."},
          keys.curve_control);
    visit(Key{"ortho_alpha",
              "",
              {},
              "The rule `ortho_grad` goes this share of the way to a device's own point where there is no conflict."},
          keys.ortho_alpha);
    visit(Key{"ortho_theta", "", from(-1, 1).only("rule `ortho_grad`"),
              "The rule `ortho_grad` sees a conflict where the cosine of update and drift is at most this."},
          keys.ortho_theta);
  }
};

// Checks of check_parameters(), which has the order of all: an objection names the keys and the remedy.
Objection check_delay_rule(const RunParameters& run);
Objection check_delay_switch(const RunParameters& run);
Objection check_ortho(const RunParameters& run);
// The last check of all: which rule serves a run is only defined where the others pass.
Objection check_kept_models(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_DELAY_KEYS_H_
