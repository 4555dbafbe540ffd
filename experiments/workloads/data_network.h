// Networks over devices that hold ever more samples: what X14 trains.
#ifndef GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_NETWORK_H_
#define GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_NETWORK_H_

#include <memory>
#include <string>
#include <vector>

#include "experiments/workloads/workload.h"

namespace gradstream {

// Euclidean. Measures: excess is the loss over the test samples (optimum 0), grad_norm that of its gradient; of lenet
// none, which would take most of an experiment's time.
class NetworkWorkload : public Workload {
 public:
  // parts: of each device, then the test samples; a row is the inputs and the label. widths: as NetworkData. unit: the
  // start is normals times it (perceptron), or He's for each layer (lenet). probability_floor: the measured loss of a
  // sample is -log(p + floor), p what the network gives its class; 0: the loss that devices train.
  NetworkWorkload(const ProblemOps& ops, std::vector<uint16_t> widths, const std::vector<Matrix>& parts, uint32_t seed,
                  double probability_floor = 0);

  ManifoldId manifold() const override { return ManifoldId::kEuclidean; }
  Shape shape() const override { return shape_; }
  uint32_t device_count() const override { return static_cast<uint32_t>(samples_.size()) - 1; }
  Problem problem(uint32_t device) const override { return {ops_, &data_[device]}; }
  uint32_t sample_count(uint32_t device) const { return data_[device].source.count; }
  Matrix start() const override;
  double optimum() const override { return 0; }
  bool measures_gradient() const override { return widths_.size() > 1; }
  Measures measure(const Matrix& model) const override;

 private:
  const ProblemOps* ops_;
  std::vector<uint16_t> widths_;
  Shape shape_;
  uint32_t seed_;
  double probability_floor_;
  std::vector<std::unique_ptr<StoredSamples>> samples_;
  std::vector<NetworkData> data_;  // the test samples last
};

inline constexpr uint32_t kNetworkDeviceCount = 8;

// Which samples of the shuffled training data stand beside each other when they are dealt to the devices.
enum class DigitsSplit : uint8_t {
  kShuffled,
  kHalfSorted,  // the first half sorted by label; eighths of it in turn with eighths of the rest
  kSorted,      // all sorted by label
};

// Digits, values / 16, shuffled (domain kData of seed 1, as the reference): 360 test samples, the rest over 8 devices
// in proportion to 1 .. 8; perceptron 64, 32, 10; the start is normals times 0.2.
std::unique_ptr<NetworkWorkload> make_digits_network(uint32_t seed, DigitsSplit split = DigitsSplit::kShuffled,
                                                     double probability_floor = 0);
// MNIST's 10,000 test images, grey values / 255, shuffled: 1,000 to test, 9,000 over 8 devices as above; lenet.
// Null without mnist/ in the folder.
std::unique_ptr<NetworkWorkload> make_mnist_network(const std::string& folder, uint32_t seed);
// FEMNIST by its writers: the first 36 of femnist/*.json in the folder (experiments/workloads/data_femnist.h), one to
// the first device, two to the second, ..., eight to the last; every fifth sample of a writer to test; lenet with 62
// classes. Null without these files, or where one is bad or they have fewer writers: *fault says so, empty without
// files.
std::unique_ptr<NetworkWorkload> make_femnist_network(const std::string& folder, uint32_t seed, std::string* fault);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_NETWORK_H_
