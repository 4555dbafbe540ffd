// One changed byte of a row is damage, whoever reads the row, and no change of the row signs it.
#include "server/store/row_checks.h"

#include <fstream>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "tests/support/store_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// As another program would, which knows nothing of checksums.
void edit(const std::string& path, const std::string& sql) {
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(connection);
  sqlite3_close(connection);
}

void fill(const std::string& path) {
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(path)), StoreStatus::kOk) << database.error();
  for (uint8_t i = 1; i <= 40; ++i) {
    EXPECT_TRUE(value_of(database.add_device("pump-" + std::to_string(i), key_of(i), 7)));
  }
  EXPECT_TRUE(value_of(database.rotate_key("pump-2", key_of(99), 50)));
  EXPECT_TRUE(value_of(database.revoke_device("pump-3")));
  for (uint8_t i = 1; i <= 9; ++i) {
    ClaimRow claim;
    claim.name = "batch-" + std::to_string(i);
    claim.key = key_of(static_cast<uint8_t>(100 + i));
    claim.is_proven = true;
    claim.server_secret = key_of(static_cast<uint8_t>(120 + i));
    claim.count_max = i;
    claim.expires_ms = 1000U + i;
    EXPECT_TRUE(value_of(database.add_claim(claim)));
    EXPECT_NE(value_of(database.create_run(run_row())), 0U);
  }
}

// All that a server reads of the file; empty: it refuses the file.
std::string served(const std::string& path) {
  SqliteDatabase database;
  SqliteOptions options = options_for(path);
  options.may_create = false;
  if (database.open(options) != StoreStatus::kOk) {
    EXPECT_FALSE(database.error().empty());
    return {};
  }
  std::string text;
  const auto add_key = [&](const DeviceKey& key) { text.append(key.begin(), key.end()); };
  std::vector<EnrolledDevice> devices = value_of(database.devices());
  for (const EnrolledDevice& listed : devices) {
    std::optional<EnrolledDevice> row = value_of(database.find_device(listed.name));
    if (row) {
      text += row->name + std::to_string(row->index) + device_state_text(row->state) + std::to_string(row->generation) +
              " " + std::to_string(row->previous_until_ms);
      add_key(row->key);
      add_key(row->previous_key);
    }
  }
  std::vector<ClaimRow> claims = value_of(database.claims());
  for (const ClaimRow& listed : claims) {
    std::optional<ClaimRow> row = value_of(database.find_claim(listed.name));
    if (row) {
      text += row->name + std::to_string(row->id) + " " + std::to_string(row->count_max) + " " +
              std::to_string(row->expires_ms) + " " + std::to_string(row->is_ended) + std::to_string(row->is_proven);
      add_key(row->key);
      add_key(row->server_secret);
    }
  }
  std::vector<RunRow> runs = value_of(database.runs());
  for (const RunRow& run : runs) {
    text += run.name + run.parameters + run.source + std::to_string(run.digest) + stored_run_state_text(run.state);
  }
  return text;
}

class RowChecks : public testing::Test {
 protected:
  RowChecks() { fill(path_); }
  // What opening says after another program's statement.
  std::string opened_after(const std::string& sql) {
    edit(path_, sql);
    SqliteDatabase database;
    EXPECT_EQ(database.open(options_for(path_)), StoreStatus::kCorrupt);
    return database.error();
  }

  const Folder folder_;
  const std::string path_ = folder_.file("a.db");
};

TEST_F(RowChecks, ARevokedDeviceThatBecameActiveIsNamed) {
  const std::string error = opened_after("UPDATE devices SET state=2 WHERE name='pump-3'");
  EXPECT_THAT(error, HasSubstr("row pump-3 of table devices does not fit its checksum"));
  EXPECT_THAT(error, HasSubstr("restore the file"));
}

TEST_F(RowChecks, EveryColumnOfEveryTableCounts) {
  const std::map<std::string, std::set<std::string>> changes = {
      {"meta", {"value=value+1", "key='x'"}},
      {"devices",
       {"device_index=77", "name='pump-x'", "key=zeroblob(32)", "created_ms=8", "state=1", "generation=5",
        "previous_key=x'01'", "previous_until_ms=9", "claim=1"}},
      {"claims",
       {"id=77", "name='x'", "key=zeroblob(32)", "count_max=99", "count_used=1", "expires_ms=2", "device_state=1",
        "created_ms=3", "is_ended=1", "server_secret=zeroblob(32)", "server_secret=NULL"}},
      {"runs", {"id=77", "name='x'", "parameters='seed = 2'", "source='x'", "digest=4", "state=3", "created_ms=6"}},
  };
  for (const auto& [table, columns] : changes) {
    for (const std::string& column : columns) {
      const Folder folder;
      const std::string path = folder.file("a.db");
      fill(path);
      edit(path, "UPDATE " + table + " SET " + column + " WHERE rowid=(SELECT max(rowid) FROM " + table + ")");
      SqliteDatabase database;
      EXPECT_EQ(database.open(options_for(path)), StoreStatus::kCorrupt) << table << " " << column;
    }
  }
}

TEST_F(RowChecks, AnOpenDatabaseRefusesARowThatHasBeenDamagedSince) {
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(path_)), StoreStatus::kOk);
  edit(path_, "UPDATE devices SET key=zeroblob(32) WHERE name='pump-4'");
  edit(path_, "UPDATE claims SET count_max=1000 WHERE name='batch-4'");
  edit(path_, "UPDATE runs SET state=1 WHERE id=4; UPDATE runs SET digest=1 WHERE id=4");
  EXPECT_EQ(database.find_device("pump-4").status(), StoreStatus::kCorrupt);
  EXPECT_THAT(database.error(), HasSubstr("row pump-4 of table devices"));
  EXPECT_EQ(database.devices().status(), StoreStatus::kCorrupt);
  EXPECT_EQ(database.find_claim("batch-4").status(), StoreStatus::kCorrupt);
  EXPECT_EQ(database.claim_device(4, "new", key_of(1), 5).status(), StoreStatus::kCorrupt);
  EXPECT_EQ(database.find_run(4).status(), StoreStatus::kCorrupt);
  EXPECT_TRUE(value_of(database.find_device("pump-5"))) << "the other rows are whole";
}

TEST_F(RowChecks, AChangeDoesNotSignDamage) {
  SqliteDatabase database;
  ASSERT_EQ(database.open(options_for(path_)), StoreStatus::kOk);
  edit(path_, "UPDATE devices SET key=zeroblob(32) WHERE name='pump-4'");
  EXPECT_EQ(database.rotate_key("pump-4", key_of(5), 60).status(), StoreStatus::kCorrupt);
  EXPECT_THAT(database.error(), HasSubstr("a row of table devices is damaged"));
  EXPECT_EQ(database.set_run_state(1, StoredRunState::kStopped), StoreStatus::kOk);
  SqliteDatabase again;
  EXPECT_EQ(again.open(options_for(path_)), StoreStatus::kCorrupt);
}

// Flips of single bits, all over the pages: refused, or without a difference to what is served.
TEST_F(RowChecks, NoFlippedBitIsServed) {
  const std::string whole = served(path_);
  ASSERT_FALSE(whole.empty());
  std::string bytes;
  {
    std::ifstream file(path_, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::mt19937 random(23);
  const std::string flipped = folder_.file("flipped.db");
  int refused = 0;
  constexpr int kFlips = 600;
  for (int i = 0; i < kFlips; ++i) {
    std::string copy = bytes;
    const size_t at = random() % copy.size();
    copy[at] = static_cast<char>(copy[at] ^ (1 << random() % 8));
    std::ofstream(flipped, std::ios::binary) << copy;
    std::filesystem::permissions(flipped, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    const std::string text = served(flipped);
    refused += text.empty() ? 1 : 0;
    ASSERT_TRUE(text.empty() || text == whole) << "byte " << at;
    std::filesystem::remove(flipped);
    std::filesystem::remove(flipped + "-wal");
    std::filesystem::remove(flipped + "-shm");
  }
  EXPECT_GT(refused, kFlips / 10) << "most of the flips hit nothing";  // many pages are empty
}

}  // namespace
}  // namespace gradstream
