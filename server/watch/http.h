// A port for people and monitors: GET of a few paths, on a thread of its own, beside the port of the devices.
//
//   http thread: accept -> one request -> handler(path) -> one response -> close
//
// It shares no io_context with the devices' sessions, and the handler must read only what any thread may read. So a
// client that stalls, floods or asks for much costs the devices nothing but its share of the processor.
//
// HTTP/1.1, one request a connection, no body, no TLS. Any other request is refused with a status, a sentence, a
// counter and a log line (at most one a second): see HttpCounters. If a token is set, a peer must prove it. If none is
// set, the port must be on a loopback address. The Host of a request must then be a loopback address too, or one that
// allow_hosts() names, so that no web page can read the port through a name of its own (DNS rebinding). The Host of a
// target in absolute form is the target's (RFC 9112, 3.2.2). A browser cannot prove a token before it has a
// page that asks for one. So the paths that is_public names are given without a token, and must say nothing of the run.
// Every answer forbids a browser all scripts, styles and connections but those of this port. The code is our own over
// Asio, because every limit here is one of a whole request and each refusal is counted, for which the packaged
// cpp-httplib 0.11 has no hook.
#ifndef GRADSTREAM_SERVER_WATCH_HTTP_H_
#define GRADSTREAM_SERVER_WATCH_HTTP_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/base/asio_alias.h"
#include "server/base/objection.h"

namespace gradstream {

struct HttpLimits {
  uint32_t connection_count_max = 32;   // the oldest makes room
  uint32_t request_size_max = 8192;     // bytes of the request line and all headers
  uint32_t request_deadline_ms = 5000;  // from the connection to the end of the request
  uint32_t answer_deadline_ms = 10000;  // from there to the peer's end of the connection
};

// Why a request or connection was refused. Stable: labels of gradstream_http_refusals_total, and `reason` in the log.
enum class HttpRefusal : uint8_t {
  kMalformed,    // no HTTP/1 request
  kOversize,     // longer than request_size_max, or it announces a body
  kMethod,       // neither GET nor HEAD
  kPath,         // a path with "..", "%", a backslash or control bytes
  kNotFound,     // no such path
  kToken,        // none, or a wrong one
  kHost,         // without a token: the Host is neither this machine's loopback nor one of allow_hosts()
  kSlowRequest,  // request_deadline_ms
  kSlowAnswer,   // answer_deadline_ms
  kOverCap,      // connection_count_max
  kCount,
};
inline constexpr size_t kHttpRefusalCount = static_cast<size_t>(HttpRefusal::kCount);
const char* http_refusal_text(HttpRefusal refusal);

// Read from any thread.
struct HttpCounters {
  std::atomic<uint64_t> requests = 0;  // answered by the handler
  std::array<std::atomic<uint64_t>, kHttpRefusalCount> refusals = {};
};

struct HttpResponse {
  uint32_t status = 404;  // 404: no such path
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::shared_ptr<const std::string> shared_body;  // in place of `body`: many answers have the same bytes; null: none
  std::string file_name;                           // under which a browser saves it; "": it shows it
};

// What a request asks for.
struct HttpTarget {
  std::string_view path;
  std::string_view query = {};  // behind the '?'
};

// A token from a file: one line of 16 to 200 printable ASCII characters. An objection: a file that others than
// its owner can read is refused.
Objection read_token(const std::string& path, std::string* out);

class HttpServer {
 public:
  // Both run on the HTTP thread.
  using Handler = std::function<HttpResponse(const HttpTarget& target)>;
  using IsPublic = bool (*)(std::string_view path);

  // token: empty for none. is_public: null for no path.
  HttpServer(const HttpLimits& limits, std::string token, Handler handler, IsPublic is_public = nullptr);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Hosts that a request without a token may name beside the loopback's, in any case and with any port: those that a
  // reverse proxy passes on. Each is_host_name(). Before start().
  void allow_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }
  // Listens and starts the thread. An objection names the address, the cause and the remedy.
  Objection start(const Tcp::endpoint& endpoint);
  uint16_t port() const { return port_; }
  // For requests from now on; from any thread, after start().
  void set_token(std::string token);
  // Ends all connections and joins the thread.
  void stop();
  const HttpCounters& counters() const { return counters_; }

 private:
  class Connection;
  friend class Connection;
  struct Request;

  void accept();
  void on_accepted(const ErrorCode& error, Tcp::socket socket);
  void refuse(HttpRefusal refusal, const std::string& peer);
  HttpResponse answer(std::string_view head, const std::string& peer, bool* is_head);
  bool is_allowed_host(std::string_view host) const;
  bool may_pass(const Request& request, const std::string& peer, HttpResponse* out);

  const HttpLimits limits_;
  std::string token_;  // HTTP thread
  const Handler handler_;
  const IsPublic is_public_;
  std::vector<std::string> hosts_;
  HttpCounters counters_;
  uint64_t refusal_logged_ms_ = 0;  // HTTP thread
  uint16_t port_ = 0;
  asio::io_context io_;
  Tcp::acceptor acceptor_;
  SteadyTimer accept_retry_;
  Tcp::endpoint accepted_peer_;  // of the connection accepted last
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::shared_ptr<Connection>> connections_;  // in order of age
  std::thread thread_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_WATCH_HTTP_H_
