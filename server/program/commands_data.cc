// The verbs `data pack` and `data show`: tables that users bring become shards of devices, and are looked at.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "host/file_cause.h"
#include "host/npy.h"
#include "host/read_file.h"
#include "host/shown.h"
#include "host/table.h"
#include "host/table_shard.h"
#include "host/table_text.h"
#include "runtime/base/config.h"
#include "server/program/commands.h"
#include "server/program/data_summary.h"
#include "server/program/model_export.h"
#include "server/program/shard_writer.h"

namespace gradstream {
namespace {

// Classes of one label. Reason: the label of a shard of bytes is a byte, and more words than that are no classes.
constexpr uint32_t kClassCountMax = 256;
// Values of all files of one pack. Reason: they are in memory together, 1 GiB of floats, so that all or none is
// written.
constexpr uint64_t kPackValueCountMax = 1U << 28;
// Steps of a byte below which a column is named as coarse. Reason: 4 bits are the least that a batch averages out.
constexpr double kCoarseStepMax = 16;
constexpr double kByteMax = 255;
constexpr uint32_t kEigenvalueCount = 8;  // that are shown
constexpr double kFloatMax = static_cast<double>(std::numeric_limits<float>::max());
constexpr const char* kNothingWritten = "; nothing was written";

struct Packed {
  std::string in;
  std::string out;
  SampleTable table;
  std::vector<ColumnSummary> columns;
  uint64_t size = 0;
  double error = 0;
};

// What all files of one pack share.
struct PackPlan {
  const char* format = "GSD2";
  float scale = 1;
  float offset = 0;         // GSD3
  std::vector<float> mean;  // GSD1
  uint32_t class_count = 0;
  std::vector<std::pair<std::string, uint64_t>> classes;  // the name of each label, and its samples; empty: as they are
  std::vector<size_t> coarse;                             // columns
};

// With all digits that a float has.
std::string label_text(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
  return text;
}

std::string real_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace

int to_table_options(const DataOptions& data, TableOptions* out) {
  if (!parse_delimiter(data.delimiter, &out->delimiter)) {
    return fail(kExitUsage, "--delimiter '" + data.delimiter +
                                "': expected auto, comma, semicolon, tab or blank, or the character");
  }
  out->header = data.header == "yes" ? HeaderLine::kYes : data.header == "no" ? HeaderLine::kNo : HeaderLine::kFound;
  out->label = data.label;
  out->skipped_row_count = data.skipped_row_count;
  if (!parse_decimal(data.decimal, &out->decimal)) {
    return fail(kExitUsage, "--decimal '" + data.decimal + "': expected auto, point or comma");
  }
  out->takes_words = !data.label.empty();
  return kExitOk;
}

namespace {

// ---- Pack: what is asked -------------------------------------------------------------------------------------------

int check_pack_options(const DataOptions& data) {
  if (data.label.empty() && (data.map_labels || data.class_count != 0)) {
    return fail(kExitUsage, "--map-labels and --classes are of labels: name their column with --label");
  }
  const bool is_labelled = data.is_bytes && !data.label.empty();
  if (!is_labelled && (!std::isnan(data.scale) || !std::isnan(data.offset))) {
    return fail(kExitUsage, "--scale and --offset are of bytes with labels: give --bytes and --label too");
  }
  if (!data.is_bytes && !std::isnan(data.error_max)) {
    return fail(kExitUsage, "--error is of bytes, and floats have none: give --bytes too, or leave it out");
  }
  if (data.error_max < 0) {
    return fail(kExitUsage, "--error " + real_text(data.error_max) + ": expected a number from 0");
  }
  if (!std::isnan(data.scale) && !(data.scale > 0 && data.scale <= kFloatMax)) {
    return fail(kExitUsage, "--scale " + real_text(data.scale) + ": expected a number above 0, up to 3.4e38");
  }
  return std::isnan(data.offset) || std::fabs(data.offset) <= kFloatMax
             ? int{kExitOk}
             : fail(kExitUsage, "--offset " + real_text(data.offset) + ": expected a finite number, up to 3.4e38");
}

std::string shard_path(const std::string& folder, const std::string& file) {
  std::string name = file.substr(file.rfind('/') + 1);
  const size_t dot = name.rfind('.');
  return folder + (folder.ends_with('/') ? "" : "/") + name.substr(0, dot == 0 ? std::string::npos : dot) + ".gsd";
}

// The names of the shards, none of which is taken. kExitOk, or an error already printed.
int name_shards(const DataOptions& data, std::vector<Packed>* out) {
  std::map<std::string, std::string> taken;  // shard -> file
  for (const std::string& file : data.files) {
    if (file.empty() || file.ends_with('/')) {
      return fail(kExitUsage, "data pack '" + file + "': expected the path of a table (CSV or .npy)");
    }
    const std::string path = shard_path(data.out_folder, file);
    const auto [at, is_new] = taken.emplace(path, file);
    if (!is_new) {
      std::string both = at->second;
      both.append(" and ").append(file).append(" would both become ").append(path);
      return fail(kExitUsage, both + "; pack them into different folders, or rename one");
    }
    struct stat info = {};
    if (!data.force && ::lstat(path.c_str(), &info) == 0) {
      return fail(kExitFile,
                  path + " is there already; give another --out-folder, or --force to replace it" + kNothingWritten);
    }
    if (const Objection objection = check_target(path)) {
      return fail(kExitFile, objection.sentence + kNothingWritten);
    }
    out->push_back({file, path, {}, {}});
  }
  return kExitOk;
}

// ---- Pack: the tables ----------------------------------------------------------------------------------------------

bool has_decimals(const Packed& file) { return file.table.has_decimal_comma || file.table.has_decimal_point; }

// Whether both can be data of one run. named: the first file with names; signed_file: the first with decimal signs.
Objection find_difference(const Packed& first, const Packed& named, const Packed& signed_file, const Packed& other) {
  if (first.table.dimension != other.table.dimension) {
    return other.in + " has " + std::to_string(other.table.dimension) + " columns, and " + first.in + " has " +
           std::to_string(first.table.dimension) + "; all files of one pack have the same columns";
  }
  const bool is_doubted = other.table.has_doubted_decimals || signed_file.table.has_doubted_decimals;
  if (is_doubted && has_decimals(other) && other.table.has_decimal_comma != signed_file.table.has_decimal_comma) {
    return other.in + " has a " + (other.table.has_decimal_comma ? "comma" : "point") + " as the decimal sign, and " +
           signed_file.in + " has a " + (signed_file.table.has_decimal_comma ? "comma" : "point") +
           ", so one of them may have thousands; write all files with one decimal sign, or without thousands";
  }
  Objection name = find_other_name(named.in, named.table, other.in, other.table);
  return name ? Objection(name.sentence + ", or pack the files apart") : name;
}

// Two numbers such as 1.000 are doubted in one table (docs/data.md, "Thousands"), and so in two.
Objection find_doubt(const std::vector<Packed>& files) {
  std::vector<const Packed*> doubted;
  for (const Packed& file : files) {
    if (has_decimals(file) && !file.table.has_doubted_decimals) {
      return {};  // the files have one sign, which this one tells
    }
    if (file.table.has_doubted_decimals) {
      doubted.push_back(&file);
    }
  }
  if (doubted.size() < 2) {
    return {};
  }
  const std::string sign = doubted[0]->table.has_decimal_comma ? "comma" : "point";
  return doubted[0]->in + " and " + doubted[1]->in + " have a number each whose " + sign + " may separate thousands " +
         "or be the decimal sign; write thousands without a separator, or say --decimal " + sign +
         " where it is the decimal sign";
}

int read_tables(const DataOptions& data, const TableOptions& options, std::vector<Packed>* files) {
  uint64_t value_count = 0;
  const Packed* named = nullptr;
  const Packed* signed_file = nullptr;
  for (Packed& file : *files) {
    int cause = 0;
    if (const std::string fault = read_table(file.in, options, &file.table, &cause); !fault.empty()) {
      return fail(cause != 0 && is_temporary(cause) ? kExitTemporary : kExitFile, file.in + fault + kNothingWritten);
    }
    value_count += file.table.values.size();
    if (value_count > kPackValueCountMax) {
      return fail(kExitFile, file.in + ": the files up to this one have " + std::to_string(value_count) +
                                 " values, and the limit of one pack is " + std::to_string(kPackValueCountMax) +
                                 "; pack fewer files at a time" + kNothingWritten);
    }
    named = named == nullptr && !file.table.names.empty() ? &file : named;
    signed_file = signed_file == nullptr && has_decimals(file) ? &file : signed_file;
    if (const Objection fault = find_difference(files->front(), named == nullptr ? file : *named,
                                                signed_file == nullptr ? file : *signed_file, file)) {
      return fail(kExitFile, fault.sentence + kNothingWritten);
    }
    if (data.label.empty() == file.table.has_label) {
      return fail(kExitInternal, file.in + ": the label was lost");
    }
    file.columns = summarise_columns(file.table);
  }
  const Objection doubt = find_doubt(*files);
  return doubt ? fail(kExitFile, doubt.sentence + kNothingWritten) : int{kExitOk};
}

// ---- Pack: labels --------------------------------------------------------------------------------------------------

using ClassKey = std::pair<double, std::string>;  // words sort by their bytes, numbers by their value

// A label that is a number keeps its exact text: two of more digits than a float has are two classes.
ClassKey class_key(const SampleTable& table, size_t sample, bool has_words) {
  const std::string name = table.labels.empty()  // of a shard
                               ? label_text(table.values[(sample + 1) * table.dimension - 1])
                               : table.labels[sample];
  return {has_words ? 0 : std::strtod(name.c_str(), nullptr), name};
}

// Numbers for the classes of all files, in sorted order.
int map_labels(std::vector<Packed>* files, bool has_words, PackPlan* plan) {
  std::map<ClassKey, uint64_t> counts;
  for (const Packed& file : *files) {
    for (size_t i = 0; i < file.table.sample_count; ++i) {
      ++counts[class_key(file.table, i, has_words)];
    }
    if (counts.size() > kClassCountMax) {
      return fail(kExitFile, file.in + ": the label has " + std::to_string(counts.size()) +
                                 " different values up to here, and the limit is " + std::to_string(kClassCountMax) +
                                 " classes; name another column with --label" + kNothingWritten);
    }
  }
  std::map<ClassKey, size_t> numbers;
  for (const auto& [key, count] : counts) {
    numbers.emplace(key, numbers.size());
    plan->classes.emplace_back(key.second, count);
  }
  for (Packed& file : *files) {
    for (size_t i = 0; i < file.table.sample_count; ++i) {
      file.table.values[(i + 1) * file.table.dimension - 1] =
          static_cast<float>(numbers.at(class_key(file.table, i, has_words)));
    }
    file.columns = summarise_columns(file.table);
  }
  return kExitOk;
}

// Labels that stay as they are must be held by a float.
int check_label_digits(const std::vector<Packed>& files) {
  for (const Packed& file : files) {
    for (size_t i = 0; i < file.table.sample_count; ++i) {
      const float label = file.table.values[(i + 1) * file.table.dimension - 1];
      if (const std::string fault = label_digits_fault(file.table.labels[i], label); !fault.empty()) {
        return fail(kExitFile, file.in + ": sample " + std::to_string(i + 1) + " (from 1): " + fault + kNothingWritten);
      }
    }
  }
  return kExitOk;
}

int check_class_count(const PackPlan& plan, uint32_t limit) {
  const size_t count = plan.classes.size();
  return count <= limit ? int{kExitOk}
                        : fail(kExitFile, "the label has " + std::to_string(count) + " classes over all files, " +
                                              shown(plan.classes.back().first) + " among them, and --classes allows " +
                                              std::to_string(limit) + "; give --classes " + std::to_string(count) +
                                              ", or leave it out" + kNothingWritten);
}

// Labels of bytes are whole numbers below the number of classes.
int check_labels(const std::vector<Packed>& files, uint32_t limit) {
  for (const Packed& file : files) {
    for (size_t i = 0; i < file.table.sample_count; ++i) {
      const float label = file.table.values[(i + 1) * file.table.dimension - 1];
      if (!(label >= 0 && label < static_cast<float>(limit) && std::floor(label) == label)) {
        return fail(kExitFile, file.in + ": sample " + std::to_string(i + 1) + " (from 1) has the label " +
                                   label_text(label) + ", and " + "labels of " + std::to_string(limit) +
                                   " classes are whole numbers from 0 to " + std::to_string(limit - 1) +
                                   "; --map-labels numbers the values that are there" + kNothingWritten);
      }
    }
  }
  return kExitOk;
}

int plan_labels(const DataOptions& data, std::vector<Packed>* files, PackPlan* plan) {
  const bool has_words =
      std::any_of(files->begin(), files->end(), [](const Packed& file) { return file.table.has_word_label; });
  if (has_words || data.map_labels) {
    int code = map_labels(files, has_words, plan);
    code = code == kExitOk && data.class_count != 0 ? check_class_count(*plan, data.class_count) : code;
    if (code != kExitOk) {
      return code;
    }
  } else if (const int code = check_label_digits(*files); code != kExitOk) {
    return code;
  }
  if (data.is_bytes || data.class_count != 0) {
    if (const int code = check_labels(*files, data.class_count != 0 ? data.class_count : kClassCountMax);
        code != kExitOk) {
      return code;
    }
  }
  float greatest = 1;
  for (const Packed& file : *files) {
    greatest = std::max(greatest, file.columns.back().greatest);
  }
  plan->class_count = data.class_count != 0 ? data.class_count
                      : data.is_bytes       ? static_cast<uint32_t>(greatest) + 1
                                            : 0;
  return kExitOk;
}

// ---- Pack: bytes ---------------------------------------------------------------------------------------------------

// The range of each column over all files.
std::vector<ColumnSummary> join_columns(const std::vector<Packed>& files) {
  std::vector<ColumnSummary> all = files.front().columns;
  for (const Packed& file : files) {
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].least = std::min(all[i].least, file.columns[i].least);
      all[i].greatest = std::max(all[i].greatest, file.columns[i].greatest);
    }
  }
  return all;
}

double width_of(const ColumnSummary& column) {
  return static_cast<double>(column.greatest) - static_cast<double>(column.least);
}

// One scale for all files, so that a byte stands for the same on each device.
int plan_bytes(const DataOptions& data, const std::vector<Packed>& files, PackPlan* plan) {
  const std::vector<ColumnSummary> all = join_columns(files);
  const size_t count = all.size() - (data.label.empty() ? 0 : 1);
  if (count == 0) {
    return fail(kExitFile,
                files.front().in + " has the label alone; a sample needs a value beside it" + kNothingWritten);
  }
  double width = 0;
  float least = all[0].least;
  float greatest = all[0].greatest;
  for (size_t i = 0; i < count; ++i) {
    width = std::max(width, width_of(all[i]));
    least = std::min(least, all[i].least);
    greatest = std::max(greatest, all[i].greatest);
  }
  if (!data.label.empty()) {  // GSD3 has one offset for all
    plan->offset = std::isnan(data.offset) ? least : static_cast<float>(data.offset);
    width = static_cast<double>(greatest) - static_cast<double>(plan->offset);
  }
  const double scale = std::isnan(data.scale) ? (width > 0 ? width / kByteMax : 1) : data.scale;
  plan->scale = static_cast<float>(scale);
  // As a device computes them: byte 255 must be finite in every column.
  const float top = static_cast<float>(kByteMax) * plan->scale;
  bool is_finite = std::isfinite(top) && std::isfinite(top + plan->offset);
  for (size_t i = 0; i < all.size(); ++i) {
    plan->mean.push_back(0 - all[i].least);  // never -0
    is_finite = is_finite && (!data.label.empty() || std::isfinite(top - plan->mean[i]));
    if (i < count && width_of(all[i]) > 0 && width_of(all[i]) < kCoarseStepMax * scale) {
      plan->coarse.push_back(i);
    }
  }
  if (plan->scale == 0 || !is_finite) {
    return fail(kExitFile, "one step of a byte would be " + real_text(scale) +
                               ", and byte 255 must be a finite float: scale the data " +
                               (plan->scale == 0 ? "up" : "down") + ", or leave --bytes out" + kNothingWritten);
  }
  plan->format = data.label.empty() ? "GSD1" : "GSD3";
  const auto byte_of = [plan](float value) {
    const double step = (static_cast<double>(value) - static_cast<double>(plan->offset)) / plan->scale;
    return std::clamp(std::round(step), 0.0, kByteMax);
  };
  if (!data.label.empty() && least < greatest && byte_of(least) == byte_of(greatest)) {
    return fail(kExitFile, "all values, from " + real_text(least) + " to " + real_text(greatest) +
                               ", would become byte " + real_text(byte_of(least)) + " by scale " +
                               real_text(plan->scale) + " and offset " + real_text(plan->offset) +
                               "; leave --scale and --offset out, or give an offset of " + real_text(least) +
                               " at most and a smaller scale" + kNothingWritten);
  }
  return kExitOk;
}

std::vector<uint8_t> shard_bytes(const PackPlan& plan, Packed* file) {
  const std::string format = plan.format;
  return format == "GSD1"   ? byte_shard_bytes(file->table, plan.scale, plan.mean, &file->error)
         : format == "GSD3" ? labelled_shard_bytes(file->table, plan.scale, plan.offset, plan.class_count, &file->error)
                            : float_shard_bytes(file->table);
}

// ---- Pack: the files -----------------------------------------------------------------------------------------------

int fail_write(int cause, const std::string& path, const char* state = kNothingWritten) {
  return fail(is_temporary(cause) ? kExitTemporary : kExitFile,
              "cannot write " + path + ": " + cause_text(cause) + "; " +
                  remedy_text(cause, "name a folder that can be written with --out-folder") + state);
}

int write_shards(const DataOptions& data, const PackPlan& plan, std::vector<Packed>* files) {
  ShardWriter writer(data.out_folder, data.force);
  if (const int cause = writer.open_folder(); cause != 0) {
    return fail_write(cause, data.out_folder);
  }
  for (Packed& file : *files) {
    const std::vector<uint8_t> bytes = shard_bytes(plan, &file);
    if (file.error > data.error_max) {
      return fail(kExitFile, file.in + ": a byte is up to " + real_text(file.error) + " from its value, and --error " +
                                 "allows " + real_text(data.error_max) + "; leave --bytes out" + kNothingWritten);
    }
    file.size = bytes.size();
    if (const int cause = writer.write(file.out, bytes); cause != 0) {
      return fail_write(cause, file.out);
    }
  }
  std::string path = data.out_folder;
  const int cause = writer.finish(&path);
  return cause == 0 ? int{kExitOk}
                    : fail_write(cause, path,
                                 writer.has_replaced() ? "; some shards were replaced, pack again" : kNothingWritten);
}

// ---- What is printed -----------------------------------------------------------------------------------------------

std::string column_name(const SampleTable& table, size_t index) {
  return index < table.names.size() && !table.names[index].empty() ? table.names[index]
                                                                   : std::to_string(file_column(table, index) + 1);
}

void add_columns(const char* key, const SampleTable& table, const std::vector<size_t>& columns, OutputLine* line) {
  if (columns.empty()) {
    return;
  }
  std::vector<std::string> names;
  std::string text;
  for (const size_t column : columns) {
    names.push_back(column_name(table, column));
    text += (text.empty() ? "" : ",") + names.back();
  }
  line->add_list(key, text, names);
}

// The label is no part of it: a device may have one class.
std::vector<size_t> constant_columns(const SampleTable& table, const std::vector<ColumnSummary>& columns) {
  std::vector<size_t> found;
  for (size_t i = 0; i + (table.has_label ? 1 : 0) < columns.size() && table.sample_count > 1; ++i) {
    if (columns[i].is_constant()) {
      found.push_back(i);
    }
  }
  return found;
}

// The form of the table, its range without the label, and the columns that never change.
void add_facts(const SampleTable& table, const std::vector<ColumnSummary>& columns, OutputLine* line) {
  line->add("samples", uint64_t{table.sample_count}).add("dimension", uint64_t{table.dimension});
  const size_t count = columns.size() - (table.has_label && columns.size() > 1 ? 1 : 0);
  float least = columns[0].least;
  float greatest = columns[0].greatest;
  for (size_t i = 0; i < count; ++i) {
    least = std::min(least, columns[i].least);
    greatest = std::max(greatest, columns[i].greatest);
  }
  line->add_real("least", static_cast<double>(least)).add_real("greatest", static_cast<double>(greatest));
  add_columns("constant", table, constant_columns(table, columns), line);
}

void add_dialect(const SampleTable& table, OutputLine* line) {
  if (!table.is_npy) {
    line->add_flag("header", !table.names.empty())
        .add("delimiter", delimiter_name(table.delimiter))
        .add("decimal", table.has_decimal_comma ? "comma" : "point");
  }
}

void print_pack(const CommonOptions& options, const DataOptions& data, const PackPlan& plan,
                const std::vector<Packed>& files) {
  for (const Packed& file : files) {
    OutputLine line;
    line.add("file", file.in).add("shard", file.out).add("format", plan.format).add("size", file.size);
    add_facts(file.table, file.columns, &line);
    add_dialect(file.table, &line);
    if (data.is_bytes) {
      line.add_real("step", static_cast<double>(plan.scale)).add_real("error", file.error);
      add_columns("coarse", file.table, plan.coarse, &line);
    }
    line.print(options);
  }
  for (size_t i = 0; i < plan.classes.size(); ++i) {
    OutputLine()
        .add("class", plan.classes[i].first)
        .add("label", uint64_t{i})
        .add("samples", plan.classes[i].second)
        .print(options);
  }
}

// ---- Show ----------------------------------------------------------------------------------------------------------

int read_any(const std::string& path, const TableOptions& options, SampleTable* table, std::string* format) try {
  std::string bytes;
  const int cause = read_file(path.c_str(), kTableSizeMax, &bytes);
  const std::span<const uint8_t> raw(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  Objection fault;
  if (cause == 0 && bytes.starts_with("GSD") && !is_table(raw)) {
    fault = read_shard_table(raw, table, format);
    if (!fault && !options.label.empty()) {
      return fail(kExitUsage, path + " is a shard: its label is the last value, and --label is of tables");
    }
  } else {
    int read_cause = 0;
    fault = cause == 0 ? parse_table(bytes, options, table) : read_table(path, options, table, &read_cause);
    *format = bytes.starts_with(kNpyMagic) ? "npy" : "csv";
  }
  return fault ? fail(is_temporary(cause) ? kExitTemporary : kExitFile, path + fault.sentence) : int{kExitOk};
} catch (const std::bad_alloc&) {
  return fail(kExitFile, path + " takes more memory than this machine gives; split it, or free memory");
}

void print_classes(const CommonOptions& options, const SampleTable& table) {
  std::map<ClassKey, uint64_t> counts;
  for (size_t i = 0; table.has_label && i < table.sample_count && counts.size() <= kClassCountMax; ++i) {
    ++counts[class_key(table, i, table.has_word_label)];
  }
  if (counts.size() > kClassCountMax) {
    return;  // the target of a regression
  }
  for (const auto& [key, count] : counts) {
    OutputLine().add("class", key.second).add("samples", count).print(options);
  }
}

void print_spectrum(const CommonOptions& options, const SampleTable& table) {
  const uint32_t count = table.dimension - (table.has_label ? 1 : 0);
  const uint32_t size = std::min(count, table.sample_count);
  OutputLine line;
  if (size == 0 || size > kSpectrumSizeMax) {
    line.add_quoted("note", "eigenvalues are computed of 1 to " + std::to_string(kSpectrumSizeMax) +
                                " samples or values, and here are " + std::to_string(size));
  } else {
    const Spectrum spectrum = find_spectrum(table, count, kEigenvalueCount);
    line.add_reals("eigenvalues_centred", spectrum.centred).add_reals("eigenvalues_raw", spectrum.raw);
  }
  line.print(options);
}

void print_columns(const CommonOptions& options, const SampleTable& table, const std::vector<ColumnSummary>& columns) {
  for (size_t i = 0; i < columns.size(); ++i) {
    const bool is_label = table.has_label && i + 1 == columns.size();
    OutputLine line;
    line.add("column", uint64_t{file_column(table, i) + 1});
    if (i < table.names.size()) {
      line.add_quoted("name", table.names[i]);
    }
    if (!is_label || !table.has_word_label) {
      line.add_real("least", static_cast<double>(columns[i].least))
          .add_real("greatest", static_cast<double>(columns[i].greatest))
          .add_real("mean", columns[i].mean)
          .add_real("deviation", columns[i].deviation)
          .add_flag("constant", columns[i].is_constant());
    }
    line.add_flag("label", is_label).print(options);
  }
}

}  // namespace

int data_pack(const CommonOptions& options, const DataOptions& data) try {
  TableOptions table_options;
  int code = to_table_options(data, &table_options);
  if (code == kExitOk) {
    code = check_pack_options(data);
  }
  std::vector<Packed> files;
  PackPlan plan;
  if (code == kExitOk) {
    code = name_shards(data, &files);
  }
  if (code == kExitOk) {
    code = read_tables(data, table_options, &files);
  }
  if (code == kExitOk && !data.label.empty()) {
    code = plan_labels(data, &files, &plan);
  }
  if (code == kExitOk && data.is_bytes) {
    code = plan_bytes(data, files, &plan);
  }
  if (code == kExitOk) {
    code = write_shards(data, plan, &files);
  }
  if (code == kExitOk) {
    print_pack(options, data, plan, files);
  }
  return code;
} catch (const std::bad_alloc&) {
  return fail(kExitFile, std::string("the files take more memory than this machine gives; pack fewer at a time") +
                             kNothingWritten);
}

int data_show(const CommonOptions& options, const DataOptions& data) {
  TableOptions table_options;
  if (const int code = to_table_options(data, &table_options); code != kExitOk) {
    return code;
  }
  for (const std::string& path : data.files) {
    SampleTable table;
    std::string format;
    if (const int code = read_any(path, table_options, &table, &format); code != kExitOk) {
      return code;
    }
    const std::vector<ColumnSummary> columns = summarise_columns(table);
    OutputLine line;
    line.add("file", path).add("format", format);
    add_facts(table, columns, &line);
    if (format == "csv") {
      add_dialect(table, &line);
    }
    line.print(options);
    print_columns(options, table, columns);
    print_classes(options, table);
    print_spectrum(options, table);
  }
  return kExitOk;
}

}  // namespace gradstream
