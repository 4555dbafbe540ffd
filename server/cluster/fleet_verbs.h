// The verbs of `device` and `claim` on the fleet of an engine.
//
//   engine --rows--> database in memory --the verb of a single server--> rows that differ --one transaction--> engine
//
// The database has no file, so that no key is left on a disk however the program ends.
#ifndef GRADSTREAM_SERVER_CLUSTER_FLEET_VERBS_H_
#define GRADSTREAM_SERVER_CLUSTER_FLEET_VERBS_H_

#include <functional>

#include "server/program/commands.h"
#include "server/program/fleet_home.h"

namespace gradstream {

// How often a verb is tried while others change the fleet. Reason: each of them has come to an end meanwhile, so that a
// fleet that changes more often than this during one verb is in the hands of a program.
inline constexpr int kFleetTriesMax = 5;

// Runs the verb on the fleet of engine.address, anew where somebody else was faster; the exit code.
//
// kExitDatabase: nodes would refuse the engine, keys would go without TLS, or the change is on the primary and its
// standby may lack it. kExitNetwork: no server was reached, or the answer was lost: then the change may be in.
// kExitTemporary: others were faster each time.
int run_fleet_verb(const CommonOptions& options, const std::function<int(FleetHome&)>& verb);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_FLEET_VERBS_H_
