// The stages before training, in the run's ledger: how the answers of one become the record of the next version.
#include "server/base/fields.h"
#include "server/coordinator/run_ledger.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"

namespace gradstream {

Status RunLedger::add_answer(const StageAnswer& answer) {
  if (check_answer(answer).reason == gs_Reason_REASON_WRONG_SHAPE) {
    return Status::kDataCorrupt;
  }
  stage_.fold->add(answer);
  return Status::kOk;
}

// To the next stage, or where the answers made nothing, to the same one.
VersionRecord RunLedger::close_stage(StageDecision* decision) const {
  *decision = stage_.fold->close(*aggregator_);
  VersionRecord record;
  record.version = version() + 1;
  record.stage.is_known = true;
  record.stage.keeps_model = true;
  record.stage.opens = stage_.step;
  if (decision->status == Status::kOk) {
    record.stage.opens = stage_after(parameters_, stage_.step);
    record.stage.decision = decision->decision;
    record.stage.units = decision->units;
    record.stage.direction = decision->direction;
    for (const StageOutlier& outlier : decision->left_out) {
      record.stage.left_out.push_back(outlier.device);
    }
  }
  return record;
}

const std::vector<uint8_t>& RunLedger::units_after(const VersionRecord& next) const {
  return next.stage.units.empty() ? stage_.units : next.stage.units;
}

uint32_t RunLedger::parts() const {
  return replica_.parts() | (stage_.units.empty() ? 0 : part_bit(ModelPart::kUnits));
}

void RunLedger::begin_stage(const VersionRecord& record) {
  stage_.keeps_model = record.stage.keeps_model;
  stage_.digest_before = digest_;
  stage_.step = record.stage.opens;
  stage_.units = units_after(record);
  if (!record.stage.decision.empty()) {
    stage_.decision = record.stage.decision;
  }
  if (stage() == TaskStage::kTrain && stage_.train_version == kNoVersion) {
    stage_.train_version = version();
  }
  stage_.fold = make_stage_fold({&parameters_, &replica_, &arena_, stage_.step, stage_.units, stage_.decision});
}

bool RunLedger::add_line(const JournalRecord& update, const UpdateNotes& notes) {
  if (!steps_.has_value() || stage() != TaskStage::kTrain) {
    return true;
  }
  const double weight = update.weight();
  steps_->add_update(weight);
  return !notes.line.has_value() ||
         steps_->add_line(update.device(), update.staleness(), notes.line->slope, notes.line->curvature, weight);
}

Status RunLedger::follow_step(const VersionRecord& record) {
  if (!steps_.has_value()) {
    return Status::kOk;
  }
  GS_TRY(steps_->follow(record.stage.decision));
  const bool trains = record.stage.opens.stage == TaskStage::kTrain;
  return trains && !(steps_->step_size() > 0) ? Status::kDataCorrupt : Status::kOk;
}

// eta of the open version's tasks, whose fold it has where it is a stage.
Real RunLedger::open_step() const {
  if (!steps_.has_value()) {
    return parameters_.step_size_at(open_.round);
  }
  return stage_.fold != nullptr ? stage_.fold->step_size() : steps_->step_size();
}

void RunLedger::decide_step(double scale, uint32_t asked_count, VersionRecord* record) const {
  if (!steps_.has_value()) {
    return;
  }
  const StepDecision next = steps_->after_round({record->mean_direction, record->step_scale, scale, asked_count});
  record->stage.decision = encode_decision(next);
  record->mean_direction.clear();
  if (record->has_anchor()) {
    record->local_step = static_cast<Real>(next.state.step);
  }
}

// Empty for a run without stages.
std::string RunLedger::stage_text() const {
  if (!has_stages(parameters_) || !has_version()) {
    return "";
  }
  std::string text = std::string("stage=") + stage_name(stage()) + " draw=" + std::to_string(stage_.step.draw) +
                     " round=" + std::to_string(open_.round) +
                     " units=" + hex(digest_with_units(kDigestStart, stage_.units)) +
                     " decision=" + hex(digest_with_units(kDigestStart, stage_.decision));
  text += stage_.fold == nullptr ? "" : " answers=" + hex(stage_.fold->digest());
  return text + "\n";
}

}  // namespace gradstream
