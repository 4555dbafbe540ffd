// A network's file from whoever gave it to the user. The first byte chooses whether the checksum is mended, so that the
// fuzzer reaches what lies behind it. Whatever the bytes are, they are read or refused with words. What was read points
// into the bytes, and written anew it reads back to the same network.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/problem/gsn.h"
#include "runtime/problem/gsn_text.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/gsn_bytes.h"

namespace gradstream::testing {
namespace {

using Layers = std::array<Layer, kLayerCountMax>;

void check_network_of(std::span<const uint8_t> bytes, const Network& network) {
  FUZZ_CHECK(network.layer_count == gsn_layer_count(bytes));
  FUZZ_CHECK(check_network(network).code == NetworkFaultCode::kNone);
  for (uint32_t i = 0; i < network.layer_count; ++i) {
    for (const std::span<const uint8_t> array : arrays_of(network.layers[i])) {
      const bool is_inside = array.empty() || (array.data() >= bytes.data() + kGsnHeadSize + kGsnRecordSize &&
                                               array.data() + array.size() <= bytes.data() + bytes.size());
      FUZZ_CHECK(is_inside);
    }
  }
  const std::vector<uint8_t> again = gsn_bytes(network);
  Layers layers;
  Network read;
  FUZZ_CHECK(read_gsn(again, layers, &read).code == GsnFaultCode::kNone);
  FUZZ_CHECK(network_digest(read) == network_digest(network));
  FUZZ_CHECK(gsn_bytes(read) == again);
}

void run(bool is_mended, std::span<const uint8_t> input) {
  std::vector<uint8_t> bytes(input.begin(), input.end());  // alone, and aligned
  if (is_mended) {
    mend_checksum(bytes);
  }
  Layers layers;
  Network network;
  const GsnFault fault = read_gsn(bytes, layers, &network);
  const GsnFaultText text(fault);
  FUZZ_CHECK((fault.code == GsnFaultCode::kNone) == (text.c_str()[0] == '\0'));
  FUZZ_CHECK(fault.layer < kLayerCountMax);
  if (fault.code == GsnFaultCode::kNone) {
    check_network_of(bytes, network);
  }
}

}  // namespace
}  // namespace gradstream::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= 1) {
    gradstream::testing::run(data[0] % 2 == 0, {data + 1, size - 1});
  }
  return 0;
}
