// What gradstream engine doctor finds: each check of an engine by itself, where a node stops at the first that fails.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_FINDINGS_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_FINDINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/base/objection.h"
#include "server/postgresql/engine_admin.h"
#include "server/postgresql/engine_checks.h"
#include "server/postgresql/engine_session.h"

namespace gradstream {

// Connections that should be left. Reason: each node that begins takes some, and so does each verb of an operator.
inline constexpr uint64_t kConnectionsLeftMin = 10;
// Between the engine's clock and this machine's, ms. Reason: what docs/how-to/engine.md asks of the clocks of primary
// and standby, so that neither of them is far from that of a node.
inline constexpr uint64_t kClockOffsetMaxMs = 1000;
// Of the oldest transaction on the server, ms. Reason: PostgreSQL cleans up nothing that it can still see, and rows of
// a run change at each batch. Each of ours ends within engine.deadline_ms.
inline constexpr uint64_t kTransactionAgeMaxMs = 60'000;

// What one look at the server does not tell.
struct EngineMeasures {
  int64_t clock_offset_ms = 0;  // of the server's clock, ahead of this machine's
  uint64_t clock_doubt_ms = 0;  // how far that may be wrong: half the time to the answer
  uint64_t oldest_ms = 0;       // age of the oldest transaction; 0: there is none beside ours
  std::string oldest;           // who has it: process, user and application
};
Objection measure_engine(EngineSession& session, EngineMeasures* out);

struct EngineFinding {
  std::string check;    // a word
  std::string value;    // that was found
  std::string trouble;  // a sentence with the remedy; empty: all is well
};
// All checks, in their order. address: engine.address.
std::vector<EngineFinding> findings_of(const EngineReport& report, EngineDurability durability,
                                       const EngineMeasures& measures, const std::string& address);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_FINDINGS_H_
