#include "server/coordinator/quality.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace gradstream {
namespace {

struct MetricRow {
  const char* problem;
  QualityMetric metric;
};
// As the devices' tables have it. Other problems, an application's own too, have no metric but their loss.
constexpr MetricRow kMetrics[] = {
    {"kpca", QualityMetric::kExplainedVariance}, {"logistic", QualityMetric::kAccuracy},
    {"perceptron", QualityMetric::kAccuracy},    {"lenet", QualityMetric::kAccuracy},
    {"network", QualityMetric::kAccuracy},       {"least_squares", QualityMetric::kRmse},
    {"spd_mean", QualityMetric::kDistance},      {"hyperbolic", QualityMetric::kDistance},
};

bool is_share(QualityMetric metric) {
  return metric == QualityMetric::kExplainedVariance || metric == QualityMetric::kAccuracy;
}

}  // namespace

QualityMetric quality_metric(const std::string& problem) {
  for (const MetricRow& row : kMetrics) {
    if (problem == row.problem) {
      return row.metric;
    }
  }
  return QualityMetric::kLoss;
}

const char* quality_metric_name(QualityMetric metric) {
  switch (metric) {
    case QualityMetric::kExplainedVariance:
      return "explained_variance";
    case QualityMetric::kAccuracy:
      return "accuracy";
    case QualityMetric::kRmse:
      return "rmse";
    case QualityMetric::kDistance:
      return "distance";
    case QualityMetric::kLoss:
      break;
  }
  return "loss";
}

std::string quality_value_text(QualityMetric metric, double value) {
  char text[400];  // of the largest number, written out
  const auto end = is_share(metric) ? std::to_chars(text, text + sizeof text, 100 * value, std::chars_format::fixed, 1)
                                    : std::to_chars(text, text + sizeof text, value, std::chars_format::general, 4);
  return std::string(text, end.ptr) + (is_share(metric) ? " %" : "");
}

std::string quality_text(QualityMetric metric, double value) {
  const char* const name = is_share(metric)                     ? "quality"
                           : metric == QualityMetric::kRmse     ? "RMSE"
                           : metric == QualityMetric::kDistance ? "distance"
                                                                : "loss";
  return std::string(name) + " " + quality_value_text(metric, value);
}

bool is_possible(QualityMetric metric, const UpdateEvaluation& evaluation) {
  constexpr float kRounding = 1e-3F;
  return !is_share(metric) || (evaluation.metric >= -kRounding && evaluation.metric <= 1 + kRounding);
}

void QualityBook::take(const JournalRecord& record) {
  if (record.kind() != RecordKind::kUpdate) {
    return;
  }
  const UpdateNotes notes = record.notes();
  if (!notes.evaluation) {
    return;
  }
  if (record.staleness() > 1) {
    ++late_count_;
    return;
  }
  add(record.base_version(), *notes.evaluation);
}

void QualityBook::exchange(StateArchive& io) {
  io.list(versions_, [&io](Quality& q) { io.values(q.version, q.device_count, q.sample_count, q.loss, q.metric); });
  io.values(late_count_);
}

const Quality* QualityBook::find(uint32_t version) const {
  const auto found = std::find_if(versions_.rbegin(), versions_.rend(),
                                  [version](const Quality& quality) { return quality.version == version; });
  return found == versions_.rend() ? nullptr : &*found;
}

void QualityBook::add(uint32_t version, const UpdateEvaluation& evaluation) {
  auto at = versions_.end();
  while (at != versions_.begin() && (at - 1)->version >= version) {
    --at;
  }
  if (at == versions_.end() || at->version != version) {
    at = versions_.insert(at, Quality{version});
  }
  Quality& quality = *at;
  const auto before = static_cast<double>(quality.sample_count);
  const auto added = static_cast<double>(evaluation.sample_count);
  const auto mean = [&](double old, double fresh) { return (old * before + fresh * added) / (before + added); };
  quality.loss = mean(quality.loss, static_cast<double>(evaluation.loss));
  const auto metric = static_cast<double>(evaluation.metric);
  quality.metric = metric_ == QualityMetric::kRmse ? std::sqrt(mean(quality.metric * quality.metric, metric * metric))
                                                   : mean(quality.metric, metric);
  quality.sample_count += evaluation.sample_count;
  ++quality.device_count;
  if (versions_.size() > kQualityHistoryMax) {
    versions_.pop_front();
  }
}

}  // namespace gradstream
