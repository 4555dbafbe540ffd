// Devices, claims and a run as their rows stand, on their way to another store and back: nothing is left out.
//
// A row's content is its columns beside number and name, keys among them, as bytes: the form u8, then what the
// exchange() of its kind in fleet_copy.cc lists.
#ifndef GRADSTREAM_SERVER_STORE_FLEET_COPY_H_
#define GRADSTREAM_SERVER_STORE_FLEET_COPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/base/objection.h"
#include "server/store/sqlite_database.h"

namespace gradstream {

struct FleetCopy {
  struct Row {
    uint32_t number = 0;  // enrolment index, or id of a claim
    std::string name;
    std::vector<uint8_t> content;
    friend bool operator==(const Row&, const Row&) = default;
  };
  std::vector<Row> devices;  // by ascending number, from 0 without gaps
  std::vector<Row> claims;   // by ascending number
};

// Objects where a row does not read or is damaged.
Objection read_fleet(SqliteDatabase& database, FleetCopy* out);
// Into a database without devices, claims and runs, with the run under its own number: all of it or nothing. Objects to
// content that read_fleet() does not give, and where the database does not take it.
Objection write_fleet(SqliteDatabase& database, const FleetCopy& fleet, const RunRow& run);
// The same without a run.
Objection write_fleet(SqliteDatabase& database, const FleetCopy& fleet);
// The rows of `after` that are new, or differ from those of `before`. No row of `before` may be missing there: a fleet
// forgets nobody.
FleetCopy changed_rows(const FleetCopy& before, const FleetCopy& after);

// What a lookup of keys needs of a device's row. Objects to content that read_fleet() does not give.
Objection read_device(const FleetCopy::Row& row, EnrolledDevice* out);
// Whether a claim still lets devices in, by its row: neither over nor ended at now_ms since the epoch. The same.
Objection read_claim(const FleetCopy::Row& row, uint64_t now_ms, bool* is_open);

// Of a journal whose checkpoint at this sequence reads: the records before that one go, so that nothing is replayed
// from before it.
Objection drop_records_before(SqliteDatabase& database, uint32_t run, uint64_t sequence);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_STORE_FLEET_COPY_H_
