#include "server/cluster/run_state_verbs.h"

#include <memory>
#include <string>

#include "server/cluster/engine_commands.h"
#include "server/postgresql/engine_run_state.h"

namespace gradstream {
namespace {

// What a verb asks of a run, and what it says where that is not to be had.
struct WishRules {
  EngineRunState to = EngineRunState::kActive;
  bool may_follow = false;
  bool is_there = false;  // nothing is left to ask for
  const char* refusal = "";
};

WishRules rules_of(RunWish wish, StoredRunState now) {
  const bool is_active_now = now == StoredRunState::kActive;
  const bool is_paused_now = now == StoredRunState::kPaused;
  switch (wish) {
    case RunWish::kPause:
      return {EngineRunState::kPaused, is_active_now, is_paused_now, "; only an active run can be paused"};
    case RunWish::kResume:
      return {EngineRunState::kActive, is_paused_now, is_active_now, "; only a paused run can be resumed"};
    case RunWish::kStop:
      break;
  }
  return {EngineRunState::kStopped, true, !is_active_now && !is_paused_now, ""};
}

// kExitOk, or an error already printed.
int read_run(OpenedEngine& engine, EngineRunRow& row, uint32_t run, EngineRunNow* out) {
  EngineReport report;
  bool is_there = false;
  Objection objection = read_engine_report(engine.session, &report);
  objection = objection ? objection : trouble_of(report, engine.durability);
  objection = objection ? objection : row.read(out, &is_there);
  if (objection) {
    return fail_engine(engine.session, objection);
  }
  if (!is_there) {
    return fail(kExitNotFound, "the engine has no run; gradstream engine import brings one");
  }
  return run == 0 || run == out->run ? int{kExitOk}
                                     : fail(kExitNotFound, "the engine has no run " + std::to_string(run) +
                                                               "; gradstream engine status shows the one that it has");
}

int print_state(const OpenedEngine& engine, uint32_t run, StoredRunState state, const std::string& note) {
  OutputLine line;
  line.add("run", uint64_t{run}).add("state", stored_run_state_text(state));
  if (!note.empty()) {
    line.add_quoted("note", note);
  }
  line.print(engine.options);
  return kExitOk;
}

// *is_beaten: another verb was faster.
int change_once(OpenedEngine& engine, uint32_t run, RunWish wish, bool* is_beaten) {
  EngineRunRow row(engine.session, engine.durability);
  EngineRunNow now;
  if (const int code = read_run(engine, row, run, &now); code != kExitOk) {
    return code;
  }
  const StoredRunState state = stored_state_of(now.state, now.source, now.open_version);
  const WishRules rules = rules_of(wish, state);
  const std::string sentence = "run " + std::to_string(now.run) + " is " + stored_run_state_text(state);
  if (rules.is_there) {
    const Objection lost = row.confirm();
    return lost ? fail_engine(engine.session, lost)
                : print_state(engine, now.run, state, sentence + " already; nothing was changed");
  }
  if (!rules.may_follow) {
    return fail(kExitNotFound, sentence + rules.refusal);
  }
  Objection why;
  switch (row.exchange(now, rules.to, &why)) {
    case RunStateWrite::kDone:
      return print_state(engine, now.run, stored_state_of(rules.to, "", 0), "");
    case RunStateWrite::kBeaten:
      *is_beaten = true;
      return kExitTemporary;
    case RunStateWrite::kRefused:
      return fail_engine(engine.session, why.sentence + " The run is as it was.");
    case RunStateWrite::kDoubted:
      break;
  }
  return fail_engine(engine.session,
                     why.sentence + " The change may be in nevertheless: gradstream engine status shows it.");
}

}  // namespace

int change_engine_run(const CommonOptions& options, uint32_t run, RunWish wish) {
  std::unique_ptr<OpenedEngine> engine;
  if (const int code = open_engine(options, &engine); code != kExitOk) {
    return code;
  }
  for (int i = 0; i < kRunStateTriesMax; ++i) {
    bool is_beaten = false;
    const int code = change_once(*engine, run, wish, &is_beaten);
    if (!is_beaten) {
      return code;
    }
  }
  return fail(kExitTemporary, "others have changed the run each time while this verb was at work, " +
                                  std::to_string(kRunStateTriesMax) +
                                  " times; it is as they left it: try again once they are done");
}

}  // namespace gradstream
