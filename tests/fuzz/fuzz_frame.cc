// Bytes from a peer: FrameReader, then both decoders. Whatever arrives is cut the same way however it is cut into
// pieces, no byte is lost or counted twice, and what decodes encodes to bytes that decode to the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/wire/codec.h"
#include "runtime/wire/frame.h"
#include "tests/fuzz/fuzz_input.h"

namespace gradstream::testing {
namespace {

template <typename Message>
void check_decode(std::span<const uint8_t> payload) {
  Message message = {};
  if (decode_message(payload, &message) != Status::kOk) {
    return;
  }
  uint8_t first[kFrameSizeMax];
  uint8_t second[kFrameSizeMax];
  const Result<size_t> size = encode_frame(message, first);
  FUZZ_CHECK(size.ok());  // an encoder writes nothing longer than what it came from
  FUZZ_CHECK(size.value() <= kFrameSizeMax);
  Message again = {};
  FUZZ_CHECK(decode_message({first + kFramePrefixSize, size.value() - kFramePrefixSize}, &again) == Status::kOk);
  const Result<size_t> size_again = encode_frame(again, second);
  FUZZ_CHECK(size_again.ok() && size_again.value() == size.value());
  FUZZ_CHECK(std::memcmp(first, second, size.value()) == 0);
}

struct Cut {
  std::vector<std::vector<uint8_t>> payloads;
  size_t discarded_size = 0;
  size_t frame_bytes = 0;
  bool in_frame = false;
};

Cut cut(std::span<const uint8_t> stream, size_t piece_size) {
  Cut out;
  FrameReader reader;
  size_t done = 0;
  while (done < stream.size()) {
    const size_t taken = reader.feed(stream.subspan(done, std::min(piece_size, stream.size() - done)));
    FUZZ_CHECK(taken >= 1);
    done += taken;
    if (reader.has_frame()) {
      FUZZ_CHECK(!reader.in_frame());
      const std::span<const uint8_t> payload = reader.payload();
      FUZZ_CHECK(!payload.empty() && payload.size() <= kMessageSizeMax);
      out.payloads.emplace_back(payload.begin(), payload.end());
      out.frame_bytes += kFramePrefixSize + payload.size();
      reader.pop();
    }
  }
  out.discarded_size = reader.discarded_size();
  out.in_frame = reader.in_frame();
  return out;
}

void run(std::span<const uint8_t> stream, size_t piece_size) {
  const Cut whole = cut(stream, stream.size());
  const Cut pieces = cut(stream, piece_size);
  FUZZ_CHECK(whole.payloads == pieces.payloads);
  FUZZ_CHECK(whole.discarded_size == pieces.discarded_size && whole.in_frame == pieces.in_frame);
  const size_t accounted = whole.frame_bytes + whole.discarded_size;
  FUZZ_CHECK(whole.in_frame ? accounted < stream.size() : accounted == stream.size());
  for (const std::vector<uint8_t>& payload : whole.payloads) {
    check_decode<DeviceMessage>(payload);
    check_decode<ServerMessage>(payload);
  }
  // Also as one payload, so that the decoders need no frame around it.
  check_decode<DeviceMessage>(stream);
  check_decode<ServerMessage>(stream);
}

}  // namespace
}  // namespace gradstream::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= 2) {
    gradstream::testing::run({data + 1, size - 1}, 1 + data[0] % 64);
  }
  return 0;
}
