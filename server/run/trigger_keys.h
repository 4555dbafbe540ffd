// Keys of rounds: when a version closes, what a late or partial answer is worth, and how long a device may work. They
// are the four independent choices of the straggler policy (docs/wire.md).
#ifndef GRADSTREAM_SERVER_RUN_TRIGGER_KEYS_H_
#define GRADSTREAM_SERVER_RUN_TRIGGER_KEYS_H_

#include "runtime/base/config.h"
#include "server/base/objection.h"
#include "server/run/key.h"
#include "server/run/limits.h"
#include "server/run/run_core.h"

namespace gradstream {

struct RunParameters;

struct TriggerKeys : TriggerCore {
  static constexpr const char* kTitle = "Rounds and late answers";

  // Of the norm of the mean gradient, by the manifold's metric at the model; 0: the run does not stop by it.
  Real stop_gradient_norm = 0;
  // N: update_goal "all" waits for devices that were seen in the last N versions; 0: for all that are enrolled.
  uint32_t seen_versions = 0;
  // Of the last device_share_window versions of a run without rounds; 1: no device has a limit.
  float device_share_max = 1;
  uint32_t device_share_window = 32;

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(Key{"round_count", "rounds", from(1, kRoundCountMax),
              "The run is finished after this many rounds, each of two versions with solver `svrg`."},
          keys.round_count);
    visit(Key{"device_count", "devices", from(1, kFoldUpdateCountMax),
              "Version 0 waits until this many devices are enrolled."},
          keys.device_count);
    visit(Key{"buffer_size",
              "updates",
              {},
              "A version of an asynchronous run has this many accepted updates, late ones too (B); 0 means rounds."},
          keys.buffer_size);
    visit(Key{"update_goal", "answers", {}, "This many answers close a round (k); 0 or `\"all\"` means every device."},
          keys.update_goal);
    visit(Key{"report_deadline_ms", "ms", from(1),
              "A round that is open for this long may close with fewer answers (T)."},
          keys.report_deadline_ms);
    visit(Key{"update_min",
              "answers",
              {},
              "This many answers close a round at the deadline (q); 0 means as many as `update_goal`."},
          keys.update_min);
    visit(Key{"extension_count_max",
              "extensions",
              {},
              "The server extends a round this many times by T before the run stalls."},
          keys.extension_count_max);
    visit(Key{"late", "", {}, "An update of an older version is dropped, or weighs less."}, keys.late);
    visit(Key{"staleness_table",
              "",
              {},
              "This table has the weight of a late update, by how many versions it is behind."},
          keys.staleness_table);
    visit(Key{"staleness_exponent", "", above(0, kStalenessExponentMax).only("`late` `weight`"),
              "Table `polynomial` has this exponent, and table `hinge` this slope."},
          keys.staleness_exponent);
    visit(Key{"staleness_hinge", "versions", {}, "Table `hinge` keeps the full weight for this many versions."},
          keys.staleness_hinge);
    visit(Key{"staleness_max", "versions", from(1, kStalenessMax).only("`late` `weight`"),
              "The server refuses an update that is more versions behind."},
          keys.staleness_max);
    visit(Key{"steps_min", "steps", {}, "An update needs at least this many local steps; 0 means all of them."},
          keys.steps_min);
    visit(Key{"task_deadline_ms", "ms", {}, "A device sends what it has when its task is this old; 0 means never."},
          keys.task_deadline_ms);
    visit(
        Key{"work", "", {}, "A task asks every device for K local steps, or each for as many as its step time allows."},
        keys.work);
    visit(Key{"step_time_min_us",
              "us",
              {},
              "The fastest device takes this long for a local step, and a faster update is refused (`no_time`); 0 "
              "means unknown."},
          keys.step_time_min_us);
    visit(Key{"step_time_max_us",
              "us",
              {},
              "The slowest device takes this long for a local step, and a deadline it cannot meet is refused; 0 means "
              "unknown."},
          keys.step_time_max_us);
    visit(
        Key{"stop_gradient_norm", "", from(0).only("solver `svrg`"),
            "The run is finished earlier, at the first model whose mean gradient is at most this long; 0 means never."},
        keys.stop_gradient_norm);
    visit_trust(keys, visit);
  }

  // Of whom a version waits for, and what share one device has.
  template <typename Keys, typename Visit>
  static void visit_trust(Keys& keys, Visit& visit) {
    visit(Key{"seen_versions", "versions", from(0, kSeenVersionsMax),
              "A round with `update_goal` `\"all\"` waits for the devices that were heard in the last so many versions "
              "(`docs/how-to/slow_devices.md`); 0 means for all that are enrolled."},
          keys.seen_versions);
    visit(Key{"device_share_max", "", above(0, 1),
              "A run without rounds takes at most this share of the updates of its last versions from one device "
              "(`docs/how-to/slow_devices.md`); 1 means no limit."},
          keys.device_share_max);
    visit(Key{"device_share_window", "versions", from(1, kShareVersionsMax),
              "`device_share_max` is a share of the updates of so many versions."},
          keys.device_share_window);
  }
};

// Checks of check_parameters(), which has the order of all: an objection names the keys and the remedy.
Objection check_straggler(const RunParameters& run);
Objection check_timed_work(const RunParameters& run);
Objection check_buffer(const RunParameters& run);
Objection check_stop(const RunParameters& run);
Objection check_attendance(const RunParameters& run);
Objection check_device_share(const RunParameters& run);

// Versions whose updates are counted by device; 0: the run limits no device's share.
uint32_t share_versions(const RunParameters& run);
// Updates of them that one device may give, where the limit binds.
uint32_t share_limit(const RunParameters& run);
// Whether it binds with so many devices: no share below 1 / device_count can be kept by all, and with just that many
// devices the slowest one would set the pace of all.
bool limits_shares(const RunParameters& run, uint32_t device_count);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_TRIGGER_KEYS_H_
