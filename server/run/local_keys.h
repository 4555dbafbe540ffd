// Keys of local work: what a device does with its samples in one task.
#ifndef GRADSTREAM_SERVER_RUN_LOCAL_KEYS_H_
#define GRADSTREAM_SERVER_RUN_LOCAL_KEYS_H_

#include "runtime/base/config.h"
#include "server/base/objection.h"
#include "server/run/key.h"
#include "server/run/run_core.h"

namespace gradstream {

struct RunParameters;

struct LocalKeys : LocalCore {
  static constexpr const char* kTitle = "Local work";

  // B_t = min(batch_size + batch_growth t, batch_size_max), rounded down (000, Theorems 4.4 and 4.5).
  Real batch_growth = 0;
  uint32_t batch_size_max = 0;

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(Key{"solver", "", {}, "This algorithm makes the local steps (`docs/algorithms.md`)."}, keys.solver);
    visit(Key{"estimator", "", {}, "A local step finds its direction in this way."}, keys.estimator);
    visit(Key{"directions", "", {}, "Random directions have this distribution."}, keys.directions);
    visit(Key{"direction_count", "directions", from(1, kDirectionCountMax).only("estimators with directions"),
              "A local step evaluates this many directions (m)."},
          keys.direction_count);
    visit(Key{"group_count",
              "groups",
              {},
              "Devices share directions within this many groups; with 0 each device has its own."},
          keys.group_count);
    visit(Key{"local_step_count", "steps", from(1, kLocalStepCountMax), "A task has this many local steps (K)."},
          keys.local_step_count);
    visit(Key{"local_retraction",
              "",
              {},
              "Local steps return to the manifold by this map, where it differs from `retraction`."},
          keys.local_retraction);
    visit(Key{"smoothing", "", above(0).only("estimators with directions"),
              "A local step probes the loss at this distance along a direction, in the unit of the model."},
          keys.smoothing);
    visit(Key{"batch_mode", "", {}, "The evaluations of a local step use these samples."}, keys.batch_mode);
    visit(Key{"batch_size", "samples", from(1, kBatchSizeMax).only("`batch_mode` `common`"),
              "A minibatch has this many samples."},
          keys.batch_size);
    visit(Key{"batch_sizes",
              "",
              {},
              "The first local steps use these sizes in place of `batch_size`, with spaces between them; the last one "
              "holds on."},
          keys.batch_sizes);
    visit(Key{"correction_form", "", {}, "This form corrects the drift of local steps (`docs/algorithms.md`)."},
          keys.correction_form);
    visit(Key{"memory_age_max",
              "versions",
              {},
              "The memory drops the last update of a device after this many versions; with 0 it never does."},
          keys.memory_age_max);
    visit(Key{"proximal", "", from(0), "The proximal term has this weight, mu (RFedProx)."}, keys.proximal);
    visit(Key{"proximal_form",
              "",
              {},
              "The term measures its distance along the retraction (`geodesic`), or stands in the loss itself "
              "(`docs/algorithms.md`)."},
          keys.proximal_form);
    visit(Key{"proximal_sigma", "", above(0), "The form `lorentzian` has this sigma."}, keys.proximal_sigma);
    visit(Key{"barzilai_borwein", "", {}, "Solver `svrg` estimates the curvature by this form."},
          keys.barzilai_borwein);
    visit(Key{"iterate", "", {}, "Solver `svrg` sends this local iterate."}, keys.iterate);
    visit(Key{"curve_orthogonality", "", from(0, 1).only("solver `curve`"),
              "Solver `curve` takes this share of the displacement out of the way of the control point."},
          keys.curve_orthogonality);
    visit(
        Key{"batch_growth", "samples a round", from(0),
            "The minibatches of round k have `batch_growth` k more samples, rounded down; with 0 they stay as large."},
        keys.batch_growth);
    visit(Key{"batch_size_max", "samples", from(1, kBatchSizeMax).only("`batch_growth` above 0"),
              "Growing minibatches stop at this size. A device needs memory for it."},
          keys.batch_size_max);
  }
};

// Samples of a minibatch in this round, B_t: what its tasks carry.
uint32_t batch_size_at(const RunParameters& run, uint32_t round);

// Checks of check_parameters(), which has the order of all: an objection names the keys and the remedy.
Objection check_local_work(const RunParameters& run);
Objection check_batches(const RunParameters& run);
Objection check_proximal(const RunParameters& run);
// 002: all samples at every step, phases that wait for nobody of an older one.
Objection check_svrg(const RunParameters& run);
Objection check_groups(const RunParameters& run);
// A13: between Euclidean points, one update a version.
Objection check_curve(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_LOCAL_KEYS_H_
