// How values travel: f32, bf16, int8 in blocks of 32 with a scale, and (double build, tests) f64. Little-endian bytes.
//
//   f32   4 bytes a value
//   bf16  2 bytes a value: the upper half of the f32, rounded to nearest, ties to even
//   int8  blocks of 32 values (the last may be shorter): scale as bf16 (2 bytes), then one signed byte a value.
//         scale = the smallest bf16 >= max|v| / 127; byte = v / scale rounded half away from zero; -128 is refused.
//         value = byte * scale, exact in f32.
//   f64   8 bytes a value; known to the double build only
//   fixed 4 bytes a word, two's complement: exact sums, which are integers. Not for values: encode_values and
//         decode_values refuse it
//   words 8 bytes a word, two's complement: the whole numbers of stages before training. Not for values either
//
// What was encoded defines the value: an encoder's own replica must use decode(encode(v)), never v.
#ifndef GRADSTREAM_RUNTIME_TRAINING_ENCODING_H_
#define GRADSTREAM_RUNTIME_TRAINING_ENCODING_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/base/config.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/status.h"
#include "runtime/training/clip.h"

namespace gradstream {

// Values equal the wire's Encoding enum; never renumber.
enum class Encoding : uint8_t { kNone = 0, kF32 = 1, kBf16 = 2, kInt8 = 3, kF64 = 4, kFixed = 5, kWords = 6 };

// Whole models and the journal's values, which are never rounded.
inline constexpr Encoding kRealEncoding = sizeof(Real) == 8 ? Encoding::kF64 : Encoding::kF32;

inline constexpr size_t kInt8BlockSize = 32;

// Bytes of `count` values that start at a block boundary; 0 for an unknown encoding.
size_t encoded_size(Encoding encoding, size_t count);
// Whether values travel in it: not words.
bool is_value_encoding(Encoding encoding);
// Most values (a multiple of kInt8BlockSize) whose bytes fit one message's payload.
size_t values_per_message(Encoding encoding);

// Encodes values[0..count) to out (encoded_size bytes). kNotFinite; kOutOfRange when a value has no finite encoding
// (bf16 rounds up to infinity, int8's 127 * scale does); kInvalidArgument for an unknown encoding. On an error out is
// unspecified.
Status encode_values(Encoding encoding, size_t count, const Real* values, uint8_t* out);
// Decodes count values. kInvalidArgument when size != encoded_size(encoding, count). kNotFinite. kDataCorrupt for a
// byte pattern that no encoder makes. For int8 that is byte -128, a byte other than 0 under scale 0, or a scale that is
// negative, not finite or so large that 127 * scale overflows. On an error values is unspecified.
Status decode_values(Encoding encoding, size_t count, const uint8_t* bytes, size_t size, Real* values);

// The word of exact sums: an integer as wide as Real, added modulo its range. So neither the order of the terms nor a
// detour beyond the range changes a sum that fits.
using FixedWord = std::conditional_t<sizeof(Real) == sizeof(double), int64_t, int32_t>;
// Fractional bits of a word, at most. Reason: as the fold's.
inline constexpr uint32_t kFixedScaleLog2Max = 48;
// 2^-scale_log2.
Real fixed_unit(uint32_t scale_log2);
// values <- values - what the clip leaves of what the bytes hold. Codes of decode_values and OwnClip::apply; values are
// unspecified on an error.
Status subtract_values(Encoding encoding, size_t count, const uint8_t* bytes, size_t size, Real* values,
                       OwnClip clip = {});
// Words to little-endian bytes (encoded_size(Encoding::kFixed, count)) and back.
void store_words(size_t count, const FixedWord* words, uint8_t* out);
void load_words(size_t count, const uint8_t* bytes, FixedWord* words);
// The same for Encoding::kWords.
void store_long_words(size_t count, const int64_t* words, uint8_t* out);
void load_long_words(size_t count, const uint8_t* bytes, int64_t* words);
// As digest_values, over the bytes of words.
uint64_t digest_words(uint64_t digest, size_t count, const FixedWord* words);

// 64-bit FNV-1a over the little-endian bytes of values (as float in the product): the digest by which replicas prove
// their model. Against accidents, not against an adversary. Chain by passing the previous result.
inline constexpr uint64_t kDigestStart = 0xcbf29ce484222325ULL;
constexpr uint64_t digest_byte(uint64_t digest, uint8_t byte) { return (digest ^ byte) * 0x100000001b3ULL; }
uint64_t digest_values(uint64_t digest, size_t count, const Real* values);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_ENCODING_H_
