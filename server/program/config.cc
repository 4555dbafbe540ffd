#include "server/program/config.h"

#include <algorithm>
#include <cctype>
#include <climits>
#include <filesystem>
#include <iterator>
#include <type_traits>

#include <unistd.h>

#include "server/base/address_ranges.h"
#include "server/base/listen_address.h"
#include "server/program/config_source.h"
#include "server/program/config_value.h"
#include "server/program/toml_document.h"
#include "server/run/check_parameters.h"
#include "server/run/field_text.h"
#include "server/run/names.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "server/run/settle.h"
#include "server/run/visit_keys.h"

namespace gradstream {

namespace {

// Of a run's key, which may have a word for 0.
template <typename Field>
std::string text_of(const Key& key, const Field& value) {
  return is_zero_word(key, value) ? toml_text(std::string(key.zero_word)) : toml_text(value);
}

// ---- Errors --------------------------------------------------------------------------------------------------------

// A key of an earlier release, and what takes its place; other keys are nearer to it by spelling.
struct FormerKey {
  std::string_view name;
  const char* remedy;
};
constexpr FormerKey kFormerKeys[] = {
    {"run.use_correction", "correction_form has taken its place: \"local\" for true, \"none\" for false"},
};

// Where nothing is near: who wrote it looks at what there is.
constexpr std::string_view kListOfKeys = "gradstream serve --print-config lists all sections and keys";

// Where a name that stands in the wrong section belongs; empty when no section has it.
std::string owner_of(std::string_view section, std::string_view name) {
  const std::string word(name);
  if (name == "server" || name == "engine" || name == "run" || name == "demo") {
    return word + " is a section of its own: [" + word + "]";
  }
  if (name == "limits") {
    return word + " belongs to [server]: [server.limits]";
  }
  for (const std::string& key : config_keys()) {
    const size_t dot = key.rfind('.');
    if (std::string_view(key).substr(dot + 1) == name && std::string_view(key).substr(0, dot) != section) {
      return word + " belongs to [" + key.substr(0, dot) + "]";
    }
  }
  return {};
}

std::string remedy_for(std::string_view section, std::string_view key, const std::vector<std::string>& known) {
  const std::string name = std::string(section) + "." + std::string(key);
  for (const FormerKey& former : kFormerKeys) {
    if (former.name == name) {
      return former.remedy;
    }
  }
  std::string owner = owner_of(section, key);
  if (!owner.empty()) {
    return owner;
  }
  if (const std::string nearest = slip_of(key, known); !nearest.empty()) {
    return "the nearest known one is " + nearest;
  }
  for (const std::string& other : config_keys()) {
    const size_t dot = other.rfind('.');
    if (const std::string nearest = slip_of(key, {other.substr(dot + 1)}); !nearest.empty()) {
      return "the nearest known one is " + nearest + ", which belongs to [" + other.substr(0, dot) + "]";
    }
  }
  return std::string(kListOfKeys);
}

// Lines of errors of one source. Reason: a file that is no configuration has thousands, and the first few tell it.
constexpr size_t kErrorCountMax = 20;

// What is being read, and what was wrong with it.
class Reader {
 public:
  // origin: what --print-config says of a value; where: the beginning of an error's line.
  Reader(std::string where, std::string origin, bool has_lines, ConfigOrigins* origins)
      : where_(std::move(where)), origin_(std::move(origin)), has_lines_(has_lines), origins_(origins) {}

  void error(const TomlNode* node, const std::string& what) {
    ++error_count_;
    if (is_full()) {
      return;
    }
    errors_ += where_;
    if (has_lines_ && node != nullptr) {
      errors_ += ":" + std::to_string(node->line);
    }
    errors_ += ": " + what + "\n";
  }
  std::string errors() const {
    return !is_full() ? errors_
                      : errors_ + where_ + ": and " + std::to_string(error_count_ - kErrorCountMax) + " more errors\n";
  }

  // One key of a section, if it is there.
  template <typename Field>
  void field(const TomlNode& table, const std::string& section, const char* key, Field& out, ValueRange range = {}) {
    known_.emplace_back(key);
    const TomlNode* const node = table.find(key);
    if (node == nullptr) {
      return;
    }
    if (const Objection objection = read_value(*node, &out, range)) {
      error(node, section + "." + key + ": expected " + objection.sentence);
    }
    note_origin(*node, section + "." + key);
  }
  void know(const char* key) { known_.emplace_back(key); }
  void note_origin(const TomlNode& node, const std::string& name) {
    if (origins_ != nullptr) {
      (*origins_)[name] = origin_ + (has_lines_ ? ":" + std::to_string(node.line) : "");
    }
  }
  // After all fields of a section: whatever else stands in it is unknown.
  void finish(const TomlNode& table, const std::string& section) {
    for (const auto& [key, node] : table.entries) {
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
        const std::string name = printable(key);
        if (section.empty() && !node.is_table()) {
          error(&node, name + " stands before any section; put [server] or [run] above it");
          continue;
        }
        std::string what = section.empty() ? "section [" : "key " + section + ".";
        what += section.empty() ? name + "]" : name;
        error(&node, "unknown " + what + "; " + (is_full() ? "" : remedy_for(section, key, known_)));
      }
    }
    known_.clear();
  }
  // The section as a table; null when it is missing or no table.
  const TomlNode* section(const TomlNode& root, const char* key, const std::string& name) {
    const TomlNode* const node = root.find(key);
    if (node == nullptr) {
      return nullptr;
    }
    if (!node->is_table()) {
      error(node, "[" + name + "] must be a section; write it once, as [" + name + "]");
      return nullptr;
    }
    return node;
  }

 private:
  bool is_full() const { return error_count_ > kErrorCountMax; }

  std::string where_;
  std::string origin_;
  bool has_lines_;
  ConfigOrigins* origins_;
  std::string errors_;
  size_t error_count_ = 0;
  std::vector<std::string> known_;
};

// Names and addresses in lists.
void check_names(const TomlNode& table, Reader& reader, const ServerConfig& config) {
  if (const TomlNode* const hosts = table.find("http_hosts")) {
    const auto wrong = std::find_if_not(config.http_hosts.begin(), config.http_hosts.end(), is_host_name);
    if (wrong != config.http_hosts.end()) {
      reader.error(hosts, "server.http_hosts: " + printable(*wrong) +
                              " is no name or address as a Host has it; write each without a port, such as "
                              "\"fleet.example.org\"");
    }
  }
  if (const TomlNode* const balancers = table.find("balancers")) {
    AddressRanges ranges;
    const auto wrong = std::find_if_not(config.balancers.begin(), config.balancers.end(),
                                        [&](const std::string& text) { return ranges.add(text); });
    if (wrong != config.balancers.end()) {
      reader.error(balancers, "server.balancers: " + printable(*wrong) +
                                  " is no address, and no network of at least one bit; write each such as "
                                  "\"10.0.0.7\" or \"10.0.0.0/24\"");
    }
  }
}

void read_server(const TomlNode& table, Reader& reader, ServerConfig* out) {
  visit_server_fields(*out, [&](const char* key, auto& value) { reader.field(table, "server", key, value); });
  reader.know("limits");
  reader.finish(table, "server");
  // Only what this table sets: what was wrong before is not the fault of an override of another key.
  LogLevel ignored_level;
  const TomlNode* const level = table.find("log_level");
  if (level != nullptr && !parse_log_level(out->log_level, &ignored_level)) {
    reader.error(level, "server.log_level: expected one of \"debug\", \"info\", \"warning\", \"error\"");
  }
  Tcp::endpoint ignored_endpoint;
  const TomlNode* const listen = table.find("listen");
  if (listen != nullptr && !parse_listen_address(out->listen, &ignored_endpoint)) {
    reader.error(listen,
                 "server.listen: expected ADDRESS:PORT with a numeric address and a port from 0 to 65535, such "
                 "as \"127.0.0.1:7433\" or \"[::]:7433\"");
  }
  const TomlNode* const http = table.find("http_listen");
  if (http != nullptr && !out->http_listen.empty() && !parse_listen_address(out->http_listen, &ignored_endpoint)) {
    reader.error(http, "server.http_listen: expected nothing, or ADDRESS:PORT such as \"127.0.0.1:7434\"");
  }
  check_names(table, reader, *out);
  if (const auto* const period = table.find("head_period_s");
      period != nullptr && (out->head_period_s < 1 || out->head_period_s > kHeadPeriodMaxS)) {
    reader.error(period, "server.head_period_s: expected a whole number from 1 to " + std::to_string(kHeadPeriodMaxS));
  }
  if (const auto* const database = table.find("database"); database != nullptr && out->database.empty()) {
    reader.error(database, "server.database: expected the path of a file");
  }
  if (const TomlNode* const limits = reader.section(table, "limits", "server.limits")) {
    visit_limits(*out, [&](const char* key, uint32_t& value, uint32_t least, uint32_t most) {
      reader.field(*limits, "server.limits", key, value, {least, most});
    });
    reader.finish(*limits, "server.limits");
  }
}

void read_engine(const TomlNode& table, Reader& reader, EngineConfig* out) {
  visit_engine_fields(*out, [&](const char* key, auto& value, uint32_t least, uint32_t most) {
    reader.field(table, "engine", key, value, {least, most});
  });
  reader.finish(table, "engine");
  const TomlNode* const durability = table.find("durability");
  if (durability != nullptr &&
      std::find(std::begin(kDurabilities), std::end(kDurabilities), out->durability) == std::end(kDurabilities)) {
    reader.error(durability, "engine.durability: expected one of \"standby\", \"storage\"");
  }
  if (const TomlNode* const node = table.find("node"); node != nullptr && !out->node.empty()) {
    if (const Objection objection = check_node_name(out->node)) {
      reader.error(node, "engine.node: " + objection.sentence);
    }
  }
}

// Texts, joined by commas.
void read_list(const TomlNode& list, const char* key, Reader& reader, std::string* out) {
  reader.know(key);
  reader.note_origin(list, std::string("run.") + key);
  out->clear();
  for (const TomlNode& node : list.items) {
    std::string text;
    if (const Objection objection = read_value(node, &text, {})) {
      reader.error(&node, std::string("run.") + key + ": expected a list, each " + objection.sentence);
      return;
    }
    *out += (out->empty() ? "" : ", ") + text;
  }
}

// A number that has a word for 0. The number 0 itself is none that it takes.
void read_number_or_word(const TomlNode& table, const Key& key, Reader& reader, float* out) {
  const TomlNode* const node = table.find(key.name);
  reader.know(key.name);
  if (node == nullptr) {
    return;
  }
  const std::string name = std::string("run.") + key.name;
  reader.note_origin(*node, name);
  if (node->kind == TomlKind::kText && node->text == key.zero_word) {
    *out = 0;
    return;
  }
  float number = 0;
  const bool is_number = !read_value(*node, &number, {});
  if (is_number && number != 0) {
    *out = number;
    return;
  }
  reader.error(node, name + ": expected a finite number" + (is_number ? " other than 0" : "") + ", or \"" +
                         key.zero_word + "\"");
}

void read_run(const TomlNode& table, Reader& reader, RunParameters* out) {
  visit_keys(*out, [&](const Key& described, auto& value) {
    const char* const key = described.name;
    if constexpr (std::is_same_v<decltype(value), float&>) {
      if (described.has_zero_word()) {
        read_number_or_word(table, described, reader, &value);
        return;
      }
    }
    if constexpr (std::is_same_v<decltype(value), uint32_t&>) {
      const TomlNode* const goal = table.find(key);
      if (&value == &out->trigger->update_goal && goal != nullptr && goal->kind == TomlKind::kText &&
          goal->text == "all") {
        value = 0;
        reader.know(key);
        reader.note_origin(*goal, "run.update_goal");
        return;
      }
    }
    if constexpr (std::is_same_v<decltype(value), std::string&>) {
      const TomlNode* const list = table.find(key);
      if (&value == &out->model->parts && list != nullptr && list->kind == TomlKind::kArray) {
        read_list(*list, key, reader, &value);
        return;
      }
    }
    reader.field(table, "run", key, value);
  });
  set_parts(out);
  reader.finish(table, "run");
}

void read_document(const TomlNode& root, Reader& reader, Config* out) {
  for (const char* const name : {"server", "engine", "run", "demo"}) {
    reader.know(name);
  }
  reader.finish(root, "");
  if (const TomlNode* const server = reader.section(root, "server", "server")) {
    read_server(*server, reader, &out->server);
  }
  if (const TomlNode* const engine = reader.section(root, "engine", "engine")) {
    read_engine(*engine, reader, &out->engine);
  }
  if (const TomlNode* const run = reader.section(root, "run", "run")) {
    out->has_run = true;
    read_run(*run, reader, &out->run);
  }
}

struct Source {
  std::string where;   // the beginning of an error's line
  std::string origin;  // what --print-config says
  bool has_lines = false;
};

Objection read_tree(const TomlNode& root, const Source& source, Config* out, ConfigOrigins* origins) {
  Reader reader(source.where, source.origin, source.has_lines, origins);
  read_document(root, reader, out);
  return reader.errors();
}

Objection read_text(const std::string& text, const Source& source, Config* out, ConfigOrigins* origins) {
  TomlNode root;
  uint32_t line = 0;
  const Objection error = parse_toml(text, &root, &line);
  if (error) {
    return source.where + (source.has_lines ? ":" + std::to_string(line) : "") + ": " + error.sentence + "\n";
  }
  return read_tree(root, source, out, origins);
}

// A value from outside the files: TOML, or else the text itself. The tree around it is made here, so that the text is a
// value and nothing else, whatever stands in it.
Objection read_value_text(const std::string& key, const std::string& value, const Source& source, Config* out,
                          ConfigOrigins* origins) {
  TomlNode node;
  uint32_t ignored_line = 0;
  const bool is_toml = !parse_toml("x = " + value, &node, &ignored_line) && node.entries.size() == 1;
  if (is_toml) {
    TomlNode inner = std::move(node.entries.front().value);
    node = std::move(inner);
  } else if (!is_utf8(value)) {
    return source.where + ": the value is no UTF-8\n";
  } else {
    node = TomlNode();
    node.kind = TomlKind::kText;
    node.text = value;
  }
  std::string_view rest = key;
  while (!rest.empty()) {  // from the last name outwards
    const size_t dot = rest.rfind('.');
    TomlNode table;
    table.entries.push_back({std::string(rest.substr(dot == std::string_view::npos ? 0 : dot + 1)), std::move(node)});
    node = std::move(table);
    rest = rest.substr(0, dot == std::string_view::npos ? 0 : dot);
  }
  return read_tree(node, source, out, origins);
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

// One `--set section.key=value`.
Objection read_override(const std::string& text, Config* out, ConfigOrigins* origins) {
  const std::string where = "--set " + printable(text);
  const size_t equals = text.find('=');
  const std::string key = trimmed(text.substr(0, equals));
  const auto parts = static_cast<size_t>(std::count(key.begin(), key.end(), '.')) + 1;
  const bool has_hole = key.empty() || key.front() == '.' || key.back() == '.' || key.find("..") != std::string::npos;
  if (equals == std::string::npos || has_hole || parts < 2 || parts > kTomlKeyPartsMax) {
    const std::string owner = parts == 1 ? owner_of("", key) : "";
    return where + ": expected SECTION.KEY=VALUE, such as run.step_size=0.1" + (owner.empty() ? "" : "; " + owner) +
           "\n";
  }
  return read_value_text(key, text.substr(equals + 1), {where, "--set", false}, out, origins);
}

constexpr std::string_view kVariablePrefix = "GRADSTREAM_";

std::string variable_of(const std::string& key) {
  std::string name(kVariablePrefix);
  for (const char c : key) {
    name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

// One variable "NAME=value"; *used: it is a key's, and its name.
Objection read_variable(const std::string& text, Config* out, ConfigOrigins* origins, std::string* used) {
  used->clear();
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  if (equals == std::string::npos || !name.starts_with(kVariablePrefix) || name == "GRADSTREAM_CONFIG") {
    return {};
  }
  const std::string value = text.substr(equals + 1);
  std::vector<std::string> variables;
  for (const std::string& key : config_keys()) {
    if (variables.emplace_back(variable_of(key)) == name) {
      *used = name;
      return read_value_text(key, value, {name, name, false}, out, origins);
    }
  }
  if (is_service_variable(name, value)) {
    return {};
  }
  variables.emplace_back("GRADSTREAM_CONFIG");
  const std::string nearest = slip_of(std::string_view(name).substr(0, kTomlNameSizeMax), variables);
  const std::string what = printable(name) + ": unknown variable; " +
                           (nearest.empty() ? std::string(kListOfKeys) : "the nearest known one is " + nearest);
  for (const char* const ours : {"GRADSTREAM_SERVER_", "GRADSTREAM_ENGINE_", "GRADSTREAM_RUN_", "GRADSTREAM_CONFIG"}) {
    if (name.starts_with(ours)) {
      return what + "\n";
    }
  }
  out->warnings.push_back(what);
  return {};
}

// An objection has lines. remedy: for a file that cannot be read.
Objection read_one(const std::string& path, const char* remedy, Config* out, ConfigOrigins* origins) {
  std::string text;
  const Objection problem = read_config_file(path, &text);
  if (problem) {
    return "configuration " + path + " cannot be read: " + problem.sentence + "; " + remedy + "\n";
  }
  return read_text(text, {path, path, true}, out, origins);
}

// What is wrong with values that are each in range.
Objection find_conflict(const Config& config) {
  if (config.has_run) {
    if (const Objection objection = check_parameters(config.run)) {
      return "[run] " + objection.sentence;
    }
  }
  Tcp::endpoint http;
  if (config.server.http_token_file.empty() && parse_listen_address(config.server.http_listen, &http) &&
      !is_loopback(http)) {
    return "server.http_listen " + config.server.http_listen +
           " can be reached from other machines: set "
           "server.http_token_file to a file with a token, or listen on 127.0.0.1";
  }
  Tcp::endpoint listen;
  if (parse_listen_address(config.server.listen, &listen) && parse_listen_address(config.server.http_listen, &http) &&
      do_collide(listen, http)) {
    return "server.http_listen " + config.server.http_listen + " leaves no room for server.listen " +
           config.server.listen + ": give one of them another port";
  }
  const CredentialPaths& files = config.server.credentials;
  if (files.authority.empty() != files.certificate.empty() || files.authority.empty() != files.key.empty()) {
    return "server.device_ca_file, server.certificate_file and server.certificate_key_file belong together: set all "
           "three, or none";
  }
  if (std::find(std::begin(kRegistrations), std::end(kRegistrations), config.server.device_registration) ==
      std::end(kRegistrations)) {
    return "server.device_registration: expected off, pending or active, not " +
           printable(config.server.device_registration);
  }
  JournalKeep ignored;
  if (!parse_journal_keep(config.server.journal_keep, &ignored)) {
    return "server.journal_keep: expected all, N updates or N versions, not " + printable(config.server.journal_keep);
  }
  const SessionLimits& session = config.server.listener.session;
  return session.refusal_retry_min_ms > session.refusal_retry_max_ms
             ? "server.limits.refusal_retry_min_ms must not be above refusal_retry_max_ms"
             : "";
}

// Gives values to the keys of [run] that no source sets and that follow from the others.
void settle_run(Config* config, ConfigOrigins* origins) {
  if (!config->has_run) {
    return;
  }
  constexpr std::string_view kSection = "run.";
  KeyNames given;
  for (const auto& [name, origin] : *origins) {
    if (name.starts_with(kSection)) {
      given.insert(name.substr(kSection.size()));
    }
  }
  config->unsettled_run = config->run;
  for (const SettledKey& key : settle_defaults(&config->run, given)) {
    (*origins)[std::string(kSection) + key.name] = "default for " + key.reason;
  }
}

// What the files alone conflict with.
Objection find_file_conflict(Config files, ConfigOrigins origins) {
  settle_run(&files, &origins);
  return find_conflict(files);
}

// After the files, named `files`, whose errors are `errors`: what stands over them, and what the whole conflicts with.
Objection load_others(const ConfigSources& sources, Objection errors, const std::string& files, Config* out,
                      ConfigOrigins* origins) {
  const bool was_good = !find_file_conflict(*out, *origins);  // if not, the files are to blame
  std::string others;
  for (const std::string& variable : sources.environment) {
    std::string used;
    errors.sentence += read_variable(variable, out, origins, &used).sentence;
    others += used.empty() ? "" : (others.empty() ? "" : ", ") + used;
  }
  for (const std::string& override_text : sources.overrides) {
    errors.sentence += read_override(override_text, out, origins).sentence;
    others += (others.empty() ? "--set " : ", --set ") + printable(override_text);
  }
  if (errors) {
    return errors;
  }
  settle_run(out, origins);
  const Objection conflict = find_conflict(*out);
  return conflict ? (was_good && !others.empty() ? others : files) + ": " + conflict.sentence + "\n" : conflict;
}

}  // namespace

Objection load_config(const ConfigSources& sources, Config* out, ConfigOrigins* origins) {
  ConfigOrigins unasked_origins;  // they say which keys are set
  origins = origins == nullptr ? &unasked_origins : origins;
  Objection errors = read_one(
      sources.path, "give the path of a TOML file with --config (experiments/demo.toml is an example)", out, origins);
  std::string files = sources.path;
  std::vector<std::string> fragments;
  if (const Objection problem = config_fragments(sources.path, &fragments, &out->ignored_files)) {
    errors.sentence += problem.sentence + "\n";
  }
  for (const std::string& fragment : fragments) {
    errors.sentence +=
        read_one(fragment, "put a TOML file that can be read in its place, or move it out of conf.d", out, origins)
            .sentence;
    files += ", " + fragment;
  }
  return load_others(sources, std::move(errors), files, out, origins);
}

Objection load_config(const std::string& path, const std::vector<std::string>& overrides, Config* out) {
  return load_config(ConfigSources{path, {}, overrides}, out);
}

Objection load_config_text(const std::string& text, const ConfigSources& sources, Config* out) {
  ConfigOrigins origins;
  Objection errors = read_text(text, {sources.path, sources.path, true}, out, &origins);
  return load_others(sources, std::move(errors), sources.path, out, &origins);
}

namespace {

// visit(section, key, value as text) in the order of the file.
template <typename Visit>
void visit_all(const Config& config, Visit&& visit) {
  visit_server_fields(config.server,
                      [&](const char* key, const auto& value) { visit("server", key, toml_text(value)); });
  visit_limits(config.server, [&](const char* key, uint32_t value, uint32_t, uint32_t) {
    visit("server.limits", key, toml_text(value));
  });
  visit_engine_fields(config.engine, [&](const char* key, const auto& value, uint32_t, uint32_t) {
    visit("engine", key, toml_text(value));
  });
  visit_keys(config.run, [&](const Key& key, const auto& value) { visit("run", key.name, text_of(key, value)); });
}

}  // namespace

std::vector<std::string> config_keys() {
  std::vector<std::string> keys;
  visit_all(Config(), [&](const std::string& section, const char* key, const std::string&) {
    keys.push_back(section + "." + key);
  });
  return keys;
}

std::string node_name(const EngineConfig& engine) {
  char machine[HOST_NAME_MAX + 1] = {};
  if (engine.node.empty()) {
    static_cast<void>(::gethostname(machine, sizeof machine - 1));
  }
  return engine.node.empty() ? machine : engine.node;
}

Objection check_node_name(const std::string& name) {
  const bool is_printable = std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
  return is_printable && !name.empty() && name.size() <= kNodeNameMax
             ? ""
             : "expected 1 to " + std::to_string(kNodeNameMax) + " printable ASCII characters without a blank";
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

std::string run_source(const RunParameters& run) {
  std::string text = "[run]\n";
  visit_keys(run, [&](const Key& key, const auto& value) {
    text += std::string(key.name) + " = " + text_of(key, value) + "\n";
  });
  return text;
}

Objection parse_run_source(const std::string& source, RunParameters* out) {
  Config config;
  Objection errors = read_text(source, {"stored run", "stored run", true}, &config, nullptr);
  *out = config.run;
  if (errors) {
    return errors;
  }
  const Objection objection = check_parameters(config.run);
  return objection ? "stored run: " + objection.sentence + "\n" : objection;
}

std::string value_text(const Config& config, const std::string& key) {
  std::string text;
  visit_all(config, [&](const std::string& section, const char* name, const std::string& value) {
    if (section + "." + name == key) {
      text = value;
    }
  });
  return text;
}

namespace {

// origins: null for none.
std::string text_with(const Config& config, const ConfigOrigins* origins) {
  std::string text;
  std::string open;
  visit_all(config, [&](const std::string& section, const char* key, const std::string& value) {
    if (section == "run" && !config.has_run) {
      return;
    }
    if (section != open) {
      text += (open.empty() ? "[" : "\n[") + section + "]\n";
      open = section;
    }
    text += std::string(key) + " = " + value;
    if (origins != nullptr) {
      const auto found = origins->find(section + "." + key);
      text += "  # " + (found == origins->end() ? std::string("default") : found->second);
    }
    text += '\n';
  });
  return text;
}

}  // namespace

std::string config_text(const Config& config) { return text_with(config, nullptr); }
std::string config_text(const Config& config, const ConfigOrigins& origins) { return text_with(config, &origins); }

}  // namespace gradstream
