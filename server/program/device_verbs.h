// The verbs of `device` and `claim`, as both programs parse them.
//
//   gradstream device VERB ...: on server.database; beside an engine --exec--> gradstream-engine device VERB ...
#ifndef GRADSTREAM_SERVER_PROGRAM_DEVICE_VERBS_H_
#define GRADSTREAM_SERVER_PROGRAM_DEVICE_VERBS_H_

#include <cstdint>
#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "server/program/commands.h"
#include "server/program/fleet_home.h"

namespace gradstream {

struct DeviceArguments {
  CommonOptions common;
  std::string name;
  std::string out;  // an identity file
  bool is_pending = false;
  bool by_device = false;
  uint32_t window_s = 86400;
  ImportOptions import;
  ClaimOptions claim;
};

// Runs a verb on the fleet that the configuration names; the exit code. It may call the verb several times.
using FleetRunner = std::function<int(const CommonOptions&, const std::function<int(FleetHome&)>& verb)>;

// Adds `device` and `claim` with their verbs below `app`. Where the parser finds one, *code is what the runner gave.
// arguments and code outlive the parser.
void add_device_verbs(CLI::App* app, const FleetRunner& runner, DeviceArguments* arguments, int* code);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_DEVICE_VERBS_H_
