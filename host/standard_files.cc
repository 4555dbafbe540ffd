#include "host/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

namespace gradstream {

void open_standard_files() {
  int file = 0;
  // open() takes the lowest number that is free.
  do {
    file = ::open("/dev/null", O_RDWR);
    if (file < 0) {
      // A root folder without /dev. Such a descriptor takes no bytes, and keeps the number from others.
      file = ::open("/", O_PATH);
    }
  } while (file >= 0 && file <= STDERR_FILENO);
  if (file >= 0) {
    ::close(file);
  }
}

}  // namespace gradstream
