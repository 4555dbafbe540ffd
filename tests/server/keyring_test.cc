// The keys of handshakes, and how a peer becomes a device during one, against a real database.
#include "server/program/keyring.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/link/tls.h"
#include "tests/support/fleet_database.h"
#include "tests/support/server_peer.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

class KeyringTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(tls_start(nullptr, 0), Status::kOk);
    config_.database = database_.path();
  }
  // What a handshake of this identity gets; none: it is unknown.
  std::optional<PskEntry> look_up(const std::string& identity) {
    PskEntry entry;
    return keyring_.lookup()(identity, &entry) ? std::optional(entry) : std::nullopt;
  }
  DeviceState state_of(const std::string& name) {
    std::optional<EnrolledDevice> row = value_of(database_.command.find_device(name));
    EXPECT_TRUE(row.has_value());
    return row ? row->state : DeviceState::kRevoked;
  }
  // Of an older release, unless it is proven: then its server's secret has bytes 11.
  uint32_t add_claim(const std::string& name, uint32_t count_max, bool is_proven = false) {
    ClaimRow claim;
    claim.name = name;
    claim.key = FleetDatabase::key_of(10);
    claim.is_proven = is_proven;
    claim.server_secret = FleetDatabase::key_of(11);
    claim.count_max = count_max;
    claim.expires_ms = 2000;
    claim.id = value_of(database_.command.add_claim(claim)).value_or(0);
    return claim.id;
  }

  // Of a device that sends its key.
  static ClaimRequest request_of(const std::string& name, uint8_t key) {
    ClaimRequest request;
    request.device = identity_of(name, key);
    return request;
  }

  LogCapture log_;
  FleetDatabase database_;
  ServerConfig config_;
  FleetAlarm alarm_;
  uint64_t now_ms_ = 1000;
  Keyring keyring_{config_, database_.fleet, alarm_, [this] { return now_ms_; }};
};

TEST_F(KeyringTest, EachDeviceHasItsKeyAndAStandingAndStrangersHaveNone) {
  for (const uint8_t number : {1, 2, 3, 4}) {
    database_.enrol(number, number == 3 ? DeviceState::kPending : DeviceState::kActive);
  }
  database_.set_state("device-2", DeviceState::kDisabled);
  EXPECT_TRUE(value_of(database_.command.revoke_device("device-4")));
  const PskRefusal expected[] = {PskRefusal::kNone, PskRefusal::kInactive, PskRefusal::kInactive, PskRefusal::kRevoked};
  for (uint8_t index = 0; index < 4; ++index) {
    const std::optional<PskEntry> entry = look_up("device-" + std::to_string(index + 1));
    ASSERT_TRUE(entry.has_value()) << int{index};
    EXPECT_EQ(entry->key, FleetDatabase::key_of(index + 1));
    EXPECT_EQ(entry->device, index);
    EXPECT_EQ(entry->claim, 0U);
    EXPECT_EQ(entry->refusal, expected[index]) << int{index};
  }
  EXPECT_FALSE(look_up("device-5").has_value());
  EXPECT_FALSE(look_up("~device-1").has_value()) << "no claim";
  EXPECT_EQ(log_.count("fleet_unreadable"), 0U);
}

TEST_F(KeyringTest, AfterARotationBothKeysCountUntilTheWindowIsOver) {
  database_.enrol(1);
  std::optional<uint32_t> generation =
      value_of(database_.command.rotate_key("device-1", FleetDatabase::key_of(99), 1500));
  ASSERT_EQ(generation, 1U);
  const std::optional<PskEntry> old = look_up("device-1");
  const std::optional<PskEntry> young = look_up("device-1~1");
  ASSERT_TRUE(old && young);
  EXPECT_EQ(old->key, FleetDatabase::key_of(1));
  EXPECT_EQ(old->refusal, PskRefusal::kNone);
  EXPECT_EQ(young->key, FleetDatabase::key_of(99));
  EXPECT_EQ(young->refusal, PskRefusal::kNone);
  EXPECT_FALSE(look_up("device-1~2").has_value()) << "of a rotation that was not";
  now_ms_ = 1500;
  EXPECT_EQ(look_up("device-1")->refusal, PskRefusal::kExpired);
  EXPECT_NE(look_up("device-1")->key, FleetDatabase::key_of(1));
  EXPECT_EQ(look_up("device-1~1")->refusal, PskRefusal::kNone);
}

TEST_F(KeyringTest, AClaimIsFoundByItsMarkAndEndsByTheClock) {
  const uint32_t claim = add_claim("batch", 1);
  const std::optional<PskEntry> entry = look_up("~batch");
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->key, FleetDatabase::key_of(10));
  EXPECT_EQ(entry->device, kNoDevice);
  EXPECT_EQ(entry->claim, claim);
  EXPECT_EQ(entry->refusal, PskRefusal::kNone);
  EXPECT_FALSE(look_up("batch").has_value()) << "no device";
  now_ms_ = 2000;
  EXPECT_EQ(look_up("~batch")->refusal, PskRefusal::kClaimEnded);
}

// A board computer without a clock of its own starts up to an hour back after a power cut.
TEST_F(KeyringTest, WhatIsOverStaysSoWhenTheClockIsSetBack) {
  database_.enrol(1);
  EXPECT_TRUE(value_of(database_.command.rotate_key("device-1", FleetDatabase::key_of(99), 1500)));
  add_claim("expired", 3);
  add_claim("ended", 3);
  EXPECT_TRUE(value_of(database_.command.end_claim("ended", 1200)));
  uint64_t next_ms = value_of(database_.fleet.end_expired(2000));
  EXPECT_EQ(next_ms, UINT64_MAX);
  now_ms_ = 100;
  EXPECT_EQ(look_up("device-1")->refusal, PskRefusal::kExpired);
  EXPECT_EQ(look_up("device-1")->key, FleetDatabase::key_of(99)) << "the previous key is gone";
  EXPECT_EQ(look_up("device-1~1")->refusal, PskRefusal::kNone);
  EXPECT_EQ(look_up("~expired")->refusal, PskRefusal::kClaimEnded);
  EXPECT_EQ(look_up("~ended")->refusal, PskRefusal::kClaimEnded);
  EXPECT_EQ(keyring_.grant_claim(1, request_of("intruder", 5)).reason, gs_Reason_REASON_CLAIM_ENDED);
  EXPECT_EQ(keyring_.grant_claim(2, request_of("intruder", 5)).reason, gs_Reason_REASON_CLAIM_ENDED);
}

TEST_F(KeyringTest, EachFurtherThreadLooksUpThroughAConnectionOfItsOwn) {
  std::vector<PskLookup> lookups;
  ASSERT_EQ(keyring_.open_lookups(2, &lookups).sentence, "");
  ASSERT_EQ(lookups.size(), 2U);
  database_.enrol(1);
  for (const PskLookup& lookup : lookups) {
    PskEntry entry;
    EXPECT_TRUE(lookup("device-1", &entry));
    EXPECT_EQ(entry.key, FleetDatabase::key_of(1));
  }
  config_.database = database_.path() + ".gone";
  EXPECT_THAT(keyring_.open_lookups(1, &lookups).sentence, HasSubstr("server.limits.io_threads"));
  EXPECT_EQ(lookups.size(), 2U);
}

TEST_F(KeyringTest, WhatCannotBeReadIsUnknownAndNamedOnce) {
  database_.enrol(1);
  ASSERT_TRUE(look_up("device-1").has_value());
  database_.break_fleet();
  EXPECT_FALSE(look_up("device-1").has_value());
  EXPECT_FALSE(look_up("device-1").has_value());
  EXPECT_EQ(log_.count("fleet_unreadable"), 1U);
  database_.mend_fleet();
  EXPECT_TRUE(look_up("device-1").has_value());
}

TEST_F(KeyringTest, AStrangerIsRegisteredOnceAndThenHasItsStanding) {
  config_.device_registration = "pending";
  const Keyring::Registration first = keyring_.register_device("stranger", 0);
  EXPECT_EQ(first.refusal, TlsFault::kInactive);
  EXPECT_EQ(first.device, 0U);
  EXPECT_TRUE(first.is_new);
  EXPECT_EQ(state_of("stranger"), DeviceState::kPending);
  EXPECT_THAT(log_.find("device_registered"), HasSubstr("device=stranger index=0 state=pending"));
  const Keyring::Registration again = keyring_.register_device("stranger", 1);
  EXPECT_EQ(again.refusal, TlsFault::kInactive);
  EXPECT_EQ(again.device, 0U);
  EXPECT_FALSE(again.is_new);
  EXPECT_EQ(log_.count("device_registered"), 1U);
  database_.set_state("stranger", DeviceState::kActive);
  EXPECT_EQ(keyring_.register_device("stranger", 1).refusal, TlsFault::kNone);
  EXPECT_TRUE(value_of(database_.command.revoke_device("stranger")));
  EXPECT_EQ(keyring_.register_device("stranger", 1).refusal, TlsFault::kRevoked);
  config_.device_registration = "active";
  EXPECT_EQ(keyring_.register_device("other", 1).refusal, TlsFault::kNone);
  EXPECT_EQ(state_of("other"), DeviceState::kActive);
}

TEST_F(KeyringTest, RegistrationHasASwitchTwoLimitsAndAFailure) {
  config_.device_registration = "off";
  EXPECT_EQ(keyring_.register_device("a", 0).refusal, TlsFault::kUnknownIdentity);
  config_.device_registration = "active";
  config_.registration_device_count_max = 3;
  EXPECT_EQ(keyring_.register_device("a", 3).refusal, TlsFault::kRegistrationLimit);
  config_.registrations = {1, 1};
  EXPECT_EQ(keyring_.register_device("a", 2).refusal, TlsFault::kNone);
  EXPECT_EQ(keyring_.register_device("b", 2).refusal, TlsFault::kRegistrationLimit) << "within the same second";
  EXPECT_EQ(database_.devices().size(), 1U) << "only a";
  now_ms_ += 1000;
  database_.break_fleet();
  const Keyring::Registration failed = keyring_.register_device("b", 2);
  EXPECT_EQ(failed.refusal, TlsFault::kRegistrationFailed);
  EXPECT_EQ(failed.device, kNoDevice);
  EXPECT_FALSE(failed.is_new);
}

TEST_F(KeyringTest, AClaimLetsInAsManyDevicesAsItMay) {
  const uint32_t claim = add_claim("batch", 1);
  EXPECT_EQ(keyring_.grant_claim(claim, request_of("kitchen", 5)).reason, gs_Reason_REASON_NONE);
  EXPECT_THAT(log_.find("claim_granted"), HasSubstr("device=kitchen claim=" + std::to_string(claim)));
  EXPECT_EQ(look_up("kitchen")->key, FleetDatabase::key_of(5)) << "the key that the device has drawn";
  EXPECT_EQ(keyring_.grant_claim(claim, request_of("kitchen", 5)).reason, gs_Reason_REASON_NONE)
      << "its answer was lost";
  EXPECT_EQ(log_.count("claim_granted"), 1U);
  EXPECT_EQ(keyring_.grant_claim(claim, request_of("kitchen", 6)).reason, gs_Reason_REASON_CLAIM_USED);
  EXPECT_EQ(keyring_.grant_claim(claim, request_of("cellar", 7)).reason, gs_Reason_REASON_CLAIM_ENDED);
  EXPECT_EQ(log_.count("claim_refused"), 2U);
  EXPECT_EQ(database_.devices().size(), 1U);
  for (uint32_t i = 0; i < 2 * kFaultLines.burst; ++i) {
    EXPECT_EQ(keyring_.grant_claim(claim, request_of("cellar", 7)).reason, gs_Reason_REASON_CLAIM_ENDED);
  }
  EXPECT_EQ(log_.count("claim_refused"), kFaultLines.burst) << "within one moment";
  database_.break_fleet();
  EXPECT_EQ(keyring_.grant_claim(claim, request_of("kitchen", 5)).reason, gs_Reason_REASON_STORAGE);
}

TEST_F(KeyringTest, ADatabaseThatFailsIsNotCalledTheClaimsFault) {
  const uint32_t claim = add_claim("batch", 1);
  database_.break_fleet();
  EXPECT_EQ(keyring_.grant_claim(claim, request_of("kitchen", 5)).reason, gs_Reason_REASON_STORAGE);
  EXPECT_THAT(log_.find("claim_refused"), HasSubstr("reason=storage remedy=\"free space or repair the server's disk"));
}

// A device with the file of claim "batch", and what it sends.
class ProvenClaim : public KeyringTest {
 protected:
  void SetUp() override {
    KeyringTest::SetUp();
    claim_ = add_claim("batch", 2, true);
    ASSERT_EQ(find_public_key(FleetDatabase::key_of(11), server_public_), Status::kOk);
  }
  // secret: its bytes.
  ClaimRequest prepare(const std::string& name, uint8_t secret, KeyProof* proof) const {
    ClaimRequest request = request_of(name, 0);
    request.is_proven = true;
    EXPECT_EQ(prove_as_device({"~batch", name, FleetDatabase::key_of(10)}, FleetDatabase::key_of(secret),
                              server_public_, proof),
              Status::kOk);
    std::ranges::copy(proof->device_public, request.device.key);
    std::ranges::copy(proof->confirm_device, request.confirm);
    return request;
  }

  uint32_t claim_ = 0;
  std::array<uint8_t, kAgreedKeySize> server_public_ = {};
};

TEST_F(ProvenClaim, EnrolsTheKeyThatBothEndsFind) {
  KeyProof proof;
  const ClaimRequest request = prepare("kitchen", 5, &proof);
  for (int i = 0; i < 2; ++i) {  // and again, as its answer was lost
    const ClaimVerdict verdict = keyring_.grant_claim(claim_, request);
    EXPECT_EQ(verdict.reason, gs_Reason_REASON_NONE);
    EXPECT_TRUE(verdict.is_confirmed && is_same_confirm(verdict.confirm, proof.confirm_server));
    EXPECT_EQ(look_up("kitchen")->key, DeviceKey(proof.device_key));
  }
  EXPECT_EQ(log_.count("claim_granted"), 1U);
  EXPECT_EQ(value_of(database_.command.claims()).front().count_used, 1U);
  KeyProof of_other;
  const ClaimVerdict used = keyring_.grant_claim(claim_, prepare("kitchen", 6, &of_other));
  EXPECT_EQ(used.reason, gs_Reason_REASON_CLAIM_USED);
  EXPECT_TRUE(is_same_confirm(used.confirm, of_other.confirm_refused));
  EXPECT_FALSE(is_same_confirm(used.confirm, of_other.confirm_server)) << "nobody can make a grant of it";
  EXPECT_EQ(look_up("kitchen")->key, DeviceKey(proof.device_key));
}

// A session that began before the end. The public key of zeros, which no proof takes, shows that none is tried.
TEST_F(ProvenClaim, AnEndedClaimIsProvenToNobody) {
  KeyProof proof;
  ClaimRequest request = prepare("kitchen", 5, &proof);
  std::ranges::fill(request.device.key, uint8_t{0});
  EXPECT_EQ(keyring_.grant_claim(claim_, request).reason, gs_Reason_REASON_UNEXPECTED_MESSAGE);
  EXPECT_TRUE(value_of(database_.command.end_claim("batch", now_ms_)));
  for (int way = 0; way < 2; ++way) {  // ended by hand, and by its time
    const ClaimVerdict verdict = keyring_.grant_claim(claim_, request);
    EXPECT_EQ(verdict.reason, gs_Reason_REASON_OVERLOADED) << "the device comes again, and is refused in the handshake";
    EXPECT_FALSE(verdict.is_confirmed);
    claim_ = add_claim("expired", 2, true);
    now_ms_ = 2000;
  }
  EXPECT_EQ(log_.count("claim_refused"), 3U);
  EXPECT_THAT(log_.find("claim_refused"), HasSubstr("reason="));
  EXPECT_TRUE(database_.devices().empty());
}

// Somebody between the two, who holds the claim's file too: what he changes is refused, and nobody is enrolled.
TEST_F(ProvenClaim, OneFlippedBitOfARequestEnrolsNobody) {
  KeyProof proof;
  const ClaimRequest good = prepare("kitchen", 5, &proof);
  const auto expect_refused = [&](const ClaimRequest& request) {
    const ClaimVerdict verdict = keyring_.grant_claim(claim_, request);
    EXPECT_EQ(verdict.reason, gs_Reason_REASON_UNEXPECTED_MESSAGE);
    EXPECT_FALSE(verdict.is_confirmed);
  };
  for (size_t bit = 0; bit < 8 * std::strlen(good.device.name); ++bit) {
    ClaimRequest request = good;
    request.device.name[bit / 8] = static_cast<char>(request.device.name[bit / 8] ^ (1U << bit % 8));
    expect_refused(request);
  }
  for (size_t bit = 0; bit < 8 * kAgreedKeySize; ++bit) {
    ClaimRequest request = good;
    request.device.key[bit / 8] = static_cast<uint8_t>(request.device.key[bit / 8] ^ (1U << bit % 8));
    expect_refused(request);
  }
  for (size_t bit = 0; bit < 8 * kConfirmSize; ++bit) {
    ClaimRequest request = good;
    request.confirm[bit / 8] = static_cast<uint8_t>(request.confirm[bit / 8] ^ (1U << bit % 8));
    expect_refused(request);
  }
  ClaimRequest zero = good;
  std::ranges::fill(zero.device.key, uint8_t{0});
  expect_refused(zero);  // a shared secret that all know
  EXPECT_TRUE(database_.devices().empty());
  EXPECT_THAT(log_.find("claim_refused"), HasSubstr("reason=device_not_proven"));
}

// A request that is passed on as it is enrols the device that made it, and tells nobody its key.
TEST_F(ProvenClaim, WhoPassesARequestOnLearnsNoKey) {
  KeyProof of_device;
  const ClaimRequest request = prepare("kitchen", 5, &of_device);
  const ClaimVerdict verdict = keyring_.grant_claim(claim_, request);
  EXPECT_TRUE(is_same_confirm(verdict.confirm, of_device.confirm_server)) << "the device takes the answer";
  // He has the claim's key, both public keys and all that was said, and a secret of his own in place of one of theirs.
  for (const uint8_t own : {uint8_t{12}, uint8_t{13}}) {
    KeyProof as_server;
    ASSERT_EQ(prove_as_server({"~batch", "kitchen", FleetDatabase::key_of(10)}, FleetDatabase::key_of(own),
                              request.device.key, &as_server),
              Status::kOk);
    EXPECT_NE(DeviceKey(as_server.device_key), look_up("kitchen")->key);
    EXPECT_FALSE(is_same_confirm(as_server.confirm_device, request.confirm)) << "and he cannot even check it";
  }
}

TEST_F(ProvenClaim, EachKindOfRequestIsForItsKindOfClaim) {
  EXPECT_EQ(keyring_.grant_claim(claim_, request_of("kitchen", 5)).reason, gs_Reason_REASON_UNEXPECTED_MESSAGE);
  EXPECT_THAT(log_.find("claim_refused"), HasSubstr("reason=server_not_named"));
  const uint32_t old = add_claim("old", 1);
  KeyProof proof;
  EXPECT_EQ(keyring_.grant_claim(old, prepare("kitchen", 5, &proof)).reason, gs_Reason_REASON_UNEXPECTED_MESSAGE);
  EXPECT_EQ(keyring_.grant_claim(99, request_of("kitchen", 5)).reason, gs_Reason_REASON_CLAIM_ENDED) << "no such claim";
  EXPECT_EQ(log_.count("claim_refused"), 3U);
  EXPECT_TRUE(database_.devices().empty());
}

}  // namespace
}  // namespace gradstream
