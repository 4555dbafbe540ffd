// What an operator is to look at first: sentences for people, the worst first. The web page and `gradstream status`
// show the same ones.
//
//   WatchSnapshot --attention_of()--> [{id, level, text, remedy, command}] --> /status, the page, `gradstream status`
//
// A sentence names the thing, the value, the limit and what would do. Pure: a snapshot goes in, and what it does not
// know makes no sentence. `gradstream status` makes a snapshot of the journal alone where it reaches no server.
#ifndef GRADSTREAM_SERVER_WATCH_ATTENTION_H_
#define GRADSTREAM_SERVER_WATCH_ATTENTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/base/enum_names.h"
#include "server/watch/watch.h"

namespace gradstream {

// From the worst on.
enum class AttentionLevel : uint8_t {
  kStops,   // no version is made until somebody does something
  kSlows,   // versions take longer or are worse than they need be
  kAdvice,  // it may become one of the two
};
template <>
inline constexpr auto kEnumNames<AttentionLevel> = std::to_array<EnumName<AttentionLevel>>(
    {{"stops", AttentionLevel::kStops}, {"slows", AttentionLevel::kSlows}, {"advice", AttentionLevel::kAdvice}});

struct Attention {
  const char* id = "";  // of attention_ids(); scripts read it, and it is never renamed
  AttentionLevel level = AttentionLevel::kAdvice;
  std::string text;     // sentences
  std::string remedy;   // sentences
  std::string command;  // for a shell, as it stands; "": no one command does it
};

// A version that waits for a device is told when it waits so long, ms, and for that share of its time. Reason: below a
// second nobody would act, and where work takes longer than the wait there is little to win.
inline constexpr uint64_t kWaitToldMs = 1000;
inline constexpr double kWaitToldShare = 0.3;
// ... and when so many of the last kWaitRounds versions waited for it. Reason: one late answer is chance.
inline constexpr size_t kWaitRounds = 10;
inline constexpr size_t kWaitRoundsMin = 3;
// Devices of a run that is over come back within it, ms, as server/run/pace.h has it. Until then a device that has not
// been heard of since the server began to serve the run is not missed.
inline constexpr uint64_t kBackToldMs = 60'000;
// Failed handshakes within kRefusalWindowMs that are told. Reason: a refused device comes back every 1 to 10 s, and one
// that was mended in between has failed less often.
inline constexpr uint64_t kRefusalsTold = 5;
// Free bytes of the database's file system that are little: below this, or below a twentieth of a smaller one. Reason:
// a journal of scalars needs days for so much, and one of dense updates of a megabyte an hour.
inline constexpr uint64_t kDiskLowBytes = 1ULL << 30;
inline constexpr uint64_t kDiskVeryLowBytes = 64ULL << 20;
// Time before a certificate's end that is told, and that is urgent. Reason: a month for a person, a weekend for an
// alarm.
inline constexpr uint64_t kCertificateToldMs = 30ULL * 24 * 3600 * 1000;
inline constexpr uint64_t kCertificateUrgentMs = 3ULL * 24 * 3600 * 1000;
// A clock that is so far behind is told. Reason: a time service corrects less, and nobody needs to know.
inline constexpr uint64_t kClockBehindToldMs = 60'000;
// The share of a run's rounds from which on it is told that its loss still falls. Reason: before it, it is to fall.
inline constexpr double kStillFallingShare = 0.9;

// All ids, in a fixed order.
std::span<const char* const> attention_ids();
// At most one of each id.
std::vector<Attention> attention_of(const WatchSnapshot& snapshot);

// How fast the run goes. Nothing of a run that does not go on now.
struct WatchPace {
  std::optional<double> versions_per_minute;  // 60 s over the median time of the last kPaceVersions versions
  std::optional<double> seconds_left;         // until its last version, at that pace
  std::optional<double> best_loss;            // the least mean loss of the versions that the snapshot has
};
// Reason: twenty versions tell of now, and one slow version among them changes no median.
inline constexpr size_t kPaceVersions = 20;
WatchPace pace_of(const WatchSnapshot& snapshot);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_WATCH_ATTENTION_H_
