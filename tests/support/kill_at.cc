// Preloaded into a process, kills it with SIGKILL in place of the call whose number GS_KILL_AT names, from 1, of those
// that change what others see: fsync, fdatasync, rename, unlink, connect, send. How often a process receives is chance.
// tests/server/claims_test.py ends a client between each two of its steps.
#include <csignal>
#include <cstdlib>

#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

void count_call() {
  static const char* const text = std::getenv("GS_KILL_AT");
  static const long last = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  static long count = 0;
  if (++count == last) {
    ::kill(::getpid(), SIGKILL);
  }
}

// Of the library behind this one.
template <typename Function>
Function next(const char* name) {
  count_call();
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int fsync(int file) { return next<int (*)(int)>("fsync")(file); }

int fdatasync(int file) { return next<int (*)(int)>("fdatasync")(file); }

int rename(const char* from, const char* to) { return next<int (*)(const char*, const char*)>("rename")(from, to); }

int unlink(const char* path) { return next<int (*)(const char*)>("unlink")(path); }

int connect(int socket, const sockaddr* address, socklen_t size) {
  return next<int (*)(int, const sockaddr*, socklen_t)>("connect")(socket, address, size);
}

ssize_t send(int socket, const void* bytes, size_t size, int flags) {
  return next<ssize_t (*)(int, const void*, size_t, int)>("send")(socket, bytes, size, flags);
}
}
