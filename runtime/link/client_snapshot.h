// Reads a snapshot: a version as it stands, or tensors beside the model, in pieces from the server.
#ifndef GRADSTREAM_RUNTIME_LINK_CLIENT_SNAPSHOT_H_
#define GRADSTREAM_RUNTIME_LINK_CLIENT_SNAPSHOT_H_

#include <cstdint>

#include "runtime/link/client_run.h"
#include "runtime/training/stream.h"
#include "runtime/wire/codec.h"

namespace gradstream {

// Invariants:
// - A snapshot is open from its first piece until take() gives kOk, or close().
// - Pieces come part by part in the order of ModelPart, each part from its first byte on, and all name one version, one
//   digest and the same parts.
// - From the first piece of the model, or of a table of units, the replica has no model until the snapshot is whole.
class SnapshotReader {
 public:
  bool is_open() const { return is_open_; }
  void close() { is_open_ = false; }

  // Takes the next piece; the first one opens the snapshot.
  // - kOk: it was the last one, and the replica has adopted all parts. Whether they are right only their digest says.
  // - kUnfinished: more pieces are to come.
  // - kProtocolError: parts without a model, for a version that does not follow the replica's.
  // - kDataCorrupt: a part that the run does not have, another size, pieces that contradict each other, or values that
  //   no encoder makes. kNotFinite.
  // units: of the run, with memory for as many columns as the snapshot's table has; null: the run has no table. A whole
  // snapshot without a table leaves none.
  Status take(const gs_SnapshotChunk& chunk, Replica* replica, UnitsTable* units = nullptr);
  // After kOk: whether the model came too, and the version.
  bool had_model() const { return (parts_ & part_bit(ModelPart::kModel)) != 0; }
  uint32_t version() const { return version_; }

 private:
  Status open(const gs_SnapshotChunk& chunk, uint32_t parts, const Replica& replica);
  static Status read(const gs_SnapshotChunk& chunk, Replica& replica, UnitsTable* units);
  Status adopt(Replica& replica, UnitsTable* units) const;

  bool is_open_ = false;
  uint8_t part_ = 0;  // that comes now
  uint32_t version_ = 0;
  uint32_t parts_ = 0;   // bits of ModelPart, all of the snapshot
  uint32_t offset_ = 0;  // bytes of that part that have come
  uint64_t digest_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CLIENT_SNAPSHOT_H_
