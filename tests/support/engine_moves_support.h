// Of tests that move a run between a SQLite database and an engine, by the program that an operator calls.
#ifndef GRADSTREAM_TESTS_SUPPORT_ENGINE_MOVES_SUPPORT_H_
#define GRADSTREAM_TESTS_SUPPORT_ENGINE_MOVES_SUPPORT_H_

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "server/postgresql/engine_schema.h"
#include "server/program/config.h"
#include "server/run/canonical_text.h"
#include "server/store/fleet_copy.h"
#include "server/store/journal_table.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_harness.h"
#include "tests/support/server_support.h"
#include "tests/support/store_support.h"

namespace gradstream {

inline constexpr uint32_t kRun = 7;  // as TestServer has it
inline constexpr uint32_t kDevices = 4;

inline std::unique_ptr<PostgresCluster>& cluster_of_moves() {
  static std::unique_ptr<PostgresCluster> cluster;
  return cluster;
}

struct ToldAnswer {
  int code = -1;
  std::string text;
};

inline ToldAnswer answer_to(const std::string& command) {
  ToldAnswer answer;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  char piece[4096];
  for (size_t size = fread(piece, 1, sizeof piece, pipe); size > 0; size = fread(piece, 1, sizeof piece, pipe)) {
    answer.text.append(piece, size);
  }
  const int status = pclose(pipe);
  answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

// A list of so many new devices with keys, for `device import`.
inline void write_device_list(const std::string& path, uint32_t count) {
  std::ofstream file(path);
  for (uint32_t i = 0; i < count; ++i) {
    char key[65];
    std::snprintf(key, sizeof key, "%064x", i + 1000);
    file << "more" << i << "," << key << "\n";
  }
  file.close();
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

// Three versions, and all answers to the third but its close, as a single server had them when it ended.
struct PlayedRun {
  explicit PlayedRun(const RunParameters& p = scalar_parameters()) : server(p) {
    server.coordinator->set_checkpoints(1, 0);
    server.start();
    server.join(kDevices);
    for (int i = 0; i < 3; ++i) {
      server.round(kDevices);
    }
    records = server.store.records();
    while (records.back().kind() != RecordKind::kVersion) {
      records.pop_back();
    }
    closed_digest = records.back().digest();
    records.pop_back();
    row.id = kRun;
    row.name = "fleet";
    row.parameters = canonical_text(server.parameters);
    row.source = run_source(server.parameters);
    row.digest = 0xfedcba9876543210U;
    row.run_nonce = 0x8000000000000001U;
    row.created_ms = 5;
  }
  // A database of that server.
  void write(const std::string& path, bool with_checkpoints = false) const {
    const Folder folder;
    FleetCopy fleet;
    SqliteDatabase first, database;
    ASSERT_EQ(first.open(options_for(folder.file("first.db"))), StoreStatus::kOk);
    for (uint32_t i = 0; i < kDevices; ++i) {
      ASSERT_TRUE(value_of(first.add_device(server.names[i], key_of(static_cast<uint8_t>(i + 1)), 7)));
    }
    ASSERT_TRUE(value_of(first.rotate_key(server.names[1], key_of(9), 4'000'000'000'000U)));
    ASSERT_FALSE(read_fleet(first, &fleet));
    ASSERT_EQ(database.open(options_for(path)), StoreStatus::kOk);
    ASSERT_EQ(write_fleet(database, fleet, row).sentence, "");
    SqliteStore store(database, kRun);
    ASSERT_EQ(store.append(records), StoreStatus::kOk);
    bool has_more = with_checkpoints;
    for (const Checkpoint& checkpoint : server.checkpoints) {
      for (uint64_t written = 0; with_checkpoints && checkpoint.head.version < 3 && written < checkpoint.head.size;) {
        ASSERT_EQ(store.write_checkpoint(checkpoint, &written), StoreStatus::kOk);
      }
    }
    while (has_more) {
      ASSERT_EQ(store.cut({false, 0, 1}, &has_more), StoreStatus::kOk);
    }
  }

  TestServer server;
  std::vector<JournalRecord> records;
  uint64_t closed_digest = 0;
  RunRow row;
};

class EngineMoves : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = PostgresCluster::why_absent(); !why.empty()) {
      GTEST_SKIP() << "skipped: " << why;
    }
    if (cluster_of_moves() == nullptr) {
      cluster_of_moves() = std::make_unique<PostgresCluster>();
    }
    ASSERT_EQ(cluster_of_moves()->fault(), "");
    std::ofstream(folder_.file("c.toml")) << "[engine]\ndeadline_ms = " << kTestDeadlineMs << "\n";
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    cluster_of_moves()->ask_primary("CREATE DATABASE \"" + name + "\"");
    address_ = cluster_of_moves()->primary() + " dbname=" + name;
    ASSERT_FALSE(init_engine(address_, kTestDeadlineMs));
  }
  static void TearDownTestSuite() { cluster_of_moves().reset(); }
  ToldAnswer call(const std::string& verb, const std::string& more) const {
    return answer_to(std::string(GS_PROGRAM) + " engine " + verb + " --config " + folder_.file("c.toml") +
                     " --set 'engine.address=" + address_ + "' " + more);
  }
  ToldAnswer import(const std::string& more = "") const {
    return call("import", "--from " + folder_.file("a.db") + " " + more);
  }
  // Rows of all tables that an import writes.
  std::string row_count() const {
    return PgSession(address_).ask(
        "SELECT (SELECT count(*) FROM gradstream.plan) + (SELECT count(*) FROM gradstream.device) + "
        "(SELECT count(*) FROM gradstream.run) + (SELECT count(*) FROM gradstream.run_device) + "
        "(SELECT count(*) FROM gradstream.version) + (SELECT count(*) FROM gradstream.partial)");
  }
  void expect_refused(const ToldAnswer& answer, int code, const std::string& words) const {
    EXPECT_EQ(answer.code, code) << answer.text;
    EXPECT_THAT(answer.text, testing::HasSubstr(words));
    EXPECT_EQ(row_count(), "0");
  }

  const Folder folder_;
  std::string address_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_ENGINE_MOVES_SUPPORT_H_
