// The forward pass takes nearly all time of X12, so it is written for it: values of a volume stand pixel after pixel
// with the maps of each side by side, and a loop over the outputs is one over vectors of the processor.
#include "experiments/workloads/data_attack.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace gradstream {
namespace {

constexpr uint32_t kMaps[] = {3, 12, 24, 32};          // of the input, and of each convolution
constexpr uint32_t kSides[] = {kImageSide, 16, 8, 4};  // of the same
constexpr uint32_t kFirstSize = kSides[1] * kSides[1] * kMaps[1];
constexpr uint32_t kSecondSize = kSides[2] * kSides[2] * kMaps[2];
constexpr uint32_t kThirdSize = kSides[3] * kSides[3] * kMaps[3];
constexpr uint32_t kPaddedClassCount = 12;
constexpr size_t kRecordSize = 1 + kImageSize;
constexpr double kNormError = 1e-6;  // of a float's rounding, ten times

// ---- The network ----

// The number of the 16 bits of a half-precision float; no infinity stands in the file.
float half_of(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000U) << 16U;
  const uint32_t exponent = bits >> 10U & 0x1fU;
  const uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {
    return std::ldexp(static_cast<float>(fraction), -24) * (sign != 0 ? -1.0F : 1.0F);
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23U | fraction << 13U);
}

// Takes numbers one after the other.
class NumberReader {
 public:
  explicit NumberReader(const std::string& bytes) : bytes_(bytes) {}
  Real next() {
    GS_ASSERT(at_ + 2 <= bytes_.size());
    const auto low = static_cast<uint8_t>(bytes_[at_]);
    const auto high = static_cast<uint8_t>(bytes_[at_ + 1]);
    at_ += 2;
    return static_cast<Real>(half_of(static_cast<uint16_t>(low | high << 8U)));
  }
  bool is_at_end() const { return at_ == bytes_.size(); }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

// ---- The forward pass ----

constexpr size_t kVectorSize = 16;  // bytes, of all processors that we run on
using Vector = Real __attribute__((vector_size(kVectorSize)));
constexpr uint32_t kLaneCount = kVectorSize / sizeof(Real);

// outputs += value times a row of weights.
template <uint32_t kCount>
inline void add_row(Real value, const Real* row, Vector (&outputs)[kCount]) {
#pragma GCC unroll 16
  for (uint32_t v = 0; v < kCount; ++v) {
    Vector weights;
    std::memcpy(&weights, row + v * kLaneCount, kVectorSize);
    outputs[v] += value * weights;
  }
}

// One pixel of the output: what the window at (row, column) gives.
template <uint32_t kIn, uint32_t kOut>
void convolve_window(const Real* in, uint32_t side, uint32_t row, uint32_t column, const Real* weights,
                     Vector (&sums)[kOut / kLaneCount]) {
  for (uint32_t r = 0; r < 3; ++r) {
    const uint32_t in_row = 2 * row + r - 1;  // wraps above the first
    if (in_row >= side) {
      continue;
    }
    for (uint32_t c = 0; c < 3; ++c) {
      const uint32_t in_column = 2 * column + c - 1;
      if (in_column >= side) {
        continue;
      }
      const Real* const from = in + size_t{in_row * side + in_column} * kIn;
      const Real* const kernel = weights + size_t{3 * r + c} * kIn * kOut;
      for (uint32_t i = 0; i < kIn; ++i) {
        add_row(from[i], kernel + size_t{i} * kOut, sums);
      }
    }
  }
}

// out (side / 2 squared pixels of kOut) <- the convolution of in (side squared pixels of kIn). biases null: zeros.
template <uint32_t kIn, uint32_t kOut>
void convolve(const Real* in, uint32_t side, const Real* weights, const Real* biases, bool is_cut, Real* out) {
  for (uint32_t row = 0; row < side / 2; ++row) {
    for (uint32_t column = 0; column < side / 2; ++column, out += kOut) {
      Vector sums[kOut / kLaneCount] = {};
      if (biases != nullptr) {
        std::memcpy(sums, biases, sizeof(sums));
      }
      convolve_window<kIn, kOut>(in, side, row, column, weights, sums);
      for (Vector& sum : sums) {
        const Vector zero = {};
        sum = is_cut ? (sum < zero ? zero : sum) : sum;  // what is no number stays so
      }
      std::memcpy(out, sums, sizeof(sums));
    }
  }
}

// The first convolution of planes, less its biases where `biases` is null. pixels: (row, column, colour), kImageSize.
void convolve_first(const AttackNetwork& network, const Real* planes, double offset, bool has_biases, Real* pixels,
                    Real* out) {
  constexpr uint32_t kPlaneSize = kImageSide * kImageSide;
  for (uint32_t p = 0; p < kPlaneSize; ++p) {
    for (uint32_t colour = 0; colour < 3; ++colour) {
      pixels[3 * p + colour] = planes[colour * kPlaneSize + p] + static_cast<Real>(offset);
    }
  }
  convolve<kMaps[0], kMaps[1]>(pixels, kSides[0], network.convolutions[0].data(),
                               has_biases ? network.biases[0].data() : nullptr, false, out);
}

// Volumes between the layers.
struct Volumes {
  Real pixels[kImageSize];
  Real first[kFirstSize];
  Real second[kSecondSize];
  Real third[kThirdSize];
};

// What follows the first convolution; `first` is before max(0, .), and is spoilt.
std::array<Real, kImageClassCount> finish(const AttackNetwork& network, Volumes* volumes) {
  for (Real& value : volumes->first) {
    value = value < 0 ? 0 : value;
  }
  convolve<kMaps[1], kMaps[2]>(volumes->first, kSides[1], network.convolutions[1].data(), network.biases[1].data(),
                               true, volumes->second);
  convolve<kMaps[2], kMaps[3]>(volumes->second, kSides[2], network.convolutions[2].data(), network.biases[2].data(),
                               true, volumes->third);
  Vector sums[kPaddedClassCount / kLaneCount];
  std::memcpy(sums, network.dense_biases.data(), sizeof(sums));
  for (uint32_t i = 0; i < kThirdSize; ++i) {
    add_row(volumes->third[i], network.dense.data() + size_t{i} * kPaddedClassCount, sums);
  }
  std::array<Real, kPaddedClassCount> padded = {};
  std::memcpy(padded.data(), sums, sizeof(sums));
  std::array<Real, kImageClassCount> scores = {};
  std::copy_n(padded.begin(), kImageClassCount, scores.begin());
  return scores;
}

// By how much the deer is ahead; below 0 the image is misclassified.
Real margin_of(const std::array<Real, kImageClassCount>& scores) {
  Real most = -std::numeric_limits<Real>::infinity();
  for (uint32_t i = 0; i < kImageClassCount; ++i) {
    most = i == kDeerClass ? most : std::max(most, scores[i]);
  }
  return scores[kDeerClass] - most;
}

// The margin of an image by its first convolution and the disturbance's.
Real margin_of(const AttackNetwork& network, const Real* image_first, const Real* first, Volumes* volumes) {
  for (uint32_t i = 0; i < kFirstSize; ++i) {
    volumes->first[i] = image_first[i] + first[i];
  }
  return margin_of(finish(network, volumes));
}

// Pixels from 0 to 1 of the record that begins there.
void read_pixels(const std::string& records, size_t at, Real* pixels) {
  for (uint32_t i = 0; i < kImageSize; ++i) {
    pixels[i] = static_cast<Real>(static_cast<uint8_t>(records[at + 1 + i])) / static_cast<Real>(255);
  }
}

bool is_deer(const std::string& records, size_t at) { return static_cast<uint8_t>(records[at]) == kDeerClass; }

// Appends the first convolutions of those deer that the network knows; how many.
uint32_t select(const AttackNetwork& network, const std::string& records, std::vector<Real>* first) {
  Volumes volumes = {};
  std::vector<Real> planes(kImageSize);
  std::vector<Real> before(kFirstSize);
  uint32_t count = 0;
  for (size_t at = 0; at + kRecordSize <= records.size(); at += kRecordSize) {
    if (!is_deer(records, at)) {
      continue;
    }
    read_pixels(records, at, planes.data());
    convolve_first(network, planes.data(), -0.5, true, volumes.pixels, before.data());
    std::copy(before.begin(), before.end(), volumes.first);
    if (margin_of(finish(network, &volumes)) > 0) {
      first->insert(first->end(), before.begin(), before.end());
      ++count;
    }
  }
  return count;
}

// ---- The problem ----

// What a device holds: images first_place .. first_place + count - 1.
struct AttackedPart {
  const AttackImages* images;
  uint32_t first_place;
  uint32_t count;
};

const AttackedPart& part_of(const void* context) { return *static_cast<const AttackedPart*>(context); }

uint32_t sample_count(const void* context) { return part_of(context).count; }

Status check_shape(const void*, Shape shape) {
  return shape.rows == kImageSize && shape.cols == 1 ? Status::kOk : Status::kInvalidArgument;
}

// The volumes; the disturbance in planes, and its first convolution.
size_t scratch_size(const void*, Shape) {
  return Arena::taken_size<Volumes>(1) + Arena::taken_size<Real>(kImageSize) + Arena::taken_size<Real>(kFirstSize);
}

// first <- the first convolution of eps x. planes: kImageSize values.
void convolve_disturbance(const AttackNetwork& network, const Real* x, Real* planes, Volumes* volumes, Real* first) {
  std::transform(x, x + kImageSize, planes, [](Real v) { return static_cast<Real>(kAttackRadius) * v; });
  convolve_first(network, planes, 0, false, volumes->pixels, first);
}

Result<Real> loss(const void* context, Shape, const Real* x, Batch batch, Arena& arena) {
  const AttackedPart& part = part_of(context);
  const AttackNetwork& network = part.images->network;
  ScratchScope scope(arena);
  const Result<Volumes*> volumes = arena.scratch<Volumes>(1);
  const Result<Real*> planes = arena.scratch<Real>(kImageSize);
  const Result<Real*> first = arena.scratch<Real>(kFirstSize);
  GS_TRY(volumes.status());
  GS_TRY(planes.status());
  GS_TRY(first.status());
  convolve_disturbance(network, x, planes.value(), volumes.value(), first.value());
  return mean_loss(batch, [&](uint32_t index) {
    const Real* const image = part.images->first.data() + size_t{part.first_place + index} * kFirstSize;
    const Real margin = margin_of(network, image, first.value(), volumes.value());
    return Result<Real>(std::max(margin, static_cast<Real>(0)));
  });
}

constexpr ProblemOps kAttackOps = {"attack", sample_count, check_shape, scratch_size, loss, nullptr};

class AttackWorkload : public Workload {
 public:
  AttackWorkload(std::shared_ptr<const AttackImages> images, uint32_t device_count) : images_(std::move(images)) {
    const uint32_t share = images_->count / device_count;
    for (uint32_t device = 0; device < device_count; ++device) {
      parts_.push_back({images_.get(), device * share, share});
    }
  }

  ManifoldId manifold() const override { return ManifoldId::kSphere; }
  Shape shape() const override { return {kImageSize, 1}; }
  uint32_t device_count() const override { return static_cast<uint32_t>(parts_.size()); }
  Problem problem(uint32_t device) const override { return {&kAttackOps, &parts_[device]}; }
  Matrix start() const override {
    const Matrix x = normals({images_->seed, RandomDomain::kInitialPoint, 0, 0, 0}, kImageSize, 1);
    return x / x.norm();
  }
  double optimum() const override { return 0; }
  bool measures_gradient() const override { return false; }
  Measures measure(const Matrix& model) const override;

 private:
  struct Margins {
    double loss = 0;
    double missed = 0;  // share
  };
  Margins margins_of(const std::vector<Real>& images, uint32_t count, const Real* first) const;

  std::shared_ptr<const AttackImages> images_;
  std::vector<AttackedPart> parts_;
};

AttackWorkload::Margins AttackWorkload::margins_of(const std::vector<Real>& images, uint32_t count,
                                                   const Real* first) const {
  Volumes volumes = {};
  Margins out;
  for (uint32_t i = 0; i < count; ++i) {
    const Real margin = margin_of(images_->network, images.data() + size_t{i} * kFirstSize, first, &volumes);
    out.loss += std::max(static_cast<double>(margin), 0.0);
    out.missed += margin < 0 ? 1 : 0;
  }
  out.loss /= std::max(count, 1U);
  out.missed /= std::max(count, 1U);
  return out;
}

Measures AttackWorkload::measure(const Matrix& model) const {
  std::vector<Real> x(kImageSize);
  std::transform(model.data(), model.data() + kImageSize, x.begin(), [](double v) { return static_cast<Real>(v); });
  Volumes volumes = {};
  std::vector<Real> planes(kImageSize);
  std::vector<Real> first(kFirstSize);
  convolve_disturbance(images_->network, x.data(), planes.data(), &volumes, first.data());
  const Margins own = margins_of(images_->first, std::min(images_->count, kMeasuredImageCount), first.data());
  const bool is_on_sphere = std::fabs(model.norm() - 1) <= kNormError;
  Measures measures;
  measures.excess = is_on_sphere ? own.loss : std::numeric_limits<double>::quiet_NaN();
  measures.grad_norm = std::numeric_limits<double>::quiet_NaN();
  measures.other = own.missed;
  measures.refitted = margins_of(images_->test_first, images_->test_count, first.data()).missed;
  return measures;
}

}  // namespace

AttackNetwork read_attack_network() {
  const std::string bytes = read_file(GS_SOURCE_DIR "/experiments/data/x12_cnn12_f16.bin");
  NumberReader numbers(bytes);
  AttackNetwork network;
  for (uint32_t layer = 0; layer < 3; ++layer) {
    const uint32_t in = kMaps[layer];
    const uint32_t out = kMaps[layer + 1];
    std::vector<Real>& weights = network.convolutions[layer];
    weights.resize(size_t{9} * in * out);
    for (uint32_t o = 0; o < out; ++o) {  // the file has (output, input, kernel row, kernel column)
      for (uint32_t i = 0; i < in; ++i) {
        for (uint32_t place = 0; place < 9; ++place) {
          weights[(size_t{place} * in + i) * out + o] = numbers.next();
        }
      }
    }
    network.biases[layer].resize(out);
    std::generate(network.biases[layer].begin(), network.biases[layer].end(), [&] { return numbers.next(); });
  }
  network.dense.resize(size_t{kThirdSize} * kPaddedClassCount);
  constexpr uint32_t kPixelCount = kSides[3] * kSides[3];
  for (uint32_t i = 0; i < kThirdSize; ++i) {  // the file has (map, row, column)
    const size_t row = size_t{i % kPixelCount} * kMaps[3] + i / kPixelCount;
    for (uint32_t c = 0; c < kImageClassCount; ++c) {
      network.dense[row * kPaddedClassCount + c] = numbers.next();
    }
  }
  network.dense_biases.resize(kPaddedClassCount);
  std::generate_n(network.dense_biases.begin(), kImageClassCount, [&] { return numbers.next(); });
  GS_ASSERT(numbers.is_at_end());
  return network;
}

std::array<Real, kImageClassCount> attack_scores(const AttackNetwork& network, const Real* pixels) {
  Volumes volumes = {};
  convolve_first(network, pixels, -0.5, true, volumes.pixels, volumes.first);
  return finish(network, &volumes);
}

std::shared_ptr<const AttackImages> select_attack_images(const std::string& train, const std::string& test,
                                                         uint32_t seed) {
  if (train.size() % kRecordSize != 0 || test.size() % kRecordSize != 0) {
    return nullptr;
  }
  auto images = std::make_shared<AttackImages>();
  images->seed = seed;
  images->network = read_attack_network();
  std::vector<Real> first;
  images->count = select(images->network, train, &first);
  images->test_count = select(images->network, test, &images->test_first);
  if (images->count == 0 || images->test_count == 0) {
    return nullptr;
  }
  images->first.reserve(first.size());
  for (const uint32_t place : chosen({seed, RandomDomain::kData, 1, 0, 0}, images->count, images->count)) {
    const auto begin = first.begin() + static_cast<std::ptrdiff_t>(size_t{place} * kFirstSize);
    images->first.insert(images->first.end(), begin, begin + kFirstSize);
  }
  return images;
}

namespace {

constexpr const char* kTestFile = "/cifar10/cifar10_sub_test_1000.bin.gz";
constexpr const char* kClassNames[kImageClassCount] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                       "dog",      "frog",       "horse", "ship", "truck"};

uint32_t class_of(const AttackNetwork& network, const std::vector<Real>& pixels) {
  const std::array<Real, kImageClassCount> scores = attack_scores(network, pixels.data());
  return static_cast<uint32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

}  // namespace

std::shared_ptr<const AttackImages> read_attack_images(const std::string& folder, uint32_t seed) {
  return select_attack_images(read_file(folder + "/cifar10/cifar10_deer_train_5000.bin.gz"),
                              read_file(folder + kTestFile), seed);
}

std::vector<AttackedDeer> attack_deer(const std::string& records, const Matrix& x) {
  GS_ASSERT(x.size() == kImageSize);
  const AttackNetwork network = read_attack_network();
  std::vector<AttackedDeer> deer;
  AttackedDeer one;
  one.original.resize(kImageSize);
  one.attacked.resize(kImageSize);
  for (size_t at = 0; at + kRecordSize <= records.size(); at += kRecordSize) {
    if (!is_deer(records, at)) {
      continue;
    }
    read_pixels(records, at, one.original.data());
    if (class_of(network, one.original) == kDeerClass) {
      std::transform(one.original.begin(), one.original.end(), x.data(), one.attacked.begin(),
                     [](Real z, double v) { return z + static_cast<Real>(kAttackRadius) * static_cast<Real>(v); });
      one.attacked_class = class_of(network, one.attacked);
      deer.push_back(one);
    }
  }
  return deer;
}

std::vector<AttackedDeer> read_attacked_deer(const std::string& folder, const Matrix& x) {
  return attack_deer(read_file(folder + kTestFile), x);
}

const char* image_class_name(uint32_t image_class) {
  GS_ASSERT(image_class < kImageClassCount);
  return kClassNames[image_class];
}

std::unique_ptr<Workload> make_attack(const std::shared_ptr<const AttackImages>& images, uint32_t device_count) {
  return std::make_unique<AttackWorkload>(images, device_count);
}

}  // namespace gradstream
