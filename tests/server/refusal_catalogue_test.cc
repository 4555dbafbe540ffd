#include "server/base/refusal_catalogue.h"

#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "runtime/wire/codec.h"

namespace gradstream {
namespace {

TEST(RefusalCatalogue, EachStandsOnceAndSaysWhatItMeans) {
  std::set<std::pair<RefusalKind, std::string>> ids;
  for (const RefusalRow& row : refusals()) {
    EXPECT_TRUE(ids.insert({row.kind, row.id}).second) << row.id;
    EXPECT_EQ(find_refusal(row.kind, row.id), &row);
    EXPECT_NE(std::string(row.meaning), "") << row.id;
    EXPECT_NE(std::string(row.remedy), "") << row.id;
  }
  EXPECT_EQ(find_refusal(RefusalKind::kHttp, "unknown_identities"), nullptr);
}

TEST(RefusalCatalogue, EveryReasonOfTheWireHasARow) {
  for (int i = 1; i < _gs_Reason_ARRAYSIZE; ++i) {
    const auto reason = static_cast<gs_Reason>(i);
    const bool is_key = reason == gs_Reason_REASON_CLAIM_USED || reason == gs_Reason_REASON_CLAIM_ENDED;
    if (is_reason(reason)) {
      EXPECT_NE(find_refusal(is_key ? RefusalKind::kKey : RefusalKind::kWork, reason_name(reason)), nullptr)
          << reason_name(reason);
    }
  }
}

}  // namespace
}  // namespace gradstream
