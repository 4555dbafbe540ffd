// X15: the principal eigenvector of MNIST over 60 devices, as in the authors' published code: f(x) = -1/N sum |z'x|^2
// on the sphere, pixels standardised by the set's mean and deviation, devices alike or with few classes each.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/workloads/workload.h"

namespace gradstream {
namespace {

constexpr uint32_t kDeviceCount = 60;
constexpr uint32_t kImageCount = 10000;
constexpr Eigen::Index kPixelCount = 784;
constexpr size_t kImageHeaderSize = 16;
constexpr size_t kLabelHeaderSize = 8;

// The order in which devices take images, and the number that each takes. Alike: a shuffle. Else: images sorted by
// label are cut into equal pieces, the pieces are shuffled, and each device gets pieces_per_device of them.
struct Deal {
  std::vector<uint32_t> order;
  uint32_t share = 0;
};

Deal deal_images(const std::string& labels, uint32_t pieces_per_device, uint32_t seed) {
  if (pieces_per_device == 0) {
    return {chosen({seed, RandomDomain::kData, 0, 0, 0}, kImageCount, kImageCount), kImageCount / kDeviceCount};
  }
  std::vector<uint32_t> sorted(kImageCount);
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](uint32_t a, uint32_t b) { return labels[kLabelHeaderSize + a] < labels[kLabelHeaderSize + b]; });
  const uint32_t piece_count = kDeviceCount * pieces_per_device;
  const uint32_t piece_size = kImageCount / piece_count;
  Deal deal{{}, piece_size * pieces_per_device};
  for (const uint32_t piece : chosen({seed, RandomDomain::kData, 1, 0, 0}, piece_count, piece_count)) {
    const auto first = sorted.begin() + piece * piece_size;
    deal.order.insert(deal.order.end(), first, first + piece_size);
  }
  return deal;
}

}  // namespace

std::unique_ptr<KpcaWorkload> make_mnist_agents(const std::string& folder, uint32_t pieces_per_device, uint32_t seed) {
  constexpr double kMean = 0.1307;
  constexpr double kDeviation = 0.3081;
  const std::string images = read_file(folder + "/mnist/t10k-images-idx3-ubyte.gz");
  const std::string labels = read_file(folder + "/mnist/t10k-labels-idx1-ubyte.gz");
  if (images.size() != kImageHeaderSize + size_t{kImageCount} * kPixelCount ||
      labels.size() != kLabelHeaderSize + kImageCount) {
    return nullptr;
  }
  const Deal deal = deal_images(labels, pieces_per_device, seed);
  std::vector<Matrix> parts;
  for (uint32_t device = 0; device < kDeviceCount; ++device) {
    Matrix part(deal.share, kPixelCount);
    for (uint32_t row = 0; row < deal.share; ++row) {
      const char* pixels =
          images.data() + kImageHeaderSize + size_t{deal.order[device * deal.share + row]} * kPixelCount;
      for (Eigen::Index c = 0; c < kPixelCount; ++c) {
        part(row, c) = (static_cast<uint8_t>(pixels[c]) / 255.0 - kMean) / kDeviation;
      }
    }
    parts.push_back(std::sqrt(2.0) * part);  // the work's cost has no half
  }
  return std::make_unique<KpcaWorkload>(parts, ManifoldId::kSphere, 1, seed);
}

}  // namespace gradstream
