// The verb `serve` of the program `gradstream-engine`: a node.
#ifndef GRADSTREAM_SERVER_CLUSTER_SERVE_NODE_H_
#define GRADSTREAM_SERVER_CLUSTER_SERVE_NODE_H_

#include "server/program/commands.h"

namespace gradstream {

// Serves the run of the engine that engine.address names, together with the other nodes of it, until a signal ends it.
// An engine that is away at the start is waited for.
//
// kExitDatabase: the engine is refused (server/postgresql/engine_checks.h), or the node was in trouble when it ended
// (server/engine/node_trouble.h). kExitNotFound: the engine has no run. kExitFrozen: the run is not one of this
// configuration's [run], or nodes cannot train it.
int serve_node(const CommonOptions& options);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_SERVE_NODE_H_
