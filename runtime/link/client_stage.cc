// What the client does beside training: the stages before it, the units of the run, and the line of the last record.
#include "runtime/base/no_contraction.h"

#include "runtime/link/client.h"
#include "runtime/problem/holdout.h"
#include "runtime/problem/measurement.h"

namespace gradstream {

StageInput Client::stage_input() const {
  return {&model_.replica(), model_.units().units(), run_.task.holdout, model_.wants_range()};
}

// Whether the task asks for sums that the device's owner does not let out.
bool Client::keeps_sums() const { return config_.refuses_sums && is_units_stage(run_.task.stage); }

// Without samples that train there is no task to do: as with a ring that is still empty, or one that is held out whole.
Status Client::check_sample_count() {
  const Problem* const problem = find_problem(config_.registry.problems, run_.task.problem);
  const uint32_t held = kTakesUnits && problem != nullptr ? problem->ops->sample_count(problem->context) : 1;
  for (uint32_t index = 0; index < held; ++index) {
    if (!is_held_out(index, run_.task.holdout)) {
      return Status::kOk;
    }
  }
  progress_.sample_fault = {SampleFault::kNone, 0, 1, static_cast<Real>(kSampleCountMax), "samples"};
  return Status::kOutOfRange;
}

// A stage that is no estimate. Its answer is kept and sent as any upload.
Status Client::begin_stage(uint64_t now_ms) {
  const StageForm* const stages = config_.registry.stages;
  const Problem* const problem = find_problem(config_.registry.problems, run_.task.problem);
  if (stages == nullptr || problem == nullptr || keeps_sums()) {
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

// Where versions travel as they stand.
void Client::open_line_of_snapshot(LineTracker& line, const gs_SnapshotChunk& chunk) {
  line.cancel();
  const Replica& replica = model_.replica();
  const bool is_next =
      replica.has_model() && chunk.version == replica.version() + 1 && chunk.part == gs_ModelPart_MODEL_PART_MODEL;
  if (is_next && !model_.has_scalar_stream()) {
    line.open(replica, 0, arena_);
  }
}

// Computes the line of the task's version, or a slice of it. false: there is more to do at *wake_ms.
bool Client::step_line(uint64_t now_ms, uint64_t* wake_ms) {
  LineTracker& line = *progress_.line;
  const Problem* const problem = find_problem(config_.registry.problems, run_.task.problem);
  const Units units = model_.units().units();
  const bool is_wanted = run_.task.stage == TaskStage::kTrain && line.is_due(run_.task.version) && problem != nullptr &&
                         problem->ops->check_shape(problem->context, run_.task.shape) == Status::kOk &&
                         check_units(*problem, units) == Status::kOk;
  if (is_wanted) {
    EstimateInput input;
    input.manifold = &model_.replica().manifold();
    input.shape = run_.task.shape;
    input.problem = *problem;
    input.units = units.count > 0 && units.are_decided() ? &units : nullptr;
    const Status status = line.step(input, run_.task.holdout, model_.replica().model(), run_.slice_size, arena_);
    if (status == Status::kUnfinished) {
      Measurement* const measurement = line.measurement();
      *wake_ms = kAwaitsMeasurements && measurement != nullptr ? measurement->await(now_ms) : 0;
      if (!kAwaitsMeasurements || *wake_ms != Measurement::kLost) {
        return false;
      }
      ++counters_.measurements_lost;
    }
    task_.has_line = status == Status::kOk;
    task_.line = line.line();
  }
  line.drop(arena_);
  return true;
}

}  // namespace gradstream
