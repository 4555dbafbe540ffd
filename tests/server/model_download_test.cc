// The model from the HTTP port: which answers there are, and that one copy serves all who ask for a version.
#include "server/program/model_download.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/program/model_npz.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

class ModelDownloadTest : public testing::Test {
 protected:
  void publish(uint32_t version, bool has_copy) {
    auto snapshot = std::make_shared<WatchSnapshot>();
    snapshot->run = 3;
    snapshot->has_version = true;
    snapshot->version = version;
    snapshot->parameters = parameters_;
    if (has_copy) {
      auto model = std::make_shared<WatchedModel>();
      model->version = version;
      model->digest = 0xabc;
      model->values = {1, 2, 3, 4, 5, 6};
      snapshot->model = model;
    }
    board_.publish(snapshot);
  }
  // The answer, with a copy of this version for whoever wishes for one.
  HttpResponse answer_with(uint32_t version) {
    HttpResponse response;
    std::thread reader([&] { response = download_.answer(); });
    while (!board_.wants_model()) {
      std::this_thread::yield();
    }
    publish(version, true);
    reader.join();
    return response;
  }

  std::shared_ptr<RunParameters> parameters_ = [] {
    auto parameters = std::make_shared<RunParameters>();
    parameters->model->shape = {3, 2};
    parameters->model->problem = "kpca";
    return parameters;
  }();
  WatchBoard board_;
  ModelDownload download_{board_};
};

TEST_F(ModelDownloadTest, WithoutAVersionThereIsNone) {
  EXPECT_EQ(download_.answer().status, 503U) << "nothing is published";
  auto snapshot = std::make_shared<WatchSnapshot>();
  snapshot->run = 3;
  snapshot->parameters = parameters_;
  board_.publish(snapshot);
  EXPECT_EQ(download_.answer().status, 404U);
  EXPECT_THAT(download_.answer().body, HasSubstr("run 3 has no model yet"));
}

TEST_F(ModelDownloadTest, OneCopyServesAllWhoAskForAVersion) {
  publish(7, false);
  const HttpResponse first = answer_with(7);
  ASSERT_EQ(first.status, 200U) << first.body;
  EXPECT_EQ(first.file_name, "run3_v7.npz");
  NpzModel expected;
  expected.shape = {3, 2};
  const std::vector<Real> values = {1, 2, 3, 4, 5, 6};
  expected.model = values;
  expected.problem = "kpca";
  expected.digest = 0xabc;
  expected.run = 3;
  expected.version = 7;
  const std::vector<uint8_t> bytes = npz_bytes(expected);
  EXPECT_EQ(*first.shared_body, std::string(bytes.begin(), bytes.end()));
  const HttpResponse second = download_.answer();
  EXPECT_EQ(second.shared_body, first.shared_body) << "nobody is asked again";
  publish(8, false);
  EXPECT_EQ(answer_with(8).file_name, "run3_v8.npz");
}

TEST_F(ModelDownloadTest, NobodyWaitsInVainForACopy) {
  auto snapshot = std::make_shared<WatchSnapshot>();
  snapshot->run = 3;
  snapshot->has_version = true;
  snapshot->parameters = parameters_;
  snapshot->place.is_storage_failed = true;
  board_.publish(snapshot);
  EXPECT_THAT(download_.answer().body, HasSubstr("cannot write its database"));
  publish(7, false);
  EXPECT_THAT(download_.answer().body, HasSubstr("no copy of the model came within"));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(download_.answer().body, HasSubstr("has published nothing since"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(kModelWaitMs) / 2);
}

TEST_F(ModelDownloadTest, ABigModelIsNotGiven) {
  parameters_->model->shape = {32768, 1024};
  publish(7, false);
  const HttpResponse response = download_.answer();
  EXPECT_EQ(response.status, 413U);
  EXPECT_THAT(response.body, HasSubstr("134217728 bytes, and a download from this port at most 67108864"));
}

TEST(ModelWish, EndsByItself) {
  WatchBoard board;
  EXPECT_EQ(board.wait_for_model(1, 1, 1), nullptr);
  EXPECT_FALSE(board.wants_model());
}

}  // namespace
}  // namespace gradstream
