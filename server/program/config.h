// The configuration: TOML, sections [server], [server.limits] and [run]. A section [demo] belongs to the demo tool and
// is not read here. Any other section or key is an error that names it, its line and the nearest known one.
//
//   the file -> FOLDER OF THE FILE/conf.d/*.toml, by name -> GRADSTREAM_SECTION_KEY -> --set section.key=value
//
// each over what stands before it. A variable's name is the key in capitals, its points as underscores:
// GRADSTREAM_SERVER_LIMITS_STORE_DELAY_MS=5. GRADSTREAM_CONFIG names the file and is no key. A file has at most
// kTomlSizeMax bytes; whatever they are, the answer is a configuration or errors (server/program/toml_document.h).
//
// The keys of [engine] are those of visit_engine_fields(): the verbs of gradstream-engine read them.
//
// [run] holds the fields of RunParameters under the keys of visit_fields(); update_goal = "all" means 0. The keys of
// [server] and [server.limits] are those of visit_server_fields() and visit_limits() below.
#ifndef GRADSTREAM_SERVER_PROGRAM_CONFIG_H_
#define GRADSTREAM_SERVER_PROGRAM_CONFIG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/log.h"
#include "server/base/objection.h"
#include "server/base/rate_limit.h"
#include "server/coordinator/held_pulls.h"
#include "server/journal/checkpoint.h"
#include "server/link/credentials.h"
#include "server/link/listener.h"
#include "server/program/config_source.h"
#include "server/run/run_parameters.h"
#include "server/store/store_thread.h"
#include "server/watch/http.h"

namespace gradstream {

// What happens to a device that proves a certificate of the device CA and that nobody has enrolled. "off": it is turned
// away. "pending": it is enrolled, and turned away until somebody enables it. "active": it is enrolled and let in.
inline constexpr const char* kRegistrations[] = {"off", "pending", "active"};

// Of server.head_period_s: a day. Reason: a head that is rarer shows no theft in time.
inline constexpr uint32_t kHeadPeriodMaxS = 86400;

struct ServerConfig {
  std::string listen = "127.0.0.1:7433";  // address:port; port 0: any free one, named in the log
  std::string database = "gradstream.db";
  std::string export_dir;   // empty: no files; else runN_vNNNNNN.npy for each version
  std::string first_model;  // a CSV file, one line a row: a new run begins at this point, not one drawn
  std::string log_level = "info";
  // History that stays behind the newest checkpoint (server/journal/checkpoint.h). Reason for the default: some hundred
  // megabytes where models are small, and weeks of a small fleet.
  std::string journal_keep = "100000 updates";
  std::string head_key;  // PEM: what signs heads of the journal (server/program/head_log.h); empty: none are written
  // Between two heads. Reason: what a thief of the disk could take back unseen is a minute, at half a megabyte a day.
  uint32_t head_period_s = 60;
  std::string http_listen;              // empty: none; else ADDRESS:PORT for people and monitors (server/watch/http.h)
  std::string http_token_file;          // what a request must prove; needed beyond loopback
  std::vector<std::string> http_hosts;  // without a token: what a Host may be beside the loopback's
  std::vector<std::string> balancers;   // addresses and networks that name a connection's peer by a PROXY header
  TlsPolicy tls;
  CredentialPaths credentials;                  // beside pre-shared keys, certificates of this CA; empty: none
  std::string device_registration = "pending";  // of unknown devices by certificate: kRegistrations
  // Threads for TLS and frames; 1: the coordinator's own. Reason for 1: one thread serves what a fleet of thousands
  // sends, and nothing is handed from thread to thread; more pay where handshakes are many (docs/reference/sizing.md).
  uint32_t io_threads = 1;
  ListenerLimits listener;
  StoreThreadLimits store;
  HttpLimits http;
  // Messages of one device. Reason: a training device sends a few messages a second, and some hundred in a test without
  // waits. 250 Pulls with their updates cost the server a twenty-fifth of a core (docs/reference/sizing.md).
  RateLimit device_messages = {500, 1000};
  // How long a Pull is held at most, by a device that lets it; never longer than half of session_idle_max_ms. 0: never.
  uint32_t pull_hold_ms = kServerHoldMs;
  // Of unknown devices by certificate. Reason: each waits for the disk; hundreds a second would hold up a round, and
  // a batch that is switched on together is in after minutes.
  RateLimit registrations = {10, 100};
  // Devices in the database from which on a certificate enrols no further one. Reason: a stolen CA key may not fill
  // disk and memory. Each takes some 750 bytes of the server's memory, and a million are more than a fleet of one
  // server has. How many are connected at once is connection_count_max's matter.
  uint32_t registration_device_count_max = 1'000'000;
  uint32_t drain_deadline_ms = 5000;  // from SIGTERM until sessions that do not leave are cut
};

// visit(key, field): strings, lists of strings, switches, and a time in seconds.
template <typename Config, typename Visit>
void visit_server_fields(Config& c, Visit&& visit) {
  visit("listen", c.listen);
  visit("database", c.database);
  visit("export_dir", c.export_dir);
  visit("first_model", c.first_model);
  visit("log_level", c.log_level);
  visit("journal_keep", c.journal_keep);
  visit("head_key", c.head_key);
  visit("head_period_s", c.head_period_s);
  visit("http_listen", c.http_listen);
  visit("http_token_file", c.http_token_file);
  visit("http_hosts", c.http_hosts);
  visit("balancers", c.balancers);
  visit("allow_psk_ke", c.tls.allow_psk_ke);
  visit("hide_identities", c.tls.hide_identities);
  visit("device_ca_file", c.credentials.authority);
  visit("certificate_file", c.credentials.certificate);
  visit("certificate_key_file", c.credentials.key);
  visit("device_registration", c.device_registration);
}

// visit(key, field, least, most): numbers. Times are in milliseconds, sizes in bytes.
template <typename Config, typename Visit>
void visit_limits(Config& c, Visit&& visit) {
  constexpr uint32_t kDayMs = 86400000;
  visit("io_threads", c.io_threads, 1U, 64U);
  visit("connection_count_max", c.listener.connection_count_max, 1U, 1U << 20);
  visit("handshake_count_max", c.listener.handshake_count_max, 1U, 1U << 16);
  visit("send_buffer_size", c.listener.send_buffer_size, 2048U, 1U << 26);
  visit("queue_size_max", c.listener.session.queue_size_max, 4096U, 1U << 30);
  visit("handshake_deadline_ms", c.listener.session.handshake_deadline_ms, 1U, kDayMs);
  visit("answer_deadline_ms", c.listener.session.answer_deadline_ms, 1U, kDayMs);
  visit("frame_deadline_ms", c.listener.session.frame_deadline_ms, 1U, kDayMs);
  visit("write_deadline_ms", c.listener.session.write_deadline_ms, 1U, kDayMs);
  visit("close_deadline_ms", c.listener.session.close_deadline_ms, 1U, kDayMs);
  visit("session_age_max_ms", c.listener.session_age_max_ms, 60000U, kSessionAgeMaxMs);
  visit("session_idle_max_ms", c.listener.session.session_idle_max_ms, 1U, kDayMs);
  visit("refusal_retry_min_ms", c.listener.session.refusal_retry_min_ms, 0U, kDayMs);
  visit("refusal_retry_max_ms", c.listener.session.refusal_retry_max_ms, 1U, kDayMs);
  visit("store_batch_max", c.store.batch_count_max, 1U, 1U << 16);
  visit("store_delay_ms", c.store.delay_ms, 0U, 1000U);
  visit("store_retry_ms", c.store.retry_ms, 1U, kDayMs);
  visit("drain_deadline_ms", c.drain_deadline_ms, 1U, kDayMs);
  visit("device_messages_per_s_max", c.device_messages.per_second, 0U, 1000000U);
  visit("device_message_burst_max", c.device_messages.burst, 1U, 1000000U);
  visit("pull_hold_ms", c.pull_hold_ms, 0U, kServerHoldMaxMs);
  visit("registrations_per_s_max", c.registrations.per_second, 0U, 1000000U);
  visit("registration_burst_max", c.registrations.burst, 1U, 1000000U);
  visit("registration_device_count_max", c.registration_device_count_max, 0U, 1U << 24);
  visit("http_connection_count_max", c.http.connection_count_max, 1U, 1U << 12);
  visit("http_request_size_max", c.http.request_size_max, 256U, 1U << 20);
  visit("http_request_deadline_ms", c.http.request_deadline_ms, 1U, kDayMs);
  visit("http_answer_deadline_ms", c.http.answer_deadline_ms, 1U, kDayMs);
}

// Where an operator's engine on PostgreSQL is, for `gradstream engine` and for `serve` as a node of it.
struct EngineConfig {
  std::string address;                 // as libpq takes it, without a password; empty: there is none
  std::string durability = "standby";  // kDurabilities
  std::string node;                    // of this node in the cluster; empty: the machine's name
  // Of a connection, and of each answer. Reason: as kEngineDeadlineMs of server/postgresql/engine_link.h.
  uint32_t deadline_ms = 10'000;
};
// "standby": the server has to show a synchronous one. "storage": what lies below the server is replicated, by the
// operator's word.
inline constexpr const char* kDurabilities[] = {"standby", "storage"};

// visit(key, field, least, most): texts, and a time in milliseconds with its bounds.
template <typename Config, typename Visit>
void visit_engine_fields(Config& c, Visit&& visit) {
  visit("address", c.address, 0U, 0U);
  visit("durability", c.durability, 0U, 0U);
  visit("node", c.node, 0U, 0U);
  visit("deadline_ms", c.deadline_ms, 1000U, 86400000U);
}

// Of engine.deadline_ms where a node serves, ms. Reason: a node that begins says nothing during one wait, and the
// service ends one that says nothing for WatchdogSec=60 (operations/debian/gradstream.service). Half of that.
inline constexpr uint32_t kNodeDeadlineMaxMs = 30'000;

// Of a node's name, bytes. Reason: as long as a machine's name is at most, on a line of the log.
inline constexpr size_t kNodeNameMax = 63;
// The name that this node has: engine.node, or that of the machine.
std::string node_name(const EngineConfig& engine);
// Objects to a name that is empty, too long or not of printable characters without a blank. What an import brings has a
// name with blanks.
Objection check_node_name(const std::string& name);

struct NetworkStart;  // server/program/network_file.h

struct Config {
  ServerConfig server;
  EngineConfig engine;
  RunParameters run;
  bool has_run = false;  // the file has a section [run]
  // `run` before settle_defaults(): what the keys alone say, and what an earlier release would have made of them.
  RunParameters unsettled_run;
  // What the file of run.network holds to begin at; null: no file was read. settle_network() sets it.
  std::shared_ptr<const NetworkStart> network_start;
  // Of variables GRADSTREAM_... that no section could have. Each is a sentence; they change nothing.
  std::vector<std::string> warnings;
  std::vector<std::string> ignored_files;  // the same of what stands in conf.d and is no *.toml
};

// What is read, in this order.
struct ConfigSources {
  std::string path;  // and conf.d/*.toml beside it
  // "NAME=value". Other names than GRADSTREAM_... are passed over, and so are those that a cluster makes for a service.
  std::vector<std::string> environment;
  std::vector<std::string> overrides;  // "section.key=value", the value in TOML or a bare word; nothing: an empty text
};
// Where the value of each "section.key" comes from: "FILE:LINE", a variable's name, "--set", or "default for ..." where
// it follows from other keys (server/run/settle.h). A key that is not there has its default.
using ConfigOrigins = std::map<std::string, std::string>;

// An objection has one line for each error: `FILE:LINE: ...`, `GRADSTREAM_...: ...` or `--set ...: ...`. *out is
// complete only when there is none. [run] is settled by settle_defaults(), and checked by check_parameters(). origins
// may be null.
Objection load_config(const ConfigSources& sources, Config* out, ConfigOrigins* origins = nullptr);
Objection load_config(const std::string& path, const std::vector<std::string>& overrides, Config* out);
// The same of a text that no file holds; sources.path is only its name in errors, and no conf.d is read.
Objection load_config_text(const std::string& text, const ConfigSources& sources, Config* out);

// Every key as "section.key", in the order of config_text().
std::vector<std::string> config_keys();
// The value of one of them, as config_text() shows it.
std::string value_text(const Config& config, const std::string& key);

// The path from the root, for lines that are read in another folder than the one that a relative path counts from.
std::string absolute_path(const std::string& path);

// The whole configuration as TOML that load_config() reads back to the same.
std::string config_text(const Config& config);
// The same with `# origin` behind each value.
std::string config_text(const Config& config, const ConfigOrigins& origins);
// Its section [run], what a database keeps of a run; and back (an error line, or empty), checked as load_config() does.
std::string run_source(const RunParameters& run);
Objection parse_run_source(const std::string& source, RunParameters* out);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_CONFIG_H_
