// Each fault has a name of its own in the log, and says what to do.
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
  for (size_t i = 0; i < count; ++i) {
    const auto fault = static_cast<TlsFault>(i);
    events.insert(tls_fault_event(fault));
    remedies.insert(tls_fault_remedy(fault));
    EXPECT_EQ(std::string(tls_fault_event(fault)).substr(0, 4), "tls_");
    EXPECT_EQ(std::string(tls_fault_remedy(fault)).empty(), fault == TlsFault::kNone) << tls_fault_event(fault);
  }
  EXPECT_EQ(events.size(), count);
  EXPECT_EQ(remedies.size(), count);
}

}  // namespace
}  // namespace gradstream
