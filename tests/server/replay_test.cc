// From a database to a coordinator: by the newest checkpoint that reads, and in words where the journal was cut.
#include "server/program/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// A store whose checkpoints of these versions do not read.
class DamagedStore : public StoreMemory {
 public:
  StoreStatus read_checkpoint(const CheckpointHead& head, std::vector<uint8_t>* out) override {
    const StoreStatus status = StoreMemory::read_checkpoint(head, out);
    if (damaged.contains(head.version)) {
      (*out)[out->size() / 2] ^= 1;
    }
    ++reads;
    return status;
  }
  std::set<uint32_t> damaged;
  int reads = 0;
};

// Six versions with a checkpoint at each.
struct Fixture {
  Fixture() : server(scalar_parameters()) {
    server.coordinator->set_checkpoints(1, 0);
    server.start();
    server.join(4);
    for (int i = 0; i < 6; ++i) {
      server.round(4);
    }
    GS_ASSERT(store.append(server.store.records()) == StoreStatus::kOk);
    for (const Checkpoint& checkpoint : server.checkpoints) {
      uint64_t written = 0;
      GS_ASSERT(store.write_checkpoint(checkpoint, &written) == StoreStatus::kOk);
    }
    for (uint32_t i = 0; i < 4; ++i) {
      devices.emplace_back().name = server.names[i];
    }
    run.id = 7;
  }
  std::unique_ptr<Coordinator> replay(uint32_t version = UINT32_MAX) {
    error.clear();
    return replay_journal(run, server.parameters, devices, store, version, &error);
  }
  void cut() {
    bool has_more = false;
    GS_ASSERT(store.cut({false, 0, 3}, &has_more) == StoreStatus::kOk);
  }

  TestServer server;
  DamagedStore store;
  RunRow run;
  std::vector<EnrolledDevice> devices;
  std::string error;
};

TEST(Replay, BeginsAtTheNewestCheckpointAndComesToTheSameState) {
  Fixture f;
  const auto newest = f.replay();
  ASSERT_NE(newest, nullptr);
  EXPECT_EQ(f.store.reads, 1);
  EXPECT_EQ(newest->state_text(), f.server.coordinator->state_text());
  f.cut();
  EXPECT_EQ(f.replay()->state_text(), newest->state_text());
}

// As after a bit that rotted: the one before it and more records, and at last all records.
TEST(Replay, ACheckpointThatDoesNotReadCostsTimeAndNothingElse) {
  Fixture f;
  f.store.damaged = {6};
  EXPECT_EQ(f.replay()->state_text(), f.server.coordinator->state_text());
  EXPECT_EQ(f.store.reads, 2);
  f.store.damaged = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(f.replay()->state_text(), f.server.coordinator->state_text());
  f.cut();
  EXPECT_EQ(f.replay(), nullptr);
  EXPECT_THAT(f.error,
              HasSubstr("no checkpoint of run 7 reads, and its records before version 3 were dropped; restore"));
}

TEST(Replay, AnOlderVersionIsThereOrNamedAsDropped) {
  Fixture f;
  std::map<uint32_t, uint64_t> digests;
  for (uint32_t version = 0; version <= 6; ++version) {
    digests[version] = f.replay(version)->digest();
    EXPECT_EQ(f.replay(version)->model().version(), version);
  }
  f.cut();
  for (uint32_t version = 3; version <= 6; ++version) {
    EXPECT_EQ(f.replay(version)->digest(), digests[version]) << version;
  }
  EXPECT_EQ(f.replay(2), nullptr);
  EXPECT_THAT(f.error, HasSubstr("version 2 of run 7 was dropped, with all records before version 3"));
  EXPECT_THAT(f.error, HasSubstr("server.journal_keep"));
  CheckpointHead start;
  const auto beginning = begin_replay(f.run, f.server.parameters, f.devices, f.store, &start, &f.error);
  ASSERT_NE(beginning, nullptr);
  EXPECT_EQ(start.version, 3U);
  EXPECT_EQ(beginning->digest(), digests[3]);
}

// What a state adds up is in every checkpoint: figures of devices need not begin at the first one.
TEST(Replay, FiguresForPeopleBeginWhereACheckpointReads) {
  Fixture f;
  f.cut();
  f.store.damaged = {3, 4};
  CheckpointHead start;
  EXPECT_EQ(begin_replay(f.run, f.server.parameters, f.devices, f.store, &start, &f.error), nullptr);
  EXPECT_THAT(f.error, HasSubstr("at version 3, where its journal begins, does not read"));
  f.error.clear();
  const auto later =
      begin_replay(f.run, f.server.parameters, f.devices, f.store, &start, &f.error, Beginning::kReadable);
  ASSERT_NE(later, nullptr) << f.error;
  EXPECT_EQ(start.version, 5U);
  EXPECT_EQ(later->durable_version(), 5U);
}

}  // namespace
}  // namespace gradstream
