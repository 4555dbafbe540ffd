// The files of versions, written behind the journal.
#include "server/program/publisher.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/program/model_export.h"
#include "server/run/average_keys.h"
#include "tests/support/server_peer.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

RunParameters averaged_parameters() {
  RunParameters p = scalar_parameters();
  p.average->average_period = 1;
  p.average->average_from = 1;
  return p;
}

class PublisherTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  // Returns once the files are written.
  void publish(const Publisher& publisher, uint32_t version) {
    StoreThread thread(io_, store_, {}, {[](uint64_t, const ChainHead&) {}, [](StoreStatus) {}, [] {}});
    publisher.publish(version, model().digest(), model(), average_, thread);
    EXPECT_TRUE(thread.stop());
  }
  const Replica& model() const { return rule_.server.replica; }
  std::vector<uint8_t> bytes_of(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t file_count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::string folder_ = testing::TempDir() + "publisher_XXXXXX";
  LogCapture log_;
  asio::io_context io_;
  StoreMemory store_;
  TestRule rule_{averaged_parameters()};  // its replica stands at version 2
  ModelAverage average_{rule_.server.parameters, rule_.server.arena};
};

TEST_F(PublisherTest, AVersionIsAFileWithItsDigestInTheLog) {
  publish(Publisher(folder_, 3), 2);
  const Shape shape = model().shape();
  EXPECT_EQ(bytes_of("run3_v000002.npy"), npy_bytes(shape, {model().model(), shape.size()}));
  EXPECT_EQ(file_count(), 1U) << "there is no average";
  EXPECT_THAT(log_.find("version"), HasSubstr("version=2 digest=" + hex(model().digest())));
  EXPECT_THAT(log_.find("version"), HasSubstr("file=" + folder_ + "/run3_v000002.npy"));
}

TEST_F(PublisherTest, AnAverageOfTheSameVersionStandsBesideIt) {
  const std::vector<Real> other = draw_values(model().shape().size(), 1, 0.1F);
  average_.follow(1, other.data());
  publish(Publisher(folder_, 1), 2);
  EXPECT_EQ(file_count(), 1U) << "its last version is another";
  average_.follow(2, model().model());
  ASSERT_EQ(average_.last_version(), 2U);
  publish(Publisher(folder_, 1), 2);
  EXPECT_EQ(file_count(), 2U);
  EXPECT_EQ(bytes_of("run1_v000002_average.npy"), npy_bytes(model().shape(), average_.model()));
  EXPECT_NE(bytes_of("run1_v000002_average.npy"), bytes_of("run1_v000002.npy"));
  EXPECT_EQ(log_.count("version"), 3U);
}

TEST_F(PublisherTest, WithoutAFolderTheLogTellsAlone) {
  publish(Publisher("", 1), 2);
  EXPECT_EQ(file_count(), 0U);
  EXPECT_EQ(log_.find("version"), "version version=2 digest=" + hex(model().digest()));
}

TEST_F(PublisherTest, AModelOfAnotherVersionIsNotPublished) {
  publish(Publisher(folder_, 1), 1);
  publish(Publisher("", 1), 3);
  EXPECT_EQ(file_count(), 0U);
  EXPECT_EQ(log_.count("version"), 0U);
}

TEST_F(PublisherTest, AFolderThatIsGoneIsNamed) {
  publish(Publisher(folder_ + "/gone", 1), 2);
  EXPECT_EQ(log_.count("version"), 0U);
  EXPECT_THAT(log_.find("export_failed"), HasSubstr("version=2"));
  EXPECT_THAT(log_.find("export_failed"), HasSubstr("cannot write " + folder_ + "/gone/run1_v000002.npy"));
}

}  // namespace
}  // namespace gradstream
