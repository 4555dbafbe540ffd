// Each fault has a row of its own in the catalogue of events.
#include "server/link/tls_fault.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(TlsFault, EachHasAnEventAndARemedyOfItsOwn) {
  std::set<std::string> events;
  std::set<std::string> remedies;
  const auto count = static_cast<size_t>(TlsFault::kProtocol) + 1;
  for (size_t i = 1; i < count; ++i) {  // the first is no fault
    const EventRow& row = tls_fault_event(static_cast<TlsFault>(i));
    events.insert(row.id);
    remedies.insert(row.remedy);
    EXPECT_TRUE(std::string(row.id).starts_with("tls_")) << row.id;
    EXPECT_NE(std::string(row.remedy), "") << row.id;
  }
  EXPECT_EQ(events.size(), count - 1);
  EXPECT_EQ(remedies.size(), count - 1);
}

}  // namespace
}  // namespace gradstream
