// Keys that devices draw, against a real database. Real programs that are killed on the way: key_change_test.py.
#include "server/program/key_changer.h"

#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/link/tls.h"
#include "server/link/session.h"
#include "tests/support/fleet_database.h"
#include "tests/support/server_peer.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// A request for device-1, whose key has bytes 1; the server's secret has bytes 11.
class KeyChangerTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(tls_start(nullptr, 0), Status::kOk);
    database_.enrol(1);
    ask_for_key();
  }
  void ask_for_key() {
    KeyChangeRow row;
    row.since_ms = now_ms_;
    row.window_s = 60;
    row.server_secret = FleetDatabase::key_of(11);
    ASSERT_TRUE(value_of(database_.command.request_key_change("device-1", row)));
  }
  EnrolledDevice device() { return *value_of(database_.command.find_device("device-1")); }
  // What a device with this key offers, with a secret of bytes `secret`, to the server's public key of `ask`.
  static KeyChange offer_of(const KeyChange& ask, uint8_t key, uint8_t secret, KeyProof* proof) {
    EXPECT_EQ(prove_as_device(KeyChangeTerms{"device-1", ask.generation, FleetDatabase::key_of(key)},
                              FleetDatabase::key_of(secret), ask.public_key, proof),
              Status::kOk);
    KeyChange offer;
    offer.generation = ask.generation;
    offer.has_public = true;
    offer.has_confirm = true;
    std::ranges::copy(proof->device_public, offer.public_key);
    std::ranges::copy(proof->confirm_device, offer.confirm);
    return offer;
  }
  KeyChange ask() {
    const std::optional<KeyChange> ask = changer_.find(device(), true);
    EXPECT_TRUE(ask.has_value());
    return ask.value_or(KeyChange());
  }
  void expect_refused(const KeyChange& offer, const std::string& reason) {
    const EnrolledDevice before = device();
    const KeyChanger::Ruling ruling = changer_.judge("device-1", offer);
    ASSERT_TRUE(ruling.answer.has_value());
    EXPECT_FALSE(ruling.is_changed || ruling.answer->has_confirm || ruling.answer->has_public);
    EXPECT_EQ(ruling.answer->generation, offer.generation);
    EXPECT_THAT(log_.find("key_change_refused"), HasSubstr("reason=" + reason));
    EXPECT_EQ(device().key, before.key);
    EXPECT_EQ(device().generation, before.generation);
  }

  LogCapture log_;
  FleetDatabase database_;
  FleetAlarm alarm_;
  uint64_t now_ms_ = 1000;
  KeyChanger changer_{database_.fleet, alarm_, [this] { return now_ms_; }};
};

TEST_F(KeyChangerTest, TheKeyThatBothEndsFindCountsAndTheOneBeforeForItsWindow) {
  KeyProof proof;
  const KeyChange offer = offer_of(ask(), 1, 5, &proof);
  EXPECT_EQ(offer.generation, 1U);
  for (int i = 0; i < 2; ++i) {  // and again, as its answer was lost
    const KeyChanger::Ruling ruling = changer_.judge("device-1", offer);
    ASSERT_TRUE(ruling.is_changed && ruling.answer && ruling.answer->has_confirm);
    EXPECT_TRUE(is_same_confirm(ruling.answer->confirm, proof.confirm_server));
    EXPECT_EQ(device().key, DeviceKey(proof.device_key));
    EXPECT_EQ(device().generation, 1U);
    EXPECT_EQ(device().previous_key, FleetDatabase::key_of(1));
    EXPECT_EQ(device().previous_until_ms, 61000U);
    EXPECT_EQ(device().key_change_since_ms, 0U);
    now_ms_ += 500;
  }
  EXPECT_EQ(value_of(database_.command.find_key_change("device-1"))->server_secret, DeviceKey()) << "it is gone";
  EXPECT_EQ(log_.count("key_changed"), 1U);
  EXPECT_FALSE(changer_.find(device(), true).has_value());
}

TEST_F(KeyChangerTest, AnotherServersProcessAnswersTheSame) {
  KeyProof proof;
  const KeyChange first = ask();
  KeyChanger next(database_.fleet, alarm_, [this] { return now_ms_; });
  const std::optional<KeyChange> again = next.find(device(), true);
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(std::ranges::equal(again->public_key, first.public_key)) << "a restart keeps the secret";
  EXPECT_TRUE(next.judge("device-1", offer_of(first, 1, 5, &proof)).is_changed);
}

TEST_F(KeyChangerTest, OneFlippedBitChangesNothing) {
  KeyProof proof;
  const KeyChange good = offer_of(ask(), 1, 5, &proof);
  for (size_t bit = 0; bit < 8 * kAgreedKeySize; ++bit) {
    KeyChange offer = good;
    offer.public_key[bit / 8] = static_cast<uint8_t>(offer.public_key[bit / 8] ^ (1U << bit % 8));
    expect_refused(offer, "device_not_proven");
  }
  for (size_t bit = 0; bit < 8 * kConfirmSize; ++bit) {
    KeyChange offer = good;
    offer.confirm[bit / 8] = static_cast<uint8_t>(offer.confirm[bit / 8] ^ (1U << bit % 8));
    expect_refused(offer, "device_not_proven");
  }
  KeyChange zero = good;
  std::ranges::fill(zero.public_key, uint8_t{0});
  zero.public_key[0] = 1;  // of small order: a shared secret that all know
  expect_refused(zero, "device_not_proven");
  EXPECT_EQ(log_.count("key_change_refused"), kFaultLines.burst) << "within one moment";
  EXPECT_TRUE(changer_.judge("device-1", good).is_changed) << "the request still waits";
}

// Whoever lacks the old key finds another new one.
TEST_F(KeyChangerTest, TheOldKeyIsPartOfTheNewOne) {
  KeyProof proof;
  expect_refused(offer_of(ask(), 2, 5, &proof), "device_not_proven");
}

TEST_F(KeyChangerTest, AnotherGenerationIsRefused) {
  KeyProof proof;
  for (const uint32_t generation : {2U, 3U, UINT32_MAX}) {
    KeyChange ask_again = ask();
    ask_again.generation = generation;
    expect_refused(offer_of(ask_again, 1, 5, &proof), "wrong_generation");
  }
  KeyChange now = ask();
  now.generation = 0;
  expect_refused(now, "wrong_generation");
}

// Two devices with one identity file: one of them has a key afterwards, and the log names the other one.
TEST_F(KeyChangerTest, AnotherKeyOfTheSameGenerationIsRefused) {
  KeyProof first;
  KeyProof second;
  const KeyChange asked = ask();
  const KeyChange winner = offer_of(asked, 1, 5, &first);
  const KeyChange loser = offer_of(asked, 1, 6, &second);
  EXPECT_TRUE(changer_.judge("device-1", winner).is_changed);
  expect_refused(loser, "key_taken");
  EXPECT_TRUE(changer_.judge("device-1", winner).is_changed) << "and its device may ask again";
  EXPECT_EQ(device().key, DeviceKey(first.device_key));
}

TEST_F(KeyChangerTest, AFileThatSomebodyCarriesEndsTheRequest) {
  KeyProof proof;
  const KeyChange offer = offer_of(ask(), 1, 5, &proof);
  EXPECT_EQ(value_of(database_.command.rotate_key("device-1", FleetDatabase::key_of(9), 5000)), 1U);
  EXPECT_EQ(device().key_change_since_ms, 0U);
  expect_refused(offer, "not_asked");
}

TEST_F(KeyChangerTest, ARequestBehindAFileIsForTheKeyInIt) {
  KeyProof proof;
  const KeyChange offer = offer_of(ask(), 1, 5, &proof);
  EXPECT_EQ(value_of(database_.command.rotate_key("device-1", FleetDatabase::key_of(9), 5000)), 1U);
  ask_for_key();
  expect_refused(offer, "wrong_generation");
  KeyProof of_file;
  EXPECT_TRUE(changer_.judge("device-1", offer_of(ask(), 9, 5, &of_file)).is_changed);
  EXPECT_EQ(device().generation, 2U);
}

TEST_F(KeyChangerTest, ARequestEndsAfterItsTime) {
  KeyProof proof;
  const KeyChange offer = offer_of(ask(), 1, 5, &proof);
  const EnrolledDevice asked = device();
  now_ms_ += kKeyChangeAgeMaxMs - 1;
  EXPECT_TRUE(changer_.find(asked, true).has_value());
  EXPECT_EQ(value_of(database_.fleet.end_expired(now_ms_)), 1000 + kKeyChangeAgeMaxMs) << "when it is over";
  now_ms_ += 1;
  EXPECT_FALSE(changer_.find(asked, true).has_value());
  expect_refused(offer, "not_asked");
  EXPECT_EQ(value_of(database_.fleet.end_expired(now_ms_)), UINT64_MAX);
  EXPECT_EQ(device().key_change_since_ms, 0U);
  EXPECT_EQ(value_of(database_.command.find_key_change("device-1"))->server_secret, DeviceKey());
  expect_refused(offer, "not_asked");
}

// Asked again while it waits: the device that has drawn a key already need not draw another one.
TEST_F(KeyChangerTest, ASecondRequestKeepsTheSecretAndBeginsItsTimeAnew) {
  const KeyChange first = ask();
  now_ms_ += 5000;
  KeyChangeRow row;
  row.since_ms = now_ms_;
  row.window_s = 0;
  row.server_secret = FleetDatabase::key_of(12);
  ASSERT_TRUE(value_of(database_.command.request_key_change("device-1", row)));
  EXPECT_EQ(device().key_change_since_ms, 6000U);
  EXPECT_TRUE(std::ranges::equal(ask().public_key, first.public_key));
  KeyProof proof;
  EXPECT_TRUE(changer_.judge("device-1", offer_of(first, 1, 5, &proof)).is_changed);
  EXPECT_EQ(device().previous_until_ms, 6000U) << "no window";
}

TEST_F(KeyChangerTest, ADeviceThatCannotIsNamedOnceForEachRequest) {
  const EnrolledDevice asked = device();
  EXPECT_FALSE(changer_.find(asked, false).has_value());
  EXPECT_FALSE(changer_.find(asked, false).has_value());
  EXPECT_EQ(log_.count("key_change_waits"), 1U);
  EXPECT_THAT(log_.find("key_change_waits"), HasSubstr("device=device-1"));
  now_ms_ += 1;
  ask_for_key();
  EXPECT_FALSE(changer_.find(device(), false).has_value());
  EXPECT_EQ(log_.count("key_change_waits"), 2U);
}

TEST_F(KeyChangerTest, ADeviceWithoutARequestIsNotAsked) {
  database_.enrol(2);
  const EnrolledDevice other = *value_of(database_.command.find_device("device-2"));
  EXPECT_FALSE(changer_.find(other, true).has_value());
  KeyProof proof;
  const KeyChanger::Ruling ruling = changer_.judge("device-2", offer_of(ask(), 1, 5, &proof));
  EXPECT_FALSE(ruling.is_changed);
  EXPECT_THAT(log_.find("key_change_refused"), HasSubstr("device=device-2 generation=1 reason=not_asked"));
}

TEST_F(KeyChangerTest, ADatabaseThatFailsAnswersNothing) {
  KeyProof proof;
  const EnrolledDevice asked = device();
  const KeyChange offer = offer_of(ask(), 1, 5, &proof);
  database_.break_fleet();
  EXPECT_FALSE(changer_.judge("device-1", offer).answer.has_value());
  EXPECT_FALSE(changer_.find(asked, true).has_value());
  EXPECT_GE(log_.count("fleet_unreadable"), 1U);
  database_.mend_fleet();
  EXPECT_TRUE(changer_.judge("device-1", offer).is_changed);
}

}  // namespace
}  // namespace gradstream
