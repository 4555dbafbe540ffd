// The text of a head, and what a journal has where a device was told of one.
#include "server/journal/journal_head.h"

#include <gtest/gtest.h>

#include "server/journal/store_memory.h"

namespace gradstream {
namespace {

JournalHead some_head() {
  JournalHead head;
  head.run = 3;
  head.run_nonce = 0x0123456789abcdef;
  head.record.sequence = 812;
  for (size_t i = 0; i < head.record.chain.size(); ++i) {
    head.record.chain[i] = static_cast<uint8_t>(0xf0 + i);
  }
  head.version = 90;
  head.digest = 0xfe;
  head.time_ms = 1764176400000;
  return head;
}

constexpr const char* kText =
    "gradstream_head=1 run=3 run_nonce=0123456789abcdef sequence=812 "
    "chain=f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff000102030405060708090a0b0c0d0e0f version=90 digest=00000000000000fe "
    "time_ms=1764176400000";

TEST(JournalHead, OneHeadHasOneText) {
  EXPECT_EQ(head_text(some_head()), kText);
  SignedHead read;
  ASSERT_TRUE(parse_head(kText, &read));
  EXPECT_EQ(read.head, some_head());
  EXPECT_EQ(read.text, kText);
  EXPECT_TRUE(read.signature.empty());
  const std::vector<uint8_t> signature = {0x30, 0x01, 0xff};
  const std::string line = signed_head_text(some_head(), signature);
  EXPECT_EQ(line, std::string(kText) + " signature=3001ff");
  ASSERT_TRUE(parse_head(line, &read));
  EXPECT_EQ(read.head, some_head());
  EXPECT_EQ(read.text, kText) << "what the signature covers";
  EXPECT_EQ(read.signature, signature);
}

TEST(JournalHead, WhatIsNotTheTextOfAHeadIsRefused) {
  SignedHead read;
  const std::string text = kText;
  for (size_t size = 0; size < text.size(); ++size) {
    const bool is_shorter_time = size > text.rfind('=') + 1;
    EXPECT_EQ(parse_head(text.substr(0, size), &read), is_shorter_time) << size;
  }
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"run=3", "run=03"},
           {"run=3", "run=-3"},
           {"run=3", "run=4294967299"},
           {"run=3 ", "run=3  "},
           {"sequence=812", "sequence=812 sequence=812"},
           {"sequence=812", "sequence="},
           {"f0f1", "F0f1"},
           {"chain=f0", "chain=0"},
           {"digest=00", "digest="},
           {"gradstream_head=1", "gradstream_head=2"},
           {" version=90 digest=00000000000000fe", " digest=00000000000000fe version=90"},
           {"6400000", "6400000 "},
           {"6400000", "6400000\r"},
           {"6400000", "6400000 signature="},
           {"6400000", "6400000 signature=3"},
           {"6400000", "6400000 signature=3G"},
           {"6400000", "6400000 signature=30 signature=30"},
           {"6400000", "6400000 signature=" + std::string(2 * kHeadSignatureSizeMax + 2, '0')}}) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    EXPECT_FALSE(parse_head(other, &read)) << other;
  }
}

JournalRecord record_of(uint64_t sequence) {
  JournalRecord record = JournalRecord::task({.device = 1, .task_sequence = static_cast<uint32_t>(sequence)});
  record.set_sequence(sequence);
  return record;
}

std::vector<JournalRecord> records_up_to(uint64_t last) {
  std::vector<JournalRecord> records;
  for (uint64_t sequence = 1; sequence <= last; ++sequence) {
    records.push_back(record_of(sequence));
  }
  return records;
}

JournalMark mark_at(Store& store, uint64_t sequence) {
  ChainHead head;
  EXPECT_EQ(store.read_chain(sequence, &head), StoreStatus::kOk);
  return mark_of(head);
}

TEST(JournalHead, AMarkIsTheBeginningOfTheChain) {
  const JournalMark mark = mark_of(some_head().record);
  EXPECT_EQ(mark.sequence, 812U);
  EXPECT_EQ(mark.chain, 0xf7f6f5f4f3f2f1f0U);
}

TEST(JournalHead, AMarkIsFoundInItsOwnJournalAlone) {
  constexpr RunIdentity kRun = {1, 7, 9};
  StoreMemory store(kRun);
  ASSERT_EQ(store.append(records_up_to(9)), StoreStatus::kOk);
  StoreMemory older(kRun);
  ASSERT_EQ(older.append(records_up_to(5)), StoreStatus::kOk);
  StoreMemory changed(kRun);
  std::vector<JournalRecord> records = records_up_to(9);
  records[3].set_time_ms(1);
  ASSERT_EQ(changed.append(records), StoreStatus::kOk);
  for (uint64_t sequence = 1; sequence <= 9; ++sequence) {
    const JournalMark mark = mark_at(store, sequence);
    EXPECT_EQ(find_mark(store, mark), MarkFinding::kSame);
    EXPECT_EQ(find_mark(older, mark), sequence <= 5 ? MarkFinding::kSame : MarkFinding::kMissing) << sequence;
    EXPECT_EQ(find_mark(changed, mark), sequence < 4 ? MarkFinding::kSame : MarkFinding::kOther) << sequence;
  }
}

TEST(JournalHead, AMarkBeforeACutIsNotJudged) {
  StoreMemory store;
  ASSERT_EQ(store.append(records_up_to(9)), StoreStatus::kOk);
  const JournalMark before = mark_at(store, 3);
  const JournalMark behind = mark_at(store, 8);
  uint64_t written = 0;
  for (const uint64_t sequence : {4, 6, 8}) {
    ASSERT_EQ(store.write_checkpoint({{sequence, 1, sequence, 1}, {0}}, &written), StoreStatus::kOk);
  }
  bool has_more = false;
  ASSERT_EQ(store.cut({false, 1, 0}, &has_more), StoreStatus::kOk);
  ASSERT_GT(store.records().front().sequence(), 3U);
  EXPECT_EQ(find_mark(store, before), MarkFinding::kUnknown);
  EXPECT_EQ(find_mark(store, behind), MarkFinding::kSame);
}

}  // namespace
}  // namespace gradstream
