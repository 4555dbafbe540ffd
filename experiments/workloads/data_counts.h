// k-PCA where devices hold unequal numbers of samples, and where samples arrive during the run.
#ifndef GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_COUNTS_H_
#define GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_COUNTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "experiments/workloads/workload.h"

namespace gradstream {

// X1, uneven (001): as X1's problem, but device i holds N_i = 40 (i + 1) samples, 40 to 400. The cost is sum_i p_i f_i
// with p_i = N_i / N. Samples of device i are longer by sqrt(N_i / 80), so that f_i is as large as it is there.
std::unique_ptr<Workload> make_uneven(uint32_t seed);

// What devices hold at a time, and what is measured of it.
enum class Arrivals : uint8_t {
  kNone,    // all samples from the start
  kGrow,    // what has arrived
  kRing,    // the last kRingSize of what has arrived
  kFrozen,  // what was there at the start; measured is what has arrived
};
inline constexpr uint32_t kRingSize = 64;

// online: 8 devices, PCA on St(2, 16). Each begins with 20 samples, and in every round 0 to 4 more arrive, drawn by the
// seed, until there are 200. Their leading directions turn by 60 degrees from the first sample to the last.
class ArrivingPca : public Workload {
 public:
  static constexpr uint32_t kDeviceCount = 8;
  static constexpr uint32_t kFirstCount = 20;
  static constexpr uint32_t kLastCount = 200;

  ArrivingPca(Arrivals arrivals, uint32_t seed);
  ~ArrivingPca() override;

  ManifoldId manifold() const override { return ManifoldId::kStiefel; }
  Shape shape() const override;
  uint32_t device_count() const override { return kDeviceCount; }
  Problem problem(uint32_t device) const override;
  Matrix start() const override;
  double optimum() const override { return optimum_; }  // of all samples
  // The excess over the optimum of the data so far.
  Measures measure(const Matrix& model) const override;
  // Devices hold what they hold in this round; the rounds of a run come one after the other, from 0.
  void arrive(uint32_t round);

 private:
  struct Device;
  void look_at(const Device& device, Matrix* covariance) const;

  Arrivals arrivals_;
  uint32_t seed_;
  std::vector<std::unique_ptr<Device>> devices_;
  double optimum_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_COUNTS_H_
