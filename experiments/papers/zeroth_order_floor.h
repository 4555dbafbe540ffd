// What noise leaves of 003's algorithm, for the experiment d_zofl:
//
//   floor/nN/mM/tauT/repR/...  one sample a direction, the same whole step eta_g eta tau for all: its main theorem says
//                              that the floor goes as 1 / (n tau m)
//   root/nN/egG/repR/...       eta_g = 1 beside the root of n, at the same local step
//   noise/sS/muMU/repR/...     noise of deviation S in each loss, smoothing MU: 003's "only noisy function evaluations"
//
// Each is run with kFloorSeedCount seeds, all in one run of the experiment.
#ifndef GRADSTREAM_EXPERIMENTS_PAPERS_ZEROTH_ORDER_FLOOR_H_
#define GRADSTREAM_EXPERIMENTS_PAPERS_ZEROTH_ORDER_FLOOR_H_

#include <string>
#include <vector>

#include "experiments/harness/experiment.h"

namespace gradstream {

void add_floor_cases(uint32_t seed, std::vector<Case>* cases);
void judge_floors(const Curves& curves, uint32_t seed, Judgement* judgement);

// Experiment::write_more of d_zofl: floor.csv (what,n,m,tau,eta_g,floor,average,last), noise.csv
// (noise,smoothing,floor,theory), and a script for gnuplot of each, of the cases that are there.
bool write_floors(const std::string& folder, const Curves& curves);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_PAPERS_ZEROTH_ORDER_FLOOR_H_
