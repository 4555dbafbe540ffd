// Where a unit is in its network and whom it dials: a small text in a flash page of its own beside the identity, so
// that one image serves every unit.
#ifndef GRADSTREAM_BOARDS_ETHERNET_NETWORK_SETTINGS_H_
#define GRADSTREAM_BOARDS_ETHERNET_NETWORK_SETTINGS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"

namespace gradstream {

struct NetworkSettings {
  uint32_t address = 0;  // 10.0.0.1 is 0x0A000001
  uint32_t prefix_size = 0;
  uint32_t gateway = 0;  // 0: none
  uint32_t server = 0;
  uint16_t port = 0;
  bool has_mac = false;
  uint8_t mac[6] = {};
  static constexpr size_t kServerTextSizeMax = 21;  // 255.255.255.255:65535
  char server_text[kServerTextSizeMax + 1] = {};

  uint32_t mask() const { return 0xFFFFFFFFU << (32 - prefix_size); }
  // Whom the server's frames go to.
  uint32_t next_hop() const { return ((address ^ server) & mask()) == 0 ? server : gateway; }
};

// Parses lines `name = value`, each name once, in any order; blank lines and lines that begin with # are skipped:
//
//   address = 192.168.1.20/24     the unit's own, and how many bits of it are the network's, 1 .. 30
//   gateway = 192.168.1.1         needed when the server is in another network
//   server = 192.168.1.5:7433     numbers: there is no name service
//   mac = 02:00:00:00:00:01       needed when the controller's EEPROM has none
//
// The text ends at the first byte 0 or 0xff, if any: what is left of an erased flash page. kDataCorrupt, with *line =
// the line at fault, from 1; 0: address or server is missing, or no gateway leads to the server.
Status parse_network_settings(std::span<const char> text, NetworkSettings* out, uint32_t* line);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_ETHERNET_NETWORK_SETTINGS_H_
