// Names that survive a power cut. A name belongs to its folder: it is durable when the folder was written, not the
// file.
#ifndef GRADSTREAM_SERVER_BASE_DURABLE_FILE_H_
#define GRADSTREAM_SERVER_BASE_DURABLE_FILE_H_

#include <string>

namespace gradstream {

// "." for a bare name.
std::string folder_of(const std::string& path);

// Makes durable which names the folder of `path` holds. 0, or the cause (errno).
int sync_folder_of(const std::string& path);

// Gives a file, whose content is durable already, another name in the same file system. 0, or the cause (errno): the
// name may have changed, but a power cut may take it back.
int rename_durably(const std::string& from, const std::string& to);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_DURABLE_FILE_H_
