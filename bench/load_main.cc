// gradstream-load: thousands of devices in one thread, for ./run bench server and ./run soak fleet. Each has a TLS
// session of its own and the device's own code for it. What it answers to a task follows from its index and the task's
// version alone: what is measured is the server.
//
//   gradstream-load --port N --identities FILE --devices N [--mqtt | --nats] [--exchange certificate --certificates
//   FOLDER] [--server HOST:PORT]... [--record FILE]
//
// It connects all devices, says `event=connected ...`, and then does what the lines of its input say, one after the
// other; each ends with a line `event=load ...`, the third with `event=returned ...`:
//   closed SECONDS COUNT   COUNT devices are always in an exchange, whose turn it is in order
//   open SECONDS RATE      RATE exchanges a second begin, at random times (Poisson)
//   return SECONDS         says `event=waiting`, and waits at most so long until every device has lost its session once
//                          and is back, dialling as runtime/link/client.cc does
//   days SECONDS SHARE     every device pulls and answers as the server's windows say; after an Ack it leaves with
//                          probability SHARE, to dial again when its window is over. At the end all leave.
//   until_told SHARE       the same until there is a further line of the input
//   drain SECONDS          no exchange begins; every update without an Ack is sent again until it has one. Says
//                          `event=drained`, with how many have none after so long; all have left then
//   quit
// An exchange is Pull, Task, update, Ack; its latency is that from the update to the Ack. With --mqtt the peer is an
// MQTT 3.1.1 broker and an exchange a PUBLISH of the same size with QoS 1 and its PUBACK. With --nats the peer is NATS
// JetStream with a stream for the subjects u.>, and an exchange a PUB of the same size and the stream's answer.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>
#include <sys/resource.h>

#include "bench/load.h"
#include "runtime/link/tls.h"

namespace gradstream {

void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "load: error: contract broken at %s:%d\n", file, line);
  std::abort();
}

namespace {

int run_program(int argc, char** argv) {
  LoadArguments arguments;
  CLI::App app("gradstream-load: devices for ./run bench server");
  app.add_option("--port", arguments.port, "of 127.0.0.1");
  app.add_option("--server", arguments.servers, "HOST:PORT in place of --port; of several each dial takes the next");
  app.add_option("--record", arguments.record, "a new file, with a line for each Ack: bench/lineage.h");
  app.add_option("--identities", arguments.identities, "lines NAME,KEY");
  app.add_option("--devices", arguments.devices);
  app.add_option("--seed", arguments.seed, "of windows, and of what is drawn in days and open");
  app.add_option("--exchange", arguments.exchange)->check(CLI::IsMember({"psk_ke", "psk_dhe_ke", "certificate"}));
  app.add_option("--certificates", arguments.certificates, "folder, with --exchange certificate");
  app.add_flag("--storm", arguments.is_storm, "each device leaves as soon as it is welcome, and then this ends");
  CLI::Option* const mqtt = app.add_flag("--mqtt", arguments.is_mqtt, "the peer is an MQTT broker");
  app.add_flag("--nats", arguments.is_nats, "the peer is NATS JetStream, with TLS before its first line")
      ->excludes(mqtt);
  CLI11_PARSE(app, argc, argv);
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (tls_start(nullptr, 0) != Status::kOk) {
    std::fprintf(stderr, "load: error: no randomness for TLS\n");
    return 1;
  }
  Load load(arguments);
  if (!load.read_servers() || !load.open_record() || !load.read_identities() || !load.read_certificates() ||
      !load.connect()) {
    return 1;
  }
  std::string line;
  while (!arguments.is_storm && std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string verb;
    double seconds = 0;
    double number = 0;
    words >> verb >> seconds;
    if (verb == "quit") {
      return 0;
    }
    if ((verb == "return" || verb == "drain") && words && seconds > 0) {
      verb == "return" ? load.run_return(seconds) : load.run_drain(seconds);
      continue;
    }
    if (verb == "until_told" && words) {
      load.run_until_told(seconds);
      continue;
    }
    words >> number;
    if (!words || seconds <= 0 || number < 0 || (verb != "closed" && verb != "open" && verb != "days")) {
      std::fprintf(stderr,
                   "load: error: expected `closed SECONDS COUNT`, `open SECONDS RATE`, `days SECONDS SHARE`, "
                   "`until_told SHARE`, `drain SECONDS`, `return SECONDS` or `quit`\n");
      return 2;
    }
    verb == "closed" ? load.run_closed(seconds, static_cast<size_t>(number))
    : verb == "open" ? load.run_open(seconds, number)
                     : load.run_days(seconds, number);
  }
  return 0;
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) { return gradstream::run_program(argc, argv); }
