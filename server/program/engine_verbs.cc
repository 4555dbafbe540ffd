#include "server/program/engine_verbs.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include <unistd.h>

#include "server/program/common_options.h"

namespace gradstream {
namespace {

CLI::App* add_verb(CLI::App* app, const char* name, const char* text, EngineArguments* arguments) {
  CLI::App* const verb = app->add_subcommand(name, text);
  add_config_options(verb, &arguments->common);
  add_format_option(verb, &arguments->common);
  return verb;
}

}  // namespace

void add_engine_verbs(CLI::App* app, const EngineVerbs& verbs, EngineArguments* arguments, int* code) {
  const auto calls = [arguments, code](const std::function<int(const EngineArguments&)>& does) {
    return [arguments, code, does] { *code = does(*arguments); };
  };
  add_verb(app, "init", "make the tables of a cluster in a PostgreSQL database without one", arguments)
      ->callback(calls(verbs.init));
  add_verb(app, "migrate", "bring the tables to the version of this release", arguments)
      ->callback(calls(verbs.migrate));
  add_verb(app, "status", "the engine's server, its standby, its settings, and a line a run", arguments)
      ->callback(calls(verbs.status));
  CLI::App* const import = add_verb(app, "import", "take a run out of a SQLite database, with its fleet", arguments);
  import->add_option("--from", arguments->from, "the database, which no server serves; it stays as it is")->required();
  import->add_option("--run", arguments->run, "its number; without it the active run, or the latest")
      ->check(CLI::PositiveNumber);
  import->callback(calls(verbs.import_run));
  CLI::App* const back = add_verb(app, "export", "write the run that was imported as a new SQLite database", arguments);
  back->add_option("--to", arguments->to, "the database to write (mode 0600: it holds keys)")->required();
  back->add_flag("--close", arguments->closes, "make a version of the updates that are in for the open one");
  back->callback(calls(verbs.export_run));
}

void add_node_verb(CLI::App* app, const std::function<int(const EngineArguments&)>& does, EngineArguments* arguments,
                   int* code) {
  CLI::App* const verb = app->add_subcommand("serve", "serve the run of the engine, as one of its nodes");
  add_config_options(verb, &arguments->common);
  verb->add_flag("--create", arguments->may_create, "means nothing to a node: gradstream engine init makes the tables");
  verb->callback([=] { *code = does(*arguments); });
}

int become_engine_program(char** words) {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (own.parent_path() / kEngineProgram).string();
  std::vector<char*> arguments = {const_cast<char*>(kEngineProgram)};
  for (; *words != nullptr; ++words) {
    arguments.push_back(*words);
  }
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  return fail(kExitFile, "engine: " + program + " cannot be run: " + std::strerror(errno) +
                             "; install the package gradstream-engine");
}

}  // namespace gradstream
