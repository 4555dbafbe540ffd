// The options that most verbs of both programs have.
#ifndef GRADSTREAM_SERVER_PROGRAM_COMMON_OPTIONS_H_
#define GRADSTREAM_SERVER_PROGRAM_COMMON_OPTIONS_H_

#include <CLI/CLI.hpp>

#include "server/program/commands.h"

namespace gradstream {

// --config and --set of a verb. common outlives the parser.
void add_config_options(CLI::App* verb, CommonOptions* common);
// --format of a verb, of what it prints.
void add_format_option(CLI::App* verb, CommonOptions* common);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_COMMON_OPTIONS_H_
