// The record that leads from one version to the next, as the journal keeps it and as replicas get it.
//
// In a scalar run it holds the step and a list of blocks of folded coefficients, one for each distinct pair of base
// version and owner of the directions. Every replica, the server's own too, steps with the decoded values, so that the
// record as encoded defines the model. In a tangent run, and for version 0 of every run, it holds the model itself.
//
// Where replicas hold a mean (runtime/training/stream.h), a dense record carries model and mean. Blocks then hold whole
// coefficients (Encoding::kFixed), before or after the step. A record of the memory form is dense where its blocks
// would be longer. It is dense too where the weights change, because devices came, left or were too long absent.
//
// Journal form of the payload (kVersion), little-endian:
//   scalar  block_count u32, then for each block base_version u32, owner u32, value_count u32, encoding u8, its bytes
//   model   rows * cols f32 (f64 in the double build).
//           In runs whose versions hold more (RunParameters::model_parts()), then the bits of the extra parts u32,
//           these tensors in order, local step and curvature, all in the model's type.
//           Where an asynchronous run switches its delay rule by a statistic, then is_switched u8, sample_count u32,
//           and the mean in the model's type.
// with a mean
//   dense   1 u8, weight_total u32, count u32 of the forgotten devices and their indices u32, model, mean (fixed)
//   blocks  0 u8, from_zero u8, then as above, each block with after_step u8 before its bytes
// and, where the run chooses cohorts, who is asked in the version: population u32, count u32, enrolment indices u32.
// In a run with stages before training all this stands behind what server/rules/stage_record.h has; of a version that a
// stage made only the cohort does.
#ifndef GRADSTREAM_SERVER_RULES_RECORD_H_
#define GRADSTREAM_SERVER_RULES_RECORD_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/training/stream.h"
#include "runtime/wire/codec.h"
#include "server/rules/delay_correction.h"
#include "server/rules/stage_record.h"
#include "server/run/participation.h"
#include "server/run/run_parameters.h"

namespace gradstream {

struct RecordBlock {
  uint32_t base_version = 0;
  uint32_t owner = 0;
  uint32_t value_count = 0;
  Encoding encoding = Encoding::kNone;
  bool after_step = false;  // with a mean
  std::vector<uint8_t> bytes;
  friend bool operator==(const RecordBlock&, const RecordBlock&) = default;
};

// What the step of a record promises, a |d|^2 (server/rules/progress_watch.h). The payload has none, so that records
// are the same without it.
struct StepPromise {
  double value = 0;
  friend bool operator==(const StepPromise&, const StepPromise&) { return true; }
};

// What a clip has decided with a record (server/rules/aggregator_clipped.cc), in units of the fold's fixed point. The
// payload has none: the journal has columns for it.
struct VersionClip {
  uint64_t radius = 0;         // of the updates in it, or, with clip_norm trailing, of those of the version it leads to
  uint32_t clipped_count = 0;  // updates in it that were longer than their radius
  friend bool operator==(const VersionClip&, const VersionClip&) = default;
};

struct VersionRecord {
  uint32_t version = 0;             // that it leads to
  Real step_scale = 0;              // eta_g eta_k K_eff
  uint64_t digest = 0;              // of the model at version
  std::vector<RecordBlock> blocks;  // scalar runs; sorted by (after_step, base_version, owner)
  std::vector<uint8_t> model;       // tangent runs, version 0 and other dense records
  // With a mean.
  std::vector<uint8_t> mean;        // dense
  bool from_zero = false;           // blocks: the sum begins at 0 instead of the mean before
  uint32_t weight_total = 0;        // dense, memory form: n of w_i = 1/n, or N of N_i / N, from now on
  std::vector<uint32_t> forgotten;  // dense, memory form: devices whose last update is taken out of the mean
  Cohort cohort;                    // of the version that it leads to
  // The close of an anchor phase (002, server/rules/aggregator_svrg.cc): what the steps of the version that it leads to
  // need.
  bool has_parts = false;  // of a run whose versions may hold more than a model: the payload says so
  std::vector<uint8_t> mean_gradient;
  std::vector<uint8_t> previous_model;
  Real local_step = 0;                      // eta of the local steps
  Real curvature = 0;                       // b; 0: none
  std::optional<DelaySwitch> delay_switch;  // of the version that it leads to, where the run switches by a statistic
  DelayNotes notes;                         // of the rule that made it; the payload has none
  // d, the mean direction in units of a gradient, of the rule that made it, where the run chooses its step by itself.
  // The payload has none.
  std::vector<Real> mean_direction;
  // As the rule knows it. Of blocks without a mean Ledger knows it, since the replica adds their directions up.
  StepPromise promise;
  std::optional<VersionClip> clip;  // of runs that clip; none in records that no training made
  StageRecord stage;                // of runs with stages before training
  bool has_anchor() const { return !mean_gradient.empty(); }
  friend bool operator==(const VersionRecord&, const VersionRecord&) = default;
};

std::vector<uint8_t> encode_payload(const VersionRecord& record);
// Fills blocks or model, and cohort, of `record`, whose version says which. kDataCorrupt: sizes, counts, order or
// encodings that no aggregator makes, a cohort that nobody chose.
Status decode_payload(const RunParameters& parameters, std::span<const uint8_t> payload, VersionRecord* record);

// The directions of a block in this run.
DirectionSpec direction_spec(const RunParameters& parameters, uint32_t base_version, uint32_t owner);

// Brings the replica from version - 1 to version (from nothing, for a model). Codes of Replica, decode_values;
// kProtocolError when the replica stands elsewhere. On an error the model is untouched.
Status apply_record(const RunParameters& parameters, const VersionRecord& record, Replica& replica, Arena& arena);

// Bytes of a model in kRealEncoding, and back (`out` holds bytes.size() / sizeof(Real) values); bytes of a mean.
std::vector<uint8_t> model_bytes(Shape shape, const Real* model);
std::vector<uint8_t> mean_bytes(Shape shape, const FixedWord* mean);
Status read_model(Shape shape, std::span<const uint8_t> bytes, Real* out);

// The record as LogChunks, and a model, perhaps with its mean, as SnapshotChunks: what travels, piece by piece.
std::vector<ServerMessage> log_chunks(const VersionRecord& record);
std::vector<ServerMessage> snapshot_chunks(uint32_t version, uint64_t digest, std::span<const uint8_t> model,
                                           std::span<const uint8_t> mean = {});
// The same of several tensors. A snapshot without the model adds to that of version - 1.
struct SnapshotPart {
  ModelPart part = ModelPart::kModel;
  std::vector<uint8_t> bytes;
};
std::vector<ServerMessage> snapshot_chunks(uint32_t version, uint64_t digest, std::span<const SnapshotPart> parts);

// The sum of the squares, in the order of the values.
double square_sum(std::span<const Real> values);

// Bytes that these take on the wire, frames included, to the byte or a few more: by them a server chooses.
size_t log_size(const VersionRecord& record);
size_t snapshot_size(Shape shape, bool has_mean = false);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_RECORD_H_
