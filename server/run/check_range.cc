#include "server/run/check_range.h"

#include <cmath>
#include <string>
#include <type_traits>

#include "runtime/base/status.h"
#include "server/run/field_text.h"
#include "server/run/key_table.h"
#include "server/run/visit_keys.h"

namespace gradstream {
namespace {

template <typename Field>
bool is_in(const Key& key, const Field& field) {
  const Range& range = key.range;
  if (is_zero_word(key, field)) {
    return true;
  }
  if constexpr (std::is_same_v<Field, std::string>) {
    return range.has(static_cast<double>(field.size()));
  } else if constexpr (std::is_floating_point_v<Field>) {
    return std::isfinite(field) && range.has(static_cast<double>(field));
  } else if constexpr (std::is_same_v<Field, uint32_t>) {
    return range.has(field);
  } else {
    return true;  // a word
  }
}

// What a key needs, in a sentence: "a number from 0 to 1", "at least 1 ms", "1 to 256 steps".
std::string wanted_text(const Key& key) {
  const bool has_unit = key.unit[0] != '\0';
  if (!std::isfinite(key.range.least) && !std::isfinite(key.range.most)) {
    return "a finite number";
  }
  std::string text = range_text(key.range, key.unit);
  std::erase(text, '`');  // of Markdown
  const bool is_open = text.starts_with("from ");
  if (key.has_zero_word()) {
    text += std::string(", or ") + key.zero_word;
  }
  if (has_unit) {
    return is_open ? "at least" + text.substr(4) : text;
  }
  return is_open || text.starts_with("above ") ? "a number " + text : "a number from " + text;
}

template <typename Field>
std::string refusal(const Key& key, const Field& field) {
  std::string found;
  if constexpr (std::is_same_v<Field, std::string>) {
    found = "; it has " + std::to_string(field.size());
  } else {
    found = "; it is " + field_text(field);
  }
  return std::string(key.name) + ": needs " + wanted_text(key) + found;
}

}  // namespace

Objection check_range(const RunParameters& p, std::string_view name) {
  Objection objection;
  bool is_key = false;
  visit_keys(p, [&](const Key& key, const auto& field) {
    if (key.name == name) {
      is_key = true;
      objection = is_in(key, field) ? "" : refusal(key, field);
    }
  });
  GS_ASSERT(is_key);
  return objection;
}

Objection check_ranges(const RunParameters& p) {
  Objection objection;
  visit_keys(p, [&](const Key& key, const auto& field) {
    // A product is one column that may be longer than any other; check_model() knows how long.
    const bool is_product = p.model->manifold == ManifoldId::kProduct && key.name == std::string_view("rows");
    if (!objection && !is_product && key.range.where[0] == '\0' && !is_in(key, field)) {
      objection = refusal(key, field);
    }
  });
  return objection;
}

}  // namespace gradstream
