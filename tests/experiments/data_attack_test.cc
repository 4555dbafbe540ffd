// The frozen network and its images against a forward pass written out as the file's order says; what is selected, how
// it is dealt, and the loss that devices work on. The images are discs on a ground, of which the network takes eight of
// sixty-four for deer.
#include "experiments/workloads/data_attack.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>

#include <gtest/gtest.h>

#include "experiments/harness/compare.h"
#include "experiments/harness/harness.h"
#include "runtime/problem/network.h"
#include "tests/support/training_support.h"

namespace gradstream {
namespace {

constexpr uint32_t kDiscCount = 64;
constexpr uint32_t kOtherLabel = 21;  // a disc that the network takes for a deer, under another label

double half_of(const std::string& bytes, size_t index) {
  const auto low = static_cast<uint8_t>(bytes[2 * index]);
  const auto high = static_cast<uint8_t>(bytes[2 * index + 1]);
  const int bits = low | high << 8;
  const int exponent = bits >> 10 & 31;
  const double fraction =
      exponent == 0 ? std::ldexp(bits & 1023, -24) : std::ldexp(1024 + (bits & 1023), exponent - 25);
  return (bits & 0x8000) != 0 ? -fraction : fraction;
}

// Scores of planes with values from -1/2 to 1/2.
std::vector<double> naive_scores(std::vector<double> in) {
  const std::string bytes = read_file(GS_SOURCE_DIR "/experiments/data/x12_cnn12_f16.bin");
  constexpr int kMaps[] = {3, 12, 24, 32};
  size_t at = 0;
  int side = 32;
  for (int layer = 0; layer < 3; ++layer, side /= 2) {
    const int inputs = kMaps[layer];
    const int outputs = kMaps[layer + 1];
    const int half = side / 2;
    const size_t bias = at + static_cast<size_t>(9 * inputs * outputs);
    std::vector<double> out;
    for (int o = 0; o < outputs; ++o) {
      for (int row = 0; row < half; ++row) {
        for (int column = 0; column < half; ++column) {
          double sum = half_of(bytes, bias + static_cast<size_t>(o));
          for (int tap = 0; tap < 9 * inputs; ++tap) {
            const int r = 2 * row + tap / 3 % 3 - 1;
            const int c = 2 * column + tap % 3 - 1;
            if (r >= 0 && r < side && c >= 0 && c < side) {
              sum += half_of(bytes, at + static_cast<size_t>(9 * inputs * o + tap)) *
                     in[static_cast<size_t>((tap / 9 * side + r) * side + c)];
            }
          }
          out.push_back(std::fmax(sum, 0));
        }
      }
    }
    in = out;
    at = bias + static_cast<size_t>(outputs);
  }
  std::vector<double> scores(kImageClassCount);
  for (size_t c = 0; c < kImageClassCount; ++c) {
    scores[c] = half_of(bytes, at + in.size() * kImageClassCount + c);
    for (size_t i = 0; i < in.size(); ++i) {
      scores[c] += in[i] * half_of(bytes, at + i * kImageClassCount + c);
    }
  }
  return scores;
}

double margin_of(std::vector<double> scores) {
  const double own = std::exchange(scores[kDeerClass], -1e9);
  return own - *std::max_element(scores.begin(), scores.end());
}

// A record of CIFAR-10's binary form.
std::string disc(int t) {
  constexpr int kDisc[3][2] = {{40, 37}, {30, 23}, {20, 13}};
  constexpr int kGround[3][2] = {{90, 11}, {110, 7}, {60, 5}};
  std::string record(1, static_cast<char>(t == static_cast<int>(kOtherLabel) ? 3 : kDeerClass));
  for (int plane = 0; plane < 3; ++plane) {
    for (int p = 0; p < 1024; ++p) {
      const int r = p / 32 - 16;
      const int c = p % 32 - 16;
      const int radius = 6 + t % 7;
      const int* const colour = r * r + c * c < radius * radius ? kDisc[plane] : kGround[plane];
      record.push_back(static_cast<char>((colour[0] + colour[1] * t) % 256));
    }
  }
  return record;
}

std::string discs() {
  std::string records;
  for (uint32_t t = 0; t < kDiscCount; ++t) {
    records += disc(static_cast<int>(t));
  }
  return records;
}

std::vector<double> planes_of(const std::string& record) {
  std::vector<double> planes;
  for (size_t i = 1; i < record.size(); ++i) {
    planes.push_back(static_cast<uint8_t>(record[i]) / 255.0);
  }
  return planes;
}

// The margin of a disc with a disturbance.
double disturbed_margin(const std::string& record, const Matrix& x) {
  std::vector<double> planes = planes_of(record);
  for (size_t i = 0; i < planes.size(); ++i) {
    planes[i] += kAttackRadius * x.data()[i] - 0.5;
  }
  return margin_of(naive_scores(planes));
}

// The records that count, in the order of the seed.
std::vector<std::string> known_discs(uint32_t seed) {
  std::vector<std::string> known;
  for (uint32_t t = 0; t < kDiscCount; ++t) {
    const std::string record = disc(static_cast<int>(t));
    if (t != kOtherLabel && disturbed_margin(record, Matrix::Zero(kImageSize, 1)) > 0) {
      known.push_back(record);
    }
  }
  std::vector<std::string> ordered;
  const auto count = static_cast<uint32_t>(known.size());
  for (const uint32_t place : chosen({seed, RandomDomain::kData, 1, 0, 0}, count, count)) {
    ordered.push_back(known[place]);
  }
  return ordered;
}

TEST(DataAttack, ScoresAreThoseOfTheNetworkAsItIsWritten) {
  const AttackNetwork network = read_attack_network();
  for (const int t : {0, 5, 37}) {
    std::vector<double> planes = planes_of(disc(t));
    const std::vector<Real> pixels(planes.begin(), planes.end());
    const std::array<Real, kImageClassCount> scores = attack_scores(network, pixels.data());
    std::for_each(planes.begin(), planes.end(), [](double& v) { v -= 0.5; });
    const std::vector<double> wanted = naive_scores(planes);
    for (size_t c = 0; c < kImageClassCount; ++c) {
      EXPECT_NEAR(static_cast<double>(scores[c]), wanted[c], 1e-12 * std::fmax(1, std::fabs(wanted[c]))) << t;
    }
  }
}

// The same network as a list of layers, as it would stand in a device's flash.
TEST(DataAttack, TheListOfLayersGivesTheSameScores) {
  const std::string bytes = read_file(GS_SOURCE_DIR "/experiments/data/x12_cnn12_f16.bin");
  std::vector<float> numbers;
  for (size_t i = 0; i < bytes.size() / 2; ++i) {
    numbers.push_back(static_cast<float>(half_of(bytes, i)));
  }
  constexpr uint16_t kMaps[] = {3, 12, 24, 32};
  Layer layers[4];
  size_t at = 0;
  uint16_t side = 32;
  for (int i = 0; i < 3; ++i, side = static_cast<uint16_t>(side / 2)) {
    const auto half = static_cast<uint16_t>(side / 2);
    layers[i].kind = LayerKind::kConv2d;
    layers[i].activation = Activation::kRelu;
    layers[i].in = {side, side, kMaps[i]};
    layers[i].out = {half, half, kMaps[i + 1]};
    layers[i].kernel_height = layers[i].kernel_width = 3;
    layers[i].stride_height = layers[i].stride_width = 2;
    layers[i].pad_top = layers[i].pad_left = 1;
    layers[i].weights = numbers.data() + at;
    at += layer_weight_count(layers[i]);
    layers[i].biases = numbers.data() + at;
    at += kMaps[i + 1];
  }
  layers[3].kind = LayerKind::kDense;
  layers[3].in = layers[2].out;
  layers[3].out = {1, 1, kImageClassCount};
  layers[3].weights = numbers.data() + at;
  layers[3].biases = numbers.data() + at + layer_weight_count(layers[3]);
  Network network;
  network.in = layers[0].in;
  network.offset = -0.5F;
  network.layers = layers;
  network.layer_count = 4;
  ASSERT_EQ(check_network(network).code, NetworkFaultCode::kNone);
  const AttackNetwork own = read_attack_network();
  TestArena memory(size_t{1} << 20);
  ScratchScope scope(memory.arena);
  for (const int t : {0, 5, 37}) {
    const std::vector<double> planes = planes_of(disc(t));
    const std::vector<Real> pixels(planes.begin(), planes.end());
    const std::array<Real, kImageClassCount> wanted = attack_scores(own, pixels.data());
    Real scores[kImageClassCount];
    ASSERT_EQ(run_network(network, nullptr, pixels.data(), scores, memory.arena), Status::kOk);
    for (size_t c = 0; c < kImageClassCount; ++c) {
      EXPECT_NEAR(scores[c], wanted[c], 1e-12 * std::fmax(1, std::fabs(wanted[c]))) << t;
    }
  }
}

TEST(DataAttack, DealsTheDeerThatTheNetworkKnows) {
  constexpr uint32_t kSeed = 7;
  const auto images = select_attack_images(discs(), disc(2) + disc(3) + disc(22), kSeed);
  ASSERT_NE(images, nullptr);
  EXPECT_EQ(images->count, 7U) << "of eight one has another label";
  EXPECT_EQ(images->test_count, 2U);
  const std::vector<std::string> known = known_discs(kSeed);
  ASSERT_EQ(known.size(), images->count);
  const std::unique_ptr<Workload> workload = make_attack(images, 3);
  EXPECT_EQ(workload->device_count(), 3U);
  const Matrix x = workload->start();
  EXPECT_NEAR(x.norm(), 1, 1e-14);
  TestArena memory(size_t{1} << 20);
  for (uint32_t device = 0; device < 3; ++device) {
    const Problem problem = workload->problem(device);
    ASSERT_EQ(problem.ops->sample_count(problem.context), 2U) << "one is left over";
    for (uint16_t i = 0; i < 2; ++i) {
      const Result<Real> loss = problem.ops->loss(problem.context, workload->shape(), x.data(), {&i, 1}, memory.arena);
      ASSERT_EQ(loss.status(), Status::kOk);
      EXPECT_NEAR(loss.value(), std::fmax(disturbed_margin(known[2 * device + i], x), 0), 1e-12) << device << " " << i;
    }
    EXPECT_LE(problem.ops->scratch_size(problem.context, workload->shape()), memory.arena.high_water_size());
  }
}

TEST(DataAttack, MeasuresLossAndShareOfMissedDeer) {
  const auto images = select_attack_images(discs(), disc(2) + disc(22) + disc(23), 1);
  ASSERT_NE(images, nullptr);
  const std::unique_ptr<Workload> workload = make_attack(images, 1);
  const Matrix x = workload->start();
  double loss = 0;
  double missed = 0;
  for (const std::string& record : known_discs(1)) {
    const double margin = disturbed_margin(record, x);
    loss += std::fmax(margin, 0) / images->count;
    missed += margin < 0 ? 1.0 / images->count : 0;
  }
  const Measures measures = workload->measure(x);
  EXPECT_NEAR(measures.excess, loss, 1e-12);
  EXPECT_NEAR(measures.other, missed, 1e-12);
  EXPECT_GE(measures.refitted, 0);
  EXPECT_TRUE(std::isnan(workload->measure(1.00001 * x).excess)) << "off the sphere";
  EXPECT_FALSE(std::isnan(workload->measure((1 + 1e-8) * x).excess)) << "within rounding";
}

// What the picture of X12 shows: pixels of the deer that the network knows, and its word for what became of them.
TEST(DataAttack, NamesWhatADisturbedDeerIsTakenFor) {
  Matrix x = Matrix::Zero(kImageSize, 1);
  const std::string records = disc(2) + disc(static_cast<int>(kOtherLabel)) + disc(3) + disc(22) + disc(23);
  const std::vector<AttackedDeer> same = attack_deer(records, x);
  ASSERT_EQ(same.size(), select_attack_images(discs(), records, 1)->test_count);
  EXPECT_TRUE(std::all_of(same.begin(), same.end(), [](const auto& d) { return d.attacked_class == kDeerClass; }));
  EXPECT_NEAR(same.front().original[5], planes_of(disc(2))[5], 1e-12);
  x = 40 * normals({1, RandomDomain::kInitialPoint, 0, 0, 0}, kImageSize, 1).normalized();
  const std::vector<AttackedDeer> deer = attack_deer(records, x);
  ASSERT_EQ(deer.size(), same.size());
  uint32_t missed_count = 0;
  for (const AttackedDeer& one : deer) {
    std::vector<double> planes(one.attacked.begin(), one.attacked.end());
    EXPECT_NEAR(planes[7], static_cast<double>(one.original[7]) + kAttackRadius * x(7, 0), 1e-12);
    std::for_each(planes.begin(), planes.end(), [](double& v) { v -= 0.5; });
    const std::vector<double> scores = naive_scores(planes);
    EXPECT_EQ(one.attacked_class, std::max_element(scores.begin(), scores.end()) - scores.begin());
    missed_count += one.attacked_class == kDeerClass ? 0 : 1;
  }
  EXPECT_GT(missed_count, 0U) << "the disturbance changes nothing, and the test sees nothing";
  EXPECT_STREQ(image_class_name(kDeerClass), "deer");
  EXPECT_TRUE(read_attacked_deer("/nowhere", x).empty());
}

TEST(DataAttack, TakesNoDamagedFileAndNoFileWithoutDeer) {
  EXPECT_EQ(select_attack_images(discs() + "x", discs(), 1), nullptr) << "a record cut short";
  EXPECT_EQ(select_attack_images(discs(), "", 1), nullptr) << "no test";
  EXPECT_EQ(select_attack_images(disc(static_cast<int>(kOtherLabel)), discs(), 1), nullptr) << "no deer";
  EXPECT_EQ(read_attack_images("/nowhere", 1), nullptr);
}

TEST(DataAttack, KnowsAsManyDeerOfCifarAsItsReference) {
  const char* const folder = std::getenv("GS_DATA_DIR");
  const auto images = folder == nullptr ? nullptr : read_attack_images(folder, 1);
  if (images == nullptr) {
    GTEST_SKIP() << "no cifar10 in the data folder";
  }
  EXPECT_EQ(images->count, 2488U);
  EXPECT_EQ(images->test_count, 42U);
  const std::unique_ptr<Workload> workload = make_attack(images, 10);
  EXPECT_EQ(workload->problem(9).ops->sample_count(workload->problem(9).context), 248U);
  EXPECT_NEAR(workload->measure(workload->start()).excess, 1.4224688891005155, 1e-9);
}

TEST(DataAttack, ReplaysTheFirstRoundsOfItsReference) {
  HarnessOptions options;
  const char* const folder = std::getenv("GS_DATA_DIR");
  options.request.data_folder = folder == nullptr ? "/nowhere" : folder;
  options.round_count_max = 2;
  const std::vector<Case> cases = kX12.cases(options.request);
  if (cases.empty()) {
    GTEST_SKIP() << "no cifar10 in the data folder";
  }
  ASSERT_EQ(cases.size(), 1U) << "in double there is one";
  const Curve curve = run_case(cases.front(), options);
  ASSERT_EQ(curve.fault, "");
  uint32_t count = 0;
  for (const ReferenceCurve& reference : read_references("X12")) {
    if (reference.key == cases.front().key && reference.seed == options.request.seed) {
      for (const ReferenceCurve::Point& point : reference.points) {
        if (point.round <= options.round_count_max) {
          EXPECT_NEAR(curve.excess_at(point.round), point.value, 1e-6 * point.value) << point.round;
          ++count;
        }
      }
    }
  }
  EXPECT_EQ(count, 3U);
}

}  // namespace
}  // namespace gradstream
