// gradstream-client: the client as a Linux process. Its command line and files are ordinary C++; from client_main() on
// it is the code of the boards.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "boards/posix/mapped_file.h"
#include "boards/posix/notify.h"
#include "boards/posix/posix.h"
#include "firmware/any_problem_posix.h"
#include "firmware/claim_posix.h"
#include "firmware/client_main.h"
#include "firmware/credentials_posix.h"
#include "firmware/data_posix.h"
#include "firmware/fail_posix.h"
#include "firmware/float_shard.h"
#include "firmware/key_change_posix.h"
#include "firmware/label_fault_posix.h"
#include "firmware/name_posix.h"
#include "firmware/network_posix.h"
#include "firmware/privacy_posix.h"
#include "firmware/record_posix.h"
#include "firmware/score_posix.h"
#include "firmware/shard.h"
#include "firmware/shard_fault_posix.h"
#include "host/end_signals.h"
#include "host/file_cause.h"
#include "host/standard_files.h"
#include "host/table.h"
#include "include/gradstream/problem.h"
#include "runtime/link/port.h"
#include "runtime/link/tls.h"
#include "runtime/wire/server_address.h"

namespace {

namespace fs = std::filesystem;

struct ClaimArguments {
  std::string file;
  std::string name;
  bool takes_unproven = false;
};

struct Arguments {
  std::string server;
  std::string identity;
  ClaimArguments claim;
  std::string data;
  std::string label;
  std::string delimiter = "auto";
  std::string decimal = "auto";
  std::string state = "none";
  std::string record;
  std::string score;
  std::string certificate;
  std::string key;
  std::string server_ca;
  std::string server_name;
  std::string key_exchange = "psk_dhe_ke";
  std::string problem = "kpca";
  std::string network;
  std::string log_time = "auto";
  std::string power = "mains";
  float ridge = 0;
  float quantile = 0;
  std::vector<uint16_t> widths;
  uint32_t skipped_row_count = 0;
  uint32_t run = 0;
  uint32_t retry_ms = 1000;
  uint32_t step_delay_ms = 0;
  uint32_t arena_kib = 4096;
  gradstream::PrivacyOptions privacy;
  bool once = false;
  bool until_finished = false;
};

constexpr char kFooter[] =
    "exit status: 0 the run is over (--until-finished) or one upload was answered (--once); 2 wrong command line\n"
    "or state folder; 3 no identity or a bad one; 4 no data, or data that do not fit the run's problem; 5 no random\n"
    "numbers, or what answered a claim is not its server; 6 too little memory; 7 the session failed (--once); 8 this\n"
    "process flushes subnormal numbers to zero, or its build fuses products; 9 there is no task, since the run is\n"
    "over or this image cannot do it (--once), or no model (--score); 10 a file or folder cannot be used now, but may\n"
    "be later: a disk is read-only, full, failing or not mounted yet. Without these options it runs until SIGTERM or\n"
    "SIGINT, which end it with 0; work under way is taken up again from --state.";

using gradstream::fail;
using gradstream::fail_path;

// 0, or the exit status of an address that can never work. A name that does not resolve yet may do so later.
int split_server(const std::string& text, std::string* host, std::string* port) {
  gradstream::ServerAddress address;
  const gradstream::AddressFault fault = gradstream::parse_server_address(text, &address);
  if (fault.text != nullptr) {
    return fail(gradstream::kExitUsage,
                "--server wants HOST:PORT, not '" + text + "': '" + std::string(fault.part) + "' " + fault.text);
  }
  *host = address.host;
  *port = address.port;
  return gradstream::kExitOk;
}

// 0, or the exit status.
int open_data(const Arguments& arguments, gradstream::PosixData* data) {
  gradstream::TableOptions options;
  options.label = arguments.label;
  if (!gradstream::parse_delimiter(arguments.delimiter, &options.delimiter)) {
    return fail(gradstream::kExitUsage, "--delimiter '" + arguments.delimiter +
                                            "': expected auto, comma, semicolon, tab or blank, or the character");
  }
  options.skipped_row_count = arguments.skipped_row_count;
  if (!gradstream::parse_decimal(arguments.decimal, &options.decimal)) {
    return fail(gradstream::kExitUsage, "--decimal '" + arguments.decimal + "': expected auto, point or comma");
  }
  gradstream::DataFault fault = gradstream::open_data(arguments.data, options, data);
  if (fault.cause != 0) {
    return fail_path(gradstream::kExitData, fault.cause, arguments.data, "read the data",
                     "name a shard (*.gsd) or a table (CSV, .npy)");
  }
  for (const std::string& line : data->lines) {
    gradstream::port_log_line(line.c_str());
  }
  return fault.text.empty() ? int{gradstream::kExitOk} : fail(gradstream::kExitData, arguments.data + fault.text);
}

void feed_watchdog() {
  gradstream::check_guarded_file();
  gradstream::posix_notify_alive();
}

CLI::Option* define_certificate(CLI::App& app, Arguments* arguments) {
  auto* const certificate = app.add_option("--certificate", arguments->certificate,
                                           "of the device CA, in place of --identity; its CN names the device");
  auto* const key = app.add_option("--key", arguments->key, "of the certificate")->needs(certificate);
  auto* const authority = app.add_option("--server-ca", arguments->server_ca,
                                         "CA that has signed the server's certificate, with --certificate")
                              ->needs(certificate);
  app.add_option("--server-name", arguments->server_name,
                 "that the server's certificate is for, where it is not the HOST of --server")
      ->needs(certificate);
  certificate->needs(key)->needs(authority);
  return certificate;
}

CLI::Option* define_claim(CLI::App& app, Arguments* arguments) {
  auto* const claim =
      app.add_option("--claim", arguments->claim.file,
                     "file that `gradstream claim add` wrote: where --identity is not there, get one by it");
  auto* const name = app.add_option("--name", arguments->claim.name,
                                    "that the device is to have, with --claim; {hostname} and "
                                    "{machine-id} stand for this machine's");
  claim->needs(name);
  name->needs(claim);
  app.add_flag(
         "--claim-unproven", arguments->claim.takes_unproven,
         "with --claim: take the file of an older release too, which names no server; its holders may read the key")
      ->needs(claim);
  return claim;
}

void define(CLI::App& app, Arguments* arguments) {
  app.description("A gradstream device: trains on its own data, sends gradient streams to a server over TLS.");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("gradstream-client ") + GS_VERSION);
  auto* const server = app.add_option("--server", arguments->server, "HOST:PORT of the server");
  auto* const identity =
      app.add_option("--identity", arguments->identity, "file that `gradstream device add` wrote; or --certificate");
  define_certificate(app, arguments)->excludes(identity);
  auto* const claim = define_claim(app, arguments);
  claim->needs(identity);
  app.add_option("--data", arguments->data, "samples: a shard (*.gsd), or a table (CSV, .npy); docs/data.md has both");
  app.add_option("--label", arguments->label, "of a table: the label's column, by its name or its number from 1")
      ->check([](const std::string& word) { return std::string(word.empty() ? "its value is empty; name one" : ""); });
  app.add_option("--delimiter", arguments->delimiter, "of a table: auto, comma, semicolon, tab or blank")
      ->capture_default_str();
  app.add_option("--decimal", arguments->decimal, "the decimal sign of a table in text: auto, point or comma")
      ->check(CLI::IsMember({"auto", "point", "comma"}))
      ->capture_default_str();
  app.add_option("--skip-rows", arguments->skipped_row_count, "lines of a text that are left out before the table")
      ->capture_default_str();
  app.add_option("--state", arguments->state, "folder for what survives a restart, or none")->capture_default_str();
  app.add_option("--record", arguments->record, "file that gets a line for each judged update, with its values");
  app.add_option("--key-exchange", arguments->key_exchange, "psk_dhe_ke (forward secrecy) or psk_ke (cheaper)")
      ->check(CLI::IsMember({"psk_dhe_ke", "psk_ke"}))
      ->capture_default_str();
  app.add_option("--problem", arguments->problem, "what this client can minimise; any: what its samples fit")
      ->check(CLI::IsMember({"any", "kpca", "brockett", "spd_mean", "multitask", "hyperbolic", "least_squares",
                             "completion", "logistic", "perceptron", "lenet", gradstream::kNetworkOps.name}))
      ->capture_default_str();
  app.add_option("--network", arguments->network, "network that is trained (*.gsn; docs/network.md), problem network");
  app.add_option("--ridge", arguments->ridge, "lambda of multitask")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--widths", arguments->widths, "of perceptron: inputs, hidden layers, classes; of lenet: classes")
      ->delimiter(',');
  app.add_option("--run", arguments->run, "number of the run; 0: whichever this device is enrolled in")
      ->capture_default_str();
  app.add_option("--retry-ms", arguments->retry_ms, "wait after a failed session; doubles with each further one")
      ->check(CLI::Range(1, 3600000))
      ->capture_default_str();
  app.add_option("--step-delay-ms", arguments->step_delay_ms, "added to every local step, to mimic a slower device")
      ->capture_default_str();
  app.add_option("--arena-kib", arguments->arena_kib, "memory for model and training")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--power", arguments->power, "mains: the server may keep a request until there is a task; or battery")
      ->check(CLI::IsMember({"mains", "battery"}))
      ->capture_default_str();
  app.add_option("--log-time", arguments->log_time, "time in UTC before each log line; auto: unless journald notes it")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  gradstream::define_privacy(app, &arguments->privacy);
  auto* const score = app.add_option("--score", arguments->score,
                                     "score the samples of this shard or table by the model in --state, and end");
  app.add_option("--threshold", arguments->quantile,
                 "with --score: mark scores above this quantile of the scores of --data, above 0 and at most 1")
      ->needs(score)
      ->check(CLI::Range(0.0F, 1.0F));
  score->excludes(server)->excludes(claim);
  app.add_flag("--once", arguments->once, "end after one upload was answered, or as soon as none will be");
  app.add_flag("--until-finished", arguments->until_finished, "end when the run is finished or stopped");
}

// The problem of a network is "network". 0, or the exit status.
int settle_problem(const CLI::App& app, Arguments* arguments) {
  const std::string name = gradstream::kNetworkOps.name;
  const bool is_named = app.count("--problem") > 0;
  if (arguments->network.empty()) {
    return arguments->problem != name ? int{gradstream::kExitOk}
                                      : fail(gradstream::kExitUsage, "--problem network wants --network FILE (*.gsn)");
  }
  if (is_named && arguments->problem != name) {
    return fail(gradstream::kExitUsage,
                "--network belongs to --problem network, not to " + arguments->problem + "; leave one of the two out");
  }
  arguments->problem = name;
  return gradstream::kExitOk;
}

// 0, or the exit status.
int claim_if_needed(const Arguments& arguments) {
  if (arguments.claim.file.empty()) {
    return gradstream::kExitOk;
  }
  gradstream::ClaimRun run;
  if (const std::string problem = gradstream::expand_name(arguments.claim.name, &run.name); !problem.empty()) {
    return fail(gradstream::kExitUsage, "--name " + arguments.claim.name + ": " + problem);
  }
  run.claim_path = arguments.claim.file;
  run.identity_path = arguments.identity;
  run.key_exchange =
      arguments.key_exchange == "psk_ke" ? gradstream::TlsKeyExchange::kPsk : gradstream::TlsKeyExchange::kPskEphemeral;
  run.retry_ms = arguments.retry_ms;
  run.once = arguments.once;
  run.takes_unproven = arguments.claim.takes_unproven;
  run.feed_watchdog = feed_watchdog;
  return gradstream::claim_identity(run);
}

// Makes the folder if it is missing. 0, or errno.
int find_state_fault(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    return error ? error.value() : ENOTDIR;
  }
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

std::string state_path(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / (name + ".state")).string();
}

// 0, or the exit status. The state of each identity has a file of its own.
int open_state(const std::string& folder, const std::string& name, bool is_read_only) {
  if (folder == "none") {
    return is_read_only ? fail(gradstream::kExitUsage, "--score wants --state FOLDER, where the device keeps its model")
                        : gradstream::kExitOk;
  }
  if (name.find('/') != std::string::npos) {
    return fail(gradstream::kExitUsage, "cannot keep state of the name " + name + ": it has a slash; --state none");
  }
  std::error_code ignored;
  if (fs::is_symlink(fs::symlink_status(folder, ignored)) && !fs::exists(folder, ignored)) {
    return fail(gradstream::kExitTemporary, "cannot keep state in " + folder +
                                                ": the folder that it links to is not there; mount its file system, or "
                                                "make the folder");
  }
  if (const int cause = is_read_only ? 0 : find_state_fault(folder); cause != 0) {
    return fail_path(gradstream::kExitUsage, cause, folder, "keep state in",
                     "name a folder that can be written, give it the right owner, or --state none");
  }
  const std::string path = state_path(folder, name);
  if (gradstream::posix_set_state_file(path.c_str()) != gradstream::Status::kOk) {
    return fail(gradstream::kExitUsage, "the path of the state folder is too long");
  }
  // A state that cannot be read now would be dropped, and the work in it lost.
  const int cause = gradstream::find_path_fault(path.c_str(), false);
  if (is_read_only && cause == ENOENT) {
    return fail(gradstream::kExitNoTask,
                path + " is not there; let the device take part in a run with --state " + folder + " first");
  }
  return gradstream::is_temporary(cause) || (is_read_only && cause != 0)
             ? fail_path(gradstream::kExitUsage, cause, path, "read the state", "start again, or --state none")
             : gradstream::kExitOk;
}

// A shard as samples, and the problem that reads them. The options point into it.
struct FloatData {
  gradstream::FloatShard shard;
  gradstream::Shard byte_shard;  // of a network, in place of the float shard
  gs_sample_source samples = {};
  std::vector<uint32_t> task_ends;
  gradstream::MultitaskData tasks;
  gradstream::NetworkData network;
  gradstream::PosixData network_file;
  gradstream::PosixNetwork gsn;  // points into it
  gs_linked_problem problem;
  gradstream::AnyProblem any;
  std::string fault;  // of the samples, whatever the run; empty: none
};

int read_sample(const void* shard, uint32_t index, float* out) {
  gradstream::read_float_shard(*static_cast<const gradstream::FloatShard*>(shard), index, out);
  return 0;
}

gradstream::Status read_row(const void* shard, uint32_t index, gradstream::Real* out) {
  return read_sample(shard, index, out) == 0 ? gradstream::Status::kOk : gradstream::Status::kNotFinite;
}

gradstream::Status read_byte_row(const void* shard, uint32_t index, gradstream::Real* out) {
  gradstream::read_shard(*static_cast<const gradstream::Shard*>(shard), index, out);
  return gradstream::Status::kOk;
}

// 0, or the exit status.
int open_float_data(const Arguments& arguments, FloatData* out) {
  const bool wants_groups = arguments.problem == "multitask";
  if (wants_groups != (out->shard.group_count > 0)) {
    return fail(gradstream::kExitData,
                arguments.data + (wants_groups ? ": multitask wants a shard with groups, one for each task"
                                               : ": only multitask takes a shard with groups"));
  }
  out->samples = {&out->shard, out->shard.count, out->shard.dimension, read_sample};
  for (uint32_t i = 0; i < out->shard.group_count; ++i) {
    out->task_ends.push_back(gradstream::float_shard_group_end(out->shard, i));
  }
  out->tasks = {{&out->shard, out->shard.count, out->shard.dimension, read_row},
                out->task_ends.data(),
                out->shard.group_count,
                arguments.ridge};
  out->network = {{&out->shard, out->shard.count, out->shard.dimension, read_row},
                  arguments.widths.data(),
                  static_cast<uint32_t>(arguments.widths.size())};
  return gradstream::kExitOk;
}

gradstream::SampleSource source_of(bool is_float, const FloatData& data) {
  const gradstream::Shard& bytes = data.byte_shard;
  return is_float ? gradstream::SampleSource{&data.shard, data.shard.count, data.shard.dimension, read_row}
                  : gradstream::SampleSource{&bytes, bytes.count, bytes.dimension, read_byte_row};
}

// The problem of the command line, null for kpca.
const gs_linked_problem* find_linked(const std::string& name, bool is_float, FloatData* data) {
  if (name == "any") {
    return gradstream::link_any(source_of(is_float, *data), &data->any);
  }
  if (name == gradstream::kNetworkOps.name) {
    return &data->gsn.problem;
  }
  for (const gs_linked_problem* problem :
       {&gs_brockett, &gs_spd_mean, &gs_hyperbolic, &gs_least_squares, &gs_completion, &gs_logistic}) {
    if (name == problem->problem.ops->name) {
      return problem;
    }
  }
  for (const gradstream::Problem& problem : {gradstream::Problem{&gradstream::kMultitaskOps, &data->tasks},
                                             gradstream::Problem{&gradstream::kPerceptronOps, &data->network},
                                             gradstream::Problem{&gradstream::kLenetOps, &data->network}}) {
    if (name == problem.ops->name) {
      data->problem.problem = problem;
      return &data->problem;
    }
  }
  return nullptr;
}

// 0, or the exit status. The widths fit the problem, and its samples them.
int check_widths(const Arguments& arguments, const FloatData& data) {
  const bool is_perceptron = arguments.problem == "perceptron";
  if (!is_perceptron && arguments.problem != "lenet") {
    return arguments.widths.empty() ? gradstream::kExitOk
                                    : fail(gradstream::kExitUsage, "--widths belongs to perceptron and lenet");
  }
  const auto count = static_cast<uint32_t>(arguments.widths.size());
  const uint32_t size = is_perceptron ? gradstream::perceptron_size(arguments.widths.data(), count)
                        : count == 1  ? gradstream::lenet_size(arguments.widths[0])
                                      : 0;
  if (size == 0) {
    return fail(gradstream::kExitUsage, is_perceptron ? "--widths: name 2 to 8 layers, e.g. 64,32,10, the last of 2 or "
                                                        "more classes"
                                                      : "--widths: name the number of classes, 2 or more");
  }
  const uint32_t inputs = is_perceptron ? arguments.widths[0] : 28 * 28;
  if (data.samples.dimension != inputs + 1) {
    return fail(gradstream::kExitData, arguments.data +
                                           ": wanted a shard of floats, or of bytes with labels, whose samples are " +
                                           std::to_string(inputs) + " inputs and the label");
  }
  return gradstream::kExitOk;
}

// 0, or the exit status.
int open_network(const Arguments& arguments, FloatData* data) {
  if (arguments.network.empty()) {
    return gradstream::kExitOk;
  }
  if (const int cause = gradstream::open_bytes(arguments.network, &data->network_file); cause != 0) {
    return fail_path(gradstream::kExitData, cause, arguments.network, "read the network",
                     "name a network (*.gsn) with --network");
  }
  const std::string fault = gradstream::open_network(data->network_file.bytes(), &data->gsn);
  return fault.empty() ? int{gradstream::kExitOk} : fail(gradstream::kExitData, arguments.network + ": " + fault);
}

// Joins network and samples. 0, or the exit status.
int bind_network(const Arguments& arguments, bool is_float, FloatData* data) {
  if (const std::string fault = gradstream::bind_network(source_of(is_float, *data), &data->gsn); !fault.empty()) {
    return fail(gradstream::kExitData, arguments.data + ": " + fault);
  }
  // The arena first: where it is large enough, so is the memory for a look at the samples.
  const std::string fault = gradstream::bind_arena(size_t{arguments.arena_kib} * 1024, &data->gsn);
  if (!fault.empty()) {
    return fail(gradstream::kExitMemory, arguments.network + ": " + fault);
  }
  data->fault = gradstream::find_target_fault(data->gsn);
  data->gsn.samples.on_features_given_up = [] {
    gradstream::port_log_line(
        "event=features_not_kept reason=\"the arena has no room for them, so each evaluation "
        "computes them anew; a larger --arena-kib keeps them\"");
  };
  return gradstream::kExitOk;
}

// Puts shard and problem into the options. 0, or the exit status.
int take_data(const Arguments& arguments, std::span<const uint8_t> bytes, FloatData* data,
              gradstream::ClientMainOptions* options) {
  if (const int code = open_network(arguments, data); code != gradstream::kExitOk) {
    return code;
  }
  const bool is_float = gradstream::is_float_shard(bytes);
  const gradstream::Status status =
      is_float ? gradstream::parse_float_shard(bytes, &data->shard) : gradstream::parse_shard(bytes, &data->byte_shard);
  if (status != gradstream::Status::kOk) {
    return fail(gradstream::kExitData, arguments.data + " " + gradstream::find_shard_fault(bytes));
  }
  if (is_float) {
    if (const int code = open_float_data(arguments, data); code != gradstream::kExitOk) {
      return code;
    }
    options->samples = &data->samples;
  } else if (arguments.problem == "multitask") {
    return fail(gradstream::kExitData,
                arguments.data + ": multitask wants a float shard with groups, one for each task");
  } else {
    options->shard = bytes;
  }
  options->problem = find_linked(arguments.problem, is_float, data);
  const bool is_network = !arguments.network.empty();
  const int code = is_network ? bind_network(arguments, is_float, data) : check_widths(arguments, *data);
  if (code == gradstream::kExitOk && is_float && !is_network) {
    const gradstream::SampleSource rows = {&data->shard, data->shard.count, data->shard.dimension, read_row};
    data->fault = options->problem == nullptr ? "" : gradstream::find_label_fault(options->problem->problem, rows);
  }
  options->data_fault = data->fault.empty() ? nullptr : data->fault.c_str();
  return code;
}

bool is_end_wanted() { return gradstream::end_signal() != 0; }

// What was asked of the parser, such as --help, or what it has found wrong. The exit status.
int end_parse(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream asked_for;
  if (app.exit(error, asked_for, std::cerr) != 0) {
    return gradstream::kExitUsage;
  }
  gradstream::print_output(asked_for.str());
  const int cause = gradstream::flush_output();
  return cause == 0 ? gradstream::kExitOk
                    : fail(gradstream::is_temporary(cause) ? gradstream::kExitTemporary : gradstream::kExitUsage,
                           std::string("standard output cannot be written: ") + gradstream::cause_text(cause) + "; " +
                               gradstream::remedy_text(cause, "give it a file, or a program that reads to the end"));
}

// How this client takes part.
void take_terms(const Arguments& arguments, gradstream::ClientMainOptions* options) {
  options->power = arguments.power == "battery" ? GS_POWER_BATTERY : GS_POWER_MAINS;
  options->run = arguments.run;
  options->retry_ms = arguments.retry_ms;
  options->step_delay_ms = arguments.step_delay_ms;
  options->refuses_sums = arguments.privacy.no_sums;
  options->privacy = gradstream::privacy_of(arguments.privacy);
  options->until_finished = arguments.until_finished;
  options->once = arguments.once;
}

// What both uses of a device have in common: its name, and the memory that it starts with.
struct Device {
  std::string name;
  std::vector<char> identity;
  gradstream::Certificate certificate;
  std::vector<uint8_t> arena;
  std::vector<uint8_t> restore_buffer;
};

// Puts them into the options. 0, or the exit status.
int open_device(const Arguments& arguments, const std::string& host, Device* device,
                gradstream::ClientMainOptions* options) {
  const bool by_certificate = !arguments.certificate.empty();
  const gradstream::CertificateFiles files = {arguments.server_ca, arguments.certificate, arguments.key,
                                              arguments.server_name};
  if (const int code = by_certificate ? gradstream::load_certificate(files, host, &device->certificate,
                                                                     &device->identity, &device->name)
                                      : gradstream::load_identity(arguments.identity, &device->identity, &device->name);
      code != 0) {
    return code;
  }
  device->arena.resize(size_t{arguments.arena_kib} * 1024);
  device->restore_buffer.resize(arguments.state == "none" ? 0 : device->arena.size());
  options->identity_text = device->identity;
  options->arena = device->arena;
  options->arena_remedy = "give more with --arena-kib";
  options->has_storage = arguments.state != "none";
  options->restore_buffer = device->restore_buffer;
  options->key_exchange = arguments.key_exchange == "psk_ke" ? GS_PSK_KE : GS_PSK_DHE_KE;
  options->credentials = by_certificate ? &device->certificate.credentials : nullptr;
  options->server_name = device->certificate.server_name.c_str();
  return gradstream::kExitOk;
}

int read_byte_sample(const void* shard, uint32_t index, float* out) {
  gradstream::read_shard(*static_cast<const gradstream::Shard*>(shard), index, out);
  return 0;
}

// The samples of the file that `arguments` names as data. 0, or the exit status.
int take_samples(const Arguments& arguments, gradstream::PosixData* file, FloatData* data,
                 gradstream::ClientMainOptions* options, gs_sample_source* out) {
  if (const int code = open_data(arguments, file); code != 0) {
    return code;
  }
  if (const int code = take_data(arguments, file->bytes(), data, options); code != 0) {
    return code;
  }
  const gradstream::Shard& bytes = data->byte_shard;
  *out = options->samples != nullptr ? *options->samples
                                     : gs_sample_source{&bytes, bytes.count, bytes.dimension, read_byte_sample};
  return data->fault.empty() ? int{gradstream::kExitOk}
                             : fail(gradstream::kExitData, arguments.data + ": " + data->fault);
}

// --score. The exit status.
int run_score(const Arguments& arguments, bool has_threshold) {
  if (has_threshold && arguments.data.empty()) {
    return fail(gradstream::kExitUsage, "--threshold wants --data, the device's own samples");
  }
  if (has_threshold && arguments.quantile <= 0) {
    return fail(gradstream::kExitUsage, "--threshold wants a quantile above 0, such as 0.99");
  }
  Device device;
  gradstream::ClientMainOptions options;
  if (const int code = open_device(arguments, "", &device, &options); code != 0) {
    return code;
  }
  if (const int code = open_state(arguments.state, device.name, true); code != 0) {
    return code;
  }
  Arguments of_table = arguments;
  of_table.data = arguments.score;
  gradstream::PosixData table_file, own_file;
  FloatData table, own;
  gradstream::ScoreRun run;
  run.table_name = arguments.score;
  run.state_name = state_path(arguments.state, device.name);
  run.problem = arguments.problem.c_str();
  run.has_threshold = has_threshold;
  run.quantile = arguments.quantile;
  if (has_threshold) {
    if (const int code = take_samples(arguments, &own_file, &own, &options, &run.own); code != 0) {
      return code;
    }
  }
  if (const int code = take_samples(of_table, &table_file, &table, &options, &run.table); code != 0) {
    return code;
  }
  run.own_name = arguments.data;
  run.own_columns = own_file.names;
  run.table_columns = table_file.names;
  options.threshold_quantile = arguments.quantile;
  return gradstream::score_table(options, run);
}

int run_client(int argc, char** argv) {
  Arguments arguments;
  CLI::App app;
  define(app, &arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_parse(app, error);
  }
  if (const int code = settle_problem(app, &arguments); code != 0) {
    return code;
  }
  gradstream::posix_set_log_time(arguments.log_time == "on" ||
                                 (arguments.log_time == "auto" && !gradstream::posix_is_journald()));
  if (arguments.identity.empty() && arguments.certificate.empty()) {
    return fail(gradstream::kExitUsage, "--identity is required, or --certificate with --key and --server-ca");
  }
  if (!arguments.score.empty()) {
    return run_score(arguments, app.count("--threshold") > 0);
  }
  if (arguments.server.empty() || arguments.data.empty()) {
    return fail(gradstream::kExitUsage, arguments.server.empty() ? "--server is required: HOST:PORT of the server"
                                                                 : "--data is required: the samples of this device");
  }
  std::string host, port;
  if (const int code = split_server(arguments.server, &host, &port); code != 0) {
    return code;
  }
  gradstream::posix_set_server(host.c_str(), port.c_str());

  gradstream::PosixData data;
  if (const int code = claim_if_needed(arguments); code != 0 || is_end_wanted()) {
    return code;
  }
  Device device;
  gradstream::ClientMainOptions options;
  if (const int code = open_device(arguments, host, &device, &options); code != 0) {
    return code;
  }
  gradstream::IdentityKeeper keys;
  if (const int code = keep_identity(arguments.identity, &keys, &options); code != 0) {
    return code;
  }
  gradstream::UpdateRecord record;
  FloatData float_data;
  int code = open_data(arguments, &data);
  code = code == 0 ? open_state(arguments.state, device.name, false) : code;
  code = code == 0 ? gradstream::open_record(arguments.record, &record, &options) : code;
  code = code == 0 ? take_data(arguments, data.bytes(), &float_data, &options) : code;
  if (code != 0) {
    return code;
  }
  const std::string board = gradstream::board_name();
  options.board = board.c_str();
  options.shard_name = arguments.data.c_str();
  take_terms(arguments, &options);
  options.exits_on_bad_data = true;
  options.feed_watchdog = feed_watchdog;
  options.is_end_wanted = is_end_wanted;
  return gradstream::client_main(options);
}

// The longest wait for a turn of the main loop: a look-up of a name and a local step take longer. What they would have
// made is done again after the next start. A second is what the one who stops the process is promised.
constexpr uint32_t kEndGraceMs = 500;

}  // namespace

int main(int argc, char** argv) {
  gradstream::open_standard_files();
  gradstream::SignalPlan plan;
  plan.grace_ms = kEndGraceMs;
  plan.last_line = "event=ended reason=\"a signal, in a step or a wait that takes long\"\n";
  if (!gradstream::catch_signals(plan)) {
    return fail(gradstream::kExitTemporary, std::string("cannot catch signals: ") + gradstream::cause_text(errno) +
                                                "; " + gradstream::remedy_text(errno, "start again"));
  }
  const int code = run_client(argc, argv);
  if (!is_end_wanted()) {
    return code;
  }
  gradstream::port_log_line((std::string("event=ended signal=") + gradstream::end_signal_name()).c_str());
  return gradstream::kExitOk;
}
