// A run with a memory over several nodes: fronts take updates in apart, whoever leads reads the memory from a store,
// and each record is the one of a single server.
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "server/engine/followed_run.h"
#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "server/run/weights.h"
#include "tests/support/fake_engine_harness.h"
#include "tests/support/server_support.h"
#include "tests/support/test_node.h"

namespace gradstream {
namespace {

constexpr uint32_t kDevices = 5;
constexpr uint32_t kFronts = 3;

struct Form {
  CorrectionForm form = CorrectionForm::kMemory;
  bool is_tangent = false;
  bool weighs_samples = false;
};

constexpr Form kForms[] = {{CorrectionForm::kMemory, false, false},   {CorrectionForm::kMemory, false, true},
                           {CorrectionForm::kMemory, true, false},    {CorrectionForm::kMemory, true, true},
                           {CorrectionForm::kUnbiased, false, false}, {CorrectionForm::kUnbiased, false, true},
                           {CorrectionForm::kUnbiased, true, false},  {CorrectionForm::kUnbiased, true, true}};

RunParameters parameters_of(const Form& form) {
  RunParameters p = form.is_tangent ? tangent_parameters() : scalar_parameters();
  p.local->solver = form.is_tangent ? SolverId::kProjection : p.local->solver;
  p.local->correction_form = form.form;
  p.fold->fold_weight = form.weighs_samples ? FoldWeight::kSampleCount : FoldWeight::kUniform;
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->staleness_max = 3;
  p.trigger->update_goal = 1;
  p.trigger->device_count = kDevices;
  return p;
}

// An update: its device, the version that it is made from, and what it says.
struct Said {
  uint32_t device = 0;
  uint32_t base_version = 0;
  std::vector<Real> values;
};

Said said_by(const RunParameters& p, uint32_t device, uint32_t base_version) {
  const bool is_scalar = p.stream() == StreamKind::kScalarStream;
  const size_t count = is_scalar ? size_t{p.local->local_step_count} * p.local->direction_count : p.model->shape.size();
  return {device, base_version, draw_values(count, 100 * device + base_version + 1, 0.5F)};
}

FoldInput input_of(const RunParameters& p, uint32_t version, const Said& said) {
  FoldInput input;
  input.owner = p.owner_of(said.device);
  input.base_version = said.base_version;
  input.steps_done = p.local->local_step_count;
  input.weight = fold_weight(p, 1, version - said.base_version);
  input.values = said.values;
  input.device = said.device;
  input.sample_count = static_cast<uint16_t>(10 + 7 * said.device + said.base_version);
  return input;
}

// One server, which keeps the memory itself.
struct Single {
  explicit Single(const RunParameters& parameters)
      : p(parameters), enrolment(p.trigger->device_count), ledger(p, enrolment, 1) {
    const VersionRecord first = ledger.make_first({});
    EXPECT_EQ(ledger.follow(first), Status::kOk);
    begin(first);
  }
  void begin(const VersionRecord& record) {
    ClipTally clip;
    EXPECT_EQ(ledger.begin(record, &clip), Status::kOk);
  }
  VersionRecord close(const std::vector<Said>& all) {
    for (const Said& said : all) {
      EXPECT_EQ(ledger.add_fold(input_of(p, ledger.version(), said)), Status::kOk);
    }
    ClosingNotes notes;
    const VersionRecord record = ledger.close(kDevices, &notes);
    begin(record);
    return record;
  }
  RunParameters p;
  FollowedEnrolment enrolment;
  RunLedger ledger;
};

// What an engine stores, and the nodes' runs.
struct Nodes {
  explicit Nodes(const RunParameters& parameters) : p(parameters), leader(std::make_unique<FollowedRun>(p, kDevices)) {
    for (uint32_t i = 0; i < kFronts; ++i) {
      fronts.push_back(std::make_unique<FollowedRun>(p, kDevices + i));
    }
  }
  // Each update by any front, and batches in any order.
  void take_in(const std::vector<Said>& all) {
    for (const Said& said : all) {
      FollowedRun& front = *fronts[random() % kFronts];
      EXPECT_EQ(front.ledger().add_fold(input_of(p, front.version(), said)), Status::kOk);
      EngineBatch batch;
      front.take_part(&batch);
      EXPECT_EQ(batch.updates.size(), 1U);
      EXPECT_TRUE(batch.sum.empty());
      for (const StoredUpdate& update : batch.updates) {
        open[{update.device, update.base_version}] = update;
      }
    }
  }
  // A node that has not led before has followed the versions alone.
  void change_leader() {
    leader = std::make_unique<FollowedRun>(p, kDevices + 9);
    for (const PublishedVersion& version : versions) {
      EXPECT_EQ(leader->follow(version), Status::kOk);
    }
  }
  void read_memory() {
    if (leader->has_memory()) {
      return;
    }
    leader->begin_memory();
    for (const auto& [device, update] : memory) {
      EXPECT_EQ(leader->remember(update), Status::kOk);
    }
    EXPECT_EQ(leader->end_memory(), Status::kOk);
  }
  VersionRecord close() {
    read_memory();
    for (const auto& [place, update] : open) {
      EXPECT_EQ(leader->add_update(update), Status::kOk);
    }
    return *leader->close();
  }
  void publish(const VersionRecord& record) {
    EXPECT_EQ(leader->begin(record), Status::kOk);
    versions.push_back({record.version, encode_published(record, Trigger::kGoal), record.forgotten});
    for (const auto& front : fronts) {
      EXPECT_EQ(front->follow(versions.back()), Status::kOk);
    }
    for (const auto& [place, update] : std::exchange(open, {})) {
      memory[place.first] = update;
    }
    for (const uint32_t device : record.forgotten) {
      memory.erase(device);
    }
  }
  RunParameters p;
  std::mt19937 random{7};
  std::vector<std::unique_ptr<FollowedRun>> fronts;
  std::unique_ptr<FollowedRun> leader;
  std::map<std::pair<uint32_t, uint32_t>, StoredUpdate> open;
  std::map<uint32_t, StoredUpdate> memory;
  std::vector<PublishedVersion> versions;
};

// Of all versions but the first some devices are late, and one of them is on time too.
std::vector<Said> said_in(const RunParameters& p, uint32_t version) {
  std::vector<Said> all;
  if (version == 0) {
    for (uint32_t device = 0; device + 1 < kDevices; ++device) {
      all.push_back(said_by(p, device, 0));
    }
    return all;
  }
  all.push_back(said_by(p, version % kDevices, version));
  all.push_back(said_by(p, (version + 1) % kDevices, version - (version > 1 ? 1 : 0)));
  if (version > 1) {
    all.push_back(said_by(p, (version + 1) % kDevices, version));
  }
  return all;
}

TEST(FollowedMemory, MakesTheRecordsOfOneServer) {
  for (const Form& form : kForms) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(form.form) << form.is_tangent << form.weighs_samples);
    const RunParameters p = parameters_of(form);
    ASSERT_EQ(check_parameters(p).sentence, "");
    ASSERT_EQ(check_cluster_run(p).sentence, "");
    Single single(p);
    Nodes nodes(p);
    for (uint32_t version = 0; version < 8; ++version) {
      const std::vector<Said> all = said_in(p, version);
      nodes.take_in(all);
      if (version % 3 == 2) {
        nodes.change_leader();
      }
      if (version == 4) {  // what was made and not published leaves nothing behind
        nodes.close();
        nodes.leader->reopen();
        EXPECT_FALSE(nodes.leader->has_memory());
      }
      const VersionRecord record = nodes.close();
      ASSERT_EQ(encode_payload(record), encode_payload(single.close(all))) << "version " << version;
      nodes.publish(record);
      EXPECT_EQ(nodes.fronts[0]->ledger().digest(), single.ledger.digest());
    }
  }
}

// Who has left is forgotten, and the weights are shared anew, by the record of whoever leads.
TEST(FollowedMemory, ForgetsWhoHasLeft) {
  for (const Form& form : kForms) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(form.form) << form.is_tangent << form.weighs_samples);
    const RunParameters p = parameters_of(form);
    Single single(p);
    Nodes nodes(p);
    for (uint32_t version = 0; version < 5; ++version) {
      std::vector<bool> has_left(kDevices);
      has_left[0] = version == 1 || version == 2;
      const uint32_t active_count = kDevices - (has_left[0] ? 1 : 0);
      single.enrolment.set(active_count, has_left);
      nodes.leader->set_fleet(active_count, has_left);
      const std::vector<Said> all = {said_by(p, version == 4 ? 0 : 1 + version % 2, version)};
      nodes.take_in(version == 0 ? said_in(p, 0) : all);
      const VersionRecord record = nodes.close();
      const VersionRecord expected = single.close(version == 0 ? said_in(p, 0) : all);
      ASSERT_EQ(encode_payload(record), encode_payload(expected)) << "version " << version;
      nodes.publish(record);
      EXPECT_EQ(record.forgotten, version == 1 ? std::vector<uint32_t>{0} : std::vector<uint32_t>());
      const RowMemory row = {{0, 1}, {}};  // as the row of device 0 stands until it comes back
      EXPECT_EQ(nodes.fronts[1]->memory_stamp(0, row), version == 0 ? 1U : 0U) << "version " << version;
      nodes.change_leader();
    }
  }
}

// A node may hear of a new device later than the devices' updates come: its leader weighs by whom it has heard.
TEST(FollowedMemory, AFleetThatIsOldIsNoSmallerThanItsUpdates) {
  for (const Form& form : kForms) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(form.form) << form.is_tangent << form.weighs_samples);
    const RunParameters p = parameters_of(form);
    Single single(p);
    Nodes nodes(p);
    single.enrolment.set(kDevices + 1, {});
    std::vector<Said> all;
    for (uint32_t device = 0; device <= kDevices; ++device) {
      all.push_back(said_by(p, device, 0));
    }
    nodes.take_in(all);
    const VersionRecord record = nodes.close();
    ASSERT_EQ(encode_payload(record), encode_payload(single.close(all)));
    nodes.publish(record);
    EXPECT_EQ(nodes.leader->ledger().digest(), single.ledger.digest());
  }
}

// Each of the updates fits alone, and so does their mean. By the old weights it would not.
TEST(FollowedMemory, LargeUpdatesOfANewDeviceFitAsWell) {
  const RunParameters p = parameters_of({CorrectionForm::kMemory, true, false});
  Nodes nodes(p);
  std::vector<Said> all;
  for (uint32_t device = 0; device <= kDevices; ++device) {
    all.push_back(said_by(p, device, 0));
    all.back().values.assign(all.back().values.size(),
                             std::ldexp(Real{1}, 31 - static_cast<int>(p.fold->fold_scale_log2)) * 0.9999F);
  }
  nodes.take_in(all);
  const VersionRecord record = nodes.close();
  EXPECT_EQ(record.weight_total, kDevices + 1);
  nodes.publish(record);
  EXPECT_EQ(nodes.leader->version(), 1U);
}

// Of version 0: the first entry of the sum of its directions is `sum`, and no other entry is beyond that.
std::vector<Real> values_of_sum(const RunParameters& p, Real sum) {
  const uint32_t count = p.local->local_step_count * p.local->direction_count;
  std::vector<Real> values(count);
  std::vector<Real> direction(p.model->shape.size());
  for (uint32_t q = 0; q < count; ++q) {
    fill_direction(direction_spec(p, 0, 0), p.model->shape, q / p.local->direction_count, q % p.local->direction_count,
                   direction.data());
    const Real each = sum * static_cast<Real>(p.local->local_step_count) / static_cast<Real>(count);
    values[q] = direction[0] > 0 ? each : -each;
  }
  return values;
}

// The version and the memory of a server that has taken in an update which fits by its weight alone, and more updates,
// which fit at any weight. A node begins with these where the import of another release has let them in.
struct FullMean {
  FullMean() : p(parameters_of(kForms[0])) {
    p.local->group_count = 1;
    Single single(p);
    const Real most = std::ldexp(Real{1}, 31 - static_cast<int>(p.fold->fold_scale_log2));
    const VersionRecord record = single.close({{0, 0, values_of_sum(p, 3 * most)}});
    version = {record.version, encode_published(record, Trigger::kGoal)};
    const KeptUpdate kept = single.ledger.keeper()->memory().at(0);
    memory = {kept.device, kept.base_version, encode_kept(kept)};
    FollowedRun front(p, kDevices);
    EXPECT_EQ(front.follow(version), Status::kOk);
    for (uint32_t device = 1; device < kDevices; ++device) {
      const Said said = {device, 0, values_of_sum(p, most * 0.99F)};
      EXPECT_EQ(front.ledger().add_fold(input_of(p, 1, said)), Status::kOk);
    }
    front.take_part(&batch);
  }
  RunParameters p;
  PublishedVersion version;
  StoredUpdate memory;
  EngineBatch batch;
};

TEST(FollowedMemory, MakesNoRecordThatNoNodeCanFollow) {
  const FullMean full;
  FollowedRun leader(full.p, kDevices);
  ASSERT_EQ(leader.follow(full.version), Status::kOk);
  ASSERT_EQ(leader.remember(full.memory), Status::kOk);
  ASSERT_EQ(leader.end_memory(), Status::kOk);
  ASSERT_EQ(full.batch.updates.size(), kDevices - 1);
  for (const StoredUpdate& update : full.batch.updates) {
    ASSERT_EQ(leader.add_update(update), Status::kOk);
  }
  EXPECT_EQ(leader.close(), std::nullopt);
  leader.reopen();
  EXPECT_EQ(leader.version(), 1U);
}

// Such a leader publishes nothing, and leads no more.
TEST(FollowedMemory, ALeaderPublishesNoRecordThatNoNodeCanFollow) {
  FullMean full;
  FakeHarness engine;
  const std::unique_ptr<EngineNode> node = engine.connect("a");
  full.batch.epoch = engine.wait(*node, node->join()).front.epoch;
  const uint64_t term = engine.wait(*node, node->take_lease()).lease.term;
  EngineBatch first;
  first.epoch = full.batch.epoch;
  first.number = 1;
  first.on_time_count = 1;
  first.updates = {full.memory};
  ASSERT_EQ(engine.wait(*node, node->commit(first)).outcome, EngineOutcome::kCommitted);
  ASSERT_EQ(engine.wait(*node, node->seal(term, 0)).outcome, EngineOutcome::kCommitted);
  ASSERT_EQ(engine.wait(*node, node->publish(term, 1, full.version)).outcome, EngineOutcome::kCommitted);
  full.batch.number = 2;
  full.batch.open_version = 1;
  full.batch.on_time_count = kDevices;
  ASSERT_EQ(engine.wait(*node, node->commit(full.batch)).outcome, EngineOutcome::kCommitted);
  engine.pass_lease();
  TestLeader leader(&engine, "l", full.p);
  for (uint64_t now_ms = 5000; !leader.leader.is_broken() && now_ms < 7000; now_ms += 100) {
    leader.tick(now_ms);
  }
  EXPECT_EQ(leader.leader.trouble(), NodeTrouble::kUnfit);
  EXPECT_EQ(leader.leader.counters().published, 0U);
  EXPECT_EQ(engine.engine().open_version(), 1U);
}

TEST(FollowedMemory, ATaskSaysWhatTheMeanHolds) {
  const RunParameters p = parameters_of(kForms[0]);
  Nodes nodes(p);
  nodes.take_in(said_in(p, 0));
  nodes.publish(nodes.close());
  const FollowedRun& run = *nodes.fronts[0];
  EXPECT_EQ(run.memory_stamp(3, {}), 0U) << "nothing was accepted yet";
  EXPECT_EQ(run.memory_stamp(3, {{0, 1}, {}}), 1U);
  EXPECT_EQ(run.memory_stamp(3, {{1, 2}, {0, 1}}), 1U) << "the last one is in no version yet";
  EXPECT_EQ(run.memory_stamp(3, {{1, 2}, {}}), 0U);
}

// A memory is proved by the mean of the replica: what is missing, doubled or changed is found before a version is made.
TEST(FollowedMemory, FindsAnotherMemory) {
  const RunParameters p = parameters_of(kForms[0]);
  Nodes nodes(p);
  nodes.take_in(said_in(p, 0));
  nodes.publish(nodes.close());
  const auto end = [&](const std::map<uint32_t, StoredUpdate>& memory) {
    nodes.change_leader();
    nodes.leader->begin_memory();
    Status status = Status::kOk;
    for (const auto& [device, update] : memory) {
      status = status == Status::kOk ? nodes.leader->remember(update) : status;
    }
    return status == Status::kOk ? nodes.leader->end_memory() : status;
  };
  EXPECT_EQ(end(nodes.memory), Status::kOk);
  std::map<uint32_t, StoredUpdate> other = nodes.memory;
  other.erase(2);
  EXPECT_EQ(end(other), Status::kDataCorrupt) << "one is missing";
  other = nodes.memory;
  KeptUpdate kept;
  ASSERT_EQ(decode_kept(other[1].bytes, &kept), Status::kOk);
  kept.shares[0] += 1 << 20;
  other[1].bytes = encode_kept(kept);
  EXPECT_EQ(end(other), Status::kDataCorrupt) << "one is changed";
  other = nodes.memory;
  std::swap(other[0].bytes, other[1].bytes);
  EXPECT_EQ(end(other), Status::kDataCorrupt) << "another device's";
  other = nodes.memory;
  other[kDevices] = other[0];
  EXPECT_EQ(end(other), Status::kDataCorrupt) << "one comes twice";
}

TEST(FollowedMemory, RefusesUpdatesThatNoFrontTakesIn) {
  const RunParameters p = parameters_of(kForms[0]);
  Nodes nodes(p);
  nodes.take_in({said_by(p, 1, 0)});
  nodes.read_memory();
  const StoredUpdate good = nodes.open.begin()->second;
  const auto changed = [&](const auto& change) {
    KeptUpdate kept;
    EXPECT_EQ(decode_kept(good.bytes, &kept), Status::kOk);
    change(kept);
    return nodes.leader->add_update({kept.device, kept.base_version, encode_kept(kept)});
  };
  EXPECT_EQ(changed([](KeptUpdate& kept) { kept.base_version = 1; }), Status::kDataCorrupt) << "not there yet";
  EXPECT_EQ(changed([](KeptUpdate& kept) { kept.shares.pop_back(); }), Status::kDataCorrupt);
  EXPECT_EQ(changed([](KeptUpdate& kept) { kept.samples = 2; }), Status::kDataCorrupt) << "all weigh the same here";
  EXPECT_EQ(changed([](KeptUpdate& kept) { kept.owner += 1; }), Status::kDataCorrupt);
  EXPECT_EQ(changed([](KeptUpdate& kept) { kept.weight = 0; }), Status::kDataCorrupt);
  EXPECT_EQ(changed([](KeptUpdate& kept) { kept.shares.assign(kept.shares.size(), INT32_MAX); }), Status::kDataCorrupt)
      << "it does not fit alone";
  EXPECT_EQ(nodes.leader->add_update({2, 0, good.bytes}), Status::kDataCorrupt) << "another device's";
  EXPECT_EQ(nodes.leader->add_update(good), Status::kOk);
  EXPECT_EQ(nodes.leader->add_update(good), Status::kProtocolError) << "it counts already";
}

// A task has so many steps, and an update of more would weigh more in K_eff.
TEST(FollowedMemory, RefusesMoreStepsThanATaskHas) {
  for (const Form& form : kForms) {
    const RunParameters p = parameters_of(form);
    Nodes nodes(p);
    nodes.take_in({said_by(p, 1, 0)});
    nodes.read_memory();
    KeptUpdate kept;
    ASSERT_EQ(decode_kept(nodes.open.begin()->second.bytes, &kept), Status::kOk);
    ++kept.steps_done;
    if (!form.is_tangent) {
      kept.shares.resize(size_t{kept.steps_done} * p.local->direction_count);
    }
    EXPECT_EQ(nodes.leader->add_update({1, 0, encode_kept(kept)}), Status::kDataCorrupt) << form.is_tangent;
    EXPECT_EQ(nodes.leader->add_update(nodes.open.begin()->second), Status::kOk);
  }
}

TEST(FollowedMemory, RefusesAnUpdateThatIsTooOld) {
  for (const LatePolicy late : {LatePolicy::kDrop, LatePolicy::kWeight}) {
    RunParameters p = parameters_of(kForms[0]);
    p.trigger->late = late;
    const uint32_t staleness_max = late == LatePolicy::kDrop ? 0 : p.trigger->staleness_max;
    Nodes nodes(p);
    for (uint32_t version = 0; version <= staleness_max; ++version) {
      nodes.take_in({said_by(p, 0, version)});
      nodes.publish(nodes.close());
    }
    const uint32_t version = nodes.leader->version();
    nodes.take_in({said_by(p, 1, version - staleness_max), said_by(p, 2, version - staleness_max - 1)});
    nodes.read_memory();
    ASSERT_EQ(nodes.open.size(), 2U);
    for (const auto& [place, update] : nodes.open) {
      EXPECT_EQ(nodes.leader->add_update(update), place.first == 1 ? Status::kOk : Status::kDataCorrupt);
    }
  }
}

TEST(FollowedMemory, ReadsItsBytesAndNoOthers) {
  const KeptUpdate update = {3, 9, 4, 2, kStalenessOne / 2, 17, kClipScaleOne - 5, {1, -2, INT32_MAX, INT32_MIN + 1}};
  const std::vector<uint8_t> bytes = encode_kept(update);
  EXPECT_EQ(bytes.size(), kept_bytes(update.shares.size()));
  KeptUpdate read;
  EXPECT_EQ(decode_kept(bytes, &read), Status::kOk);
  EXPECT_EQ(read, update);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(decode_kept({bytes.data(), size}, &read), Status::kDataCorrupt) << size;
  }
  std::vector<uint8_t> longer = bytes;
  longer.push_back(0);
  EXPECT_EQ(decode_kept(longer, &read), Status::kDataCorrupt);
  longer = bytes;
  longer[0] = 2;
  EXPECT_EQ(decode_kept(longer, &read), Status::kDataCorrupt) << "a form of a later release";
}

// A front takes what fits whatever others take in, since it does not see that.
TEST(FollowedMemory, AFrontTakesNoUpdateOfTheWholeRange) {
  const RunParameters p = parameters_of({CorrectionForm::kMemory, true, false});
  Nodes nodes(p);
  Said said = said_by(p, 1, 0);
  said.values.assign(said.values.size(), std::ldexp(Real{1}, 31 - static_cast<int>(p.fold->fold_scale_log2)) * 0.9999F);
  RunLedger& front = nodes.fronts[0]->ledger();
  EXPECT_EQ(front.add_fold(input_of(p, 0, said)), Status::kOk);
  said.device = 2;
  said.values.assign(said.values.size(), std::ldexp(Real{1}, 31 - static_cast<int>(p.fold->fold_scale_log2)));
  EXPECT_EQ(front.add_fold(input_of(p, 0, said)), Status::kOutOfRange);
  const RunParameters scalars = parameters_of(kForms[0]);
  Nodes others(scalars);
  Said scalar = said_by(scalars, 1, 0);
  const Real most = std::ldexp(Real{1}, 30 - static_cast<int>(scalars.fold->fold_scale_log2));
  scalar.values.assign(scalar.values.size(), most * static_cast<Real>(scalars.local->local_step_count));
  EXPECT_EQ(others.fronts[0]->ledger().add_fold(input_of(scalars, 0, scalar)), Status::kOutOfRange)
      << "its directions add up";
}

}  // namespace
}  // namespace gradstream
