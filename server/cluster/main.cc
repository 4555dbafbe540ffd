// The program `gradstream-engine`, with libpq: a node, the verbs of `gradstream engine`, and those of `device`, `claim`
// and `run` beside an engine.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "host/log_file.h"
#include "host/output_end.h"
#include "host/standard_files.h"
#include "runtime/base/arithmetic.h"
#include "runtime/base/fusing.h"
#include "runtime/base/status.h"
#include "server/cluster/engine_commands.h"
#include "server/cluster/engine_moves.h"
#include "server/cluster/fleet_verbs.h"
#include "server/cluster/run_state_verbs.h"
#include "server/cluster/serve_node.h"
#include "server/program/device_verbs.h"
#include "server/program/engine_verbs.h"
#include "server/program/run_wish_verbs.h"

namespace gradstream {

// As that of the server: say where and end, before anything wrong becomes durable.
void assert_failed(const char* file, int line) {
  char text[512];
  (void)std::snprintf(text, sizeof text, "gradstream-engine: internal error at %s:%d; please report it\n", file, line);
  write_last_line(text);
  std::_Exit(kExitInternal);
}

namespace {

int run_engine_program(int argc, char** argv) {
  if (!keeps_subnormals() || fuses_products()) {
    return fail(kExitArithmetic, exit_code_text(kExitArithmetic));
  }
  CLI::App app(
      "gradstream-engine: the PostgreSQL database of a cluster, and its nodes; called as gradstream engine and serve");
  EngineArguments arguments;
  if (::access(kInstalledConfig, R_OK) == 0) {
    arguments.common.config = kInstalledConfig;
  }
  int code = kExitOk;
  app.set_version_flag("--version", std::string("gradstream-engine ") + GS_VERSION);
  app.require_subcommand(1);
  const EngineVerbs verbs = {[](const EngineArguments& all) { return engine_init(all.common); },
                             [](const EngineArguments& all) { return engine_migrate(all.common); },
                             [](const EngineArguments& all) { return engine_status(all.common); },
                             [](const EngineArguments& all) { return engine_import(all.common, all.from, all.run); },
                             [](const EngineArguments& all) { return engine_export(all.common, all.to, all.closes); },
                             [](const EngineArguments& all) { return engine_doctor(all.common); }};
  add_engine_verbs(&app, verbs, &arguments, &code);
  add_node_verb(
      &app, [](const EngineArguments& all) { return serve_node(all.common); }, &arguments, &code);
  RunWishArguments wish;
  wish.common = arguments.common;
  CLI::App* const run = app.add_subcommand("run", "pause, resume or stop the run of the engine");
  run->require_subcommand(1);
  add_run_wish_verbs(run, &change_engine_run, &wish, &code);
  DeviceArguments fleet;
  fleet.common = arguments.common;
  add_device_verbs(&app, &run_fleet_verb, &fleet, &code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream asked_for, wrong;
    if (app.exit(error, asked_for, wrong) == 0) {
      print_output(asked_for.str());
      return kExitOk;
    }
    std::string sentence = wrong.str();
    sentence.erase(sentence.find_last_not_of('\n') + 1);
    return fail(kExitUsage, sentence);
  }
  return code;
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) {
  gradstream::open_standard_files();
  if (argc > 1 && std::string_view(argv[1]) == "serve") {
    if (const int code = gradstream::catch_signals_to_serve(); code != 0) {
      return code;
    }
  }
  return gradstream::finish_output("gradstream-engine", gradstream::run_engine_program(argc, argv));
}
