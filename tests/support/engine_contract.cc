#include "tests/support/engine_contract.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

// A node with its front's row, as its replies tell.
struct Front {
  Front(EngineHarness* engine, std::string node_name)
      : harness(engine), name(std::move(node_name)), node(engine->connect(name)) {
    row = harness->wait(*node, node->join()).front;
  }
  EngineReply commit(EngineBatch batch) {
    batch.epoch = row.epoch;
    batch.open_version = row.open_version;
    batch.number = row.batch + 1;
    last = batch;
    const EngineReply reply = harness->wait(*node, node->commit(batch));
    if (reply.outcome == EngineOutcome::kCommitted) {
      row = reply.front;
    }
    return reply;
  }
  EngineReply resolve() {
    const EngineReply reply = harness->wait(*node, node->resolve(last.epoch, last.number));
    row = reply.front;
    return reply;
  }
  DeviceRow load(uint32_t device) { return harness->wait(*node, node->load({device})).rows.at(0); }

  EngineHarness* harness;
  std::string name;
  std::unique_ptr<EngineNode> node;
  FrontRow row;
  EngineBatch last;
};

// A task for the device whose row this is.
RowChange issue(uint32_t device, const DeviceRow& row, uint32_t version) {
  RowChange change = {device, row.task.sequence, row.task.is_open, row};
  change.row.task = {.sequence = row.task.sequence + 1, .version = version, .is_open = true};
  return change;
}

// Its open task, folded into the version behind this one.
RowChange fold(uint32_t device, const DeviceRow& row, uint32_t version) {
  RowChange change = {device, row.task.sequence, true, row};
  change.row.task.is_open = false;
  change.row.judged = {row.task.sequence, gs_Verdict_VERDICT_FOLDED, gs_Reason_REASON_NONE, version + 1, 1, 0};
  change.row.accepted = change.row.judged;
  change.row.answered_version = version;
  return change;
}

EngineBatch batch_of(std::vector<RowChange> changes, uint32_t on_time_count, std::vector<uint8_t> sum) {
  EngineBatch batch;
  batch.changes = std::move(changes);
  batch.on_time_count = on_time_count;
  batch.sum = std::move(sum);
  return batch;
}

// Gives the device a task; its row.
DeviceRow begin_task(Front* front, uint32_t device) {
  EXPECT_EQ(front->commit(batch_of({issue(device, front->load(device), front->row.open_version)}, 0, {})).outcome,
            EngineOutcome::kCommitted);
  return front->load(device);
}

std::vector<std::vector<uint8_t>> sums_of(Front* front, uint32_t version) {
  return read_all_sums(*front->harness, *front->node, version);
}

VersionProgress progress_of(Front* front, uint32_t version) {
  const EngineReply reply = front->harness->wait(*front->node, front->node->read_progress(version));
  EXPECT_EQ(reply.outcome, EngineOutcome::kCommitted);
  return reply.progress;
}

EngineOutcome seal(Front* front, uint64_t term, uint32_t version) {
  return front->harness->wait(*front->node, front->node->seal(term, version)).outcome;
}

EngineOutcome publish(Front* front, uint64_t term, uint32_t version, uint64_t sum_count = 0) {
  const EngineTicket ticket = front->node->publish(term, sum_count, {version, {uint8_t(version)}});
  return front->harness->wait(*front->node, ticket).outcome;
}

}  // namespace

// Two nodes judge one device's update: one of the batches is in, and the other one with all that it has is not.
void expect_exactly_once(MakeEngineHarness make) {
  const std::unique_ptr<EngineHarness> engine = make();
  Front a(engine.get(), "a");
  Front b(engine.get(), "b");
  const DeviceRow one = begin_task(&a, 1);
  const DeviceRow two = begin_task(&b, 2);
  EXPECT_EQ(one.task.sequence, 1U);
  EXPECT_TRUE(one.task.is_open);
  EXPECT_EQ(a.commit(batch_of({fold(1, one, 0)}, 1, {7})).outcome, EngineOutcome::kCommitted);
  EXPECT_EQ(a.row.on_time_count, 1U);
  EXPECT_EQ(b.commit(batch_of({fold(1, one, 0), fold(2, two, 0)}, 2, {9})).outcome, EngineOutcome::kConflict);
  EXPECT_TRUE(b.load(2).task.is_open) << "all of a batch happens, or nothing";
  EXPECT_EQ(b.load(1).judged.task_sequence, 1U);
  EXPECT_EQ(b.row.batch, 1U);
  EXPECT_EQ(b.commit(batch_of({fold(2, two, 0)}, 1, {5})).outcome, EngineOutcome::kCommitted);
  EXPECT_EQ(sums_of(&a, 0), (std::vector<std::vector<uint8_t>>{{7}, {5}}));
  EXPECT_EQ(a.load(9).task.sequence, 0U) << "a device that nobody knows";
}

void expect_a_cut(MakeEngineHarness make) {
  const std::unique_ptr<EngineHarness> engine = make();
  Front a(engine.get(), "a");
  Front b(engine.get(), "b");
  const DeviceRow one = begin_task(&a, 1);
  const DeviceRow two = begin_task(&a, 2);
  EXPECT_EQ(a.commit(batch_of({fold(2, two, 0)}, 1, {6})).outcome, EngineOutcome::kCommitted);
  EngineBatch repeated = a.last;
  repeated.changes.clear();
  EXPECT_EQ(engine->wait(*a.node, a.node->commit(repeated)).outcome, EngineOutcome::kCut) << "its number is in";
  const uint64_t term = engine->wait(*b.node, b.node->take_lease()).lease.term;
  EXPECT_EQ(publish(&b, term, 1, 1), EngineOutcome::kCut) << "it is not sealed: a batch may come behind the read";
  EXPECT_EQ(seal(&b, term, 0), EngineOutcome::kCommitted);
  EXPECT_EQ(publish(&b, term, 1, 0), EngineOutcome::kCut) << "a batch came after the leader had read";
  EXPECT_EQ(sums_of(&b, 0).size(), 1U) << "nothing of a cut version happens";
  EXPECT_EQ(publish(&b, term, 1, 1), EngineOutcome::kCommitted);
  EngineReply reply = a.commit(batch_of({fold(1, one, 0)}, 1, {7}));
  EXPECT_EQ(reply.outcome, EngineOutcome::kCut);
  EXPECT_EQ(reply.front.open_version, 1U);
  EXPECT_TRUE(a.load(1).task.is_open);
  EXPECT_EQ(engine->wait(*b.node, b.node->read_sums(0, {})).outcome, EngineOutcome::kCut) << "it is not open any more";
  EXPECT_EQ(engine->wait(*b.node, b.node->read_progress(0)).outcome, EngineOutcome::kCut);
  EXPECT_TRUE(sums_of(&b, 1).empty());
  a.row = reply.front;
  EXPECT_EQ(a.commit(batch_of({fold(1, one, 1)}, 1, {8})).outcome, EngineOutcome::kCommitted);
  EXPECT_EQ(sums_of(&b, 1), (std::vector<std::vector<uint8_t>>{{8}}));
  const EngineReply versions = engine->wait(*a.node, a.node->read_versions(1, EngineRunState::kActive));
  EXPECT_EQ(versions.versions, (std::vector<PublishedVersion>{{1, {1}}}));
  // What an epoch before this one sends is cut, though its numbers fit.
  EngineBatch old = batch_of({issue(3, DeviceRow(), 1)}, 0, {});
  old.epoch = a.row.epoch;
  old.open_version = 1;
  old.number = 1;
  Front again(engine.get(), "a");
  EXPECT_GT(again.row.epoch, old.epoch);
  EXPECT_EQ(engine->wait(*again.node, again.node->commit(old)).outcome, EngineOutcome::kCut);
}

void expect_unknowns_resolve(MakeEngineHarness make) {
  for (const EngineFault fault :
       {EngineFault::kNever, EngineFault::kAnswer, EngineFault::kLate, EngineFault::kMuchLate}) {
    for (const bool loses_answer : {false, true}) {
      SCOPED_TRACE(testing::Message() << "fault " << static_cast<int>(fault) << ", loses_answer " << loses_answer);
      const std::unique_ptr<EngineHarness> engine = make();
      Front a(engine.get(), "a");
      const DeviceRow one = begin_task(&a, 1);
      engine->fault("a", fault);
      ASSERT_EQ(a.commit(batch_of({fold(1, one, 0)}, 1, {7})).outcome, EngineOutcome::kUnknown);
      if (loses_answer) {  // of the question as well: it is asked again
        engine->fault("a", EngineFault::kAnswer);
        ASSERT_EQ(engine->wait(*a.node, a.node->resolve(a.last.epoch, a.last.number)).outcome, EngineOutcome::kUnknown);
      }
      const bool is_in = fault == EngineFault::kAnswer || fault == EngineFault::kLate;
      EXPECT_EQ(a.resolve().outcome, is_in ? EngineOutcome::kCommitted : EngineOutcome::kCut);
      EXPECT_EQ(a.row.epoch, a.last.epoch + 1) << "a new epoch begins either way";
      engine->settle();
      EXPECT_EQ(sums_of(&a, 0).size(), is_in ? 1U : 0U) << "what was answered holds, whatever still comes";
      EXPECT_EQ(a.load(1).task.is_open, !is_in);
      EXPECT_EQ(
          a.commit(is_in ? batch_of({issue(1, a.load(1), 0)}, 0, {}) : batch_of({fold(1, one, 0)}, 1, {7})).outcome,
          EngineOutcome::kCommitted);
      EXPECT_EQ(sums_of(&a, 0).size(), 1U);
    }
  }
}

// Two epochs begin after an unknown batch: whether it is in cannot be told any more, and the engine says so.
void expect_no_guess(MakeEngineHarness make) {
  const std::unique_ptr<EngineHarness> engine = make();
  Front a(engine.get(), "a");
  const DeviceRow one = begin_task(&a, 1);
  engine->fault("a", EngineFault::kAnswer);
  ASSERT_EQ(a.commit(batch_of({fold(1, one, 0)}, 1, {7})).outcome, EngineOutcome::kUnknown);
  engine->fault("a", EngineFault::kAnswer);
  ASSERT_EQ(engine->wait(*a.node, a.node->join()).outcome, EngineOutcome::kUnknown);
  const uint64_t epoch = engine->wait(*a.node, a.node->join()).front.epoch;
  EXPECT_EQ(a.resolve().outcome, EngineOutcome::kConflict);
  EXPECT_EQ(a.row.epoch, epoch) << "no epoch begins";
}

// However steadily batches come, the sums of a version are a fixed set from its seal on, also for the next leader.
void expect_a_seal(MakeEngineHarness make) {
  const std::unique_ptr<EngineHarness> engine = make();
  Front a(engine.get(), "a");
  Front b(engine.get(), "b");
  const DeviceRow one = begin_task(&a, 1);
  const DeviceRow two = begin_task(&b, 2);
  EXPECT_EQ(a.commit(batch_of({fold(1, one, 0)}, 1, {6})).outcome, EngineOutcome::kCommitted);
  const uint64_t term = engine->wait(*b.node, b.node->take_lease()).lease.term;
  EXPECT_EQ(seal(&b, term + 1, 0), EngineOutcome::kCut) << "another term";
  EXPECT_EQ(seal(&b, term, 1), EngineOutcome::kCut) << "another version";
  EXPECT_EQ(seal(&a, term, 0), EngineOutcome::kCut) << "another node holds the lease";
  EXPECT_FALSE(progress_of(&b, 0).is_sealed) << "not sealed by any of them";
  EXPECT_EQ(seal(&b, term, 0), EngineOutcome::kCommitted);
  EXPECT_EQ(seal(&b, term, 0), EngineOutcome::kCommitted) << "its answer may have been lost";

  const EngineReply cut = b.commit(batch_of({fold(2, two, 0)}, 1, {7}));
  EXPECT_EQ(cut.outcome, EngineOutcome::kCut);
  EXPECT_EQ(cut.front.open_version, 1U);
  EXPECT_EQ(cut.front.epoch, b.row.epoch);
  EXPECT_EQ(b.resolve().outcome, EngineOutcome::kCut);
  EXPECT_EQ(b.row.open_version, 1U) << "the epoch behind a question is sealed too";
  Front c(engine.get(), "c");
  EXPECT_EQ(c.row.open_version, 1U) << "and so is a node that joins";
  EXPECT_EQ(sums_of(&b, 0), (std::vector<std::vector<uint8_t>>{{6}})) << "it is open until the next one is there";
  EXPECT_TRUE(progress_of(&b, 0).is_sealed);
  EXPECT_EQ(progress_of(&b, 0).on_time_count, 1U) << "the counts stay";

  engine->pass_lease();
  const uint64_t next_term = engine->wait(*c.node, c.node->take_lease()).lease.term;
  EXPECT_EQ(publish(&b, term, 1, 1), EngineOutcome::kCut) << "its term is over";
  EXPECT_EQ(seal(&c, next_term, 0), EngineOutcome::kCommitted) << "it is sealed already";
  EXPECT_EQ(publish(&c, next_term, 1, 1), EngineOutcome::kCommitted);
  EXPECT_EQ(seal(&c, next_term, 0), EngineOutcome::kCut) << "the version is over";
  EXPECT_TRUE(sums_of(&c, 1).empty());
  EXPECT_EQ(b.commit(batch_of({fold(2, two, 1)}, 1, {8})).outcome, EngineOutcome::kCommitted);
  EXPECT_EQ(b.row.on_time_count, 1U) << "counted anew";
  EXPECT_EQ(progress_of(&c, 1).on_time_count, 1U);
  EXPECT_FALSE(progress_of(&c, 1).is_sealed);
  EXPECT_EQ(sums_of(&c, 1), (std::vector<std::vector<uint8_t>>{{8}}));
}

void expect_sums_by_place(MakeEngineHarness make) {
  constexpr uint8_t kBatches = 5;
  const std::unique_ptr<EngineHarness> engine = make();
  Front a(engine.get(), "a");
  Front b(engine.get(), "b");
  std::vector<std::vector<uint8_t>> all;
  for (Front* const front : {&a, &b}) {
    for (uint8_t i = 0; i < kBatches; ++i) {
      const uint8_t device = front == &a ? i : kBatches + i;
      const DeviceRow row = begin_task(front, device);
      EXPECT_EQ(front->commit(batch_of({fold(device, row, 0)}, 1, {device})).outcome, EngineOutcome::kCommitted);
      all.push_back({device});
    }
  }
  EXPECT_EQ(sums_of(&a, 0), all);
  EXPECT_EQ(progress_of(&a, 0).on_time_count, all.size());
  // From the place of each one on there are those behind it, whether the place has a sum or not.
  const EngineReply first = engine->wait(*a.node, a.node->read_sums(0, {}));
  ASSERT_FALSE(first.sums.empty());
  EXPECT_EQ(first.sums[0].bytes, all[0]);
  EXPECT_EQ(engine->wait(*a.node, a.node->read_sums(0, first.sums[0].place)).sums.at(0).bytes, all[1]);
  EXPECT_EQ(engine->wait(*a.node, a.node->read_sums(0, {"a", UINT32_MAX, 0})).sums.at(0).bytes, all[kBatches]);
  EXPECT_TRUE(engine->wait(*a.node, a.node->read_sums(0, {"c", 0, 0})).sums.empty());
}

// Whatever the clocks of nodes show, they hear one time, and it is that of leases.
namespace {

EngineBatch batch_of(RowChange change, std::vector<StoredUpdate> updates) {
  EngineBatch batch = batch_of({std::move(change)}, 1, {});
  batch.updates = std::move(updates);
  return batch;
}

std::vector<StoredUpdate> updates_of(Front* front, uint32_t version, UpdatePart part, UpdatePlace from = {}) {
  std::vector<StoredUpdate> all;
  while (true) {
    const EngineReply reply = front->harness->wait(*front->node, front->node->read_updates(version, part, from));
    EXPECT_EQ(reply.outcome, EngineOutcome::kCommitted);
    if (reply.updates.empty()) {
      return all;
    }
    all.insert(all.end(), reply.updates.begin(), reply.updates.end());
    from = all.back().place_behind();
  }
}

// The device is given a task, and its update from that base version is in.
void bring(Front* front, uint32_t device, uint32_t base_version, uint8_t byte) {
  const DeviceRow row = begin_task(front, device);
  const EngineBatch batch =
      batch_of(fold(device, row, front->row.open_version), {{device, base_version, std::vector<uint8_t>(100, byte)}});
  EXPECT_EQ(front->commit(batch).outcome, EngineOutcome::kCommitted);
}

StoredUpdate stored(uint32_t device, uint32_t base_version, uint8_t byte) {
  return {device, base_version, std::vector<uint8_t>(100, byte)};
}

}  // namespace

// Updates are a batch's, all of them or none, and behind a version the last one of each device stays.
void expect_a_memory(MakeEngineHarness make) {
  constexpr uint32_t kLast = 7;
  using Updates = std::vector<StoredUpdate>;
  const std::unique_ptr<EngineHarness> engine = make();
  Front a(engine.get(), "a");
  const uint64_t term = engine->wait(*a.node, a.node->take_lease()).lease.term;
  Updates first;
  for (uint32_t device = 1; device <= kLast; ++device) {
    bring(&a, device, 0, uint8_t(device));
    first.push_back(stored(device, 0, uint8_t(device)));
  }
  EngineBatch cut = batch_of(fold(1, a.load(1), 0), {stored(1, 9, 9)});
  cut.changes[0].task_sequence += 5;
  EXPECT_EQ(a.commit(cut).outcome, EngineOutcome::kConflict);
  EXPECT_EQ(updates_of(&a, 0, UpdatePart::kOpen), first) << "nothing of a batch that did not happen";
  EXPECT_EQ(updates_of(&a, 0, UpdatePart::kOpen, {kLast, 0}), Updates{first.back()}) << "from any place on";
  EXPECT_TRUE(updates_of(&a, 0, UpdatePart::kMemory).empty());
  EXPECT_EQ(engine->wait(*a.node, a.node->read_updates(1, UpdatePart::kOpen, {})).outcome, EngineOutcome::kCut);
  EXPECT_EQ(seal(&a, term, 0), EngineOutcome::kCommitted);
  EXPECT_EQ(publish(&a, term, 1, kLast - 1), EngineOutcome::kCut) << "an update came after the leader had read";
  EXPECT_EQ(publish(&a, term, 1, kLast), EngineOutcome::kCommitted);
  EXPECT_EQ(updates_of(&a, 1, UpdatePart::kMemory), first);
  EXPECT_TRUE(updates_of(&a, 1, UpdatePart::kOpen).empty());

  a.row = engine->wait(*a.node, a.node->join()).front;
  bring(&a, 2, 1, 22);
  bring(&a, 3, 1, 33);
  EXPECT_EQ(updates_of(&a, 1, UpdatePart::kOpen), (Updates{stored(2, 1, 22), stored(3, 1, 33)}));
  EXPECT_EQ(updates_of(&a, 1, UpdatePart::kMemory), first) << "the version before has them still";
  EXPECT_EQ(seal(&a, term, 1), EngineOutcome::kCommitted);
  const PublishedVersion next = {2, {2}, {3, 4}};
  EXPECT_EQ(engine->wait(*a.node, a.node->publish(term, 2, next)).outcome, EngineOutcome::kCommitted);
  const Updates left = {stored(1, 0, 1), stored(2, 1, 22), stored(5, 0, 5), stored(6, 0, 6), stored(7, 0, 7)};
  EXPECT_EQ(updates_of(&a, 2, UpdatePart::kMemory), left) << "of 3 and 4 none";
  EXPECT_TRUE(updates_of(&a, 2, UpdatePart::kOpen).empty());
  EXPECT_EQ(engine->wait(*a.node, a.node->read_versions(2, EngineRunState::kActive)).versions,
            (std::vector<PublishedVersion>{{2, {2}}}));
}

void expect_one_clock(MakeEngineHarness make) {
  constexpr uint64_t kLeaseMs = 3000;  // of the harnesses' engines
  const std::unique_ptr<EngineHarness> engine = make();
  Front a(engine.get(), "a");
  Front b(engine.get(), "b");
  const uint64_t first_until_ms = engine->wait(*a.node, a.node->take_lease()).lease.until_ms;
  const uint64_t of_a = engine->wait(*a.node, a.node->read_versions(1, EngineRunState::kActive)).engine_ms;
  const uint64_t of_b = engine->wait(*b.node, b.node->read_versions(1, EngineRunState::kActive)).engine_ms;
  const uint64_t next_until_ms = engine->wait(*a.node, a.node->take_lease()).lease.until_ms;
  EXPECT_GT(of_a, 0U);
  EXPECT_LE(of_a, of_b);
  EXPECT_LE(first_until_ms, of_a + kLeaseMs);
  EXPECT_GE(next_until_ms, of_b + kLeaseMs);
}

void expect_one_publisher(MakeEngineHarness make) {
  const std::unique_ptr<EngineHarness> engine = make();
  Front a(engine.get(), "a");
  Front b(engine.get(), "b");
  const EngineReply first = engine->wait(*a.node, a.node->take_lease());
  EXPECT_EQ(first.outcome, EngineOutcome::kCommitted);
  EXPECT_EQ(first.lease.node, "a");
  const EngineReply refused = engine->wait(*b.node, b.node->take_lease());
  EXPECT_EQ(refused.outcome, EngineOutcome::kCut);
  EXPECT_EQ(refused.lease.node, "a");
  EXPECT_EQ(engine->wait(*a.node, a.node->take_lease()).lease.term, first.lease.term) << "it is held on";
  EXPECT_EQ(seal(&a, first.lease.term, 0), EngineOutcome::kCommitted);
  EXPECT_EQ(publish(&a, first.lease.term, 2), EngineOutcome::kCut) << "a version is left out";
  EXPECT_EQ(publish(&b, first.lease.term, 1), EngineOutcome::kCut) << "the term is another node's";
  EXPECT_EQ(publish(&a, first.lease.term, 1), EngineOutcome::kCommitted);
  EXPECT_EQ(publish(&a, first.lease.term, 1), EngineOutcome::kCut) << "it is there already";
  engine->pass_lease();
  const EngineReply second = engine->wait(*b.node, b.node->take_lease());
  EXPECT_EQ(second.outcome, EngineOutcome::kCommitted);
  EXPECT_EQ(second.lease.term, first.lease.term + 1);
  EXPECT_EQ(seal(&a, first.lease.term, 1), EngineOutcome::kCut) << "its term is over, though it does not know";
  EXPECT_EQ(seal(&b, second.lease.term, 1), EngineOutcome::kCommitted);
  EXPECT_EQ(publish(&a, first.lease.term, 2), EngineOutcome::kCut);
  EXPECT_EQ(publish(&a, second.lease.term, 2), EngineOutcome::kCut) << "nor by the term that another node holds";
  EXPECT_EQ(publish(&b, second.lease.term, 2), EngineOutcome::kCommitted);
  engine->pass_lease();
  const uint64_t third = engine->wait(*a.node, a.node->take_lease()).lease.term;
  EXPECT_EQ(third, second.lease.term + 1);
  EXPECT_EQ(seal(&a, third, 2), EngineOutcome::kCommitted);
  EXPECT_EQ(publish(&a, first.lease.term, 3), EngineOutcome::kCut) << "the lease is its own again, by another term";
}

// The next node has it without waiting for its end.
void expect_a_released_lease(MakeEngineHarness make) {
  const std::unique_ptr<EngineHarness> engine = make();
  Front a(engine.get(), "a");
  Front b(engine.get(), "b");
  const auto release = [&engine](Front& front, uint64_t term) {
    return engine->wait(*front.node, front.node->release_lease(term));
  };
  const auto take = [&engine](Front& front) { return engine->wait(*front.node, front.node->take_lease()); };
  EXPECT_EQ(release(a, 0).outcome, EngineOutcome::kCut) << "nobody ever held it";
  const uint64_t term = take(a).lease.term;
  EXPECT_EQ(release(b, term).outcome, EngineOutcome::kCut) << "another node holds it";
  EXPECT_EQ(release(a, term + 1).outcome, EngineOutcome::kCut) << "another term";
  EXPECT_EQ(take(b).outcome, EngineOutcome::kCut) << "it is held still";
  const EngineReply released = release(a, term);
  EXPECT_EQ(released.outcome, EngineOutcome::kCommitted);
  EXPECT_EQ(released.lease.node, "");
  EXPECT_EQ(released.lease.term, term);
  EXPECT_LE(released.lease.until_ms,
            engine->wait(*a.node, a.node->read_versions(1, EngineRunState::kActive)).engine_ms);
  EXPECT_EQ(release(a, term).outcome, EngineOutcome::kCut) << "it is given back already";
  EXPECT_EQ(seal(&a, term, 0), EngineOutcome::kCut) << "nobody holds it";
  EXPECT_EQ(take(a).lease.term, term + 1) << "nobody else came";
  EXPECT_EQ(release(a, term).outcome, EngineOutcome::kCut) << "one that comes late frees no lease of the next term";
  EXPECT_EQ(release(a, term + 1).outcome, EngineOutcome::kCommitted);
  const EngineReply next = take(b);
  EXPECT_EQ(next.outcome, EngineOutcome::kCommitted) << "at once";
  EXPECT_EQ(next.lease.term, term + 2);
  EXPECT_EQ(release(a, term + 1).outcome, EngineOutcome::kCut);
  EXPECT_EQ(take(a).outcome, EngineOutcome::kCut) << "the new lease stands";
}

// A pause: what is sealed is published, nothing else is sealed, and batches count. All nodes hear of it.
void expect_states(MakeEngineHarness make) {
  const std::unique_ptr<EngineHarness> engine = make();
  Front a(engine.get(), "a");
  const auto state = [&](EngineRunState known) { return engine->wait(*a.node, a.node->read_versions(1, known)).state; };
  const DeviceRow one = begin_task(&a, 1);
  const DeviceRow two = begin_task(&a, 2);
  const uint64_t term = engine->wait(*a.node, a.node->take_lease()).lease.term;
  EXPECT_EQ(state(EngineRunState::kActive), EngineRunState::kActive);
  EXPECT_EQ(progress_of(&a, 0).state, EngineRunState::kActive);
  engine->change_state(EngineRunState::kPaused);
  EXPECT_EQ(state(EngineRunState::kActive), EngineRunState::kPaused);
  EXPECT_EQ(state(EngineRunState::kPaused), EngineRunState::kPaused) << "known, and told all the same";
  EXPECT_EQ(progress_of(&a, 0).state, EngineRunState::kPaused);
  EXPECT_EQ(a.commit(batch_of({fold(1, one, 0)}, 1, {6})).outcome, EngineOutcome::kCommitted) << "answers count";
  EXPECT_EQ(seal(&a, term, 0), EngineOutcome::kCut);
  EXPECT_FALSE(progress_of(&a, 0).is_sealed);
  EXPECT_EQ(publish(&a, term, 1, 1), EngineOutcome::kCut);
  engine->change_state(EngineRunState::kActive);
  EXPECT_EQ(state(EngineRunState::kPaused), EngineRunState::kActive);
  EXPECT_EQ(seal(&a, term, 0), EngineOutcome::kCommitted);

  engine->change_state(EngineRunState::kPaused);
  EXPECT_EQ(seal(&a, term, 0), EngineOutcome::kCommitted) << "it is sealed already: its answer may have been lost";
  EXPECT_EQ(publish(&a, term, 1, 1), EngineOutcome::kCommitted);
  EXPECT_EQ(seal(&a, term, 1), EngineOutcome::kCut) << "and the next one is not";
  engine->change_state(EngineRunState::kStopped);
  EXPECT_EQ(state(EngineRunState::kPaused), EngineRunState::kStopped);
  a.row.open_version = 1;
  EXPECT_EQ(a.commit(batch_of({fold(2, two, 1)}, 1, {7})).outcome, EngineOutcome::kCommitted);
  EXPECT_EQ(seal(&a, term, 1), EngineOutcome::kCut);
  EXPECT_EQ(progress_of(&a, 1).state, EngineRunState::kStopped);
  EXPECT_EQ(engine->wait(*a.node, a.node->take_lease()).lease.term, term) << "somebody leads on";
}

void expect_fleet_changes(MakeEngineHarness make) {
  const std::unique_ptr<EngineHarness> engine = make();
  Front a(engine.get(), "a");
  FleetPlace place;
  uint64_t change = 0;
  // What is new since the place, which moves behind it.
  const auto news = [&] {
    std::vector<FleetChange> all;
    for (;;) {
      const EngineReply reply = engine->wait(*a.node, a.node->read_fleet(place));
      EXPECT_EQ(reply.outcome, EngineOutcome::kCommitted);
      EXPECT_GE(reply.fleet_change, change);
      change = reply.fleet_change;
      if (reply.fleet.empty()) {
        return all;
      }
      all.insert(all.end(), reply.fleet.begin(), reply.fleet.end());
      place = reply.fleet.back().place_behind();
    }
  };
  news();
  const uint64_t before = change;
  EXPECT_TRUE(news().empty());
  FleetChange first = {before + 1, false, 900, "first", {1, 2}};
  const FleetChange claim = {before + 2, true, 900, "batch", {}};
  const FleetChange second = {before + 3, false, 899, "second", {3}};
  for (const FleetChange& row : {first, claim, second}) {
    engine->change_fleet(row);
  }
  EXPECT_EQ(news(), (std::vector<FleetChange>{first, claim, second}));
  EXPECT_EQ(change, before + 3);
  first.content = {4};
  engine->change_fleet(first);
  first.change = before + 4;
  EXPECT_EQ(news(), std::vector<FleetChange>{first}) << "a row comes again, and the others do not";
  EXPECT_TRUE(news().empty());
  place = {before + 2, false, 0};
  EXPECT_EQ(news(), (std::vector<FleetChange>{claim, second, first})) << "each as it is now";
  place = {before + 2, true, 901};
  EXPECT_EQ(news(), (std::vector<FleetChange>{second, first})) << "a claim stands behind the devices of its change";
}

}  // namespace gradstream
