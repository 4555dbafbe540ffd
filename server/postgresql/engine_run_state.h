// What an operator makes of a run while nodes train it: one column of the run's row.
//
//   read() --state--> verb --exchange()--> the row, if it still has that state
//
// seal_version() locks the same row. So behind a change that is committed no version is sealed but of an active run.
// Nodes hear of it with the versions that they ask for.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_RUN_STATE_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_RUN_STATE_H_

#include <cstdint>
#include <string>

#include "server/base/objection.h"
#include "server/engine/engine.h"
#include "server/postgresql/engine_checks.h"
#include "server/postgresql/engine_session.h"

namespace gradstream {

// The run that an import has brought.
struct EngineRunNow {
  uint32_t run = 0;
  uint32_t open_version = 0;
  EngineRunState state = EngineRunState::kActive;
  std::string source;  // the table [run] in TOML
};

enum class RunStateWrite : uint8_t {
  kDone,     // it is in, on the standby too
  kBeaten,   // nothing is in: the run has another state by now
  kRefused,  // nothing is in
  kDoubted,  // it may be in: the answer was lost, or the standby may lack it
};

class EngineRunRow {
 public:
  EngineRunRow(EngineSession& session, EngineDurability durability) : session_(session), durability_(durability) {}

  // *is_there: whether the engine has a run. Objects to one of a newer release.
  Objection read(EngineRunNow* out, bool* is_there);
  // Objects where the standby may lack what read() gave.
  Objection confirm();
  // The state of the run that read() gave becomes this one. *why: a sentence, unless it is done or beaten.
  RunStateWrite exchange(const EngineRunNow& now, EngineRunState to, Objection* why);

 private:
  EngineSession& session_;
  const EngineDurability durability_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_RUN_STATE_H_
