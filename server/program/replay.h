// From what a database keeps of a run to its coordinator: from a checkpoint and the records behind it where there is
// one, else from all records.
#ifndef GRADSTREAM_SERVER_PROGRAM_REPLAY_H_
#define GRADSTREAM_SERVER_PROGRAM_REPLAY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/coordinator/coordinator.h"
#include "server/journal/store.h"
#include "server/run/run_parameters.h"
#include "server/store/fleet_rows.h"

namespace gradstream {

// Why nothing of `what` is left: a sentence with where the records that can be replayed begin, and the remedy. start:
// as Store::read_start() gives it.
std::string dropped_text(uint32_t run, const std::string& what, const CheckpointHead& start);

// Where a replay for people may begin.
enum class Beginning : uint8_t {
  kFirst,    // where the records that are kept begin, and nowhere else
  kReadable  // the same, or where that checkpoint does not read, the next one that does
};

// A coordinator that stands where the records that are kept begin: one that has seen nothing, or the state of the
// checkpoint. *start: which. Null with *error where that does not read, or has another model than the record names that
// begins its version; null without it, where the journal does not read.
std::unique_ptr<Coordinator> begin_replay(const RunRow& run, const RunParameters& parameters,
                                          const std::vector<EnrolledDevice>& devices, Store& journal,
                                          CheckpointHead* start, std::string* error,
                                          Beginning beginning = Beginning::kFirst);

// A coordinator that has replayed the journal, up to and including the record that makes version `version_last`. It
// begins at the newest checkpoint up to there that reads, and the log names those that do not. Null with *error where
// that one has another model than the record names that begins its version, where the journal does not lead to the
// digests that it names, or that version was dropped; null without it, where the journal does not read.
std::unique_ptr<Coordinator> replay_journal(const RunRow& run, const RunParameters& parameters,
                                            const std::vector<EnrolledDevice>& devices, Store& journal,
                                            uint32_t version_last, std::string* error);

// Compares each checkpoint that reads with the record that begins its version. False, with *error: the model of one is
// another than its record names; without it: the journal does not read. *compared: those whose record is kept.
bool check_checkpoints(const RunRow& run, const RunParameters& parameters, const std::vector<EnrolledDevice>& devices,
                       Store& journal, uint64_t* compared, std::string* error);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_REPLAY_H_
