// A table of samples as people have it: text such as CSV, or a NumPy array (.npy). This is the one reader of
// `gradstream data pack`, `gradstream data show` and `gradstream-client --data`.
//
//   bytes -> text or .npy -> rows of finite floats, the label last -> a shard (host/table_shard.h)
//
// docs/data.md has the forms that are taken and the refusals.
#ifndef GRADSTREAM_HOST_TABLE_H_
#define GRADSTREAM_HOST_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gradstream {

// Bytes of a table that a device reads by itself. Reason: the text and its floats are in memory together, and a small
// Linux board has 512 MB. `gradstream data pack` makes a shard of a larger one, which is mapped.
inline constexpr uint64_t kDeviceTableSizeMax = 64U << 20;
// Bytes of a table in the tools. Reason: the same, on a workstation.
inline constexpr uint64_t kTableSizeMax = 1U << 30;

inline constexpr char kBlankDelimiter = ' ';  // one blank or more, tabs among them

enum class HeaderLine : uint8_t { kFound, kYes, kNo };
enum class DecimalSign : uint8_t { kFound, kPoint, kComma };

struct TableOptions {
  char delimiter = 0;  // ',', ';', '\t' or kBlankDelimiter; 0: it is found
  HeaderLine header = HeaderLine::kFound;
  DecimalSign decimal = DecimalSign::kFound;
  uint32_t skipped_row_count = 0;     // lines of a text before the table
  std::string label;                  // the name of the label's column, or its number from 1; empty: there is none
  bool takes_words = false;           // labels may be words, and SampleTable::labels is filled
  uint64_t size_max = kTableSizeMax;  // bytes
};

struct SampleTable {
  uint32_t sample_count = 0;
  uint32_t dimension = 0;           // values of a sample, the label among them
  std::vector<float> values;        // sample after sample; the label is the last value, 0 where it is a word
  std::vector<std::string> names;   // of the values, in their order; empty: the file has no header line
  std::vector<std::string> labels;  // of each sample, with takes_words and a label: words, or number_text()
  uint32_t label_column = 0;        // its index in the file, with has_label
  bool has_label = false;
  bool has_word_label = false;
  bool is_npy = false;
  bool has_decimal_comma = false;
  bool has_decimal_point = false;     // neither: the text has whole numbers alone
  bool has_doubted_decimals = false;  // the sign may also separate thousands
  char delimiter = 0;                 // 0: of a .npy, or of one column
};

// Whether a file that begins with these bytes is meant as a table: .npy, or text that is no shard. Bytes in UTF-16 are
// no text.
bool is_table(std::span<const uint8_t> head);

// Reads the file of this name. Empty, or what follows the file's name in a message: the row and the column (from 1, a
// header line is a row), the value, the limit and the remedy. *cause: errno where the file cannot be read, else 0.
// *table is then unspecified.
std::string read_table(const std::string& path, const TableOptions& options, SampleTable* table, int* cause);

// The same of a file's bytes.
std::string parse_table(std::string_view bytes, const TableOptions& options, SampleTable* table);

// The index in the file of a value of a sample: the label was moved behind the others.
size_t file_column(const SampleTable& table, size_t index);

// What the column of a value is called in a message: its number in the file from 1, and its name if it has one.
std::string column_text(const SampleTable& table, size_t index);

// Why a file that is_table() refuses cannot be one, by its first bytes: what follows its name, with the remedy. Empty:
// it may be a shard, or nothing is known of it.
std::string foreign_fault(std::span<const uint8_t> head);

// "comma", "semicolon", "tab", "blank" or "none".
const char* delimiter_name(char delimiter);
// Of such a word, or of the character itself. "auto" is 0. False: it is neither.
bool parse_delimiter(std::string_view text, char* delimiter);
// Of "auto", "point" or "comma". False: it is none of them.
bool parse_decimal(std::string_view text, DecimalSign* sign);

}  // namespace gradstream

#endif  // GRADSTREAM_HOST_TABLE_H_
