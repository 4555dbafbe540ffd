// How good a run's versions are: what devices say of them on samples that they hold out of training.
//
// An evaluation is of the base version of the update that carries it. It counts while that version is open, and while
// the next one is. The journal has each, so that a replay comes to the same numbers.
#ifndef GRADSTREAM_SERVER_COORDINATOR_QUALITY_H_
#define GRADSTREAM_SERVER_COORDINATOR_QUALITY_H_

#include <cstdint>
#include <deque>
#include <string>

#include "server/base/state_archive.h"
#include "server/journal/journal_record.h"

namespace gradstream {

// What the metric of a problem is (docs/how-to/quality.md).
enum class QualityMetric : uint8_t {
  kExplainedVariance,  // share, 0 to 1
  kAccuracy,           // share, 0 to 1
  kRmse,               // root of the mean squared error
  kDistance,           // mean distance
  kLoss,               // the loss itself
};
QualityMetric quality_metric(const std::string& problem);
// For machines: "explained_variance", "accuracy", "rmse", "distance", "loss".
const char* quality_metric_name(QualityMetric metric);
// For people: "94.2 %" of shares, else a number of four digits.
std::string quality_value_text(QualityMetric metric, double value);
// The same with what it is: "quality 94.2 %", "RMSE 0.1234", "distance 0.25", "loss 1.5".
std::string quality_text(QualityMetric metric, double value);
// Whether a device can mean it: a share is from 0 to 1, but for rounding.
bool is_possible(QualityMetric metric, const UpdateEvaluation& evaluation);

// Of one version, over the devices that have evaluated it.
struct Quality {
  uint32_t version = 0;
  uint32_t device_count = 0;
  uint64_t sample_count = 0;  // held out, of all these devices
  double loss = 0;            // mean, each device by its number of samples
  double metric = 0;          // the same; kRmse: the root of the mean of their squares
  friend bool operator==(const Quality&, const Quality&) = default;
};

// Versions whose quality is kept. Reason: as many as the status page draws.
inline constexpr size_t kQualityHistoryMax = 512;

class QualityBook {
 public:
  explicit QualityBook(QualityMetric metric) : metric_(metric) {}

  // Of every record of the run, in order.
  void take(const JournalRecord& record);

  QualityMetric metric() const { return metric_; }
  // The newest version that somebody has evaluated; null: none is.
  const Quality* latest() const { return versions_.empty() ? nullptr : &versions_.back(); }
  // Null: nobody has evaluated it, or it is forgotten.
  const Quality* find(uint32_t version) const;
  const std::deque<Quality>& versions() const { return versions_; }  // the last ones, in order
  // Evaluations of versions older than the one before the open one.
  uint64_t late_count() const { return late_count_; }
  // All of it, of a checkpoint.
  void exchange(StateArchive& io);

 private:
  void add(uint32_t version, const UpdateEvaluation& evaluation);

  QualityMetric metric_;
  std::deque<Quality> versions_;
  uint64_t late_count_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_QUALITY_H_
