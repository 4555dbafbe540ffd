// Each check of gradstream engine doctor by itself. engine_fleet_test.cc runs the verb.
#include "server/postgresql/engine_findings.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradstream {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

EngineReport well() {
  EngineReport report;
  report.facts.server_version = 150007;
  report.facts.has_fsync = report.facts.has_full_page_writes = report.facts.may_see_standbys = true;
  report.facts.standby_names = "*";
  report.facts.standby_count = 1;
  report.facts.has_schema = true;
  report.facts.schema_version = kEngineSchemaVersion;
  report.has_tls = true;
  report.primary = "10.0.0.5:5432";
  report.connections_left = kConnectionsLeftMin;
  EngineRunReport run;
  run.run = 7;
  run.leader = "a";
  run.lease_ms = 1;
  report.runs = {run};
  return report;
}

// The trouble of the one check that failed.
std::string trouble_of(const EngineReport& report, const EngineMeasures& measures, const std::string& check,
                       EngineDurability durability = EngineDurability::kStandby) {
  std::string trouble;
  for (const EngineFinding& one : findings_of(report, durability, measures, "host=db1")) {
    if (one.check == check) {
      trouble = one.trouble;
    } else {
      EXPECT_EQ(one.trouble, "") << one.check;
    }
  }
  return trouble;
}

TEST(EngineFindings, AllIsWellAtEachLimit) {
  EngineMeasures measures;
  measures.clock_doubt_ms = 5;
  measures.clock_offset_ms = -static_cast<int64_t>(kClockOffsetMaxMs) - 5;
  measures.oldest_ms = kTransactionAgeMaxMs;
  const std::vector<EngineFinding> all = findings_of(well(), EngineDurability::kStandby, measures, "host=db1");
  ASSERT_EQ(all.size(), 11U);
  EXPECT_EQ(trouble_of(well(), measures, "none"), "");
  EXPECT_EQ(all[0].check, "server_version");
  EXPECT_EQ(all[0].value, "15.7");
  EXPECT_EQ(all[8].check, "clock_offset_ms");
  EXPECT_EQ(all[8].value, "-1005");
  EXPECT_EQ(all[10].check, "lease_of_run_7");
}

TEST(EngineFindings, EachTroubleIsOneFinding) {
  const EngineMeasures none;
  EngineReport report = well();
  report.facts.server_version = 140002;
  EXPECT_THAT(trouble_of(report, none, "server_version"), HasSubstr("PostgreSQL 14.2, and the oldest"));
  report = well();
  report.facts.is_read_only = true;
  EXPECT_THAT(trouble_of(report, none, "role"), HasSubstr("read-only"));
  report = well();
  report.facts.has_fsync = false;
  EXPECT_THAT(trouble_of(report, none, "fsync"), HasSubstr("Set fsync = on"));
  report = well();
  report.facts.has_full_page_writes = false;
  EXPECT_THAT(trouble_of(report, none, "full_page_writes"), HasSubstr("Set full_page_writes = on"));
  report = well();
  report.facts.standby_count = 0;
  EXPECT_THAT(trouble_of(report, none, "synchronous_standbys"), HasSubstr("is connected, and at least 1 must be"));
  EXPECT_EQ(trouble_of(report, none, "synchronous_standbys", EngineDurability::kStorage), "");
  report = well();
  report.facts.schema_version = 1;
  EXPECT_THAT(trouble_of(report, none, "schema"), HasSubstr("gradstream engine migrate"));
  report = well();
  report.has_tls = false;
  EXPECT_THAT(trouble_of(report, none, "tls"), HasSubstr("sslmode=verify-full"));
  report = well();
  --report.connections_left;
  EXPECT_THAT(trouble_of(report, none, "connections_left"),
              HasSubstr("would take 9 more connections, and at least 10"));
  report = well();
  report.runs[0].lease_ms = 0;
  EXPECT_THAT(trouble_of(report, none, "lease_of_run_7"), StartsWith("no node leads run 7; a was the last one"));
}

TEST(EngineFindings, ClockAndTransactionsHaveTheirLimits) {
  EngineMeasures measures;
  measures.clock_doubt_ms = 5;
  measures.clock_offset_ms = static_cast<int64_t>(kClockOffsetMaxMs) + 6;
  EXPECT_THAT(trouble_of(well(), measures, "clock_offset_ms"), HasSubstr("1006 ms ahead of this machine's, and at most "
                                                                         "1000 ms are well. Set both by NTP."));
  measures.clock_offset_ms = -measures.clock_offset_ms;
  EXPECT_THAT(trouble_of(well(), measures, "clock_offset_ms"), HasSubstr("1006 ms behind this machine's"));
  measures = {};
  measures.oldest_ms = kTransactionAgeMaxMs + 1;
  measures.oldest = "process 12 of gs (psql)";
  EXPECT_THAT(trouble_of(well(), measures, "oldest_transaction_ms"),
              HasSubstr("It is that of process 12 of gs (psql). End it: pg_terminate_backend()"));
}

}  // namespace
}  // namespace gradstream
