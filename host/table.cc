#include "host/table.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>

#include <sys/stat.h>

#include "host/file_cause.h"
#include "host/npy.h"
#include "host/read_file.h"
#include "host/shown.h"
#include "host/table_text.h"
#include "runtime/base/config.h"
#include "runtime/base/text.h"

namespace gradstream {
namespace {

// Bytes that are looked at to tell a text. Reason: no line of numbers hides a control character for so long.
constexpr size_t kLookedAtMax = 4096;

constexpr const char* kSaveAgain = "; write it with numpy.save(file, table.astype('float32'))";

// ---- NumPy ---------------------------------------------------------------------------------------------------------

// Empty, or what follows the file's name.
std::string npy_type_fault(std::string_view type) {
  const bool is_known =
      type.size() == 3 && std::string_view("<>=|").find(type[0]) != std::string_view::npos &&
      (type[1] == 'f'   ? type[2] == '4' || type[2] == '8'
       : type[1] == 'i' ? std::string_view("1248").find(type[2]) != std::string_view::npos
                        : type[1] == 'u' && std::string_view("1248").find(type[2]) != std::string_view::npos);
  if (!is_known) {
    return " holds values of dtype " + shown(type) + ", and float32, float64 and whole numbers are read" + kSaveAgain;
  }
  return type[0] == '>' && type[2] != '1'
             ? " holds big-endian values, dtype " + shown(type) + ", and little-endian ones are read" + kSaveAgain
             : "";
}

std::string npy_shape_fault(const std::vector<uint64_t>& shape) {
  const std::string has = " has the shape " + npy_shape_text(shape) + ", and (samples, values of a sample) is read; ";
  if (shape.size() == 1) {
    return has + "save table.reshape(-1, 1) where each value is a sample, or table.reshape(1, -1) where it is one";
  }
  if (shape.size() != 2) {
    return has + "save table.reshape(len(table), -1)";
  }
  if (shape[0] == 0 || shape[0] > kSampleCountMax) {
    return " has " + std::to_string(shape[0]) + " samples, and the limit is 1 to " + std::to_string(kSampleCountMax) +
           (shape[0] == 0 ? "; save one that holds data" : "; split it, and share the parts among more devices");
  }
  return shape[1] == 0 || shape[1] > kDimensionMax
             ? " has " + std::to_string(shape[1]) + " values a sample, and the limit is 1 to " +
                   std::to_string(kDimensionMax) + "; give each sample " + (shape[1] == 0 ? "some" : "fewer")
             : "";
}

double load_value(std::string_view bytes, size_t at, char kind, size_t size) {
  const uint64_t bits = load_little(bytes, at, size);
  if (kind == 'f') {
    return size == 4 ? std::bit_cast<float>(static_cast<uint32_t>(bits)) : std::bit_cast<double>(bits);
  }
  const uint64_t sign = uint64_t{1} << (8 * size - 1);
  return kind == 'u' || (bits & sign) == 0 ? static_cast<double>(bits)
                                           : -static_cast<double>((sign << 1) - bits);  // 2^64 wraps to 0, as it must
}

// number_text() of a value: whole numbers of 64 bits have more digits than a double.
std::string exact_text(std::string_view bytes, size_t at, char kind, size_t size) {
  const uint64_t bits = load_little(bytes, at, size);
  char text[64];
  char* end = nullptr;
  const double value = load_value(bytes, at, kind, size);
  if (kind == 'f' && std::floor(value) == value) {  // 39 digits at most: a float was found to hold it
    end = text + std::snprintf(text, sizeof text, "%.0f", value);
  } else if (kind == 'f') {
    end = size == 4 ? std::to_chars(text, std::end(text), std::bit_cast<float>(static_cast<uint32_t>(bits))).ptr
                    : std::to_chars(text, std::end(text), std::bit_cast<double>(bits)).ptr;
  } else {
    const uint64_t sign = uint64_t{1} << (8 * size - 1);
    const bool is_negative = kind == 'i' && (bits & sign) != 0;
    *text = '-';
    end = std::to_chars(text + (is_negative ? 1 : 0), std::end(text), is_negative ? (sign << 1) - bits : bits).ptr;
  }
  return number_text({text, static_cast<size_t>(end - text)});
}

std::string npy_value_fault(double value, size_t row, size_t column) {
  const std::string place =
      ", row " + std::to_string(row + 1) + ", column " + std::to_string(column + 1) + " (from 1): ";
  if (std::isnan(value)) {
    return place + "`nan` is a missing value; fill the gap, or leave the row out";
  }
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return place + shown(text) +
         (std::isinf(value) ? " is infinite, and the limit is 3.4e38; save a finite number, or leave the row out"
                            : " is beyond the range of a float, 3.4e38; scale the column down");
}

std::string parse_npy_table(std::string_view bytes, const TableOptions& options, SampleTable* table) {
  if (options.skipped_row_count != 0) {
    return " is a NumPy array, and --skip-rows is of text; leave it out";
  }
  NpyHeader header;
  if (const std::string fault = read_npy_header(bytes, kSaveAgain, &header); !fault.empty()) {
    return " " + fault;
  }
  std::string fault = npy_type_fault(header.descr);
  if (fault.empty()) {
    fault = npy_shape_fault(header.shape);
  }
  if (!fault.empty()) {
    return fault;
  }
  const auto rows = static_cast<size_t>(header.shape[0]);
  const auto columns = static_cast<size_t>(header.shape[1]);
  const char kind = header.descr[1];
  const auto item_size = static_cast<size_t>(header.descr[2] - '0');
  const uint64_t size = header.values_at + uint64_t{rows} * columns * item_size;
  if (bytes.size() != size) {
    return " has " + std::to_string(bytes.size()) + " bytes, and its header promises " + std::to_string(size) +
           (bytes.size() < size ? ": it is truncated; copy it again"
                                : ": it holds more than one array; save the table alone");
  }
  size_t label = columns;  // none
  if (!options.label.empty()) {
    if (fault = find_label(options.label, {}, columns, &label); !fault.empty()) {
      return fault;
    }
  }
  table->values.resize(rows * columns);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      const size_t index = header.is_fortran ? column * rows + row : row * columns + column;
      const double value = load_value(bytes, header.values_at + index * item_size, kind, item_size);
      if (!(std::fabs(value) <= static_cast<double>(std::numeric_limits<float>::max()))) {
        return npy_value_fault(value, row, column);
      }
      const size_t to = column == label ? columns - 1 : column - (column > label ? 1 : 0);
      table->values[row * columns + to] = static_cast<float>(value);
      if (column == label) {
        const std::string text = exact_text(bytes, header.values_at + index * item_size, kind, item_size);
        const std::string digits = options.takes_words ? "" : label_digits_fault(text, static_cast<float>(value));
        if (!digits.empty()) {
          return ", row " + std::to_string(row + 1) + ", column " + std::to_string(column + 1) + " (from 1): " + digits;
        }
        if (options.takes_words) {
          table->labels.push_back(text);
        }
      }
    }
  }
  table->is_npy = true;
  table->sample_count = static_cast<uint32_t>(rows);
  table->dimension = static_cast<uint32_t>(columns);
  table->has_label = label < columns;
  table->label_column = table->has_label ? static_cast<uint32_t>(label) : 0;
  return {};
}

// ---- Other files ---------------------------------------------------------------------------------------------------

struct Kind {
  std::string_view head;
  const char* text;
};
constexpr Kind kOtherKinds[] = {
    {"GSD", " is a shard already; name the table that it was made of"},
    {"PK\x03\x04", " is a zip archive, such as .npz or .xlsx; save the sheet as CSV, or the array with numpy.save"},
    {"\xD0\xCF\x11\xE0", " is a spreadsheet in the form of old Office; save the sheet as CSV"},
    {"\x1F\x8B", " is compressed by gzip; unpack it with gunzip"},
    {"\x89HDF", " is an HDF5 file; write it as CSV or with numpy.save"},
    {"PAR1", " is a Parquet file; write it as CSV or with numpy.save"},
    {"ARROW1", " is an Arrow file, such as Feather; write it as CSV or with numpy.save"},
    {std::string_view("SQLite format 3\0", 16), " is a database of SQLite; write the table as CSV"},
    {"BZh91AY&SY", " is compressed by bzip2; unpack it with bunzip2"},
    {"\xFD"
     "7zXZ",
     " is compressed by xz; unpack it with unxz"},
    {"\x28\xB5\x2F\xFD", " is compressed by Zstandard; unpack it with unzstd"},
    {"MATLAB 5.0", " is a MAT file; write it as CSV or with numpy.save"},
};

// Whether a control character other than the ends of lines and tabs stands in no text. The last two bytes stand in no
// UTF-8.
bool is_text_byte(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return (byte >= 0x20 && byte < 0xFE) || c == '\t' || c == '\n' || c == '\r';
}

// Bytes of the character that begins here; 0: it is no UTF-8.
size_t utf8_size(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  const size_t size = byte < 0x80 ? 1 : byte >= 0xC2 && byte < 0xE0 ? 2 : byte >= 0xE0 && byte < 0xF0 ? 3 : 4;
  if (size == 4 && !(byte >= 0xF0 && byte < 0xF5)) {
    return 0;
  }
  for (size_t i = 1; i < size; ++i) {
    if (at + i >= text.size() || (static_cast<uint8_t>(text[at + i]) & 0xC0) != 0x80) {
      return 0;
    }
  }
  return size;
}

// Names would be spoilt by it, and words would fall apart into other classes.
std::string utf8_fault(std::string_view text) {
  uint64_t row = 1;
  for (size_t at = 0, size = 0; at < text.size(); at += size) {
    size = utf8_size(text, at);
    if (size == 0) {
      char byte[8];
      (void)std::snprintf(byte, sizeof byte, "%02X", static_cast<uint8_t>(text[at]));
      return ", row " + std::to_string(row) + ": it holds the byte " + byte + " (hexadecimal), which is no UTF-8; " +
             "save it as CSV UTF-8";
    }
    const bool is_pair = text[at] == '\r' && text.substr(at + 1).starts_with('\n');
    row += text[at] == '\n' || (text[at] == '\r' && !is_pair) ? 1U : 0U;
  }
  return {};
}

std::string parse_any(std::string_view bytes, const TableOptions& options, SampleTable* table) {
  if (bytes.empty()) {
    return " is empty; name a table with a sample a row (CSV or .npy)";
  }
  if (bytes.starts_with(kNpyMagic)) {
    return parse_npy_table(bytes, options, table);
  }
  for (const Kind& kind : kOtherKinds) {
    const bool is_shard = kind.head == "GSD";
    if (bytes.starts_with(kind.head) && !(is_shard && is_table({reinterpret_cast<const uint8_t*>(bytes.data()),
                                                                std::min(bytes.size(), kLookedAtMax)}))) {
      return kind.text;
    }
  }
  if (const TextFault fault = find_text_fault(bytes); fault.text != nullptr) {
    return (fault.line == 0 ? " " : ", row " + std::to_string(fault.line) + ": it ") + fault.text;
  }
  const std::string fault = utf8_fault(bytes);
  return fault.empty() ? parse_text_table(bytes, options, table) : fault;
}

}  // namespace

bool is_table(std::span<const uint8_t> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), std::min(head.size(), kLookedAtMax));
  if (text.empty() || text.starts_with(kNpyMagic)) {
    return !text.empty();
  }
  constexpr size_t kShardHeadSize = 16;
  if (text.size() < kShardHeadSize && text.starts_with("GSD") && text.find('\n') == std::string_view::npos) {
    return false;  // a shard that was cut within its header
  }
  return std::all_of(text.begin(), text.end(), is_text_byte);
}

std::string foreign_fault(std::span<const uint8_t> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), std::min(head.size(), kLookedAtMax));
  if (text.starts_with("GSD")) {
    return {};
  }
  for (const Kind& kind : kOtherKinds) {
    if (text.starts_with(kind.head)) {
      return kind.text;
    }
  }
  const bool is_marked = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  const bool is_spoilt = std::any_of(text.begin(), text.end(), [](char c) { return c != '\0'; }) &&
                         std::all_of(text.begin(), text.end(), [](char c) { return c == '\0' || is_text_byte(c); });
  const TextFault fault = is_marked || is_spoilt ? find_text_fault(text) : TextFault();
  return fault.text == nullptr ? ""
         : fault.line == 0     ? std::string(" ") + fault.text
                               : ", row " + std::to_string(fault.line) + ": it " + fault.text;
}

std::string parse_table(std::string_view bytes, const TableOptions& options, SampleTable* table) {
  *table = {};
  try {
    return parse_any(bytes, options, table);
  } catch (const std::bad_alloc&) {
    return " takes more memory than this machine gives; split it, or free memory";
  }
}

std::string read_table(const std::string& path, const TableOptions& options, SampleTable* table, int* cause) {
  try {
    std::string bytes;
    *cause = read_file(path.c_str(), static_cast<size_t>(options.size_max), &bytes);
    switch (*cause) {
      case 0:
        return parse_table(bytes, options, table);
      case EISDIR:
        return " is a folder; name a file in it";
      case ESPIPE:
        return " is no ordinary file; write it into one first";
      case EFBIG: {
        struct stat info = {};
        return " has " + (::stat(path.c_str(), &info) == 0 ? std::to_string(info.st_size) : "more") +
               " bytes, and the limit is " + std::to_string(options.size_max) +
               (options.size_max < kTableSizeMax ? "; `gradstream data pack` makes a shard of it" : "; split it");
      }
      default:
        return std::string(" cannot be read: ") + cause_text(*cause) + "; " +
               remedy_text(*cause, "name a table (CSV or .npy)");
    }
  } catch (const std::bad_alloc&) {
    *cause = 0;
    return " takes more memory than this machine gives; split it, or free memory";
  }
}

size_t file_column(const SampleTable& table, size_t index) {
  return !table.has_label || index < table.label_column ? index
         : index + 1 == table.dimension                 ? table.label_column
                                                        : index + 1;
}

std::string column_text(const SampleTable& table, size_t index) {
  return std::to_string(file_column(table, index) + 1) +
         (index < table.names.size() && !table.names[index].empty() ? " (" + shown(table.names[index]) + ")" : "");
}

const char* delimiter_name(char delimiter) {
  switch (delimiter) {
    case ',':
      return "comma";
    case ';':
      return "semicolon";
    case '\t':
      return "tab";
    case kBlankDelimiter:
      return "blank";
    default:
      return "none";
  }
}

bool parse_delimiter(std::string_view text, char* delimiter) {
  for (const char candidate : {',', ';', '\t', kBlankDelimiter}) {
    if (text == delimiter_name(candidate) || text == std::string_view(&candidate, 1)) {
      *delimiter = candidate;
      return true;
    }
  }
  *delimiter = 0;
  return text == "auto";
}

bool parse_decimal(std::string_view text, DecimalSign* sign) {
  *sign = text == "point" ? DecimalSign::kPoint : text == "comma" ? DecimalSign::kComma : DecimalSign::kFound;
  return text == "auto" || *sign != DecimalSign::kFound;
}

}  // namespace gradstream
