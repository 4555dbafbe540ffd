#include "firmware/data_posix.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <new>

#include <unistd.h>

#include "firmware/client_main.h"
#include "host/file_cause.h"
#include "host/read_file.h"
#include "host/table_shard.h"

namespace gradstream {
namespace {

// What is read and not mapped, in bytes. Reason: larger data are mapped.
constexpr size_t kReadSizeMax = 1U << 20;

// Data from so many bytes on are mapped, and must stay as they are while the client runs. Reason: smaller ones cost
// nothing that matters, and their file may be replaced at any time.
constexpr uintmax_t kMappedSizeMin = 1U << 20;

constexpr size_t kHeadSize = 4096;  // bytes that tell a table
constexpr size_t kNamedMax = 8;     // constant columns in a line. Reason: a line stays readable

void guard(const std::string& path, PosixData* data) {
  const auto line = [&path](const char* what) {
    return "event=failed reason=\"" + path + " was " + what +
           " while it was in use: put another file in its place by a rename, and start again\"\n";
  };
  data->cut_line = line("cut short");
  data->changed_line = line("changed");
  data->failed_line = "event=failed reason=\"" + path +
                      " cannot be read any more: its disk failed or is gone; look at the disk, and start again\"\n";
  guard_mapped_file({&data->mapped, data->cut_line.c_str(), data->changed_line.c_str(), kExitData,
                     data->failed_line.c_str(), kExitTemporary});
}

// 0, or errno.
// *foreign: what is known of a file that is neither.
int look_at_head(const std::string& path, bool* is_a_table, std::string* foreign) {
  const int file = open_to_read(path.c_str());
  if (file < 0) {
    return errno;
  }
  std::array<uint8_t, kHeadSize> head = {};
  ssize_t size = 0;
  do {
    size = ::read(file, head.data(), head.size());
  } while (size < 0 && errno == EINTR);
  const int cause = size < 0 ? errno : 0;
  ::close(file);
  const auto looked_at = std::span(head).first(static_cast<size_t>(cause == 0 ? size : 0));
  *is_a_table = is_table(looked_at);
  *foreign = *is_a_table ? "" : foreign_fault(looked_at);
  return cause;
}

std::string constant_columns(const SampleTable& table) {
  std::string text;
  size_t count = 0;
  const size_t end = table.dimension - (table.has_label ? 1 : 0);  // a device may have one class
  for (size_t column = 0; column < end && table.sample_count > 1; ++column) {
    bool is_constant = true;
    for (size_t i = column + table.dimension; i < table.values.size() && is_constant; i += table.dimension) {
      is_constant = table.values[i] == table.values[column];
    }
    if (is_constant && count++ < kNamedMax) {
      text += (text.empty() ? "" : ", ") + column_text(table, column);
    }
  }
  return text + (count > kNamedMax ? ", ..." : "");
}

void describe(const SampleTable& table, PosixData* out) {
  std::string line =
      "event=table samples=" + std::to_string(table.sample_count) + " dimension=" + std::to_string(table.dimension);
  if (!table.is_npy) {
    line += std::string(" header=") + (table.names.empty() ? "no" : "yes") +
            " delimiter=" + delimiter_name(table.delimiter) +
            " decimal=" + (table.has_decimal_comma ? "comma" : "point");
  }
  out->lines.push_back(line);
  if (const std::string columns = constant_columns(table); !columns.empty()) {
    out->lines.push_back("event=warning reason=\"each sample has the same value in column " + columns +
                         ": nothing is learnt from it; leave it out on all devices, unless it is meant\"");
  }
}

DataFault open_table(const std::string& path, const TableOptions& options, PosixData* out) try {
  SampleTable table;
  DataFault fault;
  fault.text = read_table(path, options, &table, &fault.cause);
  if (fault.cause == EFBIG) {
    fault.cause = 0;  // the sentence has the sizes
  }
  if (fault.text.empty()) {
    out->copy = float_shard_bytes(table);
    describe(table, out);
    out->names = table.names;
  }
  return fault;
} catch (const std::bad_alloc&) {
  return {0, " takes more memory than this machine gives; `gradstream data pack` makes a shard of it"};
}

}  // namespace

int open_bytes(const std::string& path, PosixData* out) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  const bool is_large = !error && size >= kMappedSizeMin;
  return is_large && map_file(path.c_str(), &out->mapped) ? 0 : read_file(path.c_str(), kReadSizeMax, &out->copy);
}

DataFault open_data(const std::string& path, TableOptions options, PosixData* out) {
  options.size_max = kDeviceTableSizeMax;
  bool is_a_table = false;
  std::string foreign;
  if (const int cause = look_at_head(path, &is_a_table, &foreign); cause != 0) {
    return {cause, ""};
  }
  if (!foreign.empty()) {
    return {0, foreign};
  }
  if (is_a_table) {
    return open_table(path, options, out);
  }
  if (!options.label.empty() || options.delimiter != 0 || options.decimal != DecimalSign::kFound ||
      options.skipped_row_count != 0) {
    return {0,
            " is no table, and --label, --delimiter, --decimal and --skip-rows are of tables; leave them out: the "
            "label of a shard is the last value of a sample"};
  }
  if (const int cause = open_bytes(path, out); cause != 0) {
    return {cause, ""};
  }
  if (!out->mapped.bytes.empty()) {
    guard(path, out);
  }
  return {};
}

}  // namespace gradstream
