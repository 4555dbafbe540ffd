// Who takes part in a run: for each enrolled device its last task, its last verdict and what its sessions said.
//
// Exactly once rests here. Each device's task sequences are issued strictly increasing, and two of its verdicts are
// kept: that of the last judged task and that of the last accepted one. Reason for the second: a device that is reset
// between an Ack and its next upload comes back with the accepted update as its pending one. Its next task may have
// been abandoned by then. From the first verdict alone it would learn "superseded", and lose the correction that
// follows from its update.
#ifndef GRADSTREAM_SERVER_COORDINATOR_FLEET_H_
#define GRADSTREAM_SERVER_COORDINATOR_FLEET_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/wire/codec.h"
#include "server/base/rate_limit.h"
#include "server/base/state_archive.h"
#include "server/coordinator/attendance.h"
#include "server/coordinator/device_ranks.h"
#include "server/coordinator/share_window.h"
#include "server/journal/journal_head.h"
#include "server/rules/enrolment.h"
#include "server/run/participation.h"
#include "server/run/run_parameters.h"

namespace gradstream {

inline constexpr uint32_t kNoVersion = 0xffffffffU;

// Refusals of one device in one version before it gets no more tasks in it. Reason: a device that fails three times in
// the same way would fail for ever.
inline constexpr uint32_t kRefusedTasksMax = 3;

// The verdict of one judged task, as its Ack says.
struct JudgedTask {
  uint32_t task_sequence = 0;  // 0: none yet
  gs_Verdict verdict = gs_Verdict_VERDICT_NONE;
  gs_Reason reason = gs_Reason_REASON_NONE;
  uint32_t version = 0;  // the version that the update went into; 0: none
  float staleness_weight = 0;
  uint64_t record_sequence = 0;  // of the journal record: the Ack waits for it
  friend bool operator==(const JudgedTask&, const JudgedTask&) = default;
};

// What was wrong with the numbers of a refused task or update, and what would do; what one end has told the other.
struct Complaint {
  uint32_t task_sequence = 0;  // 0: there is none
  uint32_t sample = 0;         // 1 + number of the device's sample that the problem never takes; 0: of an update
  float value = 0;             // takes part if least < most
  float least = 0;
  float most = 0;
  uint32_t fold_scale_log2 = 0;          // 1 + a value of the key that would do; 0: none
  float step_size = 0;                   // as well
  uint32_t column = 0;                   // 1 + number of the column of the samples that it is about; 0: about none
  gs_Floor floor = gs_Floor_FLOOR_NONE;  // of the device's owner, that the task went below
  bool has_value() const { return least < most; }
};

// The task that a device was issued last, as the journal says.
struct IssuedTask {
  uint32_t sequence = 0;         // highest issued; 0: none
  uint32_t version = 0;          // its base version
  uint64_t record_sequence = 0;  // of its kTaskIssued: the Task waits for it
  uint64_t issued_ms = 0;
  uint32_t steps = 0;    // local steps that it asks for
  uint16_t samples = 1;  // N_i of its update, where the rule weighs by it
  bool is_open = false;  // issued, not judged
};

// What a device has done in the run, as the journal says.
struct DeviceWork {
  uint32_t rounds_joined = 0;  // in which it took part: accepted answers
  uint64_t updates_folded = 0;
  uint64_t updates_late = 0;
  uint64_t updates_partial = 0;   // of both
  uint32_t last_staleness = 0;    // of the last accepted update: versions behind ...
  uint32_t last_steps = 0;        // ... local steps done ...
  uint32_t last_steps_asked = 0;  // ... and asked
  uint64_t tasks_refused = 0;     // updates refused, and tasks that the device refused
  uint32_t judged_version = 0;    // of the record of its last verdict
};

// Tasks that ended in a refusal. version and count are the journal's, the rest is lost when the server restarts.
struct DeviceRefusals {
  uint32_t version = kNoVersion;  // the last version with such a task ...
  uint32_t count = 0;             // ... and how many it had
  bool is_for_good = false;       // with the image and the data that the device has
  gs_Reason for_good = gs_Reason_REASON_NONE;
  bool is_forgiven = false;  // the device began anew since its last refusal, and may answer now
  uint64_t last_ms = 0;      // of its last refusal; 0: none
  Complaint complaint;       // of its last refusal
  // By a floor of its owner it gives nothing to the stages of units, or to START and TRIALS. It may train all the same.
  bool keeps_sums = false;
  bool keeps_trials = false;
};

// What keeps a device out of stages before training.
struct DeviceStages {
  bool refuses_units = false;  // the journal: its owner does not let sums out
  bool is_left_out = false;    // the journal: its numbers were beyond belief
  bool is_barred = false;      // it gives nothing to the open stage: nobody waits for it
};

// What a device's last Hello says of its image.
struct DeviceImage {
  uint32_t crc32c = 0;   // over all of it
  std::string lacks;     // for the run, as lacking() has it
  std::string problems;  // that it can do, joined by commas
  std::string firmware_version;
  std::string board;
  uint32_t arena_size = 0;  // bytes
  uint32_t features = 0;    // bit n: gs_Feature n
  gs_ResetCause reset_cause = gs_ResetCause_RESET_CAUSE_NONE;
  bool can_evaluate = false;  // on samples held out; else it trains on all
};
inline bool has_feature(const DeviceImage& image, gs_Feature feature) {
  return (image.features >> static_cast<uint32_t>(feature) & 1U) != 0;
}

// How often a device does what costs the server something, and what the log has of it.
struct DeviceMeters {
  RateMeter messages;
  RateMeter new_tasks;         // in place of one that it had in the same version
  RateMeter copies;            // of a model that it was sent in the same version, in pieces of kCopyPieceSize
  RateMeter refusal_lines;     // of the log ...
  uint64_t lines_dropped = 0;  // ... since the last one that was written
  RateMeter notice_lines;      // of the log, about anything else that it does
  uint64_t notices_dropped = 0;
  bool is_told_slow = false;   // the log has it
  bool is_told_share = false;  // as well: that it waits, as it has given its share
  uint64_t outlier_ms = 0;     // when the log had its last update_outlier; 0: never
};

struct DeviceRow {
  std::string name;
  bool is_revoked = false;                              // or disabled, or pending: takes no part
  gs_Reason revoked_reason = gs_Reason_REASON_REVOKED;  // what its session is then told, or REASON_INACTIVE

  // What the journal says.
  IssuedTask task;
  uint32_t step_time_us = 0;  // running estimate of one local step; 0: not measured yet
  JudgedTask judged;
  JudgedTask accepted;                     // the last one folded, in time or late
  uint32_t answered_version = kNoVersion;  // last version that it answered in time
  DeviceRefusals refusals;
  DeviceWork tally;
  DeviceStages stages;

  // What its sessions said; lost when the server restarts.
  uint64_t session = 0;  // live session; 0: none
  bool is_capable = true;
  bool is_heard = false;  // it has said Hello
  DeviceImage image;
  DeviceMeters meters;
  uint32_t content_task = 0;            // of its last whole upload ...
  uint32_t content_crc32c = 0;          // ... which must not change when it is sent again
  uint64_t limited_until_ms = 0;        // it was told to stay away until then at least
  uint32_t asked_version = kNoVersion;  // that it was last issued a task of, or sent the model of
  uint32_t sample_count = 0;
  uint32_t version_held = 0;
  uint64_t last_seen_ms = 0;
  uint64_t snapshots_sent = 0;
  JournalMark mark;        // that it was told of last, by a Welcome or a Task
  uint64_t forked_ms = 0;  // when it last said one that does not fit (Coordinator::on_mark_compared()); 0: none counts
  uint64_t ahead_ms = 0;   // when it last held a version that is not there yet; 0: that counts no more
  gs_StatusReport report = {};
};

enum class SequenceState : uint8_t {
  kUnknown,     // never issued to this device
  kOpen,        // issued and not judged
  kJudged,      // the last judged or the last accepted one: its verdict is known
  kSuperseded,  // lower than one of these
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
  DeviceRow& at(uint32_t index);
  const DeviceRow& at(uint32_t index) const;
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

  SequenceState sequence_state(uint32_t index, uint32_t task_sequence) const;
  // What the journal says of each device, of a checkpoint. A fleet that reads it may have more devices, which were
  // enrolled later, and never fewer. Who is revoked is not the journal's. A reader opens `version`.
  void exchange(StateArchive& io, uint32_t version);

  // The verdict of a task that is kJudged.
  const JudgedTask& judged_task(uint32_t index, uint32_t task_sequence) const;

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
  bool is_refused(const DeviceRow& device) const;
  VersionStanding find_standing(uint32_t index) const;
  bool cannot_evaluate(const DeviceRow& device) const;
  void touch(uint32_t index);
  void settle();
  void count_again(uint32_t index);
  void count_members();
  void count_awaited();
  // Those that were seen and take part; none where everybody is awaited.
  uint32_t seen_count() const;
  uint32_t member_count() const { return has_cohort_ ? member_count_ : active_count(); }
  void exchange_device(StateArchive& io, DeviceRow& device) const;

  std::vector<DeviceRow> devices_;
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

// A checksum over all that a Hello says of the device's image; another one: the device has another image.
uint32_t image_crc32c(const gs_Hello& hello);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_FLEET_H_
