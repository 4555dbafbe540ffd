#include "server/journal/checkpoint.h"

#include <charconv>
#include <string_view>

namespace gradstream {

bool parse_journal_keep(const std::string& text, JournalKeep* out) {
  *out = {};
  if (text == "all") {
    return true;
  }
  out->is_all = false;
  uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const bool is_of_versions = unit == " versions";
  (is_of_versions ? out->versions : out->updates) = number;
  return code == decltype(code)() && (is_of_versions || unit == " updates");
}

// A cut is at a checkpoint, from which what is left replays. A checkpoint between the cut and the last two stays: a
// later cut will be there. Where nothing is ever cut, the last two are all that is wanted.
JournalCut choose_cut(const std::vector<CheckpointHead>& heads, uint64_t start, const JournalKeep& keep) {
  JournalCut cut;
  if (heads.size() < kCheckpointsKept) {
    return cut;
  }
  const CheckpointHead& newest = heads.back();
  const size_t last = heads.size() - kCheckpointsKept;  // where a cut may be at the latest
  for (size_t i = 0; i <= last && !keep.is_all; ++i) {
    const bool is_far = newest.update_count - heads[i].update_count >= keep.updates &&
                        newest.version - heads[i].version >= keep.versions;
    if (is_far && heads[i].sequence > start) {
      cut.sequence = heads[i].sequence;
      cut.version = heads[i].version;
    }
  }
  const uint64_t base = cut.sequence != 0 ? cut.sequence : start;
  for (size_t i = 0; i < last; ++i) {
    if (heads[i].sequence != base && (keep.is_all || heads[i].sequence < base)) {
      cut.checkpoints.push_back(heads[i].sequence);
    }
  }
  return cut;
}

}  // namespace gradstream
