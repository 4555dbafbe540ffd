#include "runtime/base/no_contraction.h"

#include "server/rules/fold.h"

#include <cmath>

namespace gradstream {
namespace {

// 2^exponent, exact in Real.
Real power_of_two(unsigned exponent) { return static_cast<Real>(static_cast<uint64_t>(1) << exponent); }

// to_fixed() with factor = 2^scale_log2, which is one for all values of an update.
inline Status fixed_by(Real value, Real factor, int64_t* fixed) {
  const Status status = round_fixed(value * factor, fixed);  // exact, or beyond the range
  return status == Status::kOk || std::isfinite(value) ? status : Status::kNotFinite;
}

// How a slot adds and divides.
template <typename Slot>
struct SlotArithmetic {
  // weight * what the clip leaves of value, in units of 1 / factor.
  static Status make_term(Real value, uint16_t weight, Real factor, uint32_t clip, int64_t* term) {
    int64_t fixed = 0;
    GS_TRY(fixed_by(value, factor, &fixed));
    *term = (clip == kClipScaleOne ? fixed : clip_value(fixed, clip)) * weight;
    return Status::kOk;
  }
  // By the high word alone: |sum| < 2^kFoldSumBits, and -2^kFoldSumBits.
  static Status check_sum(const Slot& sum) {
    constexpr int64_t kHighLimit = static_cast<int64_t>(1) << (kFoldSumBits - 64);
    return sum.high < kHighLimit && sum.high >= -kHighLimit ? Status::kOk : Status::kOutOfRange;
  }
  static Real mean(const Slot& sum, uint64_t total_weight, unsigned scale_log2) {
    const Real unit = static_cast<Real>(1) / power_of_two(scale_log2);
    return static_cast<Real>(divide_rounded(sum, total_weight)) * unit;
  }
};

template <>
struct SlotArithmetic<double> {
  static Status make_term(Real value, uint16_t weight, Real, uint32_t clip, double* term) {
    *term = static_cast<double>(value) * weight * (static_cast<double>(clip) / kClipScaleOne);
    return check_sum(*term);
  }
  static Status check_sum(double sum) { return std::isfinite(sum) ? Status::kOk : Status::kNotFinite; }
  static Real mean(double sum, uint64_t total_weight, unsigned) {
    return static_cast<Real>(sum / static_cast<double>(total_weight));
  }
};

using Arithmetic = SlotArithmetic<FoldSlot>;

template <typename Term>
Status check_all(std::span<const FoldSlot> slots, std::span<const Term> terms) {
  if (terms.size() > slots.size()) {
    return Status::kInvalidArgument;
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    GS_TRY(Arithmetic::check_sum(slots[i] + terms[i]));
  }
  return Status::kOk;
}

template <typename Term>
void add_all(std::span<FoldSlot> slots, std::span<const Term> terms) {
  for (size_t i = 0; i < terms.size(); ++i) {
    slots[i] += terms[i];
  }
}

}  // namespace

int64_t divide_rounded(int64_t sum, uint64_t divisor) {
  const uint64_t magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum);
  const uint64_t rest = magnitude % divisor;
  const uint64_t quotient = magnitude / divisor + (rest >= divisor - rest ? 1 : 0);
  return sum < 0 ? -static_cast<int64_t>(quotient) : static_cast<int64_t>(quotient);
}

Status to_fixed(Real value, unsigned scale_log2, int64_t* fixed) {
  return fixed_by(value, power_of_two(scale_log2), fixed);
}

Status check_fold_value(Real value, unsigned scale_log2) {
  FoldTerm term = 0;
  return Arithmetic::make_term(value, 1, power_of_two(scale_log2), kClipScaleOne, &term);
}

Status make_terms(std::span<const Real> values, Real divisor, uint16_t weight, unsigned scale_log2, FoldTerm* terms,
                  uint32_t clip_scale) {
  if (weight == 0) {
    return Status::kInvalidArgument;
  }
  const Real factor = power_of_two(scale_log2);
  for (size_t i = 0; i < values.size(); ++i) {
    GS_TRY(Arithmetic::make_term(values[i] / divisor, weight, factor, clip_scale, &terms[i]));
  }
  return Status::kOk;
}

Status measure_clip(std::span<const Real> values, Real divisor, uint32_t steps_done, unsigned scale_log2,
                    std::optional<uint64_t> radius, UpdateClip* out) {
  *out = UpdateClip();
  if (!radius) {
    return Status::kOk;
  }
  SquareSum sum;
  for (const Real value : values) {
    int64_t fixed = 0;
    GS_TRY(to_fixed(value / divisor, scale_log2, &fixed));
    sum.add(fixed);
  }
  out->norm = sum.norm(steps_done);
  out->scale = clip_scale(out->norm, *radius);
  return Status::kOk;
}

Fold::Fold(std::span<FoldSlot> slots, unsigned scale_log2) : slots_(slots), scale_log2_(scale_log2) {
  GS_ASSERT(scale_log2 <= kFoldScaleLog2Max);
  clear();
}

void Fold::clear() {
  for (FoldSlot& slot : slots_) {
    slot = 0;
  }
}

Status Fold::check_terms(std::span<const FoldTerm> terms) const { return check_all(slots_, terms); }

void Fold::add_terms(std::span<const FoldTerm> terms) { add_all(slots_, terms); }

Status Fold::check_sums(std::span<const FoldSlot> sums) const { return check_all(slots_, sums); }

void Fold::add_sums(std::span<const FoldSlot> sums) { add_all(slots_, sums); }

Status Fold::finish(uint64_t total_weight, Real* out) const { return finish_part(total_weight, 0, slots_.size(), out); }

Status Fold::finish_part(uint64_t total_weight, size_t first, size_t count, Real* out) const {
  if (total_weight == 0 || first > slots_.size() || count > slots_.size() - first) {
    return Status::kInvalidArgument;
  }
  for (size_t i = 0; i < count; ++i) {
    out[i] = Arithmetic::mean(slots_[first + i], total_weight, scale_log2_);
  }
  return Status::kOk;
}

}  // namespace gradstream
