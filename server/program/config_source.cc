#include "server/program/config_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "host/read_file.h"
#include "server/program/toml_document.h"

extern "C" char** environ;  // POSIX leaves its declaration to the program

namespace gradstream {

Objection read_config_file(const std::string& path, std::string* out) {
  const int cause = read_file(path.c_str(), kTomlSizeMax, out);
  switch (cause) {
    case 0:
      return {};
    case EISDIR:
      return "it is a folder";
    case ESPIPE:
      return cause_text(cause);
    case EFBIG:
      return "it has more than " + std::to_string(kTomlSizeMax) + " bytes";
    default:
      return std::strerror(cause);
  }
}

Objection config_fragments(const std::string& path, std::vector<std::string>* out, std::vector<std::string>* ignored) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path() / "conf.d";
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(folder, code);
  if (status.type() == std::filesystem::file_type::not_found) {
    return {};
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_directory(status)) {
    return folder.string() + " is no folder; put the files *.toml into a folder of this name, or move it away";
  }
  for (std::filesystem::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    if (it->path().extension() == ".toml") {
      out->push_back(it->path().string());
    } else if (!it->path().filename().string().starts_with('.')) {  // an editor's, or a cluster's `..data`
      ignored->push_back(it->path().string() +
                         " is not read, as its name does not end with .toml; rename it, or move "
                         "it out of conf.d");
    }
  }
  if (code) {
    return "folder " + folder.string() + " cannot be read: " + code.message() + "; check its permissions";
  }
  std::sort(out->begin(), out->end());
  std::sort(ignored->begin(), ignored->end());
  return {};
}

namespace {

// What follows "_PORT" in a name: nothing, or `_NUMBER_PROTOCOL` and perhaps one word of it.
bool is_port_tail(std::string_view tail, std::string_view value) {
  if (tail.empty()) {
    return value.find("://") != std::string_view::npos;
  }
  const size_t end = std::min(tail.find_first_not_of("0123456789", 1), tail.size());
  if (tail.front() != '_' || end == 1) {
    return false;
  }
  for (const char* const protocol : {"_TCP", "_UDP", "_SCTP"}) {
    for (const char* const word : {"", "_PROTO", "_PORT", "_ADDR"}) {
      if (tail.substr(end) == std::string(protocol) + word) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

bool is_service_variable(std::string_view name, std::string_view value) {
  constexpr std::string_view kServicePort = "_SERVICE_PORT";
  const size_t service = name.find(kServicePort);
  const std::string_view behind = service == std::string_view::npos ? "" : name.substr(service + kServicePort.size());
  if (name.ends_with("_SERVICE_HOST") || name.ends_with(kServicePort) || behind.starts_with('_')) {
    return true;
  }
  if (name.find("_ENV_") != std::string_view::npos || (name.ends_with("_NAME") && value.starts_with('/'))) {
    return true;  // of a link: the other container's variables, and `/THIS/THAT`
  }
  constexpr std::string_view kPort = "_PORT";
  for (size_t at = name.find(kPort); at != std::string_view::npos; at = name.find(kPort, at + 1)) {
    if (is_port_tail(name.substr(at + kPort.size()), value)) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> process_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

}  // namespace gradstream
