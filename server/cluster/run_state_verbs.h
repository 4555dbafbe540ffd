// The verbs `run pause`, `resume` and `stop` on the run of an engine.
#ifndef GRADSTREAM_SERVER_CLUSTER_RUN_STATE_VERBS_H_
#define GRADSTREAM_SERVER_CLUSTER_RUN_STATE_VERBS_H_

#include <cstdint>

#include "server/program/commands.h"
#include "server/program/run_wish.h"

namespace gradstream {

// How often a verb looks anew where another one was faster. Reason: each of them has come to an end meanwhile, so that
// a run that changes more often during one verb is in the hands of a program.
inline constexpr int kRunStateTriesMax = 5;

// Changes the run of engine.address, whether nodes run or not; the exit code. run: its number; 0: the one that is
// there.
//
// kExitDatabase: nodes would refuse the engine, or the change is on the primary and its standby may lack it.
// kExitNetwork: no server was reached, or the answer was lost: then the change may be in. kExitNotFound: there is no
// such run, or what it has come to does not allow the change. kExitTemporary: others were faster each time.
int change_engine_run(const CommonOptions& options, uint32_t run, RunWish wish);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_RUN_STATE_VERBS_H_
