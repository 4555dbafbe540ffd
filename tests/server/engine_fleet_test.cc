// The verbs of `device` and `claim` beside an engine, as docs/how-to/engine.md shows them: against a primary and its
// standby.
#include "server/postgresql/engine_fleet.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/cluster/engine_commands.h"
#include "server/engine/followed_run.h"
#include "server/run/run_core.h"
#include "tests/support/engine_moves_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kChange[] = "SELECT fleet_change FROM gradstream.cluster";

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A program that runs beside the test.
class Beside {
 public:
  Beside(const std::string& command, std::string output) : output_(std::move(output)) {
    pid_ = fork();
    if (pid_ == 0) {
      execl("/bin/sh", "sh", "-c", ("exec " + command + " > " + output_ + " 2>&1").c_str(), nullptr);
      _exit(127);
    }
  }
  ~Beside() {
    if (pid_ > 0) {
      end(SIGKILL);
    }
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  // signal: 0: none, it ends by itself.
  ToldAnswer end(int signal = 0) {
    int status = 0;
    kill(pid_, signal);
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(output_)};
  }

 private:
  const std::string output_;
  pid_t pid_ = -1;
};

class EngineFleetVerbs : public EngineMoves {
 protected:
  std::string command(const std::string& words) const {
    return std::string(GS_PROGRAM) + " " + words + " --config " + folder_.file("c.toml") +
           " --set server.database=" + folder_.file("unused.db") + " --set 'engine.address=" + address_ + "'";
  }
  ToldAnswer fleet(const std::string& words) const { return answer_to(command(words)); }
  ToldAnswer add(const std::string& name) const {
    return fleet("device add " + name + " --out " + folder_.file(name + ".identity"));
  }
  std::string ask(const std::string& statement) const { return PgSession(address_).ask(statement); }
  // The fleet of the engine as a single server reads it.
  void read(SqliteDatabase* out) const {
    EngineSession session(kTestDeadlineMs);
    ASSERT_EQ(session.open(address_).sentence, "");
    EngineFleetRows rows;
    FleetCopy copy;
    ASSERT_EQ(EngineFleet(session, EngineDurability::kStandby).read(&rows).sentence, "");
    for (const EngineFleetRow& row : rows.devices) {
      copy.devices.push_back({row.number, row.name, row.content});
    }
    for (const EngineFleetRow& row : rows.claims) {
      copy.claims.push_back({row.number, row.name, row.content});
    }
    SqliteOptions options;
    options.is_in_memory = true;
    ASSERT_EQ(out->open(options), StoreStatus::kOk);
    ASSERT_EQ(write_fleet(*out, copy).sentence, "");
  }
  // Whether the file has the key that the engine has of the device.
  bool has_key_of(const std::string& file, const std::string& name) const {
    SqliteDatabase database;
    read(&database);
    std::string hex;
    const std::optional<EnrolledDevice> device = value_of(database.find_device(name));
    for (const uint8_t byte : device->key) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", byte);
      hex += digits;
    }
    return text_of(folder_.file(file)).find("key = " + hex + "\n") != std::string::npos;
  }
  // Until the engine's program waits for this: "SyncRep", or a "transactionid" that another one has.
  bool wait_until_it_waits(const std::string& event) const {
    return cluster_of_moves()->wait_for(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gradstream' "
        "AND wait_event = '" +
            event + "'",
        "1");
  }
  void end_its_backend(const std::string& function) const {
    cluster_of_moves()->ask_primary("SELECT " + function +
                                    "(pid) FROM pg_stat_activity WHERE application_name = 'gradstream'");
  }
  bool is_there(const std::string& file) const { return std::filesystem::exists(folder_.file(file)); }
};

// Each verb, and what the engine has of it.
TEST_F(EngineFleetVerbs, ADeviceLivesInTheEngine) {
  ToldAnswer told = add("a");
  EXPECT_EQ(told.code, kExitOk) << told.text;
  EXPECT_EQ(told.text, "device=a index=0 identity_file=" + folder_.file("a.identity") + " engine=127.0.0.1:" +
                           std::to_string(cluster_of_moves()->primary_port()) + " state=active\n");
  EXPECT_TRUE(has_key_of("a.identity", "a"));
  EXPECT_EQ(fleet("device add b --pending --out " + folder_.file("b.identity")).code, kExitOk);
  EXPECT_THAT(fleet("device list").text, HasSubstr("\ndevice=b index=1 state=pending created_ms="));
  EXPECT_EQ(fleet("device enable b").text, "device=b state=active\n");

  told = fleet("device rotate a --out " + folder_.file("a2.identity"));
  EXPECT_THAT(told.text, StartsWith("device=a identity=a~1 identity_file="));
  EXPECT_TRUE(has_key_of("a2.identity", "a"));
  told = fleet("device rotate b --by-device");
  EXPECT_EQ(told.code, kExitOk);
  EXPECT_THAT(told.text, HasSubstr("key_change=waiting"));
  EXPECT_THAT(told.text, HasSubstr("nodes ask no device for a key"));
  EXPECT_THAT(fleet("device show b").text, HasSubstr(" key_change=waiting since_ms="));
  EXPECT_EQ(fleet("device disable a").text, "device=a state=disabled\n");
  EXPECT_EQ(fleet("device revoke a --format json").text, "{\"device\":\"a\",\"state\":\"revoked\"}\n");
  told = fleet("device enable a");
  EXPECT_EQ(told.code, kExitNotFound);
  EXPECT_THAT(told.text, HasSubstr("device a is revoked, for good; enrol it under a new name"));
  EXPECT_EQ(fleet("device show nobody").code, kExitNotFound);
  SqliteDatabase database;
  read(&database);
  const EnrolledDevice a = *value_of(database.find_device("a"));
  EXPECT_EQ(a.state, DeviceState::kRevoked);
  EXPECT_EQ(a.generation, 1U);
  EXPECT_GT(a.previous_until_ms, a.created_ms);
  EXPECT_FALSE(is_there("unused.db"));
}

TEST_F(EngineFleetVerbs, AClaimLivesInTheEngine) {
  const ToldAnswer told = fleet("claim add batch --count-max 3 --out " + folder_.file("batch.claim"));
  EXPECT_EQ(told.code, kExitOk);
  EXPECT_THAT(told.text, HasSubstr("nodes let nobody in by a claim"));
  EXPECT_THAT(fleet("claim list").text, StartsWith("claim=batch state=\"open\" count_used=0 count_max=3 expires_ms="));
  EXPECT_EQ(fleet("claim add batch --out " + folder_.file("again.claim")).code, kExitNotFound);
  EXPECT_FALSE(is_there("again.claim"));
  EXPECT_EQ(fleet("claim end batch").text, "claim=batch state=ended\n");
  EXPECT_THAT(fleet("claim list").text, StartsWith("claim=batch state=\"ended\""));
  EXPECT_EQ(ask("SELECT change FROM gradstream.claim"), "2");
  SqliteDatabase database;
  read(&database);
  EXPECT_TRUE(value_of(database.find_claim("batch"))->is_proven);
}

TEST_F(EngineFleetVerbs, AnImportIsOneChange) {
  std::ofstream(folder_.file("all.csv")) << "x\ny\nz\n";
  const ToldAnswer told = fleet("device import " + folder_.file("all.csv") + " --out-folder " + folder_.file("keys"));
  EXPECT_EQ(told.code, kExitOk) << told.text;
  EXPECT_THAT(told.text, StartsWith("devices=3 identity_files=3 state=active engine=127.0.0.1:"));
  EXPECT_TRUE(has_key_of("keys/y.identity", "y"));
  EXPECT_EQ(ask("SELECT string_agg(name || change, ' ' ORDER BY device) FROM gradstream.device"), "x1 y1 z1");
  std::ofstream(folder_.file("more.csv")) << "v\ny\n";
  const ToldAnswer taken = fleet("device import " + folder_.file("more.csv") + " --out-folder " + folder_.file("more"));
  EXPECT_EQ(taken.code, kExitNotFound);
  EXPECT_THAT(taken.text, HasSubstr("device y is enrolled already; nothing was enrolled"));
  EXPECT_FALSE(is_there("more"));
  EXPECT_EQ(ask("SELECT count(*) FROM gradstream.device"), "3");
}

// Nodes read the rows whose number is above what they have: so each change has one, and only its rows get it.
TEST_F(EngineFleetVerbs, AChangeGetsTheNextNumber) {
  ASSERT_EQ(add("a").code, kExitOk);
  ASSERT_EQ(add("b").code, kExitOk);
  EXPECT_EQ(ask(kChange), "2");
  ASSERT_EQ(fleet("device disable a").code, kExitOk);
  EXPECT_EQ(ask(kChange), "3");
  EXPECT_EQ(ask("SELECT string_agg(name || change, ' ' ORDER BY device) FROM gradstream.device"), "a3 b2");
  for (const std::string words :
       {"device list", "device show a", "claim list", "device disable a", "device revoke x", "claim end x"}) {
    fleet(words);
    EXPECT_EQ(ask(kChange), "3") << words;
  }
}

// A change of rows that are no longer those of now is none.
TEST_F(EngineFleetVerbs, OfTwoChangesAtOnceTheSecondBeginsAnew) {
  EngineSession first_session(kTestDeadlineMs), second_session(kTestDeadlineMs);
  ASSERT_EQ(first_session.open(address_).sentence, "");
  ASSERT_EQ(second_session.open(address_).sentence, "");
  EngineFleet first(first_session, EngineDurability::kStandby), second(second_session, EngineDurability::kStandby);
  EngineFleetRows rows;
  ASSERT_EQ(first.read(&rows).sentence, "");
  ASSERT_EQ(second.read(&rows).sentence, "");
  Objection why;
  EXPECT_EQ(first.write({{{0, "a", {1}}}, {}}, &why), FleetWrite::kDone) << why.sentence;
  EXPECT_EQ(second.write({{{0, "b", {1}}}, {}}, &why), FleetWrite::kBeaten);
  ASSERT_EQ(second.read(&rows).sentence, "");
  ASSERT_EQ(rows.devices.size(), 1U);
  EXPECT_EQ(rows.devices[0].name, "a");
  EXPECT_EQ(second.write({{{1, "b", {1}}}, {}}, &why), FleetWrite::kDone) << why.sentence;
  EXPECT_EQ(second.confirm().sentence, "");
  EXPECT_EQ(ask("SELECT string_agg(name || change, ' ' ORDER BY device) FROM gradstream.device"), "a1 b2");
  // The database was initialised anew meanwhile.
  ASSERT_EQ(first.read(&rows).sentence, "");
  ask("UPDATE gradstream.cluster SET incarnation = 'another'");
  EXPECT_EQ(first.write({{{2, "c", {1}}}, {}}, &why), FleetWrite::kBeaten);
  // The server refuses a row: none is in.
  ASSERT_EQ(first.read(&rows).sentence, "");
  EXPECT_EQ(first.write({{{2, "c", {1}}, {3, "a", {1}}}, {}}, &why), FleetWrite::kRefused);
  EXPECT_THAT(why.sentence, HasSubstr("(SQLSTATE 23505)"));
  EXPECT_EQ(ask("SELECT count(*) FROM gradstream.device"), "2");
  EXPECT_EQ(ask(kChange), "2");
}

TEST_F(EngineFleetVerbs, OfVerbsAtOnceNoneIsLost) {
  {
    std::vector<std::unique_ptr<Beside>> verbs;
    for (const std::string name : {"a", "b", "c", "d"}) {
      const std::string output = folder_.file(name + ".out");
      verbs.push_back(std::make_unique<Beside>(
          command("device add " + name + " --out " + folder_.file(name + ".identity")), output));
    }
    for (const std::unique_ptr<Beside>& verb : verbs) {
      const ToldAnswer told = verb->end();
      EXPECT_EQ(told.code, kExitOk) << told.text;
    }
  }
  EXPECT_EQ(ask("SELECT string_agg(name, '' ORDER BY name) || max(device) || max(change) FROM gradstream.device"),
            "abcd34");
  for (const std::string name : {"a", "b", "c", "d"}) {
    EXPECT_TRUE(has_key_of(name + ".identity", name)) << name;
  }
}

// Before its commit nothing of a verb is in, however it ends.
TEST_F(EngineFleetVerbs, AVerbThatIsKilledLeavesNothingHalf) {
  std::ofstream(folder_.file("many.csv")) << "x\ny\nz\n";
  PgSession holder(address_);
  holder.ask("BEGIN; SELECT FROM gradstream.cluster FOR UPDATE");
  Beside verb(command("device import " + folder_.file("many.csv") + " --out-folder " + folder_.file("keys")),
              folder_.file("out"));
  ASSERT_TRUE(wait_until_it_waits("transactionid"));
  EXPECT_EQ(verb.end(SIGKILL).text, "");
  holder.ask("COMMIT");
  ASSERT_TRUE(
      cluster_of_moves()->wait_for("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gradstream'", "0"));
  EXPECT_EQ(ask("SELECT count(*) FROM gradstream.device"), "0");
  EXPECT_EQ(ask(kChange), "0");
  EXPECT_TRUE(is_there("keys/x.identity")) << "its keys count for nobody";
  const ToldAnswer again = fleet("device import " + folder_.file("many.csv") + " --out-folder " + folder_.file("new"));
  EXPECT_EQ(again.code, kExitOk) << again.text;
}

TEST_F(EngineFleetVerbs, WithoutAStandbyNothingIsAcknowledged) {
  cluster_of_moves()->set_standby_names("");
  const ToldAnswer told = add("a");
  EXPECT_EQ(told.code, kExitDatabase);
  EXPECT_THAT(told.text, HasSubstr("no synchronous standby (synchronous_standby_names is empty)"));
  EXPECT_THAT(told.text, Not(HasSubstr("device=a")));
  EXPECT_FALSE(is_there("a.identity"));
  EXPECT_EQ(ask("SELECT count(*) FROM gradstream.device"), "0");
  const ToldAnswer trusted = fleet("device add a --set engine.durability=storage --out " + folder_.file("a.identity"));
  EXPECT_EQ(trusted.code, kExitOk) << trusted.text;
  cluster_of_moves()->set_standby_names("*");
}

// The standby goes while the verb commits. What is on the primary alone is told as that, and the key stays.
TEST_F(EngineFleetVerbs, ACommitThatTheStandbyMayLackIsNotAcknowledged) {
  const struct {
    std::string name, function;
    int code;
    std::string words;
  } cases[] = {
      {"cut", "pg_cancel_backend", kExitDatabase,
       "the fleet was changed, and the wait for its standby was cut: the standby may lack it."},
      {"lost", "pg_terminate_backend", kExitNetwork, "server closed the connection unexpectedly"},
  };
  for (const auto& one : cases) {
    PgSession holder(address_);
    holder.ask("BEGIN; SELECT FROM gradstream.cluster FOR UPDATE");
    Beside verb(command("device add " + one.name + " --out " + folder_.file(one.name + ".identity")),
                folder_.file("out"));
    ASSERT_TRUE(wait_until_it_waits("transactionid"));
    cluster_of_moves()->end_standby();
    holder.ask("ROLLBACK");
    ASSERT_TRUE(wait_until_it_waits("SyncRep"));
    end_its_backend(one.function);
    const ToldAnswer told = verb.end();
    EXPECT_EQ(told.code, one.code) << told.text;
    EXPECT_THAT(told.text, HasSubstr(one.words));
    EXPECT_THAT(told.text, HasSubstr("The change may be in nevertheless: gradstream device list and claim list tell."));
    EXPECT_THAT(told.text, HasSubstr("keep " + folder_.file(one.name + ".identity")));
    EXPECT_THAT(told.text, Not(HasSubstr("index=")));
    cluster_of_moves()->start_standby();
    EXPECT_TRUE(has_key_of(one.name + ".identity", one.name));
  }
}

TEST_F(EngineFleetVerbs, ARefusedChangeTakesItsFilesBack) {
  ask("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room'; END $$; "
      "CREATE TRIGGER refuse BEFORE INSERT ON gradstream.device FOR EACH ROW EXECUTE FUNCTION refuse()");
  const ToldAnswer told = add("a");
  EXPECT_EQ(told.code, kExitDatabase);
  EXPECT_THAT(told.text, HasSubstr("no room (SQLSTATE P0001). Look into the server's log. The fleet is as it was."));
  EXPECT_FALSE(is_there("a.identity"));
  ask("DROP TRIGGER refuse ON gradstream.device");
  EXPECT_EQ(add("a").code, kExitOk);
}

// A fleet that somebody else changes without an end.
TEST_F(EngineFleetVerbs, AVerbThatIsAlwaysBeatenSaysSo) {
  ask("CREATE ROLE slow LOGIN; GRANT pg_read_all_stats TO slow; GRANT USAGE ON SCHEMA gradstream TO slow; "
      "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA gradstream TO slow; "
      "ALTER TABLE gradstream.cluster ENABLE ROW LEVEL SECURITY; "
      "CREATE POLICY look ON gradstream.cluster FOR SELECT TO slow USING (true); "
      "CREATE POLICY change ON gradstream.cluster FOR UPDATE TO slow USING (false)");  // it finds no row to lock
  const ToldAnswer told = answer_to(command("device add a --out " + folder_.file("a.identity")) +
                                    " --set 'engine.address=" + address_ + " user=slow'");
  EXPECT_EQ(told.code, kExitTemporary) << told.text;
  EXPECT_THAT(told.text, HasSubstr("others have changed the engine's fleet each time while this verb was at work, 5"));
  EXPECT_FALSE(is_there("a.identity"));
}

// What reads or writes server.database alone is refused, with what stands in its place.
TEST_F(EngineFleetVerbs, VerbsOfADatabaseAreRefusedByName) {
  std::ofstream(folder_.file("copy.db")) << "copy";
  for (const std::string& words :
       {std::string("run list"), std::string("run start"), std::string("run forget --device a"), std::string("status"),
        std::string("history"), "backup " + folder_.file("b.db"), "restore " + folder_.file("copy.db"),
        "model export --out " + folder_.file("m.npy")}) {
    const ToldAnswer told = fleet(words);
    EXPECT_EQ(told.code, kExitConfig) << words << ": " << told.text;
    EXPECT_THAT(told.text, HasSubstr("engine.address names an engine, and this verb works with server.database"));
    EXPECT_THAT(told.text, HasSubstr("gradstream engine status shows the engine's runs"));
  }
  EXPECT_FALSE(is_there("unused.db"));
}

TEST_F(EngineFleetVerbs, TheDoctorSaysWhichCheckFailed) {
  ToldAnswer told = call("doctor", "");
  EXPECT_EQ(told.code, kExitOk) << told.text;
  EXPECT_THAT(told.text, StartsWith("check=server_version state=ok value="));
  EXPECT_THAT(told.text, HasSubstr("\ncheck=synchronous_standbys state=ok value=1\n"));
  EXPECT_THAT(told.text, HasSubstr("\ncheck=clock_offset_ms state=ok value="));
  ASSERT_FALSE(add_engine_run(address_, 7, kTestDeadlineMs));
  told = call("doctor", "");
  EXPECT_EQ(told.code, kExitDatabase);
  EXPECT_THAT(told.text,
              HasSubstr("check=lease_of_run_7 state=failed value=0 trouble=\"no node leads run 7: its open "));
  EXPECT_THAT(told.text, HasSubstr("checks of the engine that failed: 1; the lines"));
}

TEST_F(EngineFleetVerbs, TheServerNamesTheProgramThatItNeeds) {
  const std::string alone = folder_.file("gradstream");
  std::filesystem::copy_file(GS_PROGRAM, alone);
  const ToldAnswer told =
      answer_to(alone + " device list --config " + folder_.file("c.toml") + " --set engine.address=host=db1");
  EXPECT_EQ(told.code, kExitFile);
  EXPECT_THAT(told.text, HasSubstr("gradstream-engine cannot be run: No such file or directory; install the package "
                                   "gradstream-engine"));
  EXPECT_EQ(answer_to(alone + " device list --colour").code, kExitUsage) << "its words are judged before";
}

// A leader takes in so many updates. Without a memory it takes sums, whoever is enrolled.
TEST_F(EngineFleetVerbs, AMemoryTakesNoMoreDevicesThanItsEngineKeeps) {
  RunParameters parameters = scalar_parameters();
  parameters.local->correction_form = CorrectionForm::kMemory;
  parameters.fold->fold_weight = FoldWeight::kUniform;
  PlayedRun(parameters).write(folder_.file("a.db"));
  ASSERT_EQ(import().code, kExitOk);
  const std::string enrol = "device import " + folder_.file("more.csv");
  write_device_list(folder_.file("more.csv"), kClusterMemoryDevicesMax - kDevices + 1);
  ToldAnswer told = fleet(enrol);
  EXPECT_EQ(told.code, kExitFrozen);
  EXPECT_THAT(told.text, HasSubstr("run 7 has a memory (correction_form), for which an engine keeps the updates of "
                                   "16384 devices at most, and the fleet stays as it is"));
  EXPECT_EQ(ask("SELECT count(*) FROM gradstream.device"), "4");
  write_device_list(folder_.file("more.csv"), kClusterMemoryDevicesMax - kDevices);
  told = fleet(enrol);
  ASSERT_EQ(told.code, kExitOk) << told.text;
  EXPECT_EQ(ask("SELECT count(*) FROM gradstream.device"), "16384");
  EXPECT_EQ(add("last").code, kExitFrozen);
  EXPECT_FALSE(is_there("last.identity")) << "no key of nobody is left";
  EXPECT_EQ(fleet("device disable more0").code, kExitOk) << "who is there may change";
  ask("UPDATE gradstream.plan SET source = replace(source, 'correction_form = \"memory\"', "
      "'correction_form = \"local\"')");
  EXPECT_EQ(add("last").code, kExitOk);
}

}  // namespace
}  // namespace gradstream
