#include "server/program/model_import.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "host/npy.h"
#include "runtime/base/text.h"
#include "server/base/table_row.h"
#include "server/base/text_file.h"

namespace gradstream {

namespace {

// Of a file, beside what a line of comment takes. Reason: no program writes a number with more characters.
constexpr uint64_t kNumberSizeMax = 64;
constexpr uint64_t kCommentSizeMax = 1U << 20;  // bytes

std::string wanted(Shape shape) {
  return std::to_string(shape.rows) + " rows of " + std::to_string(shape.cols) + " values (run.rows, run.cols)";
}

// ---- CSV -----------------------------------------------------------------------------------------------------------

// Null, or a clause that follows the value.
const char* parse_number(std::string_view text, Real* out) {
  constexpr const char* kNoNumber = "is no number; write one such as -0.5 or 1e-3";
  std::string_view rest = text;
  if (rest.size() > 1 && rest.front() == '+' && rest[1] != '-') {
    rest.remove_prefix(1);
  }
  const char* const end = rest.data() + rest.size();
  const auto [stop, error] = std::from_chars(rest.data(), end, *out);
  if (text.empty()) {
    return "is empty; write a number there, or take the comma away";
  }
  if (text.find(',') != std::string_view::npos) {
    return "is no number; write the decimal sign as a point, and thousands without a comma";
  }
  if (stop != end && is_blank(*stop)) {
    return "is more than one number; separate values by commas";
  }
  if (error == std::errc::result_out_of_range && stop == end) {
    *out = std::strtof(std::string(rest).c_str(), nullptr);  // 0 or infinite, as it rounds
    return std::isfinite(*out) ? nullptr : "is beyond the range of a float, 3.4e38; scale the model";
  }
  if (error != std::errc() || stop != end) {
    return kNoNumber;
  }
  return std::isfinite(*out) ? nullptr : "is no finite number; a run begins at finite ones";
}

// Whether each value is a word: no number begins it, and "inf" or "nan" is not all of it.
bool is_head_line(const std::vector<std::string_view>& row) {
  return std::all_of(row.begin(), row.end(), [](std::string_view text) {
    Real ignored = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, ignored);
    const bool is_letter = !text.empty() && std::string_view("+-.0123456789").find(text[0]) == std::string_view::npos;
    return is_letter && (error == std::errc::invalid_argument || stop != end);
  });
}

std::string place(uint32_t line, size_t column) {
  return "line " + std::to_string(line) + ", column " + std::to_string(column) + ": ";
}

// One row behind *values. An objection is the clause.
Objection take_row(std::string_view text, uint32_t line, Shape shape, std::vector<Real>* values) {
  std::vector<std::string_view> row;
  const RowFault fault = split_row(text, &row);
  if (fault.text != nullptr) {
    return place(line, fault.column) + shown(row.back()) + ": " + fault.text;
  }
  const size_t index = values->size() / shape.cols;
  if (index == 0 && is_head_line(row)) {
    return place(line, 1) + shown(row.front()) + " is no number; remove the head line, each line is a row of the model";
  }
  if (index == shape.rows) {
    return "line " + std::to_string(line) + ": " + shown(text) + " is one row too many; the run's model has " +
           wanted(shape);
  }
  for (size_t i = 0; i < row.size() && i < shape.cols; ++i) {
    Real value = 0;
    if (const char* const problem = parse_number(row[i], &value); problem != nullptr) {
      return place(line, i + 1) + shown(row[i]) + " " + problem;
    }
    values->push_back(value);
  }
  if (row.size() != shape.cols) {
    const bool is_transposed = row.size() == shape.rows;
    return place(line, std::min<size_t>(row.size(), shape.cols) + (row.size() > shape.cols ? 1 : 0)) + "the row has " +
           std::to_string(row.size()) + " values; the run's model has " + wanted(shape) +
           (is_transposed ? ", so the table may be transposed" : "");
  }
  return {};
}

}  // namespace

Objection parse_csv(std::string_view text, Shape shape, std::vector<Real>* model) {
  if (const TextFault fault = find_text_fault(text); fault.text != nullptr) {
    return (fault.line == 0 ? "" : "line " + std::to_string(fault.line) + ": ") + fault.text;
  }
  std::vector<Real> values;
  LineReader lines(text);
  for (std::string_view line; lines.next(&line);) {
    if (Objection problem = take_row(line, lines.number(), shape, &values)) {
      return problem;
    }
  }
  if (values.size() != shape.size()) {
    return "ends in line " + std::to_string(lines.number()) + " after " + std::to_string(values.size() / shape.cols) +
           " rows; the run's model has " + wanted(shape);
  }
  *model = std::move(values);
  return {};
}

// ---- NumPy ---------------------------------------------------------------------------------------------------------

namespace {

constexpr const char* kSaveAgain = "; write it with numpy.save(file, model.astype('float32'))";

// Of the type that descr names, f4 or f8.
double load_number(const char* at, size_t size, bool is_big) {
  char bytes[8] = {};
  std::copy_n(at, size, bytes);
  if (is_big) {
    std::reverse(bytes, bytes + size);
  }
  const uint64_t bits = load_little({bytes, sizeof bytes}, 0, size);
  return size == 4 ? std::bit_cast<float>(static_cast<uint32_t>(bits)) : std::bit_cast<double>(bits);
}

// An objection is the clause. item_size: bytes of a value.
Objection check_npy(const NpyHeader& header, Shape shape, size_t* item_size) {
  const std::string_view type = header.descr;
  const bool has_order = type.size() == 3 && std::string_view("<>=").find(type[0]) != std::string_view::npos;
  if (!has_order || type[1] != 'f' || (type[2] != '4' && type[2] != '8')) {
    return "holds values of dtype " + shown(type) + ", and float32 and float64 are read" + kSaveAgain;
  }
  *item_size = static_cast<size_t>(type[2] - '0');
  const std::vector<uint64_t> want = {shape.rows, shape.cols}, turned = {shape.cols, shape.rows};
  const bool is_column = shape.cols == 1 && header.shape == std::vector<uint64_t>{shape.rows};
  if (header.shape == want || is_column) {
    return {};
  }
  return "has the shape " + npy_shape_text(header.shape) + ", and the run's model has " + npy_shape_text(want) +
         " (run.rows, run.cols)" + (header.shape == turned ? "; save model.T" : "; save a model of that shape");
}

}  // namespace

Objection parse_npy(std::string_view bytes, Shape shape, std::vector<Real>* model) {
  NpyHeader header;
  size_t item_size = 0;
  Objection problem = read_npy_header(bytes, kSaveAgain, &header);
  if (!problem) {
    problem = check_npy(header, shape, &item_size);
  }
  if (problem) {
    return problem;
  }
  const size_t at = header.values_at;
  const uint64_t size = at + uint64_t{item_size} * shape.size();
  if (bytes.size() != size) {
    return "has " + std::to_string(bytes.size()) + " bytes, and its header promises " + std::to_string(size) +
           (bytes.size() < size ? ": it is truncated; copy it again"
                                : ": it holds more than one array; save the model alone");
  }
  const bool is_big = header.descr[0] == '>' || (header.descr[0] == '=' && std::endian::native == std::endian::big);
  std::vector<Real> values(shape.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t row = header.is_fortran ? i % shape.rows : i / shape.cols;
    const size_t col = header.is_fortran ? i / shape.rows : i % shape.cols;
    const double value = load_number(bytes.data() + at + i * item_size, item_size, is_big);
    if (!(std::fabs(value) <= static_cast<double>(std::numeric_limits<float>::max()))) {
      return "row " + std::to_string(row + 1) + ", column " + std::to_string(col + 1) +
             " (from 1): " + std::to_string(value) + " is no finite float; a run begins at finite ones, up to 3.4e38";
    }
    values[row * shape.cols + col] = static_cast<Real>(value);
  }
  *model = std::move(values);
  return {};
}

Objection read_model_file(const std::string& path, Shape shape, std::vector<Real>* model) {
  std::string bytes;
  const Objection problem = read_text_file(path, kCommentSizeMax + kNumberSizeMax * shape.size(), &bytes);
  if (problem) {
    return problem.sentence + "; name a CSV or .npy file, such as `gradstream model export` writes";
  }
  if (bytes.starts_with(kNpyMagic)) {
    return parse_npy(bytes, shape, model);
  }
  if (bytes.starts_with("PK\x03\x04")) {
    return "is a zip archive, such as .npz or .xlsx; save the array with numpy.save, or the sheet as CSV";
  }
  if (bytes.starts_with("GSD1") || bytes.starts_with("GSD2") || bytes.starts_with("GSD3")) {
    return "is a shard, which holds a device's samples; name a file that holds a model";
  }
  if (bytes.empty()) {
    return "is empty; the run's model has " + wanted(shape);
  }
  return parse_csv(bytes, shape, model);
}

}  // namespace gradstream
