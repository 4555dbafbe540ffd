#include "server/program/past_runs.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "server/coordinator/ledger.h"
#include "server/coordinator/quality.h"
#include "server/program/config.h"
#include "server/run/run_core.h"
#include "server/store/journal_table.h"

namespace gradstream {
namespace {

// What the end of a journal says, read backwards: until the version before the last one.
class JournalEnd {
 public:
  explicit JournalEnd(QualityMetric metric) : book_(metric) {}

  bool take(const JournalRecord& record) {
    last_ms_ = std::max(last_ms_, record.time_ms());
    book_.take(record);
    if (record.kind() == RecordKind::kVersion) {
      version_ = version_count_ == 0 ? record.version() : version_;
      ++version_count_;
    } else if (record.kind() == RecordKind::kUpdate && version_count_ == 1) {
      losses_.take(record);
    }
    return version_count_ < 2;
  }
  void write(PastRun* out) const {
    out->versions = version_;
    out->ended_ms = last_ms_;
    if (losses_.count > 0) {
      out->loss = losses_.mean_before();
    }
    if (const Quality* const latest = book_.latest()) {
      out->quality = quality_text(book_.metric(), latest->metric);
    }
  }

 private:
  QualityBook book_;
  uint64_t last_ms_ = 0;
  uint32_t version_ = 0;
  uint32_t version_count_ = 0;
  LossTally losses_;
};

}  // namespace

StoreStatus read_past_run(SqliteDatabase& database, const RunRow& run, PastRun* out) {
  *out = PastRun();
  out->number = run.id;
  out->name = run.name;
  out->state = stored_run_state_text(run.state);
  out->began_ms = run.created_ms;
  RunParameters parameters;
  if (!parse_run_source(run.source, &parameters)) {  // else another release has written it
    out->problem = parameters.model->problem;
  }
  JournalEnd end(quality_metric(out->problem));
  SqliteStore journal(database, run.id);
  const StoreStatus read =
      journal.skim_back(kPastRecordsMax, [&end](const JournalRecord& record) { return end.take(record); });
  end.write(out);
  const bool is_over = run.state == StoredRunState::kFinished || run.state == StoredRunState::kStopped;
  out->ended_ms = is_over ? out->ended_ms : 0;
  return read;
}

StoreStatus read_past_runs(SqliteDatabase& database, const std::vector<RunRow>& rows, uint32_t served,
                           const std::vector<PastRun>& known, std::vector<PastRun>* out) {
  out->clear();
  const size_t first = rows.size() - std::min(rows.size(), kPastRunsMax);
  for (size_t i = first; i < rows.size(); ++i) {
    const RunRow& row = rows[i];
    const auto found =
        std::find_if(known.begin(), known.end(), [&row](const PastRun& run) { return run.number == row.id; });
    if (row.id == served) {
      continue;
    }
    if (found != known.end() && found->state == stored_run_state_text(row.state)) {
      out->push_back(*found);
      continue;
    }
    if (const StoreStatus read = read_past_run(database, row, &out->emplace_back()); read != StoreStatus::kOk) {
      return read;
    }
  }
  return StoreStatus::kOk;
}

std::string time_text(uint64_t time_ms) {
  if (time_ms == 0) {
    return "";
  }
  const auto seconds = static_cast<std::time_t>(time_ms / 1000);
  std::tm time = {};
  char text[64];
  const bool is_told =
      ::gmtime_r(&seconds, &time) != nullptr && std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &time) > 0;
  return is_told ? text : std::to_string(time_ms) + " ms";
}

}  // namespace gradstream
