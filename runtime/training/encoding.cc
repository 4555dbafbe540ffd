#include "runtime/base/no_contraction.h"

#include "runtime/training/encoding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "runtime/base/features.h"

namespace gradstream {
namespace {

constexpr size_t kInt8ScaleSize = 2;
constexpr float kInt8Max = 127;
constexpr bool kHasDouble = sizeof(Real) == sizeof(double);
constexpr float kFloatMax = std::numeric_limits<float>::max();

// Whether floats in memory are their own encoding. On boards one at a time takes less flash.
#if defined(GS_BARE_METAL)
constexpr bool kCopiesFloats = false;
#else
constexpr bool kCopiesFloats = !kHasDouble && std::endian::native == std::endian::little;
#endif

// Looks at all of them: without a branch for each it takes a tenth of the time.
bool are_finite(size_t count, const Real* values) {
  bool is_each = true;
  for (size_t i = 0; i < count; ++i) {
    is_each &= std::isfinite(values[i]);
  }
  return is_each;
}

// Of values.
bool is_known(Encoding encoding) {
  switch (encoding) {
    case Encoding::kF32:
      return true;
    case Encoding::kBf16:
    case Encoding::kInt8:
      return kCodesShort;
    case Encoding::kF64:
      return kHasDouble;
    default:
      return false;
  }
}

// Bytes are written by shifts, so that the order is little-endian on every processor.
template <typename Word>
void store(Word word, uint8_t* out) {
  for (size_t i = 0; i < sizeof(Word); ++i) {
    out[i] = static_cast<uint8_t>(word >> (8 * i));
  }
}

template <typename Word>
Word load(const uint8_t* bytes) {
  Word word = 0;
  for (size_t i = 0; i < sizeof(Word); ++i) {
    word = static_cast<Word>(word | static_cast<Word>(static_cast<Word>(bytes[i]) << (8 * i)));
  }
  return word;
}

using WordBits = std::make_unsigned_t<FixedWord>;

uint64_t digest_word(uint64_t digest, WordBits word) {
  for (size_t byte = 0; byte < sizeof(WordBits); ++byte) {
    digest = digest_byte(digest, static_cast<uint8_t>(word >> (8 * byte)));
  }
  return digest;
}

float bf16_value(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Adding half of the last place, or one less when the kept part is even, carries exactly when rounding up is due.
uint16_t nearest_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// The smallest bf16 s with 127 s >= largest. 127 s is exact in float (8 + 7 significant bits), so the test is exact.
uint16_t int8_scale(float largest) {
  uint16_t bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(largest / kInt8Max) >> 16);
  while (bits > 0 && bf16_value(static_cast<uint16_t>(bits - 1)) * kInt8Max >= largest) {
    --bits;
  }
  while (bf16_value(bits) * kInt8Max < largest) {
    ++bits;
  }
  return bits;
}

// Half away from zero without adding 0.5, which would round 0.49999997 up. |value| <= 127.
int32_t round_half_away(float value) {
  const int32_t whole = static_cast<int32_t>(value);
  const float rest = value - static_cast<float>(whole);
  if (rest >= 0.5f) {
    return whole + 1;
  }
  return rest <= -0.5f ? whole - 1 : whole;
}

// The value as float. kNotFinite, kOutOfRange (double build only).
Status narrow(Real value, float* out) {
  if (!std::isfinite(value)) {
    return Status::kNotFinite;
  }
  *out = static_cast<float>(value);
  return std::isfinite(*out) ? Status::kOk : Status::kOutOfRange;
}

Status encode_block(size_t count, const Real* values, uint8_t* out) {
  float narrowed[kInt8BlockSize];
  float largest = 0;
  for (size_t i = 0; i < count; ++i) {
    GS_TRY(narrow(values[i], &narrowed[i]));
    const float magnitude = std::fabs(narrowed[i]);
    largest = magnitude > largest ? magnitude : largest;
  }
  const uint16_t scale_bits = int8_scale(largest);
  const float scale = bf16_value(scale_bits);
  if (scale > kFloatMax / kInt8Max) {
    return Status::kOutOfRange;
  }
  store(scale_bits, out);
  for (size_t i = 0; i < count; ++i) {
    const int32_t rounded = scale == 0 ? 0 : round_half_away(narrowed[i] / scale);
    out[kInt8ScaleSize + i] = static_cast<uint8_t>(rounded);
  }
  return Status::kOk;
}

Status decode_block(size_t count, const uint8_t* bytes, Real* values) {
  const uint16_t scale_bits = load<uint16_t>(bytes);
  const float scale = bf16_value(scale_bits);
  if ((scale_bits & 0x8000) != 0 || !std::isfinite(scale) || scale > kFloatMax / kInt8Max) {
    return Status::kDataCorrupt;
  }
  for (size_t i = 0; i < count; ++i) {
    const int8_t byte = static_cast<int8_t>(bytes[kInt8ScaleSize + i]);
    if (byte == -128 || (scale == 0 && byte != 0)) {
      return Status::kDataCorrupt;
    }
    values[i] = static_cast<Real>(static_cast<float>(byte) * scale);
  }
  return Status::kOk;
}

Status encode_one(Encoding encoding, Real value, uint8_t* out) {
  if (kHasDouble && encoding == Encoding::kF64) {
    if (!std::isfinite(value)) {
      return Status::kNotFinite;
    }
    store(std::bit_cast<uint64_t>(static_cast<double>(value)), out);
    return Status::kOk;
  }
  float narrowed = 0;
  GS_TRY(narrow(value, &narrowed));
  if (!kCodesShort || encoding == Encoding::kF32) {
    store(std::bit_cast<uint32_t>(narrowed), out);
    return Status::kOk;
  }
  const uint16_t bits = nearest_bf16(narrowed);
  if (!std::isfinite(bf16_value(bits))) {
    return Status::kOutOfRange;
  }
  store(bits, out);
  return Status::kOk;
}

Real decode_one(Encoding encoding, const uint8_t* bytes) {
  if (kHasDouble && encoding == Encoding::kF64) {
    return static_cast<Real>(std::bit_cast<double>(load<uint64_t>(bytes)));
  }
  if (!kCodesShort || encoding == Encoding::kF32) {
    return static_cast<Real>(std::bit_cast<float>(load<uint32_t>(bytes)));
  }
  return static_cast<Real>(bf16_value(load<uint16_t>(bytes)));
}

}  // namespace

bool is_value_encoding(Encoding encoding) { return is_known(encoding); }

size_t encoded_size(Encoding encoding, size_t count) {
  if (encoding == Encoding::kFixed) {
    return sizeof(FixedWord) * count;
  }
  if (encoding == Encoding::kWords) {
    return sizeof(int64_t) * count;
  }
  if (!is_known(encoding)) {
    return 0;
  }
  switch (encoding) {
    case Encoding::kF32:
      return 4 * count;
    case Encoding::kBf16:
      return 2 * count;
    case Encoding::kF64:
      return 8 * count;
    default:
      return count + kInt8ScaleSize * ((count + kInt8BlockSize - 1) / kInt8BlockSize);
  }
}

size_t values_per_message(Encoding encoding) {
  const size_t block_size = encoded_size(encoding, kInt8BlockSize);
  return block_size == 0 ? 0 : kPayloadSizeMax / block_size * kInt8BlockSize;
}

Status encode_values(Encoding encoding, size_t count, const Real* values, uint8_t* out) {
  if (!is_known(encoding)) {
    return Status::kInvalidArgument;
  }
  if (kCopiesFloats && encoding == Encoding::kF32) {
    if (!are_finite(count, values)) {
      return Status::kNotFinite;
    }
    std::copy_n(reinterpret_cast<const uint8_t*>(values), sizeof(Real) * count, out);
    return Status::kOk;
  }
  const bool is_block = kCodesShort && encoding == Encoding::kInt8;
  const size_t step = is_block ? kInt8BlockSize : 1;
  for (size_t i = 0; i < count; i += step) {
    if (is_block) {
      GS_TRY(encode_block(count - i < step ? count - i : step, values + i, out));
    } else {
      GS_TRY(encode_one(encoding, values[i], out));
    }
    out += encoded_size(encoding, step);
  }
  return Status::kOk;
}

Status decode_values(Encoding encoding, size_t count, const uint8_t* bytes, size_t size, Real* values) {
  if (!is_known(encoding) || size != encoded_size(encoding, count)) {
    return Status::kInvalidArgument;
  }
  if (kCopiesFloats && encoding == Encoding::kF32) {
    std::copy_n(bytes, size, reinterpret_cast<uint8_t*>(values));
    return are_finite(count, values) ? Status::kOk : Status::kNotFinite;
  }
  const bool is_block = kCodesShort && encoding == Encoding::kInt8;
  const size_t step = is_block ? kInt8BlockSize : 1;
  for (size_t i = 0; i < count; i += step) {
    if (is_block) {
      GS_TRY(decode_block(count - i < step ? count - i : step, bytes, values + i));
    } else {
      values[i] = decode_one(encoding, bytes);
      if (!std::isfinite(values[i])) {
        return Status::kNotFinite;
      }
    }
    bytes += encoded_size(encoding, step);
  }
  return Status::kOk;
}

Real fixed_unit(uint32_t scale_log2) {
  Real unit = 1;
  for (; scale_log2 > 0; --scale_log2) {
    unit *= Real{0.5};  // exact; to convert a word of 64 bits takes 500 bytes of a board's flash
  }
  return unit;
}

Status subtract_values(Encoding encoding, size_t count, const uint8_t* bytes, size_t size, Real* values, OwnClip clip) {
  if (size != encoded_size(encoding, count)) {
    return Status::kInvalidArgument;
  }
  Real block[kInt8BlockSize];
  for (size_t first = 0; first < count; first += kInt8BlockSize) {
    const size_t block_count = count - first < kInt8BlockSize ? count - first : kInt8BlockSize;
    GS_TRY(decode_values(encoding, block_count, bytes + encoded_size(encoding, first),
                         encoded_size(encoding, block_count), block));
    GS_TRY(clip.apply(block_count, block));
    for (size_t i = 0; i < block_count; ++i) {
      values[first + i] -= block[i];
    }
  }
  return Status::kOk;
}

uint64_t digest_values(uint64_t digest, size_t count, const Real* values) {
  for (size_t i = 0; i < count; ++i) {
    digest = digest_word(digest, std::bit_cast<WordBits>(values[i]));
  }
  return digest;
}

uint64_t digest_words(uint64_t digest, size_t count, const FixedWord* words) {
  for (size_t i = 0; i < count; ++i) {
    digest = digest_word(digest, static_cast<WordBits>(words[i]));
  }
  return digest;
}

void store_words(size_t count, const FixedWord* words, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    store(static_cast<WordBits>(words[i]), out + i * sizeof(WordBits));
  }
}

void load_words(size_t count, const uint8_t* bytes, FixedWord* words) {
  for (size_t i = 0; i < count; ++i) {
    words[i] = static_cast<FixedWord>(load<WordBits>(bytes + i * sizeof(WordBits)));
  }
}

void store_long_words(size_t count, const int64_t* words, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    store(static_cast<uint64_t>(words[i]), out + i * sizeof(uint64_t));
  }
}

void load_long_words(size_t count, const uint8_t* bytes, int64_t* words) {
  for (size_t i = 0; i < count; ++i) {
    words[i] = static_cast<int64_t>(load<uint64_t>(bytes + i * sizeof(uint64_t)));
  }
}

}  // namespace gradstream
