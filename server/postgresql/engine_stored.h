// A whole run as an engine has it at one moment, on its way out.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_STORED_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_STORED_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/base/objection.h"
#include "server/coordinator/device_row.h"
#include "server/engine/engine.h"
#include "server/postgresql/engine_session.h"
#include "server/postgresql/engine_transfer.h"

namespace gradstream {

struct EngineStored {
  EnginePlan plan;
  std::vector<EngineFleetRow> devices, claims;       // by ascending number
  std::vector<std::pair<uint32_t, DeviceRow>> rows;  // enrolment index, and what the device has done
  uint32_t open_version = 0;
  bool is_sealed = false;  // no update goes into it any more
  EngineRunState state = EngineRunState::kActive;
  std::string leader;                      // whose lease ran within the last 10 s; empty: nobody's
  std::vector<std::vector<uint8_t>> sums;  // of the open version
  std::vector<StoredUpdate> updates;       // of it, where the run's rule has a memory
  std::vector<StoredUpdate> memory;        // the last one of each device, of the versions before
};

// All calls see one moment, from read_run() or read_start() on. What they gave is on the standby once finish() has no
// objection.
class EngineReader {
 public:
  EngineReader(EngineSession& session, EngineDurability durability) : session_(session), durability_(durability) {}
  // The run that an import has brought. *is_there: whether there is one.
  Objection read_run(EngineStored* out, bool* is_there);
  // Some of its versions, from this one on, in their order; none: there is none.
  Objection read_versions(uint32_t from, std::vector<PublishedVersion>* out);
  // The same of what a node begins with: of *out the plan, devices and claims alone. Reason: the open version may have
  // hundreds of megabytes of sums, and a node that is started under load would wait for them in vain.
  Objection read_start(EngineStored* out, bool* is_there);
  Objection finish();

 private:
  Objection read_plan(EnginePlan* out, bool* is_there);
  Objection read_rows(EngineStored* out);
  Objection read_open_version(EngineStored* out);
  Objection read_updates(EngineStored* out);
  Objection read_updates_from(UpdatePlace* from, EngineStored* out, bool* has_more);

  EngineSession& session_;
  const EngineDurability durability_;
  uint32_t run_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_STORED_H_
