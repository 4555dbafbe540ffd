// Preloaded into a process, writes down what it makes durable: to the file that GS_SYNC_LOG names, one line an event,
//   sync PATH SIZE MTIME      after an fsync or fdatasync of that file or folder, with its state then
//   rename FROM TO SIZE MTIME after a rename
//   connect 0 0               before the process tries to reach a peer
// tests/server/durable_files_test.py reads it: what is not synced is lost by a power cut, which no kill can show.
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void log_line(const std::string& text, const struct stat& info) {
  const char* const path = std::getenv("GS_SYNC_LOG");
  const int file = path == nullptr ? -1 : ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file >= 0) {
    const long long mtime = info.st_mtim.tv_sec * 1000000000LL + info.st_mtim.tv_nsec;
    dprintf(file, "%s %lld %lld\n", text.c_str(), static_cast<long long>(info.st_size), mtime);
    ::close(file);
  }
}

int log_sync(int file, int result) {
  char path[PATH_MAX] = {};
  struct stat info = {};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  if (result == 0 && readlink(link.c_str(), path, sizeof path - 1) > 0 && fstat(file, &info) == 0) {
    log_line(std::string("sync ") + path, info);
  }
  return result;
}

}  // namespace

extern "C" {

int fsync(int file) { return log_sync(file, next<int (*)(int)>("fsync")(file)); }

int fdatasync(int file) { return log_sync(file, next<int (*)(int)>("fdatasync")(file)); }

int rename(const char* from, const char* to) {
  const int result = next<int (*)(const char*, const char*)>("rename")(from, to);
  struct stat info = {};
  if (result == 0 && stat(to, &info) == 0) {
    log_line(std::string("rename ") + from + " " + to, info);
  }
  return result;
}

int connect(int socket, const sockaddr* address, socklen_t size) {
  log_line("connect", {});
  return next<int (*)(int, const sockaddr*, socklen_t)>("connect")(socket, address, size);
}
}
