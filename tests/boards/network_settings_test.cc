#include "boards/ethernet/network_settings.h"

#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

constexpr char kGood[] = "address = 192.168.1.20/24\ngateway = 192.168.1.1\nserver = 10.1.2.3:7433\n";

Status parse(const std::string& text, NetworkSettings* out, uint32_t* line) {
  return parse_network_settings({text.data(), text.size()}, out, line);
}

TEST(NetworkSettings, TakesWhatItsHeadShows) {
  NetworkSettings settings;
  uint32_t line = 9;
  ASSERT_EQ(parse(std::string("# mine\r\n\r\n") + kGood + "mac = 02:00:00:aB:cD:0f", &settings, &line), Status::kOk);
  EXPECT_EQ(line, 0U);
  EXPECT_EQ(settings.address, 0xC0A80114U);
  EXPECT_EQ(settings.mask(), 0xFFFFFF00U);
  EXPECT_EQ(settings.gateway, 0xC0A80101U);
  EXPECT_EQ(settings.server, 0x0A010203U);
  EXPECT_EQ(settings.port, 7433);
  EXPECT_STREQ(settings.server_text, "10.1.2.3:7433");
  EXPECT_EQ(settings.next_hop(), settings.gateway);
  ASSERT_TRUE(settings.has_mac);
  EXPECT_EQ(settings.mac[0], 2);
  EXPECT_EQ(settings.mac[3], 0xAB);
  EXPECT_EQ(settings.mac[5], 0x0F);
}

TEST(NetworkSettings, AServerNextDoorNeedsNoGateway) {
  NetworkSettings settings;
  uint32_t line = 0;
  ASSERT_EQ(parse("server=10.0.0.2:65535\naddress=10.0.0.1/30", &settings, &line), Status::kOk);
  EXPECT_EQ(settings.next_hop(), settings.server);
  EXPECT_FALSE(settings.has_mac);
}

TEST(NetworkSettings, ReadsWhatEditorsWrite) {
  for (const char* end : {"\n", "\r\n", "\r", " \r\n\r\n"}) {
    for (const char* mark : {"", "\xEF\xBB\xBF"}) {
      const std::string text = std::string(mark) + " address = 10.0.0.1/30" + end + "server=10.0.0.2:1";
      NetworkSettings settings;
      uint32_t line = 0;
      EXPECT_EQ(parse(text, &settings, &line), Status::kOk) << text;
    }
  }
}

TEST(NetworkSettings, EndsWithTheErasedFlash) {
  for (const char end : {'\0', '\xff'}) {
    std::string page = kGood;
    page.resize(2048, end);
    NetworkSettings settings;
    uint32_t line = 0;
    EXPECT_EQ(parse(page, &settings, &line), Status::kOk);
  }
}

TEST(NetworkSettings, NamesTheLineAtFault) {
  for (const char* wrong : {"address = 10.0.0.256/8",
                            "address = 10.0.0.1",
                            "address = 10.0.0.1/31",
                            "address = 10.0.0.1/0",
                            "address = 10.0.0/8",
                            "address = 10.0.0.1.2/8",
                            "address = 0.0.0.0/8",
                            "address = 224.0.0.1/8",
                            "address = 10.0.0.01/8",
                            "address = 10.0.0.1/8 x",
                            "address =",
                            "address",
                            "gateway = 10.0.0.1/8",
                            "gateway = router",
                            "server = 10.0.0.1",
                            "server = 10.0.0.1:0",
                            "server = 10.0.0.1:65536",
                            "server = 10.0.0.1:07433",
                            "server = host:7433",
                            "server = 10.0.0.1:7433 and much more",
                            "server = 4294967297.0.0.1:1",
                            "mac = 02:00:00:00:00",
                            "mac = 02-00-00-00-00-01",
                            "mac = 03:00:00:00:00:01",
                            "mac = 02:00:00:00:00:0g",
                            "dhcp = yes",
                            "=",
                            "address = 10.0.0.1/8\naddress = 10.0.0.2/8"}) {
    NetworkSettings settings;
    uint32_t line = 0;
    const std::string text = std::string("\n# comment\n") + wrong;
    EXPECT_EQ(parse(text, &settings, &line), Status::kDataCorrupt) << wrong;
    EXPECT_EQ(line, 3U + (std::string(wrong).find('\n') != std::string::npos ? 1 : 0)) << wrong;
  }
}

TEST(NetworkSettings, WhatIsMissingHasNoLine) {
  for (const char* wrong :
       {"", "\xff", "address = 10.0.0.1/8", "server = 10.0.0.1:1", "address = 10.0.0.1/24\nserver = 10.0.1.1:1",
        "address = 10.0.0.1/24\ngateway = 10.0.2.1\nserver = 10.0.1.1:1"}) {
    NetworkSettings settings;
    uint32_t line = 9;
    EXPECT_EQ(parse(wrong, &settings, &line), Status::kDataCorrupt) << wrong;
    EXPECT_EQ(line, 0U) << wrong;
  }
}

}  // namespace
}  // namespace gradstream
