#include "server/program/device_table.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/wire/identity.h"
#include "server/base/table_row.h"

namespace gradstream {

namespace {

// What TLS carries is 63 characters: so that "~" and the number of a rotation fit behind any name.
constexpr size_t kDeviceNameSizeMax = 56;

bool is_word(std::string_view text, std::string_view lower) {
  return text.size() == lower.size() &&
         std::equal(text.begin(), text.end(), lower.begin(), [](char a, char b) { return (a | 0x20) == b; });
}

bool is_head_line(const std::vector<std::string_view>& row) {
  return is_word(row[0], "name") && (row.size() == 1 || (row.size() == 2 && is_word(row[1], "key")));
}

// Objects with what is wrong.
Objection parse_key(std::string_view text, DeviceKey* out) {
  const std::string wanted = "key: expected " + std::to_string(2 * out->size()) + " hexadecimal digits";
  if (text.size() != 2 * out->size()) {
    return wanted + ", and " + std::to_string(text.size()) + " characters stand here" +
           (text.empty() ? "; without the comma a key is drawn" : "");
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const int digit = hex_digit(text[i]);
    if (digit < 0) {
      return wanted + ", and character " + std::to_string(i + 1) + " is none";
    }
    (*out)[i / 2] = static_cast<uint8_t>(i % 2 == 0 ? digit << 4 : (*out)[i / 2] | digit);
  }
  return is_undrawn_key(*out)
             ? "key: all of its digits are the same, so it is no secret; leave it out, and a key is drawn"
             : std::string();
}

// One row, without a look at others. Objects with what is wrong. has_key: the row has one.
Objection parse_row(const std::vector<std::string_view>& row, EnrolledDevice* out, bool* has_key) {
  if (row.size() > 2) {
    return "expected NAME or NAME,KEY, and " + std::to_string(row.size()) + " values stand here";
  }
  if (!is_device_name(row[0])) {
    return std::string("name: expected ") + kDeviceNameRule + "; " + std::to_string(row[0].size()) +
           " bytes stand here";
  }
  out->name = row[0];
  *has_key = row.size() == 2;
  return *has_key ? parse_key(row[1], &out->key) : std::string();
}

bool is_less(const DeviceKey& a, const DeviceKey& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

// Of rows and their lines: an objection: where a key stands twice. Sorted pointers leave no copies of keys.
Objection find_key_twice(const std::vector<EnrolledDevice>& rows, const std::vector<uint32_t>& lines,
                         const std::set<std::string>& drawn, const std::string& file) {
  std::vector<size_t> order;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!drawn.contains(rows[i].name)) {
      order.push_back(i);
    }
  }
  std::sort(order.begin(), order.end(), [&rows](size_t a, size_t b) {
    return is_less(rows[a].key, rows[b].key) || (rows[a].key == rows[b].key && a < b);
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const size_t a = order[i - 1], b = order[i];
    if (rows[a].key == rows[b].key) {
      return file + ":" + std::to_string(lines[b]) + ": " + rows[b].name + " has the key of " + rows[a].name +
             " in line " + std::to_string(lines[a]) + "; give each device a key of its own";
    }
  }
  return {};
}

}  // namespace

bool is_device_name(std::string_view name) {
  const auto is_plain = [](char c) { return c > ' ' && c < '~' && c != ','; };
  return !name.empty() && name.size() <= kDeviceNameSizeMax && name.front() != '#' && name != "name" &&
         std::all_of(name.begin(), name.end(), is_plain);
}

Objection parse_device_table(std::string_view text, const std::string& file, std::vector<EnrolledDevice>* out,
                             std::set<std::string>* drawn) {
  if (const TextFault fault = find_text_fault(text); fault.text != nullptr) {
    return file + (fault.line == 0 ? " " : ":" + std::to_string(fault.line) + ": the file ") + fault.text;
  }
  std::map<std::string, uint32_t> line_of_name;
  std::vector<uint32_t> line_of_row;
  std::vector<std::string_view> values;
  LineReader lines(text);
  bool is_first = true;
  for (std::string_view line; lines.next(&line); is_first = false) {
    const std::string where = file + ":" + std::to_string(lines.number()) + ": ";
    if (const RowFault fault = split_row(line, &values); fault.text != nullptr) {
      return where + "column " + std::to_string(fault.column) + ": " + fault.text;
    }
    if (is_first && is_head_line(values)) {
      continue;
    }
    EnrolledDevice row;
    bool has_key = false;
    if (const Objection problem = parse_row(values, &row, &has_key)) {
      return where + problem.sentence +
             (is_first ? "; a head line is `name` or `name,key`, take another one away" : "");
    }
    if (const auto [at, is_new] = line_of_name.emplace(row.name, lines.number()); !is_new) {
      return where + row.name + " stands here twice, first in line " + std::to_string(at->second);
    }
    if (!has_key) {
      drawn->insert(row.name);
    }
    line_of_row.push_back(lines.number());
    out->push_back(std::move(row));
  }
  return out->empty() ? file + " names no device; expected lines NAME or NAME,KEY"
                      : find_key_twice(*out, line_of_row, *drawn, file);
}

Objection find_taken_key(const std::vector<EnrolledDevice>& imported, const std::vector<EnrolledDevice>& enrolled,
                         const std::vector<ClaimRow>& claims) {
  std::vector<const EnrolledDevice*> rows;
  rows.reserve(imported.size());
  for (const EnrolledDevice& row : imported) {
    rows.push_back(&row);
  }
  std::sort(rows.begin(), rows.end(),
            [](const EnrolledDevice* a, const EnrolledDevice* b) { return is_less(a->key, b->key); });
  const DeviceKey none;  // of a device that was never rotated
  const auto find = [&](const DeviceKey& key, const std::string& name, const std::string& owner) {
    const auto at = std::lower_bound(rows.begin(), rows.end(), key, [](const EnrolledDevice* row, const DeviceKey& k) {
      return is_less(row->key, k);
    });
    return at == rows.end() || key == none || !((*at)->key == key) || (*at)->name == name
               ? Objection()
               : (*at)->name + " has the key of the " + owner + "; give each device a key of its own";
  };
  for (const EnrolledDevice& device : enrolled) {
    for (const DeviceKey* key : {&device.key, &device.previous_key}) {
      if (Objection problem = find(*key, device.name, "enrolled device " + device.name)) {
        return problem;
      }
    }
  }
  for (const ClaimRow& claim : claims) {
    if (Objection problem = find(claim.key, {}, "claim " + claim.name)) {
      return problem;
    }
  }
  return {};
}

}  // namespace gradstream
