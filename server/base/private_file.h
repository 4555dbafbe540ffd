// Files that hold secrets.
#ifndef GRADSTREAM_SERVER_BASE_PRIVATE_FILE_H_
#define GRADSTREAM_SERVER_BASE_PRIVATE_FILE_H_

#include <string>

namespace gradstream {

// Whether anybody but its owner has a right on a file that holds a secret. False where it is not there.
bool is_read_by_others(const std::string& path);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_PRIVATE_FILE_H_
