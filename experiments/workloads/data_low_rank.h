// A network of low rank on MNIST by forward passes: what X13 trains (003, section 5.3; docs/algorithms.md, E32 to E34).
//
//   images --in an order drawn from the seed--> 250 a device --LowRankWorkload(form, rank, n)--> the first n devices
//
// The perceptron has widths 196, 32, 32, 10. Its first two weight matrices have the rank; the rest is free.
#ifndef GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_LOW_RANK_H_
#define GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_LOW_RANK_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "experiments/workloads/workload.h"

namespace gradstream {

inline constexpr std::array<uint16_t, 4> kLowRankWidths = {196, 32, 32, 10};
inline constexpr uint32_t kLowRankLayerCount = 2;  // those of the rank, from the first one on
inline constexpr uint32_t kLowRankDeviceSamples = 250;
inline constexpr uint32_t kLowRankDeviceMax = 30;  // the most devices of a case

enum class LowRankForm : uint8_t {
  kDense,     // the perceptron's own 7,690 numbers; P_M truncates both matrices by their singular values
  kFactored,  // U, V, S of both matrices in their place; P_M orthonormalises U and V and leaves U S V' as it is
  kFull,      // no constraint
};

// Inputs and label, a row an image.
struct LowRankImages {
  Matrix train;  // in the file's order
  Matrix test;
};
// MNIST's 10,000 test images, the means of 2 x 2 pixels / 255: 8,000 to train, 2,000 to test. Null without mnist/ in
// the folder, or where a file of it is cut.
std::unique_ptr<LowRankImages> read_low_rank_images(const std::string& folder);

// What the cases of a seed share: each device's samples, and the test samples. Not copyable: sources point into it.
struct LowRankSamples {
  // device_count * kLowRankDeviceSamples is at most the training images.
  LowRankSamples(const LowRankImages& images, uint32_t device_count, uint32_t seed);
  LowRankSamples(const LowRankSamples&) = delete;
  LowRankSamples& operator=(const LowRankSamples&) = delete;
  std::vector<std::unique_ptr<StoredSamples>> stored;
  std::vector<NetworkData> data;  // of each device, then the test samples
};

// Numbers of a point: 7,690, or of the factors.
uint32_t low_rank_size(LowRankForm form, uint32_t rank);

// Measures: excess is the loss over all training samples of the devices (optimum 0), other the share of test samples
// that are named right. No gradient.
class LowRankWorkload : public Workload {
 public:
  // rank: of the constrained matrices, 1 .. 32; the dense form has 2, 8 and 16. kFull takes the width, 32.
  LowRankWorkload(LowRankForm form, uint32_t rank, uint32_t device_count, std::shared_ptr<const LowRankSamples> samples,
                  uint32_t seed);
  LowRankWorkload(const LowRankWorkload&) = delete;
  LowRankWorkload& operator=(const LowRankWorkload&) = delete;

  // As a run's parameters name it: a column of numbers. The set is set().
  ManifoldId manifold() const override { return ManifoldId::kEuclidean; }
  Shape shape() const override { return {low_rank_size(form_, rank_), 1, nullptr}; }
  uint32_t device_count() const override { return device_count_; }
  Problem problem(uint32_t device) const override;
  Matrix start() const override;
  double optimum() const override { return 0; }
  bool measures_gradient() const override { return false; }
  Measures measure(const Matrix& model) const override;

  // The set that points are projected to, and the parts of its points, null where it has none. They live as long as the
  // workload. Its tables name no manifold of the wire but in the factored form.
  const ManifoldOps& set() const;
  const Parts* set_parts() const { return form_ == LowRankForm::kFactored ? &parts_ : nullptr; }

 private:
  LowRankForm form_;
  uint32_t rank_;
  uint32_t device_count_;
  uint32_t seed_;
  std::shared_ptr<const LowRankSamples> samples_;
  std::array<Parts, kLowRankLayerCount> factors_;
  Parts parts_;
  // The problem's context: the samples and where the factors stand.
  struct FactoredData {
    const NetworkData* network = nullptr;
    const LowRankWorkload* workload = nullptr;
  };
  std::vector<FactoredData> factored_;

  struct Factored;  // the functions of kFactoredOps
  static const ProblemOps kFactoredOps;
};

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_LOW_RANK_H_
