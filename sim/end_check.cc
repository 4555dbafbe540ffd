#include "sim/end_check.h"

#include "server/run/run_core.h"
#include "server/run/run_stages.h"

namespace gradstream {

std::string check_end_of_run(const RunParameters& parameters, const std::vector<JournalRecord>& journal,
                             const Coordinator& live, bool all_are_waited_for, Coordinator* replayed,
                             FoldedCounts* counts) {
  const std::vector<uint32_t> nobody(replayed->device_statuses().size());
  std::vector<std::vector<uint32_t>> folded(parameters.version_count() + 1, nobody);
  std::vector<std::vector<uint32_t>> wanted(parameters.version_count() + 2, nobody);
  for (const JournalRecord& record : journal) {
    if (replayed->replay(record) != Status::kOk) {
      return "the journal does not replay";
    }
    if (record.kind() == RecordKind::kVersion) {
      std::vector<uint32_t>& asked = wanted[record.version() + 1];
      for (const DeviceStatus& device : replayed->device_statuses()) {
        asked[device.index] = device.is_asked ? 1 : 0;
      }
    }
    if (record.kind() == RecordKind::kUpdate) {
      ++folded[record.version()][record.device()];
      counts->late += record.verdict() == gs_Verdict_VERDICT_LATE ? 1 : 0;
      const uint32_t stages = stage_version_count(parameters);
      counts->lines += record.base_version() >= stages && record.notes().line.has_value() ? 1 : 0;
      const bool is_anchor = record.version() <= stages || (record.version() - stages) % parameters.phase_count() == 1;
      counts->partial += !is_anchor && record.steps_done() < parameters.local->local_step_count ? 1 : 0;
    }
  }
  if (replayed->state_text() != live.state_text()) {
    return "the replayed journal gives another state";
  }
  for (uint32_t version = 1; version <= parameters.version_count() && all_are_waited_for; ++version) {
    if (folded[version] != wanted[version]) {
      return "an asked device's update is not in version " + std::to_string(version) + " exactly once";
    }
  }
  return "";
}

}  // namespace gradstream
