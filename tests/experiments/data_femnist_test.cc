#include "experiments/workloads/data_femnist.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/workloads/data_network.h"

namespace gradstream {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

// A folder as --data names it, with femnist/ in it.
class DataFolder {
 public:
  DataFolder() {
    std::string pattern = (fs::temp_directory_path() / "femnist_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
    fs::create_directory(path_ / "femnist");
  }
  ~DataFolder() { fs::remove_all(path_); }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;
  std::string path() const { return path_.string(); }
  std::string femnist() const { return (path_ / "femnist").string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / "femnist" / name) << text;
  }

 private:
  fs::path path_;
};

// Sample `number` of writer `writer`: paper but for one pixel of ink, whose place is the class.
std::string image(uint32_t number, uint32_t count = kFemnistPixelCount) {
  std::string text = "[";
  for (uint32_t pixel = 0; pixel < count; ++pixel) {
    text += pixel == 0 ? "" : ", ";
    text += pixel == number ? "0.25" : pixel % 2 == 0 ? "1.0" : "1";
  }
  return text + "]";
}

std::string user_data(uint32_t first, uint32_t end, uint32_t samples) {
  std::string text = "{";
  for (uint32_t writer = first; writer < end; ++writer) {
    std::string images, classes;
    for (uint32_t i = 0; i < samples; ++i) {
      images += (i == 0 ? "" : ", ") + image((writer + i) % kFemnistClassCount);
      classes += (i == 0 ? "" : ", ") + std::to_string((writer + i) % kFemnistClassCount);
    }
    text += (writer == first ? "" : ", ") + ("\"f" + std::to_string(writer)) + "_00\": {\"x\": [" + images +
            "], \"y\": [" + classes + "]}";
  }
  return text + "}";
}

std::string lists(uint32_t first, uint32_t end, uint32_t samples) {
  std::string users, counts;
  for (uint32_t writer = first; writer < end; ++writer) {
    users += (writer == first ? "" : ", ") + ("\"f" + std::to_string(writer)) + "_00\"";
    counts += (writer == first ? "" : ", ") + std::to_string(samples);
  }
  return "\"users\": [" + users + "], \"num_samples\": [" + counts + "]";
}

std::string leaf_file(uint32_t first, uint32_t end, uint32_t samples) {
  return "{" + lists(first, end, samples) +
         ", \"hierarchies\": [\"h\"], \"user_data\": " + user_data(first, end, samples) + "}";
}

TEST(DataFemnist, ReadsWritersInTheirOrder) {
  const DataFolder folder;
  folder.write("all_data_1.json", leaf_file(2, 4, 5));
  folder.write("all_data_0.json", "{\"user_data\": " + user_data(0, 2, 3) + ", " + lists(0, 2, 3) + "}");
  folder.write("notes.txt", "no JSON");
  std::vector<FemnistWriter> writers;
  ASSERT_THAT(read_femnist(folder.femnist(), 100, &writers), IsEmpty());
  ASSERT_EQ(writers.size(), 4U);
  for (uint32_t w = 0; w < 4; ++w) {
    EXPECT_EQ(writers[w].name, "f" + std::to_string(w) + "_00");
    ASSERT_EQ(writers[w].samples.rows(), w < 2 ? 3 : 5);
    ASSERT_EQ(writers[w].samples.cols(), kFemnistPixelCount + 1);
    for (Eigen::Index i = 0; i < writers[w].samples.rows(); ++i) {
      const auto label = static_cast<Eigen::Index>(w + i);
      EXPECT_EQ(writers[w].samples(i, kFemnistPixelCount), static_cast<double>(label));
      EXPECT_EQ(writers[w].samples(i, label), 0.75) << "ink";
      EXPECT_EQ(writers[w].samples.row(i).head(kFemnistPixelCount).sum(), 0.75) << "paper is 0";
    }
  }
  ASSERT_THAT(read_femnist(folder.femnist(), 3, &writers), IsEmpty());
  EXPECT_EQ(writers.size(), 3U) << "the rest of the second file is not looked at";
  EXPECT_EQ(writers[2].name, "f2_00");
}

TEST(DataFemnist, NothingThereIsNoFault) {
  const DataFolder folder;
  std::vector<FemnistWriter> writers(1);
  EXPECT_THAT(read_femnist(folder.femnist(), 9, &writers), IsEmpty());
  EXPECT_THAT(writers, IsEmpty());
  EXPECT_THAT(read_femnist(folder.femnist() + "/nowhere", 9, &writers), IsEmpty());
  std::string fault = "before";
  EXPECT_EQ(make_femnist_network(folder.path(), 1, &fault), nullptr);
  EXPECT_THAT(fault, IsEmpty());
}

TEST(DataFemnist, EveryFaultIsNamedWithItsFile) {
  const std::string good = leaf_file(0, 2, 2);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.rfind(from);
    EXPECT_NE(at, std::string::npos);
    return text.replace(at, from.size(), to);
  };
  const std::pair<std::string, const char*> cases[] = {
      {good.substr(0, good.size() / 2), "no JSON at byte"},
      {"[1, 2", "no JSON at byte"},
      {"{}", "not of the same writers"},
      {replaced("\"num_samples\": [2, 2]", "\"num_samples\": [2, 3]"), "writer f1_00 has not the number"},
      {replaced("\"num_samples\": [2, 2]", "\"num_samples\": [2]"), "not of the same writers"},
      {replaced("\"f1_00\"", "\"f7_00\""), "writer f7_00 has not the number"},
      {replaced("0.25", "0.25, 1"), "an image of writer f1_00 has not 28 x 28"},
      {replaced("0.25", "1.25"), "a pixel of writer f1_00 is not in [0, 1]"},
      {replaced("\"y\": [1, 2]", "\"y\": [1, 62]"), "a class of writer f1_00 is not one of 0 to 61"},
      {replaced("\"y\": [1, 2]", "\"y\": [1, 0.5]"), "a class of writer f1_00 is not one of 0 to 61"},
      {replaced("\"y\": [1, 2]", "\"y\": [1]"), "writer f1_00 has 2 images and 1 classes"},
  };
  for (const auto& [text, fault] : cases) {
    const DataFolder folder;
    folder.write("a.json", text);
    std::vector<FemnistWriter> writers;
    EXPECT_THAT(read_femnist(folder.femnist(), 100, &writers), testing::AllOf(HasSubstr(fault), HasSubstr("a.json")));
  }
}

// One writer to the first device, eight to the last; every fifth sample to test.
TEST(DataFemnist, DealsWritersToTheDevicesOfX14) {
  const DataFolder folder;
  folder.write("a.json", leaf_file(0, 20, 5));
  std::string fault;
  EXPECT_EQ(make_femnist_network(folder.path(), 1, &fault), nullptr);
  EXPECT_THAT(fault, HasSubstr("20 writers, of 36"));
  folder.write("b.json", leaf_file(20, 36, 5));
  const std::unique_ptr<NetworkWorkload> network = make_femnist_network(folder.path(), 1, &fault);
  ASSERT_NE(network, nullptr) << fault;
  ASSERT_EQ(network->device_count(), kNetworkDeviceCount);
  for (uint32_t device = 0; device < kNetworkDeviceCount; ++device) {
    EXPECT_EQ(network->sample_count(device), 4 * (device + 1));
  }
  EXPECT_EQ(network->shape().size(), lenet_size(kFemnistClassCount));
  EXPECT_LE(network->shape().rows, kDimensionMax);
  const Measures start = network->measure(network->start());
  EXPECT_NEAR(start.excess, std::log(62.0), 2) << "about as good as a guess among 62";
  EXPECT_TRUE(std::isnan(start.grad_norm)) << "of a LeNet it is not measured";
}

}  // namespace
}  // namespace gradstream
