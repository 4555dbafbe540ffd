#include "server/base/text_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gradstream {

namespace {

constexpr size_t kShownSizeMax = 40;  // bytes. Reason: a message stays one line

std::string cannot_be_read(int cause) { return std::string("cannot be read: ") + std::strerror(cause); }

// The clause, of an open file.
std::string read_open(int file, uint64_t size_max, std::string* out) {
  struct stat info = {};
  if (::fstat(file, &info) != 0) {
    return cannot_be_read(errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return S_ISDIR(info.st_mode) ? "is a folder; name a file" : "is no ordinary file; name one";
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > size_max) {
    return "has " + std::to_string(size) + " bytes, and at most " + std::to_string(size_max) + " are read";
  }
  out->assign(size, '\0');
  size_t filled = 0;
  while (filled < out->size()) {
    const ssize_t count = ::read(file, out->data() + filled, out->size() - filled);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return cannot_be_read(errno);
    }
    if (count == 0) {
      break;  // it became shorter
    }
    filled += static_cast<size_t>(count);
  }
  out->resize(filled);
  return {};
}

}  // namespace

std::string read_text_file(const std::string& path, uint64_t size_max, std::string* out) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // nobody may write to a pipe
  if (file < 0) {
    return cannot_be_read(errno);
  }
  std::string problem = read_open(file, size_max, out);
  ::close(file);
  return problem;
}

std::string shown(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = "`";
  for (const char c : text.substr(0, kShownSizeMax)) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out + (text.size() > kShownSizeMax ? "...`" : "`");
}

}  // namespace gradstream
