#include "server/journal/journal_chain.h"

#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

constexpr RunIdentity kRun = {3, 0x0123456789abcdefULL, 0xfedcba9876543210ULL};

JournalRow row_of(uint64_t sequence) {
  JournalRow row;
  row.sequence = sequence;
  row.kind = RecordKind::kUpdate;
  row.device = 4;
  row.task_sequence = 0x01020304;
  row.version = 7;
  row.base_version = 6;
  row.steps_done = 5;
  row.weight = 65535;
  row.verdict = 1;
  row.reason = 2;
  row.detail = 3;
  row.step_scale = 1.5F;
  row.loss_before = -1;
  row.loss_after = 0.25F;
  row.digest = 0x8877665544332211ULL;
  row.time_ms = 1700000000000ULL;
  row.payload = {1, 2, 3};
  row.notes = {9, 8};
  return row;
}

ChainHead chain_of(const std::vector<JournalRow>& rows, const RunIdentity& run = kRun) {
  JournalChain chain(chain_start(run));
  for (const JournalRow& row : rows) {
    EXPECT_TRUE(chain.add(JournalRecord(row)));
  }
  return chain.head();
}

// The bytes as the header tells them, put together here by hand.
template <typename Number>
void put(std::vector<uint8_t>* out, Number number) {
  for (size_t i = 0; i < sizeof number; ++i) {
    out->push_back(static_cast<uint8_t>(number >> (8 * i)));
  }
}

uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

TEST(JournalChain, IsMadeOfTheBytesThatItsHeaderTells) {
  constexpr std::string_view kBeginning = "gradstream journal 1";
  std::vector<uint8_t> start(kBeginning.begin(), kBeginning.end());
  put(&start, uint32_t{3});
  put(&start, kRun.run_nonce);
  put(&start, kRun.parameters_digest);
  const ChainHead first = chain_start(kRun);
  EXPECT_EQ(first, (ChainHead{0, sha256(start)}));

  std::vector<uint8_t> body;
  put(&body, bits_of(-1));
  put(&body, bits_of(0.25F));
  put(&body, uint32_t{3});
  for (const uint8_t byte : {1, 2, 3, 9, 8}) {
    body.push_back(byte);
  }
  const Sha256Digest digest = sha256(body);
  std::vector<uint8_t> link(first.chain.begin(), first.chain.end());
  put(&link, uint64_t{1});
  put(&link, uint32_t{2});
  for (const uint32_t number : {4U, 0x01020304U, 7U, 6U, 5U, 65535U, 1U, 2U, 3U}) {
    put(&link, number);
  }
  put(&link, uint64_t{0x3ff8000000000000});  // 1.5
  put(&link, uint64_t{0x8877665544332211ULL});
  put(&link, uint64_t{1700000000000ULL});
  put(&link, static_cast<uint32_t>(body.size()));
  link.insert(link.end(), digest.begin(), digest.end());
  EXPECT_EQ(chain_of({row_of(1)}), (ChainHead{1, sha256(link)}));
}

TEST(JournalChain, EachPartOfTheIdentityAndOfARecordChangesIt) {
  for (const RunIdentity& other : {RunIdentity{4, kRun.run_nonce, kRun.parameters_digest},
                                   RunIdentity{3, kRun.run_nonce ^ 1, kRun.parameters_digest},
                                   RunIdentity{3, kRun.run_nonce, kRun.parameters_digest ^ 1}}) {
    EXPECT_NE(chain_of({row_of(1)}, other), chain_of({row_of(1)}));
  }
  const std::vector<std::function<void(JournalRow*)>> changes = {
      [](JournalRow* row) { row->kind = RecordKind::kVerdict; }, [](JournalRow* row) { ++row->device; },
      [](JournalRow* row) { ++row->task_sequence; }, [](JournalRow* row) { ++row->version; },
      [](JournalRow* row) { ++row->base_version; }, [](JournalRow* row) { ++row->steps_done; },
      [](JournalRow* row) { ++row->weight; }, [](JournalRow* row) { ++row->verdict; },
      [](JournalRow* row) { ++row->reason; }, [](JournalRow* row) { ++row->detail; },
      [](JournalRow* row) { row->step_scale = 1.25F; }, [](JournalRow* row) { row->loss_before = 1; },
      [](JournalRow* row) { row->loss_after = -0.25F; }, [](JournalRow* row) { row->digest ^= 1; },
      [](JournalRow* row) { ++row->time_ms; }, [](JournalRow* row) { row->payload[2] ^= 1; },
      [](JournalRow* row) { row->payload.push_back(9); }, [](JournalRow* row) { row->notes[0] ^= 1; },
      // The same bytes one after the other, parted elsewhere.
      [](JournalRow* row) {
        row->payload = {1, 2, 3, 9};
        row->notes = {8};
      }};
  for (size_t i = 0; i < changes.size(); ++i) {
    JournalRow row = row_of(1);
    changes[i](&row);
    EXPECT_NE(chain_of({row}), chain_of({row_of(1)})) << i;
    EXPECT_NE(chain_of({row, row_of(2)}), chain_of({row_of(1), row_of(2)})) << i;
  }
}

TEST(JournalChain, TakesRecordsInTheirOrderAlone) {
  JournalChain chain(chain_start(kRun));
  EXPECT_FALSE(chain.add(JournalRecord(row_of(2))));
  EXPECT_EQ(chain.head(), chain_start(kRun));
  EXPECT_TRUE(chain.add(JournalRecord(row_of(1))));
  EXPECT_FALSE(chain.add(JournalRecord(row_of(1))));
  EXPECT_EQ(chain.head(), chain_of({row_of(1)}));
}

TEST(JournalChain, ItGoesOnFromAnyRecord) {
  JournalChain rest(chain_of({row_of(1), row_of(2)}));
  EXPECT_TRUE(rest.add(JournalRecord(row_of(3))));
  EXPECT_EQ(rest.head(), chain_of({row_of(1), row_of(2), row_of(3)}));
}

// A body that is forgotten leaves its length and its digest, and no later link changes. The columns stay proven.
TEST(JournalChain, ADigestStandsForItsBodyAlone) {
  const RecordBody forgotten = JournalChain(ChainHead()).body_of(JournalRecord(row_of(2)));
  JournalRow blank = row_of(2);
  blank.payload.clear();
  blank.notes.clear();
  blank.loss_before = blank.loss_after = 0;
  JournalChain chain(next_link(chain_of({row_of(1)}), JournalRecord(blank), forgotten));
  EXPECT_TRUE(chain.add(JournalRecord(row_of(3))));
  EXPECT_EQ(chain.head(), chain_of({row_of(1), row_of(2), row_of(3)}));
  const std::vector<std::function<void(JournalRow*)>> changes = {
      [](JournalRow* row) { row->kind = RecordKind::kVerdict; },
      [](JournalRow* row) { ++row->device; },
      [](JournalRow* row) { ++row->task_sequence; },
      [](JournalRow* row) { ++row->version; },
      [](JournalRow* row) { ++row->base_version; },
      [](JournalRow* row) { ++row->steps_done; },
      [](JournalRow* row) { ++row->weight; },
      [](JournalRow* row) { ++row->verdict; },
      [](JournalRow* row) { ++row->reason; },
      [](JournalRow* row) { ++row->detail; },
      [](JournalRow* row) { row->step_scale = 1.25F; },
      [](JournalRow* row) { row->digest ^= 1; },
      [](JournalRow* row) { ++row->time_ms; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    JournalRow row = blank;
    changes[i](&row);
    EXPECT_NE(next_link(chain_of({row_of(1)}), JournalRecord(row), forgotten), chain_of({row_of(1), row_of(2)})) << i;
  }
}

}  // namespace
}  // namespace gradstream
