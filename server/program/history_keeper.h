// Keeps the history of a run short while it is served: stores checkpoints, and drops records that the configuration
// does not keep.
//
//   Coordinator --kCheckpoint--> take() --pieces--> store thread: write, write, ..., cut, cut, ...
//
// Each arrow on the store thread is a job of one short transaction, behind what was appended before it: records are
// committed in between.
#ifndef GRADSTREAM_SERVER_PROGRAM_HISTORY_KEEPER_H_
#define GRADSTREAM_SERVER_PROGRAM_HISTORY_KEEPER_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "server/journal/checkpoint.h"
#include "server/journal/store.h"
#include "server/run/run_parameters.h"
#include "server/store/store_thread.h"

namespace gradstream {

// Updates between two checkpoints, at most and at least. Reason: a restart replays so many and as many again, in a
// tenth of a second; and of fewer a checkpoint costs more than its records.
inline constexpr uint32_t kCheckpointUpdatesMax = 10'000;
inline constexpr uint32_t kCheckpointUpdatesMin = 256;
// What is kept beyond what the key names is so small a share of it.
inline constexpr uint32_t kCheckpointsOfKept = 8;
// For Coordinator::set_checkpoints().
uint32_t checkpoint_update_count(const RunParameters& parameters, const JournalKeep& keep);

class HistoryKeeper {
 public:
  // journal and store outlive it. Jobs run on the store's thread.
  HistoryKeeper(uint32_t run, const JournalKeep& keep, Store& journal, StoreThread& store)
      : run_(run), keep_(keep), journal_(journal), store_(store) {}
  HistoryKeeper(const HistoryKeeper&) = delete;
  HistoryKeeper& operator=(const HistoryKeeper&) = delete;

  void take(std::shared_ptr<const Checkpoint> checkpoint);
  // Before the store stops: what is left of a checkpoint or a cut is left for the next server.
  void end() { is_over_ = true; }

 private:
  void write(const std::shared_ptr<const Checkpoint>& checkpoint, uint64_t written);
  void cut();
  void tell_cut();

  const uint32_t run_;
  const JournalKeep keep_;
  Store& journal_;
  StoreThread& store_;
  std::atomic<bool> is_over_ = false;
  uint64_t told_sequence_ = 0;  // of the last cut that the log has; store thread only
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_HISTORY_KEEPER_H_
