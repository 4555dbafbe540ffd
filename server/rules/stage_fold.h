// What a server makes of the answers of one stage before training (server/run/run_stages.h): one fold a stage.
//
//   make_stage_fold() -> check(), add() for each answer, in any order -> close(): what the next version says
//
// A fold is a pure function of the journal, as an aggregation rule is: recovery adds the answers again. close() decides
// once; its decision stands in the record, so that a replay decides nothing. The answers of START are uploads of the
// run's own solver: the run's rule has them, and close() asks it.
#ifndef GRADSTREAM_SERVER_RULES_STAGE_FOLD_H_
#define GRADSTREAM_SERVER_RULES_STAGE_FOLD_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/rules/aggregator.h"
#include "server/rules/stage_record.h"

namespace gradstream {

// What the folds of a version work with; all of it outlives them.
struct StageContext {
  const RunParameters* parameters = nullptr;
  const Replica* replica = nullptr;  // of the open version, with its direction where it has one
  Arena* arena = nullptr;            // for scratch
  StageStep step = {};
  std::span<const uint8_t> units = {};     // the table as the open version has it; empty: none yet
  std::span<const uint8_t> decision = {};  // of the last version that a rule decided something in
};

struct StageAnswer {
  uint32_t device = 0;  // enrolment index
  uint16_t weight = 0;  // as of an update of the device
  // As uploaded: words for units, f32 for TRIALS. answer_value_count() has how many, and their checksum holds.
  std::span<const uint8_t> values = {};
};

// What is wrong with an answer. Columns count from 1; 0: no column is to blame, or there is no number.
struct StageFault {
  gs_Reason reason = gs_Reason_REASON_NONE;
  uint32_t column = 0;
  double value = 0;  // takes part if least < most
  double least = 0;
  double most = 0;
};

// A device that a stage leaves out, and the number that is to blame.
struct StageOutlier {
  uint32_t device = 0;
  uint32_t column = 0;  // from 1; 0: its number of columns
  double value = 0;
  double limit = 0;
};

struct StageDecision {
  // kOk; else the answers made nothing: the stage is asked for anew.
  Status status = Status::kOk;
  std::vector<uint8_t> decision;  // these four as in StageRecord
  std::vector<uint8_t> units;
  std::vector<uint8_t> direction;
  std::vector<StageOutlier> left_out;                      // by ascending device, each once
  std::vector<std::pair<std::string, std::string>> notes;  // for the log: names and values of fields
};

class StageFold {
 public:
  StageFold() = default;
  StageFold(const StageFold&) = delete;
  StageFold& operator=(const StageFold&) = delete;
  virtual ~StageFold() = default;

  // Whether add() takes the answer; REASON_NONE: it does.
  virtual StageFault check(const StageAnswer& answer) const = 0;
  // Takes what check() has passed, now or before a crash. A device answers a version once.
  virtual void add(const StageAnswer& answer) = 0;
  // At least one answer was added here, or in START to the rule.
  virtual StageDecision close(const Aggregator& rule) const = 0;
  // Task.step_size of the stage's tasks.
  virtual Real step_size() const { return 1; }
  // Of all answers, in whatever order they came: for tests that compare two ledgers.
  virtual uint64_t digest() const = 0;
};

// The fold of the stage of the context; null: the version trains.
std::unique_ptr<StageFold> make_stage_fold(const StageContext& context);

// Members of the registry.
std::unique_ptr<StageFold> make_units_fold(const StageContext& context);   // EXPONENTS, SUMS, SQUARES
std::unique_ptr<StageFold> make_start_fold(const StageContext& context);   // START
std::unique_ptr<StageFold> make_trials_fold(const StageContext& context);  // TRIALS

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_STAGE_FOLD_H_
