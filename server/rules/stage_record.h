// What the record of a version says of the stages before training (server/run/run_stages.h), in runs that have some.
// Runs without stages keep their payloads to the byte.
//
// Journal form, before the rest of the payload, little-endian: the stage that the version opens u8, its draw u8,
// keeps_model u8, then as lists of bytes with their size u32: what a rule has decided, the table of units, the
// direction. Then the devices left out: count u32 and enrolment indices u32.
#ifndef GRADSTREAM_SERVER_RULES_STAGE_RECORD_H_
#define GRADSTREAM_SERVER_RULES_STAGE_RECORD_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/units.h"
#include "server/rules/payload_reader.h"
#include "server/run/run_stages.h"

namespace gradstream {

struct StageRecord {
  bool is_known = false;  // of a run with stages: the payload says so
  StageStep opens;        // the stage of the version that the record leads to
  // A stage made the version: its model and mean are those of the version before. No round ends with it.
  bool keeps_model = false;
  std::vector<uint8_t> decision;   // of the rule that chooses the step; other rules have none
  std::vector<uint8_t> units;      // MODEL_PART_UNITS from this version on; empty: as before
  std::vector<uint8_t> direction;  // MODEL_PART_DIRECTION of this version, in the model's type; empty: none
  std::vector<uint32_t> left_out;  // devices that take no part in stages of units from now on; ascending
  friend bool operator==(const StageRecord&, const StageRecord&) = default;
};

void put_stage(const StageRecord& stage, std::vector<uint8_t>* out);
// kDataCorrupt: a stage that the run does not have, or sizes and an order that no server makes.
Status take_stage(const RunParameters& run, PayloadReader& reader, StageRecord* stage);

// The digest of a version: that of the replica, and behind it the table of units once there is one.
uint64_t digest_with_units(uint64_t replica_digest, std::span<const uint8_t> units);

// ---- The table of units: what MODEL_PART_UNITS holds of each column ----

std::vector<uint8_t> encode_units(std::span<const UnitsColumn> columns);
// kDataCorrupt: bytes that encode_units() does not make of such columns.
Status decode_units(std::span<const uint8_t> bytes, std::vector<UnitsColumn>* columns);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_STAGE_RECORD_H_
