// The forms of the correction of 003 when devices are absent, do a part of their work or are late: where each ends,
// with exact gradients and with zeroth-order estimates, and on Digits through the coordinator.
#include <array>
#include <cmath>

#include "experiments/harness/experiment.h"
#include "experiments/harness/form_fleet.h"
#include "server/run/names.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr bool kIsDouble = sizeof(Real) == sizeof(double);
constexpr std::array<CorrectionForm, 4> kForms = {CorrectionForm::kNone, CorrectionForm::kLocal,
                                                  CorrectionForm::kMemory, CorrectionForm::kUnbiased};

// Who takes part.
struct Row {
  const char* name = nullptr;
  const char* title = nullptr;
  Schedule schedule;
  uint32_t round_count = 0;
  bool has_zeroth_order = false;
};

const std::array<Row, 6>& rows() {
  static const std::vector<double> kUnequal = {.9, .7, .5, .3, .2, .1};
  static const std::array<Row, 6> kRows = {
      {{"all", "everyone", {}, 1200, true},
       {"3of6", "3 of 6", {3, {}, false, 0}, 1200, true},
       {"1of6", "1 of 6", {1, {}, false, 0}, 2400, false},
       {"unequal", "with probabilities .9, .7, .5, .3, .2, .1", {6, kUnequal, false, 0}, 2400, true},
       {"partial", "3 of 6, each with 1 to 5 steps", {3, {}, true, 0}, 1200, false},
       {"late", "the same, up to 4 versions late", {3, {}, true, 4}, 1200, false}}};
  return kRows;
}

std::string row_key(bool is_exact, const Row& row, CorrectionForm form) {
  return std::string(is_exact ? "exact/" : "zeroth/") + row.name + "/" + name_of(form);
}

// Scalars of the memory are whole numbers, exact in either precision: in double there are only the rows whose last
// digits it shows.
bool is_run(bool is_exact, const Row& row) { return is_exact || (row.has_zeroth_order && !kIsDouble); }

// What both kinds of case have in common: K = 5 steps of solver projection.
RunParameters form_parameters(CorrectionForm form, double step_size, uint32_t round_count) {
  RunParameters p = gradient_stream_parameters(5, step_size, round_count);
  p.local->solver = SolverId::kProjection;
  p.local->estimator = EstimatorId::kProjectionOneSided;
  p.local->correction_form = form;
  p.local->smoothing = static_cast<Real>(1e-2);
  if (!kIsDouble || p.has_memory()) {
    p.fold->fold_scale_log2 =
        26;  // in double the others keep the finest unit: a coarser one adds up in the authors' c_i
  }
  if (p.has_memory()) {
    p.wire->record_encoding = Encoding::kF32;  // whole numbers of 4 bytes
  }
  return p;
}

Case row_case(bool is_exact, const Row& row, CorrectionForm form, const std::shared_ptr<const Workload>& workload) {
  Case out;
  out.key = row_key(is_exact, row, form);
  out.workload = workload;
  out.parameters = form_parameters(form, 0.02, is_exact ? row.round_count : 600);
  out.parameters.local->direction_count = 8;
  if (is_exact) {
    out.parameters.local->estimator = EstimatorId::kAnalyticGradient;
  }
  if (row.schedule.has_partial_work) {
    out.parameters.trigger->steps_min = 1;
  }
  out.train = [schedule = row.schedule](const RunParameters& parameters, const Workload& held,
                                        const Case::Watcher& watch) {
    FormFleet(parameters, held).run(schedule, watch);
  };
  return out;
}

// As the authors of 003 run the correction: in the server's step, and none for a device that was absent.
std::string authors_key(const Row& row) { return std::string("exact/") + row.name + "/authors"; }

Case authors_case(const Row& row, const std::shared_ptr<const Workload>& workload) {
  Case out = row_case(true, row, CorrectionForm::kLocal, workload);
  out.key = authors_key(row);
  out.train = [schedule = row.schedule](const RunParameters& parameters, const Workload& held,
                                        const Case::Watcher& watch) {
    Schedule theirs = schedule;
    theirs.has_authors_correction = true;
    FormFleet(parameters, held).run(theirs, watch);
  };
  return out;
}

constexpr uint32_t kDigitsDevices = 9;
constexpr uint32_t kDigitsRounds = 300;

std::string digits_key(uint32_t cohort_size, CorrectionForm form) {
  return "digits/" + std::to_string(cohort_size) + "of9/" + name_of(form);
}

std::vector<Case> memory_cases(const Request& request) {
  std::vector<Case> cases;
  const std::shared_ptr<const Workload> workload = make_own_directions(1, request.seed);
  for (const bool is_exact : {true, false}) {
    for (const Row& row : rows()) {
      for (const CorrectionForm form : kForms) {
        if (is_run(is_exact, row)) {
          cases.push_back(row_case(is_exact, row, form, workload));
        }
      }
    }
  }
  for (const Row& row : rows()) {
    if (row.schedule.late_max == 0) {  // a late update's correction is of another version
      cases.push_back(authors_case(row, workload));
    }
  }
  if (kIsDouble) {
    return cases;
  }
  const std::shared_ptr<const KpcaWorkload> digits = make_zofl("digits", true, 4, kDigitsDevices, request.seed);
  const double largest = digits->eigenvalues()(digits->eigenvalues().size() - 1);
  for (const uint32_t cohort_size : {9U, 5U, 2U}) {
    for (const CorrectionForm form : kForms) {
      Case& one = cases.emplace_back();
      one.key = digits_key(cohort_size, form);
      one.workload = digits;
      one.parameters = form_parameters(form, 0.2 / largest, kDigitsRounds);
      one.parameters.fold->fold_scale_log2 = 24;
      if (cohort_size < kDigitsDevices) {
        one.parameters.cohort->participation = Participation::kSchemeOne;
        one.parameters.cohort->cohort_size = cohort_size;
      }
    }
  }
  return cases;
}

double last_gap(const Curves& curves, const std::string& key) {
  const Curve& curve = curves.at(key);
  return curve.points.empty() ? std::nan("") : curve.points.back().measures.excess;
}

// At its last round, or on its way, which is longer where eigenvalues are close: ten times lower in the last quarter
// (seed 3 in double: a hundred times, by a straight line). At a wrong fixed point the gap stays.
// below: what rounding leaves.
bool comes_to_zero(const Curve& curve, double below) {
  constexpr double kNear = 1e-6;
  if (curve.points.empty()) {
    return false;
  }
  const CurvePoint& last = curve.points.back();
  const double gap = std::fabs(last.measures.excess);
  const double before = std::fabs(curve.at(last.round - last.round / 4).measures.excess);
  return gap < below || (gap < kNear && gap < before / 10);
}

template <typename KeyOf>
void note_row(const Curves& curves, const std::string& title, const KeyOf& key_of, Judgement* judgement) {
  std::string line = "| " + title + " |";
  for (const CorrectionForm form : kForms) {
    line += " " + figure(last_gap(curves, key_of(form))) + " |";
  }
  judgement->note(line);
}

void note_tables(const Curves& curves, Judgement* judgement) {
  judgement->note("gap at the last round of each form of the correction");
  for (const bool is_exact : {true, false}) {
    if (kIsDouble && !is_exact) {
      return;
    }
    judgement->note(std::string(is_exact ? "| exact gradients |" : "| zeroth order, m = 8 |") +
                    " none | local | memory | unbiased |");
    judgement->note("|---|---|---|---|---|");
    for (const Row& row : rows()) {
      if (is_run(is_exact, row)) {
        note_row(
            curves, row.title, [&](CorrectionForm form) { return row_key(is_exact, row, form); }, judgement);
      }
    }
  }
  for (const uint32_t cohort_size : {9U, 5U, 2U}) {
    note_row(
        curves, "Digits, zeroth order, m = 16, " + std::to_string(cohort_size) + " of 9",
        [&](CorrectionForm form) { return digits_key(cohort_size, form); }, judgement);
  }
}

void memory_judge(const Curves& curves, const Request&, Judgement* judgement) {
  const double zero = kIsDouble ? 1e-12 : 1e-6;  // float: the rounding of the model
  for (const Row& row : rows()) {
    for (const CorrectionForm form : {CorrectionForm::kMemory, CorrectionForm::kUnbiased}) {
      const std::string key = row_key(true, row, form);
      judgement->check(std::string("exact gradients, ") + row.title + ": " + name_of(form) +
                           " comes to the solution: gap " + figure(last_gap(curves, key)),
                       comes_to_zero(curves.at(key), zero));
    }
    const bool is_full = &row == &rows().front();
    const double local = last_gap(curves, row_key(true, row, CorrectionForm::kLocal));
    const double none = last_gap(curves, row_key(true, row, CorrectionForm::kNone));
    if (is_full) {
      judgement->check("exact gradients, everyone: local does too: gap " + figure(local), std::fabs(local) < zero);
      const double authors = last_gap(curves, authors_key(row));
      judgement->check("and as the authors run it: gap " + figure(authors), std::fabs(authors) < zero);
    } else {
      judgement->claim(
          std::string("exact gradients, ") + row.title + ": only the memory has the right fixed point",
          local > 1e-5 && none > 1e-5,
          "gap at the last round: none " + figure(none) + ", local " + figure(local) +
              (row.schedule.late_max == 0 ? ", as the authors run it " + figure(last_gap(curves, authors_key(row)))
                                          : std::string()) +
              ", memory " + figure(last_gap(curves, row_key(true, row, CorrectionForm::kMemory))) + ", unbiased " +
              figure(last_gap(curves, row_key(true, row, CorrectionForm::kUnbiased))));
    }
  }
  if (!kIsDouble) {
    const auto digits = [&](uint32_t cohort_size, CorrectionForm form) {
      return last_gap(curves, digits_key(cohort_size, form));
    };
    judgement->claim("with noisy estimates and a part of the devices the memory is no better than local",
                     digits(5, CorrectionForm::kMemory) > 0.8 * digits(5, CorrectionForm::kLocal),
                     "Digits, 5 of 9, gap at round 300: none " + figure(digits(5, CorrectionForm::kNone)) + ", local " +
                         figure(digits(5, CorrectionForm::kLocal)) + ", memory " +
                         figure(digits(5, CorrectionForm::kMemory)) + ", unbiased " +
                         figure(digits(5, CorrectionForm::kUnbiased)));
  }
  note_tables(curves, judgement);
}

}  // namespace

const Experiment kMemory = {"memory",      "Forms of the correction when devices are absent, partial or late",
                            memory_cases,  memory_judge,
                            nullptr,       "excess",
                            "exact/3of6/*"};

}  // namespace gradstream
