// The ledger in a checkpoint: all that its records have made, at the moment when a version was begun. Nothing is folded
// then, so that no sum of an open version is part of it.
#include <algorithm>

#include "server/coordinator/ledger.h"
#include "server/run/fold_keys.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"

namespace gradstream {

uint64_t Ledger::update_count() const {
  uint64_t count = 0;
  for (uint32_t index = 0; index < fleet_.size(); ++index) {
    count += fleet_.at(index).row.tally.updates_folded + fleet_.at(index).row.tally.updates_late;
  }
  return count;
}

void Ledger::exchange(StateArchive& io) {
  GS_ASSERT(io.is_reading() ? last_sequence_ == 0 : run_.has_version());
  run_.exchange_version(io);
  io.values(run_state_, extension_count_, last_sequence_);
  for (std::string* const text : {&stall_.cause, &stall_.text, &stall_.remedy}) {
    io.text(*text);
  }
  fleet_.exchange(io, run_.version());
  run_.exchange_models(io);
  books_.quality.exchange(io);
  progress_.exchange(io);
  run_.exchange_stage(io);
  if (parameters_.fold.keys().clip_norm != ClipNorm::kNone) {
    books_.norms.exchange(io);
  }
  run_.exchange_rule(io);
}

// ---- What the run's versions have made ----

void RunLedger::exchange_version(StateArchive& io) {
  exchange_replica(io);
  io.values(digest_, model_digest_, has_anchor_, local_step_, curvature_, open_.round, open_.step_size);
  io.values(open_.samples.total, open_.samples.device_count);
  io.values(delay_switch_.is_switched, delay_switch_.sample_count, delay_switch_.mean);
}

void RunLedger::exchange_models(StateArchive& io) {
  models_.exchange(io, parameters_.model->shape.size());
  average_.exchange(io);
}

void RunLedger::exchange_rule(StateArchive& io) {
  if (!io.is_sound() || !has_version()) {
    io.fail();
    return;
  }
  aggregator_->exchange(io);
  if (digest_with_units(replica_.digest(), stage_.units) != digest_) {
    io.fail();
  }
}

// Model, mean, and the tensors that the version holds beside them.
void RunLedger::exchange_replica(StateArchive& io) {
  const size_t size = parameters_.model->shape.size();
  uint32_t version = replica_.version();
  uint32_t parts = replica_.parts();
  io.values(version, parts);
  std::vector<Real> model(replica_.model(), replica_.model() + size);
  io.numbers(std::span<Real>(model));
  std::vector<FixedWord> mean(replica_.has_mean() ? size : 0);
  if (replica_.has_mean()) {
    mean.assign(replica_.mean(), replica_.mean() + size);
  }
  io.numbers(std::span<FixedWord>(mean));
  if (io.is_reading()) {
    std::copy(model.begin(), model.end(), replica_.begin_snapshot());
    std::copy(mean.begin(), mean.end(), replica_.mean_buffer());
  }
  for (const ModelPart part : {ModelPart::kMeanGradient, ModelPart::kPreviousModel, ModelPart::kDirection}) {
    if ((parts & part_bit(part)) == 0) {
      continue;
    }
    Real* const buffer = replica_.part_buffer(part);
    if (buffer == nullptr) {
      io.fail();
      return;
    }
    io.numbers(std::span<Real>(buffer, size));
  }
  if (io.is_reading() && io.is_sound()) {
    replica_.adopt_snapshot(version, parts);
  }
}

void RunLedger::exchange_stage(StateArchive& io) {
  if (steps_.has_value()) {
    steps_->exchange(io);
  }
  io.values(stage_.step.stage, stage_.step.draw, stage_.train_version, stage_.keeps_model, stage_.digest_before);
  io.numbers(stage_.units);
  io.numbers(stage_.decision);
  if (stage() != TaskStage::kTrain && !is_stage_of(parameters_, stage_.step)) {
    io.fail();
  }
  if (io.is_reading() && io.is_sound()) {
    stage_.fold = make_stage_fold({&parameters_, &replica_, &arena_, stage_.step, stage_.units, stage_.decision});
  }
  exchange_log(io);
  open_.is_training = stage() == TaskStage::kTrain;
}

// As payloads, so that they are checked like those of the journal.
void RunLedger::exchange_log(StateArchive& io) {
  io.list(log_, [this, &io](LoggedRecord& logged) {
    VersionRecord& record = logged.record;
    io.values(record.version, record.step_scale, record.digest, logged.digest_before);
    std::vector<uint8_t> payload;
    if (!io.is_reading()) {
      payload = encode_payload(record);
    }
    io.numbers(payload);
    if (io.is_reading() && decode_payload(parameters_, payload, &record) != Status::kOk) {
      io.fail();
    }
  });
  if (!io.is_reading() || !io.is_sound()) {
    return;
  }
  log_size_ = 0;
  for (LoggedRecord& logged : log_) {
    logged.size = log_size(logged.record);
    log_size_ += logged.size;
  }
  if (!log_.empty() && log_.back().record.version != version()) {
    io.fail();
  }
}

}  // namespace gradstream
