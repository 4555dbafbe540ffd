// What a server and a node of a cluster begin with: limits of the listener, descriptors, the HTTP port, signals.
#ifndef GRADSTREAM_SERVER_PROGRAM_SERVE_PARTS_H_
#define GRADSTREAM_SERVER_PROGRAM_SERVE_PARTS_H_

#include <memory>
#include <system_error>

#include "server/base/asio_alias.h"
#include "server/link/listener.h"
#include "server/program/commands.h"
#include "server/program/config.h"
#include "server/program/served_shell.h"
#include "server/watch/http.h"

namespace gradstream {

// Those of the configuration, with room for what config.run sends to a device at once.
ListenerLimits listener_limits(const Config& config);
// Descriptors for HTTP, the database and exports are kept before devices get any: sets descriptor_count_max.
void share_descriptors(Config* config);
// Prints why a server or a node cannot begin. kExitTemporary: a later start may do; else kExitInternal.
int fail_start(const std::system_error& error);
// Opens http_listen; *out stays empty where none is configured. handler and is_public: as of HttpServer. kExitOk, or an
// error already printed: kExitFile of the token, kExitNetwork.
int open_http(const Config& config, HttpServer::Handler handler, HttpServer::IsPublic is_public,
              std::unique_ptr<HttpServer>* out);

// Brings the signals of the process (host/end_signals.h) into the loop of the server. One for the process, so that no
// signal is forgotten while one run makes room for the next.
class ServeSignals {
 public:
  // config: as it was loaded. http: empty until the port is open.
  ServeSignals(asio::io_context& io, const CommonOptions& options, const Config& config,
               const std::unique_ptr<HttpServer>& http);
  ~ServeSignals() { news_.release(); }  // the file is the process's
  ServeSignals(const ServeSignals&) = delete;
  ServeSignals& operator=(const ServeSignals&) = delete;

  // `shell` has been started. It hears of the signals until detach(), and at once of those that came while there was
  // none.
  void attach(ServedShell& shell) {
    shell_ = &shell;
    look();
  }
  void detach() { shell_ = nullptr; }

 private:
  void wait();
  void look();

  asio::posix::stream_descriptor news_;
  const CommonOptions& options_;
  const Config& config_;
  const std::unique_ptr<HttpServer>& http_;
  ServedShell* shell_ = nullptr;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_SERVE_PARTS_H_
