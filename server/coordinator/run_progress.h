// Whether a run improves, as its journal says: what the records of a run tell the watch of
// server/rules/progress_watch.h, and what people are told of it.
//
// Everything comes from the records, in their order, so that a replay and a command that reads the database come to the
// same states as the live server.
//
// A round of the watch is as many versions as it takes to hear three quarters of the devices. Where all are asked that
// is one version. Reason: losses of one cohort do not compare with those of another. Its loss is the mean over the
// devices that tell theirs. Where none does it is that of the samples that devices hold out.
#ifndef GRADSTREAM_SERVER_COORDINATOR_RUN_PROGRESS_H_
#define GRADSTREAM_SERVER_COORDINATOR_RUN_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/base/state_archive.h"
#include "server/journal/journal_record.h"
#include "server/rules/progress_watch.h"
#include "server/rules/smoothing_check.h"
#include "server/run/run_parameters.h"

namespace gradstream {

// What people are told, to see what has changed.
struct ProgressSaid {
  ProgressView view;
  SmoothingFit fit = SmoothingFit::kUnknown;
};

// Which losses of a run are watched, from the first round on that has any: a loss of one kind does not compare with one
// of the other.
enum class LossSource : uint8_t {
  kUnknown,     // no round had one
  kUpdates,     // before the local steps, as devices tell them that do
  kEvaluation,  // of samples held out: nobody told the others
};

class RunProgress {
 public:
  explicit RunProgress(const RunParameters& parameters);

  // A record that the run's state has followed.
  void follow(const JournalRecord& record);
  const ProgressView& view() const { return watch_.view(); }
  // Of the stage START, or of several the last one that found the smoothing wrong; kUnknown: nobody was asked.
  const SmoothingVerdict& smoothing() const { return smoothing_; }
  ProgressSaid said() const { return {view(), smoothing_.fit}; }
  // Of the open version: devices whose updates were refused for their values, and devices heard of so far.
  uint32_t unfit_count() const { return static_cast<uint32_t>(unfit_.size()); }
  uint32_t device_count() const;
  // All of it, of a checkpoint.
  void exchange(StateArchive& io);

 private:
  void close_version(const JournalRecord& record);
  std::optional<double> loss_of_round();
  void note(uint32_t device);
  void take_notes(const JournalRecord& record);
  void judge_smoothing();

  uint32_t device_count_;  // that the run waits for
  uint32_t accused_from_;  // of the watch, as the run's keys have it
  bool asks_smoothing_;
  ProgressWatch watch_;
  std::vector<bool> is_known_;  // by enrolment index: heard of
  uint32_t known_count_ = 0;
  std::vector<uint32_t> unfit_;
  // Since the last round of the watch. On time and late apart: a late loss is of an older model.
  double promise_ = 0;
  double loss_sum_ = 0;
  double weight_ = 0;
  double late_loss_sum_ = 0;
  double late_weight_ = 0;
  uint32_t update_count_ = 0;
  uint32_t version_count_ = 0;
  double held_out_sum_ = 0;
  double held_out_weight_ = 0;
  LossSource source_ = LossSource::kUnknown;
  // Of the open version.
  std::vector<SmoothingRatios> ratios_;
  double evaluation_sum_ = 0;
  double evaluation_weight_ = 0;
  SmoothingVerdict smoothing_;
};

// For people: the numbers, the likely cause, and what to do. Empty where there is nothing to say.
struct ProgressWords {
  std::string text;
  std::string remedy;
};
ProgressWords progress_words(const ProgressView& view, const RunParameters& parameters);
ProgressWords drift_words(const ProgressView& view);
// Empty where the smoothing fits, or is not known.
ProgressWords smoothing_words(const SmoothingVerdict& verdict, const RunParameters& parameters);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_RUN_PROGRESS_H_
