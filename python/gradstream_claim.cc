#include <string>

#include "boards/posix/posix.h"
#include "firmware/claim_posix.h"
#include "firmware/client_main.h"
#include "firmware/name_posix.h"
#include "python/gradstream_python.h"
#include "python/work.h"
#include "runtime/wire/server_address.h"

using namespace gradstream;

int gs_py_claim_identity(const gs_py_claim* claim, gs_py_fault* fault) {
  const WorkTurn lock(claim->log, fault);
  ServerAddress address;
  if (const AddressFault wrong = parse_server_address(claim->server, &address); wrong.text != nullptr) {
    return tell(fault, kExitUsage,
                "the server is '" + std::string(claim->server) + "': write HOST:PORT; '" + std::string(wrong.part) +
                    "' " + wrong.text);
  }
  ClaimRun run;
  if (const std::string problem = expand_name(claim->name, &run.name); !problem.empty()) {
    return tell(fault, kExitUsage, "the name is '" + std::string(claim->name) + "': " + problem);
  }
  run.claim_path = claim->file;
  run.identity_path = claim->identity_file;
  run.once = true;
  run.takes_unproven = claim->takes_unproven != 0;
  const std::string host(address.host), port(address.port);
  posix_set_server(host.c_str(), port.c_str());
  fault->code = claim_identity(run);
  posix_set_server("", "");
  return fault->code;
}
