// A lineage says what the journal says, the same each time, and a change of either is seen.
#include "server/program/run_export.h"

#include <algorithm>
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "runtime/training/encoding.h"
#include "server/run/canonical_text.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

using Json = nlohmann::json;

// Three versions of a run in which device 3 is late, device 0 sends one bad update and one round is extended.
struct Exported {
  Exported() : server(parameters()) {
    server.start();
    server.join(4);
    TestUpload bad = server.good_upload(0);
    bad.crc_error = 1;
    server.upload(0, bad);
    TestUpload noted = server.good_upload(1);
    noted.notes = {UpdateLine{-1, 0.5F}, UpdateEvaluation{7, -2, 0.75F}};
    server.upload(1, noted);
    server.upload(2, server.good_upload(2));
    server.tick_at(2000);  // extended
    const TestUpload late = server.good_upload(3);
    server.pull(0);
    server.upload(0, server.good_upload(0));  // the third of three: version 1
    server.upload(3, late);
    for (const uint32_t device : {0U, 1U, 2U}) {
      server.pull(device);
      server.upload(device, server.good_upload(device));
    }
    for (uint32_t i = 0; i < 4; ++i) {
      EnrolledDevice& row = devices.emplace_back();
      row.index = i;
      row.name = server.names[i];
    }
    run.id = 7;
    run.name = "a \"name\"";
    run.source = "[run]\nname = \"x\"\n";
    run.digest = parameters_digest(server.parameters, 0);
  }
  static RunParameters parameters() {
    RunParameters p = scalar_parameters();
    p.trigger->update_goal = 3;
    p.trigger->update_min = 3;
    p.trigger->late = LatePolicy::kWeight;
    p.trigger->staleness_max = 2;
    return p;
  }
  std::string text(uint32_t version) {
    std::string out;
    std::unique_ptr<Coordinator> model;
    problem = write_lineage(
                  {run, server.parameters, devices, server.store}, {7, version, "m.npy"},
                  [&](std::string_view piece) {
                    longest = std::max(longest, piece.size());
                    out += piece;
                    return true;
                  },
                  &model)
                  .sentence;
    digest = model ? model->model().digest() : 0;
    return out;
  }

  TestServer server;
  RunRow run;
  std::vector<EnrolledDevice> devices;
  std::string problem;
  uint64_t digest = 0;
  size_t longest = 0;
};

TEST(RunExport, SaysWhichUpdatesMadeWhichVersion) {
  Exported e;
  ASSERT_EQ(e.server.coordinator->durable_version(), 2U);
  const Json lineage = Json::parse(e.text(2), nullptr, false);
  ASSERT_TRUE(lineage.is_object()) << e.text(2);
  EXPECT_EQ(e.problem, "");
  EXPECT_EQ(lineage["name"], "a \"name\"");
  EXPECT_EQ(lineage["parameters"], e.run.source);
  EXPECT_EQ(lineage["parameters_digest"], hex(e.run.digest));
  ASSERT_EQ(lineage["versions"].size(), 3U);
  EXPECT_TRUE(lineage["versions"][0]["from"].empty());
  size_t updates = 0;
  for (const JournalRecord& record : e.server.store.records()) {
    if (record.kind() == RecordKind::kVersion) {
      EXPECT_EQ(lineage["versions"][record.version()]["digest"], hex(record.digest()));
      EXPECT_EQ(lineage["versions"][record.version()]["sequence"], record.sequence());
    }
    if (record.kind() != RecordKind::kUpdate) {
      continue;
    }
    ++updates;
    const Json& from = lineage["versions"][record.version()]["from"];
    const auto entry =
        std::find_if(from.begin(), from.end(), [&](const Json& at) { return at["sequence"] == record.sequence(); });
    ASSERT_NE(entry, from.end()) << record.sequence();
    EXPECT_EQ((*entry)["device"], e.server.names[record.device()]);
    EXPECT_EQ((*entry)["task"], record.task_sequence());
    EXPECT_EQ((*entry)["weight"], record.weight());
    EXPECT_EQ((*entry)["staleness"], record.version() - 1 - record.base_version());
    const auto values = e.server.good_upload(0).values.size();
    EXPECT_EQ(record.payload().size(), 4 * values);
  }
  EXPECT_EQ(updates, 7U);
  const std::string first = lineage["versions"][1]["from"].dump();
  EXPECT_THAT(first, testing::HasSubstr("\"reason\":\"corrupt\""));
  EXPECT_THAT(first, testing::HasSubstr("\"event\":\"extended\""));
  EXPECT_EQ(lineage["versions"][1]["quality_before"], Json({{"version", 0},
                                                            {"metric", "explained_variance"},
                                                            {"value", 0.75},
                                                            {"loss", -2},
                                                            {"devices", 1},
                                                            {"samples", 7}}));
  EXPECT_FALSE(lineage["versions"][2].contains("quality_before"));
  EXPECT_THAT(first, testing::HasSubstr("\"line\":{\"curvature\":0.5,\"slope\":-1.0}"));
  EXPECT_THAT(first, testing::HasSubstr("\"evaluation\":{\"loss\":-2.0,\"metric\":0.75,\"samples\":7}"));
  const std::string second = lineage["versions"][2]["from"].dump();
  EXPECT_THAT(second, testing::HasSubstr("\"verdict\":\"late\""));
  EXPECT_EQ(lineage["model"]["digest"], hex(e.digest));
  EXPECT_EQ(lineage["model"]["digest"], lineage["versions"][2]["digest"]);
  EXPECT_EQ(lineage["model"]["values_digest"], lineage["model"]["digest"]) << "its versions are a model alone";
}

TEST(RunExport, IsWrittenRecordByRecordAndTheSameEachTime) {
  Exported e;
  const std::string text = e.text(2);
  EXPECT_EQ(e.text(2), text);
  EXPECT_LT(e.longest, 600U) << "pieces, however long the journal is";
  const std::string early = e.text(1);
  EXPECT_EQ(early.substr(early.find('\n'), 800), text.substr(text.find('\n'), 800)) << "history does not change";
  EXPECT_EQ(Json::parse(early)["versions"].size(), 2U);
  const std::vector<JournalRecord> records = e.server.store.records();
  uint32_t version = 0;
  EXPECT_EQ(find_version(e.server.store, UINT32_MAX, &version), VersionSearch::kFound);
  EXPECT_EQ(version, 2U);
  EXPECT_EQ(find_version(e.server.store, 1, &version), VersionSearch::kFound);
  EXPECT_EQ(version, 1U);
  EXPECT_EQ(find_version(e.server.store, 9, &version), VersionSearch::kNotThere);
  EXPECT_EQ(version, 2U);
  StoreMemory empty;
  EXPECT_EQ(find_version(empty, 0, &version), VersionSearch::kNone);
}

// Behind a cut it begins at the checkpoint, and says so; nothing of it is another figure than before.
TEST(RunExport, ACutJournalSaysWhatIsNotThere) {
  Exported e;
  e.server.coordinator->set_checkpoints(1, 0);
  for (int round = 0; round < 3; ++round) {
    e.server.round(3);
  }
  ASSERT_EQ(e.server.checkpoints.size(), 3U);
  const Json whole = Json::parse(e.text(5));
  for (const Checkpoint& checkpoint : e.server.checkpoints) {
    uint64_t written = 0;
    ASSERT_EQ(e.server.store.write_checkpoint(checkpoint, &written), StoreStatus::kOk);
  }
  bool has_more = false;
  ASSERT_EQ(e.server.store.cut({false, 0, 2}, &has_more), StoreStatus::kOk);
  const std::string text = e.text(5);
  EXPECT_EQ(e.problem, "");
  const Json lineage = Json::parse(text);
  EXPECT_EQ(lineage["dropped"]["before_version"], 3);
  EXPECT_EQ(lineage["dropped"]["digest"], whole["versions"][3]["digest"]);
  ASSERT_EQ(lineage["versions"].size(), 2U);
  EXPECT_EQ(lineage["versions"][0], whole["versions"][4]);
  EXPECT_EQ(lineage["versions"][1], whole["versions"][5]);
  EXPECT_EQ(lineage["model"], whole["model"]);
  LineageHead head;
  ASSERT_TRUE(parse_lineage_head(text.substr(0, text.find('\n')), &head));
  EXPECT_EQ(head.gone, lineage["dropped"]["records"]);
  uint32_t version = 0;
  EXPECT_EQ(find_version(e.server.store, 3, &version), VersionSearch::kDropped);
  EXPECT_EQ(find_version(e.server.store, 4, &version), VersionSearch::kFound);
  EXPECT_EQ(find_version(e.server.store, 9, &version), VersionSearch::kNotThere);
  EXPECT_EQ(find_version(e.server.store, UINT32_MAX, &version), VersionSearch::kFound);
}

// A journal whose updates before its beginning were forgotten.
class ForgottenStart : public Store {
 public:
  explicit ForgottenStart(Store& inner) : inner_(inner) {}
  StoreStatus append(std::span<const JournalRecord> batch) override { return inner_.append(batch); }
  StoreStatus read_after(uint64_t sequence, const std::function<bool(const JournalRecord&)>& visit) override {
    return inner_.read_after(sequence, visit);
  }
  StoreStatus read_start(CheckpointHead* out) override {
    const StoreStatus status = inner_.read_start(out);
    out->is_behind_forgotten = true;
    return status;
  }
  StoreStatus read_checkpoint(const CheckpointHead& head, std::vector<uint8_t>* out) override {
    return inner_.read_checkpoint({head.sequence, head.version, head.update_count, head.size}, out);
  }

 private:
  Store& inner_;
};

TEST(RunExport, BehindUpdatesThatWereForgottenItSaysSo) {
  Exported e;
  e.server.coordinator->set_checkpoints(1, 0);
  for (int round = 0; round < 3; ++round) {
    e.server.round(3);
  }
  for (const Checkpoint& checkpoint : e.server.checkpoints) {
    uint64_t written = 0;
    ASSERT_EQ(e.server.store.write_checkpoint(checkpoint, &written), StoreStatus::kOk);
  }
  bool has_more = false;
  ASSERT_EQ(e.server.store.cut({false, 0, 2}, &has_more), StoreStatus::kOk);
  const Json cut = Json::parse(e.text(5));
  ForgottenStart journal(e.server.store);
  std::string text;
  std::unique_ptr<Coordinator> model;
  const auto take = [&](std::string_view piece) {
    text += piece;
    return true;
  };
  const LineageSource source = {e.run, e.server.parameters, e.devices, journal};
  EXPECT_EQ(write_lineage(source, {7, 5, "m.npy"}, take, &model).sentence, "");
  const Json lineage = Json::parse(text);
  EXPECT_FALSE(lineage.contains("dropped"));
  EXPECT_EQ(lineage["forgotten"], cut["dropped"]);
  LineageHead head;
  ASSERT_TRUE(parse_lineage_head(text.substr(0, text.find('\n')), &head));
  EXPECT_EQ(head.gone, cut["dropped"]["records"]);
}

TEST(RunExport, AJournalThatWasChangedIsNoticed) {
  Exported e;
  std::vector<JournalRecord> records = e.server.store.records();
  const auto update = std::find_if(records.begin(), records.end(),
                                   [](const JournalRecord& record) { return record.kind() == RecordKind::kUpdate; });
  JournalRow spoilt = update->row();
  spoilt.payload[3] ^= 0x40;
  *update = JournalRecord(spoilt);
  e.server.store = StoreMemory();
  ASSERT_EQ(e.server.store.append(records), StoreStatus::kOk);
  (void)e.text(2);
  EXPECT_THAT(e.problem, testing::HasSubstr("run 7 does not replay at sequence"));
}

TEST(RunExport, ASinkThatIsFullEndsIt) {
  Exported e;
  std::unique_ptr<Coordinator> model;
  size_t pieces = 0;
  const std::string problem = write_lineage(
                                  {e.run, e.server.parameters, e.devices, e.server.store}, {7, 2, "m.npy"},
                                  [&](std::string_view) { return ++pieces < 3; }, &model)
                                  .sentence;
  EXPECT_EQ(problem, "");
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(pieces, 3U);
}

TEST(RunExport, TheHeadIsReadBack) {
  Exported e;
  const std::string text = e.text(1);
  LineageHead head;
  EXPECT_TRUE(parse_lineage_head(text.substr(0, text.find('\n')), &head));
  EXPECT_EQ(head.run, 7U);
  EXPECT_EQ(head.version, 1U);
  EXPECT_EQ(head.model_file, "m.npy");
  for (const char* const wrong :
       {"", ",", "{},", "{\"format\":\"gradstream-lineage-1\",",
        "{\"format\":\"gradstream-lineage-1\",\"run\":-1,\"version\":1,\"model_file\":\"m\",",
        "{\"format\":\"gradstream-lineage-1\",\"run\":1,\"version\":1,\"model_file\":\"/etc/m\",",
        "{\"format\":\"gradstream-lineage-2\",\"run\":1,\"version\":1,\"model_file\":\"m\","}) {
    EXPECT_FALSE(parse_lineage_head(wrong, &head)) << wrong;
  }
}

TEST(RunExport, FilesAppearWholeAndAreComparedToTheLastByte) {
  std::string folder = testing::TempDir() + "run_export_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/x.json";
  {
    FileWriter abandoned(path);
    EXPECT_TRUE(abandoned.write("half"));
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  EXPECT_NE(access((path + ".part").c_str(), F_OK), 0);
  FileWriter writer(path);
  EXPECT_TRUE(writer.write("one\n") && writer.write("two\n"));
  EXPECT_EQ(writer.finish().sentence, "");
  const std::pair<const char*, uint64_t> texts[] = {
      {"one\ntwo\n", 0}, {"one\nt", 2}, {"one\ntwo\nx", 3}, {"one\nTwo\n", 2}};
  for (const auto& [text, line] : texts) {
    FileComparer comparer(path);
    ASSERT_TRUE(comparer.is_open());
    (void)comparer.take(text);
    EXPECT_EQ(comparer.is_same(), line == 0) << text;
    if (line != 0) {
      EXPECT_EQ(comparer.line(), line) << text;
    }
  }
  EXPECT_FALSE(FileComparer(path + ".none").is_open());
  FileWriter nowhere(folder + "/none/x.json");
  EXPECT_FALSE(nowhere.write("x"));
  EXPECT_THAT(nowhere.finish().sentence, testing::HasSubstr("/none/x.json: No such file"));
  unlink(path.c_str());
  rmdir(folder.c_str());
}

}  // namespace
}  // namespace gradstream
