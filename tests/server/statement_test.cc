// Statements are used again and again, and a transaction that is not committed is taken back.
#include "server/store/statement.h"

#include <array>

#include <gtest/gtest.h>

#include "tests/support/store_support.h"

namespace gradstream {
namespace {

constexpr const char* kInsert = "INSERT INTO meta (key,value) VALUES (?1,?2)";

class Statement : public testing::Test {
 protected:
  Statement() { EXPECT_EQ(database_.open(options_for(folder_.file("a.db"))), StoreStatus::kOk) << database_.error(); }
  int insert(const std::string& key, uint64_t value) {
    Use use(database_, kInsert);
    use.bind_text(1, key);
    use.bind(2, value);
    return use.step();
  }
  uint64_t count(const std::string& key) {
    Use use(database_, "SELECT count(*) FROM meta WHERE key=?1");
    use.bind_text(1, key);
    EXPECT_EQ(use.step(), SQLITE_ROW);
    return use.number(0);
  }

  const Folder folder_;
  SqliteDatabase database_;
};

TEST_F(Statement, ColumnsReadBackWhatWasBound) {
  Use use(database_, "SELECT ?1,?2,?3,?4,?5,?6");
  const std::array<uint8_t, 3> bytes = {0, 255, 7};
  use.bind(1, 0xfedcba9876543210ULL);
  use.bind_real(2, -1.5);
  use.bind_text(3, std::string("a\0b", 3));
  use.bind_blob(4, bytes);
  use.bind_blob(5, {});
  ASSERT_EQ(use.step(), SQLITE_ROW);
  EXPECT_EQ(use.number(0), 0xfedcba9876543210ULL);
  EXPECT_EQ(use.number32(0), 0x76543210U);
  EXPECT_EQ(use.real(1), -1.5F);
  EXPECT_EQ(use.text(2), std::string("a\0b", 3));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), use.blob(3).begin(), use.blob(3).end()));
  EXPECT_TRUE(use.blob(4).empty());
  EXPECT_EQ(use.text(5), "") << "a parameter that was not bound is NULL";
  EXPECT_EQ(use.step(), SQLITE_DONE);
}

TEST_F(Statement, AUseBeginsWithoutWhatTheOneBeforeBound) {
  ASSERT_EQ(insert("a", 1), SQLITE_DONE);
  EXPECT_EQ(insert("a", 2) & 0xff, SQLITE_CONSTRAINT);
  ASSERT_EQ(insert("b", 3), SQLITE_DONE) << "the failed use is reset";
  Use use(database_, kInsert);
  use.bind_text(1, "c");
  EXPECT_EQ(use.step() & 0xff, SQLITE_CONSTRAINT) << "the value is NULL again, and must not be";
}

TEST_F(Statement, TheFirstErrorIsTheOneThatStepTells) {
  Use unprepared(database_, "SELECT nothing FROM nowhere");
  unprepared.bind(1, 1);
  EXPECT_EQ(unprepared.step(), SQLITE_ERROR);
  Use unbound(database_, "SELECT ?1");
  unbound.bind(2, 1);
  unbound.bind(1, 1);
  EXPECT_EQ(unbound.step(), SQLITE_RANGE);
}

TEST_F(Statement, OnlyACommittedTransactionStays) {
  {
    Transaction transaction(database_);
    ASSERT_EQ(transaction.begin(), StoreStatus::kOk);
    ASSERT_EQ(insert("taken back", 1), SQLITE_DONE);
    EXPECT_EQ(count("taken back"), 1U);
  }
  EXPECT_EQ(count("taken back"), 0U);
  {
    Transaction transaction(database_);
    ASSERT_EQ(transaction.begin(), StoreStatus::kOk);
    ASSERT_EQ(insert("stays", 1), SQLITE_DONE);
    EXPECT_EQ(transaction.commit(), StoreStatus::kOk);
  }
  EXPECT_EQ(count("stays"), 1U);
}

TEST_F(Statement, ATransactionInAnotherLeavesTheOuterOneAlone) {
  Transaction outer(database_);
  ASSERT_EQ(outer.begin(), StoreStatus::kOk);
  ASSERT_EQ(insert("outer", 1), SQLITE_DONE);
  {
    Transaction inner(database_);
    EXPECT_EQ(inner.begin(), StoreStatus::kFailed);
    EXPECT_NE(database_.error().find("BEGIN IMMEDIATE"), std::string::npos) << database_.error();
  }
  EXPECT_EQ(outer.commit(), StoreStatus::kOk);
  EXPECT_EQ(count("outer"), 1U);
}

StoreStatus pass_on(StoreStatus status, int* reached) {
  GS_TRY_STORE(status);
  ++*reached;
  return StoreStatus::kOk;
}

TEST(StoreTry, ReturnsAtOnceWithWhatIsNotOk) {
  int reached = 0;
  EXPECT_EQ(pass_on(StoreStatus::kBusy, &reached), StoreStatus::kBusy);
  EXPECT_EQ(reached, 0);
  EXPECT_EQ(pass_on(StoreStatus::kOk, &reached), StoreStatus::kOk);
  EXPECT_EQ(reached, 1);
}

TEST(StatusOf, KeepsTheClassOfExtendedCodes) {
  for (const int code : {SQLITE_OK, SQLITE_ROW, SQLITE_DONE}) {
    EXPECT_EQ(status_of(code), StoreStatus::kOk);
  }
  EXPECT_EQ(status_of(SQLITE_FULL), StoreStatus::kFull);
  EXPECT_EQ(status_of(SQLITE_BUSY_SNAPSHOT), StoreStatus::kBusy);
  EXPECT_EQ(status_of(SQLITE_LOCKED), StoreStatus::kBusy);
  EXPECT_EQ(status_of(SQLITE_CORRUPT_VTAB), StoreStatus::kCorrupt);
  EXPECT_EQ(status_of(SQLITE_NOTADB), StoreStatus::kCorrupt);
  EXPECT_EQ(status_of(SQLITE_IOERR_FSYNC), StoreStatus::kFailed);
}

}  // namespace
}  // namespace gradstream
