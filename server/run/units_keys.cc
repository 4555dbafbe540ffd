#include "server/run/units_keys.h"

#include <string>
#include <string_view>

#include "server/run/run_core.h"
#include "server/run/run_parameters.h"

namespace gradstream {
namespace {

// The columns that have units, of the problems that have some. The server links no problem: it knows them by name.
enum class Columns : uint8_t {
  kRows,         // all, as many as the model has rows
  kRowsAndCols,  // features and targets
  kFeatures,     // all but the label, as many as the model has rows
  kUnknown,      // all but the label; their number stands in a network or in the parts of the model
};
struct ProblemColumns {
  std::string_view problem;
  Columns columns;
};
constexpr ProblemColumns kProblems[] = {{"kpca", Columns::kRows},         {"least_squares", Columns::kRowsAndCols},
                                        {"logistic", Columns::kFeatures}, {"perceptron", Columns::kUnknown},
                                        {"lenet", Columns::kUnknown},     {kNetworkProblemName, Columns::kUnknown}};

const ProblemColumns* columns_of(const RunParameters& p) {
  for (const ProblemColumns& known : kProblems) {
    if (known.problem == p.model->problem) {
      return &known;
    }
  }
  return nullptr;
}

}  // namespace

Objection check_units(const RunParameters& p) {
  if (units_bits(p) == 0 || columns_of(p) != nullptr) {
    return {};
  }
  std::string names;
  for (const ProblemColumns& known : kProblems) {
    names += (names.empty() ? "" : ", ") + std::string(known.problem);
  }
  return "centre, scale, problem: the samples of problem \"" + p.model->problem +
         "\" have no columns that the server knows; set both to none, or use one of " + names;
}

uint32_t units_bits(const RunParameters& p) {
  const UnitsKeys& keys = p.units.keys();
  return (keys.centre == Centre::kFederated ? kUnitsMeanBit : 0) |
         (keys.scale != UnitScale::kNone ? kUnitsFactorBit : 0) |
         (keys.scale == UnitScale::kRange ? kUnitsRangeBit : 0);
}

bool has_labels(const RunParameters& p) {
  const ProblemColumns* const known = columns_of(p);
  return known != nullptr && known->columns != Columns::kRows;
}

uint32_t units_column_count(const RunParameters& p) {
  const ProblemColumns* const known = columns_of(p);
  if (known == nullptr || known->columns == Columns::kUnknown) {
    return 0;
  }
  return known->columns == Columns::kRowsAndCols ? p.model->shape.rows + p.model->shape.cols : p.model->shape.rows;
}

}  // namespace gradstream
