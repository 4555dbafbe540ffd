// Why a node serves its run no more, until somebody has looked.
//
// An engine promises that what it has told a node is committed stays. A database that was restored to an earlier time
// breaks that, and so does a fail-over to a standby that was behind. A node notices where the engine then says less
// than it had said to this node before. A node that has started since knows of nothing, and cannot notice.
#ifndef GRADSTREAM_SERVER_ENGINE_NODE_TROUBLE_H_
#define GRADSTREAM_SERVER_ENGINE_NODE_TROUBLE_H_

#include <cstdint>

namespace gradstream {

enum class NodeTrouble : uint8_t {
  kNone,
  kUnfit,     // a version does not follow from those before it, or a sum of the open one does not merge
  kRestored,  // the engine lacks what it had told this node is committed
};

// For people: what is wrong, and the remedy. Empty: nothing is.
constexpr const char* sentence_of(NodeTrouble trouble) {
  switch (trouble) {
    case NodeTrouble::kNone:
      break;
    case NodeTrouble::kUnfit:
      return "a version or a sum of the engine is of a newer release, or damaged. Install the newest release on this "
             "node.";
    case NodeTrouble::kRestored:
      return "the engine lacks what it had told this node is committed: its database was restored to an earlier time, "
             "or it failed over to a standby that was behind. Updates that were acknowledged are missing, or changes "
             "of the fleet. Bring back the newest state of the database; where there is none, end this run and begin "
             "another one.";
  }
  return "";
}

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_ENGINE_NODE_TROUBLE_H_
