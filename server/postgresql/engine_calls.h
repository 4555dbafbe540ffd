// The calls of an engine as statements, and their answers as replies.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_CALLS_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_CALLS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "server/engine/engine.h"
#include "server/engine/engine_verb.h"
#include "server/postgresql/engine_link.h"
#include "server/postgresql/pg_values.h"

namespace gradstream {

// Versions in a reply to read_versions(). Reason: a node that begins may have thousands to read. The largest model is
// of 128 KiB, so that a reply stays near 8 MiB, and the deadline has room for its transfer.
inline constexpr uint32_t kEngineVersionCountMax = 64;

// Sums in a reply to read_sums(), and their bytes; one is in it, however large it is. Reason: as for versions. A sum of
// the largest model has 512 KiB for each base version and owner, and one of a small model a few KiB.
inline constexpr uint32_t kEngineSumCountMax = 256;
inline constexpr uint64_t kEngineSumBytesMax = uint64_t{8} << 20;

// Updates in a reply to read_updates(), and their bytes; one is in it, however large it is. Reason: as for sums. An
// update of the largest model has 128 KiB, and one of scalars some hundred bytes.
inline constexpr uint32_t kEngineUpdateCountMax = 2048;
inline constexpr uint64_t kEngineUpdateBytesMax = uint64_t{8} << 20;

// Rows in a reply to read_fleet(), and bytes of their contents; one is in it, however large it is. Reason: a node that
// begins reads a million devices in a thousand calls of some milliseconds each.
inline constexpr uint32_t kEngineFleetCountMax = 1024;
inline constexpr uint64_t kEngineFleetBytesMax = uint64_t{1} << 20;

// Prepared at each connection.
struct EngineStatement {
  const char* name;
  const char* text;
  // Whether what its answer tells has to be on the standby first. It then writes or locks a row wherever it tells
  // something, so that its commit waits. But take_lease that is cut does not, nor do read_versions and read_fleet
  // that find none, nor a state that the node knows: a node concludes nothing from these but what it knew to be
  // durable.
  bool has_to_wait;
};
// By the number of the verb.
const std::array<EngineStatement, kEngineVerbCount>& engine_statements();

// The parameters of a call, but for what every call of a node begins with: run, or run and node.
PgParameters parameters_of_node(const PostgresOptions& options);
PgParameters parameters_of_run(const PostgresOptions& options);
PgParameters parameters_of_join(const PostgresOptions& options);
PgParameters parameters_of_batch(const PostgresOptions& options, const EngineBatch& batch);
PgParameters parameters_of_sums(const PostgresOptions& options, uint32_t version, const SumPlace& after);
PgParameters parameters_of_updates(const PostgresOptions& options, uint32_t version, UpdatePart part,
                                   const UpdatePlace& from);
PgParameters parameters_of_publish(const PostgresOptions& options, uint64_t term, uint64_t sum_count,
                                   const PublishedVersion& next);
PgParameters parameters_of_fleet(const FleetPlace& from);
PgParameters parameters_of_devices(const PostgresOptions& options, const std::vector<uint32_t>& devices);

// The outcome and the parts of the reply to a call; kUnknown of an error and of a doubtful answer. devices: those that
// a load asks for. False: the rows are none that this release can read, and the reply knows nothing.
bool read_engine_reply(EngineVerb verb, const PgAnswer& answer, const std::vector<uint32_t>& devices,
                       EngineReply* reply);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_CALLS_H_
