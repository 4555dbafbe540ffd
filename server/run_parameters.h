// What a run is: the frozen parameters that every version, task and replica follow. Made from a TOML file by config.*,
// stored with the run, compared by digest at every start of the server.
#ifndef GRADSTREAM_SERVER_RUN_PARAMETERS_H_
#define GRADSTREAM_SERVER_RUN_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/linalg.h"
#include "runtime/training/encoding.h"
#include "runtime/training/estimator.h"
#include "runtime/training/solver.h"

namespace gradstream {

enum class LatePolicy : uint8_t { kDrop, kWeight };
enum class StalenessTable : uint8_t { kConstant, kInverseSqrt, kPolynomial, kHinge };
enum class FoldWeight : uint8_t { kUniform, kSampleCount };

struct RunParameters {
  std::string name;
  uint32_t seed = 1;
  // Model.
  ManifoldId manifold = ManifoldId::kStiefel;
  Shape shape;
  std::string problem;
  // Local work.
  SolverId solver = SolverId::kProjection;
  EstimatorId estimator = EstimatorId::kProjectionOneSided;
  DirectionKind directions = DirectionKind::kSign;
  uint32_t direction_count = 16;       // m
  uint32_t group_count = 1;            // 1: directions shared by all; n: group = client_index % group_count
  uint32_t local_step_count = 5;       // K
  float smoothing = 1e-2F;
  BatchMode batch_mode = BatchMode::kCommon;
  uint32_t batch_size = 32;
  bool use_correction = true;
  // Step of version k: step_size / (1 + step_decay * k); server step eta_g.
  float step_size = 0.1F;
  float step_decay = 0;
  float server_step = 1;               // eta_g
  // Wire.
  Encoding upload_encoding = Encoding::kF32;
  Encoding record_encoding = Encoding::kF32;
  // Fold: fixed point 2^-fold_scale_log2; |value| beyond fold_value_max is refused.
  uint32_t fold_scale_log2 = 24;
  FoldWeight fold_weight = FoldWeight::kSampleCount;
  uint32_t fold_weight_max = 65535;    // cap on one device's weight
  // Length.
  uint32_t round_count = 300;
  // Straggler policy: four independent choices (docs/wire.md). Trigger (k, T, q).
  uint32_t device_count = 0;           // n: enrolled devices that the run waits for before version 0 opens
  uint32_t update_goal = 0;            // k; 0: all n
  uint32_t report_deadline_ms = 60000; // T, from the opening of the version
  uint32_t update_min = 0;             // q at T; 0: update_goal
  uint32_t extension_count_max = 3;
  LatePolicy late = LatePolicy::kDrop;
  StalenessTable staleness_table = StalenessTable::kInverseSqrt;
  float staleness_exponent = 0.5F;     // kPolynomial: (1 + s)^-a; kHinge: slope a
  uint32_t staleness_hinge = 4;        // kHinge: s0
  uint32_t staleness_max = 8;          // S
  uint32_t steps_min = 0;              // k_min; 0: partial work is refused (== K)
  uint32_t task_deadline_ms = 0;       // sent in the Task: send what is there by then; 0: none
  // Pace.
  uint32_t retry_min_ms = 200;
  uint32_t retry_max_ms = 1000;

  StreamKind stream() const;
  bool shared_directions() const { return group_count > 0 && group_count < 0xffffffffU; }
};

// Canonical text, one `key = value` line for each field in a fixed order: what is stored, shown and hashed.
std::string canonical_text(const RunParameters& parameters);
// 64-bit FNV-1a of canonical_text().
uint64_t parameters_digest(const RunParameters& parameters);
// Names of the keys in which two canonical texts differ.
std::vector<std::string> differing_keys(const std::string& a, const std::string& b);

// Every combination is valid or refused here with a sentence that names the keys and the remedy; empty: valid.
std::string check_parameters(const RunParameters& parameters);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_PARAMETERS_H_
