#include "server/postgresql/pg_values.h"

#include <libpq-fe.h>

#include "runtime/base/status.h"

namespace gradstream {
namespace {

// Types of an array's elements, as src/include/catalog/pg_type.dat of PostgreSQL numbers them for good.
constexpr uint32_t kTypeBool = 16;
constexpr uint32_t kTypeBytea = 17;
constexpr uint32_t kTypeInt8 = 20;

void put_big_endian(uint64_t value, int size, std::string* out) {
  for (int i = size - 1; i >= 0; --i) {
    out->push_back(static_cast<char>(value >> (8 * i)));
  }
}

// Of an array with one dimension, whose first index is 1; an empty one has none.
std::string array_head(uint32_t type, size_t count) {
  std::string head;
  put_big_endian(count == 0 ? 0 : 1, 4, &head);
  put_big_endian(0, 4, &head);  // it has no NULL
  put_big_endian(type, 4, &head);
  if (count > 0) {
    put_big_endian(count, 4, &head);
    put_big_endian(1, 4, &head);
  }
  return head;
}

}  // namespace

void PgParameters::number(uint64_t value) {
  GS_ASSERT(value <= INT64_MAX);
  std::string bits;
  put_big_endian(value, 8, &bits);
  text(bits);
}

void PgParameters::text(std::string_view value) {
  values_.emplace_back(value);
  nulls_.push_back(false);
}

void PgParameters::bytes(std::span<const uint8_t> value) {
  values_.emplace_back(value.begin(), value.end());
  nulls_.push_back(false);
}

void PgParameters::no_bytes() {
  values_.emplace_back();
  nulls_.push_back(true);
}

void PgParameters::numbers(std::span<const uint64_t> values) {
  std::string array = array_head(kTypeInt8, values.size());
  for (const uint64_t value : values) {
    GS_ASSERT(value <= INT64_MAX);
    put_big_endian(8, 4, &array);
    put_big_endian(value, 8, &array);
  }
  text(array);
}

void PgParameters::flags(const std::vector<bool>& values) {
  std::string array = array_head(kTypeBool, values.size());
  for (const bool value : values) {
    put_big_endian(1, 4, &array);
    array.push_back(value ? 1 : 0);
  }
  text(array);
}

void PgParameters::all_bytes(std::span<const std::vector<uint8_t>> values) {
  std::string array = array_head(kTypeBytea, values.size());
  for (const std::vector<uint8_t>& value : values) {
    put_big_endian(value.size(), 4, &array);
    array.append(value.begin(), value.end());
  }
  text(array);
}

std::vector<const char*> PgParameters::pointers() const {
  std::vector<const char*> all;
  for (size_t i = 0; i < values_.size(); ++i) {
    all.push_back(nulls_[i] ? nullptr : values_[i].data());
  }
  return all;
}

std::vector<int> PgParameters::sizes() const {
  std::vector<int> all;
  for (const std::string& value : values_) {
    all.push_back(static_cast<int>(value.size()));
  }
  return all;
}

std::vector<int> PgParameters::formats() const { return std::vector<int>(values_.size(), 1); }

size_t PgTable::row_count() const { return static_cast<size_t>(PQntuples(result_)); }

std::span<const uint8_t> PgTable::bytes(size_t row, size_t column) {
  const auto line = static_cast<int>(row);
  const auto place = static_cast<int>(column);
  if (line >= PQntuples(result_) || place >= PQnfields(result_)) {
    is_sound_ = false;
    return {};
  }
  return {reinterpret_cast<const uint8_t*>(PQgetvalue(result_, line, place)),
          static_cast<size_t>(PQgetlength(result_, line, place))};
}

uint64_t PgTable::number(size_t row, size_t column) {
  const std::span<const uint8_t> bits = bytes(row, column);
  if (bits.empty()) {
    return 0;
  }
  uint64_t value = 0;
  for (const uint8_t byte : bits) {
    value = value << 8 | byte;
  }
  if ((bits.size() != 4 && bits.size() != 8) || bits[0] > 0x7f || value == INT64_MAX) {
    is_sound_ = false;
    return 0;
  }
  return value;
}

bool PgTable::flag(size_t row, size_t column) {
  const std::span<const uint8_t> bits = bytes(row, column);
  is_sound_ = is_sound_ && bits.size() <= 1;
  return bits.size() == 1 && bits[0] != 0;
}

std::string PgTable::text(size_t row, size_t column) {
  const std::span<const uint8_t> bits = bytes(row, column);
  return {bits.begin(), bits.end()};
}

}  // namespace gradstream
