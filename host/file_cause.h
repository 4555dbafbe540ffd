// Why a file or folder could not be used, in words, and whether that mends by itself.
#ifndef GRADSTREAM_HOST_FILE_CAUSE_H_
#define GRADSTREAM_HOST_FILE_CAUSE_H_

namespace gradstream {

// Whether the cause (errno) may go away without a change to the configuration: a file system that is read-only until it
// was checked, a full disk, a file server that is away, too many open files.
bool is_temporary(int cause);

// The same of a path that could not be opened. Also ENOENT, if the folder of the path is missing or empty: then the
// file system that holds it is probably mounted later.
bool is_temporary_at(int cause, const char* path);

// Why the path cannot be read, or, if wants_write, why no file can be made in this folder. 0, or errno.
int find_path_fault(const char* path, bool wants_write);

// Opens an ordinary file to read it, without a wait for the writer of a pipe. -1, with errno: EISDIR for a folder,
// ESPIPE for a pipe, a socket or a device, and those of open().
int open_to_read(const char* path);

// The cause in words. It is strerror() where that names what a person can act on. Not thread-safe.
const char* cause_text(int cause);

// What to do about it, as the end of a sentence. `otherwise`: for a cause that has no remedy of its own.
const char* remedy_text(int cause, const char* otherwise);

}  // namespace gradstream

#endif  // GRADSTREAM_HOST_FILE_CAUSE_H_
