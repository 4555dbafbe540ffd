#include "server/program/config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <type_traits>

// Errors come back as values: no exception crosses an interface of the server.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "server/base/listen_address.h"
#include "server/run/check_parameters.h"
#include "server/run/names.h"
#include "server/run/parts.h"

extern "C" char** environ;  // POSIX leaves its declaration to the program

namespace gradstream {

namespace {

struct Range {
  uint32_t least = 0;
  uint32_t most = std::numeric_limits<uint32_t>::max();
};

// ---- Values --------------------------------------------------------------------------------------------------------
// Each read_value() returns empty or what was expected instead.

std::string read_value(const toml::node& node, std::string* out, Range) {
  const auto value = node.value_exact<std::string>();
  if (!value) {
    return "a text in quotes";
  }
  *out = *value;
  return {};
}

std::string read_value(const toml::node& node, bool* out, Range) {
  const auto value = node.value_exact<bool>();
  if (!value) {
    return "true or false";
  }
  *out = *value;
  return {};
}

std::string read_value(const toml::node& node, uint32_t* out, Range range) {
  const auto value = node.value_exact<int64_t>();
  if (!value || *value < int64_t{range.least} || *value > int64_t{range.most}) {
    return "a whole number from " + std::to_string(range.least) + " to " + std::to_string(range.most);
  }
  *out = static_cast<uint32_t>(*value);
  return {};
}

std::string read_value(const toml::node& node, float* out, Range) {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  if (!value || !std::isfinite(static_cast<float>(*value))) {
    return "a finite number";
  }
  *out = static_cast<float>(*value);
  return {};
}

template <typename Enum>
requires std::is_enum_v<Enum> std::string read_value(const toml::node& node, Enum* out, Range) {
  const auto value = node.value_exact<std::string>();
  std::string words;
  for (const auto& [name, known] : names_of<Enum>()) {
    if (value && *value == name) {
      *out = known;
      return {};
    }
    words += std::string(words.empty() ? "" : ", ") + '"' + name + '"';
  }
  return "one of " + words;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    if (static_cast<unsigned char>(c) < ' ') {
      constexpr char kDigits[] = "0123456789abcdef";
      out += std::string("\\u00") + kDigits[static_cast<unsigned char>(c) >> 4] + kDigits[c & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string text_of(const std::string& value) { return quoted(value); }
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(uint32_t value) { return std::to_string(value); }
std::string text_of(float value) {
  std::array<char, 32> text = {};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}
template <typename Enum>
requires std::is_enum_v<Enum> std::string text_of(Enum value) { return quoted(name_of(value)); }

// ---- Errors --------------------------------------------------------------------------------------------------------

// A key of an earlier release, and what takes its place; other keys are nearer to it by spelling.
struct FormerKey {
  std::string_view name;
  const char* remedy;
};
constexpr FormerKey kFormerKeys[] = {
    {"run.use_correction", "correction_form has taken its place: \"local\" for true, \"none\" for false"},
};

std::string remedy_for(std::string_view section, std::string_view key, const std::vector<std::string>& known) {
  const std::string name = std::string(section) + "." + std::string(key);
  for (const FormerKey& former : kFormerKeys) {
    if (former.name == name) {
      return former.remedy;
    }
  }
  return "the nearest known one is " + nearest_of(key, known);
}

// What is being read, and what was wrong with it.
class Reader {
 public:
  // origin: what --print-config says of a value; where: the beginning of an error's line.
  Reader(std::string where, std::string origin, bool has_lines, ConfigOrigins* origins)
      : where_(std::move(where)), origin_(std::move(origin)), has_lines_(has_lines), origins_(origins) {}

  void error(const toml::node* node, const std::string& what) {
    errors_ += where_;
    if (has_lines_ && node != nullptr) {
      errors_ += ":" + std::to_string(node->source().begin.line);
    }
    errors_ += ": " + what + "\n";
  }
  const std::string& errors() const { return errors_; }

  // One key of a section, if it is there.
  template <typename Field>
  void field(const toml::table& table, const std::string& section, const char* key, Field& out, Range range = {}) {
    known_.emplace_back(key);
    const toml::node* const node = table.get(key);
    if (node == nullptr) {
      return;
    }
    const std::string expected = read_value(*node, &out, range);
    if (!expected.empty()) {
      error(node, section + "." + key + ": expected " + expected);
    }
    note_origin(*node, section + "." + key);
  }
  void know(const char* key) { known_.emplace_back(key); }
  void note_origin(const toml::node& node, const std::string& name) {
    if (origins_ != nullptr) {
      (*origins_)[name] = origin_ + (has_lines_ ? ":" + std::to_string(node.source().begin.line) : "");
    }
  }
  // After all fields of a section: whatever else stands in it is unknown.
  void finish(const toml::table& table, const std::string& section) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
        if (section.empty() && !node.is_table()) {
          error(&node, name + " stands before any section; put [server] or [run] above it");
          continue;
        }
        std::string what = section.empty() ? "section [" : "key " + section + ".";
        what += section.empty() ? name + "]" : name;
        error(&node, "unknown " + what + "; " + remedy_for(section, name, known_));
      }
    }
    known_.clear();
  }
  // The section as a table; null when it is missing or no table.
  const toml::table* section(const toml::table& root, const char* key, const std::string& name) {
    const toml::node* const node = root.get(key);
    if (node == nullptr) {
      return nullptr;
    }
    if (!node->is_table()) {
      error(node, "[" + name + "] must be a section");
    }
    return node->as_table();
  }

 private:
  std::string where_;
  std::string origin_;
  bool has_lines_;
  ConfigOrigins* origins_;
  std::string errors_;
  std::vector<std::string> known_;
};

void read_server(const toml::table& table, Reader& reader, ServerConfig* out) {
  visit_server_fields(*out, [&](const char* key, auto& value) { reader.field(table, "server", key, value); });
  reader.know("limits");
  reader.finish(table, "server");
  // Only what this table sets: what was wrong before is not the fault of an override of another key.
  LogLevel ignored_level;
  const toml::node* const level = table.get("log_level");
  if (level != nullptr && !parse_log_level(out->log_level, &ignored_level)) {
    reader.error(level, "server.log_level: expected one of \"debug\", \"info\", \"warn\", \"error\"");
  }
  Tcp::endpoint ignored_endpoint;
  const toml::node* const listen = table.get("listen");
  if (listen != nullptr && !parse_listen_address(out->listen, &ignored_endpoint)) {
    reader.error(listen,
                 "server.listen: expected ADDRESS:PORT with a numeric address and a port from 0 to 65535, such "
                 "as \"127.0.0.1:7433\" or \"[::]:7433\"");
  }
  const toml::node* const http = table.get("http_listen");
  if (http != nullptr && !out->http_listen.empty() && !parse_listen_address(out->http_listen, &ignored_endpoint)) {
    reader.error(http, "server.http_listen: expected nothing, or ADDRESS:PORT such as \"127.0.0.1:7434\"");
  }
  const toml::node* const database = table.get("database");
  if (database != nullptr && out->database.empty()) {
    reader.error(database, "server.database: expected the path of a file");
  }
  if (const toml::table* const limits = reader.section(table, "limits", "server.limits")) {
    visit_limits(*out, [&](const char* key, uint32_t& value, uint32_t least, uint32_t most) {
      reader.field(*limits, "server.limits", key, value, {least, most});
    });
    reader.finish(*limits, "server.limits");
  }
}

// Texts, joined by commas.
void read_list(const toml::array& list, const char* key, Reader& reader, std::string* out) {
  reader.know(key);
  reader.note_origin(list, std::string("run.") + key);
  out->clear();
  for (const toml::node& node : list) {
    std::string text;
    const std::string expected = read_value(node, &text, {});
    if (!expected.empty()) {
      reader.error(&node, std::string("run.") + key + ": expected a list, each " + expected);
      return;
    }
    *out += (out->empty() ? "" : ", ") + text;
  }
}

void read_run(const toml::table& table, Reader& reader, RunParameters* out) {
  visit_fields(*out, [&](const char* key, auto& value) {
    if constexpr (std::is_same_v<decltype(value), uint32_t&>) {
      if (&value == &out->update_goal && table[key].value_exact<std::string>() == "all") {
        value = 0;
        reader.know(key);
        reader.note_origin(*table.get(key), "run.update_goal");
        return;
      }
    }
    if constexpr (std::is_same_v<decltype(value), std::string&>) {
      const toml::array* const list = table[key].as_array();
      if (&value == &out->parts && list != nullptr) {
        read_list(*list, key, reader, &value);
        return;
      }
    }
    reader.field(table, "run", key, value);
  });
  set_parts(out);
  reader.finish(table, "run");
}

void read_document(const toml::table& root, Reader& reader, Config* out) {
  for (const char* const name : {"server", "run", "demo"}) {
    reader.know(name);
  }
  reader.finish(root, "");
  if (const toml::table* const server = reader.section(root, "server", "server")) {
    read_server(*server, reader, &out->server);
  }
  if (const toml::table* const run = reader.section(root, "run", "run")) {
    out->has_run = true;
    read_run(*run, reader, &out->run);
  }
}

struct Source {
  std::string where;   // the beginning of an error's line
  std::string origin;  // what --print-config says
  bool has_lines = false;
};

std::string read_text(const std::string& text, const Source& source, Config* out, ConfigOrigins* origins) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    const std::string line = source.has_lines ? ":" + std::to_string(error.source().begin.line) : "";
    return source.where + line + ": " + std::string(error.description()) + "\n";
  }
  Reader reader(source.where, source.origin, source.has_lines, origins);
  read_document(parsed.table(), reader, out);
  return reader.errors();
}

// One value from outside the files: a small document of its own, so that it is read like them.
std::string read_value_text(const std::string& name, const std::string& value, const Source& source, Config* out,
                            ConfigOrigins* origins) {
  const size_t dot = name.rfind('.');
  const bool is_toml = static_cast<bool>(toml::parse("x = " + value));
  return read_text(
      "[" + name.substr(0, dot) + "]\n" + name.substr(dot + 1) + " = " + (is_toml ? value : quoted(value)) + "\n",
      source, out, origins);
}

// One `--set section.key=value`.
std::string read_override(const std::string& text, Config* out, ConfigOrigins* origins) {
  const std::string where = "--set " + text;
  const size_t equals = text.find('=');
  const size_t dot = equals == std::string::npos ? std::string::npos : text.rfind('.', equals);
  if (dot == std::string::npos || dot == 0 || dot + 1 == equals || equals + 1 == text.size()) {
    return where + ": expected SECTION.KEY=VALUE, such as run.step_size=0.1\n";
  }
  return read_value_text(text.substr(0, equals), text.substr(equals + 1), {where, "--set", false}, out, origins);
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
std::string read_variable(const std::string& text, Config* out, ConfigOrigins* origins, std::string* used) {
  used->clear();
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  if (equals == std::string::npos || !name.starts_with(kVariablePrefix) || name == "GRADSTREAM_CONFIG") {
    return {};
  }
  std::vector<std::string> variables;
  for (const std::string& key : config_keys()) {
    if (variables.emplace_back(variable_of(key)) == name) {
      *used = name;
      return read_value_text(key, text.substr(equals + 1), {name, name, false}, out, origins);
    }
  }
  variables.emplace_back("GRADSTREAM_CONFIG");
  return name + ": unknown variable; the nearest known one is " + nearest_of(name, variables) + "\n";
}

// Empty, or a line. A file that is no file is named by the cause.
std::string read_file(const std::string& path, Config* out, ConfigOrigins* origins) {
  const char* const remedy = "; give the path of a TOML file with --config (experiments/demo.toml is an example)\n";
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return "configuration " + path + " cannot be read: it is a folder" + remedy;
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file) {
    text << file.rdbuf();
  }
  if (!file || file.bad()) {
    return "configuration " + path + " cannot be read: " + std::strerror(errno) + remedy;
  }
  return read_text(text.str(), {path, path, true}, out, origins);
}

// conf.d/*.toml beside the file, by name. *error: the folder is there and cannot be read.
std::vector<std::string> fragments_of(const std::string& path, std::string* error) {
  std::vector<std::string> fragments;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path() / "conf.d";
  std::error_code code;
  if (!std::filesystem::is_directory(folder, code)) {
    return fragments;
  }
  for (std::filesystem::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    if (it->path().extension() == ".toml") {
      fragments.push_back(it->path().string());
    }
  }
  if (code) {
    *error = "folder " + folder.string() + " cannot be read: " + code.message() + "; check its permissions\n";
  }
  std::sort(fragments.begin(), fragments.end());
  return fragments;
}

// What is wrong with values that are each in range; empty: nothing.
std::string find_conflict(const Config& config) {
  const std::string problem = config.has_run ? check_parameters(config.run) : "";
  if (!problem.empty()) {
    return "[run] " + problem;
  }
  Tcp::endpoint http;
  if (config.server.http_token_file.empty() && parse_listen_address(config.server.http_listen, &http) &&
      !is_loopback(http)) {
    return "server.http_listen " + config.server.http_listen +
           " can be reached from other machines: set "
           "server.http_token_file to a file with a token, or listen on 127.0.0.1";
  }
  const CredentialPaths& files = config.server.credentials;
  if (files.authority.empty() != files.certificate.empty() || files.authority.empty() != files.key.empty()) {
    return "server.device_ca_file, server.certificate_file and server.certificate_key_file belong together: set all "
           "three, or none";
  }
  if (std::find(std::begin(kRegistrations), std::end(kRegistrations), config.server.device_registration) ==
      std::end(kRegistrations)) {
    return "server.device_registration: expected off, pending or active, not " + config.server.device_registration;
  }
  const SessionLimits& session = config.server.listener.session;
  return session.refusal_retry_min_ms > session.refusal_retry_max_ms
             ? "server.limits.refusal_retry_min_ms must not be above refusal_retry_max_ms"
             : "";
}

}  // namespace

std::string load_config(const ConfigSources& sources, Config* out, ConfigOrigins* origins) {
  std::string errors = read_file(sources.path, out, origins);
  std::string files = sources.path;
  const std::vector<std::string> fragments = fragments_of(sources.path, &errors);
  for (const std::string& fragment : fragments) {
    errors += read_file(fragment, out, origins);
    files += ", " + fragment;
  }
  const bool was_good = find_conflict(*out).empty();  // if not, the files are to blame
  std::string others;
  for (const std::string& variable : sources.environment) {
    std::string used;
    errors += read_variable(variable, out, origins, &used);
    others += used.empty() ? "" : (others.empty() ? "" : ", ") + used;
  }
  for (const std::string& override_text : sources.overrides) {
    errors += read_override(override_text, out, origins);
    others += (others.empty() ? "--set " : ", --set ") + override_text;
  }
  const std::string conflict = errors.empty() ? find_conflict(*out) : "";
  return conflict.empty() ? errors : (was_good && !others.empty() ? others : files) + ": " + conflict + "\n";
}

std::string load_config(const std::string& path, const std::vector<std::string>& overrides, Config* out) {
  return load_config(ConfigSources{path, {}, overrides}, out);
}

std::vector<std::string> process_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

namespace {

// visit(section, key, value as text) in the order of the file.
template <typename Visit>
void visit_all(const Config& config, Visit&& visit) {
  visit_server_fields(config.server, [&](const char* key, const auto& value) { visit("server", key, text_of(value)); });
  visit_limits(config.server, [&](const char* key, uint32_t value, uint32_t, uint32_t) {
    visit("server.limits", key, text_of(value));
  });
  visit_fields(config.run, [&](const char* key, const auto& value) { visit("run", key, text_of(value)); });
}

}  // namespace

std::vector<std::string> config_keys() {
  std::vector<std::string> keys;
  visit_all(Config(), [&](const std::string& section, const char* key, const std::string&) {
    keys.push_back(section + "." + key);
  });
  return keys;
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

std::string run_source(const RunParameters& run) {
  std::string text = "[run]\n";
  visit_fields(run,
               [&](const char* key, const auto& value) { text += std::string(key) + " = " + text_of(value) + "\n"; });
  return text;
}

std::string parse_run_source(const std::string& source, RunParameters* out) {
  Config config;
  std::string errors = read_text(source, {"stored run", "stored run", true}, &config, nullptr);
  *out = config.run;
  const std::string problem = errors.empty() ? check_parameters(config.run) : "";
  return problem.empty() ? errors : "stored run: " + problem + "\n";
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
