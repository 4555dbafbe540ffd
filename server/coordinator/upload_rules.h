// The rules of one run for an upload: what is wrong with it, what it is worth, what its device is told. As
// server/coordinator/device_rules.h.
//
//   begin_upload() -> find_head_fault() -> decode_upload() -> fold_input() -> the rule's own check -> accepted_update()
//                  \-> an Ack alone    \------------ a fault ------------> refused_upload()          -> judged_ack()
#ifndef GRADSTREAM_SERVER_COORDINATOR_UPLOAD_RULES_H_
#define GRADSTREAM_SERVER_COORDINATOR_UPLOAD_RULES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "server/coordinator/device_rules.h"
#include "server/coordinator/intake.h"
#include "server/coordinator/quality.h"
#include "server/rules/aggregator.h"

namespace gradstream {

// How an upload begins.
enum class UploadCourse : uint8_t {
  kLimited,     // beyond its device's rate: an Ack alone, as for each that is not kKnown or kJudge
  kUnknown,     // of a task that the device never had
  kSuperseded,  // of one before its last
  kKnown,       // its verdict is known, and told once more
  kUnstored,    // nothing can be stored now
  kFull,        // the open version takes no more
  kJudge,
};
struct UploadStart {
  UploadCourse course = UploadCourse::kJudge;
  gs_Verdict verdict = gs_Verdict_VERDICT_NONE;  // of the Ack
  gs_Reason reason = gs_Reason_REASON_NONE;
  uint64_t required = 0;  // record that it depends on; 0: none
};
// is_limited: the device is beyond its rate.
UploadStart begin_upload(const RunView& run, const DeviceRow& row, uint32_t task_sequence, bool is_limited);

// A version that takes no more updates: what comes then waits on its device. Its round closes as soon as it may. Rules
// that step by one update take one into a version, and while the run is paused no version closes.
bool is_version_full(const RunView& run);

// The digest of the model that the device trained from; 0: it does not say. known: of the model at the upload's base
// version, where that is known. A device that was told the run's nonce mixes it in: what was trained for another run of
// the same models is no answer to this one's tasks.
uint64_t said_base(uint64_t run_nonce, const Upload& upload, std::optional<uint64_t> known);

// The first thing wrong with an upload of an open task before its values are looked at, or REASON_NONE. known: as
// said_base().
gs_Reason find_head_fault(const RunView& run, const DeviceRow& row, const Upload& upload, std::optional<uint64_t> known,
                          uint64_t now_ms);
// The same of an answer to a stage that has answers of its own.
gs_Reason find_answer_fault(const RunView& run, const DeviceRow& row, const Upload& upload,
                            std::optional<uint64_t> known);
// values <- those of the upload.
gs_Reason decode_upload(const Upload& upload, std::vector<Real>* values);
// Why a rule does not fold what it was given, or an encoding does not read.
gs_Reason reason_of(Status status);

// What the rule is to fold of an upload without a fault: values, which must outlive it, and all but the inverse
// participation.
FoldInput fold_input(const RunView& run, uint32_t device, const DeviceRow& row, uint32_t sample_count,
                     const Upload& upload, std::span<const Real> values);

// What of an update's notes goes into the journal: a part that is no number harms no update, and stays out.
struct KeptNotes {
  UpdateNotes notes;
  bool drops_line = false;
  bool drops_evaluation = false;
};
KeptNotes keep_notes(const UpdateNotes& said, QualityMetric metric, const DeviceImage& image);

// The record of an update that is folded. Its values are encoded here: finite ones (GS_ASSERT).
UpdateAccepted accepted_update(const RunView& run, const DeviceRow& row, const Upload& upload, const FoldInput& input,
                               const UpdateNotes& notes, uint64_t now_ms);
// That of an answer.
UpdateAccepted accepted_answer(const RunView& run, uint32_t device, uint16_t weight, const Upload& upload);
// What one local step took, us, by an update that was refused for `reason`; 0: it says nothing. One that is too late
// says how slow its device is; else the device would get the same work for ever.
uint32_t refused_step_us(const RunView& run, const DeviceRow& row, const Upload& upload, gs_Reason reason,
                         uint64_t now_ms);
// A device whose loss is no number has trained on nothing, whatever its values are.
bool has_finite_loss(const Upload& upload);
// The Ack of a task whose verdict is known, all but its window, and what it says of a clip and of a held Pull.
struct JudgedAck {
  gs_Ack ack = {};
  bool is_long_wait = false;  // its window is kRefusedWindowFactor times as wide
  uint64_t required = 0;      // the verdict's record
};
JudgedAck judged_ack(const DeviceRow& row, const DeviceSession& session, uint32_t task_sequence, bool is_duplicate);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_UPLOAD_RULES_H_
