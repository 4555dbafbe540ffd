#include "host/table_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "host/shown.h"
#include "runtime/base/config.h"
#include "runtime/base/text.h"

namespace gradstream {
namespace {

// Rows that are looked at to find the delimiter. Reason: a text that agrees so often is no accident.
constexpr size_t kLookedAtMax = 32;
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kFloatLimit = "3.4e38";

// ---- Lines ---------------------------------------------------------------------------------------------------------

// Spreadsheets write a value that has failed as #N/A or #DIV/0!: it stands in a row, and is no comment.
bool is_failed_value(std::string_view line) {
  const size_t end = std::min(line.find_first_of(" ,;\t"), line.size());
  return end > 1 && std::all_of(line.begin() + 1, line.begin() + static_cast<ptrdiff_t>(end), [](char c) {
           return (c >= 'A' && c <= 'Z') || c == '/' || c == '0' || c == '!' || c == '?' || c == '_';
         });
}

// The rows of a text. Unlike LineReader it keeps a tab at a line's end: a value may be missing there.
class Rows {
 public:
  // skipped_count: lines at the beginning. keeps_tabs: a line of tabs is a row, whose values are missing.
  Rows(std::string_view text, uint64_t skipped_count, bool keeps_tabs)
      : text_(text), skipped_count_(skipped_count), keeps_tabs_(keeps_tabs) {
    if (text_.starts_with(kByteOrderMark)) {
      text_.remove_prefix(kByteOrderMark.size());
    }
  }
  bool next(std::string_view* row) {
    while (!text_.empty()) {
      const size_t end = std::min(text_.find_first_of("\r\n"), text_.size());
      *row = text_.substr(0, end);
      const bool is_pair = text_.substr(end).starts_with("\r\n");
      text_.remove_prefix(std::min(end + (is_pair ? 2 : 1), text_.size()));
      ++number_;
      const std::string_view content = trim(*row);
      const bool is_blank_row = content.empty() && !(keeps_tabs_ && row->find('\t') != std::string_view::npos);
      if (number_ > skipped_count_ && !is_blank_row &&
          (content.empty() || content.front() != '#' || is_failed_value(content))) {
        return true;
      }
    }
    return false;
  }
  uint64_t number() const { return number_; }

 private:
  std::string_view text_;
  uint64_t skipped_count_;
  bool keeps_tabs_;
  uint64_t number_ = 0;
};

// ---- Fields --------------------------------------------------------------------------------------------------------

bool is_separator(char c, char delimiter) { return c == delimiter || (delimiter == kBlankDelimiter && c == '\t'); }

bool is_pad(char c, char delimiter) { return (c == ' ' || c == '\t') && !is_separator(c, delimiter); }

const char* take_quoted(std::string_view line, char delimiter, size_t* at, std::string_view* out) {
  const size_t begin = *at + 1;
  size_t end = line.find('"', begin);
  while (end != std::string_view::npos && line.substr(end + 1).starts_with('"')) {
    end = line.find('"', end + 2);
  }
  if (end == std::string_view::npos) {
    *out = line.substr(begin);
    *at = line.size();
    return "a double quote is not closed; close it in the same row";
  }
  *out = trim(line.substr(begin, end - begin));
  *at = end + 1;
  while (*at < line.size() && is_pad(line[*at], delimiter)) {
    ++*at;
  }
  return *at < line.size() && !is_separator(line[*at], delimiter)
             ? "something stands behind a closing quote; put the delimiter between values"
             : nullptr;
}

void skip_blanks(std::string_view line, char delimiter, size_t* at) {
  while (*at < line.size() && (is_pad(line[*at], delimiter) || (delimiter == kBlankDelimiter && is_blank(line[*at])))) {
    ++*at;
  }
}

// ---- Numbers -------------------------------------------------------------------------------------------------------

size_t take_digits(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(kDigits, at), text.size());
}

// Whether the text is a number such as 12.345, which another country reads as 12345: up to three digits, a sign, three
// digits. One such as 0.123 has no thousands.
bool may_be_thousands(std::string_view text) {
  const size_t begin = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const size_t whole = take_digits(text, begin) - begin;
  return whole >= 1 && whole <= 3 && text[begin] != '0' && text.size() == begin + whole + 4 &&
         take_digits(text, begin + whole + 1) == text.size();
}

// Whether the text is a decimal number; `sign` is its decimal sign.
bool is_number(std::string_view text, char sign) {
  size_t at = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
  const size_t whole = take_digits(text, at);
  size_t digits = whole - at;
  at = whole;
  if (at < text.size() && text[at] == sign) {
    const size_t end = take_digits(text, at + 1);
    if (sign == ',' && end == at + 1) {
      return false;  // "1," ends with a delimiter, not with a decimal sign
    }
    digits += end - at - 1;
    at = end;
  }
  if (digits > 0 && at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    at += at < text.size() && (text[at] == '+' || text[at] == '-') ? 1 : 0;
    const size_t end = take_digits(text, at);
    digits = end > at ? digits : 0;
    at = end;
  }
  return digits > 0 && at == text.size();
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c); });
  return out;
}

template <size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Missing also where the value could be the name of a class.
constexpr std::array<std::string_view, 10> kMissing = {"",    "na",   "n/a",  "nan", "<na>",
                                                       "nat", "null", "#n/a", "?",   "#nv"};
// Missing where a number is wanted.
constexpr std::array<std::string_view, 7> kNoValue = {"none", "nil", "missing", "-", "--", ".", "..."};
constexpr std::array<std::string_view, 7> kInfinite = {"inf",       "+inf",      "-inf",        "infinity",
                                                       "+infinity", "-infinity", "\xE2\x88\x9E"};

bool is_missing_label(std::string_view text) { return is_one_of(lower(text), kMissing); }

// Without the doubling of quotes within quotes.
std::string unquoted(std::string_view text) {
  std::string out(text);
  for (size_t at = out.find("\"\""); at != std::string::npos; at = out.find("\"\"", at + 1)) {
    out.erase(at, 1);
  }
  return out;
}

// ---- The delimiter -------------------------------------------------------------------------------------------------

constexpr char kCandidates[] = {'\t', ';', ',', kBlankDelimiter};

// Such numbers from which on a table's decimal sign is doubted. Reason: one may be a chance.
constexpr uint64_t kDoubtedMin = 2;

// The first that splits all rows alike; else the first that splits the first row; else 0. Blanks are none where there
// are tabs: two tabs with nothing between them are a missing value.
char find_delimiter(std::string_view text, const TableOptions& options) {
  std::vector<std::string_view> looked_at;
  Rows rows(text, options.skipped_row_count, false);
  for (std::string_view row; looked_at.size() < kLookedAtMax && rows.next(&row);) {
    looked_at.push_back(row);
  }
  char first = 0;
  std::vector<std::string_view> fields;
  const bool has_tab = std::any_of(looked_at.begin(), looked_at.end(),
                                   [](std::string_view row) { return trim(row).find('\t') != std::string_view::npos; });
  for (const char candidate : kCandidates) {
    if ((candidate == kBlankDelimiter && has_tab) || (candidate == ',' && options.decimal == DecimalSign::kComma)) {
      continue;
    }
    size_t count = 0;
    bool is_alike = true;
    for (const std::string_view row : looked_at) {
      split_fields(row, candidate, &fields);
      count = count == 0 ? fields.size() : count;
      is_alike = is_alike && fields.size() == count;
    }
    if (count > 1 && is_alike) {
      return candidate;
    }
    first = first == 0 && count > 1 ? candidate : first;
  }
  return first;
}

// Excel's first line that names the delimiter: "sep=;".
bool take_delimiter_line(std::string_view* text, char* delimiter) {
  std::string_view rest = *text;
  if (rest.starts_with(kByteOrderMark)) {
    rest.remove_prefix(kByteOrderMark.size());
  }
  const size_t end = std::min(rest.find_first_of("\r\n"), rest.size());
  if (end != 5 || lower(rest.substr(0, 4)) != "sep=") {
    return false;
  }
  *delimiter = rest[4];
  return true;
}

// ---- The table -----------------------------------------------------------------------------------------------------

class TextTable {
 public:
  TextTable(const TableOptions& options, SampleTable* table) : options_(options), table_(*table) {}

  std::string read(std::string_view text) {
    table_.delimiter = options_.delimiter;
    char named = 0;
    has_delimiter_line_ = take_delimiter_line(&text, &named);
    if (has_delimiter_line_ && table_.delimiter == 0) {
      if (std::string_view(kCandidates, sizeof kCandidates).find(named) == std::string_view::npos) {
        return ", row 1: the delimiter " + shown({&named, 1}) + " is none of comma, semicolon, tab and blank; use one";
      }
      table_.delimiter = named;
    }
    if (table_.delimiter == 0) {
      table_.delimiter = find_delimiter(text, options_);
    }
    if (table_.delimiter == ',' && options_.decimal == DecimalSign::kComma) {
      return ": a comma cannot be the delimiter and the decimal sign; name another one of them with --delimiter or "
             "--decimal";
    }
    Rows rows(text, options_.skipped_row_count, table_.delimiter == '\t');
    std::string fault;
    for (std::string_view row; fault.empty() && rows.next(&row);) {
      if (has_delimiter_line_ && rows.number() == 1) {
        continue;
      }
      if (table_.sample_count == kSampleCountMax) {
        return too_many(rows);
      }
      row_ = rows.number();
      fault = take_row(row);
    }
    if (fault.empty() && table_.sample_count == 0) {
      fault = first_row_ == 0 ? " holds no row; it needs a sample a row"
                              : " holds a header line in row " + std::to_string(first_row_) +
                                    " and no sample; it needs a sample a row";
    }
    fault = fault.empty() ? style_fault() : fault;
    return fault.empty() ? thousands_fault() : fault;
  }

 private:
  static std::string too_many(Rows& rows) {
    uint64_t count = uint64_t{kSampleCountMax} + 1;
    for (std::string_view row; rows.next(&row);) {
      ++count;
    }
    return " has " + std::to_string(count) + " samples, and the limit is 1 to " + std::to_string(kSampleCountMax) +
           "; split it, and share the parts among more devices";
  }

  // Where blanks are found to be the delimiter, a comma may be one too.
  bool takes_comma() const {
    return options_.decimal == DecimalSign::kFound
               ? field_delimiter() != ',' && (field_delimiter() != kBlankDelimiter || options_.delimiter != 0)
               : options_.decimal == DecimalSign::kComma;
  }

  Field field_of(std::string_view text) const {
    return read_field(text, takes_comma(), options_.decimal != DecimalSign::kComma);
  }

  char field_delimiter() const {
    return table_.delimiter != 0 ? table_.delimiter : options_.decimal == DecimalSign::kComma ? ';' : ',';
  }

  std::string place(size_t column) const {
    return ", row " + std::to_string(row_) + ", column " + std::to_string(column + 1) +
           (column < names_.size() && !names_[column].empty() && row_ != first_row_ ? " (" + shown(names_[column]) + ")"
                                                                                    : "") +
           ": ";
  }

  // Names may lack one: that of the index which pandas writes.
  bool is_header() const {
    size_t empty_count = 0;
    for (const std::string_view text : fields_) {
      empty_count += text.empty() ? 1 : 0;
      if (!text.empty() && read_field(text, true, true).kind != FieldKind::kWord) {
        return false;
      }
    }
    return empty_count <= 1 && empty_count < fields_.size();
  }

  std::string take_row(std::string_view row) {
    if (const char* const fault = split_fields(row, field_delimiter(), &fields_); fault != nullptr) {
      return place(fields_.size() - 1) + shown(fields_.back()) + ": " + fault;
    }
    if (first_row_ == 0) {
      std::string fault = begin();
      if (!fault.empty() || !names_.empty()) {
        return fault;
      }
    }
    return fields_.size() == column_count_ ? take_sample() : count_fault();
  }

  std::string begin() {
    first_row_ = row_;
    column_count_ = fields_.size();
    if (column_count_ > kDimensionMax) {
      return ", row " + std::to_string(row_) + ": a sample has " + std::to_string(column_count_) +
             " values, and the limit is " + std::to_string(kDimensionMax) + "; give each sample fewer values";
    }
    const bool has_header =
        options_.header == HeaderLine::kYes || (options_.header == HeaderLine::kFound && is_header());
    for (size_t i = 0; has_header && i < fields_.size(); ++i) {
      names_.push_back(unquoted(fields_[i]));
    }
    label_ = column_count_;  // none
    if (!options_.label.empty()) {
      std::string fault = find_label(options_.label, names_, column_count_, &label_);
      if (!fault.empty()) {
        return fault;
      }
      table_.has_label = true;
      table_.label_column = static_cast<uint32_t>(label_);
    }
    table_.names = names_;
    if (!names_.empty() && table_.has_label) {  // the label is the last value
      std::rotate(table_.names.begin() + static_cast<ptrdiff_t>(label_),
                  table_.names.begin() + static_cast<ptrdiff_t>(label_) + 1, table_.names.end());
    }
    table_.dimension = static_cast<uint32_t>(column_count_);
    return {};
  }

  std::string count_fault() const {
    return ", row " + std::to_string(row_) + ": it has " + std::to_string(fields_.size()) + " values, and row " +
           std::to_string(first_row_) + " has " + std::to_string(column_count_) +
           " (delimiter: " + delimiter_name(table_.delimiter) +
           "); mend the row, or name the delimiter with --delimiter";
  }

  std::string take_sample() {
    float label = 0;
    for (size_t i = 0; i < fields_.size(); ++i) {
      float value = 0;
      std::string fault = i == label_ ? take_label(fields_[i], &label) : take_number(fields_[i], i, &value);
      if (!fault.empty()) {
        return fault;
      }
      if (i != label_) {
        table_.values.push_back(value);
      }
    }
    if (table_.has_label) {
      table_.values.push_back(label);
    }
    ++table_.sample_count;
    return {};
  }

  std::string take_label(std::string_view text, float* value) {
    const Field field = field_of(text);
    if (is_missing_label(text)) {
      return place(label_) +
             (text.empty() ? "the label is empty" : "the label " + shown(text) + " is a missing value") +
             "; name its class, or leave the row out";
    }
    const bool is_word = field.kind == FieldKind::kWord || field.kind == FieldKind::kMissing;
    if (!is_word) {
      std::string fault = take_number(text, label_, value);
      const std::string digits = options_.takes_words ? "" : label_digits_fault(number_text(text), *value);
      if (!fault.empty() || !digits.empty()) {
        return fault.empty() ? place(label_) + digits : fault;
      }
    } else if (!options_.takes_words) {
      return place(label_) + "the label " + shown(text) + " is a word, and a device takes numbers; `gradstream data " +
             "pack --label` gives the classes of all files their numbers";
    }
    table_.has_word_label = table_.has_word_label || is_word;
    if (options_.takes_words) {
      table_.labels.push_back(is_word ? unquoted(text) : number_text(text));
    }
    return {};
  }

  std::string take_number(std::string_view text, size_t column, float* value) {
    const Field field = field_of(text);
    *value = field.value;
    note_style(field.has_point, column, &point_);
    note_style(field.has_comma, column, &comma_);
    if (field.has_point || field.has_comma) {
      note_thousands(text, column);
    }
    switch (field.kind) {
      case FieldKind::kNumber:
        return {};
      case FieldKind::kMissing:
        return place(column) + (text.empty() ? "the value is empty" : shown(text) + " is a missing value") +
               "; fill the gap, or leave the row out" +
               (text.empty() && column + 1 == column_count_ ? ", or take a delimiter at the end of all rows away" : "");
      case FieldKind::kInfinite:
        return place(column) + shown(text) + " is infinite, and the limit is " + std::string(kFloatLimit) +
               "; write a finite number, or leave the row out";
      case FieldKind::kTooLarge:
        return place(column) + shown(text) + " is beyond the range of a float, " + std::string(kFloatLimit) +
               "; scale the column down";
      default:
        return place(column) + shown(text) + word_fault(text);
    }
  }

  std::string word_fault(std::string_view text) const {
    const bool has_comma = text.find(',') != std::string_view::npos;
    if (text.find('|') != std::string_view::npos) {
      return " has a `|`; separate values by commas, semicolons, tabs or blanks";
    }
    if (text.starts_with("\xE2\x88\x92")) {
      return " begins with a minus that is no `-`; write `-`";
    }
    for (const std::string_view separator : {"\xC2\xA0", "\xE2\x80\xAF", "\xE2\x80\x99", "'"}) {  // blanks, quotes
      if (text.find(separator) != std::string_view::npos && kDigits.find(text.front()) != std::string_view::npos) {
        return " has a separator of thousands; write the number without it";
      }
    }
    if (text.starts_with('#')) {
      return " is a spreadsheet's failed value; mend its formula, or leave the row out";
    }
    if (options_.decimal != DecimalSign::kFound && (is_number(text, ',') || is_number(text, '.'))) {
      return std::string(
                 " has another decimal sign than --decimal says; write one of them, and thousands with neither") +
             (has_comma && table_.delimiter == ',' ? "" : ", or say --decimal auto");
    }
    if (has_comma && text.find_first_not_of("0123456789,.+-") == std::string_view::npos) {
      return field_delimiter() == ','
                 ? " has a comma in a number; write the decimal sign as a point, or separate values by semicolons"
                 : " has a separator of thousands; write the number without it";
    }
    if (text.find_first_of(" \t;") != std::string_view::npos &&
        text.find_first_not_of("0123456789,.+-eE \t;") == std::string_view::npos) {
      return " is more than one number; name the delimiter with --delimiter";
    }
    std::string fault = " is no number; write one such as -0.5 or 1e-3, or leave the column out";
    if (options_.label.empty()) {
      fault += ", or name the column with --label where it holds classes";
    }
    if (row_ == first_row_) {
      fault +=
          "; if the row holds no sample, take it away, or, where it names the columns, say "
          "`gradstream data pack --header yes`";
    }
    return fault;
  }

  struct StylePlace {
    uint64_t row = 0;  // 0: none
    size_t column = 0;
  };
  void note_style(bool is_there, size_t column, StylePlace* out) const {
    if (is_there && out->row == 0) {
      *out = {row_, column};
    }
  }

  // A point beside decimal commas would be a separator of thousands, or the other way round.
  std::string style_fault() {
    table_.has_decimal_comma = comma_.row != 0;
    table_.has_decimal_point = point_.row != 0;
    if (comma_.row == 0 || point_.row == 0) {
      return {};
    }
    return ", row " + std::to_string(comma_.row) + ", column " + std::to_string(comma_.column + 1) +
           ": a comma is the decimal sign, and in row " + std::to_string(point_.row) + ", column " +
           std::to_string(point_.column + 1) + " a point is; write all numbers with one of them, and thousands with " +
           "neither";
  }

  void note_thousands(std::string_view text, size_t column) {
    is_sign_sure_ = is_sign_sure_ || !may_be_thousands(text);
    if (!is_sign_sure_ && ++doubt_count_ == 1) {
      doubt_ = {row_, column};
      doubt_text_ = text;
    }
  }

  // 1,000 of an English table is 1 to a German reader. A number such as 0,5 anywhere in the table tells its sign.
  // Between commas, and between blanks that were found, only a point can be the decimal sign.
  std::string thousands_fault() {
    const bool is_open = table_.delimiter == 0 || table_.delimiter == ';' || table_.delimiter == '\t' ||
                         (table_.delimiter == kBlankDelimiter && options_.delimiter != 0);
    table_.has_doubted_decimals =
        doubt_count_ > 0 && !is_sign_sure_ && is_open && options_.decimal == DecimalSign::kFound;
    if (!table_.has_doubted_decimals || doubt_count_ < kDoubtedMin) {
      return {};
    }
    row_ = doubt_.row;
    const std::string sign = table_.has_decimal_comma ? "comma" : "point";
    return place(doubt_.column) + "the " + sign + " in " + shown(doubt_text_) + " may separate thousands or be the " +
           "decimal sign, as in all numbers that have one; write thousands without a separator, or say --decimal " +
           sign + " where it is the decimal sign";
  }

  const TableOptions& options_;
  SampleTable& table_;
  std::vector<std::string_view> fields_;
  std::vector<std::string> names_;  // in the file's order
  size_t column_count_ = 0;
  size_t label_ = 0;
  bool has_delimiter_line_ = false;
  uint64_t row_ = 0;
  uint64_t first_row_ = 0;
  StylePlace point_, comma_;
  StylePlace doubt_;  // the first number that may have thousands
  std::string doubt_text_;
  uint64_t doubt_count_ = 0;  // until a number tells the sign
  bool is_sign_sure_ = false;
};

}  // namespace

const char* split_fields(std::string_view line, char delimiter, std::vector<std::string_view>* out) {
  out->clear();
  const bool is_by_blanks = delimiter == kBlankDelimiter;
  if (is_by_blanks) {
    line = trim(line);
  }
  for (size_t at = 0; at <= line.size(); ++at) {  // each turn begins behind a delimiter
    skip_blanks(line, delimiter, &at);
    std::string_view value;
    const char* fault = nullptr;
    if (at < line.size() && line[at] == '"') {
      fault = take_quoted(line, delimiter, &at, &value);
    } else {
      const size_t begin = at;
      while (at < line.size() && !is_separator(line[at], delimiter)) {
        ++at;
      }
      value = trim(line.substr(begin, at - begin));
    }
    out->push_back(value);
    if (fault != nullptr) {
      return fault;
    }
  }
  return nullptr;
}

Field read_field(std::string_view text, bool takes_comma, bool takes_point) {
  Field field;
  const bool is_by_comma = takes_comma && is_number(text, ',');
  if (is_by_comma || (takes_point && is_number(text, '.'))) {
    std::string digits(text);
    field.has_comma = is_by_comma && text.find(',') != std::string_view::npos;
    field.has_point = text.find('.') != std::string_view::npos;
    std::replace(digits.begin(), digits.end(), ',', '.');
    field.value = std::strtof(digits.c_str(), nullptr);  // no program of ours sets a locale
    field.kind = std::isfinite(field.value) ? FieldKind::kNumber : FieldKind::kTooLarge;
    return field;
  }
  const std::string word = lower(text);
  field.kind = is_one_of(word, kMissing) || is_one_of(word, kNoValue) ? FieldKind::kMissing
               : is_one_of(word, kInfinite)                           ? FieldKind::kInfinite
                                                                      : FieldKind::kWord;
  return field;
}

std::string number_text(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  std::string digits;
  int64_t exponent = 0;
  bool is_fraction = false;
  size_t at = is_negative || text.starts_with('+') ? 1 : 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.' || text[at] == ',') {
      is_fraction = true;
      continue;
    }
    exponent -= is_fraction ? 1 : 0;
    if (!digits.empty() || text[at] != '0') {
      digits += text[at];
    }
  }
  if (at < text.size()) {
    constexpr int64_t kExponentMax = 1'000'000'000;  // Reason: such a number is 0 as a float
    const size_t begin = at + (text.substr(at + 1).starts_with('+') ? 2 : 1);
    int64_t written = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + text.size(), written);
    exponent += error == std::errc() ? std::clamp(written, -kExponentMax, kExponentMax) : -kExponentMax;
  }
  while (digits.ends_with('0')) {
    digits.pop_back();
    ++exponent;
  }
  if (digits.empty()) {
    return "0";
  }
  constexpr int64_t kZerosMax = 20;  // Reason: whole numbers of 64 bits are written out
  const auto size = static_cast<int64_t>(digits.size());
  if (exponent >= 0 && exponent <= kZerosMax) {
    digits.append(static_cast<size_t>(exponent), '0');
  } else if (exponent < 0 && -exponent < size) {
    digits.insert(static_cast<size_t>(size + exponent), 1, '.');
  } else if (exponent < 0 && -exponent - size <= kZerosMax) {
    digits.insert(0, "0." + std::string(static_cast<size_t>(-exponent - size), '0'));
  } else {
    digits += "e" + std::to_string(exponent);
  }
  return (is_negative ? "-" : "") + digits;
}

std::string label_digits_fault(std::string_view text, float value) {
  constexpr float kExactMax = 1U << 24;
  char held[64];
  (void)std::snprintf(held, sizeof held, "%.0f", static_cast<double>(value));
  if (std::fabs(value) < kExactMax || text.find_first_of(".e") != std::string_view::npos || text == held) {
    return {};
  }
  return "a float holds no label " + std::string(text) + ", since whole numbers beyond 16777216 fall together; " +
         "number the classes with `gradstream data pack --map-labels`, or scale the target of a regression down";
}

std::string find_label(const std::string& label, const std::vector<std::string>& names, size_t column_count,
                       size_t* index) {
  const auto found = std::find(names.begin(), names.end(), label);
  if (found != names.end()) {
    if (std::find(found + 1, names.end(), label) != names.end()) {
      return " has two columns of the name " + shown(label) + "; give the number of the label's column to --label";
    }
    *index = static_cast<size_t>(found - names.begin());
    return {};
  }
  size_t number = 0;
  const auto [stop, error] = std::from_chars(label.data(), label.data() + label.size(), number);
  if (error == std::errc() && stop == label.data() + label.size() && number >= 1 && number <= column_count) {
    *index = number - 1;
    return {};
  }
  constexpr size_t kListedMax = 8;  // Reason: a message stays a few lines
  std::string list;
  for (size_t i = 0; i < names.size() && i < kListedMax; ++i) {
    list += (i == 0 ? "" : ", ") + shown(names[i]);
  }
  return " has no column " + shown(label) + "; give --label " +
         (names.empty()
              ? ""
              : "a name of its header line (" + list + (names.size() > kListedMax ? ", ..." : "") + "), or ") +
         "a number from 1 to " + std::to_string(column_count);
}

std::string parse_text_table(std::string_view text, const TableOptions& options, SampleTable* table) {
  return TextTable(options, table).read(text);
}

}  // namespace gradstream
