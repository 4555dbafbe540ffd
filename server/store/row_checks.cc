#include "server/store/row_checks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string_view>

#include <sqlite3.h>

#include "runtime/base/crc32c.h"

namespace gradstream {

namespace {

struct CheckedTable {
  const char* name;
  const char* id;       // the column that names a row to people
  const char* columns;  // all but crc32c, with commas between
};
constexpr CheckedTable kTables[] = {
    {"meta", "key", "key,value"},
    {"devices", "name",
     "device_index,name,key,created_ms,state,generation,previous_key,previous_until_ms,claim,"
     "changed,key_change_secret,key_change_since_ms,key_change_window_s,key_change_receipt"},
    {"claims", "name",
     "id,name,key,count_max,count_used,expires_ms,device_state,created_ms,is_ended,"
     "server_secret"},
    {"runs", "id", "id,name,parameters,source,digest,state,created_ms,run_nonce"},
};

constexpr int64_t kFirstSigned = 5;  // the first format with checksums
constexpr int64_t kLastChanged = 9;  // the last one in which a checked table had other columns
// What a table had up to a format.
struct OldColumns {
  std::string_view table;
  int64_t format;
  const char* columns;
};
constexpr OldColumns kOldColumns[] = {
    {"devices", 7, "device_index,name,key,created_ms,state,generation,previous_key,previous_until_ms,claim"},
    {"devices", 9, "device_index,name,key,created_ms,state,generation,previous_key,previous_until_ms,claim,changed"},
    {"runs", 8, "id,name,parameters,source,digest,state,created_ms"},
    {"claims", 8, "id,name,key,count_max,count_used,expires_ms,device_state,created_ms,is_ended"},
};

const char* columns_of(const CheckedTable& table, int64_t format) {
  for (const OldColumns& old : kOldColumns) {
    if (old.table == table.name && format <= old.format) {
      return old.columns;
    }
  }
  return table.columns;
}

uint32_t add_number(uint32_t crc, uint64_t number) {
  std::array<uint8_t, 8> bytes = {};
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(number >> (8 * i));
  }
  return crc32c(crc, bytes.data(), bytes.size());
}

// The type counts, and the length of what has one: two rows of different columns give different bytes.
uint32_t add_value(uint32_t crc, sqlite3_value* value) {
  const int type = sqlite3_value_type(value);
  crc = add_number(crc, static_cast<uint64_t>(type));
  switch (type) {
    case SQLITE_NULL:
      return crc;
    case SQLITE_INTEGER:
      return add_number(crc, static_cast<uint64_t>(sqlite3_value_int64(value)));
    case SQLITE_FLOAT:
      return add_number(crc, std::bit_cast<uint64_t>(sqlite3_value_double(value)));
    default: {
      const auto* const bytes = static_cast<const uint8_t*>(sqlite3_value_blob(value));
      const auto size = static_cast<size_t>(sqlite3_value_bytes(value));
      crc = add_number(crc, size);
      return size == 0 ? crc : crc32c(crc, bytes, size);
    }
  }
}

void row_crc(sqlite3_context* context, int count, sqlite3_value** values) {
  uint32_t crc = 0;
  for (int i = 0; i < count; ++i) {
    crc = add_value(crc, values[i]);
  }
  sqlite3_result_int64(context, crc);
}

// "a,b" with the prefix "OLD." is "OLD.a,OLD.b".
std::string with_prefix(std::string_view columns, const std::string& prefix) {
  std::string text = prefix;
  for (const char letter : columns) {
    text += letter;
    if (letter == ',') {
      text += prefix;
    }
  }
  return text;
}

void append(std::string* text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    *text += part;
  }
}

std::string sign(const CheckedTable& table) {
  return std::string("UPDATE ") + table.name + " SET crc32c=gs_row_crc(" + table.columns + ")";
}

}  // namespace

int register_row_crc(sqlite3* connection) {
  constexpr int kAnyCount = -1;
  return sqlite3_create_function_v2(connection, "gs_row_crc", kAnyCount, SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr,
                                    row_crc, nullptr, nullptr, nullptr);
}

std::string row_check_statements() {
  std::string text;
  std::string damaged;
  for (const CheckedTable& table : kTables) {
    const std::string_view name = table.name;
    const std::string_view columns = table.columns;
    const std::string old_columns = with_prefix(columns, "OLD.");
    append(&text, {"CREATE TEMP VIEW checked_", name, " AS SELECT *,crc32c=gs_row_crc(", columns,
                   ") AS is_whole FROM main.", name, ";"});
    append(&text, {"CREATE TEMP TRIGGER verify_", name, " BEFORE UPDATE OF ", columns, " ON main.", name,
                   " WHEN OLD.crc32c<>gs_row_crc(", old_columns, ") BEGIN SELECT RAISE(ABORT,'a row of table ", name,
                   " is damaged'); END;"});
    const std::string row = sign(table);
    append(&text, {"CREATE TEMP TRIGGER sign_", name, "_new AFTER INSERT ON main.", name, " BEGIN ", row,
                   " WHERE rowid=NEW.rowid; END;"});
    append(&text, {"CREATE TEMP TRIGGER sign_", name, "_changed AFTER UPDATE OF ", columns, " ON main.", name,
                   " BEGIN ", row, " WHERE rowid=NEW.rowid; END;"});
    append(&damaged, {damaged.empty() ? "" : " UNION ALL ", "SELECT '", name, "' AS table_name,", table.id,
                      " AS id FROM checked_", name, " WHERE NOT is_whole"});
  }
  append(&text, {"CREATE TEMP VIEW damaged_rows AS ", damaged, ";"});
  return text;
}

const char* old_damage_query(int64_t format) {
  static const auto queries = [] {
    std::array<std::string, kLastChanged - kFirstSigned + 1> texts;
    for (size_t i = 0; i < texts.size(); ++i) {
      for (const CheckedTable& table : kTables) {
        const std::string_view name = table.name;
        append(&texts[i], {texts[i].empty() ? "" : " UNION ALL ", "SELECT '", name, "' AS table_name,", table.id,
                           " AS id FROM main.", name, " WHERE crc32c<>gs_row_crc(",
                           columns_of(table, kFirstSigned + static_cast<int64_t>(i)), ")"});
      }
      texts[i] += " LIMIT 1";
    }
    return texts;
  }();
  if (format < kFirstSigned) {
    return "SELECT '' AS table_name,'' AS id WHERE 0";
  }
  return queries[static_cast<size_t>(std::min(format, kLastChanged) - kFirstSigned)].c_str();
}

std::string row_sign_statements() {
  std::string text;
  for (const CheckedTable& table : kTables) {
    text += sign(table) + ";";
  }
  return text;
}

}  // namespace gradstream
