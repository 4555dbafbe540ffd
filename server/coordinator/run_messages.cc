#include "server/coordinator/run_messages.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "server/coordinator/ledger.h"
#include "server/rules/record.h"
#include "server/run/quality_keys.h"
#include "server/run/run_core.h"
#include "server/run/run_parameters.h"
#include "server/run/run_stages.h"
#include "server/run/units_keys.h"

namespace gradstream {
namespace {

constexpr auto kCopyBack = [](auto& to, const auto& from) { copy_field(from, to); };

template <size_t N>
void copy_text(const std::string& text, char (&out)[N]) {
  const size_t size = std::min(text.size(), N - 1);
  std::memcpy(out, text.data(), size);
  out[size] = '\0';
}

// What every task of the run has in common, and its Welcomes tell.
Task run_task(const RunParameters& parameters, uint32_t client_index) {
  Task task;
  task.manifold = parameters.model->manifold;
  task.retraction = parameters.model->retraction;
  task.transport = parameters.model->transport;
  task.shape = parameters.model->shape;
  task.seed = parameters.seed;
  task.client_index = client_index;
  task.stream = parameters.stream();
  task.holdout = parameters.quality->holdout();
  task.estimator.directions = direction_spec(parameters, 0, parameters.owner_of(client_index));
  return task;
}

void describe_part(const Part& part, gs_ManifoldPart* out) {
  const bool has_factors = part.shape.parts != nullptr;
  out->manifold = static_cast<gs_Manifold>(part.ops->id);
  out->rows = static_cast<uint16_t>(has_factors ? part.shape.parts->part[0].shape.rows : part.shape.rows);
  out->cols = static_cast<uint16_t>(has_factors ? part.shape.parts->part[1].shape.rows : part.shape.cols);
  out->rank = static_cast<uint8_t>(has_factors ? part.shape.cols : 0);
  out->retraction = static_cast<gs_Retraction>(part.ops->retraction_kind);
  out->transport = static_cast<gs_Transport>(part.ops->transport_kind);
}

gs_Correction correction_of(const RunParameters& parameters) {
  if (parameters.has_memory()) {
    return gs_Correction_CORRECTION_MEMORY;
  }
  return parameters.local->correction_form == CorrectionForm::kLocal ? gs_Correction_CORRECTION_LOCAL
                                                                     : gs_Correction_CORRECTION_NONE;
}

}  // namespace

void describe_run(const RunParameters& parameters, uint32_t client_index, gs_Welcome* welcome) {
  const Task task = run_task(parameters, client_index);
  visit_welcome_fields(*welcome, task, kCopyBack);
  visit_direction_fields(*welcome, task.estimator.directions, kCopyBack);
  welcome->group = parameters.owner_of(client_index);
  welcome->correction = correction_of(parameters);
  welcome->fold_scale_log2 = parameters.has_mean() ? parameters.fold->fold_scale_log2 : 0;
  welcome->model_parts = version_parts(parameters);
  welcome->units = units_bits(parameters);
  welcome->lines = chooses_step(parameters);
  welcome->error_feedback = parameters.wire->error_feedback;
  welcome->network_digest = parameters.network_digest();
  welcome->manifold_parts_count = 0;
  for (uint32_t i = 0; parameters.model->part_list != nullptr && i < parameters.model->part_list->count; ++i) {
    describe_part(parameters.model->part_list->part[i], &welcome->manifold_parts[welcome->manifold_parts_count++]);
  }
}

Task make_task(const RunParameters& parameters, const TaskTerms& terms) {
  Task task = run_task(parameters, 0);
  task.solver = terms.solver;
  task.estimator.id = parameters.local->estimator;
  task.estimator.smoothing = parameters.local->smoothing;
  task.estimator.batch_mode = terms.batch_mode;
  task.estimator.batch_size = terms.batch_size == 0 ? parameters.local->batch_size : terms.batch_size;
  for (const uint32_t size : batch_schedule(parameters)) {
    task.estimator.batch_schedule[task.estimator.batch_schedule_count++] = size;
  }
  task.encoding = terms.encoding == Encoding::kNone ? parameters.wire->upload_encoding : terms.encoding;
  task.stage = terms.stage;
  task.local_step_count = terms.local_step_count;
  task.steps_min = terms.steps_min;
  task.step_size = terms.step_size;
  task.use_correction = parameters.local->correction_form != CorrectionForm::kNone;
  // A term of the loss is another one than a term along the retraction, with a weight of its own.
  const bool is_in_loss = parameters.local->proximal_form != ProximalForm::kGeodesic;
  task.proximal = is_in_loss ? 0 : terms.proximal;
  task.proximal_form = parameters.local->proximal_form;
  task.proximal_weight = is_in_loss ? terms.proximal : 0;
  task.proximal_sigma = is_in_loss ? parameters.local->proximal_sigma : 0;
  task.curvature_form = parameters.local->barzilai_borwein;
  task.curvature = terms.curvature;
  task.draws_iterate = terms.draws_iterate;
  task.evaluates = terms.evaluates;
  task.local_retraction = parameters.local->local_retraction;
  task.deadline_ms = parameters.trigger->task_deadline_ms;
  copy_text(parameters.model->problem, task.problem);
  return task;
}

void write_task(const Task& task, gs_Task* out) { visit_task_fields(*out, task, kCopyBack); }

}  // namespace gradstream
