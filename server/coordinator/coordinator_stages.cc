// The stages before training: what their answers are worth, who is out of them, and what the log says of them.
#include "server/coordinator/coordinator_state.h"
#include "server/run/run_core.h"
#include "server/run/weights.h"

namespace gradstream {
namespace {

// Devices that a stage leaves out, a line each. Reason: more of them say no more, and the last line counts the rest.
constexpr size_t kOutlierLinesMax = 16;

}  // namespace

// Accepts or refuses an answer of a stage that has answers of its own, and says why it was refused.
gs_Reason Coordinator::State::judge_answer(uint32_t index, const Upload& upload, uint64_t now_ms) {
  FleetDevice& device = ledger.fleet().at(index);
  const RunView run = view();
  StageFault fault = {find_answer_fault(run, device.row, upload, ledger.run().digest_of(upload.base_version))};
  const uint16_t weight = fold_weight(parameters, device.session.sample_count, 0);
  if (fault.reason == gs_Reason_REASON_NONE) {
    fault = ledger.run().check_answer({index, weight, upload.bytes});
  }
  device.session.refusals.complaint = Complaint();
  if (fault.reason != gs_Reason_REASON_NONE) {
    if (fault.least < fault.most) {
      device.session.refusals.complaint = {upload.task_sequence,
                                           0,
                                           static_cast<float>(fault.value),
                                           static_cast<float>(fault.least),
                                           static_cast<float>(fault.most),
                                           0,
                                           0,
                                           fault.column};
    }
    refuse_upload(index, upload, fault.reason, now_ms);
    return fault.reason;
  }
  decide(JournalRecord::update(accepted_answer(run, index, weight, upload)), now_ms);
  note_answer(&device.session);
  noted.answers = {noted.answers.last_ms, now_ms, index};
  noted.upload_bytes += upload.bytes.size();
  ++counters.updates_folded;
  return gs_Reason_REASON_NONE;
}

// After anything that a device has said. One that is out may be the last that the stage waited for.
void Coordinator::State::note_barred(uint32_t index, uint64_t now_ms) {
  const FleetDevice& device = std::as_const(ledger.fleet()).at(index);
  // Most messages come while the run trains, when nobody is out.
  const bool trains = ledger.run().stage() == TaskStage::kTrain;
  const bool is_out = !trains && is_out_of_stage(view(), device.row, device.session, now_ms);
  if (is_out == device.session.is_barred) {
    return;
  }
  ledger.fleet().set_barred(index, is_out);
  has_blocked = has_blocked || is_out;
  if (is_out) {
    judge_open_round(now_ms);
  }
}

// Of a version that was just opened, or is recovered.
void Coordinator::State::review_barred(uint64_t now_ms) {
  if (!has_stages(parameters)) {
    return;
  }
  const RunView run = view();
  for (uint32_t index = 0; index < ledger.fleet().size(); ++index) {
    const FleetDevice& device = std::as_const(ledger.fleet()).at(index);
    ledger.fleet().set_barred(index, is_out_of_stage(run, device.row, device.session, now_ms));
  }
  has_blocked = has_blocked || ledger.fleet().barred_count() > 0;
}

void Coordinator::State::log_stage(uint32_t version, TaskStage stage, const StageDecision& decision) {
  const size_t count = decision.left_out.size();
  for (size_t i = 0; i < count && i < kOutlierLinesMax; ++i) {
    const StageOutlier& outlier = decision.left_out[i];
    if (noted.outliers.size() < kOutliersMax) {
      noted.outliers.push_back({ledger.fleet().at(outlier.device).name, outlier.column, outlier.value, outlier.limit});
    }
    Fields fields;
    fields.add("device", ledger.fleet().at(outlier.device).name).add("stage", stage_name(stage));
    if (outlier.column > 0) {
      fields.add("column", uint64_t{outlier.column});
    }
    log("units_outlier"_event,
        fields.add("value", number_text(outlier.value)).add("limit", number_text(outlier.limit)));
  }
  if (count > kOutlierLinesMax) {
    log("units_outlier"_event,
        Fields().add("stage", stage_name(stage)).add("more", uint64_t{count - kOutlierLinesMax}));
  }
  Fields fields;
  fields.add("version", version).add("stage", stage_name(stage)).add("next", stage_name(ledger.run().stage()));
  for (const auto& [name, value] : decision.notes) {
    fields.add(name.c_str(), value);
  }
  log("stage_closed"_event, fields);
}

}  // namespace gradstream
