// What an experiment trains on: every device's problem with its data, the start, and what is known about the optimum.
//
//   seed, folder --make_...()--> Workload --problem(i)--> device i
//                                        '--measure(x)--> excess, grad_norm: the watcher's, the server has no data
//
// Data, start and measures are made in double and in the order of the reference (docs/experiments.md), whatever Real
// is; only problem(i) hands them to the runtime as Real. All randomness is Philox (runtime/base/random.h): domain kData
// for data, kInitialPoint for the start; minibatches, directions and sampling are the runtime's own.
#ifndef GRADSTREAM_EXPERIMENTS_WORKLOADS_WORKLOAD_H_
#define GRADSTREAM_EXPERIMENTS_WORKLOADS_WORKLOAD_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <Eigen/Core>

#include "experiments/workloads/dense.h"
#include "runtime/base/config.h"
#include "runtime/base/random.h"
#include "runtime/base/shape.h"
#include "runtime/manifold/manifold.h"
#include "runtime/problem/problem.h"

namespace gradstream {

// Of one model.
struct Measures {
  double excess = 0;     // F(x) - F*
  double grad_norm = 0;  // |grad F(x)|_x
  // What else the experiment looks at: the largest principal angle, the distance to the truth, a share of errors.
  double other = std::numeric_limits<double>::quiet_NaN();
  // X6: the test error with weights fitted on the test rows, which is no honest figure (E12). X12: that of test images.
  double refitted = std::numeric_limits<double>::quiet_NaN();
  // 003's measure of optimality, of runs by projection: Workload::optimality() with the round's eta_g eta tau.
  double optimality = std::numeric_limits<double>::quiet_NaN();
};

class Workload {
 public:
  virtual ~Workload() = default;
  virtual ManifoldId manifold() const = 0;
  virtual Shape shape() const = 0;
  virtual uint32_t device_count() const = 0;
  // Of one device, by enrolment index. Its context lives as long as the workload.
  virtual Problem problem(uint32_t device) const = 0;
  // Version 0, rows x cols.
  virtual Matrix start() const = 0;
  // F(x*), or the least value known; 0 where the cost itself is measured. tolerance_of() goes by it.
  virtual double optimum() const = 0;
  // Of a model as published; a float model is taken to the manifold in double first, since its distance from it is
  // rounding and no part of the excess.
  virtual Measures measure(const Matrix& model) const = 0;
  // Whether grad_norm is among the measures; else it is no number, and a run goes on for as long as excess is one.
  virtual bool measures_gradient() const { return true; }
  // |X - P_M(X - step grad F(X))| / step (003, section 4), the gradient's norm as far as P_M is linear; not a number
  // where the workload has none. Model as for measure().
  virtual double optimality(const Matrix& /*model*/, double /*step*/) const {
    return std::numeric_limits<double>::quiet_NaN();
  }
};

// ---- Drawing as the reference does ------------------------------------------------------------------------------

// Standard normals in double, row by row.
Matrix normals(const RandomKey& key, Eigen::Index rows, Eigen::Index cols);
// m of n without replacement, as choose().
std::vector<uint32_t> chosen(const RandomKey& key, uint32_t n, uint32_t m);

// ---- Samples ----------------------------------------------------------------------------------------------------

// Rows of samples as a SampleSource of Reals. Not copyable: the source points into it.
struct StoredSamples {
  explicit StoredSamples(const Matrix& rows);
  StoredSamples(const StoredSamples&) = delete;
  StoredSamples& operator=(const StoredSamples&) = delete;
  std::vector<Real> values;
  SampleSource source;
};

// The bytes of a file, unpacked where it is gzipped; empty when it cannot be read.
std::string read_file(const std::string& path);

// ---- Tables -----------------------------------------------------------------------------------------------------

struct Table {
  Matrix samples;
  std::vector<double> labels;
};
// "iris", "wine", "breast_cancer" or "digits" of experiments/data. GS_ASSERT: the name is one of these and the file is
// whole, as it is in every checkout.
Table read_table(const std::string& name);
// Preparations: "raw", "center", "zscore" (population deviation; constant columns stay 0), "scale16" (divided by 16),
// "minmax", "rownorm" (rows of length 1), "zrownorm" (zscore, then the same), "colnorm" (columns of length 1),
// "zcolnorm" (centred, then the same).
Matrix prepare_table(const Matrix& samples, const std::string& preparation);

// ---- Workloads, each in data_<family>.cc ------------------------------------------------------------------------

// data_kpca.cc: f_i(x) = -1/(2 N_i) sum_j |z_j' x|^2 on Stiefel, or with one column on the sphere. A work that writes
// the cost without the half, or without 1/N_i, gets samples longer by the root of the factor. other: the largest
// principal angle to the leading eigenspace.
class KpcaWorkload : public Workload {
 public:
  // parts: the samples of each device, row by row. seed: of the start. unit: of the work's cost in that of the parts:
  // what is measured, and the optimum, are multiplied by it.
  KpcaWorkload(const std::vector<Matrix>& parts, ManifoldId manifold, uint32_t cols, uint32_t seed, double unit = 1);
  ~KpcaWorkload() override;

  ManifoldId manifold() const override { return manifold_; }
  Shape shape() const override { return shape_; }
  uint32_t device_count() const override { return static_cast<uint32_t>(sources_.size()); }
  Problem problem(uint32_t device) const override;
  Matrix start() const override;
  double optimum() const override { return unit_ * optimum_; }
  Measures measure(const Matrix& model) const override;
  double optimality(const Matrix& model, double step) const override;
  // Of the mean over devices of Z_i'Z_i / N_i of the parts, ascending.
  const Eigen::VectorXd& eigenvalues() const { return eigenvalues_; }

 private:
  // Riemannian, of the parts' cost at orthonormal x; inner: x'C x.
  Matrix gradient(const Matrix& x, Matrix* inner) const;

  ManifoldId manifold_;
  Shape shape_;
  uint32_t seed_;
  double unit_;
  std::vector<std::unique_ptr<StoredSamples>> sources_;
  Matrix covariance_;
  Eigen::VectorXd eigenvalues_;
  Matrix leading_;  // eigenvectors of the cols largest
  double optimum_ = 0;
};

// X1, X4: principal eigenvector on the sphere, 10 devices of 80 samples each with a spectrum of its own.
std::unique_ptr<KpcaWorkload> make_cpesph(uint32_t seed);
// d_zofl, bytes, memory, stragglers: "synth", "digits" or "iris" in device_count equal parts, by label or shuffled.
std::unique_ptr<KpcaWorkload> make_zofl(const std::string& data, bool is_sorted, uint32_t cols, uint32_t device_count,
                                        uint32_t seed);
// What its devices hold.
std::vector<Matrix> zofl_parts(const std::string& data, bool is_sorted, uint32_t device_count, uint32_t seed);
// X11: one device holds the table (of Digits the first 200).
std::unique_ptr<KpcaWorkload> make_single_table(const std::string& name, const std::string& preparation, uint32_t cols,
                                                uint32_t seed);
// X9: a table shuffled and cut into device_count parts as equal as can be; A_i = Z_i'Z_i without 1/N_i, so that devices
// weigh by what they hold. The devices have the samples divided by kTableUnit, a power of two, so that gradients and
// steps fit one fixed point; steps are to be multiplied by its square, and no bit of the path changes.
inline constexpr double kTableUnit = 16;
std::unique_ptr<KpcaWorkload> make_kpca_table(const std::string& name, const std::string& preparation, uint32_t seed);
// X8: PCA on the sphere S^599, 10^4 standard normal samples over device_count devices; A_i = Z_i'Z_i as printed, or
// divided by the samples of a device.
std::unique_ptr<KpcaWorkload> make_pca(uint32_t device_count, bool is_covariance, uint32_t seed);
// X10: 10^4 MNIST test images, raw grey values, 200 devices, which have them divided by kGreyUnit, as above. Null
// without mnist/ in the folder.
inline constexpr double kGreyUnit = 8192;
std::unique_ptr<KpcaWorkload> make_mnist_kpca(const std::string& folder, uint32_t seed);

// memory: six devices of 20 samples in R^8, each with a strong direction of its own; St(8, 2). size: of the samples.
std::unique_ptr<KpcaWorkload> make_own_directions(double size, uint32_t seed);

// data_brockett.cc, X3 and X4: MBCFSti, 20 devices of 50 symmetric 25 x 25 matrices, St(2, 25).
std::unique_ptr<Workload> make_brockett(uint32_t seed);
// data_spd.cc. X2, X4: CFMSPD, 10 devices of 60 2 x 2 matrices. X7: Karcher mean of 10 matrices 20 x 20, one a device.
std::unique_ptr<Workload> make_cfmspd(uint32_t seed);
std::unique_ptr<Workload> make_karcher(uint32_t seed);
// The largest condition number of those.
double karcher_condition(uint32_t seed);
// data_multitask.cc. X5: synthetic, Gr(5, 100); other: distance to the truth. X6: School, Gr(cols, 28), null without
// school.csv.gz in the folder; other: the test NMSE with w fitted on training data, refitted: with w fitted on the test
// data.
std::unique_ptr<Workload> make_multitask(uint32_t seed);
std::unique_ptr<Workload> make_school(const std::string& folder, uint32_t cols, uint32_t seed);
// data_hyperbolic.cc, X16: WordNet mammals, 9 devices of 131 points, null without wordnet/ in the folder.
std::unique_ptr<Workload> make_wordnet(const std::string& folder);
// The probabilities of the devices in the authors' run; empty without the folder.
std::vector<double> read_wordnet_participation(const std::string& folder);
// data_agents.cc, X15: how MNIST's test images are dealt to 60 devices. The number is that of label pieces a device:
// equal pieces of the images sorted by label, shuffled and dealt.
enum class AgentSplit : uint8_t {
  kAlike = 0,       // all images shuffled
  kHalfSorted = 1,  // half of a device's images in the order of labels, so that its labels go with its index
  kHeavy = 4,       // the authors' heavy case
  kSlight = 8,      // the authors' slight case
};
// Null without mnist/ in the folder.
std::unique_ptr<KpcaWorkload> make_mnist_agents(const std::string& folder, AgentSplit split, uint32_t seed);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_WORKLOADS_WORKLOAD_H_
