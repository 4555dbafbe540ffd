#include "server/postgresql/pg_values.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <libpq-fe.h>

namespace gradstream {
namespace {

std::string value_of(const PgParameters& parameters, size_t index) {
  return {parameters.pointers().at(index), static_cast<size_t>(parameters.sizes().at(index))};
}

std::string bytes_of(std::initializer_list<int> all) { return {all.begin(), all.end()}; }

// The layouts are those of array_send(), int8send() and byteasend() in PostgreSQL.
TEST(PgValues, AreInPostgresOwnForm) {
  PgParameters parameters;
  parameters.number(0x0102030405060708U);
  parameters.text("a");
  parameters.bytes(std::vector<uint8_t>{0, 255});
  parameters.no_bytes();
  parameters.numbers(std::vector<uint64_t>{3});
  parameters.flags({true, false});
  parameters.all_bytes(std::vector<std::vector<uint8_t>>{{9}, {}});
  parameters.numbers({});
  ASSERT_EQ(parameters.count(), 8);
  EXPECT_EQ(parameters.formats(), std::vector<int>(8, 1));
  EXPECT_EQ(value_of(parameters, 0), bytes_of({1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(value_of(parameters, 1), "a");
  EXPECT_EQ(value_of(parameters, 2), bytes_of({0, -1}));
  EXPECT_EQ(parameters.pointers()[3], nullptr);
  EXPECT_EQ(value_of(parameters, 4), bytes_of({0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 1,  //
                                               0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 3}));
  EXPECT_EQ(value_of(parameters, 5), bytes_of({0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 2, 0, 0, 0, 1,  //
                                               0, 0, 0, 1, 1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(value_of(parameters, 6), bytes_of({0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 2, 0, 0, 0, 1,  //
                                               0, 0, 0, 1, 9, 0, 0, 0, 0}));
  EXPECT_EQ(value_of(parameters, 7), bytes_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20}));
}

// A result with one row of these values; one that is empty is NULL.
using Result = std::unique_ptr<PGresult, decltype(&PQclear)>;
Result row_of(const std::vector<std::string>& values) {
  Result result(PQmakeEmptyPGresult(nullptr, PGRES_TUPLES_OK), &PQclear);
  std::string name = "column";
  std::vector<PGresAttDesc> columns(values.size(), PGresAttDesc{name.data(), 0, 0, 1, 0, -1, -1});
  PQsetResultAttrs(result.get(), static_cast<int>(columns.size()), columns.data());
  for (size_t i = 0; i < values.size(); ++i) {
    std::string copy = values[i];
    PQsetvalue(result.get(), 0, static_cast<int>(i), copy.empty() ? nullptr : copy.data(),
               copy.empty() ? -1 : static_cast<int>(copy.size()));
  }
  return result;
}

TEST(PgTable, ReadsItsRow) {
  const Result result = row_of({bytes_of({0, 0, 0, 0, 0, 0, 1, 2}), bytes_of({0, 0, 0, 5}), bytes_of({1}), "ab", ""});
  PgTable table(result.get());
  EXPECT_EQ(table.row_count(), 1U);
  EXPECT_EQ(table.number(0, 0), 258U);
  EXPECT_EQ(table.number(0, 1), 5U);
  EXPECT_TRUE(table.flag(0, 2));
  EXPECT_EQ(table.text(0, 3), "ab");
  EXPECT_EQ(table.bytes(0, 3).size(), 2U);
  EXPECT_EQ(table.number(0, 4), 0U) << "NULL";
  EXPECT_FALSE(table.flag(0, 4));
  EXPECT_TRUE(table.is_sound());
}

TEST(PgTable, IsUnsoundWhereAValueIsAnother) {
  const Result result =
      row_of({bytes_of({-1, 0, 0, 0}), bytes_of({0, 0, 1}), bytes_of({1, 1}),
              bytes_of({127, -1, -1, -1, -1, -1, -1, -1}), bytes_of({127, -1, -1, -1, -1, -1, -1, -2})});
  const auto reads_soundly = [&result](auto read) {
    PgTable table(result.get());
    read(table);
    return table.is_sound();
  };
  EXPECT_FALSE(reads_soundly([](PgTable& table) { EXPECT_EQ(table.number(0, 0), 0U); })) << "negative";
  EXPECT_FALSE(reads_soundly([](PgTable& table) { EXPECT_EQ(table.number(0, 1), 0U); })) << "three bytes";
  EXPECT_FALSE(reads_soundly([](PgTable& table) { EXPECT_FALSE(table.flag(0, 2)); })) << "two bytes";
  EXPECT_FALSE(reads_soundly([](PgTable& table) { EXPECT_TRUE(table.bytes(1, 0).empty()); })) << "no such row";
  EXPECT_FALSE(reads_soundly([](PgTable& table) { EXPECT_EQ(table.number(0, 3), 0U); })) << "none comes behind it";
  EXPECT_TRUE(reads_soundly([](PgTable& table) { PgParameters().number(table.number(0, 4) + 1); }))
      << "one comes behind it";
  EXPECT_FALSE(reads_soundly([](PgTable& table) { EXPECT_TRUE(table.bytes(0, 5).empty()); })) << "no such column";
}

}  // namespace
}  // namespace gradstream
