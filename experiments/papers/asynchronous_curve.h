// The control points of AsyncCurve in X14 (004, its second and third figure).
//
//   control/S/from-B/END/WAY     the test loss along the curve that the server would go, with the update's delay, from
//                                saved versions of a run of the method B. END: the rule of the curve's end, gradient
//                                (ortho_grad) or position (ortho_pos). WAY: where the control point belongs, none,
//                                translate, rotate (curve_control), or on the line
//   plane/EPOCHS/train|test      the loss over the plane of a curve that the device with most data has learned
#ifndef GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_CURVE_H_
#define GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_CURVE_H_

#include <memory>
#include <string>
#include <vector>

#include "experiments/harness/experiment.h"
#include "experiments/papers/asynchronous_fleet.h"
#include "experiments/papers/asynchronous_plan.h"
#include "experiments/workloads/data_network.h"

namespace gradstream {

// None where the plan has no time for them.
void add_async_controls(const AsyncPlan& plan, const std::shared_ptr<const NetworkWorkload>& network,
                        const AsyncBase& base, std::vector<Case>* cases);
void add_async_planes(const std::shared_ptr<const NetworkWorkload>& network, uint32_t seed, std::vector<Case>* cases);

// Experiment::write_more of X14: plane.csv (epochs,set,along,bend,loss) and plane.gp, where the curves have a plane.
bool write_async_planes(const std::string& folder, const Curves& curves);

// The claims of the report's second and third figure.
void judge_async_controls(const Curves& curves, Judgement* judgement);
void judge_async_planes(const Curves& curves, Judgement* judgement);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_CURVE_H_
