#include "runtime/problem/gsn_text.h"

#include <cstdint>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

std::string text_of(const GsnFault& fault) { return GsnFaultText(fault).c_str(); }

// The largest numbers, so that the longest sentence fits too.
GsnFault worst(GsnFaultCode code, NetworkFaultCode network = NetworkFaultCode::kNone) {
  GsnFault fault;
  fault.code = code;
  fault.network = network;
  fault.is_of_layer = true;
  fault.layer = kLayerCountMax - 1;
  fault.offset = fault.value = fault.limit = fault.least = UINT32_MAX;
  return fault;
}

void expect_sentence(const std::string& text, std::set<std::string>* seen) {
  EXPECT_TRUE(text.starts_with("layer 63, byte 4294967295: ")) << text;
  EXPECT_LT(text.size(), GsnFaultText::kSizeMax) << text << ": cut off";
  EXPECT_EQ(text.find('%'), std::string::npos) << text;
  EXPECT_TRUE(seen->insert(text).second) << text << ": of two faults";
  EXPECT_TRUE(text.find("; ") != std::string::npos || text.find(": copy") != std::string::npos)
      << text << ": no remedy";
}

TEST(GsnText, EachFaultHasItsWords) {
  EXPECT_EQ(text_of({}), "");
  std::set<std::string> seen;
  for (uint8_t code = 1; code < static_cast<uint8_t>(GsnFaultCode::kNetwork); ++code) {
    expect_sentence(text_of(worst(static_cast<GsnFaultCode>(code))), &seen);
  }
  for (uint8_t code = 1; code <= static_cast<uint8_t>(NetworkFaultCode::kWindowWork); ++code) {
    expect_sentence(text_of(worst(GsnFaultCode::kNetwork, static_cast<NetworkFaultCode>(code))), &seen);
  }
}

TEST(GsnText, SaysWhereWhatAndHowMuch) {
  GsnFault fault;
  fault.code = GsnFaultCode::kOverlap;
  fault.array = GsnArray::kScales;
  fault.is_of_layer = true;
  fault.layer = 3;
  fault.offset = 216;
  fault.value = 400;
  fault.limit = 404;
  EXPECT_TRUE(text_of(fault).starts_with(
      "layer 3, byte 216: the scales begin at byte 400, inside of what ends at byte 404; write arrays "))
      << text_of(fault);
  fault = {};
  fault.code = GsnFaultCode::kChecksum;
  fault.offset = 4;
  fault.value = 0x1a;
  fault.limit = 0xdeadbeef;
  EXPECT_TRUE(text_of(fault).starts_with("byte 4: the checksum is 0000001a, and the bytes have deadbeef; "))
      << text_of(fault);
}

TEST(GsnText, SaysHowManyWindowsThereAre) {
  GsnFault fault;
  fault.code = GsnFaultCode::kNetwork;
  fault.network = NetworkFaultCode::kHeight;
  fault.is_of_layer = true;
  fault.offset = 42;
  fault.value = 3;
  fault.limit = 5;
  fault.least = 4;
  EXPECT_EQ(text_of(fault),
            "layer 0, byte 42: the output has 3 rows, and windows make 4 to 5; mend output, stride or border");
}

TEST(GsnText, NamesKindsAndTheRest) {
  EXPECT_STREQ(layer_kind_name(LayerKind::kDense), "dense");
  EXPECT_STREQ(layer_kind_name(LayerKind::kAdd), "add");
  EXPECT_STREQ(layer_kind_name(static_cast<LayerKind>(200)), "unknown");
  EXPECT_STREQ(activation_name(Activation::kRelu6), "relu6");
  EXPECT_STREQ(activation_name(static_cast<Activation>(3)), "unknown");
  EXPECT_STREQ(network_loss_name(NetworkLoss::kSquaredError), "squared_error");
  EXPECT_STREQ(network_loss_name(static_cast<NetworkLoss>(0)), "unknown");
}

}  // namespace
}  // namespace gradstream
