// The verbs of `gradstream engine`, as both programs parse them.
//
//   gradstream engine VERB ... --exec--> gradstream-engine VERB ...
//   gradstream serve ...       --exec--> gradstream-engine serve ...   with an engine.address
//
// Reason for two programs: that of the engine links libpq, which brings OpenSSL, Kerberos and LDAP with it. The server
// links none of them. gradstream parses the words all the same, so that its help and its errors need no second package.
#ifndef GRADSTREAM_SERVER_PROGRAM_ENGINE_VERBS_H_
#define GRADSTREAM_SERVER_PROGRAM_ENGINE_VERBS_H_

#include <cstdint>
#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "server/program/commands.h"

namespace gradstream {

// The program beside this one.
inline constexpr const char* kEngineProgram = "gradstream-engine";

struct EngineArguments {
  CommonOptions common;
  std::string from;  // of import: a SQLite database
  uint32_t run = 0;  // its number; 0: the active one, else the latest
  std::string to;    // of export: a new one
  bool closes = false;
  bool may_create = false;  // of serve: means nothing to a node, whose engine has its tables
};

// What each verb does; the exit code.
struct EngineVerbs {
  std::function<int(const EngineArguments&)> init, migrate, status, import_run, export_run, doctor;
};

// Adds `serve`, as that of gradstream has it: with an engine.address it is a node. Else as add_engine_verbs().
void add_node_verb(CLI::App* app, const std::function<int(const EngineArguments&)>& does, EngineArguments* arguments,
                   int* code);
// Adds the verbs below `app`. Where the parser finds one, *code is what it gave. arguments and code outlive the parser.
void add_engine_verbs(CLI::App* app, const EngineVerbs& verbs, EngineArguments* arguments, int* code);

// Becomes the program of the engine, in the folder of this one, with these words of the command line. It returns where
// there is none: an error that is printed, with the remedy.
int become_engine_program(char** words);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_ENGINE_VERBS_H_
