// Which addresses a list of the configuration names.
#include "server/base/address_ranges.h"

#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

bool contains(const AddressRanges& ranges, const char* address) {
  return ranges.contains(asio::ip::make_address(address));
}

TEST(AddressRanges, NamesAddressesAndNetworks) {
  AddressRanges ranges;
  EXPECT_TRUE(ranges.is_empty());
  for (const char* text : {"10.0.0.7", "192.168.4.9/22", "fd00::7", "2001:db8::1/32"}) {
    EXPECT_TRUE(ranges.add(text)) << text;
  }
  EXPECT_FALSE(ranges.is_empty());
  for (const char* in : {"10.0.0.7", "192.168.4.0", "192.168.7.255", "fd00::7", "2001:db8:ffff::"}) {
    EXPECT_TRUE(contains(ranges, in)) << in;
  }
  for (const char* out : {"10.0.0.6", "10.0.0.8", "192.168.3.255", "192.168.8.0", "fd00::8", "2001:db9::", "::"}) {
    EXPECT_FALSE(contains(ranges, out)) << out;
  }
}

TEST(AddressRanges, AnIPv4AddressWithinIPv6IsThatAddress) {
  AddressRanges ranges;
  ASSERT_TRUE(ranges.add("10.0.0.0/8"));
  EXPECT_TRUE(contains(ranges, "::ffff:10.1.2.3"));
  EXPECT_FALSE(contains(ranges, "::ffff:11.1.2.3"));
  EXPECT_FALSE(contains(ranges, "::10.1.2.3"));
  AddressRanges from_log;
  ASSERT_TRUE(from_log.add("::ffff:10.0.0.7")) << "as the log of a server on [::] has it";
  ASSERT_TRUE(from_log.add("::ffff:192.168.0.0/112"));
  for (const char* in : {"10.0.0.7", "::ffff:10.0.0.7", "192.168.3.4", "::ffff:192.168.255.1"}) {
    EXPECT_TRUE(contains(from_log, in)) << in;
  }
  EXPECT_FALSE(contains(from_log, "10.0.0.8"));
  EXPECT_FALSE(contains(from_log, "192.169.0.0"));
}

TEST(AddressRanges, ALinksOwnAddressIsItOnEachInterface) {
  AddressRanges ranges;
  ASSERT_TRUE(ranges.add("fe80::/64"));
  asio::ip::address_v6 peer = asio::ip::make_address_v6("fe80::7");
  peer.scope_id(2);
  EXPECT_TRUE(ranges.contains(peer));
}

TEST(AddressRanges, RefusesWhatIsNoneAndWhatNamesEverybody) {
  AddressRanges ranges;
  for (const char* text : {"", "/", "/8", "balancer", "10.0.0", "10.0.0.256", "10.0.0.7:443", "[fd00::7]",
                           "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8", "0.0.0.0/0", "::/0", "fd00::/129",
                           " 10.0.0.7", "::ffff:0:0/96", "::ffff:10.0.0.7/64"}) {
    EXPECT_FALSE(ranges.add(text)) << text;
  }
  EXPECT_TRUE(ranges.is_empty());
}

}  // namespace
}  // namespace gradstream
