// A run of every aggregation rule that merges, and its rule over version 2, for tests of sums that are made apart.
#ifndef GRADSTREAM_TESTS_SUPPORT_MERGEABLE_RUNS_H_
#define GRADSTREAM_TESTS_SUPPORT_MERGEABLE_RUNS_H_

#include <vector>

#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {

struct MergeableRun {
  const char* name = "";
  RunParameters parameters;
  VersionRecord opened = {};  // that led to version 2
};

inline std::vector<MergeableRun> mergeable_runs() {
  std::vector<MergeableRun> runs;
  runs.push_back({"projection", scalar_parameters()});
  runs.push_back({"projection, own directions", scalar_parameters()});
  runs.back().parameters.local->group_count = 0;
  runs.push_back({"mean_gradient", scalar_parameters()});
  runs.back().parameters.local->estimator = EstimatorId::kAnalyticGradient;
  runs.back().parameters.local->correction_form = CorrectionForm::kNone;
  runs.push_back({"gradient_stream", tangent_parameters()});
  runs.push_back({"gradient_stream, unbiased", tangent_parameters()});
  runs.back().parameters.cohort->participation = Participation::kSchemeTwo;
  runs.back().parameters.cohort->participation_probability = "0.5";
  runs.back().parameters.fold->fold_weight = FoldWeight::kUniform;
  runs.back().opened.cohort = {200000, {}};
  runs.push_back({"svrg, anchors", tangent_parameters()});
  runs.back().parameters.local->solver = SolverId::kSvrg;
  runs.back().parameters.local->batch_mode = BatchMode::kAll;
  runs.push_back(runs.back());
  runs.back().name = "svrg, steps";
  const std::vector<Real> gradient(runs.back().parameters.model->shape.size(), Real{0.125F});
  runs.back().opened.mean_gradient = model_bytes(runs.back().parameters.model->shape, gradient.data());
  runs.back().opened.local_step = 0.5F;
  for (MergeableRun& run : runs) {
    run.opened.version = 2;
  }
  return runs;
}

struct MergeableRule : TestRule {
  explicit MergeableRule(const MergeableRun& run, uint32_t aggregator_count = 1) : TestRule(run.parameters) {
    AggregatorContext context = {&server.parameters, &server.replica, &models, &server.arena};
    context.aggregator_count = aggregator_count;
    rule = make_aggregator(context);
    models.push(1, {server.replica.model(), run.parameters.model->shape.size()});
    const Status status = rule->follow(run.opened);
    GS_ASSERT(status == Status::kOk);
  }
  // The device's update: every second one is late, and each has done another number of steps.
  void prepare(uint32_t device) {
    const RunParameters& p = server.parameters;
    const bool is_scalar = p.stream() == StreamKind::kScalarStream;
    const uint32_t steps = 1 + device % p.local->local_step_count;
    const std::vector<Real> values =
        draw_values(is_scalar ? steps * p.local->direction_count : p.value_count(), 40 + device, 0.1F);
    const Status status = rule->prepare(
        {p.owner_of(device), 2 - device % 2, steps, static_cast<uint16_t>(1 + 5449 * device), values, device, 2, 1});
    GS_ASSERT(status == Status::kOk);
  }
  void add(uint32_t device) {
    prepare(device);
    rule->commit();
  }
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_MERGEABLE_RUNS_H_
