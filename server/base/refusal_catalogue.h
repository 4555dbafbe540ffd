// The catalogue of refusals: why a device, an update, a task or a peer was turned away, by the names that log lines
// (reason=...), the counters of /metrics, the page and the doctor (cause=...) have.
//
// Pure. The page's words and docs/reference/events.md are compared with it, word by word.
#ifndef GRADSTREAM_SERVER_BASE_REFUSAL_CATALOGUE_H_
#define GRADSTREAM_SERVER_BASE_REFUSAL_CATALOGUE_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace gradstream {

// What is turned away.
enum class RefusalKind : uint8_t {
  kWork,    // an update, a task, a message or a session of a device: reason of update_refused and the like
  kKey,     // a claim or a new key: reason of claim_refused and key_change_refused
  kHttp,    // a peer of the HTTP port: reason of http_refused
  kPeer,    // peers of the port for devices, by the counter that counts them
  kDoctor,  // what keeps a device from its server: cause of gradstream doctor
};

struct RefusalRow {
  const char* id;  // scripts match it, and it is never renamed
  RefusalKind kind;
  const char* meaning;  // a phrase
  const char* remedy;   // a clause; "": nothing is to be done
};

// In a fixed order: the kinds one after the other.
std::span<const RefusalRow> refusals();
// Null: there is no such refusal.
const RefusalRow* find_refusal(RefusalKind kind, std::string_view id);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_REFUSAL_CATALOGUE_H_
