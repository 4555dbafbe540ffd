// What a running server says on its HTTP port, for verbs of the same machine.
#ifndef GRADSTREAM_SERVER_PROGRAM_WATCH_CLIENT_H_
#define GRADSTREAM_SERVER_PROGRAM_WATCH_CLIENT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "server/program/config.h"

namespace gradstream {

// How long a verb waits for the answer, ms. Reason: a server that is busy publishes each second, and a person waits.
inline constexpr uint32_t kAskServerMs = 3000;
// Bytes of an answer. Reason: 50,000 devices in /status/devices.
inline constexpr size_t kAskAnswerMax = 64U << 20;

// The body that GET `path` has from server.http_listen, with the token of server.http_token_file. None: there is no
// such port, this user may not read the token, or there is no answer 200 within kAskServerMs. A port that listens on
// all addresses is asked on the loopback one.
std::optional<std::string> ask_server(const ServerConfig& server, const std::string& path);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_WATCH_CLIENT_H_
