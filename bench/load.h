// The load of gradstream-load: all the peers in one thread, and the patterns in which they come to the server.
#ifndef GRADSTREAM_BENCH_LOAD_H_
#define GRADSTREAM_BENCH_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <netinet/in.h>

#include "bench/lineage.h"
#include "bench/load_peer.h"
#include "runtime/link/certificate.h"
#include "runtime/wire/identity.h"

namespace gradstream {

// As the command line of gradstream-load names them.
struct LoadArguments {
  uint16_t port = 0;                 // of 127.0.0.1, where no server is named
  std::vector<std::string> servers;  // HOST:PORT, an IPv4 address; each dial of a device takes the next one
  std::string identities;
  uint32_t devices = 0;
  uint32_t seed = 1;
  bool is_mqtt = false;
  bool is_nats = false;
  bool is_storm = false;
  std::string exchange = "psk_dhe_ke";
  std::string certificates;
  std::string record;  // a new file of bench/lineage.h; empty: none
};

class Load {
 public:
  explicit Load(const LoadArguments& arguments);

  // False: the reason is on standard error.
  // One line NAME,KEY for each device, the key in hexadecimal digits, as `device add --csv` takes them.
  bool read_identities();
  // As `gradstream-handshakes --certificates` writes them: one for each device, in the order of the identities.
  bool read_certificates();
  bool open_record();
  bool read_servers();
  // Says `event=connected`. False: not all devices are connected.
  bool connect();

  // Each of the six does what the line of its name asks for (load_main.cc), and prints its result.
  // Prints when the last one was back, by the clock of the machine: who kills the server knows when it listened again.
  void run_return(double seconds);
  void run_days(double seconds, double share);
  void run_until_told(double share);
  void run_drain(double seconds);
  void run_closed(double seconds, size_t count);
  void run_open(double seconds, double rate);

 private:
  static double quantile(std::vector<double>& values, double q);
  // The first of the idle ones begins an exchange.
  void start(std::deque<LoadPeer*>& idle);
  // Waits at most so long for events, and hands them to their peers.
  void turn(double seconds);
  // feed(idle, number of exchanges under way) begins exchanges.
  template <typename Feed>
  void run(double seconds, const Feed& feed);
  // As run_days(), until is_over(seconds since the beginning).
  template <typename IsOver>
  void live(double share, const IsOver& is_over);
  void print_load(double seconds);
  void dial(LoadPeer& peer);

  const LoadArguments arguments_;
  const int poll_;
  std::vector<sockaddr_in> addresses_;
  size_t next_address_ = 0;
  LineageFile record_;
  std::vector<Identity> identities_;
  std::vector<std::unique_ptr<Credentials>> credentials_;
  LoadStatistics statistics_;
  std::vector<std::unique_ptr<LoadPeer>> peers_;
  std::vector<LoadPeer*> busy_;
  LoadRandom random_;
  uint64_t behind_ = 0;  // exchanges that were due while all devices were in one
};

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_LOAD_H_
