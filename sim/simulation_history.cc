// What the simulator keeps of a run: its database, with checkpoints and the records behind them, and what came of it.
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

// What the parts have counted, and the model at the end.
void Simulation::fill_result() {
  for (const auto& device : devices_) {
    result_.client_deadline_count += device->is_alive() ? device->client().counters().deadlines_missed : 0;
  }
  result_.faults = faults_.counts();
  result_.lies = liar_.counts();
  result_.byzantine_field_count = byzantine_.field_count();
  result_.byzantine_repeat_count = byzantine_.repeat_count();
  result_.digest = oracle_.digest();
  if (server_ != nullptr && server_->model().has_model()) {
    const Replica& replica = server_->model();
    result_.version = replica.version();
    result_.shape = replica.shape();
    result_.model.assign(replica.model(), replica.model() + replica.shape().size());
  }
  result_.virtual_ms = now_ms_;
  result_.record_count = store_.records().size();
  result_.hold_count = holds_.hold_count();
  result_.dropped_count = store_.records().size() - kept_.records().size();
}

}  // namespace gradstream
