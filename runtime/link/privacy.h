// The floors that a device's owner puts under what a run may learn of its samples (docs/trust.md).
//
// They are the device's own, and no message of a server lowers them. A task that goes below one is refused by its name
// (TaskRefused.floor). What an update says beside its values is left out or made coarse instead, and the task goes on:
// losses, the line of the last record, the evaluation, and numbers of samples.
//
// "Samples" are those that train: a server that holds nearly all of them out gains nothing by it.
#ifndef GRADSTREAM_RUNTIME_LINK_PRIVACY_H_
#define GRADSTREAM_RUNTIME_LINK_PRIVACY_H_

#include <cstdint>

#include "runtime/base/config.h"
#include "runtime/training/task.h"

namespace gradstream {

// Values equal the wire's enum Floor; never renumber.
enum class FloorId : uint8_t {
  kNone = 0,
  kBatchSize = 1,
  kLocalSteps = 2,
  kScalarsPerSample = 3,
  kTangents = 4,
  kUnitSums = 5,
  kTrialSteps = 6,
};

// How a number of samples is told.
enum class SampleCountForm : uint8_t {
  kBucket = 0,  // the greatest power of two that is not above it
  kExact = 1,
  kNone = 2,  // 1, whatever it is
};

// Floors. A number of 0 stands for its default, so that nothing but zeros is a device whose owner has said nothing.
// gs_privacy of include/gradstream/device.h has the same members.
struct PrivacyFloors {
  // Of any local step: an estimate, or an evaluation of samples held out, is a mean over as many samples or more.
  uint16_t batch_size_min = 0;
  // Steps of a task, and of what is sent where its deadline cuts it short.
  uint16_t local_step_count_min = 0;
  // Scalars of an update for each sample that they are of.
  uint16_t scalars_per_sample_max = 0;
  // Sums over columns leave a device that holds as many samples or more. Their numbers of samples are exact, since the
  // fleet divides by them.
  uint16_t sums_samples_min = 0;
  // Losses along a direction, of trial steps and of the line, do so as well.
  uint16_t trials_samples_min = 0;
  bool refuses_tangents = false;  // updates that are tensors
  bool sends_losses = false;      // before and after the local steps, of the samples that they were on
  bool skips_evaluation = false;  // holds no samples out, and evaluates none
  SampleCountForm sample_count = SampleCountForm::kBucket;
  bool refuses_sums = false;  // whatever sums_samples_min says
};

// Reason: the mean of one sample is its own gradient, from which it can be computed.
inline constexpr uint16_t kBatchSizeFloor = 8;
inline constexpr uint16_t kLocalStepFloor = 1;
// Reason: 512 scalars of one sample gave its values away (docs/trust.md). A run of defaults takes 2.5 a sample from a
// device of 32 samples.
inline constexpr uint16_t kScalarCeiling = 8;
// Reason: what one sample adds to a sum or a mean is then a small part of it.
inline constexpr uint16_t kSumSamplesFloor = 32;
inline constexpr uint16_t kTrialSamplesFloor = 32;
constexpr uint32_t floor_or(uint16_t floor, uint16_t otherwise) { return floor != 0 ? floor : otherwise; }

// Nothing is refused, and everything is told. For demos, experiments and tests, whose data are nobody's.
constexpr PrivacyFloors no_floors() {
  PrivacyFloors floors;
  floors.batch_size_min = floors.sums_samples_min = floors.trials_samples_min = 1;
  floors.scalars_per_sample_max = kScalarCountMax;
  floors.sends_losses = true;
  floors.sample_count = SampleCountForm::kExact;
  return floors;
}

// The same for floors that mean the same, another for others, but for one in 2^32: an upload that was saved under
// others does not leave.
uint32_t digest_floors(const PrivacyFloors& floors);

// What a task asks below a floor. value is the task's, and the device takes numbers from `least` to `most`. Where least
// is above most no number would do.
struct FloorFault {
  FloorId floor = FloorId::kNone;  // kNone: the task may be done
  float value = 0;
  float least = 0;
  float most = 0;
};

// Samples that train among `held` ones, of which `holdout` in 65,536 are held out (is_held_out()).
uint32_t count_trained(uint32_t held, uint32_t holdout);

// *out <- the first floor, in the order of FloorId, that the task goes below on a device of so many samples that train.
// No other floor is looked at in a stage before training that has answers of its own. Bounds of the task's numbers are
// the caller's to check: a task without samples or with a number of steps beyond kLocalStepCountMax goes below none.
void find_floor_fault(const PrivacyFloors& floors, const Task& task, uint32_t trained_count, FloorFault* out);

// A number of samples as the server hears it; of 0 it is 0.
uint32_t told_count(SampleCountForm form, uint32_t count);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_PRIVACY_H_
