#include "server/program/network_file.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/fields.h"
#include "server/run/run_core.h"
#include "tests/support/gsn_bytes.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// Removed with the test.
struct TestFile {
  std::filesystem::path path;
  explicit TestFile(const std::vector<uint8_t>& bytes) {
    path = std::filesystem::temp_directory_path() / ("network_file_test." + std::to_string(::getpid()) + ".gsn");
    write(bytes);
  }
  ~TestFile() { std::filesystem::remove(path); }
  void write(const std::vector<uint8_t>& bytes) const {
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
};

TEST(NetworkFile, IsReadWhole) {
  const SmallNetwork small;
  std::vector<uint8_t> bytes = gsn_bytes(small.network);
  const size_t size = bytes.size();
  bytes.resize(size + 100, 0xff);
  const TestFile file(bytes);
  NetworkFile read;
  ASSERT_EQ(read_network_file(file.path, &read), "");
  EXPECT_EQ(read.size, size);
  EXPECT_EQ(read.digest, network_digest(small.network));
  EXPECT_EQ(network_size(read.network), network_size(small.network));
}

TEST(NetworkFile, IsRefusedByName) {
  const SmallNetwork small;
  std::vector<uint8_t> bytes = gsn_bytes(small.network);
  bytes[kGsnHeadSize + 2 * kGsnRecordSize + kGsnKind] = 77;
  mend_checksum(bytes);
  const TestFile file(bytes);
  NetworkFile read;
  EXPECT_THAT(read_network_file(file.path, &read),
              HasSubstr(file.path.string() + ": layer 2, byte 128: the kind is 77"));
  EXPECT_THAT(read_network_file("/none/there.gsn", &read), HasSubstr("/none/there.gsn cannot be read"));
  file.write({});
  EXPECT_THAT(read_network_file(file.path, &read), HasSubstr("there are 0 bytes"));
}

TEST(NetworkFile, TellsThePartsOfThePoint) {
  SmallNetwork small;
  EXPECT_EQ(network_parts_text(small.network), "fixed_rank 4x4 2, euclidean 4x1, euclidean 4x3, euclidean 3x1");
  // Ten parts, of which the first is none that may be joined.
  std::vector<Layer> layers(5, small.layers[8]);
  for (size_t i = 1; i < layers.size(); ++i) {
    layers[i].trained = TrainedForm::kDense;
    layers[i].rank = 0;
  }
  Network network;
  network.in = layers[0].in;
  network.layers = layers.data();
  network.layer_count = 5;
  ASSERT_EQ(check_network(network).code, NetworkFaultCode::kNone);
  EXPECT_EQ(network_parts_text(network), "fixed_rank 4x4 2, euclidean 84x1");
  network.layers = small.layers.data() + 9;
  network.layer_count = 1;
  EXPECT_EQ(network_parts_text(network), "");
}

// Shapes beyond those of a part: the numbers are the same, in parts that a run takes.
TEST(NetworkFile, GivesLargePartsAShapeThatARunTakes) {
  Layer layer;
  layer.kind = LayerKind::kDense;
  layer.trained = TrainedForm::kDense;
  layer.in = {1, 1, 40000};
  layer.out = {1, 1, 2};
  Network network;
  network.in = layer.in;
  network.layers = &layer;
  network.layer_count = 1;
  ASSERT_EQ(check_network(network).code, NetworkFaultCode::kNone);
  EXPECT_EQ(network_parts_text(network), "euclidean 32768x2, euclidean 14464x1, euclidean 2x1");
}

TEST(NetworkFile, CountsMultiplications) {
  const SmallNetwork small;
  EXPECT_EQ(layer_multiplication_count(small.layers[0]), 36U * 18);
  EXPECT_EQ(layer_multiplication_count(small.layers[1]), 36U * 18);
  EXPECT_EQ(layer_multiplication_count(small.layers[2]), 0U);
  EXPECT_EQ(layer_multiplication_count(small.layers[8]), 20U);
  EXPECT_EQ(layer_multiplication_count(small.layers[10]), 12U);
}

TEST(NetworkFile, PutsTheDigestInThePlaceOfThePath) {
  const SmallNetwork small;
  const TestFile file(gsn_bytes(small.network));
  RunParameters run;
  bool is_file_fault = true;
  EXPECT_EQ(settle_network(&run, &is_file_fault), "") << "no network, nothing to do";
  EXPECT_FALSE(is_file_fault);
  run.model->network = file.path;
  run.model->shape = {network_size(small.network), 1};
  ASSERT_EQ(settle_network(&run, &is_file_fault), "");
  EXPECT_EQ(run.model->network, hex(network_digest(small.network)));
  EXPECT_EQ(run.network_digest(), network_digest(small.network));
  std::filesystem::remove(file.path);
  EXPECT_EQ(settle_network(&run, &is_file_fault), "") << "a digest asks for no file";
  run.model->network = "00C0FFEE12345678";
  EXPECT_EQ(settle_network(&run, &is_file_fault), "");
  EXPECT_EQ(run.model->network, "00c0ffee12345678") << "as digests are written and compared";
}

TEST(NetworkFile, RefusesWhatTheRunCannotTrain) {
  SmallNetwork small;
  const TestFile file(gsn_bytes(small.network));
  RunParameters run;
  run.model->network = file.path;
  run.model->shape = {network_size(small.network) + 1, 1};
  bool is_file_fault = true;
  EXPECT_THAT(settle_network(&run, &is_file_fault),
              testing::AllOf(HasSubstr("trains 39 numbers, and the run's point has 40"),
                             HasSubstr("run.parts = \"fixed_rank 4x4 2")));
  EXPECT_FALSE(is_file_fault);
  EXPECT_EQ(run.model->network, file.path) << "left as it was";
  small.network.layer_count = 7;
  file.write(gsn_bytes(small.network));
  EXPECT_THAT(settle_network(&run, &is_file_fault), HasSubstr("trains nothing"));
  file.write({1, 2, 3, 4});
  EXPECT_THAT(settle_network(&run, &is_file_fault), HasSubstr("run.network " + file.path.string()));
  EXPECT_TRUE(is_file_fault);
}

}  // namespace
}  // namespace gradstream
