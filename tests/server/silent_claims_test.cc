// Who makes room for a claim's session that says nothing yet.
#include "server/link/silent_claims.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(SilentClaims, EachClaimAndAllTogetherHaveALimit) {
  SilentClaims claims(512);
  SessionId session = 0;
  for (size_t i = 0; i < kSilentClaimSessionsMax; ++i) {
    EXPECT_EQ(claims.add(1, ++session), 0U);
  }
  EXPECT_EQ(claims.add(1, ++session), 1U);
  for (uint32_t claim = 2; claim <= 4; ++claim) {
    for (size_t i = 0; i < kSilentClaimSessionsMax; ++i) {
      EXPECT_EQ(claims.add(claim, ++session), 0U);
    }
  }
  EXPECT_EQ(claims.count(), 128U) << "a quarter of 512";
  EXPECT_EQ(claims.add(5, ++session), 2U) << "of the first claim that has most";
  claims.remove(1, 3);
  claims.remove(1, 3);
  EXPECT_EQ(claims.count(), 127U);
  EXPECT_EQ(claims.add(5, ++session), 0U);
  SilentClaims small(4);
  for (SessionId id = 1; id <= kSilentClaimSessionsMax; ++id) {
    EXPECT_EQ(small.add(static_cast<uint32_t>(id), id), 0U);
  }
  EXPECT_NE(small.add(1, 100), 0U);
  EXPECT_EQ(small.count(), kSilentClaimSessionsMax);
  SilentClaims none(4);
  EXPECT_EQ(none.take_oldest(), 0U);
  none.add(1, 1);
  none.add(2, 2);
  none.add(2, 3);
  EXPECT_EQ(none.take_oldest(), 2U) << "of the claim that has most";
  EXPECT_EQ(none.take_oldest(), 1U);
  EXPECT_EQ(none.count(), 1U);
}

}  // namespace
}  // namespace gradstream
