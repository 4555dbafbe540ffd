// The state of a device in a file, which is replaced as a whole.
#ifndef GRADSTREAM_BOARDS_POSIX_STATE_FILE_H_
#define GRADSTREAM_BOARDS_POSIX_STATE_FILE_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/link/port.h"

namespace gradstream {

// Bytes of a path. Reason: Linux takes 4,095, and the file that replaces it has a longer name.
inline constexpr size_t kStatePathSizeMax = 4000;

// The pieces, one after the other, in place of what is there. Its folder exists. kClosed: errno says why.
Status write_state_file(const char* path, const StoragePiece* pieces, size_t count);
// Bytes of the file, 0 where there is none, and the first of them to out, up to capacity. kClosed.
Result<size_t> read_state_file(const char* path, uint8_t* out, size_t capacity);

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_POSIX_STATE_FILE_H_
