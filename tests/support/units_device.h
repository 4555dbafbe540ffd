// A device in stages of units: what it answers for its samples, in plain numbers (docs/wire.md, section 14).
#ifndef GRADSTREAM_TESTS_SUPPORT_UNITS_DEVICE_H_
#define GRADSTREAM_TESTS_SUPPORT_UNITS_DEVICE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "server/rules/stage_record.h"
#include "server/run/run_stages.h"

namespace gradstream {

using SampleRows = std::vector<std::vector<float>>;
using Words = std::vector<int64_t>;

inline std::vector<uint8_t> bytes_of(const Words& words) {
  std::vector<uint8_t> bytes;
  for (const int64_t word : words) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes.push_back(static_cast<uint8_t>(static_cast<uint64_t>(word) >> shift));
    }
  }
  return bytes;
}

inline int64_t scaled(float x, int bits) { return std::llround(std::ldexp(static_cast<double>(x), bits)); }

inline Words exponents_of(const SampleRows& rows) {
  Words words(1 + rows[0].size(), -126);
  words[0] = static_cast<int64_t>(rows.size());
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      int exponent = -126;
      if (row[c] != 0) {
        static_cast<void>(std::frexp(row[c], &exponent));
      }
      words[1 + c] = std::max<int64_t>(words[1 + c], exponent);
    }
  }
  return words;
}

inline Words sums_of(const SampleRows& rows, std::span<const UnitsColumn> units, bool has_range) {
  const size_t columns = units.size();
  Words words(1 + (has_range ? 3 : 1) * columns);
  words[0] = static_cast<int64_t>(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) {
      const int64_t q = scaled(rows[r][c], 30 - units[c].exponent);
      words[1 + c] += q;
      if (has_range) {
        int64_t& least = words[1 + columns + c];
        int64_t& most = words[1 + 2 * columns + c];
        least = r == 0 ? q : std::min(least, q);
        most = r == 0 ? q : std::max(most, q);
      }
    }
  }
  return words;
}

inline Words squares_of(const SampleRows& rows, std::span<const UnitsColumn> units) {
  Words words(1 + units.size());
  words[0] = static_cast<int64_t>(rows.size());
  for (const auto& row : rows) {
    for (size_t c = 0; c < units.size(); ++c) {
      const float y = row[c] - units[c].mean;
      const int64_t r = scaled(y, 22 - units[c].exponent);
      words[1 + c] += r * r;
    }
  }
  return words;
}

// The answer of an honest device. table: as the open version has it.
inline Words answer_of(const SampleRows& rows, TaskStage stage, std::span<const uint8_t> table, bool has_range) {
  std::vector<UnitsColumn> units;
  GS_ASSERT(decode_units(table, &units) == Status::kOk);
  return stage == TaskStage::kExponents ? exponents_of(rows)
         : stage == TaskStage::kSums    ? sums_of(rows, units, has_range)
                                        : squares_of(rows, units);
}

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_UNITS_DEVICE_H_
