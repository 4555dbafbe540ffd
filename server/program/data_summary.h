// What a table of samples holds, in figures: for `gradstream data pack` and `gradstream data show`.
#ifndef GRADSTREAM_SERVER_PROGRAM_DATA_SUMMARY_H_
#define GRADSTREAM_SERVER_PROGRAM_DATA_SUMMARY_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "host/table.h"
#include "server/base/objection.h"

namespace gradstream {

struct ColumnSummary {
  float least = 0;
  float greatest = 0;
  double mean = 0;
  double deviation = 0;  // the root of the mean square distance from the mean
  bool is_constant() const { return least == greatest; }
};

// One for each value of a sample.
std::vector<ColumnSummary> summarise_columns(const SampleTable& table);

// The first column whose name differs in two tables of one dimension: a sentence with the column, its names, the files
// and the remedy. Empty: the names are the same, or one of the tables has no header line.
Objection find_other_name(const std::string& file, const SampleTable& table, const std::string& other_file,
                          const SampleTable& other);

// Samples or values, whichever are fewer, of which eigenvalues are computed. Reason: the matrix has 8 MB then, and its
// eigenvalues take a second.
inline constexpr uint32_t kSpectrumSizeMax = 1024;

struct Spectrum {
  std::vector<double> centred;  // of sum((x - mean)(x - mean)') / samples
  std::vector<double> raw;      // of sum(x x') / samples, which kpca sees where the data are not centred
};
// The `count` largest eigenvalues of the first column_count values of a sample, the largest first. Requires that
// kSpectrumSizeMax holds.
Spectrum find_spectrum(const SampleTable& table, uint32_t column_count, uint32_t count);

// The `count` largest eigenvalues of a symmetric matrix, the largest first; those below 0, which are rounding, as 0.
// `matrix` holds its rows x rows entries, of which the lower half is read where a column follows the other.
std::vector<double> largest_eigenvalues(std::span<const double> matrix, uint32_t count);

// A shard of any form as a table. An objection is what follows the file's name. *format: "GSD1", "GSD2" or "GSD3".
Objection read_shard_table(std::span<const uint8_t> bytes, SampleTable* table, std::string* format);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_DATA_SUMMARY_H_
