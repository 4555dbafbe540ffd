#include "firmware/network_posix.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/support/gsn_bytes.h"
#include "tests/support/network_support.h"

namespace gradstream {
namespace {

// Three convolutions that are trained, with 200 values each, and scores.
struct Convolutions : TestNetwork {
  Convolutions() : TestNetwork({10, 10, 1}) {
    for (int k = 0; k < 3; ++k) window(LayerKind::kConv2d, 3, 1, 1, 2, Activation::kRelu, TrainedForm::kDense);
    dense(3, Activation::kNone, TrainedForm::kDense);
  }
};

// The client's problem with so many bytes of arena; fault: why they are not enough.
bool has_gradient_in(size_t arena_size, std::string* fault) {
  const Convolutions net;
  const std::vector<uint8_t> bytes = gsn_bytes(net.network);
  PosixNetwork network;
  EXPECT_EQ(open_network(bytes, &network), "");
  EXPECT_EQ(bind_network({nullptr, 3, 101, nullptr}, &network), "");
  *fault = bind_arena(arena_size, &network);
  return has_gradient(network.problem.problem);
}

TEST(NetworkPosix, HasTheGradientThatItsArenaHolds) {
  std::string fault;
  EXPECT_TRUE(has_gradient_in(size_t{1} << 20, &fault));
  EXPECT_EQ(fault, "");
  size_t least = size_t{1} << 20;
  for (size_t step = least / 2; step >= kArenaAlignment; step /= 2) {
    least -= has_gradient_in(least - step, &fault) ? step : 0;
  }
  EXPECT_FALSE(has_gradient_in(least - kArenaAlignment, &fault));
  EXPECT_EQ(fault, "") << "enough for forward passes";
  has_gradient_in(least - 200 * sizeof(Real), &fault);
  EXPECT_EQ(fault, "") << "they keep two volumes, and going back three";
  has_gradient_in(1000, &fault);
  EXPECT_NE(fault.find("bytes of arena at least, where 1000 are given"), std::string::npos) << fault;
}

TEST(NetworkPosix, ANetworkThatTrainsNothingIsRefused) {
  TestNetwork net({4, 1, 1});
  net.dense(2);
  PosixNetwork network;
  const std::string fault = open_network(gsn_bytes(net.network), &network);
  EXPECT_NE(fault.find("trains nothing"), std::string::npos) << fault;
}

}  // namespace
}  // namespace gradstream
