#include "server/postgresql/engine_checks.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

EngineFacts good_facts() {
  EngineFacts facts;
  facts.server_version = 150'007;
  facts.has_fsync = facts.has_full_page_writes = facts.may_see_standbys = facts.has_schema = facts.has_run = true;
  facts.standby_names = "FIRST 1 (b)";
  facts.standby_count = 1;
  facts.schema_version = kEngineSchemaVersion;
  facts.incarnation = "x";
  return facts;
}

TEST(EngineChecks, TakeAServerThatKeepsWhatItCommits) {
  EXPECT_FALSE(check_engine(good_facts(), {EngineDurability::kStandby, "", 1}));
  EXPECT_FALSE(check_engine(good_facts(), {EngineDurability::kStandby, "x", 1}));
  EngineFacts alone = good_facts();
  alone.standby_names = "";
  alone.standby_count = 0;
  alone.may_see_standbys = false;
  EXPECT_FALSE(check_engine(alone, {EngineDurability::kStorage, "", 1})) << "by the operator's word";
}

// Each fact alone is refused, with its value, its limit and the remedy.
TEST(EngineChecks, RefuseByName) {
  struct Case {
    std::function<void(EngineFacts&)> spoil;
    std::string cause, remedy;
  };
  const Case cases[] = {
      {[](EngineFacts& facts) { facts.server_version = 140'011; },
       "PostgreSQL 14.11, and the oldest that serves is 15.0", "Upgrade the server."},
      {[](EngineFacts& facts) { facts.is_read_only = true; }, "read-only", "target_session_attrs=read-write"},
      {[](EngineFacts& facts) { facts.has_fsync = false; }, "fsync off", "Set fsync = on."},
      {[](EngineFacts& facts) { facts.has_full_page_writes = false; }, "full_page_writes off",
       "Set full_page_writes = on."},
      {[](EngineFacts& facts) { facts.standby_names = ""; }, "synchronous_standby_names is empty",
       "Set synchronous_standby_names on the primary, or engine.durability = \"storage\""},
      {[](EngineFacts& facts) { facts.may_see_standbys = false; }, "may not see the standbys",
       "GRANT pg_read_all_stats TO"},
      {[](EngineFacts& facts) { facts.standby_count = 0; }, "(FIRST 1 (b)) is connected, and at least 1 must be",
       "Start a standby"},
      {[](EngineFacts& facts) { facts.has_schema = false; }, "no schema gradstream", "initialise"},
      {[](EngineFacts& facts) { facts.schema_version = 3; }, "of version 3, and this release knows up to 2",
       "Install a newer release."},
      {[](EngineFacts& facts) { facts.schema_version = 1; }, "of version 1, and this release needs 2",
       "Bring the schema"},
      {[](EngineFacts& facts) { facts.incarnation = "y"; }, "(incarnation y, and x before)", "Correct the address"},
      {[](EngineFacts& facts) { facts.has_run = false; }, "does not know run 7",
       "Bring it there by gradstream engine import"},
  };
  for (const Case& one : cases) {
    EngineFacts facts = good_facts();
    one.spoil(facts);
    const std::string sentence = check_engine(facts, {EngineDurability::kStandby, "x", 7}).sentence;
    EXPECT_NE(sentence.find(one.cause), std::string::npos) << one.cause << ": " << sentence;
    EXPECT_NE(sentence.find(one.remedy), std::string::npos) << one.remedy << ": " << sentence;
  }
}

TEST(EngineChecks, TellAnErrorThatPassesFromOneThatStays) {
  for (const char* const state : {"40P01", "40001", "55P03", "57014"}) {
    EXPECT_TRUE(is_passing_error(state)) << state;
  }
  for (const char* const state : {"", "25006", "42501", "42P01", "53100", "57P01", "XX000"}) {
    EXPECT_FALSE(is_passing_error(state)) << state;
  }
  EXPECT_EQ(
      sentence_of_error("53100", "could not extend file"),
      "the engine's server serves no calls: could not extend file (SQLSTATE 53100). Repair on the server what its "
      "words name; this node asks again by itself.");
  EXPECT_NE(sentence_of_error("42501", "permission denied").find("GRANT USAGE ON SCHEMA gradstream"),
            std::string::npos);
}

}  // namespace
}  // namespace gradstream
