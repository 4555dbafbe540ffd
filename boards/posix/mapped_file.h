// A file of samples as memory: mapped read-only, so that of large data the process holds what it reads, and the kernel
// takes it back when memory is short.
#ifndef GRADSTREAM_BOARDS_POSIX_MAPPED_FILE_H_
#define GRADSTREAM_BOARDS_POSIX_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include <time.h>

namespace gradstream {

// Zero-initialised: nothing is mapped.
struct MappedFile {
  std::span<const uint8_t> bytes;
  int descriptor = -1;
  timespec changed_at = {};  // of the file, when it was mapped
};

// False: errno says why (ENODATA: the file is empty); *file is then as it was. *file must hold nothing.
bool map_file(const char* path, MappedFile* file);

// Whether the file has another length, or was written to, since it was mapped. One that was put in its place under its
// name is another file: what is mapped stays whole.
bool is_changed(const MappedFile& file);

// The bytes are no more. Of nothing mapped: no effect.
void unmap_file(MappedFile* file);

// From now on a read beyond the end of the file, where it was cut short meanwhile, writes cut_line on standard error
// and ends the process with this exit status; a SIGBUS of any other address ends it as ever. check_guarded_file() does
// the same with changed_line once is_changed(file). A file that is whole and yet cannot be read, or looked at, is on a
// disk that failed or is gone: failed_line and failed_status. One file at a time; all must outlive the process's use of
// it.
struct MappedFileGuard {
  const MappedFile* file = nullptr;
  const char* cut_line = nullptr;
  const char* changed_line = nullptr;
  int exit_status = 1;
  const char* failed_line = "";
  int failed_status = 1;
};
void guard_mapped_file(const MappedFileGuard& guard);
// Without a guarded file: no effect.
void check_guarded_file();

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_POSIX_MAPPED_FILE_H_
