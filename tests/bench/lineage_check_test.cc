#include "bench/lineage_check.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "bench/lineage.h"
#include "runtime/base/crc32c.h"
#include "server/program/config.h"
#include "server/run/fold_keys.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"
#include "server/run/weights.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr uint32_t kDevices = 4;
constexpr uint32_t kVersions = 3;

RunParameters uniform_parameters(CorrectionForm form) {
  RunParameters p = tangent_parameters();
  p.local->solver = form == CorrectionForm::kNone ? p.local->solver : SolverId::kProjection;
  p.local->correction_form = form;
  p.fold->fold_weight = FoldWeight::kUniform;
  p.fold.keys().clip_norm = ClipNorm::kNone;
  return p;
}

std::string objection_to(const RunParameters& parameters) {
  RunParameters taken;
  return take_run_source(run_source(parameters), &taken).sentence;
}

// ---- Which runs ----

// Each sentence ends with what helps. The ledger would end the checker by an assertion: it has no sum of these.
TEST(TakeRunSource, RefusesARunThatKeepsUpdatesInPlaceOfSums) {
  for (const CorrectionForm form : {CorrectionForm::kMemory, CorrectionForm::kUnbiased}) {
    const RunParameters parameters = uniform_parameters(form);
    ASSERT_TRUE(parameters.has_memory());
    ASSERT_EQ(check_cluster_run(parameters).sentence, "") << "several nodes train it";
    EXPECT_THAT(objection_to(parameters), HasSubstr("; check a run with correction_form local or none"));
  }
}

// Each update would be folded with the weight of one sample, and each version be called wrong.
TEST(TakeRunSource, RefusesAFoldThatWeighsSamples) {
  RunParameters parameters = uniform_parameters(CorrectionForm::kNone);
  parameters.fold->fold_weight = FoldWeight::kSampleCount;
  ASSERT_EQ(check_cluster_run(parameters).sentence, "") << "several nodes train it";
  EXPECT_THAT(objection_to(parameters), HasSubstr("; check a run with fold_weight uniform"));
}

TEST(TakeRunSource, RefusesWhatOneServerAloneTrains) {
  RunParameters parameters = uniform_parameters(CorrectionForm::kNone);
  parameters.local->solver = SolverId::kSvrg;
  parameters.local->batch_mode = BatchMode::kAll;
  EXPECT_THAT(objection_to(parameters), HasSubstr("svrg"));
}

TEST(TakeRunSource, TakesARunOfSums) {
  EXPECT_EQ(objection_to(uniform_parameters(CorrectionForm::kNone)), "");
  EXPECT_EQ(objection_to(uniform_parameters(CorrectionForm::kLocal)), "");
}

// ---- What is judged ----

class LineageCheckOf : public testing::TestWithParam<CorrectionForm> {
 protected:
  // Each device has an update in each version, of which it was told. One version is open, with an update.
  void SetUp() override {
    ::close(::mkstemp(path_.data()));
    source_.parameters = uniform_parameters(GetParam());
    source_.rows.resize(kDevices);
    FollowedRun run(source_.parameters, kDevices);
    std::ofstream file(path_);
    for (uint32_t version = 1; version <= kVersions; ++version) {
      for (uint32_t device = 0; device < kDevices; ++device) {
        fold(&run, device, version, &file);
      }
      const std::optional<VersionRecord> record = run.close();
      ASSERT_TRUE(record.has_value());
      ASSERT_EQ(run.begin(*record), Status::kOk);
      source_.versions.push_back({{version, encode_published(*record, Trigger::kGoal)}, kDevices});
    }
    fold(&run, 0, kVersions + 1, &file);
    source_.sums.push_back(run.ledger().take_partial());
  }

  void TearDown() override { ::unlink(path_.c_str()); }

  void fold(FollowedRun* run, uint32_t device, uint32_t version, std::ofstream* file) {
    const RunParameters& p = source_.parameters;
    std::vector<float> sent(p.value_count());
    for (uint32_t entry = 0; entry < sent.size(); ++entry) {
      sent[entry] = load_value(device, version - 1, entry);
    }
    const std::vector<Real> values(sent.begin(), sent.end());
    FoldInput input;
    input.owner = p.owner_of(device);
    input.base_version = version - 1;
    input.steps_done = p.local->local_step_count;
    input.weight = fold_weight(p, 12, 0);  // a client that trains has more samples than one
    input.values = values;
    input.device = device;
    ASSERT_EQ(run->ledger().add_fold(input), Status::kOk);
    ++source_.rows[device].tally.updates_folded;
    const auto* const bytes = reinterpret_cast<const uint8_t*>(sent.data());
    char line[256];
    (void)std::snprintf(line, sizeof line,
                        "event=ack device=%u task_sequence=%u base_version=%u version=%u verdict=1 duplicate=0 "
                        "steps=%u crc32c=%08x at_ms=%u\n",
                        device, version, version - 1, version, input.steps_done,
                        crc32c(0, bytes, sent.size() * sizeof(float)), version);
    *file << line;
  }

  std::string path_ = testing::TempDir() + "lineage_XXXXXX";
  LineageSource source_;
};

// Of a correction that devices keep, the server has sums alone.
TEST_P(LineageCheckOf, ASoundRunIsFoldedAgain) {
  LineageCheck check;
  ASSERT_EQ(check.read(path_).sentence, "");
  ASSERT_EQ(check.check(source_).sentence, "");
  EXPECT_THAT(check.findings(), testing::IsEmpty());
  EXPECT_TRUE(check.figures().is_sound());
  EXPECT_EQ(check.figures().acked, kVersions * kDevices + 1);
  EXPECT_EQ(check.figures().versions, kVersions);
}

TEST_P(LineageCheckOf, AnAckThatIsMissingIsFound) {
  std::ifstream file(path_);
  std::string first, text;
  std::getline(file, first);
  for (std::string line; std::getline(file, line);) {
    text += line + "\n";
  }
  std::ofstream(path_) << text;
  LineageCheck check;
  ASSERT_EQ(check.read(path_).sentence, "");
  ASSERT_EQ(check.check(source_).sentence, "");
  EXPECT_EQ(check.figures().unrecorded, 1U);
  EXPECT_EQ(check.figures().digests_wrong, 1U) << "of the first version alone";
}

INSTANTIATE_TEST_SUITE_P(Forms, LineageCheckOf, testing::Values(CorrectionForm::kNone, CorrectionForm::kLocal),
                         [](const auto& form) { return form.param == CorrectionForm::kLocal ? "local" : "none"; });

}  // namespace
}  // namespace gradstream
