// From a database to a coordinator: by the newest checkpoint that reads, and in words where the journal was cut.
#include "server/program/replay.h"

#include <algorithm>
#include <optional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/crc32c.h"
#include "runtime/training/encoding.h"
#include "server/base/fields.h"
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
    if (forged && forged->head == head) {
      *out = forged->bytes;
    }
    if (damaged.contains(head.version)) {
      (*out)[out->size() / 2] ^= 1;
    }
    ++reads;
    return status;
  }
  std::set<uint32_t> damaged;
  std::optional<Checkpoint> forged;  // in the place of the one with its head
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

// The bytes with each place of `from` changed to `to`.
void replace_all(std::vector<uint8_t>* bytes, const std::vector<uint8_t>& from, const std::vector<uint8_t>& to) {
  for (auto at = bytes->begin(); (at = std::search(at, bytes->end(), from.begin(), from.end())) != bytes->end();) {
    at = std::copy(to.begin(), to.end(), at);
  }
}

template <typename Value>
std::vector<uint8_t> bytes_of(const Value* values, size_t count) {
  const auto* const first = reinterpret_cast<const uint8_t*>(values);
  return {first, first + count * sizeof(Value)};
}

// As who writes the database: another model in a checkpoint, with the digests and the checksum of that model.
Checkpoint with_other_model(const Checkpoint& checkpoint, const RunParameters& parameters,
                            const Coordinator& coordinator) {
  const size_t size = parameters.model->shape.size();
  std::vector<Real> model(coordinator.model().model(), coordinator.model().model() + size);
  const std::vector<uint8_t> before = bytes_of(model.data(), size);
  const uint64_t digest_before = coordinator.digest();
  GS_ASSERT(digest_values(kDigestStart, size, model.data()) == digest_before);
  std::reverse(model.begin(), model.end());
  const uint64_t digest = digest_values(kDigestStart, size, model.data());
  Checkpoint forged = checkpoint;
  replace_all(&forged.bytes, before, bytes_of(model.data(), size));
  replace_all(&forged.bytes, bytes_of(&digest_before, 1), bytes_of(&digest, 1));
  const size_t end = forged.bytes.size() - sizeof(uint32_t);
  const uint32_t checksum = crc32c(0, forged.bytes.data(), end);
  std::copy_n(bytes_of(&checksum, 1).begin(), sizeof checksum, forged.bytes.begin() + static_cast<std::ptrdiff_t>(end));
  return forged;
}

// No disk makes a checkpoint that fits its checksum and is of another model: nothing goes on with it.
TEST(Replay, ACheckpointOfAnotherModelIsNamed) {
  Fixture f;
  const auto honest = f.replay();
  const Checkpoint forged = with_other_model(f.server.checkpoints.back(), f.server.parameters, *honest);
  Coordinator alone(7, f.server.parameters, f.server.names, 1, 0);
  ASSERT_EQ(alone.restore(forged.bytes), Status::kOk) << "it fits itself";
  uint64_t compared = 0;
  EXPECT_TRUE(check_checkpoints(f.run, f.server.parameters, f.devices, f.store, &compared, &f.error));
  EXPECT_EQ(compared, f.server.checkpoints.size());
  f.store.forged = forged;
  EXPECT_EQ(f.replay(), nullptr);
  EXPECT_THAT(f.error, HasSubstr("the checkpoint of run 7 at sequence " + std::to_string(forged.head.sequence) +
                                 " holds version 6 with digest " + hex(alone.digest())));
  EXPECT_THAT(f.error, HasSubstr("the journal has version 6 with digest " + hex(honest->digest())));
  EXPECT_THAT(f.error, HasSubstr("restore the database from a copy"));
  f.error.clear();
  EXPECT_FALSE(check_checkpoints(f.run, f.server.parameters, f.devices, f.store, &compared, &f.error));
  EXPECT_THAT(f.error, HasSubstr(hex(alone.digest())));
  EXPECT_EQ(f.replay(5)->durable_version(), 5U) << "the checkpoint before it is whole";
}

}  // namespace
}  // namespace gradstream
