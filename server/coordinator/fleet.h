// Who takes part in a run: for each enrolled device what the journal says of it, and what its sessions said.
#ifndef GRADSTREAM_SERVER_COORDINATOR_FLEET_H_
#define GRADSTREAM_SERVER_COORDINATOR_FLEET_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/wire/codec.h"
#include "server/base/state_archive.h"
#include "server/coordinator/attendance.h"
#include "server/coordinator/device_ranks.h"
#include "server/coordinator/device_row.h"
#include "server/coordinator/device_session.h"
#include "server/coordinator/share_window.h"
#include "server/rules/enrolment.h"
#include "server/run/participation.h"
#include "server/run/run_parameters.h"

namespace gradstream {

// A device that is enrolled in the run.
struct FleetDevice {
  std::string name;
  bool is_revoked = false;                              // or disabled, or pending: takes no part
  gs_Reason revoked_reason = gs_Reason_REASON_REVOKED;  // what its session is then told, or REASON_INACTIVE
  DeviceRow row;
  DeviceSession session;
};

// Names for one line of a log: the first kNameCountMax of them and how many more there are, "a,b,c,+997"; "none".
class NameList {
 public:
  // Reason: 8 names of 63 characters keep a line below 1 KiB, and who repairs devices begins with a few.
  static constexpr uint32_t kNameCountMax = 8;

  void add(const std::string& name);
  // So many more, which the text would not name.
  void add_unnamed(uint32_t count);
  std::string text() const;

 private:
  std::string names_;
  uint32_t count_ = 0;
};

// What a device is to the open version.
enum class VersionStanding : uint8_t {
  kOut,       // it takes no part
  kAnswered,  // in time
  kBlocked,   // it can give nothing as it is
  kReady,     // it has said Hello, and may answer
  kSilent,    // nobody has heard of it since the server started, and it may answer
};
// Devices by VersionStanding.
using StandingCounts = std::array<uint32_t, 5>;

// All devices of a run, and the open version as far as it is about them: who is asked, who has answered, who cannot.
//
// No version may cost its fleet, so members and counts are kept as the devices change. at() notes the device, and
// settle() looks at those that were noted before anything is counted. So a reference that at() has given is used before
// the next question about the fleet, and not after it.
class Fleet : public Enrolment {
 public:
  // seen_versions: as the run's key. share_window: versions that shares() looks at; 0: it looks at none.
  explicit Fleet(const std::vector<std::string>& names, uint32_t seen_versions = 0, uint32_t share_window = 0);

  uint32_t add(const std::string& name);  // its enrolment index
  uint32_t size() const { return static_cast<uint32_t>(devices_.size()); }
  bool contains(uint32_t index) const { return index < devices_.size(); }
  FleetDevice& at(uint32_t index);
  const FleetDevice& at(uint32_t index) const;
  // Of one that takes part, and back.
  void revoke(uint32_t index);
  void restore(uint32_t index);
  // Enrolled and not revoked.
  uint32_t active_count() const override { return active_.count(); }
  bool has_left(uint32_t index) const override { return at(index).is_revoked; }
  // Enrolment index of the active device that has `rank` active ones before it; rank < active_count().
  uint32_t active_at(uint32_t rank) const { return active_.at(rank); }
  // The version is open from now on, and asks the members, or everyone for Cohort(). A device that is added later is
  // asked from the next version on, where members are chosen. Before the first version nobody has answered.
  void begin_version(uint32_t version, const Cohort& cohort);
  // Of the open version's cohort, active or not. Everyone, where it has none.
  bool is_member(uint32_t index) const;
  // An active member of the cohort; any active device when all its members have been revoked.
  bool is_asked(uint32_t index) const;
  // Whether an active member of the cohort is left; else all active devices are asked.
  bool has_members() const { return member_count() > 0; }
  uint32_t asked_count() const { return has_members() ? member_count() : active_count(); }
  // Whether the open version asks members alone: these, enrolment indices, ascending, active or not.
  bool asks_members() const { return has_cohort_ && member_count_ > 0; }
  const std::vector<uint32_t>& members() const { return members_; }
  // Whether the open stage waits for an active device, and for how many it does not.
  void set_barred(uint32_t index, bool is_barred);
  uint32_t barred_count() const { return barred_count_; }
  // Whether the device can give nothing to the open version as it is. What its refusals in this version say follows
  // from the journal; the rest from what it has said since the server started.
  bool is_blocked(uint32_t index) const;
  // Of the asked devices. Their sum is asked_count().
  StandingCounts standings();
  // The asked devices that are blocked and have not answered: enrolment indices, ascending.
  std::vector<uint32_t> blocked();
  // ---- Where a run waits for the devices that it has seen (server/coordinator/attendance.h) ----
  // The server has judged an update or a refusal of the device.
  void note_seen(uint32_t index) { attendance_.note(index); }
  // The last version that it was seen in; none: it was not, or the run does not look.
  std::optional<uint32_t> last_seen(uint32_t index) const { return attendance_.last_seen(index); }
  // Whether the open version waits for it: it has not answered, may answer, and was seen. Where nobody of those that
  // were seen takes part any more, as before the first answer of all, the version waits for everybody.
  bool is_awaited(uint32_t index) const;
  uint32_t awaited_count();
  // Whether it was seen in the versions that the open one looks at: the part of it that follows from the journal.
  bool is_seen(uint32_t index) const { return attendance_.is_awaited(index); }
  // The first count_max of them.
  std::vector<std::string> awaited_names(size_t count_max = SIZE_MAX);
  // Devices that the open version does not wait for any more, and the one before did; as a NameList.
  std::string gone_names() const;
  uint32_t gone_count() const { return static_cast<uint32_t>(attendance_.gone().size()); }

  // What each device has given to the last versions of a run without rounds.
  ShareWindow& shares() { return shares_; }
  const ShareWindow& shares() const { return shares_; }

  // Names of the asked devices that have not answered the open version in time, as a NameList.
  std::string missing();
  // The first count_max of them.
  std::vector<std::string> missing_names(size_t count_max = SIZE_MAX);
  // Names of the active devices that have said they cannot evaluate, as a NameList.
  std::string unable_to_evaluate();

  // What the journal says of each device, of a checkpoint. A fleet that reads it may have more devices, which were
  // enrolled later, and never fewer. Who is revoked is not the journal's. A reader opens `version`.
  void exchange(StateArchive& io, uint32_t version);

  // Uses of at(), here and elsewhere: what tests hold a version's cost to.
  uint64_t visit_count() const { return visit_count_; }
  // What is wrong with the counts, by a look at all devices, for tests; empty: nothing.
  std::string find_miscount() const;

 private:
  // What is counted of a device.
  struct Place {
    VersionStanding standing = VersionStanding::kOut;
    bool is_chosen = false;      // for the cohort
    bool is_touched = false;     // is in touched_
    bool is_of_version = false;  // is in of_version_
  };
  VersionStanding find_standing(uint32_t index) const;
  bool cannot_evaluate(const FleetDevice& device) const;
  void touch(uint32_t index);
  void settle();
  void count_again(uint32_t index);
  void count_members();
  void count_awaited();
  // Those that were seen and take part; none where everybody is awaited.
  uint32_t seen_count() const;
  uint32_t member_count() const { return has_cohort_ ? member_count_ : active_count(); }

  std::vector<FleetDevice> devices_;
  std::vector<Place> places_;
  DeviceRanks active_;
  DeviceRanks blocked_;  // VersionStanding::kBlocked
  DeviceRanks unable_;   // active, and cannot_evaluate()
  uint32_t open_version_ = kNoVersion;
  bool has_cohort_ = false;
  std::vector<uint32_t> members_;
  uint32_t member_count_ = 0;  // active members of a cohort
  uint32_t barred_count_ = 0;  // active ones
  StandingCounts of_active_ = {};
  StandingCounts of_members_ = {};
  Attendance attendance_;
  StandingCounts of_seen_ = {};  // of those that attendance_ awaits
  ShareWindow shares_;
  std::vector<uint32_t> touched_;     // to be counted again
  std::vector<uint32_t> of_version_;  // whose standing ends with the open version: have answered, or were refused in it
  mutable uint64_t visit_count_ = 0;
};

// What an image with these capabilities lacks for the run's tasks, as `kind:name` joined by commas, such as
// "manifold:sphere,problem:kpca"; empty: nothing. network_digest: of the device's own (Hello). A device with another
// network than the run's lacks `network:` and the run's digest. sample_count: of its Hello; a device with fewer than
// samples_min lacks `samples:` and samples_min.
std::string lacking(const RunParameters& parameters, const gs_Capabilities& capabilities, uint64_t network_digest = 0,
                    uint32_t sample_count = kSampleCountMax);
// Whether a network is all that it lacks.
bool lacks_network_alone(const std::string& lacks);
// Whether samples are all that it lacks.
bool lacks_samples_alone(const std::string& lacks);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_FLEET_H_
