#include "server/program/history_keeper.h"

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/run/run_core.h"

namespace gradstream {

uint32_t checkpoint_update_count(const RunParameters& parameters, const JournalKeep& keep) {
  const TriggerCore& trigger = *parameters.trigger;
  const uint64_t of_version = std::max(1U, trigger.buffer_size > 0 ? trigger.buffer_size : trigger.device_count);
  const uint64_t kept = std::max(keep.updates, keep.versions * of_version);
  const uint64_t wanted = keep.is_all ? kCheckpointUpdatesMax : kept / kCheckpointsOfKept;
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, kCheckpointUpdatesMin, kCheckpointUpdatesMax));
}

void HistoryKeeper::take(std::shared_ptr<const Checkpoint> checkpoint) {
  store_.run_after([this, checkpoint = std::move(checkpoint)] { write(checkpoint, 0); });
}

void HistoryKeeper::write(const std::shared_ptr<const Checkpoint>& checkpoint, uint64_t written) {
  if (is_over_) {
    return;
  }
  const CheckpointHead& head = checkpoint->head;
  const StoreStatus status = journal_.write_checkpoint(*checkpoint, &written);
  Fields line;
  line.add("run", uint64_t{run_}).add("version", uint64_t{head.version}).add("bytes", head.size);
  if (status != StoreStatus::kOk) {
    log_event("checkpoint_failed"_event, line.add("cause", cause_of(status)));
    return;
  }
  if (written < head.size) {
    store_.run_after([this, checkpoint, written] { write(checkpoint, written); });
    return;
  }
  log_event("checkpoint_written"_event, line);
  cut();
}

void HistoryKeeper::cut() {
  if (is_over_) {
    return;
  }
  bool has_more = false;
  const StoreStatus status = journal_.cut(keep_, &has_more);
  if (status != StoreStatus::kOk) {
    log_event("journal_cut_failed"_event, Fields().add("run", uint64_t{run_}).add("cause", cause_of(status)));
  } else if (has_more) {
    store_.run_after([this] { cut(); });
  } else {
    tell_cut();
  }
}

void HistoryKeeper::tell_cut() {
  CheckpointHead start;
  if (journal_.read_start(&start) == StoreStatus::kOk && start.sequence > told_sequence_) {
    told_sequence_ = start.sequence;
    log_event("journal_cut"_event, Fields()
                                       .add("run", uint64_t{run_})
                                       .add("before_version", uint64_t{start.version})
                                       .add("records", start.sequence)
                                       .add("updates", start.update_count));
  }
}

}  // namespace gradstream
