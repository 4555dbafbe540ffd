// What figures 3 to 5 of 002 show besides the norm of the gradient, of X9's runs: the principal angle by rounds, and
// the samples in the components that a run found.
//
//   samples D0 (N x columns), last model x (columns x 3)  -->  D = D0 x (N x 3), equation (55)
//
// A run's columns span the leading eigenvectors and are not these: it is free to turn them. What is judged does not
// change when they turn.
#ifndef GRADSTREAM_EXPERIMENTS_PAPERS_SVRG_COMPONENTS_H_
#define GRADSTREAM_EXPERIMENTS_PAPERS_SVRG_COMPONENTS_H_

#include <string>
#include <vector>

#include "experiments/harness/experiment.h"

namespace gradstream {

// How far classes lie apart.
struct ClassSeparation {
  double ratio = 0;  // scatter of the classes' means over the scatter within classes: traces, classes by their size
  double share = 0;  // of the samples that are nearest to the mean of their own class
};
// points: a sample a row. labels: whole numbers from 0 on, one a row; each class has a sample.
ClassSeparation class_separation(const Matrix& points, const std::vector<double>& labels);

// Criteria: in the components of a run that converges the classes lie as far apart as in those of exact principal
// component analysis. Claims: the classes lie apart. `curves` has every case of X9.
void judge_components(const Curves& curves, Judgement* judgement);

// Writes to the folder components.csv (case,class,first,second,third), angle.csv (case,round,angle), and scripts for
// gnuplot that draw them. False: they cannot be written. `curves` may lack cases, which are then left out.
bool write_angles_and_components(const std::string& folder, const Curves& curves);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_PAPERS_SVRG_COMPONENTS_H_
