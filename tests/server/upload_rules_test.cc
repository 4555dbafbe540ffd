#include "server/coordinator/upload_rules.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "runtime/base/crc32c.h"
#include "runtime/training/encoding.h"
#include "server/run/run_core.h"
#include "server/run/trigger.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

constexpr uint64_t kNow = 10'000'000;
constexpr uint64_t kBase = 0x1234;

// A run at version 5, a device with an open task of it, and its upload.
struct Scene {
  explicit Scene(const RunParameters& p = deadline_parameters()) : parameters(p) {
    run.has_version = true;
    run.version = 5;
    run.steps_min = 1;
    row.task = {.sequence = 8,
                .version = 5,
                .record_sequence = 48,
                .issued_ms = kNow - 6'000,
                .steps = 3,
                .samples = 2,
                .is_open = true};
    row.judged = row.accepted = {6, gs_Verdict_VERDICT_FOLDED, gs_Reason_REASON_NONE, 5, 1, 45};
    fill(draw_values(12, 3, 0.1F));
  }
  void fill(const std::vector<Real>& values) {
    upload.kind = parameters.stream();
    upload.task_sequence = 8;
    upload.base_version = 5;
    upload.steps_done = 3;
    upload.direction_count = parameters.local->direction_count;
    upload.encoding = parameters.wire->upload_encoding;
    upload.value_count = static_cast<uint32_t>(values.size());
    upload.bytes.resize(encoded_size(upload.encoding, values.size()));
    GS_ASSERT(encode_values(upload.encoding, values.size(), values.data(), upload.bytes.data()) == Status::kOk);
    upload.crc32c = crc32c(0, upload.bytes.data(), upload.bytes.size());
    upload.loss_before = 2;
    upload.loss_after = 1;
  }
  gs_Reason fault() const { return find_head_fault(run, row, upload, kBase, kNow); }

  RunParameters parameters;
  RunIdentity identity = {7, 0xabc, 0xdef};
  RunView run = {parameters, identity};
  DeviceRow row;
  DeviceSession session;
  Upload upload;
};

TEST(UploadRules, AnUploadBeginsByWhatItsSequenceIsWorth) {
  Scene scene;
  const struct {
    uint32_t task_sequence;
    bool is_limited;
    UploadStart wanted;
  } kCases[] = {
      {8, false, {}},
      {8, true, {UploadCourse::kLimited, gs_Verdict_VERDICT_TRY_LATER, gs_Reason_REASON_RATE_LIMIT, 0}},
      {9, false, {UploadCourse::kUnknown, gs_Verdict_VERDICT_REFUSED, gs_Reason_REASON_UNKNOWN_TASK, 0}},
      {0, false, {UploadCourse::kUnknown, gs_Verdict_VERDICT_REFUSED, gs_Reason_REASON_UNKNOWN_TASK, 0}},
      {7, false, {UploadCourse::kSuperseded, gs_Verdict_VERDICT_SUPERSEDED, gs_Reason_REASON_NONE, 48}},
      {6, false, {UploadCourse::kKnown, gs_Verdict_VERDICT_NONE, gs_Reason_REASON_NONE, 0}},
  };
  for (const auto& [task_sequence, is_limited, wanted] : kCases) {
    const UploadStart start = begin_upload(scene.run, scene.row, task_sequence, is_limited);
    EXPECT_EQ(start.course, wanted.course) << task_sequence;
    EXPECT_EQ(start.verdict, wanted.verdict) << task_sequence;
    EXPECT_EQ(start.reason, wanted.reason) << task_sequence;
    EXPECT_EQ(start.required, wanted.required) << task_sequence;
  }
}

// A verdict that is known is told whatever the disk does; what is to be judged needs it.
TEST(UploadRules, OnlyWhatIsToBeJudgedWaitsForDiskAndVersion) {
  Scene scene;
  const auto course = [&scene](uint32_t sequence) {
    return begin_upload(scene.run, scene.row, sequence, false).course;
  };
  scene.run.update_count = update_count_max(scene.parameters, false);
  EXPECT_EQ(course(8), UploadCourse::kFull);
  EXPECT_EQ(course(6), UploadCourse::kKnown);
  --scene.run.update_count;
  EXPECT_EQ(course(8), UploadCourse::kJudge);
  scene.run.is_storage_failed = true;
  EXPECT_EQ(course(8), UploadCourse::kUnstored);
  EXPECT_EQ(course(6), UploadCourse::kKnown);
  EXPECT_EQ(course(9), UploadCourse::kUnknown);
}

TEST(UploadRules, AVersionOfOneUpdateIsFullWhileTheRunIsPaused) {
  Scene scene(asynchronous_parameters());
  scene.run.update_count = 1;
  EXPECT_FALSE(is_version_full(scene.run));
  scene.run.state = gs_RunState_RUN_STATE_PAUSED;
  EXPECT_TRUE(is_version_full(scene.run));
  scene.run.update_count = 0;
  EXPECT_FALSE(is_version_full(scene.run));
}

TEST(UploadRules, TheFirstFaultOfAHeadIsNamed) {
  const struct {
    gs_Reason wanted;
    void (*spoil)(Scene*);
  } kCases[] = {
      {gs_Reason_REASON_NONE, [](Scene*) {}},
      {gs_Reason_REASON_WRONG_VERSION, [](Scene* s) { s->upload.base_version = 4; }},
      {gs_Reason_REASON_UNKNOWN_RUN, [](Scene* s) { s->run.state = gs_RunState_RUN_STATE_FINISHED; }},
      {gs_Reason_REASON_TOO_STALE, [](Scene* s) { s->run.version = 8; }},
      {gs_Reason_REASON_TOO_STALE,
       [](Scene* s) {
         s->run.version = 6;
         s->run.train_version = 6;
       }},
      {gs_Reason_REASON_NONE, [](Scene* s) { s->run.version = 7; }},
      {gs_Reason_REASON_WRONG_VERSION, [](Scene* s) { s->upload.base_digest = kBase + 1; }},
      {gs_Reason_REASON_NONE, [](Scene* s) { s->upload.base_digest = kBase; }},
      {gs_Reason_REASON_NONE, [](Scene* s) { s->upload.base_digest = kBase ^ 0xabc; }},
      {gs_Reason_REASON_WRONG_ENCODING, [](Scene* s) { s->upload.encoding = Encoding::kBf16; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](Scene* s) { s->upload.kind = StreamKind::kTangentBlock; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](Scene* s) { s->upload.is_oversize = true; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](Scene* s) { ++s->upload.value_count; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](Scene* s) { s->row.task.steps = 2; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](Scene* s) { ++s->upload.direction_count; }},
      {gs_Reason_REASON_TOO_FEW_STEPS, [](Scene* s) { s->run.steps_min = 4; }},
      {gs_Reason_REASON_NO_TIME, [](Scene* s) { s->upload.step_time_us = 5'000'000; }},
      {gs_Reason_REASON_NOT_FINITE, [](Scene* s) { s->upload.loss_after = std::nanf(""); }},
      {gs_Reason_REASON_CORRUPT, [](Scene* s) { s->upload.bytes[0] ^= 1; }},
  };
  int number = 0;
  for (const auto& [wanted, spoil] : kCases) {
    Scene scene;
    spoil(&scene);
    EXPECT_EQ(scene.fault(), wanted) << number;
    ++number;
  }
}

TEST(UploadRules, AClockThatWasSetBackProvesNothing) {
  Scene scene;
  scene.upload.step_time_us = 5'000'000;
  scene.row.task.issued_ms = kNow + 1;
  EXPECT_EQ(scene.fault(), gs_Reason_REASON_NONE);
}

TEST(UploadRules, ADropRunTakesNothingLate) {
  Scene scene(scalar_parameters());
  EXPECT_EQ(scene.fault(), gs_Reason_REASON_NONE);
  scene.run.version = 6;
  EXPECT_EQ(scene.fault(), gs_Reason_REASON_TOO_STALE);
}

TEST(UploadRules, TheBaseIsThatOfTheRunsModelsAlone) {
  Scene scene;
  EXPECT_EQ(said_base(scene.identity.run_nonce, scene.upload, kBase), 0U) << "the device does not say";
  scene.upload.base_digest = kBase ^ scene.identity.run_nonce;
  EXPECT_EQ(said_base(scene.identity.run_nonce, scene.upload, kBase), kBase);
  EXPECT_EQ(said_base(scene.identity.run_nonce, scene.upload, std::nullopt), kBase ^ scene.identity.run_nonce);
  scene.upload.base_digest = 99;
  EXPECT_EQ(find_head_fault(scene.run, scene.row, scene.upload, std::nullopt, kNow), gs_Reason_REASON_NONE)
      << "nobody knows that version's digest any more";
}

TEST(UploadRules, TheFirstFaultOfAnAnswerIsNamed) {
  const struct {
    gs_Reason wanted;
    void (*spoil)(Scene*);
  } kCases[] = {
      {gs_Reason_REASON_NONE, [](Scene*) {}},
      {gs_Reason_REASON_WRONG_VERSION, [](Scene* s) { s->upload.base_version = 4; }},
      {gs_Reason_REASON_UNKNOWN_RUN, [](Scene* s) { s->run.state = gs_RunState_RUN_STATE_STOPPED; }},
      {gs_Reason_REASON_TOO_STALE, [](Scene* s) { s->run.version = 6; }},
      {gs_Reason_REASON_WRONG_VERSION, [](Scene* s) { s->upload.base_digest = kBase + 1; }},
      {gs_Reason_REASON_WRONG_ENCODING, [](Scene* s) { s->upload.encoding = Encoding::kBf16; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](Scene* s) { s->upload.kind = StreamKind::kScalarStream; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](Scene* s) { s->upload.steps_done = 2; }},
      {gs_Reason_REASON_WRONG_SHAPE, [](Scene* s) { s->upload.bytes.pop_back(); }},
      {gs_Reason_REASON_CORRUPT, [](Scene* s) { s->upload.bytes[0] ^= 1; }},
  };
  int number = 0;
  for (const auto& [wanted, spoil] : kCases) {
    Scene scene;
    scene.run.stage = TaskStage::kTrials;
    scene.upload.kind = StreamKind::kTangentBlock;
    scene.upload.steps_done = 1;
    scene.upload.encoding = answer_encoding(TaskStage::kTrials);
    scene.upload.bytes.assign(encoded_size(scene.upload.encoding, scene.upload.value_count), 0);
    scene.upload.crc32c = crc32c(0, scene.upload.bytes.data(), scene.upload.bytes.size());
    spoil(&scene);
    EXPECT_EQ(find_answer_fault(scene.run, scene.row, scene.upload, kBase), wanted) << number;
    ++number;
  }
}

TEST(UploadRules, WhatIsFoldedAndRecordedIsTheUpload) {
  Scene scene;
  std::vector<Real> values;
  ASSERT_EQ(decode_upload(scene.upload, &values), gs_Reason_REASON_NONE);
  EXPECT_EQ(values, draw_values(12, 3, 0.1F));
  FoldInput input = fold_input(scene.run, 2, scene.row, 60, scene.upload, values);
  EXPECT_EQ(input.device, 2U);
  EXPECT_EQ(input.owner, scene.parameters.owner_of(2));
  EXPECT_EQ(input.base_version, 5U);
  EXPECT_EQ(input.steps_done, 3U);
  EXPECT_EQ(input.weight, 60U);
  EXPECT_EQ(input.sample_count, 2U);
  EXPECT_EQ(input.values.data(), values.data());
  input.inverse_participation = 4;

  UpdateAccepted update = accepted_update(scene.run, scene.row, scene.upload, input, {}, kNow);
  EXPECT_EQ(update.device, 2U);
  EXPECT_EQ(update.task_sequence, 8U);
  EXPECT_EQ(update.base_version, 5U);
  EXPECT_EQ(update.version, 6U);
  EXPECT_EQ(update.weight, 60U);
  EXPECT_EQ(update.verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(update.inverse_participation, 4);
  EXPECT_EQ(update.step_time_us, 2'000'000U) << "6 s since the task, 3 steps: at most";
  EXPECT_EQ(update.loss_before, 2);
  EXPECT_EQ(update.values.size(), encoded_size(kRealEncoding, 12));

  scene.run.version = 6;
  scene.upload.step_time_us = 300;
  UpdateNotes hidden;
  hidden.hides_losses = true;
  update = accepted_update(scene.run, scene.row, scene.upload, input, hidden, kNow);
  EXPECT_EQ(update.verdict, gs_Verdict_VERDICT_LATE);
  EXPECT_EQ(update.version, 7U);
  EXPECT_EQ(update.step_time_us, 300U);
  EXPECT_EQ(update.loss_before, 0);
  EXPECT_EQ(update.loss_after, 0);
}

TEST(UploadRules, ALateUpdateWeighsLess) {
  RunParameters p = deadline_parameters();
  p.trigger->staleness_table = StalenessTable::kInverseSqrt;
  Scene scene(p);
  const uint16_t whole = fold_input(scene.run, 0, scene.row, 60, scene.upload, {}).weight;
  scene.run.version = 7;
  const uint16_t late = fold_input(scene.run, 0, scene.row, 60, scene.upload, {}).weight;
  EXPECT_EQ(whole, 60U);
  EXPECT_LT(late, whole);
  EXPECT_GT(late, 0U);
}

TEST(UploadRules, AnAnswerIsRecordedAsItCame) {
  Scene scene;
  const UpdateAccepted answer = accepted_answer(scene.run, 3, 60, scene.upload);
  EXPECT_EQ(answer.device, 3U);
  EXPECT_EQ(answer.weight, 60U);
  EXPECT_EQ(answer.version, 6U);
  EXPECT_EQ(answer.verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(answer.values, scene.upload.bytes);
}

TEST(UploadRules, NotesThatAreNoNumbersStayOut) {
  DeviceImage image;
  UpdateNotes said;
  said.line = UpdateLine{1, 2};
  said.evaluation = UpdateEvaluation{.sample_count = 4, .loss = 1, .metric = 0.5F};
  KeptNotes kept = keep_notes(said, QualityMetric::kAccuracy, image);
  EXPECT_EQ(kept.notes, said);
  EXPECT_FALSE(kept.drops_line || kept.drops_evaluation);
  said.line->slope = std::numeric_limits<float>::infinity();
  said.evaluation->metric = 2;  // a share beyond all
  image.features = 1U << static_cast<uint32_t>(gs_Feature_FEATURE_NO_LOSSES);
  kept = keep_notes(said, QualityMetric::kAccuracy, image);
  EXPECT_FALSE(kept.notes.line || kept.notes.evaluation);
  EXPECT_TRUE(kept.drops_line && kept.drops_evaluation && kept.notes.hides_losses);
}

TEST(UploadRules, OnlyALateUpdateSaysHowSlowItsDeviceIs) {
  Scene scene;
  const auto step_us = [&scene](gs_Reason reason) {
    return refused_step_us(scene.run, scene.row, scene.upload, reason, kNow);
  };
  EXPECT_EQ(step_us(gs_Reason_REASON_TOO_STALE), 2'000'000U);
  EXPECT_EQ(step_us(gs_Reason_REASON_CORRUPT), 0U);
  scene.upload.step_time_us = 9'000'000;  // it had no time for that
  EXPECT_EQ(step_us(gs_Reason_REASON_TOO_STALE), 0U);
}

TEST(UploadRules, AnAckTellsTheVerdictAndWhatWasWrong) {
  Scene scene;
  JudgedAck judged = judged_ack(scene.row, scene.session, 6, true);
  EXPECT_EQ(judged.ack.task_sequence, 6U);
  EXPECT_EQ(judged.ack.verdict, gs_Verdict_VERDICT_FOLDED);
  EXPECT_EQ(judged.ack.version, 5U);
  EXPECT_TRUE(judged.ack.duplicate);
  EXPECT_EQ(judged.required, 45U);
  EXPECT_FALSE(judged.is_long_wait);

  scene.row.judged = {8, gs_Verdict_VERDICT_REFUSED, gs_Reason_REASON_OUT_OF_RANGE, 0, 0, 49};
  scene.session.refusals.complaint = {
      .task_sequence = 8, .value = 9, .least = -3, .most = 3, .fold_scale_log2 = 12, .step_size = 0.5F};
  judged = judged_ack(scene.row, scene.session, 8, false);
  EXPECT_EQ(judged.ack.reason, gs_Reason_REASON_OUT_OF_RANGE);
  EXPECT_TRUE(judged.is_long_wait);
  EXPECT_EQ(judged.ack.value, 9);
  EXPECT_EQ(judged.ack.limit, 3);
  EXPECT_EQ(judged.ack.fold_scale_log2, 12U);
  EXPECT_EQ(judged.ack.step_size, 0.5F);
  scene.session.refusals.complaint.task_sequence = 7;
  EXPECT_EQ(judged_ack(scene.row, scene.session, 8, false).ack.value, 0) << "it is about another task";
  EXPECT_EQ(judged_ack(scene.row, scene.session, 6, false).ack.verdict, gs_Verdict_VERDICT_FOLDED);

  scene.row.judged.reason = gs_Reason_REASON_TOO_STALE;
  EXPECT_FALSE(judged_ack(scene.row, scene.session, 8, false).is_long_wait) << "a longer wait misses the next version";
}

}  // namespace
}  // namespace gradstream
