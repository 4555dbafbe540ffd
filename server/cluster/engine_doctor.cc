#include <memory>
#include <string>

#include "server/cluster/engine_commands.h"
#include "server/postgresql/engine_findings.h"

namespace gradstream {

int engine_doctor(const CommonOptions& options) {
  std::unique_ptr<OpenedEngine> engine;
  if (const int code = open_engine(options, &engine); code != kExitOk) {
    return code;
  }
  EngineReport report;
  EngineMeasures measures;
  Objection objection = read_engine_report(engine->session, &report);
  objection = objection ? objection : measure_engine(engine->session, &measures);
  if (objection) {
    return fail_engine(engine->session, objection);
  }
  size_t failed = 0;
  for (const EngineFinding& one : findings_of(report, engine->durability, measures, engine->config.engine.address)) {
    OutputLine line;
    line.add("check", one.check).add("state", one.trouble.empty() ? "ok" : "failed").add("value", one.value);
    if (!one.trouble.empty()) {
      line.add_quoted("trouble", one.trouble);
      ++failed;
    }
    line.print(options);
  }
  return failed == 0 ? int{kExitOk}
                     : fail(kExitDatabase, "checks of the engine that failed: " + std::to_string(failed) +
                                               "; the lines with state=failed say what helps");
}

}  // namespace gradstream
