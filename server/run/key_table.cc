#include "server/run/key_table.h"

#include <cmath>

#include "server/run/field_text.h"
#include "server/run/visit_keys.h"

namespace gradstream {
namespace {

std::string number_text(double value) {
  return value == std::floor(value) ? std::to_string(static_cast<int64_t>(value)) : field_text(value);
}

template <typename Enum>
std::string words_text() {
  std::string text;
  for (const auto& [word, value] : names_of<Enum>()) {
    text += (text.empty() ? "" : ", ") + std::string(word);
  }
  return text;
}

bool has_ends(const Range& range) { return !std::isinf(range.least) || !std::isinf(range.most); }

// What a field takes, and its default.
template <typename Field>
void describe(const Key& key, const Field& field, KeyRow* out) {
  out->value = key_text(key, field);
  out->is_word = std::is_same_v<Field, std::string> || std::is_enum_v<Field> || is_zero_word(key, field);
  out->has_words = std::is_same_v<Field, bool> || std::is_enum_v<Field>;
  if constexpr (std::is_same_v<Field, bool>) {
    out->takes = "true, false";
  } else if constexpr (std::is_enum_v<Field>) {
    out->takes = words_text<Field>();
  } else if (has_ends(key.range)) {
    out->takes = range_text(key.range, key.unit);
  } else if constexpr (std::is_same_v<Field, std::string>) {
    out->takes = "text";
  } else {
    out->takes = std::is_integral_v<Field> ? range_text(from(0), key.unit) : "a number";
  }
  if (key.has_zero_word()) {
    out->takes += std::string(", or \"") + key.zero_word + "\"";
  }
}

template <typename Field>
bool is_needed(const Key& key, const Field& field) {
  if (key.range.where[0] != '\0') {
    return false;
  }
  if constexpr (std::is_same_v<Field, std::string>) {
    return !key.range.has(static_cast<double>(field.size()));
  } else if constexpr (std::is_enum_v<Field> || std::is_same_v<Field, bool>) {
    return false;
  } else {
    return !key.range.has(static_cast<double>(field)) && !is_zero_word(key, field);
  }
}

}  // namespace

std::string range_text(const Range& range, const std::string& unit) {
  std::string text = (range.is_above ? "above " : std::isinf(range.most) ? "from " : "") + number_text(range.least);
  if (!std::isinf(range.most)) {
    text += (range.is_below ? " to below " : " to ") + number_text(range.most);
  }
  text += unit.empty() ? "" : " " + unit;
  return range.where[0] == '\0' ? text : text + " (" + range.where + ")";
}

std::vector<KeyRow> key_rows() {
  std::vector<KeyRow> rows;
  const char* title = "The run";
  const auto add = [&](const Key& key, const auto& field) {
    KeyRow row{title, key.name, "", "", key.sentence, false, false};
    describe(key, field, &row);
    if (is_needed(key, field)) {
      row.value = "needed";
    }
    rows.push_back(std::move(row));
  };
  const RunParameters defaults;
  visit_own_keys(defaults, add);
  visit_groups(defaults, [&](const auto& group) {
    using Group = std::remove_cvref_t<decltype(group)>;
    title = Group::kTitle;
    Group::visit(group, add);
  });
  return rows;
}

namespace {

// As the configuration writes it.
std::string default_cell(const KeyRow& row) {
  if (row.value == "needed") {
    return row.value;
  }
  return row.is_word ? "`\"" + row.value + "\"`" : "`" + row.value + "`";
}

std::string takes_cell(const KeyRow& row) {
  if (!row.has_words) {
    return row.takes;
  }
  std::string cell = "`";
  for (const char c : row.takes) {
    cell += c == ',' ? "`," : c == ' ' ? " `" : std::string(1, c);
  }
  return cell + "`";
}

}  // namespace

std::string key_table() {
  std::string text;
  std::string open;
  for (const KeyRow& row : key_rows()) {
    if (row.group != open) {
      text +=
          (open.empty() ? "## " : "\n## ") + row.group + "\n\n| key | default | takes | meaning |\n|---|---|---|---|\n";
      open = row.group;
    }
    text += "| `" + row.name + "` | " + default_cell(row) + " | " + takes_cell(row) + " | " + row.sentence + " |\n";
  }
  return text;
}

}  // namespace gradstream
