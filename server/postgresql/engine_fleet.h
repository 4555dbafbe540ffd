// The fleet of an engine, as an operator looks at it and changes it while nodes run.
//
//   read() at one moment --rows--> verb --rows that differ--> write(), if nobody has changed the fleet since
//
// A change takes the next number of the cluster's row, and its rows get that number. It keeps the cluster's row locked
// until it is committed, and so does whoever else changes the fleet. So numbers are committed in their order, and nodes
// find what has changed by them.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_FLEET_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_FLEET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/base/objection.h"
#include "server/postgresql/engine_checks.h"
#include "server/postgresql/engine_session.h"
#include "server/postgresql/engine_transfer.h"

namespace gradstream {

struct EngineFleetRows {
  std::vector<EngineFleetRow> devices, claims;  // by ascending number
};
// Of the transaction that is open, or at two moments where none is.
Objection read_fleet_rows(EngineSession& session, EngineFleetRows* out);

enum class FleetWrite : uint8_t {
  kDone,     // it is in, on the standby too
  kBeaten,   // nothing is in: somebody else has changed the fleet since read()
  kRefused,  // nothing is in
  kDoubted,  // it may be in: the answer was lost, or the standby may lack it
};

class EngineFleet {
 public:
  EngineFleet(EngineSession& session, EngineDurability durability) : session_(session), durability_(durability) {}

  // Devices and claims of one moment. Each call begins anew.
  Objection read(EngineFleetRows* out);
  // Objects where the standby may lack what read() gave, such as a change whose commit was cut in its wait.
  Objection confirm();
  // Rows that are new, or have other content than read() gave. Names of known rows stay. *why: a sentence, unless it is
  // done or beaten.
  FleetWrite write(const EngineFleetRows& changed, Objection* why);
  // Of the engine's server at read(), since the epoch.
  uint64_t clock_ms() const { return clock_ms_; }

 private:
  Objection begin(bool* is_beaten);
  Objection send_all(const EngineFleetRows& changed);

  EngineSession& session_;
  const EngineDurability durability_;
  uint64_t change_ = 0;      // of the fleet that was read
  std::string incarnation_;  // of its cluster
  uint64_t clock_ms_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_FLEET_H_
