// Keys of local work: what a device does with its samples in one task.
#ifndef GRADSTREAM_SERVER_RUN_LOCAL_KEYS_H_
#define GRADSTREAM_SERVER_RUN_LOCAL_KEYS_H_

#include <cstdint>
#include <string>

#include "runtime/base/config.h"
#include "runtime/manifold/manifold.h"
#include "runtime/manifold/proximal_form.h"
#include "runtime/training/secant.h"
#include "runtime/training/task.h"
#include "server/base/objection.h"
#include "server/run/choices.h"
#include "server/run/key.h"

namespace gradstream {

struct RunParameters;

struct LocalKeys {
  static constexpr const char* kTitle = "Local work";

  SolverId solver = SolverId::kProjection;
  EstimatorId estimator = EstimatorId::kProjectionOneSided;
  DirectionKind directions = DirectionKind::kSign;
  uint32_t direction_count = 16;  // m
  // 0: own directions, drawn by enrolment index; else shared within groups, group = client_index % group_count
  uint32_t group_count = 1;
  uint32_t local_step_count = 5;                               // K
  RetractionKind local_retraction = RetractionKind::kDefault;  // of local steps; kDefault: that of the model
  Real smoothing = static_cast<Real>(1e-2);
  BatchMode batch_mode = BatchMode::kCommon;
  uint32_t batch_size = 32;
  // Minibatch of each local step, numbers with spaces between them, at most kBatchScheduleMax; the last one holds for
  // the steps after it. Empty: batch_size for all.
  std::string batch_sizes;
  CorrectionForm correction_form = CorrectionForm::kLocal;
  uint32_t memory_age_max = 0;                           // versions after which an update is taken out of h; 0: never
  Real proximal = 0;                                     // mu of the proximal term, 0: none
  ProximalForm proximal_form = ProximalForm::kGeodesic;  // kGeodesic: RFedProx; else a term of the devices' loss
  Real proximal_sigma = 1;                               // of ProximalForm::kLorentz
  BarzilaiBorwein barzilai_borwein = BarzilaiBorwein::kNone;  // solver svrg
  Iterate iterate = Iterate::kLast;                           // solver svrg
  // Solver curve: gamma, the share of the displacement that is taken out of the control point's way.
  Real curve_orthogonality = 1;

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
  }
};

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
