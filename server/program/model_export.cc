#include "server/program/model_export.h"

#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/durable_file.h"
#include "host/file_cause.h"

namespace gradstream {

namespace {

// Length of magic, version and header together is a multiple of this, by the format.
constexpr size_t kNpyAlignment = 64;

std::string cannot_write(const std::string& path, int cause) {
  return "cannot write " + path + ": " + cause_text(cause) + "; " +
         remedy_text(cause, "check server.export_dir (or --out), its permissions and the space on that disk");
}

}  // namespace

std::vector<uint8_t> npy_head(const std::string& descr, const std::string& shape) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  const size_t prefix_size = 10;
  while ((prefix_size + header.size() + 1) % kNpyAlignment != 0) {
    header.push_back(' ');
  }
  header.push_back('\n');
  constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
  std::vector<uint8_t> bytes(kMagic.begin(), kMagic.end());
  bytes.push_back(static_cast<uint8_t>(header.size()));
  bytes.push_back(static_cast<uint8_t>(header.size() >> 8));
  bytes.insert(bytes.end(), header.begin(), header.end());
  return bytes;
}

std::vector<uint8_t> npy_bytes(Shape shape, std::span<const Real> model) {
  static_assert(sizeof(Real) == 4 && std::endian::native == std::endian::little, "exports are little-endian f32");
  std::vector<uint8_t> bytes =
      npy_head("<f4", "(" + std::to_string(shape.rows) + ", " + std::to_string(shape.cols) + ")");
  const auto* const values = reinterpret_cast<const uint8_t*>(model.data());
  bytes.insert(bytes.end(), values, values + model.size_bytes());
  return bytes;
}

std::string csv_text(Shape shape, std::span<const Real> model) {
  std::string text;
  std::array<char, 32> number = {};
  for (size_t i = 0; i < shape.size(); ++i) {
    text.append(number.data(), std::to_chars(number.data(), number.data() + number.size(), model[i]).ptr);
    text.push_back((i + 1) % shape.cols == 0 ? '\n' : ',');
  }
  return text;
}

std::string version_file_name(uint32_t run, uint32_t version) {
  char name[40];
  std::snprintf(name, sizeof name, "run%u_v%06u.npy", run, version);
  return name;
}

std::string average_file_name(const std::string& version_path) {
  return version_path.substr(0, version_path.rfind('.')) + "_average.npy";
}

Objection check_target(const std::string& path) {
  struct stat info = {};
  if (path.empty()) {
    return "an empty name is no file; name the file to write";
  }
  if (::lstat(path.c_str(), &info) != 0) {
    return {};
  }
  if (!S_ISREG(info.st_mode)) {
    return path + " is there already, and no ordinary file; give another name";
  }
  constexpr std::string_view kDatabaseMark = "SQLite format 3";
  std::array<char, kDatabaseMark.size()> head = {};
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const bool is_database = file >= 0 && ::read(file, head.data(), head.size()) == static_cast<ssize_t>(head.size()) &&
                           std::string_view(head.data(), head.size()) == kDatabaseMark;
  if (file >= 0) {
    ::close(file);
  }
  return is_database ? path + " is a database, and stays as it is; give another name" : "";
}

namespace {

// 0, or errno.
int write_beside(const std::string& path, const std::string& beside, std::span<const uint8_t> bytes) {
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) {
    return errno;
  }
  int cause = write_durably(file, reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (::close(file) != 0 && cause == 0) {
    cause = errno;
  }
  cause = cause == 0 ? rename_durably(beside.c_str(), path.c_str()) : cause;
  if (cause != 0) {
    ::unlink(beside.c_str());
  }
  return cause;
}

}  // namespace

Objection write_file_atomically(const std::string& path, std::span<const uint8_t> bytes, bool* is_temporary) {
  Objection problem = check_target(path);
  const int cause = problem ? 0 : write_beside(path, path + ".part", bytes);
  if (is_temporary != nullptr) {
    *is_temporary = gradstream::is_temporary(cause);
  }
  return cause == 0 ? problem : cannot_write(path, cause);
}

Objection check_export_folder(const std::string& folder, bool may_write) {
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0) {
    const int cause = errno;
    return cause == ENOENT ? "export folder " + folder + " does not exist; create it (mkdir -p " + folder +
                                 ") or set server.export_dir to another one"
                           : "export folder " + folder + " cannot be used: " + cause_text(cause) + "; " +
                                 remedy_text(cause, "correct server.export_dir, or the permissions on the way to it");
  }
  if (!S_ISDIR(info.st_mode)) {
    return "export folder " + folder + " is no folder; set server.export_dir to one, or to nothing for no files";
  }
  if (!may_write) {
    return ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0
               ? ""
               : "export folder: " + cannot_write(folder, errno);
  }
  const std::string probe = folder + "/.gradstream_probe";
  const Objection problem = write_file_atomically(probe, {});
  ::unlink(probe.c_str());
  return problem ? "export folder: " + problem.sentence : problem;
}

}  // namespace gradstream
