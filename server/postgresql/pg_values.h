// Values on their way to PostgreSQL and back, in its binary form: whole numbers are big-endian, text and bytes go as
// they are, and an array has a head with its element's type.
//
// A statement names the type of each parameter itself ($1::bigint), so the order of the calls here is all that a caller
// must keep.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_PG_VALUES_H_
#define GRADSTREAM_SERVER_POSTGRESQL_PG_VALUES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct pg_result;

namespace gradstream {

// The parameters of one statement, in their order.
class PgParameters {
 public:
  void number(uint64_t value);  // bigint; at most 2^63 - 1
  void text(std::string_view value);
  void bytes(std::span<const uint8_t> value);                    // bytea
  void no_bytes();                                               // NULL
  void numbers(std::span<const uint64_t> values);                // bigint[]
  void flags(const std::vector<bool>& values);                   // boolean[]
  void all_bytes(std::span<const std::vector<uint8_t>> values);  // bytea[]

  // As libpq takes them. They hold until the next call of another member.
  int count() const { return static_cast<int>(values_.size()); }
  std::vector<const char*> pointers() const;  // null: NULL
  std::vector<int> sizes() const;             // bytes
  std::vector<int> formats() const;           // 1, the binary one, for each

 private:
  std::vector<std::string> values_;
  std::vector<bool> nulls_;
};

// The rows of a result that was asked for in binary form; the result outlives it. What is not there, or has another
// size, reads as 0 or as nothing, and is_sound() is false from then on. NULL reads so too, and is sound.
class PgTable {
 public:
  explicit PgTable(const pg_result* result) : result_(result) {}
  size_t row_count() const;
  // bigint or integer; a negative one is unsound, and 2^63 - 1 too. Reason: who asks for what comes behind a number
  // adds one to it, and no parameter has room for more.
  uint64_t number(size_t row, size_t column);
  bool flag(size_t row, size_t column);
  std::string text(size_t row, size_t column);
  std::span<const uint8_t> bytes(size_t row, size_t column);
  bool is_sound() const { return is_sound_; }

 private:
  const pg_result* result_;
  bool is_sound_ = true;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_PG_VALUES_H_
