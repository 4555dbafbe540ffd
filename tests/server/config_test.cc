// The configuration file: what it may hold, and how every error names the key, its line and the remedy.
#include "server/program/config.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/program/toml_document.h"
#include "server/run/canonical_text.h"
#include "server/run/run_core.h"
#include "tests/support/text_edits.h"

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
  return load_config(ConfigFile(text).path(), overrides, &config).sentence;
}

TEST(Config, TheDemoFileIsTheDocumentedDemo) {
  Config config;
  ASSERT_EQ(load_config(GS_SOURCE_DIR "/experiments/demo.toml", {}, &config).sentence, "");
  const RunParameters& run = config.run;
  EXPECT_EQ(run.model->manifold, ManifoldId::kStiefel);
  EXPECT_EQ(run.model->shape, (Shape{64, 4}));
  EXPECT_EQ(run.model->problem, "kpca");
  EXPECT_EQ(run.local->solver, SolverId::kProjection);
  EXPECT_EQ(run.local->estimator, EstimatorId::kProjectionOneSided);
  EXPECT_EQ(run.local->directions, DirectionKind::kSign);
  EXPECT_EQ(run.local->direction_count, 16U);
  EXPECT_EQ(run.local->group_count, 1U);
  EXPECT_EQ(run.local->local_step_count, 5U);
  EXPECT_FLOAT_EQ(run.local->smoothing, 1e-2F);
  EXPECT_EQ(run.local->batch_mode, BatchMode::kCommon);
  EXPECT_EQ(run.local->batch_size, 32U);
  EXPECT_EQ(run.local->correction_form, CorrectionForm::kLocal);
  EXPECT_FLOAT_EQ(run.steps->step_decay, 0.1F);
  EXPECT_EQ(run.steps->server_step, 1.0F);
  EXPECT_EQ(run.trigger->round_count, 300U);
  EXPECT_EQ(run.trigger->device_count, 9U);
  EXPECT_EQ(run.trigger->update_goal, 0U) << "all";
  EXPECT_EQ(config.server.export_dir, "build/demo/models");
}

TEST(Config, TheEffectiveConfigurationReadsBackToItself) {
  Config config;
  ASSERT_EQ(load_config(GS_SOURCE_DIR "/experiments/demo.toml",
                        {"run.step_size=0.03725", "server.listen=127.0.0.1:0", "server.limits.frame_deadline_ms=77",
                         "run.upload_encoding=int8", "server.database=/tmp/a b.db", "run.update_goal=7"},
                        &config)
                .sentence,
            "");
  EXPECT_FLOAT_EQ(config.run.steps->step_size, 0.03725F);
  EXPECT_EQ(config.run.wire->upload_encoding, Encoding::kInt8);
  EXPECT_EQ(config.run.trigger->update_goal, 7U);
  EXPECT_EQ(config.server.listener.session.frame_deadline_ms, 77U);
  EXPECT_EQ(config.server.database, "/tmp/a b.db");
  const std::string text = config_text(config);
  Config again;
  ASSERT_EQ(load_config(ConfigFile(text).path(), {}, &again).sentence, "");
  EXPECT_EQ(config_text(again), text);
  RunParameters run;
  ASSERT_EQ(parse_run_source(run_source(config.run), &run).sentence, "");
  EXPECT_EQ(parameters_digest(run, 0), parameters_digest(config.run, 0));
}

TEST(Config, AutoStandsForTheStepWhereverItIsReadOrWritten) {
  Config config;
  ASSERT_EQ(
      load_config(GS_SOURCE_DIR "/experiments/demo.toml", {"run.step_size=auto", "run.step_decay=0"}, &config).sentence,
      "");
  EXPECT_EQ(config.run.steps->step_size, 0);
  EXPECT_EQ(value_text(config, "run.step_size"), "\"auto\"");
  const std::string text = config_text(config);
  EXPECT_THAT(text, HasSubstr("step_size = \"auto\"\n"));
  Config again;
  ASSERT_EQ(load_config(ConfigFile(text).path(), {}, &again).sentence, "");
  EXPECT_EQ(config_text(again), text);
  RunParameters run;
  ASSERT_EQ(parse_run_source(run_source(config.run), &run).sentence, "");
  EXPECT_EQ(parameters_digest(run, 0), parameters_digest(config.run, 0));
  EXPECT_THAT(canonical_text(run), HasSubstr("step_size = auto\n"));
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
      {"run.step_size=automatic", "run.step_size: expected a finite number, or \"auto\""},
      {"run.step_size=0", "run.step_size: expected a finite number other than 0, or \"auto\""},
      {"run.step_size=-1", "step_size: needs a number above 0, or auto; it is -1"},
      {"run.step_decay=auto", "run.step_decay: expected a finite number"},
      {"run.correction_form=1", "run.correction_form: expected one of \"none\", \"local\""},
      {"run.manifold=torus", "run.manifold: expected one of \"euclidean\", \"sphere\", \"stiefel\""},
      {"server.limits.frame_deadline_ms=0", "frame_deadline_ms: expected a whole number from 1"},
      {"server.head_period_s=0", "server.head_period_s: expected a whole number from 1 to 86400"},
      {"server.head_period_s=86401", "server.head_period_s: expected a whole number from 1 to 86400"},
      {"server.head_period_s=1.5", "server.head_period_s: expected a whole number"},
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
  ASSERT_EQ(load_config(ConfigFile(text).path(), {}, &config).sentence, "");
  EXPECT_EQ(config.run.model->parts, "stiefel 16x2, euclidean 10x1");
  EXPECT_EQ(config.run.model->shape.rows, 42U);
  Config again;
  ASSERT_EQ(load_config(ConfigFile(config_text(config)).path(), {}, &again).sentence, "");
  EXPECT_EQ(canonical_text(again.run), canonical_text(config.run));
  ASSERT_EQ(load_config(ConfigFile(text).path(), {"run.parts=[\"sphere 5x1\"]"}, &again).sentence, "");
  EXPECT_EQ(again.run.model->shape.rows, 5U);
  RunParameters stored;
  ASSERT_EQ(parse_run_source(run_source(config.run), &stored).sentence, "");
  EXPECT_EQ(parameters_digest(stored, 0), parameters_digest(config.run, 0));
  ASSERT_NE(stored.model->shape.parts, nullptr);
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
  EXPECT_THAT(load_config("/nonexistent/x.toml", {}, &config).sentence,
              HasSubstr("/nonexistent/x.toml cannot be read"));
  EXPECT_THAT(load_config("/tmp", {}, &config).sentence, HasSubstr("cannot be read"));
  EXPECT_THAT(errors_of("[server]\nlisten = \n"), HasSubstr(":2: "));
}

TEST(Config, AFileThatIsNoFileIsRefusedAtOnce) {
  const std::string pipe = testing::TempDir() + "config_pipe_" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  Config config;
  EXPECT_THAT(load_config(pipe, {}, &config).sentence, HasSubstr(pipe + " cannot be read: it is a pipe"));
  unlink(pipe.c_str());
  EXPECT_THAT(load_config("/dev/zero", {}, &config).sentence, HasSubstr("a device, and no ordinary file"));
  EXPECT_THAT(errors_of(std::string(kTomlSizeMax + 1, '#')), HasSubstr("it has more than 1048576 bytes"));
}

TEST(Config, AWrongHeaderIsAnErrorWithItsLine) {
  for (const char* const header : {"[.server]", "[@x]", "[{x}]", "[\u00e4]", "[\n]"}) {
    EXPECT_THAT(errors_of(std::string(kRun) + header + "\n"), HasSubstr(":7: ")) << header;
  }
}

TEST(Config, AKeyInTheWrongSectionSaysWhereItBelongs) {
  const std::pair<const char*, const char*> cases[] = {
      {"[server]\nrows = 8\n", ":2: unknown key server.rows; rows belongs to [run]"},
      {"[server.limits]\ncols = 8\n", ":2: unknown key server.limits.cols; cols belongs to [run]"},
      {"[server]\nstore_delay_ms = 1\n", "store_delay_ms belongs to [server.limits]"},
      {"[run]\nlisten = \"127.0.0.1:0\"\n", "listen belongs to [server]"},
      {"[run]\nio_threads = 1\n", "io_threads belongs to [server.limits]"},
      {"[server.limits]\nlog_level = \"info\"\n", "log_level belongs to [server]"},
      {"[limits]\nio_threads = 1\n", "unknown section [limits]; limits belongs to [server]: [server.limits]"},
      {"[run.limits]\nio_threads = 1\n", "limits belongs to [server]: [server.limits]"},
      {"[server.run]\nrows = 1\n", "run is a section of its own: [run]"},
      {"[server]\nstep_sise = 1\n", "the nearest known one is step_size, which belongs to [run]"},
      {"[server]\ncolour = 1\n", "unknown key server.colour; gradstream serve --print-config lists"},
      {"[server]\n\"a\\nb\" = 1\n", "unknown key server.a\\x0ab; gradstream serve --print-config"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(errors_of(text), HasSubstr(expected));
  }
  EXPECT_THAT(errors_of(kRun, {"server.rows=8"}),
              HasSubstr("--set server.rows=8: unknown key server.rows; rows belongs"));
  EXPECT_THAT(errors_of(kRun, {"rows=8"}),
              HasSubstr("SECTION.KEY=VALUE, such as run.step_size=0.1; rows belongs to [run]"));
}

TEST(Config, EveryKeyIsKnownInItsOwnSectionAlone) {
  for (const std::string& key : config_keys()) {
    const std::string section = key.substr(0, key.rfind('.'));
    const std::string name = key.substr(section.size() + 1);
    for (const std::string other : {"server", "server.limits", "engine", "run"}) {
      if (other != section) {
        EXPECT_THAT(errors_of("[" + other + "]\n" + name + " = 1\n"),
                    HasSubstr(name + " belongs to [" + section + "]"));
      }
    }
  }
}

TEST(Config, ANodesNameIsAWord) {
  Config config;
  EXPECT_FALSE(load_config_text("[engine]\nnode = \"hall-3.example\"\n", {"c.toml", {}, {}}, &config));
  EXPECT_EQ(node_name(config.engine), "hall-3.example");
  EXPECT_FALSE(load_config_text("[engine]\nnode = \"\"\n", {"c.toml", {}, {}}, &config));
  EXPECT_NE(node_name(config.engine), "") << "the machine's";
  for (const std::string& name :
       {std::string("an import"), std::string(kNodeNameMax + 1, 'a'), std::string("\u00e4")}) {
    EXPECT_THAT(errors_of("[engine]\nnode = \"" + name + "\"\n"),
                HasSubstr("engine.node: expected 1 to 63 printable ASCII characters without a blank"));
  }
}

TEST(Config, OnlyTheFirstErrorsOfAFileAreTold) {
  std::string text = "[server]\n";
  for (int i = 0; i < 5000; ++i) {
    text += "key" + std::to_string(i) + " = 1\n";
  }
  const std::string errors = errors_of(text);
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 21);
  EXPECT_THAT(errors, HasSubstr(": and 4980 more errors\n"));
}

TEST(Config, AValueFromOutsideIsAValueAndNothingElse) {
  Config config;
  ASSERT_EQ(
      load_config_text(kRun, {"x", {}, {"server.http_listen=", "server.database=a\nb", "run.name= \"n\""}}, &config)
          .sentence,
      "");
  EXPECT_EQ(config.server.http_listen, "");
  EXPECT_EQ(config.server.database, "a\nb");
  EXPECT_EQ(config.run.name, "n");
  ASSERT_EQ(load_config_text(kRun, {"x", {"GRADSTREAM_SERVER_DATABASE=1\n[run]\nrows = 3"}, {}}, &config).sentence, "");
  EXPECT_EQ(config.server.database, "1\n[run]\nrows = 3") << "no second key, whatever the value holds";
  EXPECT_EQ(config.run.model->shape.rows, 8U);
  EXPECT_THAT(errors_of(kRun, {"server.database="}), HasSubstr("server.database: expected the path of a file"));
  EXPECT_THAT(errors_of(kRun, {"run.rows="}), HasSubstr("run.rows: expected a whole number"));
  EXPECT_THAT(errors_of(kRun, {"run.rows=[."}), HasSubstr("run.rows: expected a whole number"));
  EXPECT_THAT(errors_of(kRun, {"run.rows=2020-01-01 1"}), HasSubstr("run.rows: expected a whole number"));
  EXPECT_THAT(errors_of(kRun, {"server.database=\xff"}),
              HasSubstr("--set server.database=\\xff: the value is no UTF-8"));
  EXPECT_THAT(errors_of(kRun, {"server.database=\"a\\u0000b\""}), HasSubstr("without a byte 0"));
  EXPECT_THAT(errors_of(kRun, {"server]\n[run].rows=3"}), HasSubstr("unknown section [server]\\x0a[run]]"));
  for (const char* const wrong : {"=1", ".=1", "run.=1", ".rows=1", "run..rows=1", "", "."}) {
    EXPECT_THAT(errors_of(kRun, {wrong}), HasSubstr("expected SECTION.KEY=VALUE")) << wrong;
  }
  std::string deep = "run";
  for (int i = 0; i < 100000; ++i) {
    deep += ".a";
  }
  EXPECT_THAT(errors_of(kRun, {deep + "=1"}), HasSubstr("expected SECTION.KEY=VALUE"));
}

TEST(Config, AFlagThatIsEmptyIsNoText) {
  EXPECT_THAT(errors_of(kRun, {"server.allow_psk_ke="}), HasSubstr("expected true or false"));
  EXPECT_THAT(errors_of(std::string("[server]\nlisten = 2020-01-01\n") + kRun), HasSubstr("expected a text in quotes"));
  EXPECT_THAT(errors_of("[[run]]\nname = \"a\"\n"), HasSubstr("[run] must be a section"));
  EXPECT_EQ(errors_of("run = {name = \"t\", rows = 8, cols = 2, problem = \"kpca\", device_count = 2}\n"), "");
  EXPECT_EQ(errors_of("run.name = \"t\"\nrun.rows = 8\nrun.cols = 2\nrun.problem = \"kpca\"\nrun.device_count = 2\n"),
            "");
}

TEST(Config, RandomEditsAreConfigurationsOrErrors) {
  TextEdits edits(7);
  const std::string good = std::string("[server]\nlisten = \"127.0.0.1:0\"\n[server.limits]\nio_threads = 2\n") + kRun;
  for (int i = 0; i < 500; ++i) {
    Config config;
    const std::string override_text = edits.spoil("run.step_size=0.5");
    const std::string variable = "GRADSTREAM_" + edits.spoil("RUN_SEED=5");
    const std::string errors =
        load_config_text(edits.spoil(good), {"x", {variable}, {override_text}}, &config).sentence;
    EXPECT_TRUE(errors.empty() || errors.back() == '\n');
    RunParameters run;
    EXPECT_EQ(parse_run_source(edits.spoil(run_source(config.run)), &run).sentence.find('\0'), std::string::npos);
  }
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
  ASSERT_EQ(load_config({folder.path(), environment, {"run.seed=6"}}, &config, &origins).sentence, "");
  EXPECT_EQ(config.run.seed, 6U);
  EXPECT_EQ(config.run.model->shape.cols, 3U);
  EXPECT_EQ(config.run.trigger->update_goal, 0U);
  EXPECT_FLOAT_EQ(config.run.local->smoothing, 0.5F);
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
  ASSERT_EQ(load_config(ConfigFile(text).path(), {}, &again).sentence, "");
  EXPECT_EQ(config_text(again), config_text(config)) << "what is printed can be read";
}

TEST(Config, KeysThatFollowFromOthersAreSettledAndNamed) {
  ConfigFolder folder(std::string(kRun) + "solver = \"gradient_stream\"\nestimator = \"analytic_gradient\"\n");
  Config config;
  ConfigOrigins origins;
  ASSERT_EQ(load_config({folder.path(), {}, {}}, &config, &origins).sentence, "");
  EXPECT_EQ(config.run.local->correction_form, CorrectionForm::kNone);
  EXPECT_EQ(config.unsettled_run.local->correction_form, CorrectionForm::kLocal);
  EXPECT_THAT(config_text(config, origins),
              HasSubstr("correction_form = \"none\"  # default for solver gradient_stream\n"));
  EXPECT_THAT(load_config({folder.path(), {"GRADSTREAM_RUN_CORRECTION_FORM=local"}, {}}, &config).sentence,
              HasSubstr("GRADSTREAM_RUN_CORRECTION_FORM: [run] correction_form: only solver projection"))
      << "a key that is set is told, by who set it";
  EXPECT_THAT(load_config({folder.path(), {}, {"run.correction_form=local"}}, &config).sentence,
              HasSubstr("--set run.correction_form=local: [run] correction_form"));
}

TEST(Config, AStoredRunIsNotSettled) {
  RunParameters run;
  const Objection objection = parse_run_source(std::string(kRun), &run);
  EXPECT_EQ(objection.sentence, "");
  EXPECT_EQ(run.wire->upload_stream, StreamKind::kNone);
}

TEST(Config, ErrorsNameTheVariableOrTheFragment) {
  ConfigFolder folder(kRun);
  const auto errors = [&](const std::string& variable) {
    Config config;
    return load_config({folder.path(), {variable}, {}}, &config).sentence;
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

// A name space that others write to: a cluster makes variables for each service, and one may be called gradstream.
TEST(Config, VariablesThatAreNotOursChangeNothing) {
  Config config;
  const std::vector<std::string> made = {"GRADSTREAM_PORT=tcp://10.0.0.5:7433",
                                         "GRADSTREAM_SERVICE_HOST=10.0.0.5",
                                         "GRADSTREAM_PORT_7433_TCP_ADDR=10.0.0.5",
                                         "GRADSTREAM_SERVER_PORT=tcp://10.0.0.5:7433",
                                         "GRADSTREAM_SERVER_SERVICE_PORT_HTTP=7434",
                                         "GRADSTREAM_RUN_PORT_7433_TCP=tcp://10.0.0.5:7433",
                                         "GRADSTREAM_RUN_SERVICE_PORT=1"};
  ASSERT_EQ(load_config_text(kRun, {"x", made, {}}, &config).sentence, "");
  EXPECT_TRUE(config.warnings.empty());
  ASSERT_EQ(
      load_config_text(kRun, {"x", {"GRADSTREAM_SERVR_LISTEN=127.0.0.1:0", "GRADSTREAM_NAME=x"}, {}}, &config).sentence,
      "");
  ASSERT_EQ(config.warnings.size(), 2U);
  EXPECT_EQ(config.warnings[0],
            "GRADSTREAM_SERVR_LISTEN: unknown variable; the nearest known one is GRADSTREAM_SERVER_LISTEN");
  for (const char* const wrong : {"GRADSTREAM_SERVER_LISTN=x", "GRADSTREAM_RUN_ROW=8", "GRADSTREAM_SERVER_PORT=7433",
                                  "GRADSTREAM_CONFIG_FILE=x", "GRADSTREAM_RUN_\xff=1"}) {
    EXPECT_THAT(load_config_text(kRun, {"x", {wrong}, {}}, &config).sentence, HasSubstr("unknown variable")) << wrong;
  }
}

TEST(Config, HostsAreNamesWithoutAPort) {
  Config config;
  const auto errors = [&](const std::string& hosts) {
    return load_config_text("[server]\nhttp_hosts = " + hosts + "\n" + kRun, {"x", {}, {}}, &config).sentence;
  };
  EXPECT_EQ(errors("[]"), "");
  EXPECT_EQ(errors("[\"fleet.example.org\", \"[::1]\"]"), "");
  EXPECT_EQ(config.server.http_hosts, (std::vector<std::string>{"fleet.example.org", "[::1]"}));
  EXPECT_EQ(value_text(config, "server.http_hosts"), "[\"fleet.example.org\", \"[::1]\"]");
  EXPECT_THAT(errors("[\"fleet:80\"]"), HasSubstr("x:2: server.http_hosts: fleet:80 is no name or address"));
  EXPECT_THAT(errors("[\"*.example.org\"]"), HasSubstr("write each without a port"));
  EXPECT_THAT(errors("[1]"), HasSubstr("server.http_hosts: expected a list of texts in quotes"));
  const ConfigSources variable = {"x", {"GRADSTREAM_SERVER_HTTP_HOSTS=gradstream"}, {}};
  EXPECT_EQ(load_config_text(kRun, variable, &config).sentence, "") << "one name needs no brackets";
  EXPECT_EQ(config.server.http_hosts, std::vector<std::string>{"gradstream"});
}

TEST(Config, BalancersAreAddressesOrNetworksAndNeverEverybody) {
  Config config;
  const auto errors = [&](const std::string& balancers) {
    return load_config_text("[server]\nbalancers = " + balancers + "\n" + kRun, {"x", {}, {}}, &config).sentence;
  };
  EXPECT_EQ(errors("[]"), "");
  EXPECT_EQ(errors("[\"10.0.0.7\", \"fd00::/64\"]"), "");
  EXPECT_EQ(config.server.balancers, (std::vector<std::string>{"10.0.0.7", "fd00::/64"}));
  EXPECT_THAT(errors("[\"10.0.0.7\", \"lb.example.org\"]"),
              HasSubstr("x:2: server.balancers: lb.example.org is no address, and no network of at least one bit"));
  EXPECT_THAT(errors("[\"0.0.0.0/0\"]"), HasSubstr("server.balancers: 0.0.0.0/0 is no address"));
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
