// The verbs `run pause`, `resume` and `stop`, as both programs parse them.
//
//   gradstream run pause ...   --exec-->   gradstream-engine run pause ...   with an engine.address
#ifndef GRADSTREAM_SERVER_PROGRAM_RUN_WISH_VERBS_H_
#define GRADSTREAM_SERVER_PROGRAM_RUN_WISH_VERBS_H_

#include <cstdint>
#include <functional>

#include <CLI/CLI.hpp>

#include "server/program/commands.h"
#include "server/program/run_wish.h"

namespace gradstream {

struct RunWishArguments {
  CommonOptions common;
  uint32_t run = 0;  // its number; 0: the active one, else the latest
};

// What a verb does; the exit code.
using FollowRunWish = std::function<int(const CommonOptions& options, uint32_t run, RunWish wish)>;

// Adds the three verbs below `run`. Where the parser finds one, *code is what `does` gave. arguments and code outlive
// the parser.
void add_run_wish_verbs(CLI::App* run, const FollowRunWish& does, RunWishArguments* arguments, int* code);

// As commands.h has each of them, for the run of server.database. With an engine.address: what beside_engine() gives.
int follow_run_wish(const CommonOptions& options, uint32_t run, RunWish wish,
                    const std::function<int()>& beside_engine);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_RUN_WISH_VERBS_H_
