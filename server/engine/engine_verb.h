// The calls of an engine (server/engine/engine.h) by name, for those who keep a call until its reply has come.
#ifndef GRADSTREAM_SERVER_ENGINE_ENGINE_VERB_H_
#define GRADSTREAM_SERVER_ENGINE_ENGINE_VERB_H_

#include <cstddef>
#include <cstdint>

namespace gradstream {

// Each is the member of EngineNode that has its name.
enum class EngineVerb : uint8_t {
  kJoin,
  kLoad,
  kCommit,
  kResolve,
  kTakeLease,
  kReadProgress,
  kReadSums,
  kSeal,
  kPublish,
  kReadVersions,
  kReleaseLease,
  kReadFleet,
  kReadUpdates
};
inline constexpr size_t kEngineVerbCount = 13;

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_ENGINE_ENGINE_VERB_H_
