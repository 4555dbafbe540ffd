#include "server/program/network_file.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/fields.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "tests/support/gsn_bytes.h"
#include "tests/support/network_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// A run on a product of these parts that trains the network of the file.
void set_run(const std::string& path, const std::string& parts, RunParameters* run) {
  run->model->manifold = ManifoldId::kProduct;
  run->model->parts = parts;
  run->model->shape = {};
  run->model->network = path;
  set_parts(run);
}

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
  ASSERT_EQ(read_network_file(file.path, &read).sentence, "");
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
  EXPECT_THAT(read_network_file(file.path, &read).sentence,
              HasSubstr(file.path.string() + ": layer 2, byte 128: the kind is 77"));
  EXPECT_THAT(read_network_file("/none/there.gsn", &read).sentence, HasSubstr("/none/there.gsn cannot be read"));
  file.write({});
  EXPECT_THAT(read_network_file(file.path, &read).sentence, HasSubstr("there are 0 bytes"));
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

TEST(NetworkFile, APointHas16777216NumbersAtMost) {
  for (const uint16_t outputs : {4096, 4097}) {
    TestNetwork net({1, 1, 4095});
    Layer layer;
    layer.kind = LayerKind::kDense;
    layer.trained = TrainedForm::kDense;
    layer.out = {1, 1, outputs};
    net.add(layer);
    EXPECT_EQ(network_point_fault(net.network).sentence.empty(), outputs == 4096) << network_size(net.network);
  }
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
  EXPECT_EQ(settle_network(&run, &is_file_fault).sentence, "") << "no network, nothing to do";
  EXPECT_FALSE(is_file_fault);
  set_run(file.path, network_parts_text(small.network), &run);
  NetworkStart start;
  ASSERT_EQ(settle_network(&run, &is_file_fault, &start).sentence, "");
  EXPECT_EQ(start.path, file.path);
  EXPECT_EQ(start.digest, network_digest(small.network));
  EXPECT_THAT(start.fault, HasSubstr("trained layer 8 holds no weights")) << "layer 10 holds them";
  EXPECT_TRUE(start.values.empty());
  EXPECT_EQ(run.model->network, hex(network_digest(small.network)));
  EXPECT_EQ(run.network_digest(), network_digest(small.network));
  std::filesystem::remove(file.path);
  EXPECT_EQ(settle_network(&run, &is_file_fault).sentence, "") << "a digest asks for no file";
  run.model->network = "00C0FFEE12345678";
  EXPECT_EQ(settle_network(&run, &is_file_fault).sentence, "");
  EXPECT_EQ(run.model->network, "00c0ffee12345678") << "as digests are written and compared";
}

TEST(NetworkFile, RefusesWhatTheRunCannotTrain) {
  SmallNetwork small;
  const TestFile file(gsn_bytes(small.network));
  RunParameters run;
  run.model->network = file.path;
  run.model->shape = {network_size(small.network) + 1, 1};
  bool is_file_fault = true;
  EXPECT_THAT(settle_network(&run, &is_file_fault).sentence,
              testing::AllOf(HasSubstr("trains 39 numbers, and the run's point has 40"),
                             HasSubstr("run.parts = \"fixed_rank 4x4 2")));
  EXPECT_FALSE(is_file_fault);
  EXPECT_EQ(run.model->network, file.path) << "left as it was";
  small.network.layer_count = 7;
  file.write(gsn_bytes(small.network));
  EXPECT_THAT(settle_network(&run, &is_file_fault).sentence, HasSubstr("trains nothing"));
  file.write({1, 2, 3, 4});
  EXPECT_THAT(settle_network(&run, &is_file_fault).sentence, HasSubstr("run.network " + file.path.string()));
  EXPECT_TRUE(is_file_fault);
}

// The first part that lies elsewhere is named, whatever the numbers are together.
TEST(NetworkFile, ComparesWhereThePartsLie) {
  const SmallNetwork small;
  const TestFile file(gsn_bytes(small.network));
  const auto fault_of = [&](const std::string& parts) {
    RunParameters run;
    set_run(file.path, parts, &run);
    EXPECT_EQ(run.model->shape.size(), network_size(small.network)) << parts;
    bool is_file_fault = true;
    const std::string fault = settle_network(&run, &is_file_fault).sentence;
    EXPECT_FALSE(is_file_fault);
    return fault;
  };
  EXPECT_EQ(fault_of("fixed_rank 4x4 2, euclidean 4x1, euclidean 4x3, euclidean 3x1"), "");
  EXPECT_EQ(fault_of("fixed_rank 4x4 2, euclidean 19x1"), "") << "free numbers may lie together";
  EXPECT_EQ(fault_of("fixed_rank 4x4 2, euclidean 4x1, stiefel 4x3, sphere 3x1"), "") << "any manifold of that shape";
  EXPECT_THAT(fault_of("fixed_rank 4x4 2, euclidean 4x3, euclidean 4x1, euclidean 3x1"),
              testing::AllOf(HasSubstr("part 2 of the run is euclidean 4x3, the numbers 20 to 31 of the point, and "
                                       "part 3 of the network is euclidean 4x3, the numbers 24 to 35: the weights of "
                                       "layer 10"),
                             HasSubstr("run.parts = \"fixed_rank 4x4 2, euclidean 4x1"), HasSubstr("digest")));
  EXPECT_THAT(fault_of("euclidean 39x1"), HasSubstr("part 1 of the run is euclidean 39x1, the numbers 0 to 38"));
  EXPECT_THAT(fault_of("fixed_rank 8x1 1, euclidean 10x1, euclidean 4x1, euclidean 15x1"),
              HasSubstr("part 1 of the network is fixed_rank 4x4 2"));
  EXPECT_THAT(fault_of("fixed_rank 4x4 2, euclidean 4x1, stiefel 6x2, euclidean 3x1"),
              HasSubstr("part 3 of the run is stiefel 6x2"));
  EXPECT_THAT(fault_of("fixed_rank 4x4 2, euclidean 4x1, euclidean 4x3, sphere 2x1, euclidean 1x1"),
              HasSubstr("the biases of layer 10"));
}

// A shape that no part of a run has lies in several.
TEST(NetworkFile, TakesThePartsThatItNamesItself) {
  Layer layer;
  layer.kind = LayerKind::kDense;
  layer.trained = TrainedForm::kDense;
  layer.in = {1, 1, 40000};
  layer.out = {1, 1, 2};
  Network network;
  network.in = layer.in;
  network.layers = &layer;
  network.layer_count = 1;
  for (const char* const parts :
       {"euclidean 32768x2, euclidean 14464x1, euclidean 2x1", "euclidean 20000x4, euclidean 2x1"}) {
    RunParameters run;
    set_run("", parts, &run);
    EXPECT_EQ(network_parts_fault(run, network).sentence, "");
  }
  RunParameters run;
  run.model->manifold = ManifoldId::kEuclidean;
  run.model->shape = {network_size(network), 1};
  EXPECT_EQ(network_parts_fault(run, network).sentence, "") << "one part of free numbers";
  run.model->manifold = ManifoldId::kSphere;
  EXPECT_THAT(network_parts_fault(run, network).sentence, HasSubstr("part 1 of the run is sphere 80002x1"));
}

TEST(NetworkFile, KeepsTheNumbersThatTrainedLayersHold) {
  SmallNetwork small;
  small.network.layers = small.layers.data() + 9;  // an activation, then the head with its start
  small.network.layer_count = 2;
  small.network.in = small.layers[9].in;
  TestFile file(gsn_bytes(small.network));
  RunParameters run;
  set_run(file.path, "euclidean 4x3, euclidean 3x1", &run);
  bool is_file_fault = false;
  NetworkStart start;
  ASSERT_EQ(settle_network(&run, &is_file_fault, &start).sentence, "");
  EXPECT_EQ(start.fault, "");
  const std::vector<Real> held = {0.5F, -0.5F, 0.25F, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3};
  EXPECT_EQ(start.values, held);
  // Biases alone are no start, and nothing at all is none either.
  small.layers[10].weights = nullptr;
  file.write(gsn_bytes(small.network));
  set_run(file.path, "euclidean 4x3, euclidean 3x1", &run);
  ASSERT_EQ(settle_network(&run, &is_file_fault, &start).sentence, "");
  EXPECT_THAT(start.fault, HasSubstr("layer 1 holds no weights"));
  EXPECT_TRUE(start.values.empty());
  small.layers[10].biases = nullptr;
  file.write(gsn_bytes(small.network));
  set_run(file.path, "euclidean 4x3, euclidean 3x1", &run);
  ASSERT_EQ(settle_network(&run, &is_file_fault, &start).sentence, "");
  EXPECT_EQ(start.fault, "");
  EXPECT_TRUE(start.values.empty());
}

}  // namespace
}  // namespace gradstream
