// The program `gradstream`: the aggregation server and the tools around its database.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "host/log_file.h"
#include "host/output_end.h"
#include "host/standard_files.h"
#include "runtime/base/arithmetic.h"
#include "runtime/base/fusing.h"
#include "runtime/base/status.h"
#include "runtime/wire/server_address.h"
#include "server/base/private_file.h"
#include "server/link/credentials.h"
#include "server/program/commands.h"
#include "server/program/common_options.h"
#include "server/program/device_verbs.h"
#include "server/program/doctor.h"
#include "server/program/engine_verbs.h"
#include "server/program/fleet_home.h"
#include "server/program/network_memory.h"
#include "server/program/run_wish_verbs.h"
#include "server/run/names.h"

namespace gradstream {

// A broken contract of our own: say where and end, before anything wrong becomes durable.
void assert_failed(const char* file, int line) {
  char text[512];
  (void)std::snprintf(text, sizeof text, "gradstream: internal error at %s:%d; please report it with the log\n", file,
                      line);
  write_last_line(text);
  std::_Exit(kExitInternal);
}

namespace {

// Where a verb is missing: what stands in its place, and what may. Empty: nothing does, and CLI11's sentence says it.
std::string unknown_verb(const CLI::App& app) {
  const CLI::App* at = &app;
  std::string path = "gradstream";
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    path += " " + at->get_name();
  }
  const std::vector<std::string> words = at->remaining();
  std::vector<std::string> known;
  for (const CLI::App* verb : at->get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(verb->get_name());
  }
  if (words.empty() || known.empty()) {
    return {};
  }
  if (words.front().starts_with('-')) {
    return path + ": unknown option " + words.front() + "; " + path + " --help lists them";
  }
  std::string list;
  for (const std::string& verb : known) {
    list += (list.empty() ? "" : ", ") + verb;
  }
  const std::string nearest = slip_of(words.front(), known);
  return path + ": unknown verb " + words.front() + "; " +
         (nearest.empty() ? "known: " + list : "the nearest known one is " + nearest + ", of " + list);
}

std::string footer() {
  std::string text = "exit codes:";
  for (int code = 0; code <= kExitCodeMax; ++code) {
    text += "\n  " + std::to_string(code) + "  " + exit_code_text(code);
  }
  return text;
}

struct Arguments {
  CommonOptions common;
  DoctorOptions doctor;
  std::string target;
  bool is_alive_asked = false;
  bool replace = false;
  std::string check_config;
  bool may_create = false;
  std::string print_config;
  std::string name;
  std::string out;
  uint32_t run = 0;
  ExportOptions model;
  bool check = false;
  std::string key;
  VerifyOptions verify;
  uint32_t batch_size = 32;
  uint32_t sample_count = kShownSampleCount;
  DataOptions data;
  SuggestOptions suggest;
  DeviceArguments device;
  EngineArguments engine;
  RunWishArguments wish;
};

void add_format(CLI::App* verb, Arguments* arguments) { add_format_option(verb, &arguments->common); }

// has_format: not of a verb whose --format is that of a file.
void add_common(CLI::App* verb, Arguments* arguments, bool has_format = true) {
  add_config_options(verb, &arguments->common);
  if (has_format) {
    add_format(verb, arguments);
  }
}

void add_run_number(CLI::App* verb, Arguments* arguments) {
  verb->add_option("--run", arguments->run, "its number; without it the active run, or the latest")
      ->check(CLI::PositiveNumber);
}

// words: of the whole command line, behind the program's name.
void add_serve(CLI::App& app, Arguments* arguments, char** words, int* code) {
  auto* const verb = app.add_subcommand(
      "serve",
      "serve the active run, or the latest; with none in the database, begin one from the configuration's [run]");
  add_common(verb, arguments, false);  // its log has one form, its configuration is TOML
  auto* const check = verb->add_option("--check-config", arguments->check_config,
                                       "print the effective configuration (of FILE, or of --config) and exit");
  auto* const print = verb->add_option("--print-config", arguments->print_config,
                                       "the same unjudged, with the origin of each value behind it");
  check->expected(0, 1);
  print->expected(0, 1)->excludes(check);
  verb->add_flag("--create", arguments->may_create,
                 "make the database, if there is none; with --check-config, one need not be there")
      ->excludes(print);
  verb->callback([arguments, check, print, words, code] {
    for (const std::string& file : {arguments->check_config, arguments->print_config}) {
      if (!file.empty()) {
        arguments->common.config = file;
      }
    }
    const bool with_origins = print->count() > 0;
    *code = check->count() > 0 || with_origins
                ? check_config(arguments->common, arguments->may_create, with_origins)
                : serve(arguments->common, arguments->may_create, [words] { return become_engine_program(words); });
  });
}

void add_copies(CLI::App& app, Arguments* arguments, int* code) {
  auto* const save = app.add_subcommand("backup", "copy the database, also while a server writes to it");
  add_common(save, arguments);
  save->add_option("file", arguments->out, "the new file (mode 0600: it holds keys)")->required();
  save->callback([arguments, code] { *code = backup(arguments->common, arguments->out); });
  auto* const load = app.add_subcommand("restore", "make a copy the database again, while no server runs");
  add_common(load, arguments);
  load->add_option("file", arguments->target, "the copy; it stays as it is")->required();
  load->add_flag("--replace", arguments->replace, "move a database that is there aside");
  load->callback([arguments, code] { *code = restore(arguments->common, arguments->target, arguments->replace); });
}

int doctor(Arguments* arguments) {
  DoctorOptions& options = arguments->doctor;
  ServerAddress address;
  const AddressFault fault = parse_server_address(arguments->target, &address);
  if (fault.text != nullptr) {
    return fail(kExitUsage, "doctor " + arguments->target + ": expected HOST:PORT or [ADDRESS]:PORT: '" +
                                std::string(fault.part) + "' " + fault.text);
  }
  options.host = address.host;
  options.port = address.port;
  const Diagnosis diagnosis = diagnose(options);
  if (!options.identity_file.empty() && is_read_by_others(options.identity_file)) {
    warn("others may read the key in " + options.identity_file + ": chmod 600");
  }
  OutputLine line;
  line.add("target", arguments->target)
      .add("cause", diagnosis.cause)
      .add("step", diagnosis.step)
      .add("address", diagnosis.address)
      .add("detail", diagnosis.detail)
      .add("remedy", diagnosis.remedy)
      .print(arguments->common);
  return diagnosis.is_well() ? kExitOk : diagnosis.cause.ends_with("_file") ? kExitFile : kExitNetwork;
}

void add_doctor(CLI::App& app, Arguments* arguments, int* code) {
  auto* const verb = app.add_subcommand("doctor", "say why a device cannot connect, from where it is run");
  verb->add_option("target", arguments->target, "HOST:PORT of the server")->required();
  auto* const identity =
      verb->add_option("--identity", arguments->doctor.identity_file, "the device's file; without it an unknown one");
  CredentialPaths& files = arguments->doctor.certificate;
  auto* const certificate =
      verb->add_option("--certificate", files.certificate, "the device's, in place of --identity");
  auto* const key = verb->add_option("--key", files.key, "of the certificate");
  auto* const authority = verb->add_option("--server-ca", files.authority, "that has signed the server's certificate");
  certificate->needs(key)->needs(authority)->excludes(identity);
  key->needs(certificate);
  authority->needs(certificate);
  verb->add_option("--server-name", arguments->doctor.server_name, "that the server's certificate is for, if not HOST")
      ->needs(certificate);
  verb->add_flag("--psk-ke", arguments->doctor.is_psk_ke, "offer the key exchange without forward secrecy");
  verb->add_option("--deadline-ms", arguments->doctor.deadline_ms, "of the connection, and again of the handshake, ms")
      ->check(CLI::Range(1, 600000))
      ->capture_default_str();
  add_format(verb, arguments);
  verb->callback([arguments, code] { *code = doctor(arguments); });
}

// Of an option: a variable of a shell that is not set is not meant.
std::string find_empty(const std::string& word) { return word.empty() ? "its value is empty; name one" : ""; }

// Of an option: NaN would count as an option that is not given.
std::string find_infinite(const std::string& word) {
  const double value = std::strtod(word.c_str(), nullptr);
  return std::isfinite(value) ? "" : word + " is no finite number; give one";
}

// How tables are read. files: the name of their option or argument.
void add_tables(CLI::App* verb, Arguments* arguments, const char* files, const char* what) {
  DataOptions& data = arguments->data;
  verb->add_option(files, data.files, what)->required();
  verb->add_option("--label", data.label,
                   "the label's column, by its name or its number from 1; it becomes the last value")
      ->check(find_empty);
  verb->add_option("--delimiter", data.delimiter, "auto, comma, semicolon, tab or blank")->capture_default_str();
  verb->add_option("--header", data.header, "whether the first row names the columns: auto, yes or no")
      ->check(CLI::IsMember({"auto", "yes", "no"}))
      ->capture_default_str();
  verb->add_option("--decimal", data.decimal, "the decimal sign of tables in text: auto, point or comma")
      ->check(CLI::IsMember({"auto", "point", "comma"}))
      ->capture_default_str();
  verb->add_option("--skip-rows", data.skipped_row_count, "lines of a text that are left out before the table")
      ->capture_default_str();
}

void add_suggest(CLI::App* run, Arguments* arguments, int* code) {
  auto* const verb = run->add_subcommand("suggest", "print a [run] for a table, with the least loss that it can reach");
  add_tables(verb, arguments, "--data", "a table with a sample a row (CSV or .npy); repeatable");
  SuggestOptions& suggest = arguments->suggest;
  verb->add_option("--problem", suggest.problem, "kpca, least_squares or logistic")->required();
  verb->add_option("--cols", suggest.cols, "the model's columns: components or targets; of logistic by the classes");
  verb->add_option("--devices", suggest.device_count, "devices that version 0 waits for")->required();
  verb->callback([arguments, code] { *code = run_suggest(arguments->data, arguments->suggest); });
}

// Verbs of `run` by which somebody proves a journal.
void add_audit(CLI::App* run, Arguments* arguments, int* code) {
  auto* const head = run->add_subcommand("head", "print the head of a run's journal, to be kept elsewhere");
  add_common(head, arguments, false);
  add_run_number(head, arguments);
  head->add_option("--key", arguments->key, "that signs it; without it server.head_key, or no signature")
      ->check(find_empty);
  head->callback([arguments, code] { *code = run_head(arguments->common, arguments->run, arguments->key); });
  auto* const key = run->add_subcommand("head-key", "make a key that signs heads, and its public half FILE.pub");
  key->add_option("file", arguments->out, "the key to write (mode 0600)")->required();
  key->callback([arguments, code] { *code = make_key_of_heads(arguments->out); });
  auto* const verify = run->add_subcommand("verify", "prove that a journal holds all that signed heads say");
  add_common(verify, arguments);
  add_run_number(verify, arguments);
  verify->add_option("--head", arguments->verify.heads, "a file of heads, a line each, such as heads.log")->required();
  verify->add_option("--public", arguments->verify.public_key, "the key that has signed them, its public half")
      ->required();
  auto* const forget = run->add_subcommand("forget", "take what a device has sent out of the journals, for good");
  add_common(forget, arguments);
  forget->add_option("--run", arguments->run, "its number; without it all runs")->check(CLI::PositiveNumber);
  forget->add_option("--device", arguments->name, "its name")->required();
  forget->callback([arguments, code] { *code = run_forget(arguments->common, arguments->run, arguments->name); });
  verify->callback([arguments, code] { *code = run_verify(arguments->common, arguments->run, arguments->verify); });
}

// words: as add_device() has them.
void add_run(CLI::App& app, Arguments* arguments, char** words, int* code) {
  auto* const run = app.add_subcommand("run", "begin, pause, resume, stop, list and prove runs, and say their keys");
  run->require_subcommand(1);
  auto* const start = run->add_subcommand("start", "begin a new run with the configuration's [run], frozen from then");
  add_common(start, arguments);
  start->add_flag("--force", arguments->data.force, "also where no device has said that it can do the run's problem");
  start->callback([arguments, code] { *code = run_start(arguments->common, arguments->data.force); });
  auto* const keys = run->add_subcommand("keys", "every key of [run]: its default, what it takes and what it does");
  keys->add_flag("--markdown", arguments->check, "as the tables of docs/reference/keys.md");
  add_format(keys, arguments);
  keys->callback([arguments, code] { *code = run_keys(arguments->common, arguments->check); });
  add_suggest(run, arguments, code);
  add_audit(run, arguments, code);
  auto* const list = run->add_subcommand("list", "one line a run");
  add_common(list, arguments);
  list->callback([arguments, code] { *code = run_list(arguments->common); });
  arguments->wish.common = arguments->common;
  const auto follow = [words](const CommonOptions& options, uint32_t number, RunWish wish) {
    return follow_run_wish(options, number, wish, [words] { return become_engine_program(words); });
  };
  add_run_wish_verbs(run, follow, &arguments->wish, code);
  auto* const lineage =
      run->add_subcommand("export", "write which updates made a model (JSON), and the model beside it; or check both");
  add_common(lineage, arguments, false);
  add_run_number(lineage, arguments);
  lineage->add_option("--version", arguments->model.version, "a number, or latest");
  lineage->add_option("--format", arguments->model.format, "of the model: npy, or csv")
      ->check(CLI::IsMember({"npy", "csv"}));
  lineage->add_option("--out", arguments->model.out, "the file *.json to write, or to check")->required();
  lineage->add_flag("--check", arguments->check, "compare the files with the database that they came from");
  lineage->callback(
      [arguments, code] { *code = run_export(arguments->common, arguments->run, arguments->model, arguments->check); });
}

void add_model(CLI::App& app, Arguments* arguments, int* code) {
  auto* const model = app.add_subcommand("model", "the trained model");
  model->require_subcommand(1);
  auto* const verb = model->add_subcommand("export", "rebuild a version from the journal and write it to a file");
  add_common(verb, arguments, false);
  add_run_number(verb, arguments);
  verb->add_option("--version", arguments->model.version, "a number, or latest");
  verb->add_flag("--average", arguments->model.wants_average,
                 "the average of the versions up to it, of a run with average_period");
  verb->add_option("--format", arguments->model.format,
                   "npy, csv, or npz with what samples need besides; without it by the file's ending, else npy")
      ->check(CLI::IsMember({"npy", "csv", "npz"}));
  verb->add_option("--out", arguments->model.out, "the file to write")->required();
  verb->callback([arguments, code] { *code = model_export(arguments->common, arguments->run, arguments->model); });
  auto* const state = app.add_subcommand("status", "a run and what each device did in it, from the database");
  add_common(state, arguments);
  add_run_number(state, arguments);
  state->add_flag("--alive", arguments->is_alive_asked, "only whether the server lives, as its HTTP port says")
      ->excludes("--run");
  state->callback([arguments, code] {
    *code = arguments->is_alive_asked ? status_alive(arguments->common) : status(arguments->common, arguments->run);
  });
  auto* const past = app.add_subcommand("history", "a run's versions, their losses and their quality, as CSV");
  add_common(past, arguments, false);
  add_run_number(past, arguments);
  past->callback([arguments, code] { *code = history(arguments->common, arguments->run); });
}

void add_network(CLI::App& app, Arguments* arguments, int* code) {
  auto* const network = app.add_subcommand("network", "networks that users bring (*.gsn)");
  network->require_subcommand(1);
  auto* const show = network->add_subcommand("show", "layers, memory on a device, digest, and the keys of a run");
  show->add_option("file", arguments->target, "the network (*.gsn)")->required();
  show->add_option("--batch", arguments->batch_size, "samples of a batch, for the memory that it takes")
      ->check(CLI::Range(1U, kBatchSizeMax))
      ->capture_default_str();
  show->add_option("--samples", arguments->sample_count, "samples of a device, for the memory that it takes")
      ->check(CLI::Range(1U, kSampleCountMax))
      ->capture_default_str();
  add_format(show, arguments);
  show->callback([arguments, code] {
    *code = network_show(arguments->common, arguments->target, arguments->batch_size, arguments->sample_count);
  });
}

void add_data(CLI::App& app, Arguments* arguments, int* code) {
  auto* const verbs =
      app.add_subcommand("data", "tables (CSV, .npy) that become shards of devices, and what they hold");
  verbs->require_subcommand(1);
  DataOptions& data = arguments->data;
  auto* const pack = verbs->add_subcommand("pack", "write each table as a shard NAME.gsd; all or none");
  add_tables(pack, arguments, "files", "tables with a sample a row (CSV or .npy)");
  add_format(pack, arguments);
  pack->add_option("--out-folder", data.out_folder, "where the shards are written; it is made if it is missing")
      ->check(find_empty)
      ->required();
  pack->add_flag("--map-labels", data.map_labels, "number the classes, also where the labels are numbers");
  pack->add_option("--classes", data.class_count, "the number of classes; without it as the labels say")
      ->check(CLI::Range(2U, 256U));
  pack->add_flag("--bytes", data.is_bytes, "a byte a value: a quarter of the size, and what kpca on a board reads");
  pack->add_option("--scale", data.scale, "of bytes with labels: a value is byte * scale + offset")
      ->check(find_infinite);
  pack->add_option("--offset", data.offset, "of bytes with labels")->check(find_infinite);
  pack->add_option("--error", data.error_max, "how far a byte may be from its value")->check(find_infinite);
  pack->add_flag("--force", data.force, "replace shards that are there");
  pack->callback([arguments, code] { *code = data_pack(arguments->common, arguments->data); });
  auto* const show =
      verbs->add_subcommand("show", "samples, columns, classes and largest eigenvalues of tables or shards");
  add_tables(show, arguments, "files", "tables (CSV or .npy) or shards (*.gsd)");
  add_format(show, arguments);
  show->callback([arguments, code] { *code = data_show(arguments->common, arguments->data); });
}

void add_explain(CLI::App& app, Arguments* arguments, int* code) {
  auto* const verb = app.add_subcommand("explain", "what an event of the log or a refusal means, and what to do");
  auto* const name = verb->add_option("name", arguments->name, "of the event or refusal; without it all of them");
  verb->add_flag("--markdown", arguments->check, "as the tables of docs/reference/events.md")->excludes(name);
  add_format(verb, arguments);
  verb->callback([arguments, code] { *code = explain(arguments->common, arguments->name, arguments->check); });
}

// words: of the command line, behind the program's name.
void add_device(CLI::App& app, Arguments* arguments, char** words, int* code) {
  arguments->device.common = arguments->common;
  const auto run = [words](const CommonOptions& options, const std::function<int(FleetHome&)>& verb) {
    DatabaseFleet fleet(options, [words] { return become_engine_program(words); });
    return verb(fleet);
  };
  add_device_verbs(&app, run, &arguments->device, code);
}

// words: of the command line, behind `engine`.
void add_engine(CLI::App& app, Arguments* arguments, char** words, int* code) {
  auto* const engine = app.add_subcommand("engine", "the PostgreSQL database of a cluster: make it, look at it");
  engine->require_subcommand(1);
  arguments->engine.common = arguments->common;
  const auto become = [words](const EngineArguments&) { return become_engine_program(words); };
  add_engine_verbs(engine, {become, become, become, become, become, become}, &arguments->engine, code);
}

// Whether the command line asks for a server, and not for a look at its configuration: known without the parser, which
// takes milliseconds.
bool is_to_serve(int argc, char** argv) {
  const auto asks_for_a_text = [](const char* word) {
    const std::string_view text(word);
    return text.starts_with("--check-config") || text.starts_with("--print-config") || text == "--help" || text == "-h";
  };
  return argc > 1 && std::string_view(argv[1]) == "serve" && std::none_of(argv + 2, argv + argc, asks_for_a_text);
}

// What was asked of the parser, such as --help, or what it has found wrong.
int end_parse(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream asked_for;
  std::ostringstream wrong;
  if (app.exit(error, asked_for, wrong) == 0) {
    print_output(asked_for.str());
    return kExitOk;
  }
  std::string sentence = wrong.str();
  sentence.erase(sentence.find_last_not_of('\n') + 1);
  return fail(kExitUsage, sentence);
}

int run_program(int argc, char** argv) {
  if (!keeps_subnormals()) {
    return fail(kExitArithmetic,
                "this process flushes subnormal numbers to zero, so its model would drift from the devices'; find what "
                "sets that mode: a library linked with -ffast-math, often one named in LD_PRELOAD");
  }
  if (fuses_products()) {
    return fail(kExitArithmetic,
                "this build fuses multiplications with additions, so its model would drift from the devices'; compile "
                "it with -ffp-contract=off");
  }
  CLI::App app("gradstream: federated learning that fits on microcontrollers");
  app.footer(footer());
  Arguments arguments;
  if (::access(kInstalledConfig, R_OK) == 0) {
    arguments.common.config = kInstalledConfig;
  }
  int code = kExitOk;
  app.set_version_flag("--version", std::string("gradstream ") + GS_VERSION);
  app.require_subcommand(1);
  add_serve(app, &arguments, argv + std::min(argc, 1), &code);
  add_device(app, &arguments, argv + std::min(argc, 1), &code);
  add_copies(app, &arguments, &code);
  add_doctor(app, &arguments, &code);
  add_explain(app, &arguments, &code);
  add_run(app, &arguments, argv + std::min(argc, 1), &code);
  add_model(app, &arguments, &code);
  add_network(app, &arguments, &code);
  add_data(app, &arguments, &code);
  add_engine(app, &arguments, argv + std::min(argc, 2), &code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    const std::string problem = unknown_verb(app);
    return problem.empty() ? end_parse(app, error) : fail(kExitUsage, problem);
  } catch (const CLI::ExtrasError& error) {
    // Behind the program's name stands a verb, so that an option there is one that the verb would take.
    return argc > 1 && argv[1][0] == '-'
               ? fail(kExitUsage, std::string("gradstream: ") + argv[1] +
                                      " stands before the verb; options stand behind it, as in gradstream serve " +
                                      argv[1])
               : end_parse(app, error);
  } catch (const CLI::ParseError& error) {
    return end_parse(app, error);
  }
  return code;
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) {
  gradstream::open_standard_files();
  if (gradstream::is_to_serve(argc, argv)) {
    if (const int code = gradstream::catch_signals_to_serve(); code != 0) {
      return code;
    }
  }
  return gradstream::finish_output("gradstream", gradstream::run_program(argc, argv));
}
