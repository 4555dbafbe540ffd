// The verb `history`: what each version of a run came to, read from the journal alone.
#include <cstdio>
#include <string>

#include "host/standard_files.h"
#include "server/coordinator/ledger.h"
#include "server/coordinator/quality.h"
#include "server/program/commands.h"
#include "server/run/run_core.h"
#include "server/run/trigger.h"
#include "server/store/journal_table.h"

namespace gradstream {

namespace {

// What has come in for the version that is made next.
struct VersionTally {
  uint32_t folded = 0;
  uint32_t late = 0;
  LossTally losses;

  void take(const JournalRecord& update) {
    ++(update.verdict() == gs_Verdict_VERDICT_LATE ? late : folded);
    losses.take(update);
  }
};

std::string number_or_nothing(bool has_number, double value) {
  if (!has_number) {
    return "";
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.7g", value);
  return text;
}

constexpr const char* kHead =
    "version,time_ms,trigger,folded,late,loss_before,loss_after,metric,quality,quality_loss,evaluated,held_out";

// The line of the version that the record makes. Quality is that of the version before it, as losses are.
std::string line_of(const JournalRecord& made, const VersionTally& tally, const QualityBook& book) {
  const Quality* const quality = made.version() == 0 ? nullptr : book.find(made.version() - 1);
  const bool has_quality = quality != nullptr;
  const bool has_loss = tally.losses.has_losses(made);
  return std::to_string(made.version()) + "," + std::to_string(made.time_ms()) + "," + trigger_name(made.trigger()) +
         "," + std::to_string(tally.folded) + "," + std::to_string(tally.late) + "," +
         number_or_nothing(has_loss, tally.losses.mean_before()) + "," +
         number_or_nothing(has_loss, tally.losses.mean_after()) + "," + quality_metric_name(book.metric()) + "," +
         number_or_nothing(has_quality, has_quality ? quality->metric : 0) + "," +
         number_or_nothing(has_quality, has_quality ? quality->loss : 0) + "," +
         std::to_string(has_quality ? quality->device_count : 0) + "," +
         std::to_string(has_quality ? quality->sample_count : 0) + "\n";
}

}  // namespace

int history(const CommonOptions& options, uint32_t run_id) {
  Opened opened;
  RunRow run;
  if (const int code = open_journal(options, run_id, &opened, &run); code != kExitOk) {
    return code;
  }
  RunParameters parameters;
  if (const Objection error = parse_run_source(run.source, &parameters)) {
    return fail(kExitDatabase, error.sentence + "use the release that wrote it");
  }
  QualityBook book(quality_metric(parameters.model->problem));
  VersionTally tally;
  SqliteStore journal(opened.database, run.id);
  CheckpointHead start;
  if (journal.read_start(&start) != StoreStatus::kOk) {
    return fail_database(opened.database);
  }
  if (start.sequence != 0) {  // beside the table, which programs read
    std::fprintf(stderr,
                 "gradstream: history up to version %u of run %u was %s; a copy of the database from before has it\n",
                 start.version, run.id,
                 start.is_behind_forgotten ? "forgotten in part (gradstream run forget)"
                                           : "dropped, as server.journal_keep says");
  }
  print_output(std::string(kHead) + "\n");
  const StoreStatus read = journal.read([&](const JournalRecord& record) {
    book.take(record);
    if (record.kind() == RecordKind::kUpdate) {
      tally.take(record);
    } else if (record.kind() == RecordKind::kVersion) {
      print_output(line_of(record, tally, book));
      tally = VersionTally();
    }
    return true;
  });
  return read == StoreStatus::kOk ? kExitOk : fail_database(opened.database);
}

}  // namespace gradstream
