// What the simulator's database keeps of a run's history: checkpoints, and the records behind them.
#include "sim/simulation.h"

namespace gradstream {

// What a server finds: the newest checkpoint, and the records behind it. The oracle has all of them.
void Simulation::replay_kept() {
  std::vector<CheckpointHead> heads;
  GS_ASSERT(kept_.read_heads(&heads) == StoreStatus::kOk);
  std::vector<uint8_t> bytes;
  if (!heads.empty() &&
      (kept_.read_checkpoint(heads.back(), &bytes) != StoreStatus::kOk || server_->restore(bytes) != Status::kOk)) {
    broken("a checkpoint does not read after a crash");
    return;
  }
  const StoreStatus read = kept_.read_after(server_->last_sequence(), [this](const JournalRecord& record) {
    if (server_->replay(record) != Status::kOk) {
      broken("the journal does not replay after a crash");
    }
    return result_.fault.empty();
  });
  broken(read == StoreStatus::kOk ? "" : "the records that are kept do not follow the checkpoint");
  ChainHead whole;
  ChainHead kept;
  GS_ASSERT(store_.read_chain_end(&whole) == StoreStatus::kOk && kept_.read_chain_end(&kept) == StoreStatus::kOk);
  broken(whole == kept ? "" : "the chain of the journal is another one after its cuts");
}

// What Welcomes name from now on.
void Simulation::note_chain() {
  ChainHead end;
  GS_ASSERT(store_.read_chain_end(&end) == StoreStatus::kOk);
  server_->note_chain(end);
}

// A crash may come before: then it is lost, as a shell loses it that writes it behind its records.
void Simulation::keep_checkpoint() {
  if (checkpoint_ == nullptr || checkpoint_->head.sequence > store_.records().back().sequence()) {
    return;
  }
  uint64_t written = 0;
  bool has_more = false;
  GS_ASSERT(kept_.write_checkpoint(*checkpoint_, &written) == StoreStatus::kOk);
  GS_ASSERT(kept_.cut({false, options_.device_count, 0}, &has_more) == StoreStatus::kOk);
  checkpoint_.reset();
}

}  // namespace gradstream
