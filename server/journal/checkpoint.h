// A checkpoint of a run: the state of its coordinator right after a version was begun. A restart reads one and replays
// the records behind it alone, and the records before it may go.
#ifndef GRADSTREAM_SERVER_JOURNAL_CHECKPOINT_H_
#define GRADSTREAM_SERVER_JOURNAL_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gradstream {

// What is known of it without its bytes.
struct CheckpointHead {
  uint64_t sequence = 0;      // of the record that began the version: it and all before it are in the state
  uint32_t version = 0;       // that was begun
  uint64_t update_count = 0;  // accepted updates up to then
  uint64_t size = 0;          // bytes
  // Of Store::read_start() alone: records before it may be there, and updates among them were forgotten.
  bool is_behind_forgotten = false;
  friend bool operator==(const CheckpointHead&, const CheckpointHead&) = default;
};

// bytes: what Coordinator::restore() takes.
struct Checkpoint {
  CheckpointHead head;
  std::vector<uint8_t> bytes;
};

// How much history stays behind the newest checkpoint: both numbers are at least this far back. All: nothing goes.
struct JournalKeep {
  bool is_all = true;
  uint64_t updates = 0;
  uint64_t versions = 0;
  friend bool operator==(const JournalKeep&, const JournalKeep&) = default;
};

// "all", "N updates" or "N versions". False: none of these.
bool parse_journal_keep(const std::string& text, JournalKeep* out);

// Checkpoints that a store keeps whatever else it is told. Reason: the newest may turn out not to read, and then the
// one before it and the records since are all that there is.
inline constexpr size_t kCheckpointsKept = 2;

// What a store drops of a run whose checkpoints have these heads, in order of sequence. start: of the checkpoint that
// the records which are kept follow now; 0: they begin with record 1.
struct JournalCut {
  uint64_t sequence = 0;              // records up to here may go; 0: none
  uint32_t version = 0;               // that begins there
  std::vector<uint64_t> checkpoints;  // sequences of those that may go
};
JournalCut choose_cut(const std::vector<CheckpointHead>& heads, uint64_t start, const JournalKeep& keep);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_JOURNAL_CHECKPOINT_H_
