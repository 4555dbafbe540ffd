// The report's formulas (004) of a server's step and of a late curve, in Euclidean space and in double. They are
// written a second time, from docs/algorithms.md and not from server/rules, so that a fault of the product's rules
// shows.
#ifndef GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_FORMULAS_H_
#define GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_FORMULAS_H_

#include <string>
#include <vector>

#include "experiments/papers/asynchronous_fleet.h"
#include "server/run/run_parameters.h"

namespace gradstream {

using FormulaValues = std::vector<double>;

// The model after the run's step by the update of `at`, without versions before it: no moments and no velocity. One of
// the rules of kAsyncRules, dc_adaptive with its limit.
FormulaValues step_by_formula(const RunParameters& parameters, const AsyncStep& at);

// Where the server has the control point, by the key's word; "line": in the middle of the ends. end: C^.
FormulaValues control_by_formula(const std::string& way, const AsyncStep& at, const FormulaValues& end);

// (1 - l)^2 from + 2 l (1 - l) control + l^2 to.
FormulaValues curve_by_formula(double l, const FormulaValues& from, const FormulaValues& control,
                               const FormulaValues& to);

FormulaValues formula_values(const AsyncValues& values);

// Throws std::runtime_error where `own` is farther from the formula's point than rounding leaves, by the distance of
// that point from `from`. what: of the message.
void expect_formula(const std::string& what, const AsyncValues& own, const FormulaValues& wanted,
                    const FormulaValues& from);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_FORMULAS_H_
