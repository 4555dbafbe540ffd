// The gradient stream: what a device uploads and a server folds, and how anyone rebuilds the model from it.
//
//   ScalarStream   K x m scalars s[t*m + j]; with the directions u (a function of the seed) they are the mean estimate
//                  Gbar = (pr / (m k)) sum_t sum_j s[t*m+j] u[t,j]                       (algorithms.md B1)
//   TangentBlock   one dense tensor: RFedAGS's zeta, a tangent at the base model (000 Alg. 1), or the ambient mean
//                  Gbar = (1/k) sum_t G_t of the local gradients (A10)
//
// A version's record in a scalar run is a list of blocks of folded coefficients, one block for each distinct
// (base version, owner of the directions); a Replica steps with them:
//   X <- P_M( X - step_scale (pr / m) sum_blocks sum_{t,j} S[t*m+j] u[t,j] )             (B2, B3 in the `local` form)
// In the memory form replicas hold a second tensor, the mean: h (docs/algorithms.md), an exact sum of words. Scalar
// runs:
//   h = (pr/m) (1/sqrt(pr)) 2^-scale_log2 H,   H[e] = sum over the live updates of their coefficients times +-1
// and a record is a list of blocks of whole coefficients that are added to H or taken away again:
//   D = H (or 0) + blocks before the step;  X <- P_M(X - step_scale d);  H = D + blocks after the step      (B2)-(B4)
// Everything here is reproducible: float32, + - * / sqrt, one fixed order (blocks in the record's order, t, then j).
#ifndef GRADSTREAM_RUNTIME_TRAINING_STREAM_H_
#define GRADSTREAM_RUNTIME_TRAINING_STREAM_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "runtime/base/arena.h"
#include "runtime/base/random.h"
#include "runtime/base/status.h"
#include "runtime/manifold/manifold.h"
#include "runtime/training/encoding.h"

namespace gradstream {

// Values equal the wire's enums; never renumber.
enum class StreamKind : uint8_t { kNone = 0, kScalarStream = 1, kTangentBlock = 2 };
enum class DirectionKind : uint8_t {
  kNone = 0,
  kSign = 1,    // entries +-1/sqrt(pr): bit e % 32 of word j * ceil(pr / 32) + e / 32; reproducible
  kSphere = 2,  // normals q = j * pr + e, normalised: replays the reference; libm, not reproducible
};

// The directions of one update or one block.
struct DirectionSpec {
  DirectionKind kind = DirectionKind::kSign;
  bool shared = true;  // domain kSharedDirections with owner = group, or kOwnDirections with owner = index
  uint32_t seed = 0;
  uint32_t base_version = 0;  // version of the model at which the estimates were made
  uint32_t owner = 0;
  uint32_t direction_count = 0;  // m
};

// What a version may hold. Values equal the wire's enum; never renumber.
enum class ModelPart : uint8_t {
  kNone = 0,
  kModel = 1,
  kMean = 2,           // replicated with the model (has_mean)
  kMeanGradient = 3,   // tangent at the model: the mean gradient of all devices (002)
  kPreviousModel = 4,  // the model of the round before
  kUnits = 5,          // no tensor of the shape: how the run takes units out of the samples
  kDirection = 6,      // what the stage START has folded
};
constexpr uint32_t part_bit(ModelPart part) { return 1U << static_cast<uint32_t>(part); }
// The parts beside model and mean: how many there are, and their bits.
inline constexpr uint32_t kExtraPartCount = 3;
inline constexpr uint32_t kExtraPartBits =
    part_bit(ModelPart::kMeanGradient) | part_bit(ModelPart::kPreviousModel) | part_bit(ModelPart::kDirection);

// kInvalidArgument for an unknown kind or m = 0; kUnimplemented for kSphere where it is not linked (kHasHostMembers).
Status check_directions(const DirectionSpec& spec);

// out <- u[step, j]; shape.size() values. check_directions must have been kOk.
void fill_direction(const DirectionSpec& spec, Shape shape, uint32_t step, uint32_t j, Real* out);

// out <- the bits of u[step, j]: bit e % 32 of word e / 32 is set where entry e is positive; sign_word_count() words.
// Only kSign; check_directions must have been kOk.
void fill_sign_words(const DirectionSpec& spec, Shape shape, uint32_t step, uint32_t j, uint32_t* out);
size_t sign_word_count(Shape shape);

// out <- the standard normals number j * pr + e of the directions' stream, of which a kSphere direction is the
// normalised form, whatever the kind (A7's directions before they are projected). libm: not reproducible.
void fill_normal_direction(const DirectionSpec& spec, Shape shape, uint32_t step, uint32_t j, Real* out);

// sum <- sum + sum over q in [first, first + count) of coefficients[q - first] * u[q / m, q % m], in the order of q.
// For kSign: c = coefficient * (1 / sqrt(pr)), then sum[e] +- c, so that a split into chunks does not change a bit.
// kSphere takes scratch of one direction from the arena (kOutOfMemory). Other codes as check_directions.
// On an error sum is untouched. coefficients must not overlap sum.
Status accumulate_directions(const DirectionSpec& spec, Shape shape, uint32_t first, uint32_t count,
                             const Real* coefficients, Real* sum, Arena& arena);

// One direction of kSign, read at any place. It costs least in the order of the places.
class SignReader {
 public:
  // Of u[step, j].
  SignReader(const DirectionSpec& spec, Shape shape, uint32_t step, uint32_t j);
  // values[i] <- values[i] + value where entry first + i of the direction is positive, - value where it is not; count
  // values.
  void add(size_t first, size_t count, Real value, Real* values);

 private:
  RandomKey key_;
  uint64_t first_word_;
  uint64_t block_ = UINT64_MAX;  // that words_ holds
  uint32_t words_[4] = {};
};

// As accumulate_directions for the entries [begin, begin + size) alone, in the same bits: size values of sum. Only
// kSign; check_directions must have been kOk.
void accumulate_range(const DirectionSpec& spec, Shape shape, uint32_t first, uint32_t count, const Real* coefficients,
                      size_t begin, size_t size, Real* sum);

// |distance u[e]| of a kSign direction for distance >= 0, as fill_direction and a product make it.
Real sign_distance(Shape shape, Real distance);

// Arena scratch of accumulate_directions, bytes.
size_t accumulate_scratch_size(const DirectionSpec& spec, Shape shape);

// sum <- sum +- coefficients[q - first] for the sign of u[q / m, q % m], every entry, in words modulo their range:
// exact in any order. Only kSign (kInvalidArgument, also for m = 0; sum is then untouched). Word: FixedWord on
// replicas, int64_t where a sum is checked.
template <typename Word>
Status accumulate_exact(const DirectionSpec& spec, Shape shape, uint32_t first, uint32_t count,
                        const Word* coefficients, Word* sum);

// 2^-scale_log2 / sqrt(pr): what a unit of an exact sum over directions is worth as a sum over scaled directions.
Real exact_unit(Shape shape, uint32_t scale_log2);

// pr / m, the factor between a sum of scaled directions and the estimate (003 eq. 7).
Real estimate_factor(Shape shape, uint32_t direction_count);

// The correction of the `local` form, c = d - Gbar_i, from what was folded and never by a difference of models:
//   correction <- (pr/m) (record_sum - (1/steps_done) sum_q s[q] u[q])
// record_sum is that of the replica's last record, s the steps_done * m scalars of the device's own update as uploaded
// (`upload`, the stored bytes), spec its directions. correction may be record_sum itself. kInvalidArgument when the
// bytes are not those of steps_done * m values; kDataCorrupt, kNotFinite; kOutOfMemory (kSphere only). Of s /
// steps_done what the clip leaves counts; kOutOfRange by OwnClip::apply. On an error correction is unspecified: use
// none. Values of the device's own path, not replicated state.
Status fill_correction(const DirectionSpec& spec, Shape shape, const Real* record_sum, uint32_t steps_done,
                       Encoding encoding, const uint8_t* upload, size_t upload_size, Real* correction, Arena& arena,
                       OwnClip clip = {});

// What a solver hands over: views into its own memory, valid until the arena is released.
struct GradientStream {
  StreamKind kind = StreamKind::kNone;
  uint32_t steps_done = 0;
  const Real* values = nullptr;  // steps_done * m scalars, or shape.size() entries
  uint32_t value_count = 0;
  // Mean loss over the step's own batch, at the point where the first and the last of the steps done were estimated.
  Real loss_before = 0;
  Real loss_after = 0;
  const int64_t* words = nullptr;  // in place of values: those of a stage before training
};

// A model and the version it is of: the same code on every device, on the server and in a watcher.
// A version may hold tensors beside model and mean (ModelPart), which come in snapshots and go with the next step; the
// digest covers them in the order of their numbers.
// Memory: two tensors of the shape in the arena's persistent end (X and the sum of the record in progress), three where
// it holds a mean, and one for each extra part of the run. Where a sum is held a direction stands in its memory, since
// no record leads to or from a version that holds one.
class Replica {
 public:
  // parts: bits of the extra parts that versions of the run may hold. has_sum false: no sum is held, and the calls of a
  // record answer kProtocolError; LeanForm applies records then. kInvalidArgument when the manifold has no such shape;
  // kOutOfMemory.
  Status prepare(const ManifoldOps& manifold, Shape shape, Arena& arena, bool has_mean = false, uint32_t parts = 0,
                 bool has_sum = true);
  // Arena bytes of prepare, and of the hungriest of the other calls (kSphere directions come on top).
  static size_t persistent_size(Shape shape, bool has_mean = false, uint32_t parts = 0, bool has_sum = true) {
    const uint32_t shared = has_sum && !has_mean ? part_bit(ModelPart::kDirection) : 0;
    const auto extra_count = static_cast<size_t>(std::popcount(parts & kExtraPartBits & ~shared));
    const size_t own_count = has_mean ? 3 : 1 + static_cast<size_t>(has_sum);
    return (own_count + extra_count) * Arena::taken_size<Real>(shape.size());
  }
  static size_t scratch_size(const ManifoldOps& manifold, Shape shape) {
    return Arena::taken_size<Real>(shape.size()) + manifold.scratch_size(shape);
  }

  const ManifoldOps& manifold() const { return *manifold_; }
  Shape shape() const { return shape_; }
  bool has_model() const { return has_model_; }
  uint32_t version() const { return version_; }
  const Real* model() const { return model_; }
  bool has_mean() const { return mean_ != nullptr; }
  const FixedWord* mean() const { return mean_; }
  bool has_sum() const { return sum_ != nullptr; }
  // Of X, and of the mean behind it where there is one.
  uint64_t digest() const;

  // Extra parts that this version holds, and their values; null: not held.
  uint32_t parts() const { return parts_held_; }
  const Real* part(ModelPart part) const;

  // A snapshot: fill the model and the parts that it brings piece by piece, then adopt. has_model() is false from begin
  // to adopt. parts: bits of the extra parts that were filled.
  // The mean, where there is one, is a part of every snapshot.
  Real* begin_snapshot();
  FixedWord* mean_buffer() { return mean_; }
  void adopt_snapshot(uint32_t version, uint32_t parts = 0);
  // A snapshot of parts alone: version() + 1 has the model that is held, and these parts. Fill, then adopt.
  void adopt_parts(uint32_t version, uint32_t parts);
  // Where an extra part is filled; null when the run has none such.
  Real* part_buffer(ModelPart part);

  // A record that leads from version() to version() + 1: begin, any number of blocks (each in any number of chunks, in
  // order), then finish. kProtocolError when there is no model or, after begin, no record begun. An abandoned record
  // leaves the model untouched; begin starts afresh. Other codes as accumulate_directions.
  Status begin_record();
  Status add_to_record(const DirectionSpec& spec, uint32_t first, uint32_t count, const Real* coefficients,
                       Arena& arena);
  // X <- P_M(X - step_scale (pr/m) sum); version + 1. On error (kSingular, kNotFinite; kInvalidArgument for m = 0;
  // kOutOfMemory) the model is untouched and the record still open.
  Status finish_record(uint32_t direction_count, Real step_scale, Arena& arena);
  // Sum of the record last finished, without step_scale and pr/m: d = (pr/m) record_sum. Valid until the next begin_*.
  const Real* record_sum() const { return sum_; }

  // A record of the memory form: begin, blocks, take_exact_step (once), perhaps more blocks, finish. from_zero: D
  // starts at 0 instead of H. Codes as above; kProtocolError also without a mean, or where the step was or was not
  // taken yet.
  // On an error before or in the step X and H are untouched; what is broken off after it leaves no model (has_model()).
  Status begin_exact_record(bool from_zero);
  Status add_exact(const DirectionSpec& spec, uint32_t first, uint32_t count, const FixedWord* coefficients);
  // X <- P_M(X - step_scale (pr/m) unit D), unit = exact_unit().
  Status take_exact_step(uint32_t direction_count, Real step_scale, uint32_t scale_log2, Arena& arena);
  // version + 1.
  Status finish_exact_record();
  bool has_taken_step() const { return has_taken_step_; }
  // out[e] <- unit mean[e]: the mean as a tensor.
  void fill_mean(Real unit, Real* out) const;

  // out <- R_X(step v), the next model of RFedAGS's server step; the replica stays. v is projected to T_X first, since
  // a retraction takes tangents only and sums in f32 are not; out may be v, neither may be model(). kProtocolError
  // when there is no model, kSingular, kNotFinite.
  Status tangent_step(const Real* v, Real step, Real* out, Arena& arena) const;
  // X <- that; version + 1. Codes as tangent_step, kOutOfMemory: the model is untouched.
  Status step_tangent(const Real* v, Real step, Arena& arena);

  // out <- P_M(X - step g), the next model of A10's server step, g the ambient mean gradient; the replica stays. out
  // may be g, neither may be model(). Codes as tangent_step.
  Status gradient_step(const Real* g, Real step, Real* out, Arena& arena) const;
  // X <- that; version + 1. Codes as step_tangent.
  Status step_gradient(const Real* g, Real step, Arena& arena);

  // Makes a single bit of the model, or beyond it of the mean, wrong; fault injection for tests and the simulator only.
  void flip_bit_for_test(size_t bit);

 private:
  Status take_model(const Real* z);

  const ManifoldOps* manifold_ = nullptr;
  Shape shape_;
  Real* model_ = nullptr;
  Real* sum_ = nullptr;         // null with a mean, and where no sum is held
  FixedWord* words_ = nullptr;  // what a record in progress adds to the mean
  FixedWord* mean_ = nullptr;   // null without
  uint32_t version_ = 0;
  bool has_model_ = false;
  bool in_record_ = false;
  bool is_from_zero_ = false;
  bool has_taken_step_ = false;
  Real* extra_[kExtraPartCount] = {};
  uint32_t parts_held_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_TRAINING_STREAM_H_
