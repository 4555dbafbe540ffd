#include "server/program/fleet_alarm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/server_peer.h"

namespace gradstream {
namespace {

TEST(FleetAlarm, IsLoggedOncePerSeriesOfFailures) {
  const LogCapture log;
  SqliteDatabase fleet;
  SqliteOptions options;
  options.path = testing::TempDir() + "no_such_folder/fleet.db";
  ASSERT_NE(fleet.open(options), StoreStatus::kOk);
  FleetAlarm alarm;
  alarm.raise(fleet);
  alarm.raise(fleet);
  EXPECT_EQ(log.count("fleet_unreadable"), 1U);
  EXPECT_THAT(log.find("fleet_unreadable"), testing::HasSubstr("no_such_folder/fleet.db")) << "the cause";
  alarm.clear();
  EXPECT_EQ(log.count("fleet_unreadable"), 1U);
  alarm.raise(fleet);
  EXPECT_EQ(log.count("fleet_unreadable"), 2U);
}

}  // namespace
}  // namespace gradstream
