#include "runtime/base/no_contraction.h"

#include "runtime/training/stream.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "runtime/base/features.h"
#include "runtime/base/products.h"
#include "runtime/base/quick.h"

namespace gradstream {
namespace {

constexpr uint32_t kWordBits = 32;

// Real as unsigned integer of the same size, for the sign bit.
using RealBits = std::conditional_t<sizeof(Real) == sizeof(double), uint64_t, uint32_t>;
constexpr int kSignShift = 8 * sizeof(RealBits) - 1;

RandomKey direction_key(const DirectionSpec& spec, uint32_t step) {
  RandomKey key;
  key.seed = spec.seed;
  key.domain = spec.shared ? RandomDomain::kSharedDirections : RandomDomain::kOwnDirections;
  key.version = spec.base_version;
  key.owner = spec.owner;
  key.step = step;
  return key;
}

uint64_t words_per_direction(Shape shape) { return (shape.size() + kWordBits - 1) / kWordBits; }

Real sign_magnitude(Shape shape) { return static_cast<Real>(1) / std::sqrt(static_cast<Real>(shape.size())); }

#if defined(__arm__) && defined(__ARM_FP)
// Adds value to `count` numbers where their bit of `flips` is 0, and subtracts it where it is 1, from bit 0 on.
[[gnu::always_inline]] inline void add_flipped(RealBits value, uint32_t flips, size_t count, Real* sum) {
#pragma GCC unroll 4
  for (size_t i = 0; i < count; ++i) {
    const RealBits flip = static_cast<RealBits>((flips >> i) & 1) << kSignShift;
    sum[i] += std::bit_cast<Real>(value ^ flip);
  }
}

// sum[e] <- sum[e] + value where the bit of e is set, - value where it is not; the stream stands at the direction's
// first word. Flipping the sign bit is exact, and so the compiler may vectorise the loop without changing a bit.
// Counting takes a third of the loop. So four numbers are added without.
GS_QUICK void add_signed(RandomStream& stream, size_t count, Real value, Real* sum) {
  constexpr size_t kPass = 4;
  const RealBits value_bits = std::bit_cast<RealBits>(value);
  for (; count >= kWordBits; count -= kWordBits) {
    uint32_t word = ~stream.next();
    for (const Real* const end = sum + kWordBits; sum != end; sum += kPass, word >>= kPass) {
      add_flipped(value_bits, word, kPass, sum);
    }
  }
  if (count > 0) {
    const uint32_t word = ~stream.next();
    for (size_t i = 0; i < count; ++i) {
      add_flipped(value_bits, word >> i, 1, sum + i);
    }
  }
}
#else
// The same.
void add_signed(RandomStream& stream, size_t count, Real value, Real* sum) {
  const RealBits value_bits = std::bit_cast<RealBits>(value);
  for (size_t first = 0; first < count; first += kWordBits) {
    const uint32_t word = ~stream.next();
    const size_t block = count - first < kWordBits ? count - first : kWordBits;
    for (size_t i = 0; i < block; ++i) {
      const RealBits flip = static_cast<RealBits>((word >> i) & 1) << kSignShift;
      sum[first + i] += std::bit_cast<Real>(value_bits ^ flip);
    }
  }
}
#endif

FixedWord add_modulo(FixedWord a, FixedWord b) {
  return static_cast<FixedWord>(static_cast<RealBits>(a) + static_cast<RealBits>(b));
}

// As add_signed, in words modulo their range.
template <typename Word>
void add_signed_words(RandomStream& stream, size_t count, Word value, Word* sum) {
  using Bits = std::make_unsigned_t<Word>;
  for (size_t first = 0; first < count; first += kWordBits) {
    const uint32_t word = ~stream.next();
    const size_t block = count - first < kWordBits ? count - first : kWordBits;
    for (size_t i = 0; i < block; ++i) {
      const Bits negate = static_cast<Bits>(0) - static_cast<Bits>((word >> i) & 1);
      const Bits term = (static_cast<Bits>(value) ^ negate) - negate;
      sum[first + i] = static_cast<Word>(static_cast<Bits>(sum[first + i]) + term);
    }
  }
}

// out <- direction j of the step: normals divided by their norm.
void fill_sphere(const RandomKey& key, size_t size, uint32_t j, Real* out) {
  fill_normal(key, static_cast<uint64_t>(j) * size, size, out);
  const Real norm = norm2(size, out);
  for (size_t e = 0; e < size; ++e) {
    out[e] /= norm;
  }
}

// A version has further tensors where updates are tensors, and for the stages before training.
constexpr bool kHasExtraParts = kSendsTensors || kTakesUnits;
constexpr ModelPart kExtraParts[kExtraPartCount] = {ModelPart::kMeanGradient, ModelPart::kPreviousModel,
                                                    ModelPart::kDirection};

bool is_sphere(const DirectionSpec& spec) { return kHasHostMembers && spec.kind == DirectionKind::kSphere; }

}  // namespace

Status check_directions(const DirectionSpec& spec) {
  if (spec.kind == DirectionKind::kSphere && !kHasHostMembers) {
    return Status::kUnimplemented;
  }
  const bool is_known = spec.kind == DirectionKind::kSign || spec.kind == DirectionKind::kSphere;
  return is_known && spec.direction_count > 0 ? Status::kOk : Status::kInvalidArgument;
}

void fill_direction(const DirectionSpec& spec, Shape shape, uint32_t step, uint32_t j, Real* out) {
  GS_ASSERT(check_directions(spec) == Status::kOk);
  const RandomKey key = direction_key(spec, step);
  if (is_sphere(spec)) {
    fill_sphere(key, shape.size(), j, out);
    return;
  }
  RandomStream stream(key, j * words_per_direction(shape));
  fill_zero(shape.size(), out);
  add_signed(stream, shape.size(), sign_magnitude(shape), out);
}

size_t sign_word_count(Shape shape) { return static_cast<size_t>(words_per_direction(shape)); }

void fill_sign_words(const DirectionSpec& spec, Shape shape, uint32_t step, uint32_t j, uint32_t* out) {
  const size_t count = sign_word_count(shape);
  RandomStream stream(direction_key(spec, step), j * words_per_direction(shape));
  for (size_t i = 0; i < count; ++i) {
    out[i] = stream.next();
  }
}

void fill_normal_direction(const DirectionSpec& spec, Shape shape, uint32_t step, uint32_t j, Real* out) {
  fill_normal(direction_key(spec, step), static_cast<uint64_t>(j) * shape.size(), shape.size(), out);
}

Status accumulate_directions(const DirectionSpec& spec, Shape shape, uint32_t first, uint32_t count,
                             const Real* coefficients, Real* sum, Arena& arena) {
  GS_TRY(check_directions(spec));
  const size_t size = shape.size();
  ScratchScope scope(arena);
  Real* direction = nullptr;
  if (is_sphere(spec)) {
    const Result<Real*> scratch = arena.scratch<Real>(size);
    GS_TRY(scratch.status());
    direction = scratch.value();
  }
  const Real magnitude = sign_magnitude(shape);
  const uint32_t m = spec.direction_count;
  uint32_t done = 0;
  while (done < count) {
    // The directions of one step stand one after another in one random stream.
    const uint32_t step = (first + done) / m;
    const uint32_t j = (first + done) % m;
    const uint32_t run = count - done < m - j ? count - done : m - j;
    const RandomKey key = direction_key(spec, step);
    RandomStream stream(key, j * words_per_direction(shape));
    for (uint32_t i = 0; i < run; ++i) {
      const Real coefficient = coefficients[done + i];
      if (is_sphere(spec)) {
        fill_sphere(key, size, j + i, direction);
        add_scaled(size, coefficient, direction, sum);
      } else {
        add_signed(stream, size, coefficient * magnitude, sum);
      }
    }
    done += run;
  }
  return Status::kOk;
}

SignReader::SignReader(const DirectionSpec& spec, Shape shape, uint32_t step, uint32_t j)
    : key_(direction_key(spec, step)), first_word_(j * words_per_direction(shape)) {}

void SignReader::add(size_t first, size_t count, Real value, Real* values) {
  const RealBits value_bits = std::bit_cast<RealBits>(value);
  for (size_t done = 0; done < count;) {
    const uint64_t place = first_word_ + (first + done) / kWordBits;
    if (place / 4 != block_) {
      block_ = place / 4;
      philox_block(key_, static_cast<uint32_t>(block_), words_);
    }
    const size_t bit = (first + done) % kWordBits;
    const uint32_t word = ~words_[place % 4] >> bit;
    const size_t block = count - done < kWordBits - bit ? count - done : kWordBits - bit;
    for (size_t i = 0; i < block; ++i) {
      const RealBits flip = static_cast<RealBits>((word >> i) & 1) << kSignShift;
      values[done + i] += std::bit_cast<Real>(value_bits ^ flip);
    }
    done += block;
  }
}

void accumulate_range(const DirectionSpec& spec, Shape shape, uint32_t first, uint32_t count, const Real* coefficients,
                      size_t begin, size_t size, Real* sum) {
  const Real magnitude = sign_magnitude(shape);
  for (uint32_t q = first; q < first + count; ++q) {
    SignReader reader(spec, shape, q / spec.direction_count, q % spec.direction_count);
    reader.add(begin, size, coefficients[q - first] * magnitude, sum);
  }
}

Real sign_distance(Shape shape, Real distance) { return distance * sign_magnitude(shape); }

template <typename Word>
Status accumulate_exact(const DirectionSpec& spec, Shape shape, uint32_t first, uint32_t count,
                        const Word* coefficients, Word* sum) {
  if (spec.kind != DirectionKind::kSign || spec.direction_count == 0) {
    return Status::kInvalidArgument;
  }
  const uint32_t m = spec.direction_count;
  for (uint32_t done = 0; done < count;) {
    const uint32_t j = (first + done) % m;
    const uint32_t run = count - done < m - j ? count - done : m - j;
    RandomStream stream(direction_key(spec, (first + done) / m), j * words_per_direction(shape));
    for (uint32_t i = 0; i < run; ++i) {
      add_signed_words(stream, shape.size(), coefficients[done + i], sum);
    }
    done += run;
  }
  return Status::kOk;
}

template Status accumulate_exact(const DirectionSpec&, Shape, uint32_t, uint32_t, const int32_t*, int32_t*);
template Status accumulate_exact(const DirectionSpec&, Shape, uint32_t, uint32_t, const int64_t*, int64_t*);

Real exact_unit(Shape shape, uint32_t scale_log2) { return sign_magnitude(shape) * fixed_unit(scale_log2); }

size_t accumulate_scratch_size(const DirectionSpec& spec, Shape shape) {
  return is_sphere(spec) ? Arena::taken_size<Real>(shape.size()) : 0;
}

Real estimate_factor(Shape shape, uint32_t direction_count) {
  return static_cast<Real>(shape.size()) / static_cast<Real>(direction_count);
}

Status fill_correction(const DirectionSpec& spec, Shape shape, const Real* record_sum, uint32_t steps_done,
                       Encoding encoding, const uint8_t* upload, size_t upload_size, Real* correction, Arena& arena,
                       OwnClip clip) {
  const size_t count = static_cast<size_t>(steps_done) * spec.direction_count;
  if (count == 0 || count > kScalarCountMax || encoded_size(encoding, count) != upload_size) {
    return Status::kInvalidArgument;
  }
  if (correction != record_sum) {
    copy(shape.size(), record_sum, correction);
  }
  Real block[kInt8BlockSize];
  for (size_t first = 0; first < count; first += kInt8BlockSize) {
    const size_t block_count = count - first < kInt8BlockSize ? count - first : kInt8BlockSize;
    GS_TRY(decode_values(encoding, block_count, upload + encoded_size(encoding, first),
                         encoded_size(encoding, block_count), block));
    for (size_t i = 0; i < block_count; ++i) {
      block[i] = -(block[i] / static_cast<Real>(steps_done));
    }
    GS_TRY(clip.apply(block_count, block));
    GS_TRY(accumulate_directions(spec, shape, static_cast<uint32_t>(first), static_cast<uint32_t>(block_count), block,
                                 correction, arena));
  }
  scale(shape.size(), estimate_factor(shape, spec.direction_count), correction);
  return all_finite(shape.size(), correction) ? Status::kOk : Status::kNotFinite;
}

Status Replica::prepare(const ManifoldOps& manifold, Shape shape, Arena& arena, bool has_mean, uint32_t parts,
                        bool has_sum) {
  GS_TRY(manifold.check_shape(shape));
  has_mean = kHoldsMeans && has_mean;
  has_sum = has_sum && !has_mean;
  if (persistent_size(shape, has_mean, parts, has_sum) > arena.free_size()) {
    return Status::kOutOfMemory;
  }
  const size_t mark = arena.mark();
  const Result<Real*> model = arena.persistent<Real>(shape.size());
  const Result<Real*> sum = arena.persistent<Real>(has_sum ? shape.size() : 0);
  const Result<FixedWord*> words = arena.persistent<FixedWord>(has_mean ? shape.size() : 0);
  const Result<FixedWord*> mean = arena.persistent<FixedWord>(has_mean ? shape.size() : 0);
  if (!model.ok() || !sum.ok() || !words.ok() || !mean.ok()) {
    arena.release(mark);
    return Status::kOutOfMemory;
  }
  for (uint32_t i = 0; kHasExtraParts && i < kExtraPartCount; ++i) {
    extra_[i] = nullptr;
    if ((parts & part_bit(kExtraParts[i])) == 0) {
      continue;
    }
    if (kTakesUnits && kExtraParts[i] == ModelPart::kDirection && has_sum) {
      extra_[i] = sum.value();
    } else {
      const Result<Real*> extra = arena.persistent<Real>(shape.size());
      GS_TRY(extra.status());
      extra_[i] = extra.value();
    }
  }
  manifold_ = &manifold;
  shape_ = shape;
  model_ = model.value();
  sum_ = has_sum ? sum.value() : nullptr;
  words_ = has_mean ? words.value() : nullptr;
  mean_ = has_mean ? mean.value() : nullptr;
  version_ = 0;
  has_model_ = false;
  in_record_ = false;
  parts_held_ = 0;
  return Status::kOk;
}

uint64_t Replica::digest() const {
  uint64_t digest = digest_values(kDigestStart, shape_.size(), model_);
  if (kHoldsMeans && mean_ != nullptr) {
    digest = digest_words(digest, shape_.size(), mean_);
  }
  for (uint32_t i = 0; kHasExtraParts && i < kExtraPartCount; ++i) {
    if ((parts_held_ & part_bit(kExtraParts[i])) != 0) {
      digest = digest_values(digest, shape_.size(), extra_[i]);
    }
  }
  return digest;
}

Real* Replica::part_buffer(ModelPart part) {
  for (uint32_t i = 0; kHasExtraParts && i < kExtraPartCount; ++i) {
    if (kExtraParts[i] == part) {
      return extra_[i];
    }
  }
  return nullptr;
}

const Real* Replica::part(ModelPart part) const {
  for (uint32_t i = 0; kHasExtraParts && i < kExtraPartCount; ++i) {
    if (kExtraParts[i] == part && (parts_held_ & part_bit(part)) != 0) {
      return extra_[i];
    }
  }
  return nullptr;
}

Real* Replica::begin_snapshot() {
  GS_ASSERT(model_ != nullptr);
  has_model_ = false;
  in_record_ = false;
  parts_held_ = 0;
  return model_;
}

void Replica::adopt_snapshot(uint32_t version, uint32_t parts) {
  GS_ASSERT(model_ != nullptr);
  version_ = version;
  has_model_ = true;
  parts_held_ = parts & kExtraPartBits;
}

void Replica::adopt_parts(uint32_t version, uint32_t parts) {
  GS_ASSERT(has_model_ && version == version_ + 1);
  adopt_snapshot(version, parts);
}

Status Replica::begin_record() {
  if (!has_model_ || sum_ == nullptr) {
    return Status::kProtocolError;
  }
  if (kTakesUnits) {
    parts_held_ &= ~part_bit(ModelPart::kDirection);  // it may stand there
  }
  fill_zero(shape_.size(), sum_);
  in_record_ = true;
  return Status::kOk;
}

Status Replica::add_to_record(const DirectionSpec& spec, uint32_t first, uint32_t count, const Real* coefficients,
                              Arena& arena) {
  if (!in_record_ || sum_ == nullptr) {
    return Status::kProtocolError;
  }
  return accumulate_directions(spec, shape_, first, count, coefficients, sum_, arena);
}

Status Replica::finish_record(uint32_t direction_count, Real step_scale, Arena& arena) {
  if (!in_record_ || sum_ == nullptr) {
    return Status::kProtocolError;
  }
  if (direction_count == 0) {
    return Status::kInvalidArgument;
  }
  GS_TRY(step_gradient(sum_, step_scale * estimate_factor(shape_, direction_count), arena));
  in_record_ = false;
  return Status::kOk;
}

Status Replica::begin_exact_record(bool from_zero) {
  if (!has_model_ || mean_ == nullptr) {
    return Status::kProtocolError;
  }
  std::fill_n(words_, shape_.size(), FixedWord{0});
  in_record_ = true;
  is_from_zero_ = from_zero;
  has_taken_step_ = false;
  return Status::kOk;
}

Status Replica::add_exact(const DirectionSpec& spec, uint32_t first, uint32_t count, const FixedWord* coefficients) {
  if (!in_record_ || mean_ == nullptr) {
    return Status::kProtocolError;
  }
  return accumulate_exact(spec, shape_, first, count, coefficients, words_);
}

// D stands in words_ while the step is made, and becomes the mean with it.
Status Replica::take_exact_step(uint32_t direction_count, Real step_scale, uint32_t scale_log2, Arena& arena) {
  if (!in_record_ || mean_ == nullptr || has_taken_step_) {
    return Status::kProtocolError;
  }
  if (direction_count == 0) {
    return Status::kInvalidArgument;
  }
  ScratchScope scope(arena);
  const Result<Real*> next = arena.scratch<Real>(shape_.size());
  GS_TRY(next.status());
  const Real unit = exact_unit(shape_, scale_log2);
  for (size_t e = 0; e < shape_.size(); ++e) {
    const FixedWord d = is_from_zero_ ? words_[e] : add_modulo(mean_[e], words_[e]);
    next.value()[e] = unit * static_cast<Real>(d);
  }
  const Real step = step_scale * estimate_factor(shape_, direction_count);
  GS_TRY(gradient_step(next.value(), step, next.value(), arena));
  copy(shape_.size(), next.value(), model_);
  for (size_t e = 0; e < shape_.size(); ++e) {
    mean_[e] = is_from_zero_ ? words_[e] : add_modulo(mean_[e], words_[e]);
    words_[e] = 0;
  }
  has_taken_step_ = true;
  has_model_ = false;  // until the record is whole
  return Status::kOk;
}

Status Replica::finish_exact_record() {
  if (!in_record_ || mean_ == nullptr || !has_taken_step_) {
    return Status::kProtocolError;
  }
  for (size_t e = 0; e < shape_.size(); ++e) {
    mean_[e] = add_modulo(mean_[e], words_[e]);
  }
  in_record_ = false;
  has_taken_step_ = false;
  has_model_ = true;
  ++version_;
  return Status::kOk;
}

void Replica::fill_mean(Real unit, Real* out) const {
  GS_ASSERT(mean_ != nullptr);
  for (size_t e = 0; e < shape_.size(); ++e) {
    out[e] = unit * static_cast<Real>(mean_[e]);
  }
}

Status Replica::tangent_step(const Real* v, Real step, Real* out, Arena& arena) const {
  if (!has_model_) {
    return Status::kProtocolError;
  }
  GS_TRY(manifold_->project_tangent(shape_, model_, v, out, arena));
  scale(shape_.size(), step, out);
  GS_TRY(manifold_->retract(shape_, model_, out, out, arena));
  return all_finite(shape_.size(), out) ? Status::kOk : Status::kNotFinite;
}

Status Replica::step_tangent(const Real* v, Real step, Arena& arena) {
  ScratchScope scope(arena);
  const Result<Real*> next = arena.scratch<Real>(shape_.size());
  GS_TRY(next.status());
  GS_TRY(tangent_step(v, step, next.value(), arena));
  return take_model(next.value());
}

Status Replica::gradient_step(const Real* g, Real step, Real* out, Arena& arena) const {
  if (!has_model_) {
    return Status::kProtocolError;
  }
  for (size_t e = 0; e < shape_.size(); ++e) {
    out[e] = model_[e] + -step * g[e];
  }
  GS_TRY(manifold_->project_point(shape_, out, out, arena));
  return all_finite(shape_.size(), out) ? Status::kOk : Status::kNotFinite;
}

Status Replica::step_gradient(const Real* g, Real step, Arena& arena) {
  ScratchScope scope(arena);
  const Result<Real*> next = arena.scratch<Real>(shape_.size());
  GS_TRY(next.status());
  GS_TRY(gradient_step(g, step, next.value(), arena));
  return take_model(next.value());
}

// The only place where a version begins: all or nothing.
Status Replica::take_model(const Real* z) {
  if (!all_finite(shape_.size(), z)) {
    return Status::kNotFinite;
  }
  copy(shape_.size(), z, model_);
  parts_held_ = 0;
  ++version_;
  return Status::kOk;
}

void Replica::flip_bit_for_test(size_t bit) {
  const size_t place = bit / (8 * sizeof(Real));
  if (mean_ != nullptr && place >= shape_.size()) {
    GS_ASSERT(place < 2 * shape_.size());
    mean_[place - shape_.size()] ^= static_cast<FixedWord>(RealBits{1} << (bit % (8 * sizeof(Real))));
    return;
  }
  GS_ASSERT(place < shape_.size());
  const RealBits mask = static_cast<RealBits>(1) << (bit % (8 * sizeof(Real)));
  model_[place] = std::bit_cast<Real>(std::bit_cast<RealBits>(model_[place]) ^ mask);
}

}  // namespace gradstream
