#include "sim/oracle_attendance.h"

#include <algorithm>

#include "runtime/wire/codec.h"
#include "server/run/run_core.h"
#include "server/run/trigger.h"
#include "server/run/trigger_keys.h"

namespace gradstream {

std::string OracleAttendance::on_record(const JournalRecord& record, bool is_training) {
  switch (record.kind()) {
    case RecordKind::kTaskIssued:
      here_.emplace_back(open_, record.device());
      return is_training && has_used_share(record.device())
                 ? "device " + std::to_string(record.device()) + " was given a task beyond its share"
                 : "";
    case RecordKind::kUpdate:
      seen_[open_].insert(record.device());
      here_.emplace_back(open_, record.device());
      given_.emplace_back(open_, record.device());
      if (record.verdict() == gs_Verdict_VERDICT_FOLDED) {
        answered_.insert(record.device());
      }
      return "";
    case RecordKind::kVerdict:
      if (record.verdict() == gs_Verdict_VERDICT_REFUSED) {
        seen_[open_].insert(record.device());
        refused_.insert(record.device());
      }
      return "";
    case RecordKind::kVersion: {
      std::string fault = has_version_ ? on_close(record) : "";
      has_version_ = true;
      open_ = record.version();
      extension_count_ = 0;
      is_stalled_ = false;
      answered_.clear();
      refused_.clear();
      const uint32_t window = parameters_.trigger.keys().device_share_window;
      for (auto* const marks : {&given_, &here_}) {
        std::erase_if(*marks, [&](const auto& one) { return one.first + window <= open_; });
      }
      return fault;
    }
    case RecordKind::kRunState:
      extension_count_ += record.is_event(RunEvent::kExtended) ? 1 : 0;
      is_stalled_ = is_stalled_ || record.is_event(RunEvent::kStalled);
      if (record.is_event(RunEvent::kResumed)) {
        extension_count_ = 0;
        is_stalled_ = false;
      }
      return "";
  }
  return "";
}

std::set<uint32_t> OracleAttendance::awaited() const {
  std::set<uint32_t> out;
  for (const auto& [version, devices] : seen_) {
    if (version < open_ && open_ - version <= parameters_.trigger.keys().seen_versions) {
      out.insert(devices.begin(), devices.end());
    }
  }
  for (uint32_t device = 0; out.empty() && device < parameters_.trigger->device_count; ++device) {
    out.insert(out.end(), device);
  }
  return out;
}

std::string OracleAttendance::on_close(const JournalRecord& record) const {
  if (parameters_.trigger.keys().seen_versions == 0) {
    return "";
  }
  const std::string version = "version " + std::to_string(record.version());
  if (answered_.empty()) {
    return version + " was made of no answer";
  }
  if (record.trigger() == Trigger::kDeadline && extension_count_ < parameters_.trigger->extension_count_max) {
    return version + " was closed by its deadline before its last extension";
  }
  if (record.trigger() != Trigger::kGoal) {
    return "";
  }
  const std::set<uint32_t> all = awaited();
  const auto missing = std::find_if(all.begin(), all.end(), [this](uint32_t device) {
    return !answered_.contains(device) && !refused_.contains(device);
  });
  return missing == all.end() ? "" : version + " did not wait for device " + std::to_string(*missing);
}

bool OracleAttendance::has_used_share(uint32_t device) const {
  const TriggerKeys& keys = parameters_.trigger.keys();
  if (keys.buffer_size == 0 || keys.device_share_max == 1 || extension_count_ > 0 || is_stalled_) {
    return false;
  }
  std::set<uint32_t> devices;
  for (const auto& [version, one] : here_) {
    devices.insert(one);
  }
  const auto own_count =
      std::count_if(given_.begin(), given_.end(), [device](const auto& one) { return one.second == device; });
  const double share = static_cast<double>(keys.device_share_max);
  const double most = std::max(1.0, share * keys.device_share_window * keys.buffer_size);
  return share * static_cast<double>(devices.size()) > 1 && static_cast<double>(own_count + 1) > most;
}

}  // namespace gradstream
