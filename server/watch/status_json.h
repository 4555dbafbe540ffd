// The JSON of /status, where a server has words of its own: a node of a cluster says the run as a single server does
// (server/watch/watch.h), and more behind it.
#ifndef GRADSTREAM_SERVER_WATCH_STATUS_JSON_H_
#define GRADSTREAM_SERVER_WATCH_STATUS_JSON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/watch/attention.h"
#include "server/watch/watch.h"

namespace gradstream {

// What a server and a node of a cluster say in words of their own; each is a whole value of JSON.
struct StatusWords {
  bool is_ready = false;     // devices get work
  bool counts_round = true;  // false: nobody knows how many have answered the open round
  std::string attention = "[]";
  std::string counters = "{}";
  std::string refusals = "{}";                            // updates and tasks, by reason
  std::vector<std::pair<const char*, std::string>> more;  // keys of their own, behind all others
};
// The list of `attention`.
std::string attention_json(const std::vector<Attention>& all);
// All that watch.h's status_json() says, with these words.
std::string status_json(const WatchSnapshot& snapshot, const HttpCounters& http, const StatusWords& words,
                        uint32_t after);
// The number behind `after=`; 0 without a query. None: it is another query.
std::optional<uint32_t> version_after(std::string_view query);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_WATCH_STATUS_JSON_H_
