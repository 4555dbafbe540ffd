// The run that a device takes part in, as its Welcome describes it, and the device's replica of the run's model.
#ifndef GRADSTREAM_RUNTIME_LINK_CLIENT_RUN_H_
#define GRADSTREAM_RUNTIME_LINK_CLIENT_RUN_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/arena.h"
#include "runtime/base/features.h"
#include "runtime/base/units.h"
#include "runtime/link/client_fields.h"
#include "runtime/link/task_terms.h"
#include "runtime/training/lean.h"
#include "runtime/training/solver.h"
#include "runtime/training/stream.h"
#include "runtime/wire/codec.h"

namespace gradstream {

// The run's table of units, as the device holds it (runtime/base/units.h).
//
// Invariants:
// - Once it has memory its number of columns stays for the whole run.
// - From the first byte of a new table until adopt() no table is held.
class UnitsTable {
 public:
  bool is_held() const { return is_held_; }
  // No columns without a table.
  Units units() const { return is_held_ ? Units{columns_, count_} : Units{}; }
  // Of the memory; 0: there is none yet.
  uint32_t capacity() const { return count_; }
  // Takes the memory. kOutOfMemory.
  Status prepare(uint32_t count, Arena& arena);
  // Where the table's bytes are written, in the order of the wire. No table is held from now on.
  uint8_t* begin();
  // The bytes are all there. kDataCorrupt: an exponent beyond its range; kNotFinite. Then there is no table.
  Status adopt();
  void forget() { is_held_ = false; }

 private:
  UnitsColumn* columns_ = nullptr;
  uint32_t count_ = 0;
  bool is_held_ = false;
};

// Invariants, from a begin() that gave kOk to the next begin():
// - The replica has the shape that the Welcome names; a product's parts stand in the arena.
// - The memory of a record is either the replica's sum, or a mean and its words, or the blocks of a KeptRecord.
class RunModel {
 public:
  // Takes part in the run that the Welcome names, in place of any other. Parts and replica stand in the arena's
  // persistent end, whose memory of an earlier run the caller has given back. kInvalidArgument: the Welcome contradicts
  // itself or what the manifold can be; kUnimplemented: the registry lacks a manifold, or has one that is not
  // reproducible for a run of scalars, or the image leaves out what the run needs (runtime/base/features.h);
  // kOutOfMemory. On an error there is no run, and only welcome() means something.
  Status begin(const gs_Welcome& welcome, const Registry& registry, Arena& arena);
  // The same run in a new session: what may change within a run is taken from its Welcome.
  void renew(const gs_Welcome& welcome) { welcome_ = welcome; }
  // What the server says of the run's journal within a session takes the place of what its Welcome said. 0: nothing.
  void note_journal(uint64_t sequence, uint64_t chain) {
    if (sequence != 0) {
      welcome_.journal_sequence = sequence;
      welcome_.journal_chain = chain;
    }
  }

  const gs_Welcome& welcome() const { return welcome_; }
  Replica& replica() { return replica_; }
  const Replica& replica() const { return replica_; }
  UnitsTable& units() { return units_; }
  const UnitsTable& units() const { return units_; }
  Shape shape() const { return replica_.shape(); }
  // Of the version held: the replica's, and behind it that of the table where there is one.
  uint64_t digest() const { return kTakesUnits ? digest_units(replica_.digest(), units_.units()) : replica_.digest(); }
  size_t tensor_size() const { return shape().size() * sizeof(Real); }  // bytes

  // Updates are scalars, and so are records.
  bool has_scalar_stream() const { return is_scalar() && welcome_.direction_count > 0; }
  // The mean counts an update of every device (docs/algorithms.md).
  bool has_memory() const { return kRemembers && welcome_.correction == gs_Correction_CORRECTION_MEMORY; }
  // Whether the run has the `local` correction, or a task may ask for one.
  bool may_correct() const { return !has_memory() && (is_scalar() || replica_.has_mean()); }
  // How the run takes units out of samples, bits of Welcome.units.
  bool takes_units() const { return kTakesUnits && welcome_.units != 0; }
  bool wants_range() const { return (welcome_.units & kUnitsRange) != 0; }
  // An update says the line of the record that led to its base version.
  bool wants_lines() const { return kTakesUnits && welcome_.lines; }
  bool has_error_feedback() const { return kSendsTensors && welcome_.error_feedback && !is_scalar(); }
  // A record is applied when all of it is here, by this form; null: piece by piece, by the replica.
  const LeanForm* lean() const { return kLinksLeanForm ? lean_ : nullptr; }
  // The directions that this device or its group drew at that version.
  DirectionSpec directions(uint32_t base_version) const { return to_directions(welcome_, base_version); }

 private:
  static constexpr uint32_t kUnitsRange = 4;  // SUMS: the least and the greatest value too
  bool is_left_out() const;
  bool is_scalar() const { return welcome_.stream == gs_STREAM_KIND_SCALAR; }
  Status fill_parts(const Registry& registry, Arena& arena, Shape* shape) const;

  gs_Welcome welcome_ = {};
  Replica replica_;
  UnitsTable units_;
  const LeanForm* lean_ = nullptr;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CLIENT_RUN_H_
