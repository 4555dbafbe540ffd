// What the runs of a database have come to, for people: /status/runs and `gradstream run list`.
//
// A journal may have gigabytes, so its end alone is looked at, without payloads and checksums.
#ifndef GRADSTREAM_SERVER_PROGRAM_PAST_RUNS_H_
#define GRADSTREAM_SERVER_PROGRAM_PAST_RUNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/store/sqlite_database.h"
#include "server/watch/watch.h"

namespace gradstream {

// Records at the end of a journal that are looked at. Reason: two versions of ten thousand devices, with their tasks.
inline constexpr uint32_t kPastRecordsMax = 40'000;
// Runs whose journals are looked at, the newest ones; of older ones the page has no figures. Reason: a server reads
// them before it listens, and a journal's end takes up to 20 ms.
inline constexpr size_t kPastRunsMax = 100;

// Errors: those of the database.
StoreStatus read_past_run(SqliteDatabase& database, const RunRow& run, PastRun* out);
// Those of `rows`, in their order. A run that is in `known` with the state that it has is taken from there: its journal
// has not changed since. served: the run that is served, which is left out; 0: none.
StoreStatus read_past_runs(SqliteDatabase& database, const std::vector<RunRow>& rows, uint32_t served,
                           const std::vector<PastRun>& known, std::vector<PastRun>* out);

// "2026-11-26 05:40:12 UTC"; "" for 0.
std::string time_text(uint64_t time_ms);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_PAST_RUNS_H_
