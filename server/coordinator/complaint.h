// What a stall's cause says of devices that can give nothing as they are, and what it proposes: sentences and numbers.
#ifndef GRADSTREAM_SERVER_COORDINATOR_COMPLAINT_H_
#define GRADSTREAM_SERVER_COORDINATOR_COMPLAINT_H_

#include <cstdint>
#include <span>
#include <string>

#include "server/coordinator/fleet.h"
#include "server/coordinator/stall.h"
#include "server/run/run_parameters.h"

namespace gradstream {

// The devices that can give nothing for one and the same reason, or that lack the same.
struct BlockedGroup {
  bool lacks_something = false;  // the image does; else it is `reason`
  gs_Reason reason = gs_Reason_REASON_NONE;
  uint32_t device_count = 0;
  uint32_t asked_count = 0;  // in the open version
  std::string names;         // a NameList
  std::string lacks;         // of each of them
  std::string first_name;    // whose complaint it is
  Complaint complaint;       // the worst one
};
StallCause stall_cause(const RunParameters& parameters, const BlockedGroup& group);
// Causes that a stall tells. Reason: with their devices and remedies they stay one line of a log that people read.
inline constexpr size_t kStallCausesMax = 4;
// Of several groups, the largest first: its cause, and behind its text and remedy those of the others.
StallCause stall_causes(const RunParameters& parameters, std::span<const BlockedGroup> groups);
// What to do about devices that lack this: at their end, or by a key of the run.
std::string capability_remedy(const std::string& lacks);

// An update beyond the fold's range. factor: the largest power of two, or a number near it, by which its values must be
// multiplied to be taken, below 1.
struct RangeFault {
  std::span<const Real> values;  // as decoded
  double factor = 0;
  uint32_t steps_done = 0;
  bool is_gradient = false;  // the values are a sum of gradients, one a step
  double loss_before = 0;
  double loss_after = 0;
  double model_norm = 0;  // Frobenius norm of the model that the device began at
};
// The value, the limit, and what would do. Where the values grow from step to step the step is too long. Else the loss
// has a larger unit than the run expects, which is measured: the curvature L is at least |g|^2 / (2 |f|), and where the
// manifold is bounded 2 |f| / |x|^2. The step is then 0.2 / L (docs/algorithms.md).
Complaint range_complaint(const RunParameters& parameters, const RangeFault& fault);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_COMPLAINT_H_
