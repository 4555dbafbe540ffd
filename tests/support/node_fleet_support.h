// A fleet in a database, and the rows that an engine would have of it.
#ifndef GRADSTREAM_TESTS_SUPPORT_NODE_FLEET_SUPPORT_H_
#define GRADSTREAM_TESTS_SUPPORT_NODE_FLEET_SUPPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "server/postgresql/engine_transfer.h"
#include "server/store/fleet_copy.h"
#include "tests/support/store_support.h"

namespace gradstream {

inline DeviceKey fleet_key(uint8_t byte) {
  DeviceKey key;
  key.fill(byte);
  return key;
}

class FleetRows {
 public:
  FleetRows() {
    SqliteOptions options;
    options.path = folder_.file("fleet.db");
    EXPECT_EQ(database.open(options), StoreStatus::kOk);
  }
  // Devices, by ascending enrolment index.
  std::vector<EngineFleetRow> rows() {
    FleetCopy copy;
    EXPECT_FALSE(read_fleet(database, &copy));
    std::vector<EngineFleetRow> all;
    for (const FleetCopy::Row& row : copy.devices) {
      all.push_back({row.number, row.name, row.content});
    }
    return all;
  }

 private:
  const Folder folder_;

 public:
  SqliteDatabase database;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_NODE_FLEET_SUPPORT_H_
