// The command line of gradstream-sim, for the program and for who calls the simulator from elsewhere.
#ifndef GRADSTREAM_SIM_ARGUMENTS_H_
#define GRADSTREAM_SIM_ARGUMENTS_H_

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "sim/big_fleet.h"
#include "sim/cluster.h"
#include "sim/sim_parameters.h"

namespace gradstream {

struct Arguments {
  SimOptions options;
  BigFleetOptions fleet;
  uint32_t fleet_count = 0;  // 0: no fleet but schedules
  uint32_t front_count = 0;  // nodes that train the run of `options` together; 0: one server does
  std::string cluster_plant = "none";
  std::string speeds = "mix";
  std::string csv;
  uint32_t schedules = 0;            // 0: one run
  std::optional<uint32_t> schedule;  // only this one
  std::string faults;                // empty: all with schedules, else none
  std::string lies = "none";
  std::string clip = "none";
  std::string stream = "scalar";
  std::string correction = "local";
  std::string encoding = "f32";
  std::string solver = "gradient_stream";
  std::string participation = "all";
  std::string scale = "none";
  bool centres = false;
  bool is_verbose = false;
  bool has_buffer = false;  // --buffer was given
};

// Whether a fault of the simulator's own was asked for.
bool is_planted(const SimOptions& options);

// With front_count: what several nodes are asked to be.
ClusterOptions cluster_options(const Arguments& arguments);

// own: what the caller brings, or null; *arguments points to it. Nothing: *arguments are complete. Else the exit status
// of a program that was asked for help, or for what it does not take: the words are on out or err.
std::optional<int> parse_arguments(int argc, const char* const* argv, const OwnProblem* own, std::ostream& out,
                                   std::ostream& err, Arguments* arguments);

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_ARGUMENTS_H_
