#include <string>

#include "boards/posix/posix.h"
#include "firmware/claim_posix.h"
#include "firmware/client_main.h"
#include "firmware/name_posix.h"
#include "python/gradstream_python.h"
#include "python/work.h"
#include "runtime/link/port.h"
#include "runtime/wire/server_address.h"

using namespace gradstream;

namespace {

// The port has one server for the process: it is this one while this lives.
class ServerTurn {
 public:
  ServerTurn(const std::string& host, const std::string& port) { posix_set_server(host.c_str(), port.c_str()); }
  ~ServerTurn() { posix_set_server("", ""); }
  ServerTurn(const ServerTurn&) = delete;
  ServerTurn& operator=(const ServerTurn&) = delete;
};

int attempt_claim(const gs_py_claim& claim, uint64_t end_ms, gs_py_fault* fault) {
  ServerAddress address;
  if (const AddressFault wrong = parse_server_address(claim.server, &address); wrong.text != nullptr) {
    return tell(fault, kExitUsage,
                "the server is '" + std::string(claim.server) + "': write HOST:PORT; '" + std::string(wrong.part) +
                    "' " + wrong.text);
  }
  ClaimRun run;
  if (const std::string problem = expand_name(claim.name, &run.name); !problem.empty()) {
    return tell(fault, kExitUsage, "the name is '" + std::string(claim.name) + "': " + problem);
  }
  run.claim_path = claim.file;
  run.identity_path = claim.identity_file;
  run.once = true;
  run.takes_unproven = claim.takes_unproven != 0;
  run.end_ms = end_ms;
  const std::string host(address.host), port(address.port);
  const ServerTurn server(host, port);
  fault->code = claim_identity(run);
  return fault->code;
}

}  // namespace

int gs_py_claim_identity(const gs_py_claim* claim, gs_py_fault* fault) {
  const uint64_t end_ms = port_now_ms() + claim->limit_ms;
  const WorkTurn lock(claim->log, fault);
  return with_memory(fault, [&] { return attempt_claim(*claim, end_ms, fault); });
}
