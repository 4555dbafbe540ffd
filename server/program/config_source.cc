#include "server/program/config_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/program/toml_document.h"

extern "C" char** environ;  // POSIX leaves its declaration to the program

namespace gradstream {

std::string read_config_file(const std::string& path, std::string* out) {
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat status = {};
  if (file < 0 || fstat(file, &status) != 0) {
    const int error = errno;
    if (file >= 0) {
      close(file);
    }
    return std::strerror(error);
  }
  std::string problem;
  if (S_ISDIR(status.st_mode)) {
    problem = "it is a folder";
  } else if (!S_ISREG(status.st_mode)) {
    problem = "it is a pipe, a socket or a device, not a file";
  }
  std::array<char, 65536> block = {};
  ssize_t size = 1;
  while (problem.empty() && size != 0 && out->size() <= kTomlSizeMax) {
    size = read(file, block.data(), block.size());
    if (size < 0 && errno != EINTR) {
      problem = std::strerror(errno);
    }
    out->append(block.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  }
  if (problem.empty() && out->size() > kTomlSizeMax) {
    problem = "it has more than " + std::to_string(kTomlSizeMax) + " bytes";
  }
  close(file);
  return problem;
}

std::string config_fragments(const std::string& path, std::vector<std::string>* out) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path() / "conf.d";
  std::error_code code;
  if (!std::filesystem::is_directory(folder, code)) {
    return {};
  }
  for (std::filesystem::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    if (it->path().extension() == ".toml") {
      out->push_back(it->path().string());
    }
  }
  if (code) {
    return "folder " + folder.string() + " cannot be read: " + code.message() + "; check its permissions";
  }
  std::sort(out->begin(), out->end());
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
