// Messages to bytes and back. The only place that knows nanopb.
//
// decode_* check everything a message can get wrong by itself: it decodes, its enums are known, its counts agree with
// its bytes and with the limits of config.h, its floats are finite. What a message means in a state is judged above.
#ifndef GRADSTREAM_RUNTIME_WIRE_CODEC_H_
#define GRADSTREAM_RUNTIME_WIRE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/gradstream.pb.h"
#include "runtime/base/status.h"
#include "runtime/training/encoding.h"

namespace gradstream {

inline constexpr uint32_t kProtocolVersion = 1;

using DeviceMessage = gs_DeviceMessage;
using ServerMessage = gs_ServerMessage;

// Whether the wire has a reason of this number: some are left out.
bool is_reason(gs_Reason reason);
// Static text of a reason, the same word in the logs of both ends, e.g. "wrong_shape"; "unknown" where there is none.
const char* reason_name(gs_Reason reason);
// The same of a floor, e.g. "batch_size".
const char* floor_name(gs_Floor floor);

// Encodes a whole frame (prefix and payload) into out (kFrameSizeMax bytes); its size. kInvalidArgument when the
// message has no body or does not fit: a fault of our own caller, but reported, since sizes depend on the run.
Result<size_t> encode_frame(const DeviceMessage& message, uint8_t* out);
Result<size_t> encode_frame(const ServerMessage& message, uint8_t* out);

// kDataCorrupt: does not decode, no body, an unknown enum value, a count out of bounds or at odds with its bytes;
// kNotFinite: a float that is not finite. On an error out is unspecified.
// Numbers of a Task are bounded by begin_solver(), so that a device can refuse the task and keep the session.
Status decode_message(std::span<const uint8_t> payload, DeviceMessage* out);
Status decode_message(std::span<const uint8_t> payload, ServerMessage* out);

// How many values the `size` bytes of one piece hold; 0 when no piece has so many bytes. Every piece but the last of
// its update or block holds a multiple of kInt8BlockSize values, so that a block never straddles two pieces.
uint32_t piece_value_count(Encoding encoding, size_t size);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_WIRE_CODEC_H_
