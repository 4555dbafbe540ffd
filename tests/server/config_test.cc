// The configuration file: what it may hold, and how every error names the key, its line and the remedy.
#include "server/program/config.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/canonical_text.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

constexpr const char* kRun = "[run]\nname = \"t\"\nrows = 8\ncols = 2\nproblem = \"kpca\"\ndevice_count = 2\n";

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) : path_(testing::TempDir() + "config_XXXXXX") {
    close(mkstemp(path_.data()));
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { unlink(path_.c_str()); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string errors_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  Config config;
  return load_config(ConfigFile(text).path(), overrides, &config);
}

TEST(Config, TheDemoFileIsTheDocumentedDemo) {
  Config config;
  ASSERT_EQ(load_config(GS_SOURCE_DIR "/experiments/demo.toml", {}, &config), "");
  const RunParameters& run = config.run;
  EXPECT_EQ(run.manifold, ManifoldId::kStiefel);
  EXPECT_EQ(run.shape, (Shape{64, 4}));
  EXPECT_EQ(run.problem, "kpca");
  EXPECT_EQ(run.solver, SolverId::kProjection);
  EXPECT_EQ(run.estimator, EstimatorId::kProjectionOneSided);
  EXPECT_EQ(run.directions, DirectionKind::kSign);
  EXPECT_EQ(run.direction_count, 16U);
  EXPECT_EQ(run.group_count, 1U);
  EXPECT_EQ(run.local_step_count, 5U);
  EXPECT_FLOAT_EQ(run.smoothing, 1e-2F);
  EXPECT_EQ(run.batch_mode, BatchMode::kCommon);
  EXPECT_EQ(run.batch_size, 32U);
  EXPECT_EQ(run.correction_form, CorrectionForm::kLocal);
  EXPECT_FLOAT_EQ(run.step_decay, 0.1F);
  EXPECT_EQ(run.server_step, 1.0F);
  EXPECT_EQ(run.round_count, 300U);
  EXPECT_EQ(run.device_count, 9U);
  EXPECT_EQ(run.update_goal, 0U) << "all";
  EXPECT_EQ(config.server.export_dir, "build/demo/models");
}

TEST(Config, TheEffectiveConfigurationReadsBackToItself) {
  Config config;
  ASSERT_EQ(load_config(GS_SOURCE_DIR "/experiments/demo.toml",
                        {"run.step_size=0.03725", "server.listen=127.0.0.1:0", "server.limits.frame_deadline_ms=77",
                         "run.upload_encoding=int8", "server.database=/tmp/a b.db", "run.update_goal=7"},
                        &config),
            "");
  EXPECT_FLOAT_EQ(config.run.step_size, 0.03725F);
  EXPECT_EQ(config.run.upload_encoding, Encoding::kInt8);
  EXPECT_EQ(config.run.update_goal, 7U);
  EXPECT_EQ(config.server.listener.session.frame_deadline_ms, 77U);
  EXPECT_EQ(config.server.database, "/tmp/a b.db");
  const std::string text = config_text(config);
  Config again;
  ASSERT_EQ(load_config(ConfigFile(text).path(), {}, &again), "");
  EXPECT_EQ(config_text(again), text);
  RunParameters run;
  ASSERT_EQ(parse_run_source(run_source(config.run), &run), "");
  EXPECT_EQ(parameters_digest(run), parameters_digest(config.run));
}

TEST(Config, UnknownKeysAreNamedWithTheirLineAndTheNearestKnownOne) {
  const std::string errors =
      errors_of(std::string("[server]\nlisten = \"127.0.0.1:1\"\nlog_levle = \"info\"\n") +
                "[server.limits]\nconection_count_max = 3\n" + kRun + "steps_size = 0.1\n" + "[servers]\nx = 1\n");
  EXPECT_THAT(errors, HasSubstr(":3: unknown key server.log_levle; the nearest known one is log_level"));
  EXPECT_THAT(errors, HasSubstr(":5: unknown key server.limits.conection_count_max; the nearest known one is "
                                "connection_count_max"));
  EXPECT_THAT(errors, HasSubstr(":12: unknown key run.steps_size; the nearest known one is step_size"));
  EXPECT_THAT(errors, HasSubstr("unknown section [servers]; the nearest known one is server"));
  EXPECT_THAT(errors_of(std::string(kRun) + "use_correction = true\n"),
              HasSubstr(":7: unknown key run.use_correction; correction_form has taken its place: \"local\" for true"));
  EXPECT_THAT(errors_of(std::string("listen = \"127.0.0.1:1\"\n") + kRun),
              HasSubstr(":1: listen stands before any section; put [server] or [run] above it"));
  EXPECT_EQ(errors_of(std::string(kRun) + "[demo]\nanything = [1, 2]\n"), "");
}

TEST(Config, WrongTypesAndRangesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"run.rows=\"8\"", "run.rows: expected a whole number"},
      {"run.rows=-1", "run.rows: expected a whole number from 0"},
      {"run.rows=2.5", "run.rows: expected a whole number"},
      {"run.step_size=fast", "run.step_size: expected a finite number"},
      {"run.step_size=1e99", "run.step_size: expected a finite number"},
      {"run.step_size=nan", "run.step_size: expected a finite number"},
      {"run.correction_form=1", "run.correction_form: expected one of \"none\", \"local\""},
      {"run.manifold=torus", "run.manifold: expected one of \"euclidean\", \"sphere\", \"stiefel\""},
      {"server.limits.frame_deadline_ms=0", "frame_deadline_ms: expected a whole number from 1"},
      {"server.listen=localhost", "server.listen: expected ADDRESS:PORT"},
      {"server.log_level=loud", "server.log_level: expected one of"},
      {"server.database=5", "server.database: expected a text in quotes"},
      {"server=5", "expected SECTION.KEY=VALUE"},
      {"run.rows", "expected SECTION.KEY=VALUE"},
      {"run.update_goal=most", "run.update_goal: expected a whole number"},
      {"run.solver=projection_two_sided", "run.solver: expected one of"},
  };
  for (const auto& [override_text, expected] : cases) {
    const std::string errors = errors_of(kRun, {override_text});
    EXPECT_THAT(errors, HasSubstr(expected));
    EXPECT_THAT(errors, HasSubstr(std::string("--set ") + override_text));
  }
}

TEST(Config, PartsOfAProductAreAList) {
  const std::string head = "[run]\nname = \"t\"\nmanifold = \"product\"\nproblem = \"own\"\ndevice_count = 2\n";
  Config config;
  const std::string text = head + "parts = [\"stiefel 16x2\", \"euclidean 10x1\"]\n";
  ASSERT_EQ(load_config(ConfigFile(text).path(), {}, &config), "");
  EXPECT_EQ(config.run.parts, "stiefel 16x2, euclidean 10x1");
  EXPECT_EQ(config.run.shape.rows, 42U);
  Config again;
  ASSERT_EQ(load_config(ConfigFile(config_text(config)).path(), {}, &again), "");
  EXPECT_EQ(canonical_text(again.run), canonical_text(config.run));
  ASSERT_EQ(load_config(ConfigFile(text).path(), {"run.parts=[\"sphere 5x1\"]"}, &again), "");
  EXPECT_EQ(again.run.shape.rows, 5U);
  RunParameters stored;
  ASSERT_EQ(parse_run_source(run_source(config.run), &stored), "");
  EXPECT_EQ(parameters_digest(stored), parameters_digest(config.run));
  ASSERT_NE(stored.shape.parts, nullptr);
  EXPECT_THAT(errors_of(head + "parts = [\"stiefel 16x2\", 3]\n"), HasSubstr("run.parts: expected a list"));
  EXPECT_THAT(errors_of(head + "parts = [\"stiefel 2x16\"]\n"), HasSubstr("parts: manifold stiefel has no points"));
  EXPECT_THAT(errors_of(head), HasSubstr("parts, manifold: manifold product needs"));
}

TEST(Config, AnOverrideIsNotBlamedForWhatTheFileSays) {
  const std::string file = std::string("[server]\nlisten = \"nowhere\"\nlog_level = \"loud\"\n") + kRun;
  const std::string errors = errors_of(file, {"server.database=other.db", "server.limits.store_delay_ms=1"});
  EXPECT_THAT(errors, HasSubstr(":2: server.listen"));
  EXPECT_THAT(errors, HasSubstr(":3: server.log_level"));
  EXPECT_THAT(errors, testing::Not(HasSubstr("--set")));
}

TEST(Config, WhatDoesNotGoTogetherIsRefused) {
  EXPECT_THAT(errors_of(kRun, {"run.solver=svrg"}), HasSubstr("[run] estimator"));
  EXPECT_THAT(errors_of(kRun, {"run.cols=9"}), HasSubstr("rows, cols"));
  EXPECT_THAT(errors_of(kRun, {"server.limits.refusal_retry_min_ms=99999"}), HasSubstr("refusal_retry_min_ms"));
}

TEST(Config, AFileThatCannotBeReadOrParsedIsNamed) {
  Config config;
  EXPECT_THAT(load_config("/nonexistent/x.toml", {}, &config), HasSubstr("/nonexistent/x.toml cannot be read"));
  EXPECT_THAT(load_config("/tmp", {}, &config), HasSubstr("cannot be read"));
  EXPECT_THAT(errors_of("[server]\nlisten = \n"), HasSubstr(":2: "));
}

// A folder with fleet.toml and conf.d/, gone at the end.
class ConfigFolder {
 public:
  explicit ConfigFolder(const std::string& text) : path_(testing::TempDir() + "config_XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
    write("fleet.toml", text);
    std::filesystem::create_directory(path_ + "/conf.d");
  }
  ~ConfigFolder() { std::filesystem::remove_all(path_); }
  ConfigFolder(const ConfigFolder&) = delete;
  ConfigFolder& operator=(const ConfigFolder&) = delete;
  void write(const std::string& name, const std::string& text) { std::ofstream(path_ + "/" + name) << text; }
  std::string path(const std::string& name = "fleet.toml") const { return path_ + "/" + name; }

 private:
  std::string path_;
};

TEST(Config, EachSourceGoesOverTheOnesBeforeItAndIsNamed) {
  ConfigFolder folder(std::string("[server]\nlog_level = \"warn\"\n[server.limits]\nstore_delay_ms = 1\n") + kRun +
                      "seed = 1\nupdate_goal = 1\n");
  folder.write("conf.d/20.toml", "[run]\nseed = 3\ncols = 3\nupdate_goal = \"all\"\n");
  folder.write("conf.d/10.toml", "[run]\nseed = 2\ncols = 4\nsmoothing = 0.5\n");
  folder.write("conf.d/30.off", "[run]\nseed = \"not read\"\n");
  const std::vector<std::string> environment = {"PATH=/bin", "GRADSTREAM_CONFIG=elsewhere", "GRADSTREAM_RUN_SEED=4",
                                                "GRADSTREAM_SERVER_LIMITS_STORE_DELAY_MS=5",
                                                "GRADSTREAM_SERVER_DATABASE=/tmp/a=b.db"};
  Config config;
  ConfigOrigins origins;
  ASSERT_EQ(load_config({folder.path(), environment, {"run.seed=6"}}, &config, &origins), "");
  EXPECT_EQ(config.run.seed, 6U);
  EXPECT_EQ(config.run.shape.cols, 3U);
  EXPECT_EQ(config.run.update_goal, 0U);
  EXPECT_FLOAT_EQ(config.run.smoothing, 0.5F);
  EXPECT_EQ(config.server.store.delay_ms, 5U);
  EXPECT_EQ(config.server.database, "/tmp/a=b.db");
  EXPECT_EQ(config.server.log_level, "warn");
  const std::string text = config_text(config, origins);
  EXPECT_THAT(text, HasSubstr("seed = 6  # --set\n"));
  EXPECT_THAT(text, HasSubstr("cols = 3  # " + folder.path("conf.d/20.toml") + ":3\n"));
  EXPECT_THAT(text, HasSubstr("update_goal = 0  # " + folder.path("conf.d/20.toml") + ":4\n"));
  EXPECT_THAT(text, HasSubstr("smoothing = 0.5  # " + folder.path("conf.d/10.toml") + ":4\n"));
  EXPECT_THAT(text, HasSubstr("log_level = \"warn\"  # " + folder.path() + ":2\n"));
  EXPECT_THAT(text, HasSubstr("store_delay_ms = 5  # GRADSTREAM_SERVER_LIMITS_STORE_DELAY_MS\n"));
  EXPECT_THAT(text, HasSubstr("store_retry_ms = 1000  # default\n"));
  Config again;
  ASSERT_EQ(load_config(ConfigFile(text).path(), {}, &again), "");
  EXPECT_EQ(config_text(again), config_text(config)) << "what is printed can be read";
}

TEST(Config, ErrorsNameTheVariableOrTheFragment) {
  ConfigFolder folder(kRun);
  const auto errors = [&](const std::string& variable) {
    Config config;
    return load_config({folder.path(), {variable}, {}}, &config);
  };
  EXPECT_EQ(errors("GRADSTREAM_RUN_SEED=4"), "");
  EXPECT_THAT(errors("GRADSTREAM_RUN_SEDE=4"),
              HasSubstr("GRADSTREAM_RUN_SEDE: unknown variable; the nearest known one is GRADSTREAM_RUN_SEED"));
  EXPECT_THAT(errors("GRADSTREAM_RUN_SEED=four"), HasSubstr("GRADSTREAM_RUN_SEED: run.seed: expected a whole number"));
  EXPECT_THAT(errors("GRADSTREAM_RUN_COLS=9"), HasSubstr("GRADSTREAM_RUN_COLS: [run] rows, cols"));
  folder.write("conf.d/a.toml", "[run]\nsede = 1\n");
  EXPECT_THAT(errors("A=1"), HasSubstr("conf.d/a.toml:2: unknown key run.sede"));
  folder.write("conf.d/a.toml", "[run]\ncols = 9\n");
  EXPECT_THAT(errors("A=1"), HasSubstr("conf.d/a.toml: [run] rows, cols"));
}

TEST(Config, EveryKeyHasAVariableOfItsOwn) {
  std::vector<std::string> keys = config_keys();
  EXPECT_GT(keys.size(), 80U);
  for (std::string& key : keys) {
    std::replace(key.begin(), key.end(), '.', '_');
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

}  // namespace
}  // namespace gradstream
