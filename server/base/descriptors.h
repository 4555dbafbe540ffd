// How many file descriptors the process may have, and how many of them are for devices.
#ifndef GRADSTREAM_SERVER_BASE_DESCRIPTORS_H_
#define GRADSTREAM_SERVER_BASE_DESCRIPTORS_H_

#include <cstdint>

namespace gradstream {

// Descriptors that are opened later and are no connection's. Reason: two listening sockets and the HTTP thread's loop
// (5), a connection between its accept and its place (1), an exported file and its folder (2), what SQLite opens for a
// checkpoint (2), random numbers and a credential file (2).
inline constexpr uint32_t kDescriptorReserve = 12;
// Of each thread with sessions: its loop (3), and its connection to the database (3).
inline constexpr uint32_t kThreadDescriptors = 6;
// At a small limit, connections of the HTTP port get this share of what is left, and at least one.
inline constexpr uint32_t kHttpShare = 4;

struct DescriptorNeeds {
  uint32_t io_threads = 1;
  uint32_t http_connections = 0;
};

// Descriptors for connections of devices, those that wait included: what `limit` leaves beside the `open` ones and the
// needs. At least 2.
uint32_t device_descriptors(uint64_t limit, uint64_t open, const DescriptorNeeds& needs);

// Of this process. open_descriptors() takes a system without /proc for one that has 32 of them open.
uint64_t open_descriptors();
uint64_t descriptor_limit();
// Raises the soft limit to the hard one where it is below `wanted`; the limit then.
uint64_t raise_descriptor_limit(uint64_t wanted);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_DESCRIPTORS_H_
