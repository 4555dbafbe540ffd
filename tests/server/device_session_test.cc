#include "server/coordinator/device_session.h"

#include <gtest/gtest.h>

#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(DeviceSession, AnotherNetworkIsAnotherImage) {
  gs_Hello hello = good_hello(1);
  const uint32_t without = image_crc32c(hello);
  hello.network_digest = 7;
  EXPECT_NE(image_crc32c(hello), without);
}

TEST(DeviceSession, KnowsWhatAHelloChanges) {
  DeviceSession session;
  gs_Hello hello = good_hello(40);
  hello.has_model = true;
  hello.version = 3;
  HelloNews news = take_hello(hello, "", &session);
  EXPECT_FALSE(news.is_new_image) << "nothing was known of it";
  EXPECT_TRUE(news.was_capable);
  EXPECT_TRUE(news.has_other_lacks);
  EXPECT_TRUE(session.is_heard && session.is_capable);
  EXPECT_EQ(session.sample_count, 40U);
  EXPECT_EQ(session.version_held, 3U);

  hello.has_model = false;
  news = take_hello(hello, "", &session);
  EXPECT_FALSE(news.is_new_image || news.has_other_lacks);
  EXPECT_EQ(session.version_held, 0U) << "a number without a model says nothing";

  hello.capabilities.arena_size += 8;
  news = take_hello(hello, "problem:kpca", &session);
  EXPECT_TRUE(news.is_new_image && news.was_capable && news.has_other_lacks);
  EXPECT_FALSE(session.is_capable);
  news = take_hello(hello, "problem:kpca", &session);
  EXPECT_FALSE(news.is_new_image || news.was_capable || news.has_other_lacks);
}

TEST(DeviceSession, WhatItRefusedForGoodHoldsUntilItBeginsAnewOrAnswers) {
  DeviceSession session;
  take_hello(good_hello(1), "", &session);
  const auto refuse = [&session] {
    session.refusals.is_for_good = session.refusals.keeps_sums = session.refusals.keeps_trials = true;
    session.refusals.for_good = gs_Reason_REASON_OUT_OF_MEMORY;
    session.is_capable = false;
  };
  refuse();
  take_hello(good_hello(1), "", &session);
  EXPECT_FALSE(session.is_capable) << "the same image refuses the same";

  forgive_refusals(&session);
  EXPECT_TRUE(session.is_capable && session.refusals.is_forgiven);
  EXPECT_FALSE(session.refusals.is_for_good || session.refusals.keeps_sums || session.refusals.keeps_trials);
  EXPECT_EQ(session.refusals.for_good, gs_Reason_REASON_NONE);

  refuse();
  note_answer(&session);
  EXPECT_TRUE(session.is_capable);
  EXPECT_FALSE(session.refusals.is_for_good || session.refusals.keeps_sums || session.refusals.keeps_trials);

  take_hello(good_hello(1), "problem:kpca", &session);
  forgive_refusals(&session);
  note_answer(&session);
  EXPECT_FALSE(session.is_capable) << "its image lacks what it lacked";
}

}  // namespace
}  // namespace gradstream
