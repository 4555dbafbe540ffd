// A universal attack on a frozen network by forward passes alone (003, section 5.2): what X12 trains.
//
//   image z + eps x  ->  frozen network of CIFAR-10  ->  scores s;  F(x; b) = mean_b max(s_deer - max of the others, 0)
//
// One disturbance x, on the unit sphere of R^3072, is to make the network miss the deer of all images. The images are
// those deer that the network knows. Values of an image stand as in the files: red, green and blue plane, row by row.
#ifndef GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_ATTACK_H_
#define GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_ATTACK_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "experiments/workloads/workload.h"

namespace gradstream {

inline constexpr uint32_t kImageSide = 32;
inline constexpr uint32_t kImageSize = 3 * kImageSide * kImageSide;
inline constexpr uint32_t kImageClassCount = 10;
inline constexpr uint32_t kDeerClass = 4;
// eps: the 2-norm of the disturbance, in pixels from 0 to 1.
inline constexpr double kAttackRadius = 1;
// Images that a model is measured on: the first of the order.
inline constexpr uint32_t kMeasuredImageCount = 1000;

// The network of experiments/data/x12_cnn12_f16.bin. Three convolutions 3 x 3 of stride 2 (12, 24 and 32 maps, a border
// of zeros, max(0, .)) and a dense layer. Its input is pixels / 255 - 1/2. Weights stand so that a loop over the
// outputs reads them in order.
struct AttackNetwork {
  std::vector<Real> convolutions[3];  // (kernel row, kernel column, input, output)
  std::vector<Real> biases[3];
  std::vector<Real> dense;  // (row, column, map, class), the classes padded with zeros to whole vectors
  std::vector<Real> dense_biases;
};
// GS_ASSERT: the file is whole, as it is in every checkout.
AttackNetwork read_attack_network();
// The classes' scores of kImageSize pixels from 0 to 1.
std::array<Real, kImageClassCount> attack_scores(const AttackNetwork& network, const Real* pixels);

// The network and the images that the cases of one seed share. Of each image the first convolution is kept, which is
// linear: that of the image and that of the disturbance are added.
struct AttackImages {
  uint32_t seed = 0;
  AttackNetwork network;
  uint32_t count = 0;       // deer to train on, in the order of the seed
  std::vector<Real> first;  // (image, row, column, map), before max(0, .)
  uint32_t test_count = 0;  // deer that no device holds
  std::vector<Real> test_first;
};
// Of two files of CIFAR-10's binary form: records of a label, then kImageSize bytes. An image counts if it is a deer,
// and the network says so. Null: a file does not consist of such records, or no image counts.
std::shared_ptr<const AttackImages> select_attack_images(const std::string& train, const std::string& test,
                                                         uint32_t seed);
// Of cifar10/ in the folder. Null without it, or where a file is damaged.
std::shared_ptr<const AttackImages> read_attack_images(const std::string& folder, uint32_t seed);

// A deer that the network knows, and what a disturbance makes of it. Pixels from 0 to 1, those of `attacked` beyond
// too, as the network gets them.
struct AttackedDeer {
  std::vector<Real> original;  // kImageSize
  std::vector<Real> attacked;  // kImageSize: original + eps x
  uint32_t attacked_class = 0;
};
// Every deer of the records that the network knows, in their order, disturbed by eps x; x has kImageSize entries.
std::vector<AttackedDeer> attack_deer(const std::string& records, const Matrix& x);
// The same of the test images of cifar10/ in the folder, which no device holds. Empty without them.
std::vector<AttackedDeer> read_attacked_deer(const std::string& folder, const Matrix& x);
// "airplane" and so on, 0 .. kImageClassCount - 1.
const char* image_class_name(uint32_t image_class);

// X12: the images dealt to device_count devices in equal parts. Measures: excess is the loss on the first
// kMeasuredImageCount images of the order (optimum 0), other the share of these that are misclassified, refitted that
// of the test deer. excess is no number, which ends a run, where |x| is not 1 to 1e-6.
std::unique_ptr<Workload> make_attack(const std::shared_ptr<const AttackImages>& images, uint32_t device_count);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_WORKLOADS_DATA_ATTACK_H_
