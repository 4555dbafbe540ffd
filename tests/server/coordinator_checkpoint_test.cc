// A checkpoint and the records behind it give the state that all records give, wherever the cut is.
#include <cstring>

#include <gtest/gtest.h>

#include "runtime/base/crc32c.h"
#include "server/coordinator/coordinator.h"
#include "server/run/average_keys.h"
#include "server/run/check_parameters.h"
#include "server/run/fold_keys.h"
#include "server/run/participation_keys.h"
#include "server/run/run_core.h"
#include "tests/support/units_server.h"

namespace gradstream {
namespace {

struct Kind {
  std::string name;
  RunParameters parameters;
};

// Each rule, and each part of a state that goes from version to version.
std::vector<Kind> kinds() {
  std::vector<Kind> all;
  const auto add = [&all](const char* name, RunParameters p, auto change) {
    change(p);
    EXPECT_EQ(check_parameters(p).sentence, "") << name;
    all.push_back({name, p});
  };
  const auto memory = [](RunParameters& p) {
    p.local->correction_form = CorrectionForm::kMemory;
    p.fold->fold_weight = FoldWeight::kUniform;
  };
  add("projection", deadline_parameters(), [](RunParameters&) {});
  add("mean gradient", scalar_parameters(), [](RunParameters& p) {
    p.local->estimator = EstimatorId::kAnalyticGradient;
    p.local->correction_form = CorrectionForm::kNone;
  });
  add("gradient stream", tangent_parameters(), [](RunParameters&) {});
  add("average", tangent_parameters(), [](RunParameters& p) { p.average->average_period = 2; });
  add("svrg", tangent_parameters(), [](RunParameters& p) {
    p.local->solver = SolverId::kSvrg;
    p.local->batch_mode = BatchMode::kAll;
    p.local->barzilai_borwein = BarzilaiBorwein::kFirst;
  });
  add("capped", scalar_parameters(), [](RunParameters& p) { p.fold->weight_share_max = 0.5F; });
  for (const ClipNorm norm : {ClipNorm::kMedian, ClipNorm::kTrailing}) {
    const auto clip = [norm](RunParameters& p) {
      p.fold.keys().clip_norm = norm;
      p.fold.keys().clip_factor = 0.75F;  // half of all updates are clipped
    };
    add("clip", deadline_parameters(), clip);
    add("clip of tangents", tangent_parameters(), clip);
  }
  add("memory", scalar_parameters(), memory);
  add("memory, clip", scalar_parameters(), [&](RunParameters& p) {
    memory(p);
    p.fold.keys().clip_norm = ClipNorm::kTrailing;
    p.fold.keys().clip_factor = 0.75F;
  });
  add("memory, dense", scalar_parameters(), [&](RunParameters& p) {
    memory(p);
    p.local->estimator = EstimatorId::kAnalyticGradient;
  });
  add("memory, samples", scalar_parameters(), [&](RunParameters& p) {
    memory(p);
    p.fold->fold_weight = FoldWeight::kSampleCount;
  });
  add("delayed", asynchronous_parameters(), [](RunParameters&) {});
  add("delayed, momentum", asynchronous_parameters(), [](RunParameters& p) {
    p.delay->delay_rule = DelayRule::kAsgd;
    p.delay->server_momentum = 0.25F;
    p.delay->dominance_penalty = true;
  });
  add("delayed, moments", asynchronous_parameters(), [](RunParameters& p) {
    p.model->manifold = ManifoldId::kEuclidean;
    p.delay->delay_rule = DelayRule::kDcAdaptive;
    p.delay->delay_lambda = 0.5F;
  });
  add("cohort", scalar_parameters(), [](RunParameters& p) {
    p.local->correction_form = CorrectionForm::kNone;
    p.cohort->participation = Participation::kSchemeOne;
    p.cohort->cohort_size = 2;
  });
  return all;
}

// Some devices slow, one away at times, some answers wrong: with tasks that end in every way.
void live(TestServer* server, uint32_t turns) {
  server->coordinator->set_checkpoints(1, 0);
  server->start();
  server->join(4);
  for (uint32_t turn = 0; turn < turns; ++turn) {
    for (uint32_t device = 0; device < 4; ++device) {
      if ((turn + device) % 5 == 4) {
        continue;
      }
      server->pull(device);
      if (server->task(device) != nullptr && (turn + 1) % (device / 2 + 1) == 0) {
        TestUpload upload = server->good_upload(device);
        upload.crc_error = (turn + device) % 7 == 6 ? 1 : 0;
        server->upload(device, upload);
      }
    }
    server->tick_at(server->now_ms + 400);
  }
}

void expect_same_at_every_cut(const TestServer& server, const std::string& name) {
  const std::vector<JournalRecord>& records = server.store.records();
  ASSERT_GE(server.checkpoints.size(), 3U) << name;
  for (size_t first = 0; first < server.checkpoints.size(); ++first) {
    Coordinator restored(7, server.parameters, server.names);
    const Checkpoint& checkpoint = server.checkpoints[first];
    ASSERT_EQ(restored.restore(checkpoint.bytes), Status::kOk) << name;
    size_t next = first + 1;
    for (size_t i = checkpoint.head.sequence; i < records.size(); ++i) {
      ASSERT_EQ(restored.replay(records[i]), Status::kOk) << name << " record " << i;
      if (const auto state = server.states.find(i + 1); state != server.states.end()) {
        ASSERT_EQ(restored.state_text(), state->second) << name << " record " << i;
      }
      if (next < server.checkpoints.size() && server.checkpoints[next].head.sequence == i + 1) {
        ASSERT_EQ(restored.checkpoint().bytes, server.checkpoints[next].bytes) << name << " checkpoint " << next;
        ++next;
      }
    }
    EXPECT_EQ(next, server.checkpoints.size());
  }
  Coordinator whole(7, server.parameters, server.names);
  size_t next = 0;
  for (const JournalRecord& record : records) {
    ASSERT_EQ(whole.replay(record), Status::kOk);
    if (next < server.checkpoints.size() && server.checkpoints[next].head.sequence == record.sequence()) {
      const Checkpoint checkpoint = whole.checkpoint();
      ASSERT_EQ(checkpoint.bytes, server.checkpoints[next].bytes) << name << ": a replay of all records";
      EXPECT_EQ(checkpoint.head, server.checkpoints[next].head);
      ++next;
    }
  }
}

TEST(CoordinatorCheckpoint, ACheckpointAndItsTailAreTheWholeJournal) {
  for (const Kind& kind : kinds()) {
    TestServer server(kind.parameters);
    live(&server, 14);
    expect_same_at_every_cut(server, kind.name);
  }
}

TEST(CoordinatorCheckpoint, TheStagesBeforeTrainingAreInIt) {
  for (const ClipNorm norm : {ClipNorm::kNone, ClipNorm::kTrailing}) {
    RunParameters parameters = units_run();
    parameters.fold.keys().clip_norm = norm;
    UnitsServer server(parameters);
    server.coordinator->set_checkpoints(1, 0);
    server.start();
    server.join(4);
    for (int stage = 0; stage < 3; ++stage) {
      server.stage_round(4);
    }
    for (int i = 0; i < 3; ++i) {
      server.round(4);
    }
    expect_same_at_every_cut(server, "units");
  }
}

// A restored server goes on as one that was never away.
TEST(CoordinatorCheckpoint, ARestoredServerGoesOn) {
  TestServer straight(scalar_parameters());
  straight.coordinator->set_checkpoints(1, 0);
  straight.start();
  straight.join(4);
  straight.round(4);
  straight.round(4);
  ASSERT_EQ(straight.checkpoints.size(), 2U);
  TestServer other(straight.parameters);
  other.store = straight.store;
  ASSERT_EQ(other.coordinator->restore(straight.checkpoints.back().bytes), Status::kOk);
  EXPECT_EQ(other.coordinator->replayed_rounds(), straight.coordinator->replayed_rounds());
  other.now_ms = straight.now_ms;
  other.start();
  other.join(4);
  straight.join(4);
  for (TestServer* const server : {&straight, &other}) {
    server->round(4);
  }
  EXPECT_EQ(other.coordinator->durable_version(), 3U);
  EXPECT_EQ(other.coordinator->digest(), straight.coordinator->digest());
}

TEST(CoordinatorCheckpoint, WhatIsDamagedOrOfAnotherRunIsNotTaken) {
  TestServer server(scalar_parameters());
  server.coordinator->set_checkpoints(1, 0);
  server.start();
  server.join(4);
  server.round(4);
  ASSERT_EQ(server.checkpoints.size(), 1U);
  const std::vector<uint8_t> good = server.checkpoints[0].bytes;
  Coordinator another_run(8, server.parameters, server.names);
  EXPECT_EQ(another_run.restore(good), Status::kDataCorrupt);
  for (size_t i = 0; i < good.size(); i += 7) {
    std::vector<uint8_t> bad = good;
    bad[i] ^= 0x10;
    Coordinator damaged(7, server.parameters, server.names);
    EXPECT_EQ(damaged.restore(bad), Status::kDataCorrupt) << i;
    Coordinator torn(7, server.parameters, server.names);
    EXPECT_EQ(torn.restore(std::span<const uint8_t>(good).first(i)), Status::kDataCorrupt) << i;
  }
}

// Of another release, another arithmetic, another place in the journal: the checksum holds.
TEST(CoordinatorCheckpoint, NoFieldOfItsHeadMayBeAnother) {
  TestServer server(scalar_parameters());
  server.coordinator->set_checkpoints(1, 0);
  server.start();
  server.join(4);
  server.round(4);
  ASSERT_EQ(server.checkpoints.size(), 1U);
  constexpr size_t kHeadSize = 4 + 1 + 1 + 4 + 8 + 4;  // magic, form, size of Real, run, sequence, version
  for (size_t i = 0; i < kHeadSize; ++i) {
    std::vector<uint8_t> bad = server.checkpoints[0].bytes;
    bad[i] ^= 0x40;
    const size_t body_size = bad.size() - sizeof(uint32_t);
    const uint32_t checksum = crc32c(0, bad.data(), body_size);
    std::memcpy(bad.data() + body_size, &checksum, sizeof checksum);
    Coordinator other(7, server.parameters, server.names);
    EXPECT_EQ(other.restore(bad), Status::kDataCorrupt) << i;
  }
}

TEST(CoordinatorCheckpoint, OneIsDueByUpdatesAndByBytes) {
  TestServer server(scalar_parameters());
  server.coordinator->set_checkpoints(8, 0);
  server.start();
  server.join(4);
  for (int i = 0; i < 6; ++i) {
    server.round(4);
  }
  EXPECT_EQ(server.checkpoints.size(), 3U) << "every second round of four";
  TestServer large(scalar_parameters());
  large.coordinator->set_checkpoints(1, 1000);
  large.start();
  large.join(4);
  for (int i = 0; i < 6; ++i) {
    large.round(4);
  }
  EXPECT_EQ(large.checkpoints.size(), 1U) << "the records since are not a thousand times as long";
}

// `run forget` keeps such a checkpoint.
TEST(CoordinatorCheckpoint, HasNoFiguresOfAForgottenDevice) {
  RunParameters p = scalar_parameters();
  p.fold.keys().clip_norm = ClipNorm::kMedian;
  TestServer server(p);
  server.start();
  server.join(4);
  for (uint32_t device = 0; device < 4; ++device) {
    server.upload(device, server.good_upload(device));
  }
  server.coordinator->forget_figures(2);
  Coordinator restored(7, server.parameters, server.names);
  ASSERT_EQ(restored.restore(server.coordinator->checkpoint().bytes), Status::kOk);
  const std::vector<DeviceStatus> statuses = restored.device_statuses();
  EXPECT_GT(statuses[1].oddity.norm_ratio, 0);
  EXPECT_EQ(statuses[2].oddity.norm_ratio, 0);
}

}  // namespace
}  // namespace gradstream
