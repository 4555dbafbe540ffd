// The model that an operator lets a new run begin at, and the manifold that it should be on.
#ifndef GRADSTREAM_SERVER_RUN_FIRST_MODEL_H_
#define GRADSTREAM_SERVER_RUN_FIRST_MODEL_H_

#include <span>
#include <string>

#include "server/run/run_parameters.h"

namespace gradstream {

// Of a point x, or of a part of a product: |P(x) - x| / max(1, |x|), where P(x) is the nearest point of its manifold.
// Up to the first one x is on the manifold as far as the text of a file can say. Its bits stay: runs are replayed.
constexpr double kOnManifoldMax = 1e-6;
// Up to this one the nearest point is surely what was meant, such as a file of four digits. Beyond it the run would
// begin at another model than the operator's. A model that is off its manifold is worse: an estimate divides the
// difference of two losses by `smoothing`, and the first version would be ruined.
constexpr double kNearManifoldMax = 1e-3;

struct FirstModelVerdict {
  std::string problem;    // the model is refused: a sentence with the part, the distance, the limit and the remedy
  std::string projected;  // the parts that were moved, each with its distance; "": none was
};

// Moves each part that is near its manifold onto it, and leaves the bits of the others. The parameters have passed
// check_parameters(); the model has the size of their shape and is finite. After a refusal it is spoilt.
FirstModelVerdict settle_first_model(const RunParameters& parameters, std::span<Real> model);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_FIRST_MODEL_H_
