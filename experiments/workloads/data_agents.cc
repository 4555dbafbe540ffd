// X15: the principal eigenvector of MNIST over 60 devices, as in the authors' published code: f(x) = -1/N sum |z'x|^2
// on the sphere, pixels divided by 255, devices alike or with few classes each.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "experiments/workloads/workload.h"

namespace gradstream {
namespace {

constexpr uint32_t kDeviceCount = 60;
constexpr uint32_t kImageCount = 10000;
constexpr Eigen::Index kPixelCount = 784;
constexpr size_t kImageHeaderSize = 16;
constexpr size_t kLabelHeaderSize = 8;

// The order in which devices take images, and the number that each takes.
struct Deal {
  std::vector<uint32_t> order;
  uint32_t share = 0;
};

RandomKey deal_key(uint32_t seed, uint32_t version) { return {seed, RandomDomain::kData, version, 0, 0}; }

// By label; images of one label stay in their order.
void sort_by_label(const std::string& labels, std::span<uint32_t> images) {
  std::stable_sort(images.begin(), images.end(),
                   [&](uint32_t a, uint32_t b) { return labels[kLabelHeaderSize + a] < labels[kLabelHeaderSize + b]; });
}

// Sorted images are cut into equal pieces, the pieces are shuffled, and each device gets pieces_per_device of them.
Deal deal_pieces(const std::string& labels, uint32_t pieces_per_device, uint32_t seed) {
  std::vector<uint32_t> sorted(kImageCount);
  std::iota(sorted.begin(), sorted.end(), 0);
  sort_by_label(labels, sorted);
  const uint32_t piece_count = kDeviceCount * pieces_per_device;
  const uint32_t piece_size = kImageCount / piece_count;
  Deal deal{{}, piece_size * pieces_per_device};
  for (const uint32_t piece : chosen(deal_key(seed, 1), piece_count, piece_count)) {
    const auto first = sorted.begin() + piece * piece_size;
    deal.order.insert(deal.order.end(), first, first + piece_size);
  }
  return deal;
}

// Half of the shuffled images are sorted and dealt in turn, so that a device's label grows with its index. The other
// half of a device's images comes as it was shuffled.
Deal deal_halves(const std::string& labels, const std::vector<uint32_t>& shuffled) {
  const uint32_t share = kImageCount / kDeviceCount;
  const uint32_t half = share / 2;
  std::vector<uint32_t> sorted(shuffled.begin(), shuffled.begin() + kDeviceCount * half);
  sort_by_label(labels, sorted);
  Deal deal{{}, share};
  for (uint32_t device = 0; device < kDeviceCount; ++device) {
    const auto first = sorted.begin() + device * half;
    const auto second = shuffled.begin() + kDeviceCount * half + device * (share - half);
    deal.order.insert(deal.order.end(), first, first + half);
    deal.order.insert(deal.order.end(), second, second + (share - half));
  }
  return deal;
}

Deal deal_images(const std::string& labels, AgentSplit split, uint32_t seed) {
  if (split == AgentSplit::kSlight || split == AgentSplit::kHeavy) {
    return deal_pieces(labels, static_cast<uint32_t>(split), seed);
  }
  const std::vector<uint32_t> shuffled = chosen(deal_key(seed, 0), kImageCount, kImageCount);
  return split == AgentSplit::kHalfSorted ? deal_halves(labels, shuffled) : Deal{shuffled, kImageCount / kDeviceCount};
}

}  // namespace

std::unique_ptr<KpcaWorkload> make_mnist_agents(const std::string& folder, AgentSplit split, uint32_t seed) {
  constexpr double kWhite = 255;
  const std::string images = read_file(folder + "/mnist/t10k-images-idx3-ubyte.gz");
  const std::string labels = read_file(folder + "/mnist/t10k-labels-idx1-ubyte.gz");
  if (images.size() != kImageHeaderSize + size_t{kImageCount} * kPixelCount ||
      labels.size() != kLabelHeaderSize + kImageCount) {
    return nullptr;
  }
  const Deal deal = deal_images(labels, split, seed);
  std::vector<Matrix> parts;
  for (uint32_t device = 0; device < kDeviceCount; ++device) {
    Matrix part(deal.share, kPixelCount);
    for (uint32_t row = 0; row < deal.share; ++row) {
      const char* pixels =
          images.data() + kImageHeaderSize + size_t{deal.order[device * deal.share + row]} * kPixelCount;
      for (Eigen::Index c = 0; c < kPixelCount; ++c) {
        part(row, c) = static_cast<uint8_t>(pixels[c]) / kWhite;
      }
    }
    parts.push_back(std::sqrt(2.0) * part);  // the work's cost has no half
  }
  return std::make_unique<KpcaWorkload>(parts, ManifoldId::kSphere, 1, seed);
}

}  // namespace gradstream
