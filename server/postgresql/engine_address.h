// What an engine's address says: its servers, and whether a connection may go without TLS.
#ifndef GRADSTREAM_SERVER_POSTGRESQL_ENGINE_ADDRESS_H_
#define GRADSTREAM_SERVER_POSTGRESQL_ENGINE_ADDRESS_H_

#include <cstddef>
#include <string>

#include "server/base/objection.h"

namespace gradstream {

// The servers of an address, as comma-separated lists.
struct ServerLists {
  std::string host, host_address, port;
  size_t count = 1;
};
// first: which server the lists begin with; those before it come last.
ServerLists servers_of(const std::string& address, size_t first);

// Of a connection on which the keys of devices pass. Objects where it has no TLS and leaves the machine, unless the
// address says sslmode=disable. primary: HOST:PORT of the server; empty: a socket of the machine.
Objection check_secrecy(bool has_tls, const std::string& primary, const std::string& address);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_POSTGRESQL_ENGINE_ADDRESS_H_
