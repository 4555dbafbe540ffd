// How long the updates of each device are beside those of the others: what a clip has measured of a run's versions
// (docs/algorithms.md, "The clip"). It decides nothing. A device that is clipped for ever must be seen, so that its
// owner can mend its scale.
#ifndef GRADSTREAM_SERVER_COORDINATOR_NORM_BOOK_H_
#define GRADSTREAM_SERVER_COORDINATOR_NORM_BOOK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/base/state_archive.h"
#include "server/rules/aggregator.h"

namespace gradstream {

// Accepted updates of a device that its shares are of: one a bit.
inline constexpr uint32_t kNormMemory = 64;
// A device is an outlier while so many of its last kNormMemory updates were longer than kOutlierFactor medians.
inline constexpr uint32_t kOutlierCount = 32;
inline constexpr uint32_t kOutlierFactor = 2;

// Between two lines update_outlier of one device, ms.
inline constexpr uint64_t kOutlierLineMs = 3'600'000;

// Of one device, as of its last update in a version that closed.
class DeviceNorms {
 public:
  // median, radius: of the version that the update went into.
  void take(const ClipTally::Norm& one, uint64_t median, uint64_t radius);

  bool has_any() const { return count_ > 0; }
  // N by the median of the last version with an update of it; 0 where the median is 0.
  double ratio() const { return ratio_; }
  // Of the last updates, kNormMemory at most: those that were clipped. has_any().
  double clipped_share() const;
  bool is_outlier() const;
  // Of the last update that has one, to the step of its version; 0: none is known. A restart from a checkpoint knows
  // none until a version closes.
  double cosine() const { return cosine_; }
  void exchange(StateArchive& io) { io.values(ratio_, clipped_, long_, count_); }

 private:
  double ratio_ = 0;
  uint64_t clipped_ = 0;  // bit 0: the last update
  uint64_t long_ = 0;     // the same: longer than kOutlierFactor medians
  uint32_t count_ = 0;    // up to kNormMemory
  double cosine_ = 0;
};

class NormBook {
 public:
  // The updates of a version that closes.
  void take(const ClipTally& tally);

  // As though no update of the device had been measured. Counts over all devices stay.
  void forget(uint32_t device);

  // Null: no update of the device was measured.
  const DeviceNorms* find(uint32_t device) const;
  // Updates that were clipped, of all versions.
  uint64_t clipped_count() const { return clipped_count_; }
  // R of the last version that closed; kNoClipRadius: nothing could be too long.
  uint64_t radius() const { return radius_; }
  // The least cosine of an update of that version to its step; 0: none is known.
  double least_cosine() const { return least_cosine_; }

  // A line for tests that compare two ledgers; empty: nothing was clipped.
  std::string text() const;
  void exchange(StateArchive& io);

 private:
  std::vector<DeviceNorms> devices_;  // by enrolment index, as far as any was measured
  uint64_t clipped_count_ = 0;
  uint64_t radius_ = kNoClipRadius;
  double least_cosine_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_NORM_BOOK_H_
