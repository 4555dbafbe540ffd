// The run that the client takes part in, its model, and the tasks it is given.
#include "runtime/base/no_contraction.h"

#include "runtime/base/config.h"
#include "runtime/base/features.h"
#include "runtime/base/products.h"
#include "runtime/link/client.h"
#include "runtime/problem/measurement.h"
#include "runtime/training/encoding.h"

namespace gradstream {
namespace {

gs_Reason reason_of(Status status) {
  switch (status) {
    case Status::kUnimplemented:
      return gs_REASON_TASK_UNIMPLEMENTED;
    case Status::kOutOfMemory:
      return gs_REASON_OUT_OF_MEMORY;
    case Status::kNotFinite:
      return gs_REASON_NOT_FINITE;
    case Status::kSingular:
      return gs_REASON_SINGULAR;
    case Status::kOutOfRange:
      return gs_REASON_OUT_OF_RANGE;
    case Status::kDeadlineExceeded:  // a measurement never came
      return kAwaitsMeasurements ? gs_REASON_DEADLINE : gs_REASON_MALFORMED;
    default:
      return gs_REASON_MALFORMED;
  }
}

}  // namespace

// ---- Runs and models ----

Status Client::begin_run(const gs_Welcome& welcome) {
  arena_.reset();
  progress_ = RunProgress();
  GS_TRY(model_.begin(welcome, config_.registry, arena_));
  const size_t size = model_.shape().size();
  if (model_.wants_lines() && config_.registry.stages != nullptr) {
    const Result<LineTracker*> line = arena_.persistent<LineTracker>(1);
    GS_TRY(line.status());
    *line.value() = LineTracker();
    progress_.line = line.value();
  }
  if (kEvaluates && welcome.holdout > 0) {
    const Result<HeldOutEvaluation*> evaluation = arena_.persistent<HeldOutEvaluation>(1);
    GS_TRY(evaluation.status());
    *evaluation.value() = HeldOutEvaluation();
    progress_.evaluation = evaluation.value();
  }
  // A server that takes units out says in its Welcome whether there is a correction, others say it in each task.
  const bool has_none = model_.takes_units() && welcome.correction == gs_Correction_CORRECTION_NONE;
  if (model_.may_correct() && model_.lean() == nullptr && !has_none) {
    const Result<Real*> correction = arena_.persistent<Real>(size);
    GS_TRY(correction.status());
    progress_.correction = correction.value();
  }
  if (model_.has_error_feedback()) {
    GS_TRY(progress_.feedback.prepare(size, arena_));
  }
  progress_.mark = arena_.mark();
  progress_.is_open = true;
  return Status::kOk;
}

// Compares the model in RAM with what the server says of it; a wrong one is dropped, and a snapshot will replace it.
bool Client::prove_model(uint64_t digest) {
  if (model_.digest() == digest) {
    if (kTakesUnits && progress_.line != nullptr) {
      progress_.line->prove(digest);
    }
    return true;
  }
  ++counters_.digest_mismatches;
  ++session_.mismatches;
  static_cast<void>(model_.replica().begin_snapshot());
  return false;
}

// The frames of an answer that come after its model proved wrong are of no use; its last one makes the client ask
// again.
bool Client::end_skipping() {
  if (!session_.is_skipping) {
    return false;
  }
  session_.is_skipping = false;
  await_ = Await::kNothing;
  return true;
}

void Client::drop_correction() {
  progress_.slots.drop(SlotRole::kAccepted);
  progress_.has_correction = false;
}

// The accepted upload leaves its slot to the next one, and stays until the record that it went into is applied.
void Client::accept_pending(const gs_Ack& ack) {
  if (kTakesUnits && progress_.slots.upload(SlotRole::kPending).stage != TaskStage::kTrain) {
    return;  // no record holds an answer
  }
  if (model_.has_memory()) {
    accept_into_memory(ack.version, ack.clip_scale);
    return;
  }
  const bool is_wanted = progress_.slots.upload(SlotRole::kPending).use_correction && progress_.correction != nullptr &&
                         progress_.slots.count() == 2;
  if (!is_wanted || ack.version <= model_.replica().version()) {
    drop_correction();
    return;
  }
  progress_.slots.accept(ack.version);
}

// c = d - Gbar_i, once the record that this device's update went into has been applied.
void Client::settle_correction() {
  if (!progress_.slots.has(SlotRole::kAccepted) || progress_.slots.accepted_record() > model_.replica().version()) {
    return;
  }
  const StoredUpload upload = progress_.slots.upload(SlotRole::kAccepted);
  const std::span<const uint8_t> bytes = progress_.slots.bytes(SlotRole::kAccepted);
  drop_correction();
  if (progress_.correction == nullptr || progress_.slots.accepted_record() != model_.replica().version()) {
    return;
  }
  const Status status =
      fill_correction(model_.directions(upload.base_version), model_.shape(), record_.sum(model_, progress_.correction),
                      upload.steps_done, upload.encoding, bytes.data(), bytes.size(), progress_.correction, arena_);
  progress_.has_correction = status == Status::kOk;
  counters_.corrections += progress_.has_correction ? 1 : 0;
}

// c = d - Gbar_i, where d came with the model of the version that this device's update went into.
void Client::settle_with_mean() {
  const Encoding encoding = progress_.slots.upload(SlotRole::kAccepted).encoding;
  const std::span<const uint8_t> bytes = progress_.slots.bytes(SlotRole::kAccepted);
  drop_correction();
  if (!kHoldsMeans || !model_.replica().has_mean() || progress_.slots.accepted_record() != model_.replica().version()) {
    return;  // the record, or the mean, that it needs will not come
  }
  model_.replica().fill_mean(fixed_unit(model_.welcome().fold_scale_log2), progress_.correction);
  progress_.has_correction =
      subtract_values(encoding, model_.shape().size(), bytes.data(), bytes.size(), progress_.correction) == Status::kOk;
  counters_.corrections += progress_.has_correction ? 1 : 0;
}

// ---- The memory: which update of this device the mean holds ----

// From the version record_version on it is this one. A task before that still meets the one of before.
void Client::accept_into_memory(uint32_t record_version, uint32_t clip_scale) {
  if (progress_.slots.count() < kSlotCountMax) {
    return;
  }
  if (progress_.slots.has(SlotRole::kAccepted) && progress_.slots.accepted_record() < record_version) {
    progress_.slots.hold();  // the next task begins at record_version - 1 at the earliest
  }
  progress_.slots.accept(record_version, clip_scale);
}

// c = h - h_i for the task, if this device still has the update that the mean holds of it; else none, which steers
// worse and is never wrong. h_i is what the clip left of the update: that is what stands in h. The tensor lies above
// task_.mark.
Status Client::fill_memory_correction() {
  progress_.has_correction = false;
  progress_.correction = nullptr;
  const uint32_t stamp = run_.task.memory_stamp;
  if (progress_.slots.has(SlotRole::kAccepted) &&
      stamp == progress_.slots.upload(SlotRole::kAccepted).base_version + 1) {
    progress_.slots.hold();
  }
  const StoredUpload& held = progress_.slots.upload(SlotRole::kHeld);
  const std::span<const uint8_t> bytes = progress_.slots.bytes(SlotRole::kHeld);
  if (!run_.task.use_correction || !progress_.slots.has(SlotRole::kHeld) || stamp != held.base_version + 1) {
    return Status::kOk;
  }
  const Shape shape = model_.shape();
  const OwnClip clip = {model_.welcome().fold_scale_log2, held.clip_scale};
  const Result<Real*> correction = arena_.persistent<Real>(shape.size());
  GS_TRY(correction.status());
  progress_.correction = correction.value();
  Status status = Status::kOk;
  if (model_.has_scalar_stream()) {
    model_.replica().fill_mean(exact_unit(shape, model_.welcome().fold_scale_log2), progress_.correction);
    status = fill_correction(model_.directions(held.base_version), shape, progress_.correction, held.steps_done,
                             held.encoding, bytes.data(), bytes.size(), progress_.correction, arena_, clip);
  } else {
    model_.replica().fill_mean(fixed_unit(model_.welcome().fold_scale_log2), progress_.correction);
    status = subtract_values(held.encoding, shape.size(), bytes.data(), bytes.size(), progress_.correction, clip);
  }
  progress_.has_correction = status == Status::kOk;
  counters_.corrections += progress_.has_correction ? 1 : 0;
  return Status::kOk;
}

// ---- Tasks ----

// Pending, accepted, held: as far as the run's correction needs them.
uint32_t Client::slot_count_wanted() const {
  if (model_.has_memory()) {
    return 3;
  }
  return progress_.correction != nullptr ? 2 : 1;
}

// Gives back the tensor of a correction that the run does not have. A Welcome of CORRECTION_NONE alone does not tell:
// servers from before that field say it in each task. The uploads above the tensor go too; none is still to be sent.
void Client::release_correction() {
  const bool may_have_one = model_.has_memory() || model_.welcome().correction == gs_Correction_CORRECTION_LOCAL;
  if (progress_.correction == nullptr || may_have_one || run_.task.use_correction) {
    return;
  }
  drop_correction();
  progress_.correction = nullptr;
  progress_.mark -= Arena::taken_size<Real>(model_.shape().size());  // it is the last one below the mark
  arena_.release(progress_.mark);
  progress_.slots.give_up();
}

// In the lean form a correction has a tensor from the first task on whose path it steers: that of one local step is
// over where its estimate is made. The uploads above go; none is still to be sent.
Status Client::take_correction() {
  drop_correction();
  arena_.release(progress_.mark);
  progress_.slots.give_up();
  const Result<Real*> correction = arena_.persistent<Real>(model_.shape().size());
  GS_TRY(correction.status());
  progress_.correction = correction.value();
  progress_.mark = arena_.mark();
  return Status::kOk;
}

// Room for `count` uploads of `size` bytes, kept from task to task. A correction is of no use without the accepted
// upload that it was to follow.
Status Client::prepare_slots(size_t size, uint32_t count) {
  const bool is_too_large =  // as after a stage
      kTakesUnits && progress_.slots.is_empty() && progress_.slots.room_size() > size;
  if (progress_.slots.fits(size, count) && !is_too_large) {
    return Status::kOk;
  }
  const bool had_accepted = progress_.slots.has(SlotRole::kAccepted);
  GS_TRY(progress_.slots.prepare(size, count, progress_.mark, arena_));
  progress_.has_correction = progress_.has_correction && !had_accepted;
  return Status::kOk;
}

// Whether the device says how its samples that are held out fare. A mean of few of them would be theirs.
bool Client::tells_evaluation(const Problem& problem) const {
  const uint32_t held = problem.ops->sample_count(problem.context);
  return !config_.floors.skips_evaluation &&
         held - count_trained(held, run_.task.holdout) >= floor_or(config_.floors.batch_size_min, kBatchSizeFloor);
}

// Evaluates the task's model on the samples held out, where the task asks for it, or a slice of that. false: there is
// more to do at *wake_ms. Whatever it comes to, the task goes on.
bool Client::step_evaluation(uint64_t now_ms, uint64_t* wake_ms) {
  const Task& task = run_.task;
  const Problem* const problem = find_problem(config_.registry.problems, task.problem);
  const Units units = model_.units().units();
  const bool is_wanted = !task_.is_evaluated && task.evaluates && task.stage == TaskStage::kTrain &&
                         missing_network() == 0 && problem != nullptr && tells_evaluation(*problem) &&
                         problem->ops->check_shape(problem->context, task.shape) == Status::kOk &&
                         check_units(*problem, units) == Status::kOk;
  task_.is_evaluated = true;
  if (!is_wanted) {
    return true;
  }
  EstimateInput input;
  input.manifold = &model_.replica().manifold();
  input.shape = task.shape;
  input.problem = *problem;
  input.holdout = task.holdout;
  input.units = units.count > 0 && units.are_decided() ? &units : nullptr;
  HeldOutEvaluation& evaluation = *progress_.evaluation;
  const Status status = evaluation.step(input, model_.replica().model(), run_.slice_size, arena_);
  if (status == Status::kUnfinished) {
    Measurement* const measurement = evaluation.measurement();
    *wake_ms = kAwaitsMeasurements && measurement != nullptr ? measurement->await(now_ms) : 0;
    if (!kAwaitsMeasurements || *wake_ms != Measurement::kLost) {
      task_.is_evaluated = false;
      return false;
    }
    ++counters_.measurements_lost;
    evaluation.drop(arena_);
  }
  task_.quality = status == Status::kOk ? evaluation.quality() : HeldOutQuality{};
  return true;
}

// Samples of the task's problem that train. Of a problem that the image lacks there are none.
uint32_t Client::trained_count() const {
  const Problem* const problem = find_problem(config_.registry.problems, run_.task.problem);
  return problem == nullptr ? 0 : count_trained(problem->ops->sample_count(problem->context), run_.task.holdout);
}

Status Client::begin_task(uint64_t now_ms) {
  if (missing_network() != 0) {
    return Status::kUnimplemented;
  }
  find_floor_fault(config_.floors, run_.task, trained_count(), &progress_.floor_fault);
  if (progress_.floor_fault.floor != FloorId::kNone) {
    return Status::kUnimplemented;
  }
  if (kTakesUnits) {
    GS_TRY(check_sample_count());
  }
  GS_TRY(check_labels());
  if (kTakesUnits && is_own_stage(run_.task.stage)) {
    return begin_stage(now_ms);
  }
  const Task& task = run_.task;
  const bool is_scalar = model_.has_scalar_stream();
  if (task.local_step_count == 0 || task.local_step_count > kLocalStepCountMax) {
    return Status::kInvalidArgument;
  }
  const size_t scalar_count = static_cast<size_t>(task.local_step_count) * model_.welcome().direction_count;
  if (is_scalar && scalar_count > kScalarCountMax) {
    return Status::kInvalidArgument;
  }
  const size_t count = is_scalar ? scalar_count : tangent_value_count(task.solver, task.shape);
  const size_t size = encoded_size(task.encoding, count);
  if (size == 0) {
    return Status::kInvalidArgument;
  }
  release_correction();
  if (model_.lean() != nullptr && task.use_correction && task.local_step_count > 1 && progress_.correction == nullptr) {
    GS_TRY(take_correction());
  }
  GS_TRY(prepare_slots(size, slot_count_wanted()));
  task_.mark = arena_.mark();
  if (model_.has_memory()) {
    GS_TRY(fill_memory_correction());
  }
  const ModelParts parts{model_.replica().part(ModelPart::kMeanGradient),
                         model_.replica().part(ModelPart::kPreviousModel), model_.units().units()};
  const auto begin = [&] {
    return begin_solver(config_.registry, run_.task, model_.replica().model(), correction(), &run_, arena_, parts);
  };
  // Other boards' images have no problem that keeps anything.
  const Problem* const problem = kLinksLeanForm ? find_problem(config_.registry.problems, task.problem) : nullptr;
  const bool may_keep = problem != nullptr && problem->ops->allow_kept != nullptr;
  if (may_keep) {
    problem->ops->allow_kept(problem->context, true);
  }
  Status status = begin();
  if (may_keep && status == Status::kOutOfMemory && problem->ops->allow_kept(problem->context, false)) {
    status = begin();
  }
  if (status != Status::kOk) {
    arena_.release(task_.mark);
    return status;
  }
  note_begun(now_ms);
  if (kTakesUnits && run_.task.stage == TaskStage::kStart) {
    begin_smoothing();
  }
  replay_steps();
  // What could be scalars may travel as a tangent, not the other way round.
  const StreamKind stream = run_.ops->stream(*run_.estimator);
  return !is_scalar || stream == StreamKind::kScalarStream ? Status::kOk : Status::kInvalidArgument;
}

void Client::note_begun(uint64_t now_ms) {
  progress_.sample_fault = SampleFault{};
  task_.is_begun = true;
  task_.begun_ms = now_ms;
  task_.stepped_ms = now_ms;
}

// All steps are done, or the deadline would probably pass within the next one and what is there is worth sending.
bool Client::is_task_over(uint64_t now_ms) const {
  const Task& task = run_.task;
  if (run_.steps_done >= task.local_step_count) {
    return true;
  }
  const uint32_t steps_timed = run_.steps_done - task_.steps_replayed;
  if (task.deadline_ms == 0 || steps_timed == 0 || run_.steps_done < task.steps_min) {
    return false;
  }
  const uint64_t mean_ms = (now_ms - task_.begun_ms) / steps_timed;
  return now_ms + mean_ms > task_.received_ms + task.deadline_ms;
}

Status Client::finish_task(uint64_t now_ms) {
  const Task& task = run_.task;
  GradientStream stream;
  GS_TRY(run_.ops->finish(run_, &stream));
  StoredUpload upload;
  upload.task_sequence = task.sequence;
  upload.base_version = task.version;
  upload.steps_done = stream.steps_done;
  upload.direction_count = model_.welcome().direction_count;
  upload.value_count = stream.value_count;
  upload.size = static_cast<uint32_t>(encoded_size(task.encoding, stream.value_count));
  upload.encoding = task.encoding;
  upload.kind = stream.kind;
  upload.use_correction = task.use_correction;
  if (kEvaluates) {
    upload.held_out_count = task_.quality.sample_count;
    upload.held_out_loss = task_.quality.loss;
    upload.metric = task_.quality.metric;
  }
  upload.loss_before = static_cast<float>(stream.loss_before);
  upload.loss_after = static_cast<float>(stream.loss_after);
  if (kTakesUnits) {
    upload.stage = task.stage;
    upload.has_line = task_.has_line;
    upload.slope = task_.line.slope;
    upload.curvature = task_.line.curvature;
  }
  const uint64_t duration_ms = task_.stepped_ms - task_.begun_ms;  // without a step that was given up
  const uint32_t steps_timed = stream.steps_done > task_.steps_replayed ? stream.steps_done - task_.steps_replayed : 1;
  // Steps from before a reset may have taken another time each: then nothing is said.
  const bool is_timed = task_.steps_replayed == 0 && !(kTakesUnits && is_own_stage(task.stage));
  const uint64_t step_time_us = is_timed ? duration_ms * 1000 / steps_timed : 0;
  upload.step_time_us = static_cast<uint32_t>(step_time_us < UINT32_MAX ? step_time_us : UINT32_MAX);
  GS_ASSERT(upload.size <= progress_.slots.room_size());
  GS_TRY(encode_upload(stream));
  upload.crc = crc32c(0, progress_.slots.next_bytes(), upload.size);
  if (model_.has_memory()) {
    progress_.has_correction = false;  // it goes with the task
  }
  arena_.release(task_.mark);
  task_.is_begun = false;
  progress_.task_duration_ms = duration_ms * task.local_step_count / steps_timed;
  progress_.slots.put(upload);
  progress_.is_pending_sent = false;
  ++counters_.tasks_done;
  if (config_.has_storage) {
    state_ = ClientState::kSave;
  } else {
    resume(now_ms);
  }
  return Status::kOk;
}

Status Client::encode_upload(const GradientStream& stream) {
  if (kTakesUnits && stream.words != nullptr) {
    store_long_words(stream.value_count, stream.words, progress_.slots.next_bytes());
    return Status::kOk;
  }
  if (kSendsTensors && progress_.feedback.is_used() && stream.kind == StreamKind::kTangentBlock &&
      (!kTakesUnits || run_.task.stage == TaskStage::kTrain)) {
    FeedbackCounts counts;
    const Status status = progress_.feedback.encode(run_, stream, progress_.slots.next_bytes(), arena_, &counts);
    counters_.residuals += counts.carried;
    counters_.residuals_lost += counts.lost;
    return status;
  }
  return encode_values(run_.task.encoding, stream.value_count, stream.values, progress_.slots.next_bytes());
}

// Whether the task's problem, and the data that it is bound to here, take the run's shape.
bool Client::do_data_fit() const {
  const Problem* problem = find_problem(config_.registry.problems, run_.task.problem);
  return problem == nullptr || problem->ops->check_shape(problem->context, run_.task.shape) == Status::kOk;
}

// Labels that the problem can never take would fail in whichever step draws them: they are looked for before the first
// task of a run. A value that is no number shows in its step, and needs no look at all samples, which may take long.
Status Client::check_labels() {
  const Problem* problem = find_problem(config_.registry.problems, run_.task.problem);
  return !kIsBareMetal && problem != nullptr && problem->ops->has_labels ? check_samples() : Status::kOk;
}

// Again only when their number has changed.
Status Client::check_samples() {
  const Problem* problem = find_problem(config_.registry.problems, run_.task.problem);
  const bool has_check = problem != nullptr && problem->ops->find_fault != nullptr;
  if (!has_check || problem->ops->check_shape(problem->context, run_.task.shape) != Status::kOk) {
    return Status::kOk;  // the solver says what is wrong
  }
  const uint32_t count = problem->ops->sample_count(problem->context);
  if (count == progress_.samples_checked) {
    return Status::kOk;
  }
  progress_.sample_fault = SampleFault{};
  const Status status = problem->ops->find_fault(problem->context, run_.task.shape, arena_, &progress_.sample_fault);
  progress_.samples_checked = status == Status::kOk ? count : 0;
  return progress_.sample_fault.what != nullptr ? status : Status::kOk;
}

void Client::refuse_task(uint32_t task_sequence, Status status, uint64_t now_ms) {
  SampleFault stage_fault;
  if (task_.is_begun) {
    drop_step(run_, arena_);
    if (kTakesUnits) {
      task_.smoothing = nullptr;
      stage_fault = is_own_stage(run_.task.stage) ? config_.registry.stages->sample_fault(run_) : SampleFault{};
    }
    arena_.release(task_.mark);
    task_.is_begun = false;
    const bool may_be_sample =
        status == Status::kOutOfRange || status == Status::kNotFinite || status == Status::kSingular;
    if (!kIsBareMetal && may_be_sample) {
      progress_.samples_checked = 0;  // a sample may have changed
      static_cast<void>(check_samples());
    }
  }
  if (kTakesUnits && stage_fault.what != nullptr) {
    progress_.sample_fault = stage_fault;
  }
  ++counters_.tasks_refused;
  news_.last_status = status;
  const bool is_shape = task_sequence != 0 && status == Status::kInvalidArgument && !do_data_fit();
  const bool is_network = task_sequence != 0 && missing_network() != 0;
  const FloorId floor = progress_.floor_fault.floor;
  const bool is_kept_back = floor == FloorId::kUnitSums && config_.floors.refuses_sums;  // whatever the samples are
  give_reason(is_kept_back              ? gs_REASON_UNITS_REFUSED
              : floor != FloorId::kNone ? gs_REASON_PRIVACY
              : is_network              ? gs_REASON_WRONG_NETWORK
              : is_shape                ? gs_REASON_WRONG_SHAPE
                                        : reason_of(status));
  progress_.refusal_reason = news_.last_reason;
  progress_.refused_sequence = task_sequence;
  progress_.is_refusal_due = true;
  resume(now_ms);
}

}  // namespace gradstream
