#include "runtime/base/no_contraction.h"

#include "server/rules/units_fold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "server/run/limits.h"
#include "server/run/run_core.h"
#include "server/run/units_keys.h"

namespace gradstream {
namespace {

constexpr float kFloatMax = std::numeric_limits<float>::max();
constexpr float kFloatMin = std::numeric_limits<float>::denorm_min();
constexpr int kFloatBits = std::numeric_limits<float>::digits;
constexpr int kFloatExponentMin = -149;  // of the least float above 0
constexpr size_t kWordSize = 8;

std::vector<int64_t> words_of(std::span<const uint8_t> bytes) {
  std::vector<int64_t> words(bytes.size() / kWordSize);
  for (size_t i = 0; i < words.size(); ++i) {
    const uint64_t low = u32_of(bytes.subspan(i * kWordSize, 4));
    const uint64_t high = u32_of(bytes.subspan(i * kWordSize + 4, 4));
    words[i] = static_cast<int64_t>(high << 32 | low);
  }
  return words;
}

// 2^bits * count, for count below 2^16 and bits up to 46.
int64_t times_power(int64_t count, int bits) { return count << bits; }

// A sum of numbers from 0 to 2^63 - 1, in two words.
struct WideSum {
  uint64_t high = 0;
  uint64_t low = 0;

  void add(int64_t value) {
    low += static_cast<uint64_t>(value);
    high += low < static_cast<uint64_t>(value) ? 1 : 0;
  }
  double value() const { return std::ldexp(static_cast<double>(high), 64) + static_cast<double>(low); }
};

// The lower one of two in the middle. values are reordered; there is one at least.
template <typename T>
T lower_median(std::vector<T>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

float factor_of(double divisor) {
  return divisor == 0 ? 1 : std::clamp(static_cast<float>(1 / divisor), kFloatMin, kFloatMax);
}

using Answers = std::map<uint32_t, std::vector<int64_t>>;  // words by device
using Outliers = std::map<uint32_t, StageOutlier>;

class UnitsFold : public StageFold {
 public:
  explicit UnitsFold(const StageContext& context)
      : run_(*context.parameters), stage_(context.step.stage), known_columns_(units_column_count(run_)) {
    const Status status = decode_units(context.units, &columns_);
    GS_ASSERT(status == Status::kOk);  // take_stage() has decoded it
    known_columns_ = columns_.empty() ? known_columns_ : static_cast<uint32_t>(columns_.size());
  }

  StageFault check(const StageAnswer& answer) const override {
    const std::vector<int64_t> words = words_of(answer.values);
    if (words.size() < 2 || answer.values.size() % kWordSize != 0 || (known_columns_ != 0 && !fits(words.size()))) {
      return {gs_Reason_REASON_WRONG_SHAPE};
    }
    // Samples that are held out do not count here, but do for samples_min, which a Hello is held to.
    if (words[0] < 1 || words[0] > int64_t{kSampleCountMax}) {
      return {gs_Reason_REASON_OUT_OF_RANGE, 0, static_cast<double>(words[0]), 1, kSampleCountMax};
    }
    if (answers_.size() >= kKeptUpdateCountMax) {
      return {gs_Reason_REASON_OUT_OF_RANGE, 0, 0, 0, 0};
    }
    switch (stage_) {
      case TaskStage::kExponents:
        return check_all(words, 1, kUnitsExponentMin, kUnitsExponentMax);
      case TaskStage::kSums:
        return check_sums(words);
      default:
        return check_all(words, 1, 0, times_power(words[0], 2 * (kSquareBits + 1)));
    }
  }

  void add(const StageAnswer& answer) override { answers_[answer.device] = words_of(answer.values); }

  StageDecision close(const Aggregator&) const override {
    Outliers outliers = stage_ == TaskStage::kExponents ? find_wrong_shapes() : Outliers();
    Answers believed = answers_;
    leave_out(outliers, &believed);
    Outliers more = stage_ == TaskStage::kExponents ? find_far_exponents(believed)
                    : stage_ == TaskStage::kSums    ? find_far_means(believed)
                                                    : find_far_squares(believed);
    // Where half of the fleet would be left out nobody knows who is right.
    if (2 * more.size() < believed.size()) {
      leave_out(more, &believed);
      outliers.merge(more);
    }
    StageDecision decision;
    if (believed.empty()) {
      decision.status = Status::kOutOfRange;  // cannot be: less than half are left out
      return decision;
    }
    std::vector<UnitsColumn> table = stage_ == TaskStage::kExponents ? exponents_of(believed)
                                     : stage_ == TaskStage::kSums    ? means_of(believed)
                                                                     : scales_of(believed);
    decision.units = encode_units(table);
    for (const auto& [device, outlier] : outliers) {
      decision.left_out.push_back(outlier);
    }
    decision.notes = {{"columns", std::to_string(table.size())},
                      {"devices", std::to_string(believed.size())},
                      {"samples", std::to_string(count_of(believed))}};
    return decision;
  }

  uint64_t digest() const override {
    uint64_t digest = kDigestStart;
    for (const auto& [device, words] : answers_) {
      for (const uint64_t word : words) {
        for (int shift = 0; shift < 64; shift += 8) {
          digest = digest_byte(digest, static_cast<uint8_t>(word >> shift));
        }
      }
      digest = digest_byte(digest, static_cast<uint8_t>(device));
    }
    return digest;
  }

 private:
  bool has_range() const { return (units_bits(run_) & kUnitsRangeBit) != 0; }
  bool fits(size_t word_count) const { return word_count == answer_value_count(run_, stage_, known_columns_); }

  static StageFault fault(size_t column, int64_t value, int64_t least, int64_t most) {
    return {gs_Reason_REASON_OUT_OF_RANGE, static_cast<uint32_t>(column), static_cast<double>(value),
            static_cast<double>(least), static_cast<double>(most)};
  }

  // Of the words from `first` on, which belong to the columns in order.
  static StageFault check_all(std::span<const int64_t> words, size_t first, int64_t least, int64_t most) {
    for (size_t i = first; i < words.size(); ++i) {
      if (words[i] < least || words[i] > most) {
        return fault(i - first + 1, words[i], least, most);
      }
    }
    return {};
  }

  StageFault check_sums(std::span<const int64_t> words) const {
    const size_t columns = columns_.size();
    const int64_t most = times_power(words[0], kSumBits);
    const StageFault sums = check_all(words.first(1 + columns), 1, -most, most);
    if (sums.reason != gs_Reason_REASON_NONE || !has_range()) {
      return sums;
    }
    for (size_t c = 0; c < columns; ++c) {
      const int64_t lowest = words[1 + columns + c];
      const int64_t highest = words[1 + 2 * columns + c];
      const int64_t bound = times_power(1, kSumBits);
      if (lowest < -bound || lowest > bound) {
        return fault(c + 1, lowest, -bound, bound);
      }
      if (highest < lowest || highest > bound) {
        return fault(c + 1, highest, lowest, bound);
      }
      // Their mean lies between them.
      if (words[1 + c] < words[0] * lowest || words[1 + c] > words[0] * highest) {
        return fault(c + 1, words[1 + c], words[0] * lowest, words[0] * highest);
      }
    }
    return {};
  }

  static void leave_out(const Outliers& outliers, Answers* answers) {
    for (const auto& [device, outlier] : outliers) {
      answers->erase(device);
    }
  }

  // Where nothing but the answers says how many columns there are, the number that most devices have counts.
  Outliers find_wrong_shapes() const {
    std::map<size_t, size_t> counts;
    for (const auto& [device, words] : answers_) {
      ++counts[words.size()];
    }
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    Outliers outliers;
    for (const auto& [device, words] : answers_) {
      if (words.size() != most->first) {
        outliers[device] = {device, 0, static_cast<double>(words.size() - 1), static_cast<double>(most->first - 1)};
      }
    }
    return outliers;
  }

  // Of devices whose column is not all zeros: such a column says nothing of the others' unit.
  static Outliers find_far_exponents(const Answers& answers) {
    Outliers outliers;
    const size_t words = answers.empty() ? 0 : answers.begin()->second.size();
    for (size_t i = 1; i < words; ++i) {
      std::vector<int64_t> exponents;
      for (const auto& [device, answer] : answers) {
        if (answer[i] > kUnitsExponentMin) {
          exponents.push_back(answer[i]);
        }
      }
      if (exponents.size() < kExponentAnswersMin) {
        continue;
      }
      const int64_t limit = lower_median(exponents) + kExponentSpread;
      for (const auto& [device, answer] : answers) {
        if (answer[i] > limit) {
          outliers.try_emplace(device, StageOutlier{device, static_cast<uint32_t>(i), static_cast<double>(answer[i]),
                                                    static_cast<double>(limit)});
        }
      }
    }
    return outliers;
  }

  // Devices whose mean word of a column is kMeanSpread median distances and `least` away from the median. unit: of the
  // words, for the log.
  Outliers find_far(const Answers& answers, double least, bool only_above, int unit_bits) const {
    Outliers outliers;
    if (answers.size() < kMeanAnswersMin) {
      return outliers;
    }
    for (size_t c = 0; c < columns_.size(); ++c) {
      std::vector<double> means;
      for (const auto& [device, words] : answers) {
        means.push_back(static_cast<double>(words[1 + c]) / static_cast<double>(words[0]));
      }
      std::vector<double> sorted = means;
      const double median = lower_median(sorted);
      std::vector<double> distances(means.size());
      std::transform(means.begin(), means.end(), distances.begin(),
                     [&](double mean) { return std::fabs(mean - median); });
      const double limit = std::max(kMeanSpread * lower_median(distances), least);
      size_t i = 0;
      for (const auto& [device, words] : answers) {
        const double mean = means[i++];
        const double distance = only_above ? mean - median : std::fabs(mean - median);
        if (distance > limit) {
          const int exponent = (only_above ? 2 : 1) * (columns_[c].exponent - unit_bits);
          outliers.try_emplace(device, StageOutlier{device, static_cast<uint32_t>(c + 1), std::ldexp(mean, exponent),
                                                    std::ldexp(median + (mean < median ? -limit : limit), exponent)});
        }
      }
    }
    return outliers;
  }
  // kMeanReach of 2^e.
  Outliers find_far_means(const Answers& answers) const {
    return find_far(answers, std::ldexp(kMeanReach, kSumBits), false, kSumBits);
  }
  // 2^(2 e): a mean square that values below 2^e have only if almost all are far from the fleet's mean.
  Outliers find_far_squares(const Answers& answers) const {
    return find_far(answers, std::ldexp(1.0, 2 * kSquareBits), true, kSquareBits);
  }

  static uint64_t count_of(const Answers& answers) {
    uint64_t count = 0;
    for (const auto& [device, words] : answers) {
      count += static_cast<uint64_t>(words[0]);
    }
    return count;
  }

  static std::vector<UnitsColumn> exponents_of(const Answers& answers) {
    std::vector<UnitsColumn> table(answers.begin()->second.size() - 1, {kUnitsExponentMin, 0, 0});
    for (const auto& [device, words] : answers) {
      for (size_t c = 0; c < table.size(); ++c) {
        table[c].exponent = std::max(table[c].exponent, static_cast<int32_t>(words[1 + c]));
      }
    }
    return table;
  }

  std::vector<UnitsColumn> means_of(const Answers& answers) const {
    std::vector<UnitsColumn> table = columns_;
    const uint64_t count = count_of(answers);
    for (size_t c = 0; c < table.size(); ++c) {
      int64_t sum = 0;  // of 2^31 values of 30 bits at most
      int64_t lowest = std::numeric_limits<int64_t>::max();
      int64_t highest = std::numeric_limits<int64_t>::min();
      for (const auto& [device, words] : answers) {
        sum += words[1 + c];
        lowest = has_range() ? std::min(lowest, words[1 + table.size() + c]) : 0;
        highest = has_range() ? std::max(highest, words[1 + 2 * table.size() + c]) : 0;
      }
      table[c].mean = nearest_quotient(sum, count, table[c].exponent - kSumBits);
      if (is_last()) {
        const double range =
            has_range() ? std::ldexp(static_cast<double>(highest - lowest), table[c].exponent - kSumBits) : 1;
        settle(range, &table[c]);
      }
    }
    return table;
  }

  std::vector<UnitsColumn> scales_of(const Answers& answers) const {
    std::vector<UnitsColumn> table = columns_;
    const auto count = static_cast<double>(count_of(answers));
    const UnitScale scale = run_.units.keys().scale;
    double total = 0;
    std::vector<double> variances;
    for (size_t c = 0; c < table.size(); ++c) {
      WideSum sum;
      for (const auto& [device, words] : answers) {
        sum.add(words[1 + c]);
      }
      variances.push_back(std::ldexp(sum.value() / count, 2 * (table[c].exponent - kSquareBits)));
      total += variances.back();
    }
    for (size_t c = 0; c < table.size(); ++c) {
      settle(std::sqrt(variances[c]), &table[c]);
      if (scale == UnitScale::kCommon) {
        table[c].factor = factor_of(std::sqrt(total));
      }
    }
    return table;
  }

  // Whether no stage of units comes after this one.
  bool is_last() const { return !is_of_units(stage_after(run_, {stage_, 0}).stage); }

  // The column's last mean and factor. extent: what it is divided by; 0: it does not vary.
  void settle(double extent, UnitsColumn* column) const {
    const bool is_constant = extent == 0;
    if (run_.units.keys().centre == Centre::kNone || (is_constant && has_labels(run_))) {
      column->mean = 0;
    }
    column->factor = run_.units.keys().scale == UnitScale::kNone ? 1 : factor_of(extent);
  }

  const RunParameters& run_;
  TaskStage stage_;
  uint32_t known_columns_;  // 0: the answers say
  std::vector<UnitsColumn> columns_;
  Answers answers_;
};

}  // namespace

float nearest_quotient(int64_t numerator, uint64_t denominator, int exponent) {
  GS_ASSERT(denominator > 0);
  const bool is_negative = numerator < 0;
  uint64_t magnitude = is_negative ? 0 - static_cast<uint64_t>(numerator) : static_cast<uint64_t>(numerator);
  if (magnitude == 0) {
    return 0;
  }
  // As many bits of the quotient as there are; whether some are left over decides ties alone.
  const int shift = std::countl_zero(magnitude);
  magnitude <<= shift;
  uint64_t quotient = magnitude / denominator;
  bool has_rest = magnitude % denominator != 0;
  exponent -= shift;
  const int width = static_cast<int>(std::bit_width(quotient));
  const int drop = std::max(width - kFloatBits, kFloatExponentMin - exponent);
  if (drop > width) {
    return 0;
  }
  if (drop > 0) {
    const uint64_t half = uint64_t{1} << (drop - 1);
    const uint64_t low = quotient & (half | (half - 1));
    has_rest = has_rest || low != (low & half);
    quotient = drop == 64 ? 0 : quotient >> drop;
    const bool rounds_up = (low & half) != 0 && (has_rest || (quotient & 1) != 0);
    quotient += rounds_up ? 1 : 0;
    exponent += drop;
  }
  const double value = std::min(std::ldexp(static_cast<double>(quotient), exponent), static_cast<double>(kFloatMax));
  return static_cast<float>(is_negative ? -value : value);
}

std::unique_ptr<StageFold> make_units_fold(const StageContext& context) { return std::make_unique<UnitsFold>(context); }

}  // namespace gradstream
