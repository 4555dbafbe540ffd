#include "experiments/workloads/data_network.h"

#include <algorithm>
#include <cmath>

#include "experiments/workloads/data_femnist.h"
#include "runtime/base/products.h"

namespace gradstream {
namespace {

// Rows of `all` in this order: the first test_count to test, last in the result; the rest over the devices in
// proportion to 1, 2, ...
std::vector<Matrix> deal(const Matrix& all, const std::vector<uint32_t>& order, size_t test_count) {
  const auto rows = [&](size_t first, size_t end) {
    Matrix out(static_cast<Eigen::Index>(end - first), all.cols());
    for (size_t i = first; i < end; ++i) {
      out.row(static_cast<Eigen::Index>(i - first)) = all.row(order[i]);
    }
    return out;
  };
  const size_t train_count = order.size() - test_count;
  const size_t share_sum = kNetworkDeviceCount * (kNetworkDeviceCount + 1) / 2;
  std::vector<Matrix> parts;
  size_t first = 0;
  size_t shares = 0;
  for (size_t device = 1; device <= kNetworkDeviceCount; ++device) {
    shares += device;
    const size_t end = train_count * shares / share_sum;
    parts.push_back(rows(test_count + first, test_count + end));
    first = end;
  }
  parts.push_back(rows(0, test_count));
  return parts;
}

std::vector<uint32_t> shuffled(uint32_t count) { return chosen({1, RandomDomain::kData, 0, 0, 0}, count, count); }

}  // namespace

NetworkWorkload::NetworkWorkload(const ProblemOps& ops, std::vector<uint16_t> widths, const std::vector<Matrix>& parts,
                                 uint32_t seed, double probability_floor)
    : ops_(&ops), widths_(std::move(widths)), seed_(seed), probability_floor_(probability_floor) {
  for (const Matrix& part : parts) {
    samples_.push_back(std::make_unique<StoredSamples>(part));
    data_.push_back({samples_.back()->source, widths_.data(), static_cast<uint32_t>(widths_.size())});
  }
  const uint32_t size = widths_.size() == 1 ? lenet_size(widths_[0])
                                            : perceptron_size(widths_.data(), static_cast<uint32_t>(widths_.size()));
  // A side is at most kDimensionMax.
  uint32_t cols = 1;
  while (size % cols != 0 || size / cols > kDimensionMax) {
    ++cols;
  }
  shape_ = {size / cols, cols};
  GS_ASSERT(ops_->check_shape(&data_[0], shape_) == Status::kOk);
}

Matrix NetworkWorkload::start() const {
  Matrix x = normals({seed_, RandomDomain::kInitialPoint, 0, 0, 0}, shape_.rows, shape_.cols);
  if (widths_.size() > 1) {
    return 0.2 * x;
  }
  // He: weights of deviation sqrt(2 / inputs), biases 0. Weights and biases of each layer of lenet in turn.
  const struct {
    Eigen::Index weights, biases;
    double inputs;
  } layers[] = {{150, 6, 25}, {2400, 16, 150}, {48000, 120, 400}, {10080, 84, 120}, {84 * widths_[0], widths_[0], 84}};
  double* at = x.data();
  for (const auto& layer : layers) {
    std::for_each(at, at + layer.weights, [&](double& v) { v *= std::sqrt(2 / layer.inputs); });
    std::fill(at + layer.weights, at + layer.weights + layer.biases, 0.0);
    at += layer.weights + layer.biases;
  }
  return x;
}

Measures NetworkWorkload::measure(const Matrix& model) const {
  const NetworkData& test = data_.back();
  std::vector<Real> x(static_cast<size_t>(model.size()));
  std::transform(model.data(), model.data() + model.size(), x.begin(), [](double v) { return static_cast<Real>(v); });
  std::vector<uint64_t> memory(ops_->scratch_size(&test, shape_) / sizeof(uint64_t) + 1);
  Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
  Measures measures;
  const Result<Real> loss = ops_->loss(&test, shape_, x.data(), {nullptr, test.source.count}, arena);
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  measures.excess = loss.ok() ? static_cast<double>(loss.value()) : nothing;
  if (loss.ok() && probability_floor_ > 0) {
    double sum = 0;
    for (uint32_t i = 0; i < test.source.count; ++i) {
      const auto index = static_cast<uint16_t>(i);
      const Result<Real> own = ops_->loss(&test, shape_, x.data(), {&index, 1}, arena);
      sum -= own.ok() ? std::log(std::exp(-static_cast<double>(own.value())) + probability_floor_) : nothing;
    }
    measures.excess = sum / test.source.count;
  }
  measures.grad_norm = nothing;
  std::vector<Real> gradient(x.size());
  if (measures_gradient() &&
      ops_->gradient(&test, shape_, x.data(), {nullptr, test.source.count}, gradient.data(), arena) == Status::kOk) {
    measures.grad_norm = static_cast<double>(norm2(gradient.size(), gradient.data()));
  }
  return measures;
}

namespace {

constexpr size_t kDigitsTestCount = 360;

// The order of the training samples, after the test samples; eighths as numpy's array_split makes them.
void arrange(const std::vector<double>& labels, DigitsSplit split, std::vector<uint32_t>* order) {
  const auto begin = order->begin() + kDigitsTestCount;
  const size_t train_count = order->size() - kDigitsTestCount;
  const size_t sorted_count = split == DigitsSplit::kShuffled     ? 0
                              : split == DigitsSplit::kHalfSorted ? train_count / 2
                                                                  : train_count;
  std::stable_sort(begin, begin + static_cast<std::ptrdiff_t>(sorted_count),
                   [&](uint32_t a, uint32_t b) { return labels[a] < labels[b]; });
  if (split != DigitsSplit::kHalfSorted) {
    return;
  }
  const std::vector<uint32_t> halves[2] = {{begin, begin + static_cast<std::ptrdiff_t>(sorted_count)},
                                           {begin + static_cast<std::ptrdiff_t>(sorted_count), order->end()}};
  auto to = begin;
  size_t done[2] = {};
  for (size_t part = 0; part < kNetworkDeviceCount; ++part) {
    for (size_t half = 0; half < 2; ++half) {
      const size_t count = halves[half].size();
      const size_t size = count / kNetworkDeviceCount + (part < count % kNetworkDeviceCount ? 1 : 0);
      to = std::copy_n(halves[half].begin() + static_cast<std::ptrdiff_t>(done[half]), size, to);
      done[half] += size;
    }
  }
}

}  // namespace

std::unique_ptr<NetworkWorkload> make_digits_network(uint32_t seed, DigitsSplit split, double probability_floor) {
  const Table table = read_table("digits");
  Matrix all(table.samples.rows(), table.samples.cols() + 1);
  all.leftCols(table.samples.cols()) = prepare_table(table.samples, "scale16");
  for (Eigen::Index i = 0; i < all.rows(); ++i) {
    all(i, all.cols() - 1) = table.labels[static_cast<size_t>(i)];
  }
  std::vector<uint32_t> order = shuffled(static_cast<uint32_t>(all.rows()));
  arrange(table.labels, split, &order);
  return std::make_unique<NetworkWorkload>(kPerceptronOps, std::vector<uint16_t>{64, 32, 10},
                                           deal(all, order, kDigitsTestCount), seed, probability_floor);
}

std::unique_ptr<NetworkWorkload> make_femnist_network(const std::string& folder, uint32_t seed, std::string* fault) {
  constexpr uint32_t kWriterCount = kNetworkDeviceCount * (kNetworkDeviceCount + 1) / 2;
  constexpr Eigen::Index kTestEvery = 5;
  std::vector<FemnistWriter> writers;
  *fault = read_femnist(folder + "/femnist", kWriterCount, &writers);
  if (fault->empty() && !writers.empty() && writers.size() < kWriterCount) {
    *fault = folder + "/femnist: " + std::to_string(writers.size()) + " writers, of " + std::to_string(kWriterCount) +
             "; make it with more of them";
  }
  if (!fault->empty() || writers.empty()) {
    return nullptr;
  }
  struct Place {
    const Matrix* samples;
    Eigen::Index row;
  };
  std::vector<std::vector<Place>> places(kNetworkDeviceCount + 1);  // the test samples last
  size_t next = 0;
  for (uint32_t device = 0; device < kNetworkDeviceCount; ++device) {
    for (uint32_t i = 0; i <= device; ++i) {
      const Matrix& samples = writers[next++].samples;
      for (Eigen::Index row = 0; row < samples.rows(); ++row) {
        const bool is_test = row % kTestEvery == kTestEvery - 1;
        places[is_test ? kNetworkDeviceCount : device].push_back({&samples, row});
      }
    }
  }
  std::vector<Matrix> parts;
  for (const std::vector<Place>& of_part : places) {
    Matrix& part = parts.emplace_back(static_cast<Eigen::Index>(of_part.size()), kFemnistPixelCount + 1);
    for (size_t i = 0; i < of_part.size(); ++i) {
      part.row(static_cast<Eigen::Index>(i)) = of_part[i].samples->row(of_part[i].row);
    }
  }
  if (parts.back().rows() == 0) {
    *fault = folder + "/femnist: no writer has five samples";
    return nullptr;
  }
  return std::make_unique<NetworkWorkload>(kLenetOps, std::vector<uint16_t>{kFemnistClassCount}, parts, seed);
}

std::unique_ptr<NetworkWorkload> make_mnist_network(const std::string& folder, uint32_t seed) {
  constexpr uint32_t kImageCount = 10000;
  constexpr size_t kTestCount = 1000;
  constexpr size_t kPixelCount = 784;
  constexpr size_t kImageHeaderSize = 16;
  constexpr size_t kLabelHeaderSize = 8;
  const std::string images = read_file(folder + "/mnist/t10k-images-idx3-ubyte.gz");
  const std::string labels = read_file(folder + "/mnist/t10k-labels-idx1-ubyte.gz");
  if (images.size() < kImageHeaderSize + kImageCount * kPixelCount || labels.size() < kLabelHeaderSize + kImageCount) {
    return nullptr;
  }
  Matrix all(kImageCount, kPixelCount + 1);
  for (uint32_t i = 0; i < kImageCount; ++i) {
    for (size_t p = 0; p < kPixelCount; ++p) {
      const char pixel = images[kImageHeaderSize + i * kPixelCount + p];
      all(i, static_cast<Eigen::Index>(p)) = static_cast<uint8_t>(pixel) / 255.0;
    }
    all(i, kPixelCount) = static_cast<uint8_t>(labels[kLabelHeaderSize + i]);
  }
  return std::make_unique<NetworkWorkload>(kLenetOps, std::vector<uint16_t>{10},
                                           deal(all, shuffled(kImageCount), kTestCount), seed);
}

}  // namespace gradstream
