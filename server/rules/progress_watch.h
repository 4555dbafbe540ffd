// Whether a run improves, from what the server folds anyway (docs/algorithms.md, "Whether a run improves").
//
//   promise of a round  a |d|^2, with a = eta_g eta K_eff and d the mean direction in the unit of a gradient
//   P                   promises of the last kWindow rounds / fall of the loss from the first round to its lowest level
//   kept                fall of the loss over these rounds / their promises
//
// A promise is what the loss would fall by if it were as straight as the step assumes. A run that has converged
// promises little, since d shrinks. A run that bounces promises its whole history again in each window and keeps
// nothing. P has no unit: neither data nor step nor K enters by hand.
//
// Pure, and a function of its calls alone: a replay of the journal comes to the same states. Its memory is bounded.
#ifndef GRADSTREAM_SERVER_RULES_PROGRESS_WATCH_H_
#define GRADSTREAM_SERVER_RULES_PROGRESS_WATCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>

#include "server/base/enum_names.h"
#include "server/base/state_archive.h"

namespace gradstream {

enum class ProgressState : uint8_t {
  kStarting,      // too few rounds, or no loss that changes: nothing is known
  kWatching,      // it looks like kNotImproving, but such a run is not to be believed so early
  kSettled,       // promises and falls are small: a plateau with this step, and no proof of an optimum
  kStillFalling,  // the loss still falls
  kNotImproving,  // the step promises far more than the loss keeps
  kDiverged,      // the loss is far above the first one, or steps cannot be made
};
template <>
inline constexpr auto kEnumNames<ProgressState> =
    std::to_array<EnumName<ProgressState>>({{"starting", ProgressState::kStarting},
                                            {"watching", ProgressState::kWatching},
                                            {"settled", ProgressState::kSettled},
                                            {"still_falling", ProgressState::kStillFalling},
                                            {"not_improving", ProgressState::kNotImproving},
                                            {"diverged", ProgressState::kDiverged}});

// Rounds of the promises that are added up.
inline constexpr size_t kProgressWindow = 10;
// The first round that is judged. Reason: before it a window is most of a run's life.
inline constexpr uint32_t kProgressFirst = 20;
// The first round that is accused where estimates are noisy. Reason: with K = 1 or m = 4 three good runs in ten look
// bad between the two, and nearly none later.
inline constexpr uint32_t kProgressFirstNoisy = 60;
// The same where steps shrink. Reason: measured on four data sets, seven of fifty good runs with a decay bounced until
// then and cleared by themselves, and two did so later. All that ended badly were still named.
inline constexpr uint32_t kProgressFirstShrinking = 55;
// P beyond this and a kept share below this are a strike; so many strikes are an accusation. Reason: measured on twelve
// workloads, where they name 99 of 100 runs with too long steps and 4 to 9 of 100 good ones, nearly all for a while.
inline constexpr double kProgressBroken = 5;
inline constexpr double kProgressKept = 0.1;
inline constexpr uint32_t kProgressStrikes = 3;
// A run still falls when its last kProgressFallRounds made more than this share of its whole fall.
inline constexpr double kProgressFalling = 0.02;
// People are told that a run which had settled falls again beyond this share. Reason: noise of a loss carries a run
// over one bound again and again, and twice the bound it reaches when the loss does fall.
inline constexpr double kProgressFallingAgain = 2 * kProgressFalling;
inline constexpr uint32_t kProgressFallRounds = 30;
// A run has diverged when its loss is above the first one by this share of it.
inline constexpr double kProgressRise = 0.5;
// Drift: the median of the last losses lies above that of the reference before them, by so many robust deviations and
// by this share of its size.
inline constexpr size_t kDriftReference = 50;
inline constexpr size_t kDriftRecent = 5;
inline constexpr double kDriftSigmas = 6;
inline constexpr double kDriftFloor = 0.02;
// P is said up to here. Reason: a loss that never fell makes it infinite.
inline constexpr double kPromiseRatioMax = 1e6;

enum class DivergedBy : uint8_t {
  kNothing,
  kLoss,     // it has risen, or is no number
  kStep,     // the updates of a version made no step
  kRefusals  // the updates of half of the devices were refused
};

// What the watch knows. Losses are levels: medians of the last three.
struct ProgressView {
  ProgressState state = ProgressState::kStarting;
  DivergedBy diverged_by = DivergedBy::kNothing;
  double ratio = 0;         // P, at most kPromiseRatioMax; 0: unknown
  double kept = 0;          // share of the window's promises that the loss has kept; below 0: it rose
  double recent_share = 0;  // of the whole fall: what the last kProgressFallRounds made; 0: unknown
  double first_loss = 0;
  double loss = 0;
  uint32_t drift_count = 0;
  // Of the last drift: the medians before and after it, and the deviation before it.
  double drift_before = 0;
  double drift_after = 0;
  double drift_deviation = 0;
  friend bool operator==(const ProgressView&, const ProgressView&) = default;
};

// A round as the watch takes it.
struct WatchedStep {
  double promise = 0;
  std::optional<double> loss;  // mean over the devices at the model that the round began with; none: not told
  bool is_alive = true;        // false: the updates made no step
  uint32_t accused_from = kProgressFirst;  // before this round kWatching is the most
  bool may_accuse = true;                  // false: its promise says too little of the fleet, and kWatching is the most
};

// The last losses of a run that has settled, and whether they move away. add() is true at a drift; then it begins anew.
class DriftWatch {
 public:
  bool add(double loss);
  void clear() { losses_.clear(); }
  // Of the last add() that was true.
  double before() const { return before_; }
  double after() const { return after_; }
  double deviation() const { return deviation_; }
  void exchange(StateArchive& io);

 private:
  std::deque<double> losses_;  // at most kDriftReference + kDriftRecent
  double before_ = 0;
  double after_ = 0;
  double deviation_ = 0;
};

class ProgressWatch {
 public:
  void add(const WatchedStep& step);
  // A mean loss of held-out samples, between two rounds. It serves drift alone.
  void add_evaluation(double loss);
  // The updates of half of the devices were refused for their values, so that no step can be made of them.
  void refuse();
  // What people are told. A change between kSettled and kStillFalling is told when it has stood for kProgressStrikes
  // rounds, and one back to kStillFalling beyond kProgressFallingAgain alone.
  const ProgressView& view() const { return view_; }
  // What the last round alone says, as the prototype has it.
  ProgressState judged() const { return judged_; }
  uint32_t round_count() const { return round_; }
  // All of it, of a checkpoint.
  void exchange(StateArchive& io);

 private:
  struct Loss {
    uint32_t round = 0;
    double value = 0;
  };

  std::optional<double> level(int64_t round, size_t width) const;
  void end_calm();
  void restart(const DriftWatch& drift);
  void judge(const WatchedStep& step, uint32_t round);
  void tell(const WatchedStep& step, uint32_t round);

  std::deque<double> promises_;  // the last kProgressWindow
  std::deque<Loss> losses_;      // as many as levels need
  uint32_t round_ = 0;           // rounds that were added since the start, or since the last drift
  std::optional<double> first_loss_;
  double least_loss_ = std::numeric_limits<double>::infinity();  // of all, to know whether they change
  double most_loss_ = -std::numeric_limits<double>::infinity();
  double lowest_ = std::numeric_limits<double>::infinity();  // level
  uint32_t strikes_ = 0;
  ProgressState judged_ = ProgressState::kStarting;
  ProgressState candidate_ = ProgressState::kStarting;  // calm state that is not told yet
  uint32_t candidate_rounds_ = 0;
  bool has_settled_ = false;
  // Since the run has settled.
  DriftWatch loss_drift_;
  DriftWatch evaluation_drift_;
  ProgressView view_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_PROGRESS_WATCH_H_
