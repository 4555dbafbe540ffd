// What the client does beside training: the stages before it, the units of the run, and the line of the last record.
#include "runtime/base/no_contraction.h"

#include "runtime/link/client.h"
#include "runtime/problem/holdout.h"
#include "runtime/problem/measurement.h"

namespace gradstream {

StageInput Client::stage_input() const {
  return {&model_.replica(), model_.units().units(), run_.task.holdout, model_.wants_range()};
}

// Whether losses along a direction leave the device.
bool Client::tells_lines() const {
  return trained_count() >= floor_or(config_.floors.trials_samples_min, kTrialSamplesFloor);
}

// Without samples that train there is no task to do: as with a ring that is still empty, or one that is held out whole.
Status Client::check_sample_count() {
  const Problem* const problem = find_problem(config_.registry.problems, run_.task.problem);
  if (problem == nullptr) {
    return Status::kOk;
  }
  const uint32_t held = problem->ops->sample_count(problem->context);
  uint32_t first = 0;  // that trains
  while (first < kSampleCountMax && is_held_out(first, run_.task.holdout)) {
    ++first;
  }
  if (held > first) {
    return Status::kOk;
  }
  progress_.sample_fault = {SampleFault::kNone, static_cast<Real>(held), static_cast<Real>(first + 1),
                            static_cast<Real>(kSampleCountMax), "samples"};
  return Status::kOutOfRange;
}

// A stage that is no estimate. Its answer is kept and sent as any upload.
Status Client::begin_stage(uint64_t now_ms) {
  const StageForm* const stages = config_.registry.stages;
  const Problem* const problem = find_problem(config_.registry.problems, run_.task.problem);
  if (stages == nullptr || problem == nullptr) {
    return Status::kUnimplemented;
  }
  const StageInput input = stage_input();
  const uint32_t count = stages->plan(*problem, input, &run_.task);
  if (count == 0) {
    return Status::kUnimplemented;
  }
  release_correction();
  GS_TRY(prepare_slots(encoded_size(run_.task.encoding, count), slot_count_wanted()));
  task_.mark = arena_.mark();
  GS_TRY(stages->begin(*problem, input, &run_, arena_));
  note_begun(now_ms);
  return Status::kOk;
}

// Memory for a table of so many bytes, below the uploads: none of them is still to be sent when a table comes.
Status Client::prepare_units(uint32_t size) {
  const uint32_t count = size / kUnitsColumnSize;
  const uint32_t held = model_.units().capacity();
  if (!model_.takes_units() || size % kUnitsColumnSize != 0 || count > kUnitsColumnMax ||
      (held != 0 && held != count)) {
    return Status::kDataCorrupt;
  }
  if (held != 0) {
    return Status::kOk;
  }
  if (progress_.line != nullptr) {
    progress_.line->drop(arena_);
  }
  drop_correction();
  arena_.release(progress_.mark);
  progress_.slots.give_up();
  GS_TRY(model_.units().prepare(count, arena_));
  progress_.mark = arena_.mark();
  return Status::kOk;
}

// ---- The line of the last record ----

// A model that is kept as the coefficients of a record takes their memory besides.
void Client::open_line_of_record(LineTracker& line) {
  line.cancel();
  if (model_.replica().has_model()) {
    const size_t kept_size = model_.lean() != nullptr ? kKeptCoefficientMax * sizeof(Real) + kFrameSizeMax : 0;
    line.open(model_.replica(), kept_size, arena_);
  }
}

// Where versions travel as they stand. No record proves what is held then, so that the last proof of it does.
void Client::open_line_of_snapshot(LineTracker& line, const gs_SnapshotChunk& chunk) {
  line.cancel();
  const Replica& replica = model_.replica();
  const bool is_next =
      replica.has_model() && chunk.version == replica.version() + 1 && chunk.part == gs_ModelPart_MODEL_PART_MODEL;
  if (is_next && !model_.has_scalar_stream() && line.is_proven(model_.digest())) {
    line.open(replica, 0, arena_);
  }
}

// What to do about work that gave kUnfinished. false: its measurement is lost, and nothing comes of it.
bool Client::is_waiting(Measurement* measurement, uint64_t now_ms, uint64_t* wake_ms) {
  *wake_ms = kAwaitsMeasurements && measurement != nullptr ? measurement->await(now_ms) : 0;
  const bool is_lost = kAwaitsMeasurements && *wake_ms == Measurement::kLost;
  counters_.measurements_lost += is_lost ? 1 : 0;
  return !is_lost;
}

// One of the four is open at most, and cancels its question.
void Client::drop_open_step() {
  if (task_.smoothing != nullptr) {
    task_.smoothing->drop(arena_);
  }
  if (progress_.line != nullptr && progress_.line->is_step_open()) {
    progress_.line->drop(arena_);
  }
  if (progress_.evaluation != nullptr && progress_.evaluation->is_open()) {
    progress_.evaluation->drop(arena_);
  }
  drop_step(run_, arena_);
}

// Computes the line of the task's version, or a slice of it. false: there is more to do at *wake_ms.
bool Client::step_line(uint64_t now_ms, uint64_t* wake_ms) {
  LineTracker& line = *progress_.line;
  const Problem* const problem = find_problem(config_.registry.problems, run_.task.problem);
  const Units units = model_.units().units();
  const bool is_wanted = run_.task.stage == TaskStage::kTrain && line.is_due(run_.task.version) && tells_lines() &&
                         problem != nullptr &&
                         problem->ops->check_shape(problem->context, run_.task.shape) == Status::kOk &&
                         check_units(*problem, units) == Status::kOk;
  if (is_wanted) {
    EstimateInput input;
    input.manifold = &model_.replica().manifold();
    input.shape = run_.task.shape;
    input.problem = *problem;
    input.units = units.count > 0 && units.are_decided() ? &units : nullptr;
    const Status status = line.step(input, run_.task.holdout, model_.replica().model(), run_.slice_size, arena_);
    if (status == Status::kUnfinished && is_waiting(line.measurement(), now_ms, wake_ms)) {
      return false;
    }
    task_.has_line = status == Status::kOk;
    task_.line = line.line();
  }
  line.drop(arena_);
  return true;
}

// ---- The smoothing of the run ----

// Where there is no room for it the server does not hear of it.
void Client::begin_smoothing() {
  const size_t needed = Arena::taken_size<SmoothingCheck>(1) + run_.ops->scratch_size(run_);
  const bool is_wanted = model_.wants_lines() && config_.registry.stages != nullptr && SmoothingCheck::applies(run_) &&
                         needed <= arena_.free_size();
  const Result<SmoothingCheck*> check = arena_.persistent<SmoothingCheck>(is_wanted ? 1 : 0);
  if (is_wanted && check.ok()) {
    *check.value() = SmoothingCheck();
    task_.smoothing = check.value();
  }
}

// Before the first step of the stage START. false: there is more to do at *wake_ms.
bool Client::step_smoothing(uint64_t now_ms, uint64_t* wake_ms) {
  SmoothingCheck& check = *task_.smoothing;
  const Status status = check.step(run_, run_.slice_size, arena_);
  if (status == Status::kUnfinished && is_waiting(check.measurement(), now_ms, wake_ms)) {
    return false;
  }
  check.drop(arena_);
  task_.has_line = status == Status::kOk;
  task_.line = {check.to_quarter(), check.to_fourfold()};
  task_.smoothing = nullptr;
  task_.begun_ms = now_ms;  // the steps alone are timed
  return true;
}

}  // namespace gradstream
