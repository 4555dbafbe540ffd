// What an upload is worth: its verdict, once and for all, the reason of a refusal, and the weight of late or partial
// work.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "server/coordinator/coordinator.h"
#include "server/run/fold_keys.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

// ---- Exactly once ----

// Reset before it had saved what follows from the Ack, while its next task had already been given up.
TEST(CoordinatorUploads, AnAcceptedUpdateKeepsItsVerdictWhenTheNextTaskIsAbandoned) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  const TestUpload first = server.good_upload(0);
  for (uint32_t device = 0; device < 4; ++device) {
    server.upload(device, server.good_upload(device));
  }
  server.pull(0);
  ASSERT_NE(server.task(0), nullptr);
  ASSERT_EQ(server.task(0)->task_sequence, 2U);
  server.hello(0);
  server.pull(0, false, 0, 0);  // half a snapshot
  ASSERT_EQ(server.task(0)->task_sequence, 3U);
  server.hello(0);
  server.upload(0, first);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(server.ack(0)->version, 1U);
  EXPECT_TRUE(server.ack(0)->duplicate);
}

// A memory with a clip whose radius the first version has given.
RunParameters clipped_memory() {
  RunParameters p = scalar_parameters();
  p.local->correction_form = CorrectionForm::kMemory;
  p.fold->fold_weight = FoldWeight::kUniform;
  p.fold.keys().clip_norm = ClipNorm::kTrailing;
  return p;
}

// So long that a clip leaves little of it.
TestUpload long_upload(const TestServer& server, uint32_t device) {
  TestUpload upload = server.good_upload(device);
  for (Real& value : upload.values) {
    value *= 50;
  }
  return upload;
}

// A device corrects by what was left of its update. So each Ack of it says the same, whatever was lost in between.
TEST(CoordinatorUploads, EachAckOfAClippedUpdateSaysTheSameScale) {
  TestServer server(clipped_memory());
  server.start();
  server.join(4);
  const TestUpload first = long_upload(server, 3);
  server.upload(3, first);
  EXPECT_EQ(server.ack(3)->clip_scale, 0U) << "the first version is not clipped";
  for (uint32_t device = 0; device < 3; ++device) {
    server.upload(device, server.good_upload(device));
  }
  for (uint32_t device = 0; device < 4; ++device) {
    server.pull(device);
  }
  const TestUpload second = long_upload(server, 0);
  server.upload(0, second);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  const uint32_t scale = server.ack(0)->clip_scale;
  EXPECT_GT(scale, 0U);
  EXPECT_LT(scale, kClipScaleOne / 2);
  const auto expect_again = [&](const char* when) {
    server.hello(0);
    server.upload(0, second);
    EXPECT_TRUE(server.ack(0)->duplicate) << when;
    EXPECT_EQ(server.ack(0)->clip_scale, scale) << when;
  };
  expect_again("a lost Ack");
  server.restart();
  expect_again("a restart of the server");
  for (uint32_t device = 1; device < 4; ++device) {
    server.hello(device);
    server.pull(device);
    server.upload(device, server.good_upload(device));
    EXPECT_EQ(server.ack(device)->clip_scale, 0U) << "device " << device;
  }
  expect_again("its version has closed");
  server.restart();
  expect_again("and the server was started anew");
  server.upload(3, first);
  EXPECT_EQ(server.ack(3)->clip_scale, 0U);
}

// A task that was given up and its successor are of one version: the memory may count either's bytes for the same.
TEST(CoordinatorUploads, ASupersededUpdateIsToldTheScaleThatTheMemoryHolds) {
  TestServer server(clipped_memory());
  server.start();
  server.join(4);
  server.round(4);
  server.pull(0);
  TestUpload given_up = long_upload(server, 0);
  server.hello(0);
  server.pull(0, false, 0, 0);
  server.upload(0, long_upload(server, 0));
  const uint32_t scale = server.ack(0)->clip_scale;
  EXPECT_GT(scale, 0U);
  server.upload(0, given_up);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_SUPERSEDED);
  EXPECT_EQ(server.ack(0)->clip_scale, scale);
}

TEST(CoordinatorUploads, WithoutAMemoryNoAckSaysAScale) {
  RunParameters p = clipped_memory();
  p.local->correction_form = CorrectionForm::kLocal;
  TestServer server(p);
  server.start();
  server.join(4);
  server.round(4);
  server.pull(0);
  server.upload(0, long_upload(server, 0));
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(server.ack(0)->clip_scale, 0U);
}

// It would correct by its whole update.
TEST(CoordinatorUploads, ADeviceThatKnowsNoScaleIsNotCapable) {
  TestServer server(clipped_memory());
  server.start();
  gs_Hello hello = good_hello(10);
  hello.capabilities.features &= ~(1U << static_cast<uint32_t>(gs_Feature_FEATURE_CLIP_SCALE));
  server.hello(0, hello);
  server.pull(0, false, 0, 0);
  EXPECT_EQ(server.task(0), nullptr);
  EXPECT_EQ(server.coordinator->device_statuses()[0].image.lacks, "feature:clip_scale");
  RunParameters p = clipped_memory();
  p.fold.keys().clip_norm = ClipNorm::kNone;
  TestServer unclipped(p);
  unclipped.start();
  unclipped.hello(0, hello);
  unclipped.pull(0, false, 0, 0);
  EXPECT_NE(unclipped.task(0), nullptr);
}

TEST(CoordinatorUploads, DuplicatesGetTheFirstVerdict) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  const TestUpload first = server.good_upload(0);
  server.upload(0, first);
  EXPECT_FALSE(server.ack(0)->duplicate);
  const std::string before = server.coordinator->state_text();
  server.upload(0, first);
  EXPECT_TRUE(server.ack(0)->duplicate);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(server.ack(0)->version, 1U);
  EXPECT_EQ(server.coordinator->state_text(), before);
  for (uint32_t device = 1; device < 4; ++device) {
    server.upload(device, server.good_upload(device));
  }
  server.pull(0);
  server.upload(0, first);  // sequence 2 is open, 1 was judged
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_TRUE(server.ack(0)->duplicate);
  server.upload(0, server.good_upload(0));
  server.upload(0, first);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_SUPERSEDED);
  TestUpload unknown = server.good_upload(0);
  unknown.task_sequence = 99;
  server.upload(0, unknown);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_REFUSED);
  EXPECT_EQ(server.ack(0)->reason, gs_Reason_REASON_UNKNOWN_TASK);
}

TEST(CoordinatorUploads, AnUpdateThatChangesUnderItsTaskIsNamedAndCountsNoMore) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  const TestUpload first = server.good_upload(0);
  server.upload(0, first);
  server.upload(0, first);
  EXPECT_EQ(server.coordinator->counters().updates_changed, 0U);
  const std::string before = server.coordinator->state_text();
  TestUpload other = first;
  other.values[0] += 1;
  server.upload(0, other);
  EXPECT_TRUE(server.ack(0)->duplicate);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(server.coordinator->counters().updates_changed, 1U);
  EXPECT_TRUE(server.has_log("update_changed device=d0 task=1 remedy=\"look at its storage"));
  EXPECT_EQ(server.coordinator->state_text(), before);
  // The next task has another content by right.
  for (uint32_t device = 1; device < 4; ++device) {
    server.upload(device, server.good_upload(device));
  }
  server.pull(0);
  server.upload(0, server.good_upload(0));
  EXPECT_EQ(server.coordinator->counters().updates_changed, 1U);
}

TEST(CoordinatorUploads, ASupersededVerdictWaitsForTheRecordsThatSupersede) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  const TestUpload first = server.good_upload(0);
  for (uint32_t device = 0; device < 4; ++device) {
    server.upload(device, server.good_upload(device));
  }
  server.pull(0);
  server.is_auto_persist = false;
  server.upload(0, server.good_upload(0));
  server.hello(0);
  server.upload(0, first);
  EXPECT_EQ(server.ack(0), nullptr) << "the record of task 2 is not durable";
  server.persist();
  ASSERT_NE(server.ack(0), nullptr);
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_SUPERSEDED);
}

// ---- Refusals ----

TEST(CoordinatorUploads, RefusesEachBadUploadByItsName) {
  struct Case {
    gs_Reason reason;
    void (*spoil)(TestUpload*);
  };
  const Case cases[] = {
      {gs_Reason_REASON_WRONG_VERSION, [](TestUpload* u) { u->base_version = 5; }},
      {gs_Reason_REASON_WRONG_ENCODING, [](TestUpload* u) { u->encoding = Encoding::kBf16; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](TestUpload* u) { u->direction_count = 6; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](TestUpload* u) { u->steps_done = 4; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](TestUpload* u) { u->values.resize(4000); }},
      {gs_Reason_REASON_WRONG_SHAPE, [](TestUpload* u) { u->kind = StreamKind::kTangentBlock; }},
      {gs_Reason_REASON_TOO_FEW_STEPS,
       [](TestUpload* u) {
         u->steps_done = 1;
         u->values.resize(4);
       }},
      {gs_Reason_REASON_CORRUPT, [](TestUpload* u) { u->crc_error = 1; }},
      {gs_Reason_REASON_OUT_OF_RANGE, [](TestUpload* u) { u->values[3] = 1000; }},
  };
  for (const Case& spoilt : cases) {
    TestServer server(scalar_parameters());
    server.start();
    server.join(1);
    TestUpload upload = server.good_upload(0);
    spoilt.spoil(&upload);
    server.upload(0, upload);
    ASSERT_NE(server.ack(0), nullptr);
    EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_REFUSED);
    EXPECT_EQ(server.ack(0)->reason, spoilt.reason);
    EXPECT_TRUE(server.has_log(std::string("reason=") + reason_name(spoilt.reason)));
    server.pull(0);
    EXPECT_EQ(server.task(0)->task_sequence, 2U);
  }
}

// ---- What an update was trained from ----

constexpr uint64_t kNonce = 0x1122334455667788ULL;

struct NoncedServer : TestServer {
  explicit NoncedServer(uint64_t nonce) : TestServer(scalar_parameters()) {
    coordinator = std::make_unique<Coordinator>(7, parameters, names, 1, nonce);
    start();
    join(4);
  }
  // The verdict's reason of device 0's update, whose head says that it was trained from this model.
  gs_Reason reason_of(uint64_t base_digest) {
    TestUpload upload = good_upload(0);
    upload.base_digest = base_digest;
    this->upload(0, upload);
    EXPECT_EQ(ack(0)->verdict,
              ack(0)->reason == gs_Reason_REASON_NONE ? gs_Verdict_VERDICT_FOLDED : gs_Verdict_VERDICT_REFUSED);
    return ack(0)->reason;
  }
};

// A device of an older release says no digest, or the model's alone.
TEST(CoordinatorUploads, AnUpdateOfTheVersionsModelCounts) {
  for (const uint64_t nonce : {uint64_t{0}, kNonce}) {
    EXPECT_EQ(NoncedServer(nonce).reason_of(0), gs_Reason_REASON_NONE);
    NoncedServer plain(nonce);
    EXPECT_EQ(plain.reason_of(plain.coordinator->digest()), gs_Reason_REASON_NONE);
    NoncedServer mixed(nonce);
    EXPECT_EQ(mixed.reason_of(mixed.coordinator->digest() ^ nonce), gs_Reason_REASON_NONE);
  }
}

TEST(CoordinatorUploads, AnUpdateOfAnotherModelIsRefusedAndItsDeviceGetsAnotherTask) {
  NoncedServer server(kNonce);
  EXPECT_EQ(server.reason_of(server.coordinator->digest() ^ 1), gs_Reason_REASON_WRONG_VERSION);
  EXPECT_TRUE(server.has_log(std::string("reason=") + reason_name(gs_Reason_REASON_WRONG_VERSION)));
  server.pull(0);
  EXPECT_EQ(server.task(0)->task_sequence, 2U);
  EXPECT_EQ(server.reason_of(server.coordinator->digest() ^ kNonce), gs_Reason_REASON_NONE);
}

// A server that was set up anew with the same file and keys has the same model at version 0, and issues the same task.
TEST(CoordinatorUploads, AnUpdateThatWasRecordedFromAnotherRunIsRefused) {
  NoncedServer old_server(kNonce);
  NoncedServer new_server(kNonce + 1);
  ASSERT_EQ(old_server.coordinator->digest(), new_server.coordinator->digest());
  ASSERT_EQ(old_server.task(0)->task_sequence, new_server.task(0)->task_sequence);
  const uint64_t recorded = old_server.coordinator->digest() ^ kNonce;
  EXPECT_EQ(old_server.reason_of(recorded), gs_Reason_REASON_NONE);
  EXPECT_EQ(new_server.reason_of(recorded), gs_Reason_REASON_WRONG_VERSION);
}

// A late update is compared with the model of its own version.
TEST(CoordinatorUploads, ALateUpdateIsComparedWithItsOwnVersion) {
  for (const bool is_its_own : {true, false}) {
    RunParameters p = scalar_parameters();
    p.trigger->buffer_size = 3;
    p.trigger->late = LatePolicy::kWeight;
    TestServer server(p);
    server.start();
    server.join(4);
    TestUpload late = server.good_upload(3);
    late.base_digest = server.coordinator->digest();
    for (uint32_t device = 0; device < 3; ++device) {
      server.upload(device, server.good_upload(device));
    }
    ASSERT_EQ(server.coordinator->durable_version(), late.base_version + 1);
    late.base_digest = is_its_own ? late.base_digest : server.coordinator->digest();
    server.upload(3, late);
    EXPECT_EQ(server.ack(3)->reason, is_its_own ? gs_Reason_REASON_NONE : gs_Reason_REASON_WRONG_VERSION);
  }
}

TEST(CoordinatorUploads, AnUploadThatIsNotANumberIsRefused) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(1);
  std::vector<DeviceMessage> messages = upload_messages(server.good_upload(0));
  gs_UpdateScalars& piece = messages[0].body.update_scalars;
  std::memset(piece.values.bytes, 0xff, 4);  // NaN
  piece.crc32c = crc32c(0, piece.values.bytes, piece.values.size);
  server.send(0, messages[0]);
  EXPECT_EQ(server.ack(0)->reason, gs_Reason_REASON_NOT_FINITE);
}

TEST(CoordinatorUploads, ALossThatIsNoNumberIsRefusedByName) {
  for (const RunParameters& p : {scalar_parameters(), tangent_parameters()}) {
    TestServer server(p);
    server.start();
    server.join(2);
    const uint64_t digest = server.coordinator->model().digest();
    const CoordinatorCounters& counters = server.coordinator->counters();
    TestUpload upload = server.good_upload(0);
    upload.loss_after = NAN;
    server.upload(0, upload);
    ASSERT_NE(server.ack(0), nullptr) << "the session goes on";
    EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_REFUSED);
    EXPECT_EQ(server.ack(0)->reason, gs_Reason_REASON_NOT_FINITE);
    EXPECT_TRUE(server.has_log("update_refused device=d0 task=1 reason=not_finite"));
    EXPECT_EQ(counters.updates_loss_not_finite, 1U);
    EXPECT_EQ(counters.refusals[gs_Reason_REASON_NOT_FINITE], 1U);
    EXPECT_EQ(server.coordinator->answers_in(), 0U);
    EXPECT_EQ(server.coordinator->model().digest(), digest);
    server.upload(0, upload);
    EXPECT_TRUE(server.ack(0)->duplicate);
    EXPECT_EQ(counters.updates_loss_not_finite, 1U);
    server.pull(0);
    EXPECT_EQ(server.task(0)->task_sequence, 2U) << "and it gets another task";
    upload = server.good_upload(1);
    upload.loss_before = -INFINITY;
    server.upload(1, upload);
    EXPECT_EQ(server.ack(1)->reason, gs_Reason_REASON_NOT_FINITE);
    EXPECT_EQ(counters.updates_loss_not_finite, 2U);
    // Values that are no numbers count by their reason alone.
    server.pull(1);
    std::vector<DeviceMessage> messages = upload_messages(server.good_upload(1));
    if (p.stream() == StreamKind::kScalarStream) {
      gs_UpdateScalars& piece = messages[0].body.update_scalars;
      std::memset(piece.values.bytes, 0xff, 4);
      piece.crc32c = crc32c(0, piece.values.bytes, piece.values.size);
      server.send(1, messages[0]);
      EXPECT_EQ(counters.refusals[gs_Reason_REASON_NOT_FINITE], 3U);
      EXPECT_EQ(counters.updates_loss_not_finite, 2U);
    }
  }
}

TEST(CoordinatorUploads, NotesGoIntoTheJournalAndReplay) {
  for (const RunParameters& p : {scalar_parameters(), tangent_parameters()}) {
    TestServer server(p);
    server.start();
    server.join(2);
    const UpdateNotes notes = {UpdateLine{-0.5F, 0.25F}, UpdateEvaluation{7, -3, 0.9F}};
    TestUpload upload = server.good_upload(0);
    upload.notes = notes;
    server.upload(0, upload);
    EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
    EXPECT_EQ(server.store.records().back().notes(), notes);
    server.upload(1, server.good_upload(1));
    EXPECT_EQ(server.store.records().back().notes(), UpdateNotes());
    const std::string state = server.coordinator->state_text();
    server.restart();
    EXPECT_EQ(server.coordinator->state_text(), state);
  }
}

// A part that is no number is left out and counted; the other part and the update stay.
TEST(CoordinatorUploads, NotesThatAreNoNumbersHarmNoUpdate) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(4);
  const UpdateLine line{1, 2};
  const UpdateEvaluation evaluation{3, 4, 0.5F};
  const UpdateNotes said[] = {
      {UpdateLine{NAN, 0}, evaluation}, {line, UpdateEvaluation{3, INFINITY, 0}}, {line, UpdateEvaluation{0, 1, 1}}};
  const UpdateNotes kept[] = {{{}, evaluation}, {line, {}}, {line, {}}};
  for (uint32_t device = 0; device < 3; ++device) {
    TestUpload upload = server.good_upload(device);
    upload.notes = said[device];
    server.upload(device, upload);
    ASSERT_NE(server.ack(device), nullptr) << "the session goes on";
    EXPECT_EQ(server.ack(device)->verdict, gs_Verdict_VERDICT_FOLDED);
    EXPECT_EQ(server.store.records().back().notes(), kept[device]);
  }
  EXPECT_EQ(server.coordinator->counters().notes.lines_not_finite, 1U);
  EXPECT_EQ(server.coordinator->counters().notes.evaluations_not_finite, 2U);
}

// A bit that rots past the checksum of a row, or a hand that writes one, is no state to go on from.
TEST(CoordinatorUploads, ARecordWithBrokenNotesDoesNotReplay) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(1);
  server.upload(0, server.good_upload(0));
  Coordinator other(7, server.parameters, server.names);
  Status status = Status::kOk;
  for (const JournalRecord& record : server.store.records()) {
    JournalRow row = record.row();
    if (row.kind == RecordKind::kUpdate) {
      row.notes = {8};
    }
    status = other.replay(JournalRecord(row));
  }
  EXPECT_EQ(status, Status::kDataCorrupt);
}

TEST(CoordinatorUploads, PiecesOutOfOrderEndTheSession) {
  TestServer server(tangent_parameters());
  server.parameters.model->shape = {64, 8};
  server.coordinator = std::make_unique<Coordinator>(7, server.parameters, server.names);
  server.start();
  server.join(1);
  const std::vector<DeviceMessage> messages = upload_messages(server.good_upload(0));
  ASSERT_EQ(messages.size(), 3U);
  server.send(0, messages[0]);
  server.send(0, messages[2]);
  ASSERT_NE(server.refuse(0), nullptr);
  EXPECT_EQ(server.refuse(0)->reason, gs_Reason_REASON_UNEXPECTED_MESSAGE);
  server.hello(0);
  server.pull(0);
  server.upload(0, server.good_upload(0));
  EXPECT_EQ(server.ack(0)->verdict, gs_Verdict_VERDICT_FOLDED);
}

TEST(CoordinatorUploads, RefusalsOfOneDeviceDoNotFillTheLog) {
  TestServer server(scalar_parameters());
  server.start();
  server.join(2);
  TestUpload unknown = server.good_upload(0);
  unknown.task_sequence = 99;
  for (int i = 0; i < 100; ++i) {
    server.upload(0, unknown);
  }
  EXPECT_EQ(server.log_count("update_refused"), 16U);
  EXPECT_EQ(server.coordinator->counters().updates_refused, 100U);
  server.upload(1, unknown);
  EXPECT_EQ(server.log_count("update_refused"), 17U) << "another device has lines of its own";
  server.now_ms += 1000;
  server.upload(0, unknown);
  EXPECT_TRUE(server.has_log("update_refused device=d0 task=99 reason=unknown_task more_since_the_last=84"));
}

// ---- Late and partial work ----

TEST(CoordinatorUploads, LateUpdatesAreWeightedAndDoNotCount) {
  for (const bool is_scalar : {true, false}) {
    RunParameters p = deadline_parameters();
    if (!is_scalar) {
      p.local->solver = SolverId::kGradientStream;
      p.local->estimator = EstimatorId::kAnalyticGradient;
      p.local->correction_form = CorrectionForm::kNone;
    }
    TestServer server(p);
    server.start();
    server.join(4);
    const TestUpload late = server.good_upload(3);
    for (uint32_t device = 0; device < 3; ++device) {
      server.upload(device, server.good_upload(device));
    }
    EXPECT_EQ(server.coordinator->durable_version(), 1U);
    server.upload(3, late);
    EXPECT_EQ(server.ack(3)->verdict, gs_Verdict_VERDICT_LATE);
    EXPECT_EQ(server.ack(3)->version, 2U);
    EXPECT_NEAR(server.ack(3)->staleness_weight, 0.70711F, 1e-4F);
    EXPECT_EQ(server.coordinator->answers_in(), 0U);
    EXPECT_EQ(server.coordinator->round_progress().late, 1U);
    const DeviceStatus status = server.coordinator->device_statuses()[3];
    EXPECT_EQ(status.last_staleness, 1U);
    EXPECT_NEAR(status.last_staleness_weight, 0.70711F, 1e-4F);
    EXPECT_FALSE(status.has_answered);
    server.pull(3);  // and now in time
    EXPECT_EQ(server.task(3)->version, 1U);
    server.round(3);
    EXPECT_EQ(server.coordinator->durable_version(), 2U);
    EXPECT_TRUE(server.has_log("version=2 digest=") && server.has_log("folded=3 late=1"));
    EXPECT_EQ(server.coordinator->counters().updates_late, 1U);
  }
}

TEST(CoordinatorUploads, TooStaleOrDroppedLateUpdatesAreRefused) {
  RunParameters p = deadline_parameters();
  p.trigger->late = LatePolicy::kDrop;
  TestServer server(p);
  server.start();
  server.join(4);
  const TestUpload late = server.good_upload(3);
  for (uint32_t device = 0; device < 3; ++device) {
    server.upload(device, server.good_upload(device));
  }
  server.upload(3, late);
  EXPECT_EQ(server.ack(3)->reason, gs_Reason_REASON_TOO_STALE);
  EXPECT_EQ(server.ack(3)->retry.max_ms, server.ack(0)->retry.max_ms)
      << "who is late waits no longer than who is in time";
  EXPECT_EQ(server.coordinator->counters().refusals[gs_Reason_REASON_TOO_STALE], 1U);
  EXPECT_EQ(server.coordinator->device_statuses()[3].last_reason.reason, gs_Reason_REASON_TOO_STALE);

  for (const uint32_t staleness : {2U, 3U}) {  // two versions are not too many
    TestServer weighted(deadline_parameters());
    weighted.start();
    weighted.join(4);
    const TestUpload stale = weighted.good_upload(3);
    for (uint32_t i = 0; i < staleness; ++i) {
      weighted.round(3);
    }
    weighted.upload(3, stale);
    EXPECT_EQ(weighted.ack(3)->verdict, staleness == 2 ? gs_Verdict_VERDICT_LATE : gs_Verdict_VERDICT_REFUSED);
    EXPECT_EQ(weighted.ack(3)->reason, staleness == 2 ? gs_Reason_REASON_NONE : gs_Reason_REASON_TOO_STALE);
  }
}

TEST(CoordinatorUploads, PartialWorkCountsByItsSteps) {
  TestServer server(deadline_parameters());
  server.start();
  server.join(3);
  for (uint32_t device = 0; device < 3; ++device) {
    TestUpload upload = server.good_upload(device);
    upload.steps_done = device + 1;
    upload.values.resize(4 * (device + 1));
    server.upload(device, upload);
    EXPECT_EQ(server.ack(device)->verdict, gs_Verdict_VERDICT_FOLDED);
  }
  EXPECT_TRUE(server.has_log("folded=3 late=0 partial=2"));
  EXPECT_EQ(server.coordinator->counters().updates_partial, 2U);
  const std::vector<DeviceStatus> statuses = server.coordinator->device_statuses();
  EXPECT_EQ(statuses[1].last_steps, 2U);
  EXPECT_EQ(statuses[1].last_steps_asked, 3U);
  EXPECT_EQ(statuses[1].updates_partial, 1U);
  EXPECT_EQ(statuses[2].updates_partial, 0U);
  // K_eff = (10 * 1 + 20 * 2 + 30 * 3) / 60
  const JournalRecord& record = server.store.records().back();
  EXPECT_EQ(record.kind(), RecordKind::kVersion);
  EXPECT_FLOAT_EQ(record.step_scale(), 0.05F * 140 / 60);
}

}  // namespace
}  // namespace gradstream
