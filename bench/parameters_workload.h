// The tables that `./run bench parameters` trains on, cut over devices, and what is exact about each of them.
//
// Values and optima are made in double by Eigen. Only problem() hands samples to the runtime, as Real.
#ifndef GRADSTREAM_BENCH_PARAMETERS_WORKLOAD_H_
#define GRADSTREAM_BENCH_PARAMETERS_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/workloads/dense.h"
#include "experiments/workloads/workload.h"
#include "runtime/base/config.h"
#include "runtime/base/shape.h"
#include "runtime/problem/problem.h"

namespace gradstream {

// What devices hold of a table.
enum class TableForm : uint8_t {
  kRaw,       // the values as they were measured
  kCommon,    // less the mean of each column, then divided by one number: the total variance is 1
  kStandard,  // less the mean of each column, then divided by its deviation; constant columns stay as they are
  kDigits,    // the demo's: divided by 16, less the mean of each column
};

struct WorkloadRow {
  const char* name;
  const char* problem;  // kpca, least_squares or logistic
  const char* table;    // of experiments/data, or "pumps"
  TableForm form = TableForm::kRaw;
  uint32_t cols = 1;  // of the model
  uint32_t device_count = 6;
  bool is_shuffled = false;   // else sorted by label, or by the first column where there is no label
  const char* manifold = "";  // empty: the default of a configuration
  bool is_kpca() const;
};

std::span<const WorkloadRow> parameter_workloads();

// One table over its devices.
class ParameterWorkload {
 public:
  // seed: of the shuffle, and of the pumps' draws. takes_units_out: the run centres and scales by itself, so losses and
  // optimum are those of the table after that.
  ParameterWorkload(const WorkloadRow& row, uint32_t seed, bool takes_units_out);

  const WorkloadRow& table_row() const { return table_row_; }
  Shape shape() const { return shape_; }
  // Of one device, by enrolment index. Its context lives as long as the workload.
  Problem problem(uint32_t device) const;
  // F: the mean loss over all samples of the fleet at a model of shape().size() values. On a compact manifold the model
  // is taken to the manifold in double first, since its distance from it is rounding.
  double loss(std::span<const Real> model) const;
  // F*: the least loss. The eigenvalues say it (kpca), the normal equations (least_squares), Newton's steps down to a
  // decrease of 1e-10 (logistic).
  double optimum() const { return optimum_; }
  // (F - F*) / |F*| of kpca, else (F - F*) / (F0 - F*) with F0 = start_loss.
  double gap(double loss, double start_loss) const;
  // 0.2 / L, L the largest eigenvalue of the inputs' covariance about 0; logistic: ten times that.
  double step_unit() const { return step_unit_; }

 private:
  void find_optimum();
  void find_logistic_optimum();
  double loss_of(const Matrix& model) const;
  double logistic_loss(const Matrix& model, Matrix* chances) const;

  WorkloadRow table_row_;
  Shape shape_;
  std::vector<std::unique_ptr<StoredSamples>> sources_;
  Matrix inputs_;                 // as the loss sees them, one sample a row
  Matrix targets_;                // least_squares
  std::vector<uint32_t> labels_;  // logistic
  Matrix covariance_;             // of the inputs, about 0
  double optimum_ = 0;
  double step_unit_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_PARAMETERS_WORKLOAD_H_
