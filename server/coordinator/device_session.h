// What the sessions of one device have said: lost when the server restarts. Nothing that the journal says follows from
// it but by what the coordinator decides.
#ifndef GRADSTREAM_SERVER_COORDINATOR_DEVICE_SESSION_H_
#define GRADSTREAM_SERVER_COORDINATOR_DEVICE_SESSION_H_

#include <cstdint>
#include <string>

#include "runtime/wire/codec.h"
#include "server/base/rate_limit.h"
#include "server/base/session_id.h"
#include "server/coordinator/device_row.h"
#include "server/journal/journal_head.h"

namespace gradstream {

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

// Why the device gives nothing, as far as its journal does not say it.
struct DeviceRefusals {
  bool is_for_good = false;  // with the image and the data that the device has
  gs_Reason for_good = gs_Reason_REASON_NONE;
  bool is_forgiven = false;  // the device began anew since its last refusal, and may answer now
  uint64_t last_ms = 0;      // of its last refusal; 0: none
  Complaint complaint;       // of its last refusal
  // By a floor of its owner it gives nothing to the stages of units, or to START and TRIALS. It may train all the same.
  bool keeps_sums = false;
  bool keeps_trials = false;
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

struct DeviceSession {
  SessionId id = 0;  // of the live session; 0: none
  bool is_capable = true;
  bool is_heard = false;   // it has said Hello
  bool is_barred = false;  // it gives nothing to the open stage: nobody waits for it
  DeviceImage image;
  DeviceRefusals refusals;
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

// A checksum over all that a Hello says of the device's image; another one: the device has another image.
uint32_t image_crc32c(const gs_Hello& hello);

// What a Hello has changed of what was known of its device.
struct HelloNews {
  bool is_new_image = false;     // it had another image when it was heard last
  bool was_capable = true;       // before the Hello
  bool has_other_lacks = false;  // than those that it was heard with last, or it was never heard
};
// lacks: for the run, as lacking() of server/coordinator/fleet.h has it.
HelloNews take_hello(const gs_Hello& hello, const std::string& lacks, DeviceSession* session);

// The device began anew, or has another image: what it refused before says nothing of now.
void forgive_refusals(DeviceSession* session);
// It has given an update or an answer: what it refused for good it can do by now.
void note_answer(DeviceSession* session);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_DEVICE_SESSION_H_
