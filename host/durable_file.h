// Names that survive a power cut. A name belongs to its folder: it is durable when the folder was written.
#ifndef GRADSTREAM_HOST_DURABLE_FILE_H_
#define GRADSTREAM_HOST_DURABLE_FILE_H_

#include <cstddef>

namespace gradstream {

// Writes all bytes, and waits until the disk has them. 0, or the cause (errno); ENOSPC also where a write is cut short.
int write_durably(int file, const char* bytes, size_t size);

// Makes durable which names the folder of `path` holds. 0, or the cause (errno).
int sync_folder_of(const char* path);

// Gives a file, whose content is durable already, another name in the same file system. 0, or the cause (errno): the
// name may have changed, but a power cut may take it back.
int rename_durably(const char* from, const char* to);

}  // namespace gradstream

#endif  // GRADSTREAM_HOST_DURABLE_FILE_H_
