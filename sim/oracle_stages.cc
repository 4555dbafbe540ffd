// The stages of units again, from the samples that the simulated devices hold, and not by the server's code.
#include <algorithm>
#include <cmath>

#include "server/run/run_core.h"
#include "server/run/units_keys.h"
#include "sim/oracle.h"

namespace gradstream {
namespace {

int64_t whole(Real x, int bits) { return std::llround(std::ldexp(static_cast<double>(x), bits)); }

}  // namespace

void Oracle::hold_samples(uint32_t device, const Real* samples, uint32_t count, uint32_t columns) {
  stages_.samples[device] = {samples, count, columns};
}

uint64_t Oracle::digest() const { return digest_with_units(replica_.digest(), stages_.table); }

// What a device with these samples answers in the open stage.
std::vector<int64_t> Oracle::answer_of(const HeldSamples& samples) const {
  const uint32_t columns = samples.columns;
  const bool has_range = stages_.open == TaskStage::kSums && parameters_.units.keys().scale == UnitScale::kRange;
  std::vector<int64_t> words(1 + (has_range ? 3 : 1) * columns,
                             stages_.open == TaskStage::kExponents ? kUnitsExponentMin : 0);
  words[0] = samples.count;
  for (uint32_t i = 0; i < samples.count; ++i) {
    for (uint32_t c = 0; c < columns; ++c) {
      const Real x = samples.values[i * columns + c];
      int64_t& word = words[1 + c];
      if (stages_.open == TaskStage::kExponents) {
        word = std::max(word, x == 0 ? int64_t{kUnitsExponentMin} : int64_t{std::ilogb(x)} + 1);
      } else if (stages_.open == TaskStage::kSums) {
        const int64_t q = whole(x, 30 - stages_.units[c].exponent);
        word += q;
        if (has_range) {
          int64_t& least = words[1 + columns + c];
          int64_t& most = words[1 + 2 * columns + c];
          least = i == 0 ? q : std::min(least, q);
          most = i == 0 ? q : std::max(most, q);
        }
      } else {
        const Real y = x - stages_.units[c].mean;
        const int64_t r = whole(y, 22 - stages_.units[c].exponent);
        word += r * r;
      }
    }
  }
  return words;
}

std::string Oracle::on_answer(const JournalRecord& record) {
  const auto samples = stages_.samples.find(record.device());
  if (samples == stages_.samples.end()) {
    return "";  // nobody has told
  }
  std::vector<uint8_t> bytes;
  for (const int64_t word : answer_of(samples->second)) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes.push_back(static_cast<uint8_t>(static_cast<uint64_t>(word) >> shift));
    }
  }
  stages_.answered.push_back(record.device());
  return bytes == record.payload() ? "" : "an answer of a stage is not what its device's samples say";
}

// The table that all answers of the open stage make together. Sums of whole numbers are exact in long doubles here.
std::vector<UnitsColumn> Oracle::next_units() const {
  const UnitsKeys& keys = parameters_.units.keys();
  std::vector<std::vector<int64_t>> answers;
  long double count = 0;
  for (const uint32_t device : stages_.answered) {
    answers.push_back(answer_of(stages_.samples.at(device)));
    count += static_cast<long double>(answers.back()[0]);
  }
  const size_t columns = stages_.samples.begin()->second.columns;
  std::vector<UnitsColumn> units = stages_.units;
  units.resize(columns, {kUnitsExponentMin, 0, 0});
  double total = 0;
  std::vector<double> variances;
  for (size_t c = 0; c < columns; ++c) {
    long double sum = 0;
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (const std::vector<int64_t>& words : answers) {
      sum += static_cast<long double>(words[1 + c]);
      const bool has_range = words.size() > 1 + columns;
      least = std::min(least, words[1 + c + (has_range ? columns : 0)]);
      most = std::max(most, words[1 + c + (has_range ? 2 * columns : 0)]);
    }
    UnitsColumn& column = units[c];
    const int exponent = column.exponent;
    if (stages_.open == TaskStage::kExponents) {
      column.exponent = static_cast<int32_t>(most);
    } else if (stages_.open == TaskStage::kSums) {
      column.mean = static_cast<float>(std::ldexp(sum / count, exponent - 30));
      if (keys.scale == UnitScale::kRange) {
        column.factor = static_cast<float>(1 / std::ldexp(static_cast<double>(most - least), exponent - 30));
      } else if (keys.scale == UnitScale::kNone) {
        column.factor = 1;
      }
    } else {
      variances.push_back(std::ldexp(static_cast<double>(sum) / static_cast<double>(count), 2 * (exponent - 22)));
      total += variances.back();
    }
  }
  for (size_t c = 0; c < variances.size(); ++c) {
    units[c].factor = static_cast<float>(1 / std::sqrt(keys.scale == UnitScale::kCommon ? total : variances[c]));
  }
  if (keys.centre == Centre::kNone && (stages_.open == TaskStage::kSquares || keys.scale == UnitScale::kRange)) {
    for (UnitsColumn& column : units) {
      column.mean = 0;
    }
  }
  return units;
}

std::string Oracle::check_stage(const VersionRecord& record) const {
  if (!record.stage.keeps_model || !record.stage.left_out.empty()) {
    return "a stage has moved the model, or left an honest device out";
  }
  if (!is_of_units(stages_.open)) {
    return record.stage.units.empty() ? "" : "a stage that sums nothing has made a table of units";
  }
  return record.stage.units == encode_units(next_units()) ? "" : "the units of a version are not those of the samples";
}

void Oracle::follow_stage(const VersionRecord& record) {
  stages_.open = record.stage.opens.stage;
  stages_.table = record.stage.units.empty() ? stages_.table : record.stage.units;
  static_cast<void>(decode_units(stages_.table, &stages_.units));
  stages_.answered.clear();
}

}  // namespace gradstream
