// A CRC-32C for every row of `meta`, `devices`, `claims` and `runs`, kept by SQLite itself.
//
//   INSERT, UPDATE --trigger--> gs_row_crc(columns) --> column crc32c
//   SELECT ... FROM checked_devices --> column is_whole: whether the row still fits its crc32c
//
// SQLite finds damage in the structure of its pages, and takes a changed value for a value: one flipped bit makes a
// revoked device an active one. The journal has checksums of its own (server/rules/record.h).
//
// The triggers and the views belong to a connection, so the file holds nothing but the column. A row that another
// program changes no longer fits: gradstream refuses it until the change is made by `gradstream`.
#ifndef GRADSTREAM_SERVER_STORE_ROW_CHECKS_H_
#define GRADSTREAM_SERVER_STORE_ROW_CHECKS_H_

#include <cstdint>
#include <string>

struct sqlite3;

namespace gradstream {

// Makes gs_row_crc(VALUE...) known to this connection: the CRC-32C of the values' types and bytes. A code of SQLite.
int register_row_crc(sqlite3* connection);

// What this connection keeps checksums by, once the tables are there: triggers, a view checked_TABLE of each table, and
// the view damaged_rows (table_name, id) of the rows that do not fit. An UPDATE of such a row fails with
// SQLITE_CONSTRAINT_TRIGGER, so that no change signs damage.
std::string row_check_statements();

// Signs all rows as they are: for a file that has just got the column, or another one.
std::string row_sign_statements();

// SELECT of table_name and id of a row that does not fit, in a file of an older format: before its rows are signed
// anew. Of formats without checksums it finds none. The same text at each call.
const char* old_damage_query(int64_t format);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_STORE_ROW_CHECKS_H_
