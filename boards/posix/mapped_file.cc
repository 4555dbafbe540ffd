#include "boards/posix/mapped_file.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/log_file.h"

namespace gradstream {
namespace {

MappedFileGuard guarded;

void end_process(const char* line, int status) {
  write_last_line(line);
  ::_exit(status);
}

// -1: the file cannot be looked at.
off_t size_now(const MappedFile& file) {
  struct stat status = {};
  return ::fstat(file.descriptor, &status) == 0 ? status.st_size : -1;
}

// Of a file that was written to or cut short; has_failed: of one that cannot be read though nobody did that.
void end_for_file(bool has_failed, const char* line) {
  end_process(has_failed ? guarded.failed_line : line, has_failed ? guarded.failed_status : guarded.exit_status);
}

// Of another address it is no word about the file: the process ends by the signal, as it would without this.
void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto begin = reinterpret_cast<uintptr_t>(guarded.file->bytes.data());
  if (reinterpret_cast<uintptr_t>(info->si_addr) - begin < guarded.file->bytes.size()) {
    const off_t size = size_now(*guarded.file);
    end_for_file(size < 0 || static_cast<size_t>(size) >= guarded.file->bytes.size(), guarded.cut_line);
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);  // comes when this returns
}

bool is_same_time(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

// False, with the descriptor closed and errno kept.
bool give_up(int descriptor, int error) {
  ::close(descriptor);
  errno = error;
  return false;
}

}  // namespace

bool map_file(const char* path, MappedFile* file) {
  const int descriptor = ::open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return false;
  }
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) {
    return give_up(descriptor, errno);
  }
  if (S_ISDIR(status.st_mode)) {
    return give_up(descriptor, EISDIR);
  }
  if (status.st_size <= 0) {
    return give_up(descriptor, ENODATA);
  }
  const auto size = static_cast<size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) {
    return give_up(descriptor, errno);
  }
  *file = {{static_cast<const uint8_t*>(address), size}, descriptor, status.st_mtim};
  return true;
}

bool is_changed(const MappedFile& file) {
  struct stat status = {};
  return ::fstat(file.descriptor, &status) != 0 || static_cast<size_t>(status.st_size) != file.bytes.size() ||
         !is_same_time(status.st_mtim, file.changed_at);
}

void unmap_file(MappedFile* file) {
  if (file->descriptor < 0) {
    return;
  }
  ::munmap(const_cast<uint8_t*>(file->bytes.data()), file->bytes.size());
  ::close(file->descriptor);
  *file = {};
}

void guard_mapped_file(const MappedFileGuard& guard) {
  guarded = guard;
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void check_guarded_file() {
  if (guarded.file != nullptr && is_changed(*guarded.file)) {
    end_for_file(size_now(*guarded.file) < 0, guarded.changed_line);
  }
}

}  // namespace gradstream
